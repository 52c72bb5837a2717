"""Figure 2: how much noise a target needs against the sampling rate, and what the wrong sampling costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reproduction.markdown import markdown_table
from reproduction.paper import figure_2_noise as noise
from reproduction.paper.figure_2_noise import (
    FIXED_10,
    LINES,
    POISSON_1,
    POISSON_5,
    POISSON_10,
    Line,
    MistakenRun,
    NoisePoint,
    Transition,
)
from reproduction.paper.figure_2_picture import INCHES, draw
from reproduction.paper.item import AGREES, CORRECTED, SHARPENED, Item, Made, Making, PaperClaim
from reproduction.paper.numbers import at_least, at_most, flatten, name_ends, save_rows, show
from reproduction.paper.pictures import save_picture

RATES, FEW_RATES = 41, 5  # ten to a decade, or one
HIGH_RATE = 0.1  # "high" in the text around the figure: all lines are straight from there on
ROUGHLY = 1.2  # a factor that is still "roughly the same"
SLIGHTLY = 0.8  # of a number: not less than this share of it is "slightly below" it


@dataclass(frozen=True)
class NoiseNumbers:
    """Everything the figure and its claims rest on."""

    points: dict[Line, list[NoisePoint]]
    doubling: noise.Doubling
    transitions: dict[Line, Transition]
    mistaken: list[MistakenRun]

    @property
    def worst_gap(self) -> float:
        """By how much, relative to itself, some noise of the figure may lie above the optimum."""
        return max(point.found.gap for line in self.points.values() for point in line)

    @property
    def worst(self) -> MistakenRun:
        """The run that spends most."""
        return max(self.mistaken, key=lambda run: run.epsilon.lower)


def compute(making: Making) -> NoiseNumbers:
    """All calibrations, and what is read from them."""
    sizes = noise.choose_batches(FEW_RATES if making.quick else RATES)
    work = [(line, batch) for line in LINES for batch in sizes]
    points: dict[Line, list[NoisePoint]] = {line: [] for line in LINES}
    for line, batch in making.each("calibrations", work):
        points[line].append(line.calibrate(batch))
    making.progress("the same noise, doubled", 0, 1)
    doubling = noise.compare_lines(points[POISSON_10], points[FIXED_10])
    transitions = {line: noise.find_transition(points[line]) for line in making.each("transitions", LINES)}
    runs = making.each("runs with the wrong sampling", points[POISSON_1])
    return NoiseNumbers(points, doubling, transitions, [noise.run_by_mistake(point) for point in runs])


def claim_doubling(found: noise.Doubling) -> PaperClaim:
    """Fixed batches need twice the noise."""
    return PaperClaim(
        "Sec. 6",
        "without replacement needs exactly twice the noise of Poisson sampling",
        f"to the last bit at {found.noise} of {found.rates} rates; doubled noise spends the same epsilon to "
        f"the last bit at {found.epsilon} of {found.rates}",
        AGREES if not found.certainly_other else CORRECTED,
    )


def claim_two_regions(points: dict[Line, list[NoisePoint]]) -> PaperClaim:
    """Flat at the left, proportional at the right."""
    flattest = max(noise.slope(line[0], line[1]).upper for line in points.values())
    steepest = min(noise.slope(line[-2], line[-1]).lower for line in points.values())
    return PaperClaim(
        "Sec. 6",
        "noise is roughly proportional to high rates and falls much more slowly at low ones",
        f"d ln noise / d ln rate: at least {at_least(steepest, 4)} between the two highest rates, at most "
        f"{at_most(flattest, 3)} between the two lowest, on all five lines",
        AGREES if steepest > 1 / ROUGHLY and flattest < noise.HALF else CORRECTED,
    )


def claim_beside_poisson_5(points: dict[Line, list[NoisePoint]]) -> PaperClaim:
    """At high rates."""
    both = [
        (a.noise, b.noise)
        for a, b in zip(points[FIXED_10], points[POISSON_5], strict=True)
        if b.rate >= HIGH_RATE
    ]
    low, high = min(a.lower / b.upper for a, b in both), max(a.upper / b.lower for a, b in both)
    return PaperClaim(
        "Sec. 6",
        "at high rates, the noise for ε = 10 without replacement roughly matches Poisson's for ε = 5",
        f"{at_least(low, 4)} to {at_most(high, 4)} times it at all rates from {HIGH_RATE:g}",
        AGREES if 1 / ROUGHLY < low <= high < ROUGHLY else CORRECTED,
    )


def claim_beside_poisson_1(points: dict[Line, list[NoisePoint]]) -> PaperClaim:
    """At low rates."""
    both = list(zip(points[FIXED_10], points[POISSON_1], strict=True))
    more = [a.rate for a, b in both if a.noise.lower > b.noise.upper]
    less = [a.rate for a, b in both if a.noise.upper < b.noise.lower]
    divided = bool(more) and bool(less) and max(more) < min(less) and len(more) + len(less) == len(both)
    first = both[0][0].noise.lower / both[0][1].noise.upper
    return PaperClaim(
        "Sec. 6",
        "at low rates, ε = 10 without replacement needs more noise than ε = 1 with Poisson sampling",
        f"more at the {len(more)} rates up to {max(more):.3g} ({at_least(first, 3)} times at the lowest), "
        f"less at the {len(less)} from {min(less):.3g}"
        if divided
        else "not divided by the rate",
        AGREES if divided else CORRECTED,
    )


def claim_transition(found: Sequence[Transition], printed: float, sampling: str) -> PaperClaim:
    """Where the two regimes meet."""
    at = "; ".join(f"{show(each.noise, 3)} for ε = {each.left.line.epsilon:g}" for each in found)
    inside = all(SLIGHTLY * printed < each.noise.lower and each.noise.upper < printed for each in found)
    return PaperClaim(
        "Sec. 6",
        f"{sampling}: the transition happens when the noise is slightly less than {printed:g}",
        f"the local slope passes 1/2 at noise {at}",
        AGREES if inside else CORRECTED,
    )


def claim_worst(numbers: NoiseNumbers) -> PaperClaim:
    """What noise for Poisson's epsilon 1 is worth with fixed batches."""
    worst, beyond = numbers.worst, [run.meant.rate for run in numbers.mistaken if run.epsilon.lower > 10]
    return PaperClaim(
        "Sec. 6",
        "noise for ε = 1 with Poisson sampling, but batches without replacement: ε could be above 10",
        f"{show(worst.epsilon)} at rate {worst.meant.rate:g} (noise {at_most(worst.meant.found.value, 4)}); "
        f"above 10 at the {len(beyond)} of {len(numbers.mistaken)} rates up to "
        f"{max(beyond, default=0.0):.3g}",
        SHARPENED if worst.epsilon.lower > 10 else CORRECTED,
        "It is above 10 at every low rate, grows as the rate falls, and is nearly 20 at the left end of the "
        "figure."
        if worst.epsilon.lower > 19 and worst is numbers.mistaken[0]
        else "",
    )


