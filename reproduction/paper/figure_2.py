"""Figure 2: how much noise a target needs against the sampling rate, and what the wrong sampling costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reproduction.paper import figure_2_noise as noise
from reproduction.paper.figure_2_noise import (
    FIXED_10,
    LINES,
    POISSON_1,
    POISSON_5,
    POISSON_10,
    Line,
    Mistaken,
    Point,
    Transition,
)
from reproduction.paper.figure_2_picture import INCHES, drawing
from reproduction.paper.item import AGREES, CORRECTED, SHARPENED, Claim, Item, Made, Making, markdown_table
from reproduction.paper.number_files import at_least, at_most, save_rows, shown
from reproduction.paper.pictures import save_picture

RATES, FEW_RATES = 41, 5  # ten to a decade, or one
HIGH_RATE = 0.1  # "high" in the text around the figure: all lines are straight from there on
ROUGHLY = 1.2  # a factor that is still "roughly the same"
SLIGHTLY = 0.8  # of a number: not less than this share of it is "slightly below" it


@dataclass(frozen=True)
class Numbers:
    """Everything the figure and its claims rest on."""

    points: dict[Line, list[Point]]
    doubling: noise.Doubling
    transitions: dict[Line, Transition]
    mistaken: list[Mistaken]

    @property
    def worst_gap(self) -> float:
        """By how much, relative to itself, some noise of the figure may lie above the optimum."""
        return max(point.found.gap for line in self.points.values() for point in line)

    @property
    def worst(self) -> Mistaken:
        """The run that spends most."""
        return max(self.mistaken, key=lambda run: run.epsilon.lower)


def computed(making: Making) -> Numbers:
    """All calibrations, and what is read from them."""
    sizes = noise.batches(FEW_RATES if making.quick else RATES)
    work = [(line, batch) for line in LINES for batch in sizes]
    points: dict[Line, list[Point]] = {line: [] for line in LINES}
    for done, (line, batch) in enumerate(work):
        making.progress("calibrations", done, len(work))
        points[line].append(line.calibrated(batch))
    making.progress("the same noise, doubled", 0, 1)
    doubling = noise.Doubling.of(points[POISSON_10], points[FIXED_10])
    transitions = {}
    for done, line in enumerate(LINES):
        making.progress("transitions", done, len(LINES))
        transitions[line] = noise.transition(points[line])
    runs = []
    for done, point in enumerate(points[POISSON_1]):
        making.progress("runs with the wrong sampling", done, len(sizes))
        runs.append(noise.mistaken(point))
    return Numbers(points, doubling, transitions, runs)


def twice(found: noise.Doubling) -> Claim:
    """Fixed batches need twice the noise."""
    return Claim(
        "Sec. 6",
        "without replacement needs exactly twice the noise of Poisson sampling",
        f"to the last bit at {found.noise} of {found.rates} rates; doubled noise spends the same epsilon to "
        f"the last bit at {found.epsilon} of {found.rates}",
        AGREES if not found.certainly_other else CORRECTED,
    )


def two_regions(points: dict[Line, list[Point]]) -> Claim:
    """Flat at the left, proportional at the right."""
    flattest = max(noise.slope(line[0], line[1]).upper for line in points.values())
    steepest = min(noise.slope(line[-2], line[-1]).lower for line in points.values())
    return Claim(
        "Sec. 6",
        "noise is roughly proportional to high rates and falls much more slowly at low ones",
        f"d ln noise / d ln rate: at least {at_least(steepest, 4)} between the two highest rates, at most "
        f"{at_most(flattest, 3)} between the two lowest, on all five lines",
        AGREES if steepest > 1 / ROUGHLY and flattest < noise.HALF else CORRECTED,
    )


def beside_poisson_5(points: dict[Line, list[Point]]) -> Claim:
    """At high rates."""
    both = [
        (a.noise, b.noise)
        for a, b in zip(points[FIXED_10], points[POISSON_5], strict=True)
        if b.rate >= HIGH_RATE
    ]
    low, high = min(a.lower / b.upper for a, b in both), max(a.upper / b.lower for a, b in both)
    return Claim(
        "Sec. 6",
        "at high rates, the noise for ε = 10 without replacement roughly matches Poisson's for ε = 5",
        f"{at_least(low, 4)} to {at_most(high, 4)} times it at all rates from {HIGH_RATE:g}",
        AGREES if 1 / ROUGHLY < low <= high < ROUGHLY else CORRECTED,
    )


def beside_poisson_1(points: dict[Line, list[Point]]) -> Claim:
    """At low rates."""
    both = list(zip(points[FIXED_10], points[POISSON_1], strict=True))
    more = [a.rate for a, b in both if a.noise.lower > b.noise.upper]
    less = [a.rate for a, b in both if a.noise.upper < b.noise.lower]
    divided = bool(more) and bool(less) and max(more) < min(less) and len(more) + len(less) == len(both)
    first = both[0][0].noise.lower / both[0][1].noise.upper
    return Claim(
        "Sec. 6",
        "at low rates, ε = 10 without replacement needs more noise than ε = 1 with Poisson sampling",
        f"more at the {len(more)} rates up to {max(more):.3g} ({at_least(first, 3)} times at the lowest), "
        f"less at the {len(less)} from {min(less):.3g}"
        if divided
        else "not divided by the rate",
        AGREES if divided else CORRECTED,
    )


def transition_claim(found: Sequence[Transition], printed: float, sampling: str) -> Claim:
    """Where the two regimes meet."""
    at = "; ".join(f"{shown(each.noise, 3)} for ε = {each.left.line.epsilon:g}" for each in found)
    inside = all(SLIGHTLY * printed < each.noise.lower and each.noise.upper < printed for each in found)
    return Claim(
        "Sec. 6",
        f"{sampling}: the transition happens when the noise is slightly less than {printed:g}",
        f"the local slope passes 1/2 at noise {at}",
        AGREES if inside else CORRECTED,
    )


def worst_claim(numbers: Numbers) -> Claim:
    """What noise for Poisson's epsilon 1 is worth with fixed batches."""
    worst, beyond = numbers.worst, [run.meant.rate for run in numbers.mistaken if run.epsilon.lower > 10]
    return Claim(
        "Sec. 6",
        "noise for ε = 1 with Poisson sampling, but batches without replacement: ε could be above 10",
        f"{shown(worst.epsilon)} at rate {worst.meant.rate:g} (noise {worst.meant.found.value:.4f}); above "
        f"10 at the {len(beyond)} of {len(numbers.mistaken)} rates up to {max(beyond, default=0.0):.3g}",
        SHARPENED if worst.epsilon.lower > 10 else CORRECTED,
        "It is above 10 at every low rate, grows as the rate falls, and is nearly 20 at the left end of the "
        "figure."
        if worst.epsilon.lower > 19 and worst is numbers.mistaken[0]
        else "",
    )


