"""What keeps a quick answer about shuffled batches quick, and that it is certain all the same."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from tightrope.engines.choose import compose
from tightrope.engines.face import BELOW, EngineDeclines, Hint, LogBounds
from tightrope.engines.lattice.jumps import BigJumpEngine
from tightrope.engines.lines import estimate
from tightrope.engines.lines.estimate import MOST_CANCELLED, guess_curve
from tightrope.engines.lines.line import enclose_curve
from tightrope.engines.lines.plan import PassOrder, plan_line
from tightrope.engines.shuffles import counts
from tightrope.engines.shuffles.counts import CountsProblem
from tightrope.engines.shuffles.cuts import search_cut
from tightrope.engines.shuffles.walks import LATTICE_STEP, Walks, place_levels
from tightrope.engines.shuffles.worst_difference import WorstDifference
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.pairs.shuffled_epoch import ShuffledEpoch
from tightrope.theorems.shuffled import bound_epochs


def allocation(noise: Fraction, batches: int, *, is_rough: bool = False) -> Allocation:
    return Allocation(ShiftPair.of_normals(2 / noise), batches, batches, is_rough=is_rough)


@pytest.mark.parametrize("nearly", [-1.0, 10.0], ids=["checked anew", "raised"])
def test_boxes_that_are_not_checked_anew_keep_what_settled_them(
    nearly: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    atoms = WorstDifference(Fraction(1), Fraction(21, 20)).spread(1e-3)
    levels, count, spacing = (0.5, 1.0, 2.0), 40, LATTICE_STEP * 2
    walks = Walks(place_levels(atoms, levels, spacing), levels, spacing=spacing, count=count)
    problem, shares = CountsProblem(walks, 3.0, 0.05 + atoms.beyond), np.array([0.3, 0.5, 0.2])
    rows = np.array([k for k in product(range(count + 1), repeat=3) if sum(k) == count], dtype=float)
    values = problem._evaluate(rows)
    mean = np.linalg.lstsq(rows, values, rcond=None)[0]
    enough = mean * (values / (rows @ mean)).max() * 1.02
    # the first is too small where the highest level is taken, and the others where the lowest is
    told = iter([enough * (1, 1, 0.6), *[enough * (0.4, 1, 1)] * 30])
    monkeypatch.setattr(counts, "_solve", lambda *asked: next(told))
    monkeypatch.setattr(counts, "NEARLY", nearly)
    tried, check = [], CountsProblem._check

    def watch(*asked: Any) -> Any:
        tried.append(asked[1:3])
        return check(*asked)

    monkeypatch.setattr(CountsProblem, "_check", watch)
    found = problem.bound(shares, (1e-3,), 60_000)
    assert any(boxes is not problem._all_boxes for boxes, _ in tried[1:]) == (nearly > 0)
    if nearly < 0:
        assert found == math.inf
    else:
        assert found >= enough @ shares * count
        assert (rows @ tried[-1][1] * (1 + 2e-3) >= values).all()


def test_a_cut_that_fits_no_lattice_is_not_made_much_larger_than_needed() -> None:
    asked: list[float] = []

    def attempt(allowed: float) -> tuple[float, float]:
        if allowed < 1e-7:
            raise EngineDeclines("too long")
        asked.append(allowed)
        return 1e-5 + allowed, allowed

    found = search_cut(attempt, guess=1e-7, spare=1e-5, known=1.0, larger=2.0)
    assert found is not None
    assert 1e-7 <= found[1] <= 2e-7
    assert len(asked) == 1


def test_floats_tell_where_to_look_also_where_much_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    of, log_error = PassOrder(allocation(Fraction(1), 100_000), 1.0), math.log(4e-12)
    assert plan_line(of, log_error).cancelled > MOST_CANCELLED + 2
    assert plan_line(of, log_error, MOST_CANCELLED).cancelled <= MOST_CANCELLED
    low, high = enclose_curve(of, log_error)
    monkeypatch.setattr(estimate, "enclose_curve", None)  # balls would be asked here
    assert guess_curve(of, log_error) == pytest.approx((low + high) / 2, abs=1e-11)


def test_nobody_is_patient_at_a_place_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def near(*asked: object) -> None:
        pytest.fail("a slow engine is asked")

    monkeypatch.setattr(BigJumpEngine, "near", near)
    curve = compose(Schedule([(allocation(Fraction(17, 10), 100_000, is_rough=True), 10)]), BELOW)
    low, high = curve.epsilon_bounds(1e-6, 1e-3)
    assert 0.0608 < low < high < 0.06092


def test_a_place_is_wrong_only_if_bounds_are_certain_of_it() -> None:
    hint, bounds = Hint(wanted=-10.0), LogBounds
    assert hint.is_far(bounds(-30.0, -13.0))
    assert hint.is_far(bounds(-7.0, -1.0))
    assert hint.is_far(bounds(-math.inf, -13.0))
    assert not hint.is_far(bounds(-30.0, -9.0))
    assert not hint.is_far(bounds(-11.0, -1.0))
    assert not hint.is_far(bounds(-math.inf, 0.0))
    assert not Hint().is_far(bounds(-30.0, -13.0))


@pytest.mark.parametrize(("noise", "batches"), [(1.5, 20), (4.0, 50)])
def test_a_quick_lower_end_is_a_little_below_a_tight_one(noise: float, batches: int) -> None:
    lowers = []
    for is_rough in (True, False):
        pair = allocation(Fraction(noise), batches, is_rough=is_rough)
        lowers.append(compose(Schedule([(pair, 10)]), BELOW).epsilon_bounds(1e-6, 1e-3)[0])
    assert 0.999 * lowers[1] < lowers[0] < lowers[1]


@pytest.mark.parametrize("is_thorough", [False, True])
def test_what_an_epoch_reaches_is_told_roughly_unless_work_is_thorough(is_thorough: bool) -> None:
    epoch = ShuffledEpoch(separation=Fraction(1, 2), batches=50, released=50)
    reached = bound_epochs(epoch, 120, is_thorough=is_thorough).reached
    passes = [pair for pair, _ in reached if isinstance(pair, Allocation)]
    assert [(one.released, one.is_rough) for one in passes] == [(50, not is_thorough), (20, not is_thorough)]
