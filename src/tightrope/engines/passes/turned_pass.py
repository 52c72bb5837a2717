"""The curve of a single pass of little noise in which a record is exchanged: each order by turned normals.

Lines in frequencies are too long there. theorems/proofs/turned_curve.md derives every term of the error.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

import numpy as np
from flint import arb, ctx

from tightrope.engines.face import ComposedCurve, EngineDeclines, LogBounds
from tightrope.engines.lines.plan import PassOrder, plan_line
from tightrope.engines.passes.pass_curve import FARTHEST_EPSILON, INTEGRAL_SHARE, LEAST_FALL, PassCurve
from tightrope.engines.transforms.curve_sketch import guess_without_lines, sketch_curve
from tightrope.engines.transforms.exchanged import has_curve
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.engines.transforms.transform import keep_refusals
from tightrope.engines.transforms.turned_curve import TurnedCurve, check_law, plan_curve
from tightrope.numerics.balls import ceil_float, floor_float
from tightrope.numerics.floats import Floats, log_ends
from tightrope.pairs.allocation import Allocation

KEPT_ENDS, KEPT_CROSSINGS = 256, 64
ORDER_PATIENCE = 4.0  # seconds, about, of one order
CROSSING_SHARE = 1 / 32  # of the accuracy: how far beyond where delta seems crossed the next order lies
LEAST_ROOM = 1e-6  # how far that is at least, in epsilon
LOG_LOOSE_ERROR = math.log(1e-2)  # ln of what may be wrong at epsilon 0, where nothing is asked
SHORT_LINE = 1_000_000  # nodes of a line times points of its path: balls take as long as turned normals
MOST_ORDERS = 12  # that a search may take
SKETCH_HALVINGS = 60  # of one along a sketch, where an order costs nothing
SKETCH_NUDGE = 1e-3  # of epsilon, to see how steep a sketch is


class TurnedPass(PassCurve):
    """Both ends by turned normals; where those decline, or lines should be quicker, by `others`."""

    def __init__(
        self, allocation: Allocation, others: Callable[[], ComposedCurve], *, lines_are_left: bool
    ) -> None:
        super().__init__(allocation, others)
        self._lines_are_left = lines_are_left

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        try:
            self._prefer_lines(epsilon, accuracy)
            lower, upper = _enclose(self.allocation, epsilon, accuracy)
        except EngineDeclines:
            return self._others.log_bounds(epsilon, accuracy)
        return LogBounds(log_ends(lower)[0], min(log_ends(upper)[1], 0.0))

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= delta."""
        try:
            self._prefer_lines(_guess_place(_law_of(self.allocation), delta), accuracy)
            return cross_turned(self.allocation, delta, accuracy)
        except EngineDeclines:
            return self._others.epsilon_bounds(delta, accuracy)

    def _prefer_lines(self, epsilon: float, accuracy: float) -> None:
        if self._lines_are_left and _lines_are_short(self.allocation, epsilon, accuracy):
            raise EngineDeclines("a pass whose line integrals are quicker")


def _lines_are_short(allocation: Allocation, epsilon: float, accuracy: float) -> bool:
    log_size = float(guess_without_lines(_law_of(allocation), np.array([epsilon]))[0])
    with suppress(EngineDeclines):  # some take too long
        of = PassOrder(allocation, epsilon)
        return plan_line(of, log_size + math.log(INTEGRAL_SHARE * accuracy)).work <= SHORT_LINE
    return False


def _law_of(allocation: Allocation) -> PairLaw:
    separation = allocation.step.exact_gaussian_separation
    if separation is None or not has_curve(allocation):
        raise EngineDeclines("a pass whose normals are not turned")
    law = PairLaw(separation, allocation.batches, allocation.released)
    check_law(law)
    return law


