"""Runs told apart by whether any single step loses more than a threshold.

At low rates and few steps, delta is made by one rare large loss, while a tilt that makes such a loss typical does not exist:
almost all tilted mass stays where nothing happens, and delta drowns in its rounding. Composing the runs with at least one
jump, P^k - (calm P)^k, apart from the calm rest gives each its own tilt and rounding relative to how rare it is. The two
kinds of runs are disjoint events, so both their upper and their lower bounds add up.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from tightrope.engines.cells import Cells, cut
from tightrope.engines.face import NO_HINT, EngineDeclines, Errors, Hint, LogBounds
from tightrope.engines.lattice.engine import LatticeEngine, relative_blur, relevance
from tightrope.engines.lattice.law import LatticeLaws
from tightrope.engines.planning import Outline
from tightrope.engines.saddle import Cumulants
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.tails import Floats
from tightrope.pairs.distribution import Noise
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair

FARTHEST = 70.0  # noise scales; beyond lies less than 1e-1000 of the mass
THRESHOLDS = (0.5, 0.85, 0.25)  # of epsilon
RARE = (1e-2, 1e-4, 1e-6)  # of all runs


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


class _SplitOutline(Outline):
    """The outline of a step on each side of the threshold, in logarithms so that nothing rare is dropped."""

    def __init__(self, outline: Outline, threshold: float) -> None:
        self.__dict__.update(outline.__dict__)
        cells = cut(outline.pair, _fine_nodes(outline.pair, threshold))
        cells = cells.select(np.isfinite(cells.merged) & np.isfinite(cells.log_masses))
        self.atoms = [
            (cells.merged[side], cells.log_masses[side])
            for side in (cells.high <= threshold, cells.high > threshold)
        ]

    def log_one_jump(self, epsilon: float) -> float:
        """About ln of the divergence that this one step alone makes by losses beyond epsilon."""
        losses, log_masses = self.atoms[True]
        beyond = losses > epsilon
        if not beyond.any():
            return -math.inf
        return float(np.logaddexp.reduce(log_masses[beyond] + np.log(-np.expm1(epsilon - losses[beyond]))))

    def without_the_last(self, log_mass: float) -> None:
        """Leave losses out of the outline that together have P-mass e^log_mass: on the lattice they count as infinite."""
        losses, log_masses = self.atoms[True]
        beyond = np.logaddexp.accumulate(log_masses[::-1])[::-1]
        kept = beyond > log_mass
        if kept.any():
            self.atoms[True] = (losses[kept], log_masses[kept])

    def side(self, wild: bool, c: float) -> _Tilted:
        """The calm or the wild part at tilt c."""
        losses, log_masses = self.atoms[wild]
        if len(losses) == 0:
            return _Tilted(np.zeros(1), np.ones(1), -math.inf)
        exponents = log_masses + c * losses
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        return _Tilted(losses, weights / weights.sum(), top + math.log(float(weights.sum())))


def _fine_nodes(pair: Pair, threshold: float) -> Floats:
    """Losses at which to cut a step for its outline: the threshold, and many on each side of it."""
    if isinstance(pair, FinitePair):
        return np.array([threshold])
    if isinstance(pair, Envelope):
        above = _fine_nodes(pair.remove, threshold)
        above = above[above > 0]
        return np.union1d(np.concatenate([-above[::-1], [0.0], above]), [threshold])
    assert isinstance(pair, ShiftPair)
    x = pair.output_at(np.array([threshold]))
    low, high = (
        (-FARTHEST, FARTHEST) if pair.noise is Noise.NORMAL else (pair.centres()[0], pair.centres()[-1])
    )
    middle = float(np.clip(x[0], low, high))
    calm_x = np.unique(np.concatenate([np.linspace(max(low, -14), middle, 500), [middle]]))
    outputs = np.concatenate([calm_x, np.linspace(middle, high, 1200)])
    return np.unique(np.concatenate([pair.loss(outputs), [threshold]]))


class _SplitEngine(LatticeEngine):
    """What the calm and the jumping runs share."""

    def __init__(self, schedule: Schedule, longest: int, threshold: float) -> None:
        super().__init__(schedule, longest)
        self.threshold = threshold
        self.split = [_SplitOutline(outline, threshold) for outline, _ in self.parts]

    def _cap(self, log_cap: float) -> None:
        """The split outlines are capped once, from the divergence that one jump makes."""

    def _both(self, outline: Outline, nodes: Floats) -> tuple[Cells, Cells]:
        """Cells on each side of the threshold; the cell it cuts in two keeps its enclosing nodes."""
        cells = cut(outline.pair, np.union1d(nodes, [self.threshold]))
        wild = cells.high > self.threshold
        if not isinstance(outline.pair, FinitePair):
            below, above = nodes[nodes < self.threshold], nodes[nodes > self.threshold]
            low = np.where(cells.low == self.threshold, below[-1] if len(below) else -np.inf, cells.low)
            high = np.where(cells.high == self.threshold, above[0] if len(above) else np.inf, cells.high)
            if np.any(nodes == self.threshold):
                low, high = cells.low, cells.high
        else:
            # each level is enclosed by its own two lattice points; the threshold only tells the levels apart
            wild = cells.merged > self.threshold
            place = np.searchsorted(nodes, cells.merged, side="right")
            ends = np.concatenate([[-np.inf], nodes, [np.inf]])
            low, high = ends[place], ends[place + 1]
        cells = replace(cells, low=low, high=high)
        return replace(cells.select(~wild), log_infinite=-math.inf), cells.select(wild)


class _CalmEngine(_SplitEngine):
    """Runs without a jump."""

    @property
    def cumulants(self) -> Cumulants:
        def total(c: float) -> tuple[float, float, float]:
            sides = [
                (times, split.side(False, c))
                for split, (_, times) in zip(self.split, self.parts, strict=True)
            ]
            return (
                sum(times * side.log_moment for times, side in sides),
                sum(times * side.mean for times, side in sides),
                sum(times * side.variance for times, side in sides),
            )

        return total

    def _profile(self, index: int, c: float) -> tuple[Floats, Floats]:
        side = self.split[index].side(False, c)
        return side.losses, self.parts[index][1] * side.weights

    def _cells(self, outline: Outline, nodes: Floats) -> tuple[Cells, Cells | None]:
        return self._both(outline, nodes)[0], None

    def _range(self, index: int, c: float, log_share: float, log_mass: float) -> tuple[float, float]:
        return _lowest(self.split[index].side(False, c), c, log_share), self.threshold


class _JumpEngine(_SplitEngine):
    """Runs with at least one jump."""

    def __init__(
        self, schedule: Schedule, longest: int, threshold: float, epsilon: float, tolerance: float
    ) -> None:
        super().__init__(schedule, longest, threshold)
        self.epsilon = epsilon
        one_jump = [
            math.log(times) + split.log_one_jump(epsilon)
            for split, (_, times) in zip(self.split, self.parts, strict=True)
        ]
        log_delta = float(np.logaddexp.reduce(one_jump))
        if log_delta > -math.inf:
            # Losses too rare to matter would still make the moments explode and forbid the tilt that delta needs.
            for split, (_, times) in zip(self.split, self.parts, strict=True):
                split.without_the_last(log_delta + math.log(tolerance / times) - 7)

    def _odds(self, c: float) -> list[tuple[int, _Tilted, _Tilted, float]]:
        """Per part: times, calm, wild, and times * ln(1 + wild moment / calm moment)."""
        rows = []
        for split, (_, times) in zip(self.split, self.parts, strict=True):
            calm, wild = split.side(False, c), split.side(True, c)
            rows.append(
                (times, calm, wild, times * float(np.logaddexp(0.0, wild.log_moment - calm.log_moment)))
            )
        return rows

    def _expected_jumps(self, c: float) -> list[float]:
        """Per part, the expected number of jumps in a tilted run that has one."""
        rows = self._odds(c)
        at_least_one = -math.expm1(-sum(odds for *_, odds in rows))
        return [
            times * -math.expm1(-odds / times) / at_least_one if at_least_one else 1.0
            for times, _, _, odds in rows
        ]

    @property
    def cumulants(self) -> Cumulants:
        def total(c: float) -> tuple[float, float, float]:
            rows, jumps = self._odds(c), self._expected_jumps(c)
            odds = sum(row[3] for row in rows)
            log_moment = sum(times * calm.log_moment for times, calm, _, _ in rows)
            log_moment += odds + math.log(-math.expm1(-odds)) if odds > 0 else -math.inf
            leaps = [
                (count, wild.mean - calm.mean, wild.variance)
                for count, (_, calm, wild, _) in zip(jumps, rows, strict=True)
            ]
            mean = sum(times * calm.mean for times, calm, _, _ in rows) + sum(
                count * leap for count, leap, _ in leaps
            )
            square = sum(count * (spread + leap**2) for count, leap, spread in leaps)
            middle = sum(count * leap for count, leap, _ in leaps)
            variance = (
                sum(times * calm.variance for times, calm, _, _ in rows)
                + square
                - middle**2 / max(sum(jumps), 1e-300)
            )
            return log_moment, mean, max(variance, 0.0)

        return total

    def _log_mass(self) -> float:
        return self.cumulants(0.0)[0]

    def _profile(self, index: int, c: float) -> tuple[Floats, Floats]:
        calm, wild = self.split[index].side(False, c), self.split[index].side(True, c)
        shares = wild.weights + relevance(wild.losses, self.split[index].atoms[True][1], self.epsilon)
        counts = np.concatenate(
            [self.parts[index][1] * calm.weights, self._expected_jumps(c)[index] * shares]
        )
        return np.concatenate([calm.losses, wild.losses]), counts

    def _cells(self, outline: Outline, nodes: Floats) -> tuple[Cells, Cells | None]:
        return self._both(outline, nodes)

    def _blur(self, index: int, c: float, calm: Cells, wild: Cells | None) -> float:
        assert wild is not None
        jumps = max(self._expected_jumps(c)[index], 1.0)
        return super()._blur(index, c, calm, None) + jumps * relative_blur(wild, c)

    def _range(self, index: int, c: float, log_share: float, log_mass: float) -> tuple[float, float]:
        _, highest = self.parts[index][0].losses_that_matter(1e-9, log_share, log_mass)
        wild = self.split[index].side(True, c)
        last = int(np.searchsorted(np.cumsum(wild.weights[::-1]), math.exp(log_share)))
        most = float(wild.losses[max(len(wild.losses) - 1 - last, 0)])
        highest = min(highest, float(wild.losses[-1]) * 1.05)
        low = _lowest(self.split[index].side(False, c), c, log_share)
        return low, min(max(most, highest, self.threshold), self.parts[index][0].pair.loss_range[1])


def _lowest(calm: _Tilted, c: float, log_share: float) -> float:
    """A loss below which little of the calm part lies, before and after everything there is raised to it."""
    first = int(np.searchsorted(np.cumsum(calm.weights), math.exp(log_share)))
    return min(float(calm.losses[max(first - 1, 0)]), (log_share + calm.log_moment) / c)


@dataclass(frozen=True)
class SplitLaws:
    """Runs with a jump and runs without: their bounds add up.

    `valid_from` is the epsilon from which on runs that were left out lose nothing.
    """

    parts: tuple[LatticeLaws, ...]
    valid_from: float

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        if epsilon < self.valid_from:
            return LogBounds(-math.inf, 0.0)
        each = [part.bounds(epsilon) for part in self.parts]
        upper = float(np.logaddexp.reduce([b.upper for b in each]))
        lower = float(np.logaddexp.reduce([b.lower for b in each]))
        shares = [math.exp(b.upper - upper) if upper > -math.inf else 0.0 for b in each]
        names = ("cells", "tails", "aliasing", "cut_off", "rounding")
        errors = {
            name: sum(s * getattr(b.errors, name) for s, b in zip(shares, each, strict=True))
            for name in names
        }
        return LogBounds(min(lower, upper), upper, Errors(**errors))


class BigJumpEngine:
    """Certified bounds where one rare loss makes delta."""

    def __init__(self, schedule: Schedule, longest: int) -> None:
        self.schedule, self.longest = schedule, longest
        self.spent = 0  # lattice points worked on for the current question

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> SplitLaws:
        """Laws placed for `epsilon`, split where that certifies most."""
        best: tuple[float, SplitLaws] | None = None
        self.spent = 0
        for threshold in self._thresholds(epsilon):
            try:
                laws = self._split(epsilon, tolerance, threshold)
            except (NotPreciseEnough, EngineDeclines):
                continue
            width = laws.bounds(epsilon).width
            if best is None or width < best[0]:
                best = (width, laws)
            if width <= tolerance or self.spent > 4 * self.longest:
                break
        if best is None:
            raise NotPreciseEnough("Telling large losses apart does not help.")
        return best[1]

    def _thresholds(self, epsilon: float) -> list[float]:
        """Losses at which to tell runs apart: shares of epsilon, and losses that few runs exceed; the larger kind first."""
        shares = [share * epsilon for share in THRESHOLDS if epsilon > 0]
        rare = []
        for mass in RARE:
            losses = [
                pair.loss_quantile(math.log(mass / times))
                for pair, times in self.schedule
                if pair.has_normal_noise
            ]
            rare += [max(losses)] if losses and max(losses) > 0 else []
        return rare + shares if rare and epsilon / 2 < rare[0] else shares + rare

    def _split(self, epsilon: float, tolerance: float, threshold: float) -> SplitLaws:
        engines: list[_SplitEngine] = [
            _JumpEngine(self.schedule, self.longest, threshold, epsilon, tolerance)
        ]
        most_calm = self.schedule.steps * threshold * (1 + 1e-12)
        if most_calm > epsilon:  # else calm runs lose at most epsilon
            engines.append(_CalmEngine(self.schedule, self.longest, threshold))
        # Roughly first: often one kind of runs makes nearly all of delta.
        parts = []
        for engine in engines:
            parts.append(engine.near(epsilon, 0.5))
            self.spent += engine.spent
        uppers = [part.bounds(epsilon).upper for part in parts]
        most = max(part.bounds(epsilon).lower for part in parts)
        for i, engine in enumerate(engines):
            share = math.exp(min(uppers[i] - most, 0.0))
            if share > tolerance / 4:
                # a kind of runs that makes little of delta may take a quarter of the tolerance, the other the rest
                wanted = tolerance if len(engines) == 1 else 0.75 * tolerance
                parts[i] = engine.near(epsilon, min(0.5, tolerance / 4 / share if share < 0.1 else wanted))
                self.spent += engine.spent
        return SplitLaws(tuple(parts), -math.inf if len(engines) == 2 else most_calm)
