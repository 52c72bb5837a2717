"""The numbers of figure 1: certified curves, the paper's simulation, the crossings and the breaks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import tightrope as tr
from reproduction.paper.item import Making
from reproduction.paper.laplace_lattice import LaplaceStep, Lattice
from reproduction.paper.laplace_lead import Lead, find_lead, steepness
from reproduction.paper.numbers import overlap

SCALE, RATE = 1.0, 0.5
STEP = LaplaceStep(shift=1 / SCALE, rate=RATE)
DIRECTIONS = (tr.ADD, tr.REMOVE)
SHOWN_TO = {2: 1.3, 5: 2.1, 10: 2.8, 20: 3.6}  # steps of each panel, and the last epsilon it shows
ALPHA, BETA, POINTS = 0.001, 0.01, 40  # the paper's
PRINTED_DRAWS = 3_342_306
DISTANCES = (1e-2, 1e-3, 1e-4)  # in epsilon, of the chords left and right of a break


@dataclass(frozen=True)
class Workload:
    """How much work goes into the figure."""

    on_a_line: int
    accuracy: float
    draws: int
    most_steps: int
    cells: int


WHOLE = Workload(141, 1e-5, tr.draws_needed(alpha=ALPHA, beta=BETA, points=POINTS), 30, 1 << 21)
QUICK = Workload(36, 1e-4, 100_000, 6, 1 << 16)


@dataclass(frozen=True)
class Curve:
    """One direction: brackets along a line, and brackets and estimates at the paper's number of epsilons."""

    epsilons: tuple[float, ...]
    brackets: tuple[tr.Bracket, ...]
    simulated_at: tuple[float, ...]
    certified: tuple[tr.Bracket, ...]
    estimates: tuple[tr.Estimate, ...]

    @property
    def held(self) -> int:
        """At how many points the interval of the simulation contains the whole bracket."""
        pairs = zip(self.certified, self.estimates, strict=True)
        return sum(bracket.lower in estimate and bracket.upper in estimate for bracket, estimate in pairs)

    @property
    def largest_error(self) -> float:
        """The largest distance between an estimate and the farther end of its bracket."""
        pairs = zip(self.certified, self.estimates, strict=True)
        return max(abs(estimate.value - end) for each, estimate in pairs for end in (each.lower, each.upper))


@dataclass(frozen=True)
class Panel:
    """Both directions at one number of steps."""

    steps: int
    add: Curve
    remove: Curve

    @property
    def curves(self) -> tuple[tuple[str, Curve], ...]:
        """Both curves with their names."""
        return (("add", self.add), ("remove", self.remove))


@dataclass(frozen=True)
class Break:
    """A total loss of positive probability under REMOVE: there the slope of delta in e^epsilon jumps."""

    steps: int
    epsilon: float
    jump: float


def run_of(steps: int) -> tr.Run:
    """The figure's mechanism."""
    return tr.Step(tr.Laplace(noise_multiplier=SCALE), tr.Poisson(rate=RATE)) * steps


def make_panels(workload: Workload, making: Making) -> list[Panel]:
    """Every panel, with the simulation of both directions."""
    return [
        Panel(steps, *(_make_curve(steps, last, relation, workload) for relation in DIRECTIONS))
        for steps, last in making.each("curves and simulation", list(SHOWN_TO.items()))
    ]


def _make_curve(steps: int, last: float, relation: tr.Relation, workload: Workload) -> Curve:
    certified = tr.privacy_curve(
        run_of(steps), relation=relation, by=tr.Certified(accuracy=workload.accuracy)
    )
    bends = [*(each.epsilon for each in breaks(steps)), largest_loss_of_add(steps)]
    evenly = np.linspace(0, last, workload.on_a_line).tolist()
    along = sorted({*evenly, *(bend for bend in bends if bend < last)})
    at = np.linspace(0, last, POINTS).tolist()
    paper = tr.MonteCarlo(
        draws=workload.draws,
        confidence=1 - BETA,
        seed=DIRECTIONS.index(relation),  # different ones: the errors of both directions are independent
        drawing=tr.PLAIN,
        interval=tr.HOEFFDING,
        workers=1,
    )
    simulated = tr.privacy_curve(run_of(steps), relation=relation, by=paper)
    brackets = (tuple(certified.delta(along)), tuple(at), tuple(certified.delta(at)))
    return Curve(tuple(along), *brackets, tuple(simulated.delta(at)))


def largest_loss_of_add(steps: int) -> float:
    """From this epsilon on adding a record loses nothing."""
    return -steps * math.log(STEP.least)


def breaks(steps: int) -> list[Break]:
    """The atoms of REMOVE's loss at epsilon > 0: so many steps above both centres, the others below both."""
    low, high = STEP.atoms
    atoms = [
        Break(
            steps,
            highest * math.log(STEP.most) + (steps - highest) * math.log(STEP.least),
            math.comb(steps, highest) * high**highest * low ** (steps - highest),
        )
        for highest in range(steps + 1)
    ]
    return [atom for atom in atoms if atom.epsilon > 0]


def clearest_break(steps: int) -> Break:
    """The one with the largest jump."""
    return max(breaks(steps), key=lambda each: each.jump)


def bend(lattice: Lattice, epsilon: float, distance: float) -> tr.Bracket:
    """How much steeper remove is on a chord left of epsilon than right of it.

    It is at least the jump of the slope, as delta is convex.
    """
    left = steepness(lattice.remove, epsilon - distance, epsilon)
    right = steepness(lattice.remove, epsilon, epsilon + distance)
    return tr.Bracket(left.lower - right.upper, left.upper - right.lower)


def find_leads(workload: Workload, making: Making) -> list[Lead]:
    """Who loses more at every epsilon > 0, for every number of steps."""
    every = range(1, workload.most_steps + 1)
    return [find_lead(STEP, steps, workload.cells) for steps in making.each("who loses more", every)]


def largest_lead(steps: int, crossing: tr.Bracket) -> tuple[float, float]:
    """(epsilon, delta): where on a grid of 400 epsilons ADD leads REMOVE most, and by how much at least."""
    lattice = Lattice(STEP, steps, 1 << 14)
    grid = [crossing.lower * part / 400 for part in range(1, 400)] + [each.epsilon for each in breaks(steps)]
    return max(((epsilon, lattice.lead_of_add(epsilon).lower) for epsilon in grid), key=lambda pair: pair[1])


def count_agreeing(found: Sequence[Panel]) -> tuple[int, int]:
    """At how many points of the lines the lattice's bracket overlaps the engines', and of how many."""
    agreed = []
    for panel in found:
        lattice = Lattice(STEP, panel.steps, 1 << 13)
        for here, curve in ((lattice.add, panel.add), (lattice.remove, panel.remove)):
            pairs = zip(curve.epsilons, curve.brackets, strict=True)
            agreed += [overlap(here(epsilon), bracket) for epsilon, bracket in pairs]
    return sum(agreed), len(agreed)
