"""What docs/certificates.md promises of the code as a whole: what raises, what is listed, what is cited."""

import math

import numpy as np
import pytest

from tightrope.engines.composition import Composition, EngineRow
from tightrope.engines.face import NO_HINT, Hint, LogBounds
from tightrope.errors import NotPreciseEnough
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

STEP = Schedule([(ShiftPair.of_normals(1.0), 1)])


class OverflowsElsewhere:
    """Bounds that are 1e-9 wide where they were placed, and overflow far from there."""

    def __init__(self, place: float, tolerance: float = 1.0) -> None:
        self.place, self.tolerance = place, tolerance

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "OverflowsElsewhere":
        return OverflowsElsewhere(epsilon, tolerance)

    def bounds(self, epsilon: float) -> LogBounds:
        far = np.exp(np.array([1e4 * abs(epsilon - self.place)]))
        upper = -epsilon + math.log1p(1e-9) * float(1 / far[0])
        return LogBounds(-epsilon - 1e-9, upper)


def composition() -> Composition:
    return Composition(STEP, (EngineRow(make=lambda _: OverflowsElsewhere(0.0), applies=lambda _: True),))


def test_kept_bounds_that_overflow_are_not_taken_for_bounds() -> None:
    curve = composition()
    curve.log_bounds(1.0, 1e-3)
    assert curve.log_bounds(2.0, 1e-3).upper == pytest.approx(-2.0)


def test_an_epsilon_whose_bounds_overflow_is_refused() -> None:
    with pytest.raises(NotPreciseEnough):
        composition().epsilon_bounds(math.exp(-3.0), 1e-3)
