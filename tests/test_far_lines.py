"""Curves far out, by one large difference: theorems/proofs/line_integrals.md, number 8."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import acb, arb, ctx

import tightrope as tr
from far_orders import log_alone, order_of
from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines import far_plan
from tightrope.engines.lines.far import FarCurve, FarLines, SmallSums, enclose_far
from tightrope.engines.lines.far_plan import FarPlan, plan_far
from tightrope.engines.lines.line import enclose_curve
from tightrope.engines.lines.plan import PassOrder
from tightrope.engines.lines.quick import QuickLines
from tightrope.numerics.balls import ball
from tightrope.numerics.ulps import ndtr_rel_error
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.shift_pair import ShiftPair


@pytest.fixture(autouse=True)
def plans_anew() -> Iterator[None]:
    plan_far.cache_clear()
    yield
    plan_far.cache_clear()


@pytest.mark.parametrize(
    ("noise", "batches", "epsilon", "seen"),
    [
        (0.6, 10_000, 2.0, None),
        (0.8, 20_000, 0.4, None),
        (0.506, 18_638, 3.0, None),
        (0.5, 2000, 5.0, None),
        (0.5, 2000, 6.0, 1300),
        (0.7, 5000, 2.5, 4999),
    ],
)
def test_far_points_are_those_of_balls_and_narrow(
    noise: float, batches: int, epsilon: float, seen: int | None
) -> None:
    of = order_of(noise, batches, epsilon, seen)
    log_error = log_alone(of) - 9
    low, high = enclose_far(of, plan_far(of, log_error))
    least, most = enclose_curve(of, math.log(high) - 12)
    assert low <= most
    assert least <= high
    assert high - low <= 2 * math.exp(log_error)


def test_plans_for_other_epsilons_enclose_what_balls_do() -> None:
    """Where large differences begin, places end and aliases return is then anywhere."""
    rng = random.Random(7)
    told = 0
    for _ in range(60):
        noise, batches = round(rng.uniform(0.4, 1.2), 2), round(math.exp(rng.uniform(4, 8)))
        seen = batches if rng.random() < 0.6 else rng.randrange(2, batches)
        a, z = 1 / noise, rng.uniform(3.5, 8)
        of = order_of(noise, batches, max(a * z - a * a / 2 - math.log(batches), rng.uniform(0.05, 2)), seen)
        other = order_of(noise, batches, of.epsilon * math.exp(rng.gauss(0, 0.5)), seen)
        try:
            low, high = enclose_far(other, plan_far(of, log_alone(of) - rng.uniform(1, 9)))
            least, most = enclose_curve(other, math.log(high) - 8)
        except EngineDeclines:
            continue
        assert low <= most, other
        assert least <= high, other
        told += low > 0
    assert told > 15


def sums_of(curve: FarCurve) -> SmallSums:
    return SmallSums(curve.path, curve.n - 1, curve.x_lattices)


def begin_at(monkeypatch: pytest.MonkeyPatch, start: float) -> None:
    """Large differences begin there, however many of them there are."""
    monkeypatch.setattr(far_plan._FarPlanner, "_find_start", lambda self: start)


def coarser(plan: FarPlan, **changed: Callable[[Any], Any]) -> FarPlan:
    return replace(plan, line=replace(plan.line, **{k: f(getattr(plan.line, k)) for k, f in changed.items()}))


@pytest.mark.parametrize(
    ("noise", "batches", "epsilon", "start", "dropped"),
    [
        (0.56, 380, 2.55, 4.125, "_bound_second"),
        (0.48, 313, 2.73, 3.6875, "_bound_second"),
        (0.76, 24, 0.86, 4.0, "_bound_calm"),
        (0.52, 64, 1.02, 3.15625, "_bound_calm"),
    ],
)
def test_sums_with_other_large_differences_or_with_none_are_charged(
    monkeypatch: pytest.MonkeyPatch, noise: float, batches: int, epsilon: float, start: float, dropped: str
) -> None:
    of = order_of(noise, batches, epsilon)
    begin_at(monkeypatch, start)
    plan = plan_far(of, log_alone(of) - 4)
    low, high = enclose_far(of, plan)
    least, _ = enclose_curve(of, math.log(high) - 10)
    assert low <= least <= high
    monkeypatch.setattr(FarCurve, dropped, lambda self, mass: arb(0))
    assert enclose_far(of, plan)[1] < least


@pytest.mark.parametrize(
    ("noise", "batches", "epsilon", "share", "dropped", "nothing"),
    [
        (0.66, 524, 0.72, 0.03, "_bound_left", lambda self: 0.0),
        (0.52, 60, 2.48, 0.03, "_bound_left", lambda self: 0.0),
        (0.66, 524, 0.72, 0.03, "_bound_right", lambda self, missing: 0.0),
        (0.52, 60, 2.48, 0.03, "_bound_right", lambda self, missing: 0.0),
    ],
)
def test_what_lies_periods_away_is_charged(
    monkeypatch: pytest.MonkeyPatch,
    noise: float,
    batches: int,
    epsilon: float,
    share: float,
    dropped: str,
    nothing: Callable[..., float],
) -> None:
    of = order_of(noise, batches, epsilon)
    plan = coarser(plan_far(of, log_alone(of) - 4), period=lambda period: share * period)
    low, high = enclose_far(of, plan)
    _, most = enclose_curve(of, math.log(high) - 10)
    assert low <= most <= high
    monkeypatch.setattr(SmallSums, dropped, nothing)
    assert enclose_far(of, plan)[0] > most


def test_nodes_beyond_the_last_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    of = order_of(0.66, 524, 0.72)
    plan = coarser(plan_far(of, log_alone(of) - 4), nodes=lambda nodes: 10)
    low, high = enclose_far(of, plan)
    least, most = enclose_curve(of, -20.0)
    assert low <= least <= most <= high
    monkeypatch.setattr(SmallSums, "_charge", lambda self, *known: 0.0)
    low, high = enclose_far(of, plan)
    assert high < least or low > most


@pytest.fixture
def curve() -> Iterator[FarCurve]:
    of = order_of(0.6, 3000, 2.0)
    with ctx.workprec(200):
        yield FarCurve(of, plan_far(of, log_alone(of) - 8))


def test_from_above_other_differences_count_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a sum has all its mass, and is above its mean; those that are kept only have less."""
    of = order_of(0.6, 3000, 2.0)
    begin_at(monkeypatch, 4.0)
    with ctx.workprec(200):
        curve = FarCurve(of, plan_far(of, log_alone(of) - 8))
        line, a = curve.plan.line, curve.a
        z = np.linspace(line.left, line.right, 200_001)
        differences = np.exp(a * z - a * a / 2) - curve.t * np.exp(-a * z - a * a / 2)
        mean = (
            (curve.n - 1) * float(np.trapezoid(np.exp(-z * z / 2) * differences, z)) / math.sqrt(2 * math.pi)
        )
        beyond = (ball(line.right) / arb(2).sqrt()).erfc() / 2
        small = sums_of(curve)
        assert (small.enclose(beyond)[1][-50:] >= small.x[-50:] + mean).all()
        assert (small.enclose(arb(0))[1][-50:] < small.x[-50:] + mean).all()


