"""Upper bounds for many steps from their Rényi divergences, which add up: quick, valid and not tight."""

import math
from collections.abc import Callable, Iterable

from tightrope.engines.face import EngineDeclines
from tightrope.engines.moments.step import amplified_log_moment_above, log_moment_above
from tightrope.engines.saddle import log_chernoff_factor
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.pairs.amplified import Amplified
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule

LEAST_TILT, MOST_TILT = 1e-3, 1e9  # orders less 1 among which the best one is looked for
NO_TILT = 1e-6  # this close to order 1, the divergence is as good as the relative entropy
FINE_ENOUGH = 1e-5  # of ln(order - 1): the bound is flat there, to about its square
SCALE = 1.25  # between the tilts at which a bound for all orders is supported


class RenyiBound:
    """What the moments of the steps say about delta, epsilon and concentrated privacy."""

    def __init__(self, parts: Iterable[tuple[Pair | Amplified, int]]) -> None:
        self.parts = tuple(parts)
        pairs = Schedule((part, times) for part, times in self.parts if isinstance(part, Pair))
        self.log_infinite_mass = pairs.log_infinite_mass[1]  # rounded up
        largest = sum(times * max(part.largest_finite_loss, 0.0) for part, times in self.parts)
        self.largest_loss = largest * (1 + (8 + len(self.parts)) * UNIT_ROUNDOFF)

    def log_moment(self, c: float) -> float:
        """An upper bound of ln E[e^{c loss}; loss finite] of the whole run: 1 + c is the order."""
        total = 0.0
        try:
            for part, times in self.parts:
                if isinstance(part, Amplified):
                    total += times * amplified_log_moment_above(part, c)
                else:
                    total += times * log_moment_above(part, c)
        except (EngineDeclines, OverflowError):
            return math.inf
        return total + (4 + len(self.parts)) * UNIT_ROUNDOFF * abs(total)

    def divergence(self, order: float) -> float:
        """An upper bound of the Rényi divergence of an order above 1; infinite where losses are."""
        if self.log_infinite_mass > -math.inf:
            return math.inf
        if order == math.inf:
            return self.largest_loss
        return min(self.log_moment(order - 1) / (order - 1) * (1 + 4 * UNIT_ROUNDOFF), self.largest_loss)

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """An upper bound of ln delta(epsilon), and the order that gives it."""
        if not self.parts or epsilon >= self.largest_loss:
            return self.log_infinite_mass, math.inf

        def bound(c: float) -> float:
            log_moment, log_factor = self.log_moment(c), log_chernoff_factor(c)
            abs_error = 8 * UNIT_ROUNDOFF * (abs(log_moment) + c * abs(epsilon) + abs(log_factor))
            return log_moment - c * epsilon + log_factor + abs_error

        c, value = _find_best_tilt(bound)
        order = 1 + c
        if self._log_total_variation < value:
            value, order = self._log_total_variation, 1.0
        if self.log_infinite_mass > -math.inf:
            larger, gap = max(value, self.log_infinite_mass), abs(value - self.log_infinite_mass)
            value = larger + math.log1p(math.exp(-gap))
            value += 8 * UNIT_ROUNDOFF * (1 + abs(value))
        return min(value, 0.0), order

    def epsilon(self, delta: float) -> tuple[float, float]:
        """An upper bound of the smallest epsilon >= 0 that `delta` allows, and the order that gives it."""
        if not self.parts:
            return 0.0, math.inf
        left = delta - math.exp(self.log_infinite_mass)
        if left <= 0:
            return math.inf, math.inf
        log_left = math.log(left) - 16 * UNIT_ROUNDOFF * (1 + delta / left)
        if self._log_total_variation <= log_left:
            return 0.0, 1.0

        def bound(c: float) -> float:
            log_moment, log_factor = self.log_moment(c), log_chernoff_factor(c)
            abs_error = 8 * UNIT_ROUNDOFF * (abs(log_moment) + abs(log_left) + abs(log_factor))
            return (log_moment + log_factor - log_left + abs_error) / c

        c, value = _find_best_tilt(bound)
        if self.largest_loss <= value:
            return self.largest_loss, math.inf
        return max(value, 0.0), 1 + c

    def zero_concentrated(self, largest_order: float) -> float:
        """The smallest rho found with divergence(order) <= rho order for all orders up to `largest_order`.

        ln M is convex, so between two tilts it lies below its chord a + b c, and (a + b c) / (c (1 + c)) has
        one peak. The divergence of order a is at most a S / 2 + L, S the squared separations of all unsampled
        Gaussian steps and L the largest loss of the others: that closes the far end.
        """
        if self.log_infinite_mass > -math.inf:
            return math.inf
        last = min(largest_order - 1, MOST_TILT)
        square = sum(times * part.unsampled_separation**2 for part, times in self.parts)
        others = [(part, times) for part, times in self.parts if not part.unsampled_separation]
        bounded = sum(times * max(part.largest_finite_loss, 0.0) for part, times in others)
        if bounded == 0 and largest_order == math.inf:
            return square / 2
        c = min(NO_TILT, last)
        value = self.log_moment(c)
        best = value / c  # for all smaller orders: the divergence grows with the order
        while c < last:
            far = square / 2 + bounded / (1 + c)
            if largest_order == math.inf and (far <= best or bounded / (1 + c) < 1e-6 * best):
                return max(best, far)
            next_c = min(c * SCALE, last)
            next_value = self.log_moment(next_c)
            if next_value == math.inf:  # beyond the orders that a published bound knows
                return math.inf
            best = max(best, _find_peak_of_chord(c, value, next_c, next_value))
            c, value = next_c, next_value
        return best if largest_order < math.inf else max(best, square / 2 + bounded / (1 + c))

    @property
    def _log_total_variation(self) -> float:
        """ln sqrt(1 - e^-KL) >= ln delta(0) >= ln delta(epsilon); a divergence of order above 1 bounds KL."""
        entropy = self.divergence(1 + LEAST_TILT)
        return 0.5 * math.log(-math.expm1(-entropy)) + 4 * UNIT_ROUNDOFF if entropy > 0 else -math.inf


def _find_best_tilt(bound: Callable[[float], float]) -> tuple[float, float]:
    """The tilt with about the smallest bound, and that bound. Any tilt is valid, and there is one valley."""
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
        return whole, bound(whole)
    if math.isnan(value):
        raise NotPreciseEnough("no order gives a Rényi bound", "Ask the certified accountant.")
    return math.exp(x), value


def _find_peak_of_chord(left: float, at_left: float, right: float, at_right: float) -> float:
    """The largest (a + b c) / (c (1 + c)) between two tilts, a + b c the chord; a <= 0 by convexity."""
    slope = (at_right - at_left) / (right - left)
    start = at_left - slope * left
    tilts = [left, right]
    if start < 0 < slope:
        middle = (-start + math.sqrt(start * (start - slope))) / slope
        tilts += [middle] if left < middle < right else []
    return max((start + slope * c) / (c * (1 + c)) for c in tilts) * (1 + 1e-12)
