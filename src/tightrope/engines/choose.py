"""From a schedule to certified bounds: choosing an engine, keeping what it built, searching for epsilon."""

import math
from contextlib import suppress
from functools import cached_property

import numpy as np

from tightrope.engines.closed_forms import OneFormula
from tightrope.engines.contour.line import ContourEngine
from tightrope.engines.end_point import EndPoint
from tightrope.engines.face import NO_HINT, NOTHING, Engine, EngineDeclines, Hint, LocalBounds, LogBounds
from tightrope.engines.lattice.engine import LatticeEngine
from tightrope.engines.lattice.jumps import BigJumpEngine
from tightrope.engines.outcomes import MOST_OUTCOMES, ExactOutcomes, outcomes
from tightrope.engines.planning import Plan
from tightrope.engines.saddle import epsilon_estimate
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.roots import crossing
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

KEPT_PLACES = 8
NOTHING_CERTAIN, MOST_HOPELESS = (
    0.999,
    4,
)  # a local as wide as that knows no lower end; after so many there is none
ROUGH = 0.1  # the accuracy of the first of two solutions for epsilon


class Composition:
    """The curve of one schedule of pairs, for epsilon >= 0."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._places: list[LocalBounds] = []
        self._epsilons: dict[tuple[float, float], tuple[float, float] | NotPreciseEnough] = {}

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon) no further apart than `accuracy`, relative to delta; or NotPreciseEnough."""
        known = self._known(epsilon)
        if known is not None:
            return known
        for place in self._places:
            found = place.bounds(epsilon)
            if found.width <= accuracy:
                return found
        found = self._place(epsilon, accuracy).bounds(epsilon)
        if found.width > accuracy:
            raise NotPreciseEnough(
                f"delta at epsilon={epsilon:g} could not be certified to accuracy={accuracy:g}, only to {found.width:.1e}. "
                "Ask for a coarser accuracy, or for another epsilon or delta."
            )
        return found

    def _known(self, epsilon: float) -> LogBounds | None:
        """What needs no engine: nothing is released, or no loss exceeds epsilon."""
        if self.schedule.log_finite_mass == -math.inf:
            return LogBounds(0.0, 0.0)  # P and Q share no outcome
        highest = self.schedule.loss_range[1]
        if not self.schedule or epsilon >= highest * (1 + 8 * UNIT_ROUNDOFF):
            return NOTHING
        if epsilon >= highest * (1 - 8 * UNIT_ROUNDOFF):
            # Not to be told from the largest loss: 1 - e^{eps - loss} is then at most a few units of roundoff.
            return LogBounds(-math.inf, math.log(32 * UNIT_ROUNDOFF * max(highest, 1e-300)))
        return None

    def _place(self, epsilon: float, accuracy: float, hint: Hint = NO_HINT) -> LocalBounds:
        """A local that certifies `epsilon` to `accuracy`, or the best there is; the last few are kept."""
        best: tuple[float, LocalBounds] | None = None
        drowned = False  # a lattice in rounding: a longer one would not help, telling large losses apart may
        for engine in self._engines:
            if drowned and isinstance(engine, LatticeEngine):
                continue
            for tolerance in engine_tolerances(engine, accuracy):
                try:
                    # An engine whose arithmetic overflows or loses its way certifies nothing here: on to the next.
                    with np.errstate(over="ignore", invalid="ignore"):
                        local = engine.near(epsilon, tolerance, hint)
                        found = local.bounds(epsilon)
                except (
                    EngineDeclines,
                    ArithmeticError,
                    ValueError,
                ):  # a ValueError: a plan that is not a number
                    break
                drowned = drowned or (
                    isinstance(engine, LatticeEngine) and found.errors.rounding > accuracy / 4
                )
                if best is None or found.width < best[0]:
                    best = (found.width, local)
                if found.width <= accuracy:
                    self._places = [local, *self._places[: KEPT_PLACES - 1]]
                    return local
        if best is None:
            raise NotPreciseEnough(
                f"delta at epsilon={epsilon:g} is out of reach of every engine. Ask for another epsilon or delta, or fewer steps."
            )
        return best[1]

    @cached_property
    def _engines(self) -> list[Engine]:
        """The engines that can compose this schedule, fastest first; the slow ones again with more patience."""
        pairs = [pair for pair, _ in self.schedule]
        engines: list[Engine] = []
        separation = self.schedule.gaussian_separation
        if separation is not None:
            engines.append(OneFormula.full_batch(separation))
        elif self.schedule.steps == 1:
            engines.append(one_step(pairs[0]))
        elif outcomes(self.schedule) <= MOST_OUTCOMES:
            engines.append(ExactOutcomes(self.schedule))
        if self.schedule.is_bounded:
            engines.append(EndPoint(self.schedule))
        contour = all(pair.loss_range[0] < math.inf for pair in pairs)  # some loss of every step is finite
        if contour:
            # few steps are quick on a lattice; many are not
            engines.append(
                ContourEngine(
                    self.schedule, most_evaluations=1_500_000 if self.schedule.steps < 200 else 10_000_000
                )
            )
        engines.append(LatticeEngine(self.schedule, longest=1 << 17))
        engines.append(BigJumpEngine(self.schedule, longest=1 << 19))
        if contour:
            engines.append(ContourEngine(self.schedule, most_evaluations=50_000_000))
        engines.append(LatticeEngine(self.schedule, longest=1 << 22))
        engines.append(BigJumpEngine(self.schedule, longest=1 << 22))
        return engines

    @cached_property
    def infinite_mass(self) -> float:
        """The probability of a loss no finite epsilon covers."""
        return self.schedule.infinite_mass

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """(lower, upper) around the smallest epsilon >= 0 with delta(epsilon) <= `delta`."""
        key = (delta, accuracy)
        if key not in self._epsilons:
            try:
                self._epsilons[key] = self._search(delta, accuracy)
            except (
                NotPreciseEnough
            ) as refusal:  # kept as well: both ends of a bracket ask, and a refusal takes longest
                self._epsilons[key] = refusal
            except (ArithmeticError, ValueError):  # a bound lost its way far from where it was placed
                lost = f"epsilon at delta={delta:g} could not be certified. Ask for another delta."
                self._epsilons[key] = NotPreciseEnough(lost)
        found = self._epsilons[key]
        if isinstance(found, NotPreciseEnough):
            raise found
        return found

    def _search(self, delta: float, accuracy: float) -> tuple[float, float]:
        if not self.schedule:
            return 0.0, 0.0
        if delta < self.infinite_mass * (1 - 1e-12):
            return math.inf, math.inf
        log_delta = math.log(delta)
        if self._log_union_bound() <= log_delta:
            return 0.0, 0.0
        try:
            guess, tilt = epsilon_estimate(Plan(self.schedule, log_delta + math.log(accuracy) - 7), log_delta)
        except EngineDeclines:
            guess, tilt = 1.0, 1.0
        highest = self.schedule.loss_range[1] * (1 + 16 * UNIT_ROUNDOFF)
        for engine in self._engines:
            if isinstance(
                engine, EndPoint
            ):  # costs nothing to try, and settles small deltas of bounded losses
                lower, upper, width = self._solve_on(
                    engine, highest * (1 - 1e-6), log_delta, accuracy, highest
                )
                if width <= accuracy and lower > 0:
                    return lower, upper
        tried, hopeless = {guess}, 0
        # Roughly first: where few steps matter the guess is poor, and a lattice made for it would be wasted.
        for wanted in (max(accuracy, ROUGH), *[accuracy] * 6):
            lower, upper, width = self._solve(guess, log_delta, wanted, highest, tilt)
            if width <= accuracy or (math.isfinite(upper) and upper - lower <= accuracy / 10 * upper):
                if lower == 0 and self._meets_at_zero(log_delta, accuracy):
                    upper = 0.0
                return lower, upper
            hopeless = hopeless + 1 if NOTHING_CERTAIN < width < math.inf else 0
            if hopeless == MOST_HOPELESS:
                break
            # where the upper end crosses is the better guess; a second one that did not help is halved
            most = min(upper, highest)
            if not math.isfinite(most):
                guess = 2 * max(lower, guess)
            elif upper < highest and upper not in tried:
                guess = upper
            else:
                guess = (lower + most) / 2
            tried.add(guess)
        if lower == 0 and self._meets_at_zero(log_delta, accuracy):
            return 0.0, 0.0
        raise NotPreciseEnough(
            f"epsilon at delta={delta:g} could not be certified to accuracy={accuracy:g}. Ask for a coarser accuracy."
        )

    def _meets_at_zero(self, log_delta: float, accuracy: float) -> bool:
        """Whether delta(0) is certainly at most delta: a rough bracket may tell as well."""
        for wanted in (accuracy, ROUGH):
            with suppress(NotPreciseEnough):
                return self.log_bounds(0.0, wanted).upper <= log_delta
        return False

    def _log_union_bound(self) -> float:
        """ln of the sum of the steps' own delta(0), an upper bound on the run's: total variation adds up."""
        total = sum(times * math.exp(one_step(pair).bounds(0.0).upper) for pair, times in self.schedule)
        return math.log(total) + 1e-12 if total else -math.inf

    def _solve(
        self, guess: float, log_delta: float, accuracy: float, highest: float, tilt: float
    ) -> tuple[float, float, float]:
        """Both crossings as one local sees them, and the local's relative width there."""
        if self._known(guess) is not None:
            return 0.0, guess, math.inf
        hint = Hint(tilt, None if accuracy >= ROUGH else log_delta)  # a rough solution is behind the guess
        return self._solve_on(self._place(guess, accuracy, hint), guess, log_delta, accuracy, highest)

    def _solve_on(
        self, local: LocalBounds, guess: float, log_delta: float, accuracy: float, highest: float
    ) -> tuple[float, float, float]:
        """The same on a given local."""

        def upper(epsilon: float) -> float:
            return (self._known(epsilon) or local.bounds(epsilon)).upper - log_delta

        def lower(epsilon: float) -> float:
            return (self._known(epsilon) or local.bounds(epsilon)).lower - log_delta

        step = max(abs(guess) * 1e-4, 1e-9)
        here, there = local.bounds(guess), local.bounds(guess + step).upper
        slope = min((there - here.upper) / step, -1e-3) if math.isfinite(there) else -1 / step
        # as fine as the local itself is certain, within reason
        resolution = max(
            min(max(here.width, 1e-9), accuracy / 10) / 5 / -slope, 8 * UNIT_ROUNDOFF * guess, 1e-300
        )
        _, high = crossing(upper, start=guess, slope=slope, resolution=resolution, highest=highest)
        low, _ = crossing(
            lower, start=min(high, highest), slope=slope, resolution=resolution, highest=highest
        )
        # beyond the largest loss the upper end is certain, and says nothing about how close it is
        if not math.isfinite(high) or self._known(high) is not None:
            return min(low, high), high, math.inf
        found = local.bounds(high)
        # a bound can also jump past delta, which leaves the crossing open
        return min(low, high), high, max(found.width, -math.expm1(min(found.upper - log_delta, 0.0)))


def one_step(pair: Pair) -> OneFormula | ExactOutcomes:
    """The curve of a single step, for epsilon >= 0: an envelope's is then that of its remove pair."""
    pair = pair.one_step
    return OneFormula(pair) if isinstance(pair, ShiftPair) else ExactOutcomes(Schedule([(pair, 1)]))


def engine_tolerances(engine: Engine, accuracy: float) -> tuple[float, ...]:
    """How closely to ask an engine, first and again if that was not enough."""
    if isinstance(engine, ContourEngine):
        return 1e-6, accuracy / 1000, accuracy / 1e6
    return (accuracy,)
