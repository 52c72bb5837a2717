"""What the curves of a single pass with normal noise have in common, however they are told."""

import math
from collections.abc import Callable
from functools import cached_property

from tightrope.engines.face import ComposedCurve
from tightrope.pairs.allocation import Allocation

FARTHEST_EPSILON = 200.0  # larger ones are left to others
INTEGRAL_SHARE = 1 / 256  # of the accuracy, that each order may be wrong by
LEAST_FALL = 1e-3  # of -ln delta over epsilon, that a search counts on


class PassCurve:
    """A curve that is told in one way; where that declines, by `others`, which are made only then."""

    def __init__(self, allocation: Allocation, others: Callable[[], ComposedCurve]) -> None:
        self.allocation, self._make_others = allocation, others

    @cached_property
    def _others(self) -> ComposedCurve:
        return self._make_others()

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """Normal noise hides everything a little."""
        return -math.inf, -math.inf
