"""The curve of a composed schedule: bounds from the engines of the table, and from delta back to epsilon."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache

from tightrope.engines.crossing import Crossing, Solver, choose_widest
from tightrope.engines.face import (
    NO_HINT,
    NOTHING,
    Engine,
    EngineDeclines,
    EngineRow,
    Hint,
    LocalBounds,
    LogBounds,
    Recountable,
    Table,
    raising,
    reaching,
)
from tightrope.engines.near_ceiling import find_end
from tightrope.engines.places import MOST_FOLLOWED, PLACES_APART, Outlook, Place, round_delta
from tightrope.engines.planning import estimate_epsilon
from tightrope.engines.saddle import Cumulants, epsilon_estimate
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import log_ends, next_up
from tightrope.numerics.text import round_outwards
from tightrope.pairs.schedule import Schedule

KEPT_LOCALS = 8
KEPT_PLACES = 64  # a training loop moves on from one to the next; an array of deltas needs several
SMALLEST_FOLLOWED = 1e-300  # delta: smaller ones are solved by themselves
# The accuracy of the first solution: where few steps matter, a fine lattice there would be wasted.
ROUGH = 0.1
MOST_TRIES = 6  # at the accuracy that is wanted
SAME_PLACE = 0.001  # relative to epsilon, and to what is left to the largest loss
NOTHING_CERTAIN, MOST_HOPELESS = 0.999, 4  # bounds as wide as that know no lower end; after so many, give up


COARSER = "Ask for a coarser {accuracy}."
ELSEWHERE = (
    "for {delta} at an {epsilon}, or, if one direction was asked for, for add-or-remove, which bounds both "
    "and is often known where one alone is not."
)
NOT_EVEN_ROUGHLY = f"No {{accuracy}} is coarse enough here. Ask {ELSEWHERE}"
MUCH_COARSER = f"Ask for a much coarser {{accuracy}}, such as {ROUGH}; where that does not help, {ELSEWHERE}"


class Composition:
    """The curve of one schedule of pairs, for epsilon >= 0, by the engines of a table.

    `share` is which part of the width that is asked for is theirs: pairs that only bound others use up some.
    A search begins where `cumulants` say, about; if none are given, those of the pairs' outlines.
    `widest` says how wide bounds may be that are given where no engine is as close as asked.
    """

    def __init__(
        self,
        schedule: Schedule,
        table: Sequence[EngineRow],
        *,
        share: float = 1.0,
        cumulants: Cumulants | None = None,
        widest: Callable[[float], float] = choose_widest,
    ) -> None:
        self.schedule, self.table, self.share = schedule, tuple(table), share
        self._cumulants, self._widest = cumulants, widest
        # beyond the largest loss nothing needs a search
        self._highest = math.inf if schedule.has_infinite_losses else schedule.loss_ceiling[1]
        self._made: dict[EngineRow, Engine] = {}
        self._locals: list[LocalBounds] = []
        self._found: dict[tuple[float, float], LogBounds | NotPreciseEnough] = {}
        self._followed: dict[tuple[float, ...], LocalBounds] = {}  # by where their place is
        self._last: tuple[tuple[float, float], LogBounds] | None = None  # what was asked last, and the answer
        self._epsilons: dict[tuple[float, ...], tuple[float, float] | NotPreciseEnough] = {}

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """ln of bounds on the probability of a loss that no finite epsilon covers."""
        return self.schedule.log_infinite_mass

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon), at most `accuracy` apart relative to delta; or NotPreciseEnough.

        Where no engine tells more, bounds some times wider are the answer: `widest`.
        """
        key = (epsilon, accuracy)
        if self._last is None or self._last[0] != key:  # a cover and a witness ask the same
            settled = self._settle(epsilon) or self._settle_infinite(accuracy)
            self._last = key, settled or self._bound(epsilon, self.share * accuracy)
        return self._last[1]

    @property
    def placed(self) -> tuple[LocalBounds, ...]:
        """The bounds that were placed last, newest first."""
        return tuple(self._locals)

    def _bound(self, epsilon: float, accuracy: float) -> LogBounds:
        for local in self._locals:
            # bounds made for another epsilon may lose their way here: then they certify nothing
            with suppress(ArithmeticError), raising():
                found = local.bounds(epsilon)
                if found.width <= accuracy:
                    return found
        return self._bound_alone(epsilon, accuracy)

    def _bound_alone(self, epsilon: float, accuracy: float) -> LogBounds:
        """The same whatever was asked before."""
        key = (epsilon, accuracy)
        if key not in self._found:
            try:
                self._found[key] = self._certify(epsilon, accuracy)
            except NotPreciseEnough as refusal:  # kept, like those of epsilon
                self._found[key] = refusal
        known = self._found[key]
        if isinstance(known, NotPreciseEnough):
            raise known
        return known

    def _certify(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds by the first engine that is close enough; or NotPreciseEnough."""
        with reaching(f"delta at {{epsilon={epsilon:g}}}", "{epsilon}"):
            _, found = self._localise(epsilon, accuracy)
        if found.width > self._widest(accuracy):
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
                return self._enclose_epsilon(delta, *self._widths(accuracy))
        return self._enclose_epsilon(delta, accuracy, self._widest(accuracy))

    def _widths(self, accuracy: float) -> tuple[float, float]:
        """What is asked for first, and how wide it may be."""
        asked = self.share * accuracy
        return asked, asked if self.share < 1 else self._widest(accuracy)

    @cached_property
    def is_plain(self) -> bool:
        """Whether losses are finite and without bound, so that every delta and epsilon needs an engine."""
        return bool(self.schedule) and self._highest == math.inf and not self.schedule.has_infinite_losses

    def follows(self, delta: float) -> bool:
        """Whether epsilon(delta) is looked for from a place close by: nothing else settles it."""
        is_place = any(round_delta(delta, apart) == delta for apart in PLACES_APART)
        return self.is_plain and delta < self._union_bound and not is_place

    def keep(self, delta: float, accuracy: float, crossing: Crossing) -> None:
        """Keep a crossing that was found with others, if it is what `epsilon_bounds` would find by itself."""
        asked, widest = self._widths(accuracy)
        if crossing.is_enough(asked):
            self._epsilons.setdefault((delta, asked, widest), (crossing.lower, crossing.upper))

    def _enclose_epsilon(self, delta: float, accuracy: float, widest: float) -> tuple[float, float]:
        """The same, `widest` in delta at most, or NotPreciseEnough; what was found is kept."""
        key = (delta, accuracy, widest)
        if key not in self._epsilons:
            try:
                self._epsilons[key] = self._settle_epsilon(delta, accuracy) or self._search(
                    delta, accuracy, widest
                )
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

    def _settle_infinite(self, accuracy: float) -> LogBounds | None:
        """What needs no engine either: nearly every run loses something infinite."""
        least, _ = self.schedule.log_infinite_mass
        return LogBounds(least, 0.0) if -math.expm1(least) <= min(accuracy, ROUGH) else None

    def _localise(
        self, epsilon: float, accuracy: float, hint: Hint = NO_HINT
    ) -> tuple[LocalBounds, LogBounds]:
        """Bounds that certify `epsilon` to `accuracy`, or the best there are, and what they say there.

        Or those of quick engines, if they say that it is the wrong place. The last few are kept.
        """
        best: tuple[LocalBounds, LogBounds] | None = None
        drowned = False
        for row, engine in self._engines():
            if best is not None and row.is_slow and hint.is_far(best[1]):
                break
            if drowned and row.rounding_is_final:
                continue
            for local, found in row.attempts(engine, epsilon, accuracy, hint):
                drowned |= row.drowns(found, accuracy)
                if best is None or found.width < best[1].width:
                    best = (local, found)
                if found.width <= accuracy:
                    self._locals = [local, *self._locals[: KEPT_LOCALS - 1]]
                    return local, found
            if row.has_the_last_word:
                break
        if best is None:
            raise EngineDeclines("none is left")
        return best

    def _engines(self) -> Iterator[tuple[EngineRow, Engine]]:
        """The engines that apply, in the table's order, each made when it is first asked."""
        for row in self.table:
            if row not in self._made and row.applies(self.schedule):
                self._made[row] = row.make(self.schedule)
            if row in self._made:
                yield row, self._made[row]

    def _settle_epsilon(self, delta: float, accuracy: float) -> tuple[float, float] | None:
        """epsilon(delta) where it needs no search, or only one near the largest loss."""
        if not self.schedule or self._union_bound <= delta:
            return 0.0, 0.0
        if self.schedule.has_infinite_losses:
            if self.schedule.compare_infinite_mass(delta) > 0:
                return math.inf, math.inf
            if self.schedule.loss_ceiling[1] <= 0:
                return 0.0, 0.0  # from epsilon 0 on delta is the infinite mass
        elif end := find_end(self.schedule, delta, accuracy):  # costs next to nothing to try
            found = self._solve(end, end.guess(delta), delta, accuracy)
            is_narrow = found.upper - found.lower <= end.narrow * accuracy * found.upper
            if (found.width <= accuracy or is_narrow) and found.lower > 0:
                return found.lower, found.upper
        return None

    @cached_property
    def _union_bound(self) -> float:
        """The sum of bounds on the steps' own delta(0), which bounds the run's: total variation adds up."""
        return next_up(math.fsum(next_up(times * pair.total_variation) for pair, times in self.schedule))

    def _follow(self, delta: float, accuracy: float) -> Crossing | None:
        """The crossing, by bounds placed for a delta and a run that are close; None if that is not enough."""
        with suppress(EngineDeclines, NotPreciseEnough, ArithmeticError, ValueError):
            placed, local = self.find_place(delta, accuracy)
            with raising():
                guess, slope = placed.guess(self.schedule, math.log(delta))
            if 0 < guess < self._highest:  # or the place is too far away
                found = self._solve(local, guess, delta, accuracy, None, slope)
                return found if found.is_enough(accuracy) else None
        return None

    def find_place(
        self, delta: float, accuracy: float, apart: Sequence[float] = PLACES_APART
    ) -> tuple[Place, LocalBounds]:
        """Where a delta and a run that are close were solved, and the bounds of this run there."""
        if delta < SMALLEST_FOLLOWED or self._cumulants is not None:
            raise EngineDeclines("nothing is close")
        few = len(self.schedule.parts) <= MOST_FOLLOWED
        about = self.schedule.rounded if few else self.schedule
        for distance in apart:
            near = round_delta(delta, distance)
            if about is self.schedule and near == delta:  # this is the place itself
                continue
            placed = _kept_place(about, self.table, near, accuracy / 2, distance)
            key = near, distance, accuracy
            if placed is not None:
                if key not in self._followed:
                    with raising():
                        is_same = about is self.schedule
                        self._followed[key] = placed.local if is_same else placed.recount(self.schedule)
                return placed, self._followed[key]
        raise EngineDeclines("no quick engine does it, or this is the place itself")

    def _place(self, delta: float, accuracy: float, apart: float) -> Place | None:
        """Where this schedule is solved, for deltas and others of its kind that are close."""
        with suppress(EngineDeclines, NotPreciseEnough, ArithmeticError, ValueError):
            found, tilt, local = self._close_in(delta, accuracy)
            if not isinstance(local, Recountable) or local.recount is None or not found.is_enough(accuracy):
                return None
            with raising():
                outlook = Outlook.around(local, found.upper, -tilt, apart)
                return Place.of(self.schedule, outlook, local, local.recount)
        return None

    def _close_in(self, delta: float, accuracy: float) -> tuple[Crossing, float, LocalBounds | None]:
        """Solve, move to where the solution says, and solve again, until that is enough or hopeless.

        The crossing, about its saddle's tilt, and the bounds that tell it.
        """
        log_delta = math.log(delta)  # to place the search; what decides is `_solve`
        guess, tilt = self._estimate(log_delta, accuracy)
        tried, hopeless, is_above_zero = {guess}, 0, False
        local: LocalBounds | None = None
        for wanted in (max(accuracy, ROUGH), *[accuracy] * MOST_TRIES):
            if self._settle(guess) is not None:
                found = Crossing(0.0, guess, math.inf)
            else:
                # a rough solution is behind a hint of what delta is there
                hint = Hint(tilt, None, log_delta) if wanted >= ROUGH else Hint(tilt, log_delta)
                local, here = self._localise(guess, wanted, hint)
                found = self._solve(local, guess, delta, wanted, here, -tilt)
            hopeless = hopeless + 1 if NOTHING_CERTAIN < found.width < math.inf else 0
            if found.is_enough(accuracy) or hopeless == MOST_HOPELESS:
                break
            if found.lower == 0 and wanted <= accuracy and not is_above_zero:
                if self._meets_at_zero(delta, accuracy):  # which is all that smaller guesses would lead to
                    break
                is_above_zero = True
            last, guess = guess, found.next_guess(guess, tried, self._highest)
            if self._would_repeat(found, last, guess, is_final=wanted <= accuracy):
                break
            tried.add(guess)
        return found, tilt, local

    def _search(self, delta: float, accuracy: float, widest: float) -> tuple[float, float]:
        """epsilon(delta) from where the search ends; or NotPreciseEnough."""
        with reaching(f"epsilon at {{delta={delta:g}}}", "{delta}"):
            found = self._follow(delta, accuracy) or self._close_in(delta, accuracy)[0]
        if found.lower == 0 and self._meets_at_zero(delta, accuracy):
            return 0.0, 0.0
        if not found.is_enough(accuracy) and not (found.lower > 0 and found.width <= widest):
            # where delta is the infinite mass up to rounding, only the largest finite loss tells more
            limit = self.schedule.loss_ceiling[1]
            if found.lower <= limit < math.inf and math.log(delta) <= self.schedule.log_infinite_mass[1]:
                return found.lower, limit
            what = f"epsilon at {{delta={delta:g}}} could not be certified to {{accuracy={accuracy:g}}}"
            vague = NOT_EVEN_ROUGHLY if accuracy >= ROUGH else MUCH_COARSER
            raise NotPreciseEnough(what, COARSER if found.width < 1 else vague)
        return found.lower, found.upper

    def _would_repeat(self, found: Crossing, last: float, guess: float, *, is_final: bool) -> bool:
        """Whether bounds placed for the next guess would be as wide as those placed for the last one."""
        is_near = abs(guess - last) <= SAME_PLACE * min(last, self._highest - last)
        return is_final and is_near and found.width < math.inf

    def _estimate(self, log_delta: float, accuracy: float) -> tuple[float, float]:
        """About epsilon(delta) and its saddle's tilt; 1 and 1 where there is no telling."""
        with suppress(EngineDeclines):
            if self._cumulants is not None:
                return epsilon_estimate(self._cumulants, log_delta)
            return estimate_epsilon(self.schedule, log_delta, accuracy)
        return 1.0, 1.0

    def _meets_at_zero(self, delta: float, accuracy: float) -> bool:
        """Whether delta(0) is certainly at most delta: a rough bracket may tell as well."""
        for wanted in (accuracy, ROUGH):
            with suppress(NotPreciseEnough):
                found = self._settle(0.0) or self._bound_alone(0.0, self.share * wanted)
                return found.upper <= log_ends(delta)[0]
        return False

    def _solve(
        self,
        local: LocalBounds,
        guess: float,
        delta: float,
        accuracy: float,
        here: LogBounds | None = None,
        slope: float | None = None,
    ) -> Crossing:
        """Both crossings as `local` sees them: an end holds whichever way ln delta was rounded.

        `here` is what it says at the guess, and `slope` about the slope of ln delta there, if that is known.
        """
        known = {} if here is None else {guess: here}

        def bounds(epsilon: float) -> LogBounds:  # both ends are looked for in the same places
            if epsilon not in known:
                known[epsilon] = local.bounds(epsilon)
            return known[epsilon]

        with raising():
            return Solver(bounds, self._settle, self._highest, log_ends(delta), accuracy).solve(guess, slope)


@lru_cache(maxsize=KEPT_PLACES)
def _kept_place(
    schedule: Schedule, table: Table, delta: float, accuracy: float, apart: float
) -> Place | None:
    """Where a schedule is solved, if a quick engine does it whose bounds serve places so far apart."""
    if not next(row.apart for row in table if row.applies(schedule)):
        return None
    quick = [row for row in table if row.apart == apart]
    return Composition(schedule, quick)._place(delta, accuracy, apart) if quick else None
