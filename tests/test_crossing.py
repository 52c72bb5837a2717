"""Between which epsilons delta is crossed: whatever the search does, an end is where the bounds say so."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import tightrope as tr
from tightrope.engines.contour.engine import BLOCK, ContourEngine, ContourLine
from tightrope.engines.contour.rows import ContourRows
from tightrope.engines.crossing import Solver
from tightrope.engines.face import EngineDeclines, Hint, LogBounds
from tightrope.engines.many_crossings import Rows, cross_all
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.pairs.schedule import Schedule
from tightrope.setting.effort import QUICK
from tightrope.theorems.lookup import analyse

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


# -- many at once --------------------------------------------------------------------------------------------


class Many:
    """Bounds of a test, for many epsilons."""

    def __init__(self, bounds: Callable[[float], LogBounds]) -> None:
        self.bounds = bounds

    def __call__(self, rows: Rows, epsilons: Floats) -> tuple[Floats, Floats]:
        found = [self.bounds(epsilon) for epsilon in epsilons.tolist()]
        return np.array([one.lower for one in found]), np.array([one.upper for one in found])


@pytest.mark.parametrize("bounds", [plain, uneven])
@pytest.mark.parametrize("slope", [-1.0, -0.5, -2.0])
def test_rows_take_the_steps_that_a_single_search_takes(
    bounds: Callable[[float], LogBounds], slope: float
) -> None:
    guesses = np.array([5 - 1e-9, 5 + 1e-9, 5.0, 4.0, 7.0, 4.99, 5.3])
    ends = np.full(len(guesses), LOG_DELTA), np.full(len(guesses), LOG_DELTA)
    together = cross_all(Many(bounds), guesses, np.full(len(guesses), slope), ends, 1e-3)
    alone = [solver(bounds)._approach(guess, slope) for guess in guesses.tolist()]
    assert together == alone
    assert any(alone)


def test_rows_leave_out_what_is_unusual() -> None:
    guesses, slopes = np.array([-1.0, 5.0, 5.0, 5.0]), np.array([-1.0, 0.0, 1.0, -1.0])
    ends = np.full(4, LOG_DELTA), np.full(4, LOG_DELTA)
    assert [found is None for found in cross_all(Many(plain), guesses, slopes, ends, 1e-3)] == [
        True,
        True,
        True,
        False,
    ]
    # a lower end that is not certain is none
    assert cross_all(Many(blind_below), guesses[3:], slopes[3:], (ends[0][3:], ends[1][3:]), 1e-3) == [None]


def schedule_of(steps: int) -> Schedule:
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * steps
    schedule = analyse(run, tr.REMOVE, QUICK)[0].covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    return schedule


def line(steps: int) -> ContourLine:
    return ContourEngine(schedule_of(steps)).near(0.5, 1e-6)


@pytest.mark.parametrize("steps", [100, 1000, 10_000])
def test_bounds_of_many_epsilons_are_those_of_each_to_the_last_bit(steps: int) -> None:
    placed, epsilons = line(steps), np.linspace(0.3, 0.8, 57)
    lower, upper = placed.bound_all(epsilons)
    alone = [placed.bounds(epsilon) for epsilon in epsilons.tolist()]
    assert lower.tolist() == [found.lower for found in alone]
    assert upper.tolist() == [found.upper for found in alone]


def test_bounds_of_runs_that_are_rows_are_those_of_each_to_the_last_bit() -> None:
    placed = line(1000)
    counts = [960, 1000, 1001, 1040]
    lines = [placed.recount(schedule_of(steps)) for steps in counts]
    rows, epsilons = ContourRows.of(lines), np.array([0.4, 0.5, 0.55, 0.6])
    some = np.array([0, 2, 3])
    lower, upper = rows.bound(some, epsilons[some])
    alone = [lines[row].bounds(epsilons[row]) for row in some.tolist()]
    assert lower.tolist() == [found.lower for found in alone]
    assert upper.tolist() == [found.upper for found in alone]
    with pytest.raises(EngineDeclines):
        ContourRows.of([placed, line(4000)])


@pytest.mark.parametrize("steps", [300, 10_000])
def test_many_epsilons_are_told_as_closely_as_one(steps: int) -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * steps
    epsilons = [3.0, 0.2, -0.5, 0.7, 0.2, *np.linspace(0, 4, 40)]
    found = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE).delta(epsilons)
    logs = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE).log_delta(epsilons)
    closely = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE, by=tr.Certified(accuracy=1e-6))
    for epsilon, delta, log_delta in zip(epsilons, found, logs, strict=True):
        narrow = closely.delta(epsilon)
        assert delta.lower <= narrow.upper
        assert narrow.lower <= delta.upper
        assert math.exp(log_delta.lower) <= narrow.upper * (1 + 1e-15)
        assert narrow.lower * (1 - 1e-15) <= math.exp(log_delta.upper)
        assert delta.relative_width <= 1e-3
        assert delta.gap is None
        assert delta.decided_by == narrow.decided_by


def test_epsilons_are_told_together_by_few_contours(monkeypatch: pytest.MonkeyPatch) -> None:
    placed, near = [], ContourEngine.near

    def watch(engine: ContourEngine, epsilon: float, tolerance: float, hint: Hint) -> ContourLine:
        placed.append(epsilon)
        return near(engine, epsilon, tolerance, hint)

    monkeypatch.setattr(ContourEngine, "near", watch)
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE).delta(np.linspace(0.1, 2.5, 500))
    assert len(placed) < 6


@pytest.mark.parametrize("steps", [100, 1000])
def test_terms_that_are_added_in_blocks_are_charged_for_it(steps: int) -> None:
    """As if every rounding in a block went the same way; the charge for rounding holds that and more."""
    placed = line(steps)
    size, angle, _, errors = placed._sums
    terms = size * np.cos(angle - placed.heights * 0.5)
    assert len(terms) > BLOCK
    added = math.fsum(np.add.reduceat(terms, placed.kernel.blocks).tolist())
    room = BLOCK * UNIT_ROUNDOFF * math.fsum(size.tolist())
    assert abs(added - math.fsum(terms.tolist())) <= room <= errors.rounding