def test_sums_over_nodes_in_floats_are_off_by_no_more_than_is_charged(curve: FarCurve) -> None:
    small = sums_of(curve)
    values = curve.path.values
    top, sums, charge = small._sum_nodes(values)
    tilt, period = arb(curve.plan.line.tilt), arb(curve.plan.line.period)
    worst = 0.0
    for i in (0, 1, 17, len(sums) // 2, len(sums) - 1):
        exact = arb(0)
        for m, value in enumerate(values.tolist()):
            s = acb(tilt, 2 * arb.pi() * m / period)
            x = arb(float(small.x[i]))
            term = acb(value) ** small.n * (acb(0, 1) * s.imag * x).exp() / (s * s)
            exact += term.real * (2 if m else 1)
        exact = exact * (-arb(top)).exp() / period
        worst = max(worst, float(abs(exact - arb(float(sums[i])))) / charge)
    assert 1e-5 < worst < 1


def test_masses_of_large_differences_are_off_by_no_more_than_is_charged(curve: FarCurve) -> None:
    cells = curve._list_cells()
    mass, off, excess, off_excess = (
        cells.mass,
        cells.mass_abs_error,
        cells.excess,
        cells.excess_abs_error,
    )
    a, t = ball(curve.of.separation), curve.of.order

    def tail(z: arb) -> arb:
        return (z / arb(2).sqrt()).erfc() / 2

    def find_z(place: arb) -> arb:
        root = (place * place + 4 * t * (-a * a).exp()).sqrt()
        return ((place + root) / 2).log() / a + a / 2

    # cells of z end where floats say: the exact masses between exact places differ by what is charged there
    for i in (1, 5, len(mass) // 2, len(mass) - 2):
        low, high = (find_z(arb(float(each))) for each in curve.places[i : i + 2])
        exact = tail(low) - tail(high)
        density = (-low * low / 2).exp() / (2 * arb.pi()).sqrt()
        slope = a * (curve.places[i] ** 2 + 4 * t * (-a * a).exp()).sqrt()
        moved = 2 * density * arb(float(cells.place_abs_error[i])) / slope
        assert abs(exact - arb(float(mass[i]))) <= arb(float(off[i])) + moved
        found = tail(low - a) - tail(high - a) - t * (tail(low + a) - tail(high + a))
        found -= arb(float(curve.places[i])) * exact
        assert abs(found - arb(float(excess[i]))) <= arb(float(off_excess[i])) + moved * float(cells.steps[i])
    assert float(ndtr_rel_error(np.array(-8.0))) * float(mass.sum()) < float(off.sum())


def test_a_curve_that_large_differences_do_not_tell_is_declined() -> None:
    for of in (order_of(2.0, 100, 0.1), order_of(0.5, 60_000, 0.0), order_of(0.5, 1, 3.0)):
        with pytest.raises(EngineDeclines):
            plan_far(of, -20.0)
    one_way = PassOrder(Allocation(ShiftPair.of_normals(Fraction(1)), 10, 10), 3.0)
    with pytest.raises(EngineDeclines):
        plan_far(one_way, -20.0)


def test_points_side_by_side_share_a_plan() -> None:
    lines = FarLines()
    of = order_of(0.6, 3000, 3.0)
    lines.enclose(of, log_alone(of) - 8)
    first = lines.plan
    near = order_of(0.6, 3000, 3.005)
    low, high = lines.enclose(near, log_alone(near) - 8)
    assert lines.plan is first
    least, most = enclose_curve(near, math.log(high) - 12)
    assert low <= most
    assert least <= high


def test_whichever_tells_a_point_tells_the_next() -> None:
    """Near the middle a line for all of the sum, far out large differences."""
    lines = QuickLines()
    for epsilon in (0.02, 0.03, 2.5, 2.6, 0.02):
        of = order_of(0.6, 3000, epsilon)
        least, most = enclose_curve(of, -40.0 if epsilon > 1 else -18.0)
        low, high = lines.enclose(of, math.log(most) - 9)
        assert low <= most
        assert least <= high


@pytest.mark.parametrize(
    ("noise", "batches", "epochs", "delta"), [(0.506, 18_638, 8, 2.2e-9), (0.7, 100_000, 8, 1e-6)]
)
def test_few_epochs_of_many_batches_are_narrow(noise: float, batches: int, epochs: int, delta: float) -> None:
    """They were up to .14 wide where what lies far out was not told."""
    step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.BallsInBins(batches=batches))
    found = tr.epsilon(step * (batches * epochs), delta=delta, relation=tr.SUBSTITUTE)
    assert found.upper - found.lower < 1e-3
