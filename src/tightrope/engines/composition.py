"""The curve of a composed schedule: bounds from the engines of the table, and from delta back to epsilon."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tightrope.engines.face import (
    NO_HINT,
    NOTHING,
    Engine,
    EngineDeclines,
    Hint,
    LocalBounds,
    LogBounds,
    check_order,
)
from tightrope.engines.planning import NEGLIGIBLE, Plan
from tightrope.engines.saddle import epsilon_estimate
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF, log_ends, next_up
from tightrope.numerics.text import round_outwards
from tightrope.pairs.schedule import Schedule

KEPT_LOCALS = 8
# The accuracy of the first solution: where few steps matter, a fine lattice there would be wasted.
ROUGH = 0.1
MOST_TRIES = 6  # at the accuracy that is wanted
SAME_PLACE = 0.001  # relative to epsilon, and to what is left to the largest loss
NOTHING_CERTAIN, MOST_HOPELESS = 0.999, 4  # bounds as wide as that know no lower end; after so many, give up


@dataclass(frozen=True, kw_only=True)
class EngineRow:
    """One line of the table: which schedules an engine applies to, and how closely it is asked.

    Rounding does not shrink with patience. Where it `is_final`, an engine that drowned in rounding is not
    asked again with more patience. Nobody is asked after an engine that `has_the_last_word`: what a closed
    form cannot tell in balls, no float can.
    """

    make: Callable[[Schedule], Engine]
    applies: Callable[[Schedule], bool]
    tolerances: Callable[[float], tuple[float, ...]] = lambda accuracy: (accuracy,)
    rounding_is_final: bool = False
    has_the_last_word: bool = False


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


class Composition:
    """The curve of one schedule of pairs, for epsilon >= 0, by the engines of a table.

    `share` is which part of the width that is asked for is theirs: pairs that only bound others use up some.
    """

    def __init__(self, schedule: Schedule, table: Sequence[EngineRow], *, share: float = 1.0) -> None:
        self.schedule, self.table, self.share = schedule, table, share
        # beyond the largest loss nothing needs a search
        self._highest = math.inf if schedule.has_infinite_losses else schedule.loss_ceiling[1]
        self._made: dict[EngineRow, Engine] = {}
        self._locals: list[LocalBounds] = []
        self._refusals: dict[tuple[float, float], NotPreciseEnough] = {}
        self._epsilons: dict[tuple[float, float], tuple[float, float] | NotPreciseEnough] = {}

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """ln of bounds on the probability of a loss that no finite epsilon covers."""
        return self.schedule.log_infinite_mass

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon), at most `accuracy` apart relative to delta; or NotPreciseEnough."""
        settled, accuracy = self._settle(epsilon), self.share * accuracy
        if settled is not None:
            return settled
        for local in self._locals:
            # bounds made for another epsilon may lose their way here: then they certify nothing
            with suppress(ArithmeticError), _raising():
                found = local.bounds(epsilon)
                if found.width <= accuracy:
                    return found
        key = (epsilon, accuracy)
        if key not in self._refusals:
            try:
                return self._certify(epsilon, accuracy)
            except NotPreciseEnough as refusal:  # kept, like those of epsilon
                self._refusals[key] = refusal
        raise self._refusals[key]

    def _certify(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds by the first engine that is close enough; or NotPreciseEnough."""
        local = self._localise(epsilon, accuracy)
        with _raising():
            found = local.bounds(epsilon)
        if found.width > accuracy:
            raise NotPreciseEnough(
                f"delta at {{epsilon={epsilon:g}}} could not be certified to {{accuracy={accuracy:g}}}, "
                f"only to {round_outwards(found.width, 2, up=True)}",
                "Ask for a coarser {accuracy}, or for another {epsilon} or {delta}.",
            )
        return found

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """(lower, upper) around the smallest epsilon >= 0 with delta(epsilon) <= `delta`."""
        if self.share < 1:  # less than the whole width is better, not needed
            with suppress(NotPreciseEnough):
                return self._enclose_epsilon(delta, self.share * accuracy)
        return self._enclose_epsilon(delta, accuracy)

    def _enclose_epsilon(self, delta: float, accuracy: float) -> tuple[float, float]:
        """The same, or NotPreciseEnough; what was found is kept."""
        key = (delta, accuracy)
        if key not in self._epsilons:
            try:
                self._epsilons[key] = self._settle_epsilon(delta, accuracy) or self._search(delta, accuracy)
            except NotPreciseEnough as refusal:
                # kept too: both ends of a bracket ask, and refusing takes longest
                self._epsilons[key] = refusal
            except (ArithmeticError, ValueError):  # a bound lost its way far from where it was placed
                what = f"epsilon at {{delta={delta:g}}} could not be certified"
                self._epsilons[key] = NotPreciseEnough(what, "Ask for another {delta}.")
        found = self._epsilons[key]
        if isinstance(found, NotPreciseEnough):
            raise found
        return found

    def _settle(self, epsilon: float) -> LogBounds | None:
        """What needs no engine: nothing is released, no loss exceeds epsilon, or P and Q share no outcome."""
        if self.schedule.shares_no_output:
            return LogBounds(0.0, 0.0)
        if not self.schedule or epsilon >= self._highest:
            return NOTHING
        least, most = self.schedule.loss_ceiling
        if least <= epsilon and not self.schedule.has_infinite_losses:
            # too close to the largest loss to tell: 1 - e^{eps - loss} is at most loss - eps
            return LogBounds(-math.inf, log_ends(next_up(most - least))[1])
        return None

    def _localise(self, epsilon: float, accuracy: float, hint: Hint = NO_HINT) -> LocalBounds:
        """Bounds that certify `epsilon` to `accuracy`, or the best there are; the last few are kept."""
        best: tuple[float, LocalBounds] | None = None
        drowned = False
        for row, engine in self._engines():
            if drowned and row.rounding_is_final:
                continue
            for tolerance in row.tolerances(accuracy):
                try:
                    # An engine whose arithmetic overflows certifies nothing here: on to the next.
                    with _raising():
                        local = engine.near(epsilon, tolerance, hint)
                        found = local.bounds(epsilon)
                except (EngineDeclines, ArithmeticError, ValueError):  # ValueError: a plan that is no number
                    break
                drowned = drowned or (row.rounding_is_final and found.errors.rounding > accuracy / 4)
                if best is None or found.width < best[0]:
                    best = (found.width, local)
                if found.width <= accuracy:
                    self._locals = [local, *self._locals[: KEPT_LOCALS - 1]]
                    return local
            if row.has_the_last_word:
                break
        if best is None:
            raise NotPreciseEnough(
                f"delta at {{epsilon={epsilon:g}}} is out of reach of every engine",
                "Ask for another {epsilon} or {delta}, or for fewer {steps}.",
            )
        return best[1]

    def _engines(self) -> Iterator[tuple[EngineRow, Engine]]:
        """The engines that apply, in the table's order, each made when it is first asked."""
        for row in self.table:
            if row not in self._made and row.applies(self.schedule):
                self._made[row] = row.make(self.schedule)
            if row in self._made:
                yield row, self._made[row]

    def _settle_epsilon(self, delta: float, accuracy: float) -> tuple[float, float] | None:
        """epsilon(delta) where it needs no search, or only one near the largest loss."""
        if not self.schedule or _union_bound(self.schedule) <= delta:
            return 0.0, 0.0
        if self.schedule.has_infinite_losses:
            if self.schedule.compare_infinite_mass(delta) > 0:
                return math.inf, math.inf
            if self.schedule.loss_ceiling[1] <= 0:
                return 0.0, 0.0  # from epsilon 0 on delta is the infinite mass
        elif self.schedule.is_bounded:  # costs nothing to try, and settles small deltas
            from tightrope.engines.closed_forms import EndPoint

            found = self._solve(EndPoint(self.schedule), self._highest * (1 - 1e-6), delta, accuracy)
            if found.width <= accuracy and found.lower > 0:
                return found.lower, found.upper
        return None

    def _close_in(self, delta: float, accuracy: float) -> Crossing:
        """Solve, move to where the solution says, and solve again, until that is enough or hopeless."""
        log_delta = math.log(delta)  # to place the search; what decides is `_solve`
        guess, tilt = self._estimate(log_delta, accuracy)
        tried, hopeless = {guess}, 0
        for wanted in (max(accuracy, ROUGH), *[accuracy] * MOST_TRIES):
            if self._settle(guess) is not None:
                found = Crossing(0.0, guess, math.inf)
            else:
                hint = Hint(tilt, None if wanted >= ROUGH else log_delta)  # a rough solution is behind it
                found = self._solve(self._localise(guess, wanted, hint), guess, delta, wanted)
            hopeless = hopeless + 1 if NOTHING_CERTAIN < found.width < math.inf else 0
            if found.is_enough(accuracy) or hopeless == MOST_HOPELESS:
                break
            last, guess = guess, _next_guess(found, guess, tried, self._highest)
            if self._would_repeat(found, last, guess, is_final=wanted <= accuracy):
                break
            tried.add(guess)
        return found

    def _search(self, delta: float, accuracy: float) -> tuple[float, float]:
        """epsilon(delta) from where the search ends; or NotPreciseEnough."""
        found = self._close_in(delta, accuracy)
        if found.lower == 0 and self._meets_at_zero(delta, accuracy):
            return 0.0, 0.0
        if not found.is_enough(accuracy):
            # where delta is the infinite mass up to rounding, only the largest finite loss tells more
            limit = self.schedule.loss_ceiling[1]
            if found.lower <= limit < math.inf and math.log(delta) <= self.schedule.log_infinite_mass[1]:
                return found.lower, limit
            what = f"epsilon at {{delta={delta:g}}} could not be certified to {{accuracy={accuracy:g}}}"
            raise NotPreciseEnough(what, "Ask for a coarser {accuracy}.")
        return found.lower, found.upper

    def _would_repeat(self, found: Crossing, last: float, guess: float, *, is_final: bool) -> bool:
        """Whether bounds placed for the next guess would be as wide as those placed for the last one."""
        is_near = abs(guess - last) <= SAME_PLACE * min(last, self._highest - last)
        return is_final and is_near and found.width < math.inf

    def _estimate(self, log_delta: float, accuracy: float) -> tuple[float, float]:
        """About epsilon(delta) and its saddle's tilt; 1 and 1 where there is no telling."""
        try:
            return epsilon_estimate(
                Plan(self.schedule, log_delta + math.log(accuracy) + NEGLIGIBLE), log_delta
            )
        except EngineDeclines:
            return 1.0, 1.0

    def _meets_at_zero(self, delta: float, accuracy: float) -> bool:
        """Whether delta(0) is certainly at most delta: a rough bracket may tell as well."""
        for wanted in (accuracy, ROUGH):
            with suppress(NotPreciseEnough):
                return self.log_bounds(0.0, wanted).upper <= log_ends(delta)[0]
        return False

    def _solve(self, local: LocalBounds, guess: float, delta: float, accuracy: float) -> Crossing:
        """Both crossings as `local` sees them: an end holds whichever way ln delta was rounded."""
        with _raising():
            return self._solve_for(local, guess, delta, accuracy)

    def _solve_for(self, local: LocalBounds, guess: float, delta: float, accuracy: float) -> Crossing:
        highest = self._highest
        least_log, most_log = log_ends(delta)
        bounds = lru_cache(maxsize=None)(local.bounds)  # both ends are looked for in the same places

        def upper(epsilon: float) -> float:
            return (self._settle(epsilon) or bounds(epsilon)).upper - least_log

        def lower(epsilon: float) -> float:
            return (self._settle(epsilon) or bounds(epsilon)).lower - most_log

        step = max(abs(guess) * 1e-4, 1e-9)
        here, there = bounds(guess), bounds(guess + step).upper
        slope = min((there - here.upper) / step, -1e-3) if math.isfinite(there) else -1 / step
        # as fine as the local itself is certain, within reason
        fine = min(max(here.width, 1e-9), accuracy / 10) / 5 / -slope
        resolution = max(fine, 8 * UNIT_ROUNDOFF * guess, 1e-300)
        _, high = find_crossing(upper, start=guess, slope=slope, resolution=resolution, highest=highest)
        start = min(high, highest)
        low, _ = find_crossing(lower, start=start, slope=slope, resolution=resolution, highest=highest)
        # beyond the largest loss the upper end is certain, and says nothing about how close it is
        if not math.isfinite(high) or self._settle(high) is not None:
            return Crossing(low, high, math.inf)
        found = bounds(high)
        # a bound can also jump past delta, which leaves the crossing open
        jumped = -math.expm1(min(found.upper - least_log, 0.0))
        return Crossing(low, high, max(found.width, jumped))


def _raising() -> np.errstate:
    """What overflows or is no number raises, instead of looking like a bound."""
    return np.errstate(over="raise", invalid="raise")


def _union_bound(schedule: Schedule) -> float:
    """The sum of bounds on the steps' own delta(0), which bounds the run's: total variation adds up."""
    return next_up(math.fsum(next_up(times * pair.total_variation) for pair, times in schedule))


def _next_guess(found: Crossing, guess: float, tried: set[float], highest: float) -> float:
    """Where the upper end crosses is the better guess; a second one that did not help is halved."""
    most = min(found.upper, highest)
    if not math.isfinite(most):
        return 2 * max(found.lower, guess)
    return found.upper if found.upper < highest and found.upper not in tried else (found.lower + most) / 2


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
