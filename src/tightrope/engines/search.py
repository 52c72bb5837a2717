"""From delta back to epsilon: where the certified bounds of a composition cross the delta asked for."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from tightrope.engines.closed_forms import EndPoint, one_step_bounds
from tightrope.engines.face import Hint, LocalBounds, LogBounds
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.pairs.schedule import Schedule

# The accuracy of the first solution: where few steps matter, a fine lattice there would be wasted.
ROUGH = 0.1
MOST_TRIES = 6  # at the accuracy that is wanted
NOTHING_CERTAIN, MOST_HOPELESS = 0.999, 4  # bounds as wide as that know no lower end; after so many, give up


class Searched(Protocol):
    """The composition whose epsilon is looked for."""

    @property
    def schedule(self) -> Schedule:
        """What is composed."""

    def estimate(self, log_delta: float, accuracy: float) -> tuple[float, float] | None:
        """About epsilon(delta) and its saddle's tilt; None where there is no telling."""

    def settle(self, epsilon: float) -> LogBounds | None:
        """Bounds that need no engine, where there are any."""

    def place(self, epsilon: float, accuracy: float, hint: Hint) -> LocalBounds:
        """Bounds that certify `epsilon` to `accuracy`, or the best there are."""

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon), or NotPreciseEnough."""


@dataclass(frozen=True)
class Crossing:
    """Between which epsilons the curve crosses delta, as some bounds see it, and their width there."""

    lower: float
    upper: float
    width: float

    def is_enough(self, accuracy: float) -> bool:
        """Whether delta, or else epsilon, is known as closely as asked."""
        close = math.isfinite(self.upper) and self.upper - self.lower <= accuracy / 10 * self.upper
        return self.width <= accuracy or close


@dataclass(frozen=True)
class Goal:
    """The ln delta to be crossed, how closely, and the largest loss, beyond which nothing needs a search."""

    log_delta: float
    accuracy: float
    highest: float


def find_epsilon(curve: Searched, delta: float, accuracy: float) -> tuple[float, float]:
    """(lower, upper) around the smallest epsilon >= 0 with delta(epsilon) <= `delta`, or NotPreciseEnough."""
    schedule = curve.schedule
    if not schedule:
        return 0.0, 0.0
    if delta < schedule.infinite_mass * (1 - 1e-12):
        return math.inf, math.inf
    goal = Goal(math.log(delta), accuracy, schedule.loss_range[1] * (1 + 16 * UNIT_ROUNDOFF))
    if _log_union_bound(schedule) <= goal.log_delta:
        return 0.0, 0.0
    if schedule.is_bounded:  # costs nothing to try, and settles small deltas
        found = _solve(curve, EndPoint(schedule), goal.highest * (1 - 1e-6), goal, accuracy)
        if found.width <= accuracy and found.lower > 0:
            return found.lower, found.upper
    found = _refine(curve, *(curve.estimate(goal.log_delta, accuracy) or (1.0, 1.0)), goal)
    if found.lower == 0 and _meets_at_zero(curve, goal):
        return 0.0, 0.0
    if not found.is_enough(accuracy):
        what = f"epsilon at {{delta={delta:g}}} could not be certified to {{accuracy={accuracy:g}}}"
        raise NotPreciseEnough(what, "Ask for a coarser {accuracy}.")
    return found.lower, found.upper


def _log_union_bound(schedule: Schedule) -> float:
    """ln of the sum of the steps' own delta(0), an upper bound on the run's: total variation adds up."""
    total = sum(times * math.exp(one_step_bounds(pair, 0.0).upper) for pair, times in schedule)
    return math.log(total) + 1e-12 if total else -math.inf


def _meets_at_zero(curve: Searched, goal: Goal) -> bool:
    """Whether delta(0) is certainly at most delta: a rough bracket may tell as well."""
    for wanted in (goal.accuracy, ROUGH):
        with suppress(NotPreciseEnough):
            return curve.log_bounds(0.0, wanted).upper <= goal.log_delta
    return False


def _refine(curve: Searched, guess: float, tilt: float, goal: Goal) -> Crossing:
    """Solve, move to where the solution says, and solve again, until that is enough or hopeless."""
    tried, hopeless = {guess}, 0
    for wanted in (max(goal.accuracy, ROUGH), *[goal.accuracy] * MOST_TRIES):
        if curve.settle(guess) is not None:
            found = Crossing(0.0, guess, math.inf)
        else:
            hint = Hint(tilt, None if wanted >= ROUGH else goal.log_delta)  # a rough solution is behind it
            found = _solve(curve, curve.place(guess, wanted, hint), guess, goal, wanted)
        if found.is_enough(goal.accuracy):
            break
        hopeless = hopeless + 1 if NOTHING_CERTAIN < found.width < math.inf else 0
        if hopeless == MOST_HOPELESS:
            break
        guess = _next_guess(found, guess, tried, goal.highest)
        tried.add(guess)
    return found


def _next_guess(found: Crossing, guess: float, tried: set[float], highest: float) -> float:
    """Where the upper end crosses is the better guess; a second one that did not help is halved."""
    most = min(found.upper, highest)
    if not math.isfinite(most):
        return 2 * max(found.lower, guess)
    return found.upper if found.upper < highest and found.upper not in tried else (found.lower + most) / 2


def _solve(curve: Searched, local: LocalBounds, guess: float, goal: Goal, accuracy: float) -> Crossing:
    """Both crossings as `local` sees them."""
    log_delta, highest = goal.log_delta, goal.highest

    def upper(epsilon: float) -> float:
        return (curve.settle(epsilon) or local.bounds(epsilon)).upper - log_delta

    def lower(epsilon: float) -> float:
        return (curve.settle(epsilon) or local.bounds(epsilon)).lower - log_delta

    step = max(abs(guess) * 1e-4, 1e-9)
    here, there = local.bounds(guess), local.bounds(guess + step).upper
    slope = min((there - here.upper) / step, -1e-3) if math.isfinite(there) else -1 / step
    # as fine as the local itself is certain, within reason
    fine = min(max(here.width, 1e-9), accuracy / 10) / 5 / -slope
    resolution = max(fine, 8 * UNIT_ROUNDOFF * guess, 1e-300)
    _, high = find_crossing(upper, start=guess, slope=slope, resolution=resolution, highest=highest)
    start = min(high, highest)
    low, _ = find_crossing(lower, start=start, slope=slope, resolution=resolution, highest=highest)
    # beyond the largest loss the upper end is certain, and says nothing about how close it is
    if not math.isfinite(high) or curve.settle(high) is not None:
        return Crossing(min(low, high), high, math.inf)
    found = local.bounds(high)
    # a bound can also jump past delta, which leaves the crossing open
    jumped = -math.expm1(min(found.upper - log_delta, 0.0))
    return Crossing(min(low, high), high, max(found.width, jumped))


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
    for count in range(200):
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
        if count > 12 or not low < new < high:
            new = (low + high) / 2 if high < float("inf") else max(2 * x, new, x + resolution)
        x = min(new, highest)
    return low, high  # a valid bracket, wider than asked: the function is too noisy for more
