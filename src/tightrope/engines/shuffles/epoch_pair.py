"""A finite pair that dominates an epoch of shuffled batches: bounds at many orders, connected."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tightrope.engines.dots import Dot, connect_dots
from tightrope.engines.shuffles.any_batches import DEEP
from tightrope.engines.shuffles.one_epoch import (
    Way,
    bound_by_levels,
    bound_revealed,
    estimate_levels,
    forget_size,
    list_ways,
)
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.shuffled_epoch import ShuffledEpoch


@dataclass(frozen=True)
class DotSpacing:
    """Dots are `apart` mean losses of an epoch, and `grows` of the loss, from the next one.

    But not so far that the bound falls, as it did last, by more than `falls`, as a logarithm. Bounds below
    `least` are those without amplification.
    """

    apart: float
    grows: float
    falls: float
    least: float

    def step(self, scale: float, loss: float, last: float, slope: float) -> float:
        """How far it is to the next dot, from a bound that fell so fast; a slope of 0 is unknown."""
        wider = DEEP_WIDER if last < DEEP else 1.0
        step = self.apart * scale + wider * self.grows * loss
        if not slope:
            return step
        if slope * step < self.falls * LEVEL:
            step *= LEVEL_WIDER
        return min(step, max(wider * self.falls / slope, self.apart * scale))


LEAST_DELTA, LEAST_TOLD = 1e-11, 1e-14  # where dots end, with amplification and without
THOROUGH_LEAST_DELTA = 1e-13
USUAL_SPACING = DotSpacing(apart=0.5, grows=0.3, falls=1.6, least=LEAST_DELTA)
CLOSE_SPACING = DotSpacing(apart=0.35, grows=0.12, falls=0.6, least=LEAST_DELTA)  # where a dot is quick
THOROUGH_SPACING = DotSpacing(apart=0.4, grows=0.15, falls=0.8, least=THOROUGH_LEAST_DELTA)
CLOSE_THOROUGH_SPACING = DotSpacing(apart=0.3, grows=0.1, falls=0.5, least=THOROUGH_LEAST_DELTA)
QUICK_SEPARATION = Fraction(1, 2)  # up to which sums are short
DEEP_WIDER = 3.0  # bounds that matter little may be so many times further apart
LEVEL, LEVEL_WIDER = 0.25, 1.5  # a bound that falls by so little of that has dots so much further apart
DOTS_BETWEEN = 3  # dots besides, where there is no amplification
MOST_DOTS, FARTHEST_LOSS = 160, 200.0  # and at last: no larger loss is looked at
KEPT_EPOCHS = 64


@lru_cache(maxsize=KEPT_EPOCHS)
def bound_epoch(epoch: ShuffledEpoch) -> FinitePair:
    """The pair whose curve connects the dots of all that is known."""
    return connect_dots(sorted(_find_dots(epoch)))


@lru_cache(maxsize=KEPT_EPOCHS)
def _find_dots(epoch: ShuffledEpoch) -> tuple[Dot, ...]:
    """Of every way, and of less work too: harder work need not tell more at every order.

    With full batches the dots of levels are those of any batch size: a size that is known never tells less.
    """
    dots: list[Dot] = list(_find_dots(epoch.quick)) if epoch.is_thorough else []
    for way in list_ways(epoch) or [_bound_by_nothing]:
        if way is not bound_by_levels or _may_levels_help(epoch, dots):
            is_any_size = way is bound_by_levels and epoch.last == epoch.batch
            dots += _walk_out(forget_size(epoch) if is_any_size else epoch, way)
    return tuple(dots)


def _may_levels_help(epoch: ShuffledEpoch, dots: Sequence[Dot]) -> bool:
    """Whether levels may be below one of the dots: what they prove is above their estimate."""
    if epoch.is_thorough or not dots:
        return True
    # where the bound is small the averages of large batches cost most
    asked = [(order, float(bound)) for order, bound in reversed(dots) if bound > DEEP]
    return any(estimate_levels(epoch, order, bound) < bound for order, bound in asked)


@lru_cache(maxsize=KEPT_EPOCHS)
def _walk_out(epoch: ShuffledEpoch, way: Way) -> tuple[Dot, ...]:
    """Dots from order 1 on, each as far from the last as that one's loss and fall say."""
    spacing = _choose_spacing(epoch)
    scale = mean_loss(epoch)
    loss = slope = step = guess = 0.0
    dots: list[Dot] = []
    last, is_worth_asking = math.inf, True
    while last > LEAST_TOLD and len(dots) < MOST_DOTS and loss < FARTHEST_LOSS:
        order = Fraction(math.exp(loss))
        is_asked, told = is_worth_asking and last > spacing.least, bound_revealed(epoch, order)
        value = min(way(epoch, order, guess, last), told) if is_asked else told
        if value >= told and dots:  # no amplification is told at once
            dots += _fill_between(epoch, loss, step, last)
        if is_asked and value < last < math.inf:
            slope = math.log(last / value) / step
        is_worth_asking = is_worth_asking and _goes_on(epoch, value, last)
        # not where dots are level for a while: further out no amplification falls faster than all
        last = min(value, last)  # H falls with the order
        dots.append((order, Fraction(last)))
        step = spacing.step(scale, loss, last, slope if is_asked else 0.0)
        guess = last * math.exp(-min(slope * step, spacing.falls))
        loss += step
    return tuple(dots)


def _fill_between(epoch: ShuffledEpoch, loss: float, step: float, last: float) -> list[Dot]:
    """Dots without amplification within the last step."""
    orders = [
        Fraction(math.exp(loss - step * part / (DOTS_BETWEEN + 1))) for part in range(DOTS_BETWEEN, 0, -1)
    ]
    return [(order, Fraction(min(bound_revealed(epoch, order), last))) for order in orders]


def _goes_on(epoch: ShuffledEpoch, value: float, last: float) -> bool:
    """Whether the next bound is worth its time; those of a spare place are quick, and level for a while."""
    return value < last or last >= DEEP or epoch.has_spare_place


def _bound_by_nothing(epoch: ShuffledEpoch, order: Fraction, guess: float, known: float) -> float:
    return bound_revealed(epoch, order)


def _choose_spacing(epoch: ShuffledEpoch) -> DotSpacing:
    is_quick = epoch.has_spare_place or epoch.separation <= QUICK_SEPARATION
    if epoch.is_thorough:
        return CLOSE_THOROUGH_SPACING if is_quick else THOROUGH_SPACING
    return CLOSE_SPACING if is_quick else USUAL_SPACING


def mean_loss(epoch: ShuffledEpoch) -> float:
    """About the deviation of the loss, where the shuffle hides much."""
    square = min(float(epoch.separation) ** 2, 30.0)
    return min(math.sqrt(math.expm1(square) / epoch.batches), max(math.sqrt(square), square / 4))