def make_claims(numbers: NoiseNumbers) -> tuple[PaperClaim, ...]:
    """In the order of the text."""
    poisson = [numbers.transitions[line] for line in LINES if line is not FIXED_10]
    return (
        claim_doubling(numbers.doubling),
        claim_two_regions(numbers.points),
        claim_transition(poisson, 1, "Poisson"),
        claim_transition([numbers.transitions[FIXED_10]], 2, "without replacement"),
        claim_beside_poisson_5(numbers.points),
        claim_beside_poisson_1(numbers.points),
        claim_worst(numbers),
    )


def save_tables(numbers: NoiseNumbers, folder: Path) -> tuple[Path, ...]:
    """The points, the transitions and the mistaken runs."""
    points = save_rows(
        folder / "figure-2.csv",
        ("sampling", "epsilon", "rate", "noise", "misses_below", "gap"),
        (
            (line.sampling, line.epsilon, p.rate, p.found.value, p.found.beyond, p.found.gap)
            for line in LINES
            for p in numbers.points[line]
        ),
    )
    transitions = save_rows(
        folder / "figure-2-transitions.csv",
        ("sampling", "epsilon", *name_ends(["rate", "noise"])),
        (
            (line.sampling, line.epsilon, *flatten([each.rate, each.noise]))
            for line, each in numbers.transitions.items()
        ),
    )
    wrong = save_rows(
        folder / "figure-2-wrong-sampling.csv",
        ("rate", "noise_for_poisson_epsilon_1", *name_ends(["epsilon"])),
        ((run.meant.rate, run.meant.found.value, *flatten([run.epsilon])) for run in numbers.mistaken),
    )
    return points, transitions, wrong


def write_passage(numbers: NoiseNumbers) -> str:
    """How the numbers were made, and the transitions."""
    rows = [["line", "rate at slope 1/2", "noise at slope 1/2"]]
    rows += [
        [line.name, show(each.rate, 4), show(each.noise, 4)] for line, each in numbers.transitions.items()
    ]
    count = sum(len(line) for line in numbers.points.values())
    return (
        f"{count} calibrations, each with a noise that is certainly enough and one that certainly is not, at "
        f"most {at_most(numbers.worst_gap, 2)} apart, relative to the noise. The transition between the "
        "regimes is taken to be where d ln noise / d ln rate is 1/2: each interval begins with a chord that "
        f"is certainly flatter and ends with one that is certainly steeper.\n\n{markdown_table(rows)}"
    )


def make(making: Making) -> Made:
    """Picture, tables and claims."""
    numbers = compute(making)
    shown = (numbers.points, list(numbers.transitions.values()), numbers.mistaken)
    pictures = save_picture(lambda figure: draw(figure, *shown), making.folder, "figure-2", inches=INCHES)
    caption = (
        "Above: the smallest noise for each target; rings mark where the slope passes 1/2. Below: the "
        "epsilon of batches drawn without replacement when the noise was calibrated for Poisson sampling "
        "and ε = 1."
    )
    files = (*pictures, *save_tables(numbers, making.folder))
    return Made(make_claims(numbers), files, (caption,), write_passage(numbers))


ITEM = Item("figure-2", "Fig. 2: noise against sampling rate", make)
