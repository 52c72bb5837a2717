"""Which engine composes a schedule: a table, and the curve of a schedule, which asks down the table."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from tightrope.engines.closed_forms import EndPoint, OneFormula, full_batch
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.face import NO_HINT, NOTHING, Engine, EngineDeclines, Hint, LocalBounds, LogBounds
from tightrope.engines.outcomes import MOST_OUTCOMES, ExactOutcomes
from tightrope.engines.planning import NEGLIGIBLE, Plan
from tightrope.engines.saddle import epsilon_estimate
from tightrope.engines.search import find_epsilon
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.pairs.schedule import Schedule

KEPT_PLACES = 8
FEW_STEPS = 200  # so few are quick on a lattice, and the contour is asked with less patience


@dataclass(frozen=True, kw_only=True)
class EngineRow:
    """One line of the table: which schedules an engine applies to, and how closely it is asked.

    Rounding does not shrink with patience. Where it `is_final`, an engine that drowned in rounding is not
    asked again with more patience.
    """

    make: Callable[[Schedule], Engine]
    applies: Callable[[Schedule], bool]
    tolerances: Callable[[float], tuple[float, ...]] = lambda accuracy: (accuracy,)
    rounding_is_final: bool = False


def _contour(most_evaluations: int, applies: Callable[[Schedule], bool]) -> EngineRow:
    """A contour costs little to ask closely; where rounding allows, closer still."""
    return EngineRow(
        make=partial(ContourEngine, most_evaluations=most_evaluations),
        applies=lambda schedule: schedule.loss_range[0] < math.inf and applies(schedule),
        tolerances=lambda accuracy: (1e-6, accuracy / 1000, accuracy / 1e6),
    )


def _lattice(schedule: Schedule, longest: int) -> Engine:
    from tightrope.engines.lattice.engine import LatticeEngine  # and SciPy's FFT: most questions need neither

    return LatticeEngine(schedule, longest=longest)


def _jumps(schedule: Schedule, longest: int) -> Engine:
    from tightrope.engines.lattice.jumps import BigJumpEngine

    return BigJumpEngine(schedule, longest=longest)


def _always(schedule: Schedule) -> bool:
    return True


# The engines, fastest first; the slow ones again with more patience.
TABLE = (
    EngineRow(make=full_batch, applies=lambda schedule: schedule.gaussian_separation is not None),
    EngineRow(make=OneFormula.of, applies=lambda schedule: schedule.is_one_noisy_step),
    EngineRow(make=ExactOutcomes, applies=lambda schedule: schedule.distinct_outcomes <= MOST_OUTCOMES),
    EngineRow(make=EndPoint, applies=lambda schedule: schedule.is_bounded),
    _contour(1_500_000, lambda schedule: schedule.steps < FEW_STEPS),
    _contour(10_000_000, lambda schedule: schedule.steps >= FEW_STEPS),
    EngineRow(make=partial(_lattice, longest=1 << 17), applies=_always, rounding_is_final=True),
    EngineRow(make=partial(_jumps, longest=1 << 19), applies=_always),
    _contour(50_000_000, _always),
    EngineRow(make=partial(_lattice, longest=1 << 22), applies=_always, rounding_is_final=True),
    EngineRow(make=partial(_jumps, longest=1 << 22), applies=_always),
)


class Composition:
    """The curve of one schedule of pairs, for epsilon >= 0."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._made: dict[EngineRow, Engine] = {}
        self._places: list[LocalBounds] = []
        self._epsilons: dict[tuple[float, float], tuple[float, float] | NotPreciseEnough] = {}

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """ln of bounds on the probability of a loss that no finite epsilon covers."""
        return self.schedule.log_infinite_mass

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon), at most `accuracy` apart relative to delta; or NotPreciseEnough."""
        settled = self.settle(epsilon)
        if settled is not None:
            return settled
        for place in self._places:
            found = place.bounds(epsilon)
            if found.width <= accuracy:
                return found
        found = self.place(epsilon, accuracy).bounds(epsilon)
        if found.width > accuracy:
            raise NotPreciseEnough(
                f"delta at {{epsilon={epsilon:g}}} could not be certified to {{accuracy={accuracy:g}}}, "
                f"only to {found.width:.1e}",
                "Ask for a coarser {accuracy}, or for another {epsilon} or {delta}.",
            )
        return found

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """(lower, upper) around the smallest epsilon >= 0 with delta(epsilon) <= `delta`."""
        key = (delta, accuracy)
        if key not in self._epsilons:
            try:
                self._epsilons[key] = find_epsilon(self, delta, accuracy)
            except (
                NotPreciseEnough
            ) as refusal:  # kept too: both ends of a bracket ask, and refusing takes longest
                self._epsilons[key] = refusal
            except (ArithmeticError, ValueError):  # a bound lost its way far from where it was placed
                what = f"epsilon at {{delta={delta:g}}} could not be certified"
                self._epsilons[key] = NotPreciseEnough(what, "Ask for another {delta}.")
        found = self._epsilons[key]
        if isinstance(found, NotPreciseEnough):
            raise found
        return found

    def estimate(self, log_delta: float, accuracy: float) -> tuple[float, float] | None:
        """About epsilon(delta) and its saddle's tilt; None where there is no telling."""
        try:
            plan = Plan(self.schedule, log_delta + math.log(accuracy) + NEGLIGIBLE)
            return epsilon_estimate(plan, log_delta)
        except EngineDeclines:
            return None

    def settle(self, epsilon: float) -> LogBounds | None:
        """What needs no engine: nothing is released, no loss exceeds epsilon, or P and Q share no outcome."""
        if self.schedule.log_finite_mass == -math.inf:
            return LogBounds(0.0, 0.0)
        highest = self.schedule.loss_range[1]
        if not self.schedule or epsilon >= highest * (1 + 8 * UNIT_ROUNDOFF):
            return NOTHING
        if epsilon >= highest * (1 - 8 * UNIT_ROUNDOFF):
            # Not to be told from the largest loss: 1 - e^{eps - loss} is then at most a few units of
            # roundoff.
            return LogBounds(-math.inf, math.log(32 * UNIT_ROUNDOFF * max(highest, 1e-300)))
        return None

    def place(self, epsilon: float, accuracy: float, hint: Hint = NO_HINT) -> LocalBounds:
        """Bounds that certify `epsilon` to `accuracy`, or the best there are; the last few are kept."""
        best: tuple[float, LocalBounds] | None = None
        drowned = False
        for row, engine in self._engines():
            if drowned and row.rounding_is_final:
                continue
            for tolerance in row.tolerances(accuracy):
                try:
                    # An engine whose arithmetic overflows or loses its way certifies nothing here: on to
                    # the next.
                    with np.errstate(over="ignore", invalid="ignore"):
                        local = engine.near(epsilon, tolerance, hint)
                        found = local.bounds(epsilon)
                except (
                    EngineDeclines,
                    ArithmeticError,
                    ValueError,
                ):  # a ValueError: a plan that is no number
                    break
                drowned = drowned or (row.rounding_is_final and found.errors.rounding > accuracy / 4)
                if best is None or found.width < best[0]:
                    best = (found.width, local)
                if found.width <= accuracy:
                    self._places = [local, *self._places[: KEPT_PLACES - 1]]
                    return local
        if best is None:
            raise NotPreciseEnough(
                f"delta at {{epsilon={epsilon:g}}} is out of reach of every engine",
                "Ask for another {epsilon} or {delta}, or for fewer {steps}.",
            )
        return best[1]

    def _engines(self) -> Iterator[tuple[EngineRow, Engine]]:
        """The engines that apply, in the table's order, each made when it is first asked."""
        for row in TABLE:
            if row not in self._made and row.applies(self.schedule):
                self._made[row] = row.make(self.schedule)
            if row in self._made:
                yield row, self._made[row]
