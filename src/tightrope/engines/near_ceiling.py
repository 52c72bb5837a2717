"""Bounds just below a largest total loss that no output reaches: a record added under very little noise.

Whatever counts is computed in balls and rounded outwards once at the end. Balls take long to load, and floats
tell most questions that they are too far from the largest loss.
"""

import math
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from tightrope.engines.face import NO_HINT, NOTHING, EngineDeclines, Errors, Hint, LogBounds, raising
from tightrope.numerics.floats import Floats, next_up
from tightrope.pairs.mixture import Mixture
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

if TYPE_CHECKING:
    from flint import arb

    from tightrope.engines.closed_forms import EndPoint

LOG_TAKEN = np.arange(-64.0, 64.0, 0.125)  # ln of what the outputs at the end of A take
NARROW = 1e-2  # of the accuracy, relative to epsilon: a tenth of what is enough
WORTH_TRYING = 10  # times the width that settles epsilon: planned ends are often wider apart than found ones
PLAN_ABS_ERROR = 1e-6  # of a logarithm that only decides whether balls are worth their while


class NearCeiling:
    """Bounds close to the largest total loss L of steps (N(0), (1 - g) N(0) + g N(-b)).

    At output u a step loses ln(1 + x) less than its most, x = r e^{-b u - b^2/2} and r = g / (1 - g). With
    little noise all but the rarest x are tiny. The loss exceeds eps = L - gap only if 1 + x < e^gap in every
    step. And every event A bounds delta from below by P(A) - e^eps Q(A): let it be that every step has
    u > -w, with a w of its own at which x is the same in all. So, with products over all steps,

        prod P(u > -w) - e^eps prod Q(u > -w)  <=  delta(eps)  <=  (1 - e^{-gap}) prod P(1 + x < e^gap).
    """

    narrow: ClassVar[float] = NARROW

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.parts = [(pair.alternative, times) for pair, times in schedule if isinstance(pair, ShiftPair)]
        if not schedule.nears_its_ceiling:
            raise ValueError("some step reaches its largest loss, or has none")

    @cached_property
    def _plan(self) -> tuple[Floats, Floats]:
        """About ln P(A) and L + ln Q(A) / P(A) of several A: the lower bound holds whichever is chosen."""
        log_p, taken = np.zeros_like(LOG_TAKEN), np.zeros_like(LOG_TAKEN)
        for law, times in self.parts:
            w = _output(law, LOG_TAKEN)
            log_one = special.log_ndtr(w)
            log_p += times * log_one
            taken += times * np.log1p(np.exp(_log_odds(law) + special.log_ndtr(w + law.shift) - log_one))
        return log_p, taken

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "NearCeiling":
        """Itself, where it is tight enough."""
        gap = self.schedule.loss_ceiling[1] - epsilon
        if not gap > 0 or self._plan_width(gap) > tolerance or self.bounds(epsilon).width > tolerance:
            raise EngineDeclines("too far from the largest loss")
        return self

    def guess(self, delta: float) -> float:
        """About the largest epsilon at which some A certifies delta; 0 if there is none."""
        log_p, taken = self._plan
        log_share = math.log(delta) - log_p
        gaps = taken - np.log1p(-np.exp(np.minimum(log_share, -1e-9)))
        gap = float(gaps[log_share < -1e-9].min(initial=math.inf))
        return max(self.schedule.loss_ceiling[0] - gap, 0.0)

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        from tightrope.engines.closed_forms import log_gain  # loads flint
        from tightrope.numerics.balls import ball, ceil_float, enclose

        least, most = self.schedule.loss_ceiling
        gap = next_up(most - epsilon)
        if gap <= 0:
            return NOTHING
        log_near = enclose(lambda: sum((n * _log_near(law, gap) for law, n in self.parts), ball(0.0)))
        upper = min(next_up(ceil_float(log_near) + log_gain(gap)[1]), 0.0)
        lower = self._log_below(epsilon, least - epsilon)
        return LogBounds(lower, upper, Errors(-math.expm1(lower - upper)))

    def _log_below(self, epsilon: float, gap: float) -> float:
        """ln of P(A) - e^eps Q(A), from below, for the A that is planned to certify most."""
        from tightrope.engines.closed_forms import normal_tail  # loads flint
        from tightrope.numerics.balls import ball, enclose, floor_float

        planned = self._plan_lower(gap)
        best = int(planned.argmax())
        if planned[best] == -math.inf:
            return -math.inf
        parts = [(law, times, float(_output(law, LOG_TAKEN[best]))) for law, times in self.parts]

        def log_both() -> "tuple[arb, arb]":
            """Of P(A), and of Q(A) / P(A)."""
            log_p = log_ratio = ball(0.0)
            for law, times, w in parts:
                log_one = _log_beyond(ball(w))
                moved = normal_tail(ball(-law.exact_shift) - ball(w)) / log_one.exp()
                log_p += times * log_one
                log_ratio += times * (ball(1 - law.exact_rate) + ball(law.exact_rate) * moved).log()
            return log_p, log_ratio

        def log_difference() -> "arb":
            log_p, log_ratio = log_both()
            return log_p + (-(ball(epsilon) + log_ratio).exp()).log1p()

        if not enclose(lambda: ball(epsilon) + log_both()[1]) < 0:
            return -math.inf
        return floor_float(enclose(log_difference))

    def _plan_lower(self, gap: float) -> Floats:
        """About ln of what each A certifies."""
        log_p, taken = self._plan
        excess = np.maximum(gap - taken, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(log_p + np.log(-np.expm1(-excess)))

    def _plan_width(self, gap: float) -> float:
        """About the width of the bounds, or a little less."""
        log_near = 0.0
        for law, times in self.parts:
            log_near += times * float(special.log_ndtr(_output(law, np.log(math.expm1(min(gap, 700.0))))))
        lower = float(self._plan_lower(gap).max())
        return -math.expm1(min(lower - log_near - math.log(-math.expm1(-gap)) + PLAN_ABS_ERROR, 0.0))


def _log_odds(law: Mixture) -> float:
    """ln r."""
    return law.log_rate - law.log_rest


def _output(law: Mixture, log_taken: Floats) -> Floats:
    """The w with r e^{b w - b^2/2} = e^log_taken."""
    b = -law.shift
    return np.asarray((log_taken - _log_odds(law)) / b + b / 2)


def _log_beyond(w: "arb") -> "arb":
    """ln P(u > -w) as a ball, with relative accuracy at either end."""
    from tightrope.engines.closed_forms import normal_tail  # loads flint

    return (-normal_tail(w)).log1p() if w > 0 else normal_tail(-w).log()


def _log_near(law: Mixture, gap: float) -> "arb":
    """ln P(1 + x < e^gap) as a ball."""
    from tightrope.numerics.balls import ball  # loads flint

    b = ball(-law.exact_shift)
    log_odds = (ball(law.exact_rate) / ball(1 - law.exact_rate)).log()
    return _log_beyond((ball(gap).expm1().log() - log_odds) / b + b / 2)


def find_end(schedule: Schedule, delta: float, accuracy: float) -> "EndPoint | NearCeiling | None":
    """Bounds near the largest total loss, where they may settle epsilon(delta)."""
    if schedule.is_bounded:
        from tightrope.engines.closed_forms import EndPoint  # loads flint

        return EndPoint(schedule)
    if not schedule.nears_its_ceiling:
        return None
    end = NearCeiling(schedule)
    with suppress(ArithmeticError), raising():
        # delta is at most 1 - e^-gap: epsilon is at most L + ln(1 - delta)
        _, most = schedule.loss_ceiling
        width = most + math.log1p(-delta) - end.guess(delta)
        if width <= WORTH_TRYING * end.narrow * accuracy * most:
            return end
    return None