def claims(numbers: Numbers) -> tuple[Claim, ...]:
    """In the order of the text."""
    poisson = [numbers.transitions[line] for line in LINES if line is not FIXED_10]
    return (
        twice(numbers.doubling),
        two_regions(numbers.points),
        transition_claim(poisson, 1, "Poisson"),
        transition_claim([numbers.transitions[FIXED_10]], 2, "without replacement"),
        beside_poisson_5(numbers.points),
        beside_poisson_1(numbers.points),
        worst_claim(numbers),
    )


def tables(numbers: Numbers, folder: Path) -> tuple[Path, ...]:
    """The points, the transitions and the mistaken runs."""
    points = save_rows(
        folder / "figure-2.csv",
        ("sampling", "epsilon", "rate", "noise", "misses_below", "gap"),
        (
            (
                point.line.sampling,
                point.line.epsilon,
                point.rate,
                point.found.value,
                point.found.beyond,
                point.found.gap,
            )
            for line in LINES
            for point in numbers.points[line]
        ),
    )
    transitions = save_rows(
        folder / "figure-2-transitions.csv",
        ("sampling", "epsilon", "rate_lower", "rate_upper", "noise_lower", "noise_upper"),
        (
            (
                line.sampling,
                line.epsilon,
                each.rate.lower,
                each.rate.upper,
                each.noise.lower,
                each.noise.upper,
            )
            for line, each in numbers.transitions.items()
        ),
    )
    wrong = save_rows(
        folder / "figure-2-wrong-sampling.csv",
        ("rate", "noise_for_poisson_epsilon_1", "epsilon_lower", "epsilon_upper"),
        (
            (run.meant.rate, run.meant.found.value, run.epsilon.lower, run.epsilon.upper)
            for run in numbers.mistaken
        ),
    )
    return points, transitions, wrong


def passage(numbers: Numbers) -> str:
    """How the numbers were made, and the transitions."""
    rows = [["line", "rate at slope 1/2", "noise at slope 1/2"]]
    rows += [
        [line.name, shown(each.rate, 4), shown(each.noise, 4)] for line, each in numbers.transitions.items()
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
    numbers = computed(making)
    points = [point for line in LINES for point in numbers.points[line]]
    draw = drawing(points, list(numbers.transitions.values()), numbers.mistaken)
    pictures = save_picture(draw, making.folder, "figure-2", inches=INCHES)
    caption = (
        "Above: the smallest noise for each target; rings mark where the slope passes 1/2. Below: the "
        "epsilon of batches drawn without replacement when the noise was calibrated for Poisson sampling "
        "and ε = 1."
    )
    return Made(claims(numbers), (*pictures, *tables(numbers, making.folder)), (caption,), passage(numbers))


ITEM = Item("figure-2", "Fig. 2: noise against sampling rate", make)
