"""The curve of a run with passes by their transforms, where those decay; else between finite pairs."""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property

from tightrope.engines.composition import Composition
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.face import ABOVE, ComposedCurve, EngineRow, LogBounds, Side
from tightrope.engines.passes.pass_pair import bound_pass
from tightrope.engines.passes.refusal import LOST
from tightrope.engines.saddle import (
    epsilon_estimate,
    explodes_early,
    log_delta_estimate,
    tilt_for_epsilon,
)
from tightrope.engines.transforms.exchanged import has_curve
from tightrope.errors import NotPreciseEnough
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule

LEAST_VARIANCE = 0.03  # of the normal part of all losses: where it is less, integrands decay too slowly
LEAST_CURVE_VARIANCE = 0.0001  # the same of whole passes in which a record is exchanged
MOST_EVALUATIONS = 1_000_000
CLOSE = 1e-3  # the accuracy that is asked for even in a rough search, so that its tables serve again
MOST_UNEVEN = 150.0  # of losses at the tilt that tells delta, over those at tilt 1: their variances
SHARE, SLOW_SHARE = 1000, 50  # of the accuracy that each error may take; of an exchanged record it costs time

Ask = Callable[[ComposedCurve, float], tuple[float, float]]  # a curve, and how closely


class SeveralPasses:
    """Both ends by one contour, since a transform has no sides; where that declines, one by `others`."""

    def __init__(self, schedule: Schedule, side: Side, others: Callable[[], ComposedCurve]) -> None:
        self.schedule, self.side, self._make_others = schedule, side, others

    @cached_property
    def _others(self) -> ComposedCurve:
        return self._make_others()

    @cached_property
    def _settled(self) -> Schedule:
        return settle_begun(self.schedule, self.side)

    @cached_property
    def _engine(self) -> ContourEngine:
        return ContourEngine(self._settled, MOST_EVALUATIONS)

    @cached_property
    def _own(self) -> Composition:
        """Of this curve alone: what it keeps to answer sooner, another curve must not see."""
        return _compose(self._settled, self._engine)

    def _explodes_early(self, log_delta: float) -> bool:
        """Whether no contour tells delta well: few passes of many batches, whose rarest losses are huge.

        Either moments explode before they tell delta, or rare losses decide, beside which all others are so
        small that what a contour adds up is far larger than delta.
        """
        cumulants = self._engine.cumulants
        with suppress(*LOST):
            tilt = epsilon_estimate(cumulants, log_delta)[1]
            if self._has_curves and cumulants(tilt)[2] > MOST_UNEVEN * cumulants(1.0)[2]:
                return True
            return explodes_early(cumulants, log_delta)
        return False

    def _guess_log_delta(self, epsilon: float) -> float:
        """About ln delta there; 0 where there is no telling."""
        cumulants = self._engine.cumulants
        with suppress(*LOST):
            found = log_delta_estimate(cumulants, tilt_for_epsilon(cumulants, epsilon), epsilon)
            return min(found, 0.0)
        return 0.0

    @property
    def _has_curves(self) -> bool:
        """Whether finite pairs are close, since all passes are whole ones in which a record is exchanged."""
        return all(_has_curve(pair) for pair, _ in self._settled if pair.is_pass)

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """That of steps other than passes."""
        return self.schedule.log_infinite_mass

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        if self._explodes_early(self._guess_log_delta(epsilon)):
            return self._others.log_bounds(epsilon, accuracy)
        with suppress(*LOST):
            return self._own.log_bounds(epsilon, accuracy)

        def ask(curve: ComposedCurve, asked: float) -> tuple[float, float]:
            found = curve.log_bounds(epsilon, asked)
            return found.lower, found.upper

        return LogBounds(*self._ask_both(ask, accuracy))

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= delta."""
        if self._explodes_early(math.log(delta)):
            return self._others.epsilon_bounds(delta, accuracy)
        with suppress(*LOST):
            return self._own.epsilon_bounds(delta, accuracy)
        return self._ask_both(lambda curve, asked: curve.epsilon_bounds(delta, asked), accuracy)

    def _ask_both(self, ask: Ask, accuracy: float) -> tuple[float, float]:
        """Of finite pairs the end on this side, of a contour asked less closely both, and the better of each.

        So more accuracy never widens.
        """
        own: tuple[float, float] | None = None
        if accuracy < CLOSE:
            with suppress(*LOST):
                own = ask(self._own, CLOSE)
        try:
            others = ask(self._others, accuracy)
        except NotPreciseEnough:
            if own is None:
                raise
            return own
        if own is None:
            return others
        # the other end of finite pairs is theirs, not that of the passes
        return (own[0], min(own[1], others[1])) if self.side is ABOVE else (max(own[0], others[0]), own[1])


def settle_begun(schedule: Schedule, side: Side) -> Schedule:
    """With a pass that was only begun as a finite pair on this side, beside whole ones.

    Curves tell the moments of whole passes; those of a begun one take several times as long as its pair.
    """
    if not any(_has_curve(pair) for pair, _ in schedule):
        return schedule
    return Schedule((bound_pass(pair, side) if _is_begun(pair) else pair, times) for pair, times in schedule)


def _has_curve(pair: Pair) -> bool:
    return isinstance(pair, Allocation) and has_curve(pair)


def _is_begun(pair: Pair) -> bool:
    return isinstance(pair, Allocation) and pair.is_exchanged and pair.released < pair.batches


def passes_have_transforms(schedule: Schedule) -> bool:
    """Whether all passes have normal noise, and there are enough of them."""
    passes = [(pair, times) for pair, times in schedule if pair.is_pass]
    if not passes or not all(_has_transform(pair) for pair, _ in passes):
        return False
    variance = schedule.gaussian_square + sum(times * _normal_variance(pair) for pair, times in passes)
    # those that were only begun become finite pairs beside whole ones that have curves
    have_curves = any(_has_curve(pair) for pair, _ in passes)
    return variance >= (LEAST_CURVE_VARIANCE if have_curves else LEAST_VARIANCE)


def _has_transform(pair: Pair) -> bool:
    """Shuffled epochs and groups have none."""
    if not isinstance(pair, Allocation):
        return False
    return pair.chosen == 1 and pair.step.exact_gaussian_separation is not None


def _normal_variance(pair: Pair) -> float:
    """Of the part of the loss that the mean of all outputs makes."""
    assert isinstance(pair, Allocation)
    separation = pair.step.gaussian_separation
    if not separation or pair.released < pair.batches:
        return 0.0
    return separation**2 * (4 if pair.is_exchanged else 1) / pair.batches


def _compose(schedule: Schedule, engine: ContourEngine) -> Composition:
    is_slow = any(isinstance(pair, Allocation) and pair.is_exchanged for pair, _ in schedule)
    share = SLOW_SHARE if is_slow else SHARE
    row = EngineRow(
        make=lambda _: engine,
        applies=lambda _: True,
        tolerances=lambda accuracy: (min(accuracy, CLOSE) / share,),
    )
    # what is not as close as asked is left to finite pairs, which may be closer
    return Composition(schedule, (row,), cumulants=engine.cumulants, widest=lambda accuracy: accuracy)
