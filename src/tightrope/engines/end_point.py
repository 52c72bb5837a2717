"""The last stretch of a curve whose loss is bounded and reached with positive probability."""

import math

from tightrope.engines.face import NO_HINT, EngineDeclines, Errors, Hint, LogBounds
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.pairs.schedule import Schedule


class EndPoint:
    """Bounds close to the largest total loss L, where only runs that lose almost all they can count.

    The loss exceeds eps = L - gap only if every step loses more than its own maximum less `gap`, and it is L if every step
    loses its maximum. So (1 - e^{-gap}) prod P(loss = max)^k <= delta(eps) <= (1 - e^{-gap}) prod P(loss > max - gap)^k.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.highest = schedule.loss_range[1]

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "EndPoint":
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
            log_top, log_near = pair.log_masses_at_top(gap + 2 * doubt)
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
