"""K steps by their Rényi divergences, which add up: upper bounds that are quick, valid and looser than the curve itself."""

import math
from collections.abc import Callable, Iterable

from tightrope.engines.face import EngineDeclines
from tightrope.engines.moments.amplified import amplified_log_moment_above
from tightrope.engines.moments.step import largest_loss, log_moment_above
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.pairs.amplified import Amplified
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.pair import Pair

Bounded = Pair | Amplified

LEAST_TILT, MOST_TILT = 1e-3, 1e9  # orders less 1 among which the best one is looked for
NO_TILT = 1e-6  # at most so far from order 1, the divergence is as good as the relative entropy
FINE_ENOUGH = 1e-5  # of ln(order - 1): the bound is flat there, to about its square
SCALE = 1.25  # between the tilts at which a bound for all orders is supported


class RenyiBound:
    """What the moments of the steps say about delta, epsilon and concentrated privacy."""

    def __init__(self, parts: Iterable[tuple[Bounded, int]]) -> None:
        self.parts = tuple(parts)
        finite = [
            (part, times) for part, times in self.parts if isinstance(part, FinitePair) and part.infinite_mass
        ]
        self.infinite_mass = -math.expm1(sum(times * _log_complement(part) for part, times in finite))
        self.largest_loss = sum(times * _largest_loss(part) for part, times in self.parts) * (
            1 + 8 * UNIT_ROUNDOFF
        )

    def log_moment(self, c: float) -> float:
        """An upper bound of ln E[e^{c loss}; loss finite] of the whole run: 1 + c is the order."""
        total = 0.0
        for part, times in self.parts:
            try:
                each = (
                    amplified_log_moment_above(part, c)
                    if isinstance(part, Amplified)
                    else log_moment_above(part, c)
                )
            except (EngineDeclines, OverflowError):
                return math.inf
            total += times * each
        return total + 4 * UNIT_ROUNDOFF * abs(total)

    def divergence(self, order: float) -> float:
        """An upper bound of the Rényi divergence of an order above 1; infinite where losses are."""
        if self.infinite_mass:
            return math.inf
        if order == math.inf:
            return self.largest_loss
        return min(self.log_moment(order - 1) / (order - 1) * (1 + 4 * UNIT_ROUNDOFF), self.largest_loss)

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """An upper bound of ln delta(epsilon), and the order that gives it."""
        if not self.parts:
            return -math.inf, math.inf
        log_infinite = math.log(self.infinite_mass) + 8 * UNIT_ROUNDOFF if self.infinite_mass else -math.inf
        if epsilon >= self.largest_loss:
            return log_infinite, math.inf

        def at(c: float) -> float:
            found = self.log_moment(c)
            slack = 8 * UNIT_ROUNDOFF * (abs(found) + c * abs(epsilon) + abs(_log_peak(c)))
            return found - c * epsilon + _log_peak(c) + slack

        c, value = _smallest(at)
        order = 1 + c
        if self._log_total_variation < value:
            value, order = self._log_total_variation, 1.0
        if self.infinite_mass:
            value = max(value, log_infinite) + math.log1p(math.exp(-abs(value - log_infinite)))
            value += 8 * UNIT_ROUNDOFF * (1 + abs(value))
        return min(value, 0.0), order

    def epsilon(self, delta: float) -> tuple[float, float]:
        """An upper bound of the smallest epsilon >= 0 with delta(epsilon) <= `delta`, and the order that gives it."""
        if not self.parts:
            return 0.0, math.inf
        left = delta - self.infinite_mass
        if left <= 0:
            return math.inf, math.inf
        log_left = math.log(left) - 16 * UNIT_ROUNDOFF * (1 + delta / left)
        if self._log_total_variation <= log_left:
            return 0.0, 1.0

        def at(c: float) -> float:
            found = self.log_moment(c)
            slack = 8 * UNIT_ROUNDOFF * (abs(found) + abs(log_left) + abs(_log_peak(c)))
            return (found + _log_peak(c) - log_left + slack) / c

        c, value = _smallest(at)
        if self.largest_loss <= value:
            return max(self.largest_loss, 0.0), math.inf
        return max(value, 0.0), 1 + c

    def zero_concentrated(self, largest_order: float) -> float:
        """The smallest rho found with divergence(order) <= rho order for all orders up to `largest_order`, or all there are.

        ln M is convex, so between two tilts it lies below its chord a + b c, and (a + b c) / (c (1 + c)) has one peak. The
        divergence of order a is at most a S / 2 + L, S the squared separations of all unsampled Gaussian steps and L the
        largest loss of the others: that closes the far end.
        """
        if self.infinite_mass:
            return math.inf
        last = min(largest_order - 1, MOST_TILT)
        square = sum(times * _separation(part) ** 2 for part, times in self.parts)
        bounded = sum(times * _largest_loss(part) for part, times in self.parts if not _separation(part))
        if bounded == 0 and largest_order == math.inf:
            return square / 2
        c = min(NO_TILT, last)
        value = self.log_moment(c)
        best = value / c  # for all smaller orders: the divergence grows with the order
        while c < last:
            far = square / 2 + bounded / (1 + c)
            if largest_order == math.inf and (far <= best or bounded / (1 + c) < 1e-6 * best):
                return max(best, far)
            step = min(c * SCALE, last)
            next_value = self.log_moment(step)
            if next_value == math.inf:  # beyond the orders that a published bound knows
                return math.inf
            best = max(best, _peak_of_chord(c, value, step, next_value))
            c, value = step, next_value
        return best if largest_order < math.inf else max(best, square / 2 + bounded / (1 + c))

    @property
    def _log_total_variation(self) -> float:
        """ln sqrt(1 - e^-KL) >= ln delta(0) >= ln delta(epsilon); KL is at most the divergence of any order above 1."""
        entropy = self.divergence(1 + LEAST_TILT)
        return 0.5 * math.log(-math.expm1(-entropy)) + 4 * UNIT_ROUNDOFF if entropy > 0 else -math.inf


