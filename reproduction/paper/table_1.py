"""Table 1: epsilon with Poisson batches beside fixed batches, printed beside certified."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import tightrope as tr
from reproduction.paper.item import (
    AGREES,
    CORRECTED,
    UNDECIDED,
    Claim,
    Item,
    Made,
    Making,
    Verdict,
    markdown_table,
)
from reproduction.paper.number_files import at_least, at_most, save_rows, shown
from tightrope.setting.sampling import Sampling

NOISE, STEPS = 0.8, 10_000
SAMPLINGS: dict[str, Sampling] = {
    "Poisson": tr.Poisson(rate=0.001),
    "without replacement": tr.WithoutReplacement(batch=50, population=50_000),
}
PRINTED = {
    ("Poisson", 1e-7): "1.19",
    ("Poisson", 1e-6): "0.96",
    ("Poisson", 1e-5): "0.80",
    ("Poisson", 1e-4): "0.64",
    ("without replacement", 1e-7): "17.48",
    ("without replacement", 1e-6): "15.26",
    ("without replacement", 1e-5): "12.98",
    ("without replacement", 1e-4): "10.62",
}
DELTAS = (1e-7, 1e-6, 1e-5, 1e-4)
STATED_ERROR = 0.01  # of the accountant the paper names, in epsilon
ACCURACY, QUICK_ACCURACY = 1e-6, 1e-3
DIGITS = 8


@dataclass(frozen=True)
class Cell:
    """One entry: what is printed, and what is certain."""

    sampling: str
    delta: float
    printed: str
    certified: tr.Bracket

    @property
    def verdict(self) -> Verdict:
        """Whether the printed digits are those of every number in the bracket, rounded to nearest."""
        place = Decimal(1).scaleb(int(Decimal(self.printed).as_tuple().exponent))
        rounded = {Decimal(end).quantize(place) for end in (self.certified.lower, self.certified.upper)}
        if Decimal(self.printed) not in rounded:
            return CORRECTED
        return AGREES if len(rounded) == 1 else UNDECIDED

    @property
    def least_excess(self) -> float:
        """How much the printed number is certainly too high, or negative by how much it may be too low."""
        return float(self.printed) - self.certified.upper

    @property
    def words(self) -> str:
        """The verdict in the table."""
        if self.verdict is not CORRECTED:
            return self.verdict.value
        if self.least_excess > 0:
            return f"too high by {at_least(self.least_excess, 2)}"
        return f"too low by {at_least(self.certified.lower - float(self.printed), 2)}"


def cells(making: Making) -> list[Cell]:
    """The whole table."""
    found: list[Cell] = []
    accuracy = QUICK_ACCURACY if making.quick else ACCURACY
    for sampling, delta in PRINTED:
        making.progress("epsilons", len(found), len(PRINTED))
        run = tr.Step(tr.Gaussian(noise_multiplier=NOISE), SAMPLINGS[sampling]) * STEPS
        bracket = tr.epsilon(run, delta=delta, relation=tr.ADD_OR_REMOVE, by=tr.Certified(accuracy=accuracy))
        found.append(Cell(sampling, delta, PRINTED[sampling, delta], bracket))
    making.progress("epsilons", len(found), len(PRINTED))
    return found


def cell_claim(cell: Cell) -> Claim:
    """One entry."""
    where = f"Table 1, {cell.sampling}, δ = {cell.delta:.0e}"
    return Claim(where, cell.printed, f"{shown(cell.certified, DIGITS)}: {cell.words}", cell.verdict)


def gap_claim(found: list[Cell]) -> Claim:
    """What the table is there to show."""
    of = {(cell.sampling, cell.delta): cell.certified for cell in found}
    poisson, fixed = SAMPLINGS
    least = min(of[fixed, delta].lower / of[poisson, delta].upper for delta in DELTAS)
    slack = of[fixed, DELTAS[-1]].lower / of[poisson, DELTAS[0]].upper
    return Claim(
        "Table 1",
        "a big gap remains even with slack of several orders of magnitude in δ",
        f"without replacement ε is at least {at_least(least, 4)} times that of Poisson sampling at the same "
        f"δ, and at δ = 1e-04 still at least {at_least(slack, 3)} times that of Poisson sampling at δ = "
        "1e-07",
        AGREES if slack > 1 else CORRECTED,
    )


def high_claim(found: list[Cell]) -> Claim:
    """All entries together, and why."""
    off = [cell for cell in found if cell.verdict is CORRECTED]
    excess = [cell.least_excess for cell in found]
    bounds = all(value >= 0 for value in excess)
    stated = max(excess) <= 2 * STATED_ERROR
    return Claim(
        "Table 1",
        "eight epsilons with two digits after the point",
        f"{len(off)} of {len(found)} are not the exact value in the printed digits, "
        f"{'all' if bounds else 'not all'} are upper bounds; their excess is {min(excess):.2g} to "
        f"{at_most(max(excess), 3)}",
        CORRECTED if off else AGREES,
        "The accountant that the paper names in this section approximates ε with a stated error of 0.01 and "
        "reports the upper end, which may exceed the truth by up to twice that"
        + ("; all differences fit into it. " if stated else ", and some differences exceed it. ")
        + "So the printed numbers are valid bounds, but not the epsilons rounded."
        if off and bounds
        else "",
    )


def rows(found: list[Cell]) -> list[list[str]]:
    """Both columns of the paper beside ours."""
    body = [
        [f"{cell.delta:.0e}", cell.sampling, cell.printed, shown(cell.certified, DIGITS), cell.words]
        for cell in found
    ]
    return [["δ", "sampling", "printed ε", "certified ε", "verdict"], *body]


def table(found: list[Cell], folder: Path) -> Path:
    """The cells as CSV."""
    body = [
        [
            cell.sampling,
            cell.delta,
            cell.printed,
            cell.certified.lower,
            cell.certified.upper,
            cell.verdict.value,
        ]
        for cell in found
    ]
    return save_rows(
        folder / "table-1.csv",
        ["sampling", "delta", "printed", "epsilon_lower", "epsilon_upper", "verdict"],
        body,
    )


def make(making: Making) -> Made:
    """Table and claims."""
    found = cells(making)
    passage = (
        f"Gaussian noise {NOISE:g}, {STEPS:,} steps, sampling rate 0.001 (without replacement: 50 of "
        f"50,000), add or remove one record.\n\n{markdown_table(rows(found))}"
    )
    claims = (*(cell_claim(cell) for cell in found), high_claim(found), gap_claim(found))
    return Made(claims, (table(found, making.folder),), (), passage)


ITEM = Item("table-1", "Table 1: Poisson against fixed batches", make)
