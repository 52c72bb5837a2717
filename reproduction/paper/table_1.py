"""Table 1: epsilon with Poisson batches beside fixed batches, printed beside certified."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import tightrope as tr
from reproduction.markdown import markdown_table
from reproduction.paper.item import (
    AGREES,
    CORRECTED,
    UNDECIDED,
    UPPER_BOUND,
    Item,
    Made,
    Making,
    PaperClaim,
    PaperVerdict,
)
from reproduction.paper.numbers import at_least, at_most, save_rows, show
from tightrope.setting.sampling import Sampling

NOISE, STEPS = 0.8, 10_000
SAMPLINGS: dict[str, Sampling] = {
    "Poisson": tr.Poisson(rate=0.001),
    "without replacement": tr.WithoutReplacement(batch=50, population=50_000),
}
DELTAS = (1e-7, 1e-6, 1e-5, 1e-4)
PRINTED = {
    "Poisson": ("1.19", "0.96", "0.80", "0.64"),
    "without replacement": ("17.48", "15.26", "12.98", "10.62"),
}
STATED_ERROR = 0.01  # in epsilon: the default `eps_error` of Opacus' PRVAccountant.get_epsilon (1.6.0)
ACCURACY, QUICK_ACCURACY = 1e-6, 1e-3
DIGITS = 8


@dataclass(frozen=True)
class TableEntry:
    """One entry: what is printed, and what is certain."""

    sampling: str
    delta: float
    printed: str
    certified: tr.Bracket

    @property
    def verdict(self) -> PaperVerdict:
        """Whether the printed digits are the exact value's, rounded to nearest, or else a valid bound."""
        place = Decimal(1).scaleb(int(Decimal(self.printed).as_tuple().exponent))
        rounded = {Decimal(end).quantize(place) for end in (self.certified.lower, self.certified.upper)}
        if Decimal(self.printed) in rounded:
            return AGREES if len(rounded) == 1 else UNDECIDED
        if self.least_excess >= 0:
            return UPPER_BOUND
        return CORRECTED if float(self.printed) < self.certified.lower else UNDECIDED

    @property
    def least_excess(self) -> float:
        """How far the printed number certainly is above the exact one; negative if it may be below."""
        return float(self.printed) - self.certified.upper

    @property
    def words(self) -> str:
        """The verdict in the table."""
        if self.verdict is UPPER_BOUND:
            return f"valid, at least {at_least(self.least_excess, 2)} above the exact value"
        if self.verdict is CORRECTED:
            return f"too low by at least {at_least(self.certified.lower - float(self.printed), 2)}"
        return self.verdict.value


def certify(making: Making) -> list[TableEntry]:
    """The whole table."""
    by = tr.Certified(accuracy=QUICK_ACCURACY if making.quick else ACCURACY)
    printed = [(name, *entry) for name in PRINTED for entry in zip(DELTAS, PRINTED[name], strict=True)]
    found = []
    for sampling, delta, text in making.each("epsilons", printed):
        run = tr.Step(tr.Gaussian(noise_multiplier=NOISE), SAMPLINGS[sampling]) * STEPS
        bracket = tr.epsilon(run, delta=delta, relation=tr.ADD_OR_REMOVE, by=by)
        found.append(TableEntry(sampling, delta, text, bracket))
    return found


def claim_entry(entry: TableEntry) -> PaperClaim:
    """One entry."""
    where = f"Table 1, {entry.sampling}, δ = {entry.delta:.0e}"
    return PaperClaim(where, entry.printed, f"{show(entry.certified, DIGITS)}: {entry.words}", entry.verdict)


def claim_digits(found: Sequence[TableEntry]) -> PaperClaim:
    """All entries together, and why."""
    verdicts = {entry.verdict for entry in found}
    bounds = [entry for entry in found if entry.least_excess >= 0]
    exact = [entry for entry in found if entry.verdict is AGREES]
    least = min(entry.least_excess for entry in found)
    most = max(float(entry.printed) - entry.certified.lower for entry in found)
    fit = most <= 2 * STATED_ERROR
    return PaperClaim(
        "Table 1",
        "eight epsilons with two digits after the point",
        f"{len(bounds)} of {len(found)} are valid upper bounds, {at_least(least, 2)} to {at_most(most, 3)} "
        f"above the exact value; {len(exact)} are also that value, rounded to the printed digits",
        next(each for each in (CORRECTED, UNDECIDED, UPPER_BOUND, AGREES) if each in verdicts),
        f"The section names the accountant of Opacus, which approximates ε with a stated error of "
        f"{STATED_ERROR:g} and reports the upper end of what it finds (in Opacus 1.6.0: "
        "`PRVAccountant.get_epsilon`, `eps_error=0.01`). That may exceed the truth by up to twice the error"
        + ("; all differences fit into it. " if fit else ", and some differences exceed it. ")
        + "So whoever promises the printed numbers promises what holds."
        if len(bounds) == len(found) > len(exact)
        else "",
    )


def claim_gap(found: Sequence[TableEntry]) -> PaperClaim:
    """What the table is there to show."""
    of = {(entry.sampling, entry.delta): entry.certified for entry in found}
    poisson, fixed = SAMPLINGS
    least = min(of[fixed, delta].lower / of[poisson, delta].upper for delta in DELTAS)
    across = of[fixed, DELTAS[-1]].lower / of[poisson, DELTAS[0]].upper
    return PaperClaim(
        "Table 1",
        "a big gap remains even with slack of several orders of magnitude in δ",
        f"without replacement ε is at least {at_least(least, 4)} times that of Poisson sampling at the same "
        f"δ, and at δ = 1e-04 still at least {at_least(across, 3)} times that of Poisson sampling at δ = "
        "1e-07",
        AGREES if across > 1 else CORRECTED,
    )


def make(making: Making) -> Made:
    """Table and claims."""
    found = certify(making)
    rows = [["δ", "sampling", "printed ε", "certified ε", "verdict"]]
    rows += [[f"{e.delta:.0e}", e.sampling, e.printed, show(e.certified, DIGITS), e.words] for e in found]
    passage = (
        f"Gaussian noise {NOISE:g}, {STEPS:,} steps, sampling rate 0.001 (without replacement: 50 of "
        f"50,000), add or remove one record.\n\n{markdown_table(rows)}"
    )
    file = save_rows(
        making.folder / "table-1.csv",
        ("sampling", "delta", "printed", "epsilon_lower", "epsilon_upper", "verdict"),
        (
            (e.sampling, e.delta, e.printed, e.certified.lower, e.certified.upper, e.verdict.value)
            for e in found
        ),
    )
    claims = (*(claim_entry(entry) for entry in found), claim_digits(found), claim_gap(found))
    return Made(claims, (file,), (), passage)


ITEM = Item("table-1", "Table 1: Poisson against fixed batches", make)