def _log_peak(c: float) -> float:
    """ln of the largest value of e^{-c x} (1 - e^{-x}): (1 - e^{-x})_+ <= e^{c x + this}."""
    return -c * math.log1p(1 / c) - math.log1p(c)


def _smallest(bound: Callable[[float], float]) -> tuple[float, float]:
    """The tilt with about the smallest bound, and the bound there; every tilt's bound is valid, and they have one valley."""
    from scipy import optimize  # takes a moment to import, and only this asks for it

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
    whole = max(
        round(math.exp(x)), 1
    )  # where whole orders are all that is known, the valley has a kink at one of them
    if bound(whole) < value:
        return whole, bound(whole)
    if math.isnan(value):
        raise NotPreciseEnough("no order gives a Rényi bound. Ask the certified accountant.")
    return math.exp(x), value


def _peak_of_chord(left: float, at_left: float, right: float, at_right: float) -> float:
    """The largest (a + b c) / (c (1 + c)) between two tilts, for the line through both values; a <= 0 by convexity."""
    slope = (at_right - at_left) / (right - left)
    start = at_left - slope * left
    tilts = [left, right]
    if start < 0 < slope:
        middle = (-start + math.sqrt(start * (start - slope))) / slope
        tilts += [middle] if left < middle < right else []
    return max((start + slope * c) / (c * (1 + c)) for c in tilts) * (1 + 1e-12)


def _log_complement(part: FinitePair) -> float:
    return part.log_finite_mass


def _largest_loss(part: Bounded) -> float:
    return math.inf if isinstance(part, Amplified) else max(largest_loss(part), 0.0)


def _separation(part: Bounded) -> float:
    """How far apart the unsampled normals are; 0 for bounded losses."""
    pair = part.base if isinstance(part, Amplified) else part
    return pair.unsampled_separation
