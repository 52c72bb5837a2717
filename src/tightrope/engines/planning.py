"""Uncertified cumulants and ranges of one tilted step: where to look, never what to answer."""

import math
from collections.abc import Iterable
from functools import cached_property, lru_cache, partial

import numpy as np

from tightrope.engines.face import ABOVE, EngineDeclines
from tightrope.engines.neighbours import represent
from tightrope.engines.one_step.cells import cut
from tightrope.engines.resolve import resolve
from tightrope.engines.saddle import Cumulants, epsilon_estimate, log_delta_estimate, tilt_for_epsilon
from tightrope.engines.transforms.make import kept_transform
from tightrope.engines.transforms.transform import KEPT_PAIRS
from tightrope.numerics.floats import Floats
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair

NEGLIGIBLE = -7.0  # ln of the share of delta that losses too rare to plan for may have
# Where a tilted run has so many steps that lose a quarter of epsilon or more, an estimate without runs rarer
# than about delta is better if it is so much smaller.
SOME_JUMPS, LARGE_JUMP, AS_RARE_AS_DELTA, MUCH_SMALLER = 0.05, 0.25, 2.0, 0.6
BISECTIONS = 20
MOST_LOG_MASS = 600.0  # over delta: more is far too much as well, and its sum a number


class Plan:
    """The cumulants of a whole schedule, for planning; `log_cap` as in Outline, per step."""

    def __init__(self, schedule: Schedule, log_cap: float = -math.inf) -> None:
        self.schedule, self.log_cap = schedule, log_cap
        self._guide = self._outline(represent(schedule))

    @cached_property
    def parts(self) -> "list[tuple[Outline, int]]":
        """Every kind of step."""
        return self._outline(self.schedule)

    def _outline(self, parts: Iterable[tuple[Pair, int]]) -> "list[tuple[Outline, int]]":
        return [(outline(pair, self.log_cap - math.log(times)), times) for pair, times in parts]

    def __call__(self, c: float) -> tuple[float, float, float]:
        """ln of the composed moment at tilt c and its first two derivatives in c."""
        log_moment = mean = variance = 0.0
        for outline, times in self._guide:
            one = outline.cumulants(c)
            log_moment += times * one[0]
            mean += times * one[1]
            variance += times * one[2]
        return log_moment, mean, variance

    def count_losses(self, c: float, least: float) -> float:
        """How many steps of a run tilted by c lose more than `least`, on average."""
        tilted = [(times, *outline.tilted(c)[:2]) for outline, times in self._guide]
        return sum(times * float(weights[losses > least].sum()) for times, losses, weights in tilted)

    def one_loss(self, c: float, log_delta: float, most: float) -> float:
        """The epsilon up to `most` of which the steps' own deltas sum to delta, by the losses at tilt c."""
        parts = []
        for outline, times in self._guide:
            losses, weights, log_moment = outline.tilted(c)
            with np.errstate(divide="ignore"):
                parts.append((losses, np.log(weights) + log_moment - c * losses + math.log(times)))
        losses = np.concatenate([losses for losses, _ in parts])
        masses = np.exp(np.minimum(np.concatenate([logs for _, logs in parts]) - log_delta, MOST_LOG_MASS))
        low, high = 0.0, most
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            beyond = losses > middle
            is_below = float(masses[beyond] @ -np.expm1(middle - losses[beyond])) > 1
            low, high = (middle, high) if is_below else (low, middle)
        return low


