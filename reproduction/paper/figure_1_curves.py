"""The numbers of figure 1: certified curves, the paper's simulation, the crossings and the breaks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import tightrope as tr
from reproduction.paper.item import Making, Progress
from reproduction.paper.laplace_lattice import LaplaceStep, Lattice
from reproduction.paper.laplace_lead import Lead, lead, steepness

SCALE, RATE = 1.0, 0.5
STEP = LaplaceStep(shift=1 / SCALE, rate=RATE)
DIRECTIONS = (tr.ADD, tr.REMOVE)
SHOWN_TO = {2: 1.3, 5: 2.1, 10: 2.8, 20: 3.6}  # steps of each panel, and the last epsilon it shows
ALPHA, BETA, POINTS = 0.001, 0.01, 40  # the paper's
PRINTED_DRAWS = 3_342_306
DISTANCES = (1e-2, 1e-3, 1e-4)  # in epsilon, of the chords left and right of a break


@dataclass(frozen=True)
class Effort:
    """How much work goes into the figure."""

    on_a_line: int
    accuracy: float
    draws: int
    most_steps: int
    cells: int


WHOLE = Effort(141, 1e-5, tr.draws_needed(alpha=ALPHA, beta=BETA, points=POINTS), 30, 1 << 21)
QUICK = Effort(36, 1e-4, 100_000, 6, 1 << 16)


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
        return max(
            max(abs(estimate.value - end) for end in (each.lower, each.upper)) for each, estimate in pairs
        )


@dataclass(frozen=True)
class Panel:
    """Both directions at one number of steps."""

    steps: int
    add: Curve
    remove: Curve


@dataclass(frozen=True)
class Break:
    """A total loss of positive probability in the remove direction: there the slope of delta in e^epsilon jumps."""

    steps: int
    epsilon: float
    jump: float


def run_of(steps: int) -> tr.Run:
    """The figure's mechanism."""
    return tr.Step(tr.Laplace(noise_multiplier=SCALE), tr.Poisson(rate=RATE)) * steps


def panels(effort: Effort, progress: Progress) -> list[Panel]:
    """Every panel, with the simulation of both directions."""
    found: list[Panel] = []
    for steps, last in SHOWN_TO.items():
        progress("curves and simulation", len(found), len(SHOWN_TO))
        add, remove = (_curve(steps, last, relation, effort) for relation in DIRECTIONS)
        found.append(Panel(steps, add, remove))
    progress("curves and simulation", len(found), len(SHOWN_TO))
    return found


def _curve(steps: int, last: float, relation: tr.Relation, effort: Effort) -> Curve:
    certified = tr.privacy_curve(run_of(steps), relation=relation, by=tr.Certified(accuracy=effort.accuracy))
    bends = [*(each.epsilon for each in breaks(steps)), largest_loss_of_add(steps)]
    along = sorted(
        {*map(float, np.linspace(0, last, effort.on_a_line)), *(bend for bend in bends if bend < last)}
    )
    at = [float(epsilon) for epsilon in np.linspace(0, last, POINTS)]
    # both directions draw from different seeds: their errors are independent
    seed = DIRECTIONS.index(relation)
    paper = tr.MonteCarlo(
        draws=effort.draws, confidence=1 - BETA, seed=seed, drawing=tr.PLAIN, interval=tr.HOEFFDING, workers=1
    )
    simulated = tr.privacy_curve(run_of(steps), relation=relation, by=paper)
    return Curve(
        tuple(along),
        tuple(certified.delta(along)),
        tuple(at),
        tuple(certified.delta(at)),
        tuple(simulated.delta(at)),
    )


def largest_loss_of_add(steps: int) -> float:
    """From this epsilon on adding a record loses nothing."""
    return -steps * math.log(STEP.least)


def breaks(steps: int) -> list[Break]:
    """The atoms of the remove loss at epsilon > 0: so many steps beyond both centres, the others below both."""
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
    """How much steeper remove is on a chord left of epsilon than on one right of it; at least the jump, as delta is convex."""
    left, right = (
        steepness(lattice.remove, epsilon - distance, epsilon),
        steepness(lattice.remove, epsilon, epsilon + distance),
    )
    return tr.Bracket(left.lower - right.upper, left.upper - right.lower)


def who_leads(effort: Effort, making: Making) -> list[Lead]:
    """The order of the curves at every epsilon > 0, for every number of steps; fine where the curves cross."""
    found = []
    for steps in range(1, effort.most_steps + 1):
        making.progress("who loses more", steps - 1, effort.most_steps)
        found.append(lead(STEP, steps, effort.cells))
    making.progress("who loses more", effort.most_steps, effort.most_steps)
    return found


def largest_lead(steps: int, crossing: tr.Bracket) -> tuple[float, float]:
    """(epsilon, delta): where on a grid of 400 epsilons ADD exceeds REMOVE the most, and by how much at least."""
    lattice = Lattice(STEP, steps, 1 << 14)
    grid = [crossing.lower * part / 400 for part in range(1, 400)] + [each.epsilon for each in breaks(steps)]
    return max(((epsilon, lattice.lead_of_add(epsilon).lower) for epsilon in grid), key=lambda pair: pair[1])


def agreeing(found: Sequence[Panel]) -> tuple[int, int]:
    """At how many points of the lines the lattice's bracket overlaps the engines', and at how many they were compared."""
    agreed = asked = 0
    for panel in found:
        lattice = Lattice(STEP, panel.steps, 1 << 13)
        for here, curve in ((lattice.add, panel.add), (lattice.remove, panel.remove)):
            for epsilon, bracket in zip(curve.epsilons, curve.brackets, strict=True):
                other = here(epsilon)
                agreed += other.lower <= bracket.upper and bracket.lower <= other.upper
                asked += 1
    return agreed, asked
