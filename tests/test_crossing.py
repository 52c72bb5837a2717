"""Between which epsilons delta is crossed: whatever the search does, an end is where the bounds say so."""

import math
from collections.abc import Callable

import pytest

from tightrope.engines.crossing import Solver
from tightrope.engines.face import LogBounds

LOG_DELTA = -5.0


def solver(bounds: Callable[[float], LogBounds]) -> Solver:
    return Solver(bounds, lambda epsilon: None, math.inf, (LOG_DELTA, LOG_DELTA), 1e-3)


def plain(epsilon: float) -> LogBounds:
    return LogBounds(-epsilon - 1e-6, -epsilon)


def blind_below(epsilon: float) -> LogBounds:
    """Where epsilon is below 5, nothing is certain from below."""
    return LogBounds(-math.inf if 4.9 < epsilon < 5 else -epsilon - 1e-6, -epsilon)


def uneven(epsilon: float) -> LogBounds:
    return LogBounds(-epsilon - 4e-6, -epsilon + 2e-6 * math.sin(1e7 * epsilon))


@pytest.mark.parametrize("bounds", [plain, blind_below, uneven])
@pytest.mark.parametrize("guess", [5 - 1e-9, 5 + 1e-9, 5.0, 4.0, 7.0])
@pytest.mark.parametrize("slope", [-1.0, -0.5, None])
def test_both_ends_are_where_the_bounds_are_certain(
    bounds: Callable[[float], LogBounds], guess: float, slope: float | None
) -> None:
    found = solver(bounds).solve(guess, slope)
    assert bounds(found.upper).upper <= LOG_DELTA
    assert found.lower == 0 or bounds(found.lower).lower > LOG_DELTA
    assert found.upper - found.lower < 0.2
