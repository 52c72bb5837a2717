"""A finite pair that dominates an epoch of shuffled batches: bounds at many orders, connected."""

import math
from fractions import Fraction
from functools import lru_cache

from tightrope.engines.dots import Dot, connect_dots
from tightrope.engines.shuffles.one_epoch import bound_order
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.shuffled_epoch import ShuffledEpoch

APART = 0.4  # of neighbouring dots, in mean losses of an epoch, up to
NEAR, GROWS = 8, 1.35  # so many of them; from there on each is so many times further from the last
LEAST_DELTA = 1e-13  # where dots end
MOST_DOTS, FARTHEST = 80, 200.0  # and at last: no larger loss is looked at
KEPT = 64


@lru_cache(maxsize=KEPT)
def bound_epoch(epoch: ShuffledEpoch) -> FinitePair:
    """The pair whose curve connects the dots."""
    scale = mean_loss(epoch)
    loss, step = 0.0, APART * scale
    dots: list[Dot] = []
    while len(dots) < MOST_DOTS and loss < FARTHEST:
        order = Fraction(math.exp(loss))
        value = Fraction(bound_order(epoch, order))
        dots.append((order, min(value, dots[-1][1] if dots else Fraction(1))))  # H falls with the order
        # not where dots are level for a while: further out no amplification falls faster than all
        if value < LEAST_DELTA:
            break
        step = step if loss < NEAR * scale else step * GROWS
        loss += step
    return connect_dots(dots)


def mean_loss(epoch: ShuffledEpoch) -> float:
    """About the deviation of the loss, where the shuffle hides much."""
    square = min(float(epoch.separation) ** 2, 30.0)
    return min(math.sqrt(math.expm1(square) / epoch.batches), max(math.sqrt(square), square / 4))
