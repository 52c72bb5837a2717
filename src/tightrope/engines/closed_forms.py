"""Curves with a formula: full batches of Gaussian noise, one step, and the stretch below the largest loss."""

import math

import numpy as np

from tightrope.engines.face import NO_HINT, NOTHING, EngineDeclines, Errors, Hint, LogBounds
from tightrope.engines.outcomes import ExactOutcomes
from tightrope.numerics.floats import HALF_LOG_2PI, UNIT_ROUNDOFF, mills_ratio
from tightrope.pairs.mixture import Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

OVERFLOW = -30.0  # mills_ratio is a plain float above this


def sum_full_batches(schedule: Schedule) -> "OneFormula":
    """Many full-batch Gaussian steps are one, at the root of the summed squares of their separations."""
    separation = schedule.gaussian_separation
    if separation is None:
        raise ValueError("some step is no full batch of Gaussian noise")
    return OneFormula(ShiftPair.of_normals(separation))


def one_step_bounds(pair: Pair, epsilon: float) -> LogBounds:
    """Bounds on ln delta(epsilon) of a single step."""
    if pair.is_finite:
        return ExactOutcomes(Schedule([(pair, 1)])).bounds(epsilon)
    return OneFormula(pair).bounds(epsilon)


def mills_drop(x: float, gap: float) -> tuple[float, float]:
    """mills_ratio(x) - mills_ratio(x + gap) > 0, and a bound on its rounding error."""
    near, far = float(mills_ratio(x)), float(mills_ratio(x + gap))
    return near - far, 8 * UNIT_ROUNDOFF * (near + far)


