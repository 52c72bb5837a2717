"""Runs told apart by whether any single step loses more than a threshold.

At low rates and few steps, one rare large loss makes delta, and no tilt makes such a loss typical: almost all
tilted mass stays where nothing happens, and delta drowns in its rounding. So the runs with at least one jump,
P^k - (calm P)^k, are composed apart from the calm rest. Each kind gets its own tilt, and rounding relative to
how rare it is. The two kinds are disjoint events, so both their upper and their lower bounds add up.
"""

import math
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from tightrope.engines.face import NO_HINT, EngineDeclines, Hint
from tightrope.engines.lattice.engine import Runs, find_laws, relevance
from tightrope.engines.one_step.cells import Cells, cut, enclosing_nodes
from tightrope.engines.planning import outline
from tightrope.engines.split import SplitRuns
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import Floats, next_up
from tightrope.pairs.counted import CountedPair
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair

FARTHEST = 70.0  # noise scales; beyond lies less than 1e-1000 of the mass
THRESHOLDS = (0.85, 0.5, 0.25)  # of epsilon
RARE = (1e-2, 1e-4, 1e-6)  # of all runs
ROUGH = 0.5  # the tolerance of a first look at how much of delta each kind of runs makes


@dataclass(frozen=True)
class _Tilted:
    losses: Floats
    weights: Floats
    log_moment: float

    @property
    def mean(self) -> float:
        return float(self.weights @ self.losses)

    @property
    def variance(self) -> float:
        return float(self.weights @ (self.losses - self.mean) ** 2)


@dataclass(frozen=True)
class _Atoms:
    """About the losses of one step on one side of the threshold, and ln of their masses."""

    losses: Floats
    log_masses: Floats

    def tilt(self, c: float) -> _Tilted:
        if len(self.losses) == 0:
            return _Tilted(np.zeros(1), np.ones(1), -math.inf)
        exponents = self.log_masses + c * self.losses
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        total = float(weights.sum())
        return _Tilted(self.losses, weights / total, top + math.log(total))

    def log_divergence(self, epsilon: float) -> float:
        """About ln of the divergence at epsilon that these losses make by themselves."""
        beyond = self.losses > epsilon
        if not beyond.any():
            return -math.inf
        gains = np.log(-np.expm1(epsilon - self.losses[beyond]))
        return float(np.logaddexp.reduce(self.log_masses[beyond] + gains))

    def drop_last(self, log_mass: float) -> "_Atoms":
        """Without the largest losses, of P-mass e^log_mass in all, which a lattice counts as infinite."""
        kept = np.logaddexp.accumulate(self.log_masses[::-1])[::-1] > log_mass
        return _Atoms(self.losses[kept], self.log_masses[kept]) if kept.any() else self


@dataclass(frozen=True)
class _SplitStep:
    """One part of a schedule on both sides of the threshold."""

    pair: Pair
    times: int
    calm: _Atoms
    wild: _Atoms

    @staticmethod
    def of(pair: Pair, times: int, threshold: float) -> "_SplitStep":
        cells = cut(pair, _fine_nodes(pair, threshold)).certain
        wild = cells.high > threshold
        calm_atoms, wild_atoms = (
            _Atoms(cells.merged[side], cells.log_masses[side]) for side in (~wild, wild)
        )
        return _SplitStep(pair, times, calm_atoms, wild_atoms)


@singledispatch
def _fine_nodes(pair: Pair, threshold: float) -> Floats:
    """Losses at which to cut a step for planning: the threshold, and many on each side of it."""
    raise NotImplementedError(f"no nodes for {type(pair).__name__}")


@_fine_nodes.register
def _(pair: FinitePair, threshold: float) -> Floats:
    return np.array([threshold])


@_fine_nodes.register
def _(pair: Envelope, threshold: float) -> Floats:
    above = _fine_nodes(pair.remove, threshold)
    above = above[above > 0]
    return np.union1d(np.concatenate([-above[::-1], [0.0], above]), [threshold])


@_fine_nodes.register
def _(pair: LabelledPair, threshold: float) -> Floats:
    return np.unique(np.concatenate([_fine_nodes(part, threshold) for part in pair.pairs]))


@_fine_nodes.register
def _(pair: CountedPair, threshold: float) -> Floats:
    middle = min(max(float(pair.output_at(np.array([threshold]))[0]), -FARTHEST), FARTHEST)
    high = max(FARTHEST, pair.observed.reach + 14)
    outputs = np.concatenate([np.linspace(-14, middle, 500), np.linspace(middle, high, 1200)])
    return np.union1d(pair.loss(outputs), [threshold])


@_fine_nodes.register
def _(pair: ShiftPair, threshold: float) -> Floats:
    centres = pair.centres()
    low, high = (-FARTHEST, FARTHEST) if pair.has_normal_noise else (centres[0], centres[-1])
    middle = float(np.clip(pair.output_at(np.array([threshold]))[0], low, high))
    outputs = np.concatenate([np.linspace(max(low, -14), middle, 500), np.linspace(middle, high, 1200)])
    return np.union1d(pair.loss(outputs), [threshold])