class Outline:
    """ln E[e^{c loss}] of a pair and the losses that matter at tilt c, about."""

    def __init__(self, pair: Pair, log_cap: float = -math.inf) -> None:
        self.pair = pair
        self.separation = pair.gaussian_separation
        # Losses too rare to matter would still make the moments explode and forbid the tilt that delta needs.
        self.log_cap = log_cap
        self.tilted = lru_cache(maxsize=16)(self._tilted)
        # ln of the moment at c, and its first two derivatives in c
        self.cumulants: Cumulants = self._gaussian_cumulants
        if self.separation is None and not pair.has_normal_noise:
            self.cumulants = self._bounded_cumulants
        elif self.separation is None:
            cumulants = kept_transform(pair).cumulants
            self.cumulants = partial(cumulants, log_cap=log_cap) if log_cap > -math.inf else cumulants

    def _gaussian_cumulants(self, c: float) -> tuple[float, float, float]:
        assert self.separation is not None
        v = self.separation**2
        return v * c * (1 + c) / 2, v * (c + 0.5), v

    def _bounded_cumulants(self, c: float) -> tuple[float, float, float]:
        """By the merged cells, which serve any tilt; quadratures end where tilts are steep."""
        losses, weights, log_moment = self.tilted(c)
        mean = float(weights @ losses)
        return log_moment, mean, float(weights @ (losses - mean) ** 2)

    def _tilted(self, c: float) -> tuple[Floats, Floats, float]:
        """Losses in increasing order, their tilted probabilities, and ln of the moment."""
        if self.separation is not None:
            v = self.separation
            z = np.linspace(-9, 9, 400)
            weights = np.exp(-(z**2) / 2)
            return v * z + v * v * (c + 0.5), weights / weights.sum(), v * v * c * (1 + c) / 2
        if self.pair.has_normal_noise:
            nodes = kept_transform(self.pair).quick_nodes(c, self.log_cap)
            return nodes.losses, nodes.weights, nodes.log_moment
        losses, log_masses = self._bounded_atoms
        exponents = log_masses + c * losses
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        total = float(weights.sum())
        small = c * float(np.abs(losses).max()) < 1
        if small:
            return losses, weights / total, math.log1p(float(np.exp(log_masses) @ np.expm1(c * losses)))
        return losses, weights / total, top + math.log(total)

    @cached_property
    def _bounded_atoms(self) -> tuple[Floats, Floats]:
        """Merged cells of a pair whose finite losses are bounded."""
        low, high = self.pair.loss_range
        if self.pair.is_finite:
            return np.array(self.pair.losses), np.log([float(p) for p, _ in self.pair.levels])
        nodes = low + (high - low) * np.arange(1, 400) / 400
        pair = self.pair.remove if isinstance(self.pair, Envelope) else self.pair
        if isinstance(pair, ShiftPair):
            # evenly in outputs too: next to the largest loss lie many outputs
            first, *_, last = pair.centres()
            losses = pair.loss(np.linspace(first, last, 600)[1:-1])
            losses = np.concatenate([losses, -losses]) if pair is not self.pair else losses
            nodes = np.union1d(nodes, losses[(losses > low) & (losses < high)])
        cells = cut(self.pair, nodes).certain
        return cells.merged, cells.log_masses

    def losses_that_matter(self, c: float, log_share: float, log_mass: float) -> tuple[float, float]:
        """Losses that leave out at most e^log_share of the tilted mass, and e^log_mass of P above."""
        low, high = self.pair.loss_range
        losses, weights, log_moment = self.tilted(c)
        share = math.exp(log_share)
        first = int(np.searchsorted(np.cumsum(weights), share))
        last = len(losses) - 1 - int(np.searchsorted(np.cumsum(weights[::-1]), share))
        least, most = float(losses[max(first - 1, 0)]), float(losses[min(last + 1, len(losses) - 1)])
        # all mass below is raised to this loss on the side ABOVE
        least = min(least, (log_share + log_moment) / c)
        if self.log_cap > -math.inf and self.separation is None:
            log_mass = self.log_cap
        return max(least, low), min(max(most, self.pair.loss_quantile(log_mass)), high)


_outline = lru_cache(maxsize=KEPT_PAIRS)(Outline)


def outline(pair: Pair, log_cap: float) -> Outline:
    """The outline of a pair, kept; the cap is rounded so that runs of similar length share it."""
    return _outline(pair, math.floor(log_cap) if math.isfinite(log_cap) else log_cap)


def estimate_epsilon(schedule: Schedule, log_delta: float, accuracy: float) -> tuple[float, float]:
    """About epsilon(delta), by the saddle point, and its tilt.

    Where one rare, large loss makes delta, no tilt makes it typical, and the saddle says far too much. It
    says less without runs that are rarer than delta, which by themselves tell an epsilon from below.
    """
    plan = Plan(schedule, log_delta + math.log(accuracy) + NEGLIGIBLE)
    epsilon, tilt = epsilon_estimate(plan, log_delta)
    if plan.count_losses(tilt, LARGE_JUMP * epsilon) > SOME_JUMPS and schedule.has_ever_rarer_losses:
        other, other_tilt = epsilon_estimate(Plan(schedule, log_delta + AS_RARE_AS_DELTA), log_delta, tilt)
        other = max(other, plan.one_loss(tilt, log_delta, epsilon))
        if other < MUCH_SMALLER * epsilon:
            return other, other_tilt
    return epsilon, tilt


def log_delta_guess(schedule: Schedule, epsilon: float, log_delta: float) -> float:
    """About ln delta(epsilon), by the saddle point; good near `log_delta`, NaN where there is none."""
    if not schedule:
        return -math.inf
    plan = Plan(resolve(schedule, ABOVE), log_delta + NEGLIGIBLE)
    try:
        tilt = tilt_for_epsilon(plan, epsilon)
        return min(log_delta_estimate(plan, tilt, epsilon), 0.0)
    except (EngineDeclines, ArithmeticError, ValueError):
        return math.nan
