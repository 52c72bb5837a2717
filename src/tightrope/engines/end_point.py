"""The last stretch of a curve whose loss is bounded and reached with positive probability."""

import math

import numpy as np

from tightrope.engines.face import EngineDeclines, Errors, LogBounds
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.pairs.distribution import Noise
from tightrope.pairs.pair import Envelope, FinitePair, Pair, ShiftPair, exact_log_ratio
from tightrope.pairs.schedule import Schedule


class EndPoint:
    """Bounds close to the largest total loss L, where only runs that lose almost all they can count.

    The loss exceeds eps = L - gap only if every step loses more than its own maximum less `gap`, and it is L if every step
    loses its maximum. So (1 - e^{-gap}) prod P(loss = max)^k <= delta(eps) <= (1 - e^{-gap}) prod P(loss > max - gap)^k.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.highest = schedule.loss_range[1]

    @staticmethod
    def applies(pair: Pair) -> bool:
        """Whether the pair's loss has a largest value, taken with positive probability."""
        if isinstance(pair, FinitePair):
            return not pair.infinite_mass and bool(pair.levels)
        return pair.noise is Noise.LAPLACE

    def near(self, epsilon: float, tolerance: float, log_delta: float | None = None) -> "EndPoint":
        """Itself, where it is tight enough."""
        if self.bounds(epsilon).width > tolerance:
            raise EngineDeclines("too far from the largest loss")
        return self

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        doubt = 16 * UNIT_ROUNDOFF * max(self.highest, abs(epsilon))
        gap = self.highest - epsilon
        if gap + doubt <= 0:
            return LogBounds(-math.inf, -math.inf)
        most = least = error = 0.0
        for pair, times in self.schedule:
            log_top, log_near = _top(pair, gap + 2 * doubt)
            least += times * log_top
            most += times * log_near
            error += times * 16 * UNIT_ROUNDOFF * (4 + abs(log_top))
        upper = most + math.log(-math.expm1(-gap - doubt)) + error
        lower = least + math.log(-math.expm1(doubt - gap)) - error if gap > doubt else -math.inf
        return LogBounds(
            lower,
            upper,
            Errors(cells=-math.expm1(least - most), rounding=min(1.0, 2 * doubt / max(gap, doubt)) + error),
        )


def _top(pair: Pair, gap: float) -> tuple[float, float]:
    """ln P(loss = max) and ln P(loss > max - gap), the latter rounded up."""
    if isinstance(pair, Envelope):
        pair = pair.remove  # which has the same losses above 0
    high = pair.loss_range[1]
    if isinstance(pair, ShiftPair):
        centre = np.array(pair.centres()[-1])
        x = pair.output_at(np.array(high - gap))
        near = float(
            pair.observed.log_upper(np.minimum(x, centre) - 64 * UNIT_ROUNDOFF * (1 + np.abs(centre)))
        )
        return float(pair.observed.log_upper(centre)), min(near, 0.0)
    levels = list(zip(pair.losses, pair.levels, strict=True))
    near_mass = sum(p for loss, (p, _) in levels if loss > high - gap * (1 + 1e-9) - 1e-300)
    (_, (top, _)) = levels[-1]
    return exact_log_ratio(top, type(top)(1)), exact_log_ratio(
        near_mass, type(top)(1)
    ) if near_mass else -math.inf