@dataclass(frozen=True)
class _Split:
    """A schedule whose runs are told apart at a threshold."""

    schedule: Schedule
    threshold: float
    steps: tuple[_SplitStep, ...]

    @staticmethod
    def at(schedule: Schedule, threshold: float) -> "_Split":
        steps = tuple(_SplitStep.of(pair, times, threshold) for pair, times in schedule)
        return _Split(schedule, threshold, steps)

    def drop_rarest(self, epsilon: float, tolerance: float) -> "_Split":
        """Without losses too rare to matter.

        They would make the moments explode and forbid the tilt that delta needs.
        """
        alone = [math.log(step.times) + step.wild.log_divergence(epsilon) for step in self.steps]
        log_delta = float(np.logaddexp.reduce(alone))
        if log_delta == -math.inf:
            return self
        steps = (
            replace(step, wild=step.wild.drop_last(log_delta + math.log(tolerance / step.times) - 7))
            for step in self.steps
        )
        return replace(self, steps=tuple(steps))

    def tilt(self, c: float) -> tuple[list[_Tilted], list[_Tilted]]:
        """The calm and the wild side of every step."""
        return [step.calm.tilt(c) for step in self.steps], [step.wild.tilt(c) for step in self.steps]

    def cut(self, index: int, nodes: Floats) -> tuple[Cells, Cells]:
        """Calm and wild cells; the one that the threshold cuts in two keeps its enclosing nodes."""
        pair, threshold = self.steps[index].pair, self.threshold
        cells = cut(pair, np.union1d(nodes, [threshold]))
        low, high = cells.low, cells.high
        if pair.is_finite:
            # The threshold only tells the levels apart; each is enclosed by lattice points.
            wild = cells.losses_above > threshold
            low, high = enclosing_nodes(nodes, cells.losses_below, cells.losses_above)
        else:
            wild = cells.high > threshold
            if not np.any(nodes == threshold):
                low = np.where(low == threshold, nodes[nodes < threshold].max(initial=-np.inf), low)
                high = np.where(high == threshold, nodes[nodes > threshold].min(initial=np.inf), high)
        cells = replace(cells, low=low, high=high)
        return replace(cells.select(~wild), log_infinite=-math.inf), cells.select(wild)

    def lowest(self, index: int, c: float, log_share: float) -> float:
        """A loss below which little of the calm part lies, before and after all of that is raised to it."""
        calm = self.steps[index].calm.tilt(c)
        first = int(np.searchsorted(np.cumsum(calm.weights), math.exp(log_share)))
        return min(float(calm.losses[max(first - 1, 0)]), (log_share + calm.log_moment) / c)


class _CalmRuns(Runs):
    """Runs without a jump."""

    def __init__(self, split: _Split) -> None:
        self.split, self.schedule = split, split.schedule
        self.log_mass, self.log_infinite = 0.0, -math.inf

    def cumulants(self, c: float) -> tuple[float, float, float]:
        sides = [(step.times, step.calm.tilt(c)) for step in self.split.steps]
        return (
            sum(times * side.log_moment for times, side in sides),
            sum(times * side.mean for times, side in sides),
            sum(times * side.variance for times, side in sides),
        )

    def profile(self, index: int, c: float, epsilon: float) -> tuple[Floats, Floats]:
        step = self.split.steps[index]
        calm = step.calm.tilt(c)
        return calm.losses, step.times * calm.weights

    def loss_range(self, index: int, c: float, log_share: float, log_mass: float) -> tuple[float, float]:
        return self.split.lowest(index, c, log_share), self.split.threshold

    def cut(self, index: int, nodes: Floats) -> tuple[Cells, Cells | None]:
        return self.split.cut(index, nodes)[0], None


