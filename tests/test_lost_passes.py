"""Curves of passes whose bounds lose their way: another engine is asked, or the answer is a refusal."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NoReturn

import pytest

import tightrope as tr
from tightrope.engines.choose import compose
from tightrope.engines.composition import Composition
from tightrope.engines.face import ABOVE, BELOW, ComposedCurve, EngineDeclines, LogBounds, Side
from tightrope.engines.passes import exchanged_curve, exchanged_pair, line_pass
from tightrope.engines.passes.exchanged_curve import OneExchangedPass
from tightrope.engines.passes.exchanged_pair import _continue_dots
from tightrope.engines.passes.line_pass import LinePass
from tightrope.engines.passes.several_curve import SeveralPasses
from tightrope.engines.passes.walked import walk_divergence
from tightrope.errors import NotPreciseEnough, StopWork
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

LOSSES = [ArithmeticError("nan"), ValueError("nan"), OverflowError("inf"), EngineDeclines("no")]


def pass_of(noise: float, batches: int) -> Allocation:
    step = ShiftPair.of_normals(1 / Fraction(noise))
    return Allocation(step, batches, batches, is_exchanged=True)


def lose(reason: Exception) -> Callable[..., NoReturn]:
    def raise_it(*_: object) -> NoReturn:
        raise reason

    return raise_it


class Others:
    """A curve that knows one answer."""

    log_infinite_mass = -math.inf, -math.inf

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        return LogBounds(-2.0, -1.0)

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        return 1.0, 2.0


def test_a_walk_so_far_out_that_balls_hold_no_number_tells_nothing() -> None:
    """One like it ended epsilon(1e-300) of 2845 batches with a bare error of arithmetic."""
    with pytest.raises(ArithmeticError, match="not a number"):
        walk_divergence(pass_of(2.069, 2845), Fraction(1e290))


@pytest.mark.parametrize("reason", LOSSES)
def test_rough_labels_place_a_search_where_a_walk_loses_its_way(
    monkeypatch: pytest.MonkeyPatch, reason: Exception
) -> None:
    monkeypatch.setattr(exchanged_curve, "walk_divergence", lose(reason))
    about, slope = OneExchangedPass(pass_of(2.0, 4), ABOVE, compose)._search_roughly(1e-3, 0.1)
    assert 0.1 < about < 5
    assert slope < -1


@pytest.mark.parametrize("reason", LOSSES)
def test_the_last_engine_of_a_pass_refuses(monkeypatch: pytest.MonkeyPatch, reason: Exception) -> None:
    for name in ("bound_divergence", "merge_labels", "walk_divergence"):
        monkeypatch.setattr(exchanged_curve, name, lose(reason))
    for side in (ABOVE, BELOW):
        curve = OneExchangedPass(pass_of(2.0, 4), side, compose)
        with pytest.raises(NotPreciseEnough, match=r"epsilon=0\.5 could not be certified"):
            curve.log_bounds(0.5, 1e-2)
        with pytest.raises(NotPreciseEnough, match=r"delta=0\.001 could not be certified"):
            curve.epsilon_bounds(1e-3, 1e-2)


def test_work_that_is_stopped_stays_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanged_curve, "bound_divergence", lose(StopWork("enough")))
    with pytest.raises(StopWork, match="enough"):
        OneExchangedPass(pass_of(2.0, 4), ABOVE, compose).log_bounds(0.5, 1e-2)


@pytest.mark.parametrize("reason", LOSSES)
def test_others_are_asked_where_lines_and_contours_lose_their_way(
    monkeypatch: pytest.MonkeyPatch, reason: Exception
) -> None:
    single = pass_of(2.0, 4)
    for name in ("_enclose", "_cross"):
        monkeypatch.setattr(line_pass, name, lose(reason))
    monkeypatch.setattr(Composition, "log_bounds", lose(reason))
    monkeypatch.setattr(Composition, "epsilon_bounds", lose(reason))
    curves: list[ComposedCurve] = [
        LinePass(single, Others),
        SeveralPasses(Schedule([(single, 2)]), ABOVE, Others),
    ]
    for curve in curves:
        assert curve.log_bounds(0.5, 1e-2) == LogBounds(-2.0, -1.0)
        assert curve.epsilon_bounds(1e-3, 1e-2) == (1.0, 2.0)


@pytest.mark.parametrize("reason", LOSSES)
def test_dots_end_where_bounds_lose_their_way(monkeypatch: pytest.MonkeyPatch, reason: Exception) -> None:
    bounds = iter([0.3, 0.2])

    def bound(*_: object) -> float:
        found = next(bounds, None)
        if found is None:
            raise reason
        return found

    monkeypatch.setattr(exchanged_pair, "_bound", bound)
    dots = _continue_dots(pass_of(2.0, 4), [])
    assert [value for _, value in dots] == [Fraction(0.3), Fraction(0.2)]
    with pytest.raises(type(reason)):
        _continue_dots(pass_of(2.0, 4), [])


class Coarse(Others):
    """A contour that tells nothing more closely than to a thousandth."""

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        if accuracy < 1e-3:
            raise NotPreciseEnough("no", "no")
        return LogBounds(-1.6, -1.5)

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        if accuracy < 1e-3:
            raise NotPreciseEnough("no", "no")
        return 1.5, 1.6


@pytest.mark.parametrize("side", [ABOVE, BELOW])
def test_more_accuracy_never_widens_what_a_contour_tells_of_passes(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the end on their side is one of finite pairs: their other end may even lie beyond the truth."""
    monkeypatch.setattr(SeveralPasses, "_explodes_early", lambda *_: False)
    curve = SeveralPasses(Schedule([(pass_of(2.0, 4), 2)]), side, Others)
    curve.__dict__["_own"] = Coarse()
    for accuracy in (1e-2, 1e-4):
        found = curve.log_bounds(0.5, accuracy)
        assert (found.lower, found.upper) == (-1.6, -1.5)
        assert curve.epsilon_bounds(1e-3, accuracy) == (1.5, 1.6)
    monkeypatch.setattr(Others, "log_bounds", lambda *_: LogBounds(-1.59, -1.51))
    monkeypatch.setattr(Others, "epsilon_bounds", lambda *_: (1.51, 1.59))
    found = curve.log_bounds(0.5, 1e-4)
    assert (found.lower, found.upper) == ((-1.6, -1.51) if side is ABOVE else (-1.59, -1.5))
    assert curve.epsilon_bounds(1e-3, 1e-4) == ((1.5, 1.59) if side is ABOVE else (1.51, 1.6))


def test_delta_and_epsilon_of_passes_whose_moments_explode_ask_no_contour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SeveralPasses, "_own", property(lambda _: pytest.fail("a contour was asked")))
    run = tr.Step(tr.Gaussian(noise_multiplier=1.54), tr.BallsInBins(batches=2622)) * (4 * 2622)
    epsilon = tr.epsilon(run, delta=1.3e-12, relation=tr.SUBSTITUTE)
    delta = tr.delta(run, epsilon=epsilon.lower, relation=tr.SUBSTITUTE)
    assert delta.lower <= 1.3e-12 * (1 + 1e-3)
    assert delta.upper >= 1.3e-12
