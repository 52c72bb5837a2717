"""The curve of a single pass with normal noise, each order by an integral along a line.

theorems/proofs/line_integrals.md derives every term of an integral's error; here is where they are asked for.
"""

import math
from contextlib import suppress
from functools import lru_cache

from tightrope.engines.face import NOTHING, EngineDeclines, LogBounds
from tightrope.engines.lines.estimate import guess_curve
from tightrope.engines.lines.line import enclose_curve
from tightrope.engines.lines.plan import PassOrder
from tightrope.engines.passes.pass_curve import FARTHEST_EPSILON, INTEGRAL_SHARE, LEAST_FALL, PassCurve
from tightrope.engines.passes.refusal import LOST
from tightrope.numerics.floats import log_ends
from tightrope.pairs.allocation import Allocation

KEPT_EPSILONS = 1024
CROSSING_SHARE = 1 / 128  # of the accuracy: how far from where delta seems crossed bounds are asked for
TOLD_SHARE = 1 / 16  # of the accuracy: what is guessed changes too little to tell a slope
CLOSE_EPSILON = 5e-6  # how far that is at most in epsilon, where curves are flat
CLOSEST_DELTA = 1e-8  # the least relative width in delta that is asked for on that account
FIRST_SIZE = 1e-3  # of a curve of which nothing is known
MOST_SIZES = 12  # that are tried
MOST_PLACES = 6  # that are tried for a bound, or for a line that is quick
MOST_SECANTS = 60  # of the search for the crossing
NEXT_PLACE = 1.5  # times the last one at which a search might have begun
TINY_EPSILON = 1e-12  # an epsilon that is told from 0 no more
LARGE_SEPARATION = 5.0  # of a separation, where a search begins


class LinePass(PassCurve):
    """Both ends by line integrals; where those decline, by `others`."""

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        try:
            lower, upper = _enclose(self.allocation, epsilon, accuracy)
        except LOST:
            return self._others.log_bounds(epsilon, accuracy)
        if not upper:  # a pass that was only begun may have no loss so large
            return NOTHING
        return LogBounds(log_ends(lower)[0], min(log_ends(upper)[1], 0.0))

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= delta."""
        try:
            return _cross(self.allocation, delta, accuracy)
        except LOST:
            return self._others.epsilon_bounds(delta, accuracy)


@lru_cache(maxsize=KEPT_EPSILONS)
def _enclose(allocation: Allocation, epsilon: float, accuracy: float) -> tuple[float, float]:
    """Bounds on the curve, as close as asked relative to it."""
    if epsilon > FARTHEST_EPSILON:
        raise EngineDeclines("an epsilon too large for line integrals")
    of, size = PassOrder(allocation, epsilon), FIRST_SIZE
    for _ in range(MOST_SIZES):
        lower, upper = enclose_curve(of, _log_error(size, accuracy))
        if upper - lower <= accuracy / 4 * lower:
            return lower, upper
        size = lower if lower > upper / 2 else min(upper, size / 32)
    raise EngineDeclines("a curve too small for line integrals")


def _log_error(size: float, accuracy: float) -> float:
    """ln of the error that a bound on a number of this size may have; declined where floats end."""
    error = INTEGRAL_SHARE * accuracy * size
    if not error:
        raise EngineDeclines("a curve too small for line integrals")
    return math.log(error)


@lru_cache(maxsize=KEPT_EPSILONS)
def _cross(allocation: Allocation, delta: float, accuracy: float) -> tuple[float, float]:
    """Between which epsilons the curve crosses delta."""
    log_error = _log_error(delta, accuracy)
    about, slope = _search(allocation, delta, log_error, accuracy)
    closer = CLOSE_EPSILON * slope / CROSSING_SHARE
    if closer < accuracy:  # a curve so flat that what is close in delta is not in epsilon
        accuracy = max(closer, CLOSEST_DELTA)
        log_error = _log_error(delta, accuracy)
        about, slope = _search(allocation, delta, log_error, accuracy)
    room = CROSSING_SHARE * accuracy / slope

    low, high = about - room, about + room
    near = max(low, 0.0) if allocation.is_reversed else max(high, 0.0)  # where k is larger

    def ends(epsilon: float) -> tuple[float, float]:
        serves = near <= epsilon if allocation.is_reversed else epsilon <= near
        return enclose_curve(PassOrder(allocation, epsilon), log_error, near if serves else epsilon)

    if low <= 0 and ends(0.0)[1] <= delta:
        return 0.0, 0.0
    for _ in range(MOST_PLACES):
        if ends(high)[1] <= delta:
            break
        high += high - low
    else:
        raise EngineDeclines("a crossing that line integrals do not find")
    while low > 0 and ends(low)[0] < delta:
        low -= high - low
    return max(low, 0.0), high


def _search(allocation: Allocation, delta: float, log_error: float, accuracy: float) -> tuple[float, float]:
    """About where ln of the curve crosses ln delta, and how fast it falls there: secants within a bracket."""
    least = math.exp(log_error)  # smaller values of the curve are not told apart
    low, high = 0.0, math.inf
    place, found = _find_first(allocation, _start(allocation, delta), log_error)
    slope = max(-math.log(delta), 1.0) / place
    for _ in range(MOST_SECANTS):
        excess = math.log(max(found, least) / delta)
        low, high = (place, high) if excess > 0 else (low, place)
        if abs(excess) <= accuracy * CROSSING_SHARE / 4 or high <= TINY_EPSILON:
            return place, slope
        last, place = (place, excess), place + excess / slope
        if found <= least or not low < place < high:
            place = _between(low, high)
        found = guess_curve(_checked(allocation, place), log_error)
        fall = last[1] - math.log(max(found, least) / delta)
        if abs(fall) > TOLD_SHARE * accuracy:
            slope = max(fall / (place - last[0]), LEAST_FALL)
    raise EngineDeclines("a crossing that line integrals do not find")


def _between(low: float, high: float) -> float:
    """The middle, or further on; 0 itself where the curve is below delta all the way down to it."""
    if high == math.inf:
        return 2 * low
    return (low + high) / 2 if high > 2 * TINY_EPSILON or low else 0.0


def _checked(allocation: Allocation, epsilon: float) -> PassOrder:
    if epsilon > FARTHEST_EPSILON:
        raise EngineDeclines("an epsilon too large for line integrals")
    return PassOrder(allocation, epsilon)


def _find_first(allocation: Allocation, place: float, log_error: float) -> tuple[float, float]:
    """A place near this one or further on where integrals are quick, and about the curve there."""
    for _ in range(MOST_PLACES):
        with suppress(EngineDeclines):
            return place, guess_curve(PassOrder(allocation, place), log_error)
        place *= NEXT_PLACE
    raise EngineDeclines("a pass whose line integrals take too long")


def _start(allocation: Allocation, delta: float) -> float:
    """Where a normal sum of the same deviation would cross delta, or thereabouts."""
    separation = allocation.step.gaussian_separation
    assert separation is not None
    ratios = (
        math.sqrt(math.expm1(min(separation, LARGE_SEPARATION) ** 2) * allocation.released)
        / allocation.batches
    )
    times = 2 if allocation.is_exchanged else 1
    return times * math.log1p(ratios * math.sqrt(-2 * math.log(min(delta, 0.5))))