class OneFormula:
    """The curve of one step of additive noise, up to rounding that is charged."""

    def __init__(self, pair: Pair) -> None:
        step = pair.one_step
        if not isinstance(step, ShiftPair):
            raise TypeError("one step of finitely many outputs is a sum, not a formula")
        self.step = step

    @staticmethod
    def of(schedule: Schedule) -> "OneFormula":
        """The curve of a schedule of one step."""
        ((pair, _),) = schedule.parts
        return OneFormula(pair)

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "OneFormula":
        """The formula is the same everywhere."""
        return self

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon), epsilon >= 0."""
        pair = self.step
        highest = pair.loss_range[1]
        if epsilon >= highest * (1 + 8 * UNIT_ROUNDOFF):
            return NOTHING
        if epsilon > highest * (1 - 16 * UNIT_ROUNDOFF):
            # too close to tell: the curve falls, so its value a little to the left bounds it
            return LogBounds(-math.inf, self.bounds(highest * (1 - 32 * UNIT_ROUNDOFF)).upper)
        x = float(pair.output_at(np.array(epsilon)))
        if pair.noise is Noise.LAPLACE:
            return _laplace(pair, epsilon, x)
        return _normal(pair, epsilon, x)


def _normal(pair: ShiftPair, epsilon: float, x: float) -> LogBounds:
    """delta = phi(x) (A [m(x-a) - m(x)] + B [m(x) - m(x+b)]), m Mills' ratio, x the output with loss epsilon.

    A = g_P e^{ax - a^2/2} and B = e^eps g_Q e^{-bx - b^2/2} are the shifted shares of P and e^eps Q at x,
    relative to the plain noise; the plain shares cancel in the formula, not in the arithmetic.
    """
    p, q = pair.observed, pair.alternative
    if min(x - p.shift, x) < OVERFLOW:
        return _normal_direct(pair, epsilon, x)
    terms = []  # ln share, Mills' ratio's drop, its rounding error
    if p.rate:
        terms.append((_log_share_of_p(pair, epsilon, x), *mills_drop(x - p.shift, p.shift)))
    if q.rate:
        terms.append((_log_share_of_q(pair, epsilon, x), *mills_drop(x, -q.shift)))
    top = max(log_share for log_share, _, _ in terms)
    value = sum(math.exp(log_share - top) * drop for log_share, drop, _ in terms)
    abs_error = sum(math.exp(log_share - top) * drop_error for log_share, _, drop_error in terms)
    # x carries a few units of roundoff relative, plus what dividing by a small shift magnifies
    shift = max(p.shift, -q.shift)
    reach = abs(x) + shift
    rel_error = 16 * UNIT_ROUNDOFF * (4 + reach * (reach + 1 + (1 + epsilon) / shift) + abs(top))
    if p.is_plain and not q.is_pure:  # the share of Q is what is left of e^eps (1 - g) below 1
        rel_error += 8 * UNIT_ROUNDOFF * epsilon / abs(epsilon + q.log_rest)
    return _charge(top - x * x / 2 - HALF_LOG_2PI, value, abs_error, rel_error)


def _log_share_of_p(pair: ShiftPair, epsilon: float, x: float) -> float:
    """ln A; exactly where Q is plain, since then R_P = e^eps at x."""
    p = pair.observed
    if pair.alternative.rate:
        return math.log(p.rate) + p.shift * (x - p.shift / 2)
    if epsilon < 30:
        return math.log(math.expm1(epsilon) + p.rate)
    return epsilon + math.log1p((p.rate - 1) * math.exp(-epsilon))


def _log_share_of_q(pair: ShiftPair, epsilon: float, x: float) -> float:
    """ln B; exactly where P is plain."""
    q = pair.alternative
    if pair.observed.rate:
        return epsilon + math.log(q.rate) + q.shift * (x - q.shift / 2)
    return math.log(-math.expm1(epsilon + q.log_rest)) if not q.is_moved else 0.0


def _normal_direct(pair: ShiftPair, epsilon: float, x: float) -> LogBounds:
    """P(X > x) - e^eps Q(X > x) far to the left, where delta is of the order of 1."""
    p = math.exp(float(pair.observed.log_upper(np.array(x))))
    q = math.exp(float(pair.alternative.log_upper(np.array(x))) + epsilon)
    return _charge(0.0, p - q, 32 * UNIT_ROUNDOFF * (p + q) * (1 + abs(x) + epsilon), 0.0)


def _laplace(pair: ShiftPair, epsilon: float, x: float) -> LogBounds:
    """delta = g (1 - e^{x-a}) for (mix, plain) and 1 - e^eps (1 - g) times (1 - e^x) for (plain, mix)."""
    p, q = pair.observed, pair.alternative
    if q.rate == 0:
        gap, share = p.shift - x, p.rate
    else:
        gap, share = -x, -math.expm1(epsilon + q.log_rest) if not q.is_moved else 1.0
    gap = max(gap, 0.0)
    # absolute errors: of x (through ln y, y = e^{-2x - b} for (plain, mix)) and of what is left of e^eps (1
    # - g) below 1
    steep = math.exp(2 * x - q.shift) if q.rate else 0.0
    gap_error = 16 * UNIT_ROUNDOFF * (2 + p.shift - q.shift + abs(x) + steep)
    share_error = 0.0 if q.rate == 0 else 8 * UNIT_ROUNDOFF * (1 + epsilon)
    error = abs(share) * gap_error + share_error * -math.expm1(-gap - gap_error)
    return _charge(0.0, max(share, 0.0) * -math.expm1(-gap), error, 16 * UNIT_ROUNDOFF)


def _charge(log_scale: float, value: float, error: float, rel_error: float) -> LogBounds:
    """Bounds on ln of e^log_scale times the value, which is off by `error` and by `rel_error` of itself."""
    error += abs(value) * rel_error
    upper = value + error
    if not upper > 0:
        return NOTHING
    lower = value - error
    log_lower = log_scale + math.log(lower) if lower > 0 else -math.inf
    return LogBounds(log_lower, log_scale + math.log(upper), Errors(rounding=2 * error / upper))


class EndPoint:
    """Bounds close to the largest total loss L, where only runs that lose almost all they can count.

    The loss exceeds eps = L - gap only if every step loses more than its own maximum less `gap`, and it is L
    if every step loses its maximum. So, with the product over all steps,

        prod P(loss = max)  <=  delta(eps) / (1 - e^{-gap})  <=  prod P(loss > max - gap).
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
        gap_abs_error = 16 * UNIT_ROUNDOFF * max(self.highest, abs(epsilon))
        gap = self.highest - epsilon
        if gap + gap_abs_error <= 0:
            return LogBounds(-math.inf, -math.inf)
        tops = [(times, *pair.log_masses_at_top(gap + 2 * gap_abs_error)) for pair, times in self.schedule]
        # math.fsum rounds once, however many steps there are
        least = math.fsum(times * log_top for times, log_top, _ in tops)
        most = math.fsum(times * log_near for times, _, log_near in tops)
        error = math.fsum(16 * UNIT_ROUNDOFF * times * (4 + abs(log_top)) for times, log_top, _ in tops)
        upper = most + math.log(-math.expm1(-gap - gap_abs_error)) + error
        lower = -math.inf
        if gap > gap_abs_error:
            lower = least + math.log(-math.expm1(gap_abs_error - gap)) - error
        rounding = min(1.0, 2 * gap_abs_error / max(gap, gap_abs_error)) + error
        return LogBounds(lower, upper, Errors(discretisation=-math.expm1(least - most), rounding=rounding))
