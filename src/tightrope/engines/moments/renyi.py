"""Upper bounds for many steps from their Rényi divergences, which add up: quick, valid and not tight.

Orders are looked for in floats, and may be any; what is said at an order is worked out in balls and rounded
up once.
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from flint import arb, ctx

from tightrope.engines.moments.step import (
    amplified_log_moment_above,
    estimate_log_moment,
    log_moment_above,
)
from tightrope.engines.saddle import log_chernoff_factor
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.balls import ball, ceil_float
from tightrope.pairs.amplified import Amplified
from tightrope.pairs.counted import CountedPair
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

BITS = 256  # carried: nothing here cancels by more than the digits of two floats
LEAST_TILT, MOST_TILT = 1e-3, 1e9  # orders less 1 among which the best one is looked for
NO_TILT = 1e-6  # this close to order 1, the divergence is as good as the relative entropy
FINE_ENOUGH = 1e-5  # of ln(order - 1): the bound is flat there, to about its square
SCALE = 1.25  # between the tilts at which a bound for all orders is supported


class RenyiBound:
    """What the moments of the steps say about delta, epsilon and concentrated privacy."""

    def __init__(self, parts: Iterable[tuple[Pair | Amplified, int]]) -> None:
        self.parts = tuple(parts)
        self.pairs = Schedule((part, times) for part, times in self.parts if isinstance(part, Pair))
        self.loses_infinitely = self.pairs.has_infinite_losses
        self.largest_loss = _largest_loss(self.parts)

    def log_moment(self, c: float) -> float:
        """An upper bound of ln E[e^{c loss}; loss finite] of the whole run: 1 + c is the order."""
        return _add_up((times, _log_moment_above(part, c)) for part, times in self.parts)

    def divergence(self, order: float) -> float:
        """An upper bound of the Rényi divergence of an order above 1; infinite where losses are."""
        if self.loses_infinitely:
            return math.inf
        if order == math.inf:
            return self.largest_loss
        c = order - 1
        if Fraction(c) < Fraction(order) - 1:  # orders beyond 2^53; the divergence grows with the order
            c = math.nextafter(c, math.inf)
        with ctx.workprec(BITS):
            return min(ceil_float(ball(self.log_moment(c)) / ball(c)), self.largest_loss)

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """An upper bound of ln delta(epsilon), and the order that gives it."""
        if not self.parts or epsilon >= self.largest_loss:
            with ctx.workprec(BITS):
                return (
                    ceil_float(self._infinite_mass.log()) if self.loses_infinitely else -math.inf
                ), math.inf
        c = _find_best_tilt(lambda c: self._estimate(c) - c * epsilon + log_chernoff_factor(c))
        with ctx.workprec(BITS):
            value = ball(self.log_moment(c)) - ball(c) * ball(epsilon) + log_chernoff_ball(c)
            order = 1 + c
            if (entropy := self._log_total_variation) < value:
                value, order = entropy, 1.0
            if self.loses_infinitely:
                value = (value.exp() + self._infinite_mass).log()
            return min(ceil_float(value), 0.0), order

    def epsilon(self, delta: float) -> tuple[float, float]:
        """An upper bound of the smallest epsilon >= 0 that `delta` allows, and the order that gives it."""
        if not self.parts:
            return 0.0, math.inf
        with ctx.workprec(BITS):
            left = ball(delta) - self._infinite_mass
            if not left > 0:
                return math.inf, math.inf
            log_left = left.log()
            if self._log_total_variation <= log_left:
                return 0.0, 1.0
        target = float(log_left)
        c = _find_best_tilt(lambda c: (self._estimate(c) + log_chernoff_factor(c) - target) / c)
        with ctx.workprec(BITS):
            value = ceil_float((ball(self.log_moment(c)) + log_chernoff_ball(c) - log_left) / ball(c))
        if self.largest_loss <= value:
            return self.largest_loss, math.inf
        return max(value, 0.0), 1 + c

    def zero_concentrated(self, largest_order: float) -> float:
        """The smallest rho found with divergence(order) <= rho order for all orders up to `largest_order`.

        ln M is convex, so between two tilts it lies below its chord a + b c, and (a + b c) / (c (1 + c)) has
        one peak. The divergence of order a is at most a S / 2 + L, S the squared separations of all unsampled
        Gaussian steps and L the largest loss of the others: that bounds all orders beyond MOST_TILT.
        """
        if self.loses_infinitely:
            return math.inf
        last, is_far = min(largest_order - 1, MOST_TILT), largest_order - 1 > MOST_TILT
        square = sum((times * _unsampled_square(part) for part, times in self.parts), Fraction(0))
        others = _largest_loss([(p, times) for p, times in self.parts if not p.unsampled_separation])

        def far(c: float) -> arb:
            return ball(square / 2) + ball(others) / (1 + ball(c))

        with ctx.workprec(BITS):
            if others == 0 and largest_order == math.inf:
                return ceil_float(ball(square / 2))
            c = min(NO_TILT, last)
            value = self.log_moment(c)
            best = ceil_float(ball(value) / ball(c))  # for all smaller orders: the divergence grows
            while c < last:
                is_near_limit = largest_order == math.inf and others / (1 + c) < 1e-6 * best
                if is_far and (is_near_limit or far(c) <= best):
                    break
                next_c = min(c * SCALE, last)
                next_value = self.log_moment(next_c)
                if next_value == math.inf:  # beyond the orders that a published bound knows
                    return math.inf
                best = max(best, _find_peak_of_chord(c, value, next_c, next_value))
                c, value = next_c, next_value
            return max(best, ceil_float(far(c))) if is_far else best

    def _estimate(self, c: float) -> float:
        """About the log-moment of the run, to find a good order with."""
        return sum(
            times
            * (_log_moment_above(part, c) if isinstance(part, Amplified) else estimate_log_moment(part, c))
            for part, times in self.parts
        )

    @property
    def _infinite_mass(self) -> arb:
        return infinite_mass(self.pairs)

    @property
    def _log_total_variation(self) -> arb:
        """ln sqrt(1 - e^-KL) >= ln delta(0) >= ln delta(epsilon); a divergence of order above 1 bounds KL."""
        entropy = self.divergence(1 + LEAST_TILT)
        return (-(-ball(entropy)).expm1()).log() / 2 if entropy > 0 else arb.neg_inf()


def infinite_mass(schedule: Schedule) -> arb:
    """The probability of an infinite loss, 1 - prod (1 - m)^k, to the working precision."""
    if schedule.shares_no_output:
        return arb(1)
    return -sum((times * ball(-pair.infinite_mass).log1p() for pair, times in schedule), arb(0)).expm1()


def _log_moment_above(part: Pair | Amplified, c: float) -> float:
    return amplified_log_moment_above(part, c) if isinstance(part, Amplified) else log_moment_above(part, c)


def _estimate_log_moment(part: Pair | Amplified, c: float) -> float:
    return (
        amplified_log_moment_above(part, c) if isinstance(part, Amplified) else estimate_log_moment(part, c)
    )


def _add_up(terms: Iterable[tuple[int, float]]) -> float:
    """The sum of counts times numbers, rounded up once; infinite if one is."""
    total = Fraction(0)
    infinite = 0.0
    for times, value in terms:
        if math.isfinite(value):
            total += times * Fraction(value)
        else:
            infinite += value  # a step without any finite loss has -inf
    return infinite or ceil_float(ball(total))


def _largest_loss(parts: Iterable[tuple[Pair | Amplified, int]]) -> float:
    """An upper bound on the largest total of finite losses, at least 0."""
    parts = tuple(parts)
    pairs = Schedule((part, times) for part, times in parts if isinstance(part, Pair))
    if any(isinstance(part, Amplified) for part, _ in parts):
        return math.inf
    return 0.0 if pairs.shares_no_output else max(pairs.loss_ceiling[1], 0.0)


def _unsampled_square(part: Pair | Amplified) -> Fraction:
    """The squared distance of the outermost normals of a step; 0 without normal noise."""
    if isinstance(part, LabelledPair):
        return max(map(_unsampled_square, part.pairs))
    if isinstance(part, CountedPair):
        return (
            part.observed.most * part.observed.exact_shift
            - part.alternative.most * part.alternative.exact_shift
        ) ** 2
    laws = part.base if isinstance(part, Amplified) else part.one_step
    if not part.unsampled_separation:
        return Fraction(0)
    assert isinstance(laws, ShiftPair)
    return (laws.observed.exact_shift - laws.alternative.exact_shift) ** 2


def log_chernoff_ball(c: float) -> arb:
    """ln of sup_x (1 - e^{-x}) e^{-cx} = c^c / (1+c)^{1+c}."""
    tilt = ball(c)
    return -tilt * (1 / tilt).log1p() - tilt.log1p()


def _find_best_tilt(bound: Callable[[float], float]) -> float:
    """The tilt with about the smallest bound. Any tilt is valid, and there is one valley."""
    from scipy import optimize  # takes a moment to import, and nothing else here needs it

    def at(log_c: float) -> float:
        return bound(math.exp(log_c))

    least, most = math.log(LEAST_TILT), math.log(MOST_TILT)
    x, value, stride = math.log(4.0), at(math.log(4.0)), math.log(4.0)
    if not at(x + 0.1) < value:
        stride = -stride
    while least < x < most:
        following = min(max(x + stride, least), most)
        found = at(following)
        if not found < value:
            break
        x, value = following, found
    low, high = max(x - abs(stride), least), min(x + abs(stride), most)
    fine = optimize.minimize_scalar(at, bounds=(low, high), method="bounded", options={"xatol": FINE_ENOUGH})
    if fine.fun < value:
        x, value = float(fine.x), float(fine.fun)
    # where only whole orders are known, the valley has a kink at one of them
    whole = max(round(math.exp(x)), 1)
    if bound(whole) < value:
        return float(whole)
    if math.isnan(value):
        raise NotPreciseEnough("no order gives a Rényi bound", "Ask the certified accountant.")
    return math.exp(x)


def _find_peak_of_chord(left: float, at_left: float, right: float, at_right: float) -> float:
    """An upper bound of (a + b c) / (c (1 + c)) between two tilts, a + b c the chord.

    For a < 0 < b it peaks at c = (-a + sqrt(a (a - b))) / b, with the value b / (1 + 2 c); else at an end.
    """
    low, high, at_low, at_high = map(Fraction, (left, right, at_left, at_right))
    slope = (at_high - at_low) / (high - low)
    start = at_low - slope * low
    peaks = [ball(at_low / (low * (1 + low))), ball(at_high / (high * (1 + high)))]
    if start < 0 < slope:
        middle = (ball(-start) + ball(start * (start - slope)).sqrt()) / ball(slope)
        if not (middle < ball(left) or middle > ball(right)):
            peaks.append(ball(slope) / (1 + 2 * middle))
    return max(map(ceil_float, peaks))