class _JumpRuns(Runs):
    """Runs with at least one jump."""

    def __init__(self, split: _Split, epsilon: float, tolerance: float) -> None:
        self.split, self.schedule = split.drop_rarest(epsilon, tolerance), split.schedule
        self.times = np.array([step.times for step in split.steps], dtype=float)
        self.log_mass = self.cumulants(0.0)[0]
        self.log_infinite = split.schedule.log_infinite_mass[0]

    def _count_jumps(self, calm: list[_Tilted], wild: list[_Tilted]) -> tuple[float, Floats]:
        """The sum of times * ln(1 + wild moment / calm moment), and the jumps to expect of each part."""
        rarities = [jump.log_moment - rest.log_moment for rest, jump in zip(calm, wild, strict=True)]
        log_more = np.logaddexp(0.0, rarities)  # each step's
        total = float(self.times @ log_more)
        at_least_one = -math.expm1(-total)
        if not at_least_one:
            return total, np.ones(len(calm))
        return total, self.times * -np.expm1(-log_more) / at_least_one

    def expect_jumps(self, index: int, c: float) -> float:
        _, counts = self._count_jumps(*self.split.tilt(c))
        return float(counts[index])

    def cumulants(self, c: float) -> tuple[float, float, float]:
        calm, wild = self.split.tilt(c)
        total, counts = self._count_jumps(calm, wild)
        leaps = np.array([jump.mean - rest.mean for rest, jump in zip(calm, wild, strict=True)])
        log_moment = float(self.times @ [side.log_moment for side in calm])
        log_moment += total + math.log(-math.expm1(-total)) if total > 0 else -math.inf
        mean = float(self.times @ [side.mean for side in calm] + counts @ leaps)
        variance = float(self.times @ [side.variance for side in calm])
        variance += float(counts @ (np.array([side.variance for side in wild]) + leaps**2))
        variance -= float(counts @ leaps) ** 2 / max(float(counts.sum()), 1e-300)
        return log_moment, mean, max(variance, 0.0)

    def profile(self, index: int, c: float, epsilon: float) -> tuple[Floats, Floats]:
        step = self.split.steps[index]
        calm, wild = step.calm.tilt(c), step.wild.tilt(c)
        shares = wild.weights + relevance(wild.losses, step.wild.log_masses, epsilon)
        counts = np.concatenate([step.times * calm.weights, self.expect_jumps(index, c) * shares])
        return np.concatenate([calm.losses, wild.losses]), counts

    def loss_range(self, index: int, c: float, log_share: float, log_mass: float) -> tuple[float, float]:
        step = self.split.steps[index]
        _, highest = outline(step.pair, -math.inf).losses_that_matter(1e-9, log_share, log_mass)
        wild = step.wild.tilt(c)
        last = int(np.searchsorted(np.cumsum(wild.weights[::-1]), math.exp(log_share)))
        most = float(wild.losses[max(len(wild.losses) - 1 - last, 0)])
        highest = max(most, min(highest, float(wild.losses[-1]) * 1.05), self.split.threshold)
        return self.split.lowest(index, c, log_share), min(highest, step.pair.loss_range[1])

    def cut(self, index: int, nodes: Floats) -> tuple[Cells, Cells | None]:
        return self.split.cut(index, nodes)


@dataclass(frozen=True)
class BigJumpEngine:
    """Certified bounds where one rare loss makes delta."""

    schedule: Schedule
    longest: int

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> SplitRuns:
        """Laws placed for `epsilon`, split where that certifies most."""
        best: tuple[float, SplitRuns] | None = None
        spent = 0
        for threshold in self._thresholds(epsilon):
            try:
                laws, more = self._split(epsilon, tolerance, threshold)
            except (NotPreciseEnough, EngineDeclines):
                continue
            spent += more
            width = laws.bounds(epsilon).width
            if best is None or width < best[0]:
                best = (width, laws)
            if width <= tolerance or spent > 4 * self.longest:
                break
        if best is None:
            raise NotPreciseEnough("Telling large losses apart does not help.")
        return best[1]

    def _thresholds(self, epsilon: float) -> list[float]:
        """Losses at which to tell runs apart: shares of epsilon, and losses that few runs exceed."""
        shares = [share * epsilon for share in THRESHOLDS if epsilon > 0]
        rare = []
        for mass in RARE:
            normal = [(pair, times) for pair, times in self.schedule if pair.has_normal_noise]
            largest = max((pair.loss_quantile(math.log(mass / times)) for pair, times in normal), default=0.0)
            rare += [largest] if largest > 0 else []
        return rare + shares if rare and epsilon / 2 < rare[0] else shares + rare

    def _split(self, epsilon: float, tolerance: float, threshold: float) -> tuple[SplitRuns, int]:
        """Laws split at this threshold, and how many lattice points were worked on."""
        split = _Split.at(self.schedule, threshold)
        kinds: list[Runs] = [_JumpRuns(split, epsilon, tolerance)]
        most_calm = next_up(self.schedule.steps * threshold)  # no calm step loses more than the threshold
        if most_calm > epsilon:  # else calm runs lose at most epsilon
            kinds.append(_CalmRuns(split))
        # Roughly first: often one kind of runs makes nearly all of delta.
        found = [find_laws(runs, epsilon, ROUGH, self.longest) for runs in kinds]
        parts, spent = [laws for laws, _ in found], sum(points for _, points in found)
        bounds = [laws.bounds(epsilon) for laws in parts]
        # the kind that may make most of delta first: what is certain of it says how much the other matters
        for i in sorted(range(len(kinds)), key=lambda i: -bounds[i].upper):
            share = math.exp(min(bounds[i].upper - max(b.lower for b in bounds), 0.0))
            if share > tolerance / 4:
                # a kind of runs that makes little of delta may take a quarter of the tolerance, the other the
                # rest
                wanted = tolerance if len(kinds) == 1 else 0.75 * tolerance
                wanted = min(ROUGH, tolerance / 4 / share if share < 0.1 else wanted)
                known = bounds[i].lower if bounds[i].lower > -math.inf else None
                parts[i], points = find_laws(kinds[i], epsilon, wanted, self.longest, known)
                bounds[i] = parts[i].bounds(epsilon)
                spent += points
        return SplitRuns(tuple(parts), -math.inf if len(kinds) == 2 else most_calm), spent
