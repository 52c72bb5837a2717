"""Between which epsilons a curve crosses delta, as some bounds see it."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tightrope.engines.face import LogBounds, check_order
from tightrope.numerics.floats import UNIT_ROUNDOFF

MOST_SECANTS = 8
FINEST, SMALLEST_STEP = 1e-9, 1e-300  # width in delta, and step in epsilon, that are worth a closer look
MOST_ROUNDS, NEWTON_ROUNDS = 200, 12  # of a search; after so many Newton steps it bisects
HALVINGS = 40  # of the last step of a search that gallops
# Times the accuracy, and in all: a bracket that is so wide is certain, too, and says how wide it is.
MOST_TIMES_WIDER, WIDEST = 100, 0.1


def choose_widest(accuracy: float) -> float:
    """How wide, relative to delta, bounds may be that are given where no engine is closer."""
    return max(accuracy, min(MOST_TIMES_WIDER * accuracy, WIDEST))


@dataclass(frozen=True)
class Crossing:
    """Between which epsilons the curve crosses delta, as some bounds see it, and their width there."""

    lower: float
    upper: float
    width: float

    def __post_init__(self) -> None:
        check_order(self.lower, self.upper)

    def is_enough(self, accuracy: float) -> bool:
        """Whether delta, or else epsilon, is known as closely as asked."""
        close = math.isfinite(self.upper) and self.upper - self.lower <= accuracy / 10 * self.upper
        return self.width <= accuracy or close

    def next_guess(self, guess: float, tried: set[float], highest: float) -> float:
        """Where the upper end crosses is the better guess; a second one that did not help is halved."""
        most = min(self.upper, highest)
        if not math.isfinite(most):
            return 2 * max(self.lower, guess)
        return self.upper if self.upper < highest and self.upper not in tried else (self.lower + most) / 2


@dataclass(frozen=True)
class Solver:
    """Looks for where bounds on ln delta(epsilon) cross ln delta, which lies between `ends`.

    `settle` knows them where they need no engine; beyond `highest` nothing is lost.
    """

    bounds: Callable[[float], LogBounds]
    settle: Callable[[float], LogBounds | None]
    highest: float
    ends: tuple[float, float]
    accuracy: float

    def solve(self, guess: float, slope: float | None) -> Crossing:
        """Both crossings, from a guess and, if it is known, about the slope of ln delta there."""
        found = None
        if slope is not None:
            with suppress(ArithmeticError):  # a secant may lead to where these bounds lose their way
                found = self._approach(guess, slope)
        return found or self._enclose(guess)

    def _approach(self, x: float, slope: float) -> Crossing | None:
        """Both crossings by a few secant steps from close by; None if that is not enough."""
        least_log, most_log = self.ends
        last: tuple[float, float] | None = None
        for _ in range(MOST_SECANTS):
            if not 0 < x < self.highest or self.settle(x) is not None:
                return None
            here = self.bounds(x)
            excess = here.upper - least_log
            resolution = self._resolution(here, x, slope)
            if last is not None and abs(x - last[0]) > resolution:
                slope = (excess - last[1]) / (x - last[0])
            if not (slope < 0 and here.lower > -math.inf):
                return None
            if slope * resolution <= excess <= 0:
                low = x - (here.lower - most_log) / slope - resolution / 2
                if not low > 0 or self.bounds(low).lower <= most_log:
                    return None
                return Crossing(low, x, max(here.width, -math.expm1(excess)))
            last = x, excess
            x += resolution / 2 - excess / slope  # aim a little past the crossing
        return None

    def _enclose(self, guess: float) -> Crossing:
        """Both crossings from anywhere."""
        highest, (least_log, most_log) = self.highest, self.ends

        def upper(epsilon: float) -> float:
            return (self.settle(epsilon) or self.bounds(epsilon)).upper - least_log

        def lower(epsilon: float) -> float:
            return (self.settle(epsilon) or self.bounds(epsilon)).lower - most_log

        step = max(abs(guess) * 1e-4, 1e-9)
        here, there = self.bounds(guess), self.bounds(guess + step).upper
        slope = min((there - here.upper) / step, -1e-3) if math.isfinite(there) else -1 / step
        if guess + step >= highest:  # where delta falls with the distance to the largest loss
            slope = -1 / (highest - guess)
        resolution = self._resolution(here, guess, slope)
        _, high = find_crossing(upper, start=guess, slope=slope, resolution=resolution, highest=highest)
        # where nothing is known below the largest loss, bounds are good near the guess only
        start = high if high < highest else guess
        low, _ = find_crossing(lower, start=start, slope=slope, resolution=resolution, highest=highest)
        if low == 0 and 0 < high < highest:  # which it is, or far to the left these bounds lost their way
            low = gallop(lower, high, resolution)
        # beyond the largest loss the upper end is certain, and says nothing about how close it is
        if not math.isfinite(high) or self.settle(high) is not None:
            return Crossing(low, high, math.inf)
        found = self.bounds(high)
        # a bound can also jump past delta, which leaves the crossing open
        jumped = -math.expm1(min(found.upper - least_log, 0.0))
        return Crossing(low, high, max(found.width, jumped))

    def _resolution(self, here: LogBounds, epsilon: float, slope: float) -> float:
        """How closely to solve: as finely as the bounds themselves are certain, within reason."""
        fine = min(max(here.width, FINEST), self.accuracy / 10) / 5 / -slope
        return max(fine, 8 * UNIT_ROUNDOFF * epsilon, SMALLEST_STEP)


def gallop(excess: Callable[[float], float], start: float, resolution: float) -> float:
    """A place before `start` with excess > 0, by ever longer steps and then shorter ones; 0 if there is none.

    Bounds may be good near `start` only, and say nothing, -inf, further to the left: this comes from there.
    """
    right, step = start, resolution
    while step < start and -math.inf < (value := excess(start - step)) <= 0:
        right, step = start - step, 2 * step
    left = max(start - step, 0.0)
    found = left if left > 0 and value > 0 else 0.0
    for _ in range(HALVINGS):
        if right - left <= max(resolution, (start - found) / 64 if found else 0.0):
            break
        middle = (left + right) / 2
        value = excess(middle)
        if -math.inf < value <= 0:
            right = middle
        else:  # or nothing is known there
            left, found = middle, middle if value > 0 else found
    return found


def find_crossing(
    excess: Callable[[float], float], *, start: float, slope: float, resolution: float, highest: float
) -> tuple[float, float]:
    """(a, b), a <= b <= highest, with excess(a) > 0 (or a = 0) and excess(b) <= 0, b - a <= `resolution`.

    `excess` decreases; `slope` < 0 is about its derivative near `start`. Newton steps with an updated
    secant slope, kept inside the bracket. If excess(highest) > 0 the result is (highest, infinity).
    """
    low, high = 0.0, float("inf")
    x = min(max(start, 0.0), highest)
    last: tuple[float, float] | None = None
    for count in range(MOST_ROUNDS):
        value = excess(x)
        if value > 0:
            if x >= highest:
                return highest, float("inf")
            low = x
        else:
            high = x
            if x == 0:
                return 0.0, 0.0
        if high - low <= resolution:
            return low, high
        if last is not None and value != last[1]:
            secant = (value - last[1]) / (x - last[0])
            if secant < 0:
                slope = secant
        last = (x, value)
        new = x - value / slope
        # aim a little past the root, so that both sides close in
        new += resolution / 3 if value > 0 else -resolution / 3
        if count > NEWTON_ROUNDS or not low < new < high:
            new = (low + high) / 2 if high < float("inf") else max(2 * x, new, x + resolution)
        x = min(new, highest)
    return low, high  # a valid bracket, wider than asked: the function is too noisy for more