@keep_refusals(maxsize=KEPT_ENDS)
def enclose_turned(law: PairLaw, epsilon: float, log_error: float) -> tuple[float, float]:
    """Not above and not below the curve there, about e^log_error apart; or EngineDeclines."""
    if not 0 <= epsilon <= FARTHEST_EPSILON:
        raise EngineDeclines("an epsilon that turned normals do not tell")
    log_errors = (
        (LOG_LOOSE_ERROR, log_error) if epsilon else (log_error,)
    )  # the only step of the lattice leads there
    curve = TurnedCurve(law, plan_curve(law, epsilon or 1.0, log_errors), ORDER_PATIENCE)
    with ctx.workprec(curve.bits):
        value: arb = curve.values[-1]
        if not (value.is_finite() and value.upper() >= 0 and value.lower() <= 1):
            raise EngineDeclines("a curve that turned normals do not tell")
        return max(floor_float(value.lower()), 0.0), min(ceil_float(value.upper()), 1.0)


def _enclose(allocation: Allocation, epsilon: float, accuracy: float) -> tuple[float, float]:
    """As close as asked, relative to the curve."""
    law = _law_of(allocation)
    log_size = float(sketch_curve(law).log_curve(np.array([epsilon]))[0])
    for _ in range(MOST_ORDERS):
        lower, upper = enclose_turned(law, epsilon, log_size + math.log(INTEGRAL_SHARE * accuracy))
        if upper - lower <= accuracy / 4 * lower:
            return lower, upper
        log_size = math.log(lower) if lower > upper / 2 else log_size - 4
    raise EngineDeclines("a curve that turned normals do not tell")


@lru_cache(maxsize=KEPT_CROSSINGS)
def cross_turned(allocation: Allocation, delta: float, accuracy: float) -> tuple[float, float]:
    """Between which epsilons the curve crosses delta.

    Each order lies a little beyond where the last one puts the crossing: so both ends come from it.
    """
    law = _law_of(allocation)
    place, slope = _begin(law, delta)
    log_error = math.log(delta) + math.log(INTEGRAL_SHARE * accuracy)
    low, high = -math.inf, math.inf
    last: tuple[float, float] | None = None
    for _ in range(MOST_ORDERS):
        lower, upper = enclose_turned(law, place, log_error)
        if upper <= delta:
            high = min(high, place)
        elif lower >= delta:
            low = max(low, place)
        if high <= 0:
            return 0.0, 0.0
        excess = math.log((lower + upper) / 2 / delta)
        if last is not None and last[0] != place:
            slope = max((last[1] - excess) / (place - last[0]), LEAST_FALL)
        last = place, excess
        room = max(CROSSING_SHARE * accuracy / slope, LEAST_ROOM)
        if high - low <= 4 * room:
            return max(low, 0.0), high
        aim = place + excess / slope
        aim = max(aim + math.copysign(room, excess), 0.0)
        place = aim if low < aim < high else (max(low, 0.0) + high) / 2
    raise EngineDeclines("a crossing that turned normals do not find")


def _begin(law: PairLaw, delta: float) -> tuple[float, float]:
    """About where the curve crosses delta, and how fast ln delta falls there: by its sketch."""
    log_curve = sketch_curve(law).log_curve
    place = _cross_about(log_curve, delta)
    here, there = log_curve(np.array([place, place + SKETCH_NUDGE])).tolist()
    return place, max((here - there) / SKETCH_NUDGE, LEAST_FALL)


def _guess_place(law: PairLaw, delta: float) -> float:
    """The same without a sketch."""
    return _cross_about(lambda epsilons: guess_without_lines(law, epsilons), delta)


def _cross_about(log_curve: Callable[[Floats], Floats], delta: float) -> float:
    low, high = 0.0, FARTHEST_EPSILON
    for _ in range(SKETCH_HALVINGS):
        middle = (low + high) / 2
        is_left = float(log_curve(np.array([middle]))[0]) > math.log(delta)
        low, high = (middle, high) if is_left else (low, middle)
    return low
