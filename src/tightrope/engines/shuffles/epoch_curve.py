"""The curve of a single epoch of shuffled batches, from above."""

import math
from fractions import Fraction

from tightrope.engines.crossing import find_crossing
from tightrope.engines.face import LogBounds
from tightrope.engines.shuffles.epoch_pair import FARTHEST_LOSS, mean_loss
from tightrope.engines.shuffles.one_epoch import bound_order
from tightrope.numerics.floats import log_ends
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR
from tightrope.pairs.shuffled_epoch import ShuffledEpoch

ROUNDED_DOWN = 1 - Fraction(ELEMENTARY_REL_ERROR)  # of e^epsilon by math.exp; H falls with the order
SEARCH_FROM = 5  # mean losses of an epoch, where a search begins
# how closely a crossing is looked for, in mean losses, and where more work is worth it
CLOSE_LOSS, THOROUGH_CLOSE_LOSS = 1e-2, 5e-4


class OneShuffledEpoch:
    """The curve of a single epoch from above, each order by itself; the lower end says nothing."""

    def __init__(self, epoch: ShuffledEpoch) -> None:
        self.epoch = epoch

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """Normal noise hides everything a little."""
        return -math.inf, -math.inf

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """From above at this order; far out nothing but delta <= 1."""
        return LogBounds(-math.inf, self._log_above(epsilon))

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """Where the bound crosses delta."""
        least, _ = log_ends(delta)
        if self._log_above(0.0) <= least:
            return 0.0, 0.0
        scale, close, start = mean_loss(self.epoch), CLOSE_LOSS, 0.0
        if self.epoch.is_thorough:
            close = THOROUGH_CLOSE_LOSS
            # from where less work finds it: never beyond
            _, start = OneShuffledEpoch(self.epoch.quick).epsilon_bounds(delta, accuracy)
        _, found = find_crossing(
            lambda epsilon: self._log_above(epsilon) - least,
            start=start or SEARCH_FROM * scale,
            slope=-SEARCH_FROM / scale,
            resolution=close * scale,
            highest=FARTHEST_LOSS,
        )
        return 0.0, found

    def _log_above(self, epsilon: float) -> float:
        if epsilon > FARTHEST_LOSS:
            return 0.0
        order = max(Fraction(math.exp(epsilon)) * ROUNDED_DOWN, Fraction(1))
        return min(log_ends(bound_order(self.epoch, order))[1], 0.0)
