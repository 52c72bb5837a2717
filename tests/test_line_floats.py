"""Line integrals in floats, and what is planned by them: theorems/proofs/line_integrals.md, number 7."""

import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

import tightrope as tr
from tightrope.engines.lines.floats import FLOAT_CANCELLED, FloatLine, enclose_in_floats
from tightrope.engines.lines.line import PassLine, enclose_curve
from tightrope.engines.lines.plan import LinePlan, PassOrder, plan_line
from tightrope.engines.saddle import explodes_early
from tightrope.engines.transforms.curve_moments import CurveTable, bound_log_curve, plan_moments
from tightrope.engines.transforms.curve_sketch import sketch_curve
from tightrope.engines.transforms.exchanged_moments import ExchangedTable, plan_pair_lattice
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.shift_pair import ShiftPair


def order_of(noise: float, batches: int, epsilon: float, seen: int | None = None) -> PassOrder:
    step = ShiftPair.of_normals(1 / Fraction(noise))
    return PassOrder(Allocation(step, batches, seen or batches, is_exchanged=True), epsilon)


def plan_of(of: PassOrder, log_error: float) -> LinePlan:
    return plan_line(of, log_error, FLOAT_CANCELLED)


def law_of(noise: float, batches: int) -> PairLaw:
    return PairLaw(1 / Fraction(noise), batches, batches)


def test_floats_and_balls_enclose_the_same_curves() -> None:
    rng = random.Random(5)
    told = 0
    for _ in range(16):
        noise = math.exp(rng.uniform(math.log(0.6), math.log(6)))
        batches = round(math.exp(rng.uniform(math.log(3), math.log(50_000))))
        of = order_of(noise, batches, rng.uniform(0, 4) * math.sqrt(math.expm1(1 / noise**2) / batches))
        low, high = enclose_in_floats(of, plan_of(of, -20.0))
        least, most = enclose_curve(of, -23.0)
        assert low <= most
        assert least <= high
        told += high - low <= 4 * math.exp(-20.0)
    assert told > 13


def test_floats_and_balls_enclose_the_same_curves_of_passes_that_were_only_begun() -> None:
    """A plan is for an epsilon nearby, with another threshold; an order may be a fraction."""
    rng = random.Random(6)
    told = 0
    for _ in range(16):
        noise = math.exp(rng.uniform(math.log(0.6), math.log(6)))
        batches = round(math.exp(rng.uniform(math.log(3), math.log(50_000))))
        seen = rng.randint(1, batches - 1)
        scale = math.sqrt(math.expm1(1 / noise**2) * seen) / batches
        of = order_of(noise, batches, rng.uniform(0, 3) * scale, seen)
        plan = plan_of(order_of(noise, batches, of.epsilon * rng.uniform(0.98, 1.02), seen), -20.0)
        if rng.random() < 0.5:
            of = replace(of, exact_order=Fraction(math.exp(of.epsilon)))
        low, high = enclose_in_floats(of, plan)
        least, most = enclose_curve(of, -23.0)
        assert low <= most
        assert least <= high
        told += high - low <= 8 * math.exp(-20.0)
    assert told > 12


@pytest.mark.parametrize(
    ("noise", "batches", "epsilon"), [(1.0, 300, 0.2), (0.5, 5000, 1.0), (3.0, 10, 0.5), (0.8, 50_000, 0.01)]
)
def test_transforms_in_floats_are_off_by_no_more_than_is_charged(
    noise: float, batches: int, epsilon: float
) -> None:
    """Balls on the same path tell by how much: a few hundredths of what worst roundings could add up to."""
    of = order_of(noise, batches, epsilon)
    plan = plan_of(of, -18.0)
    with ctx.workprec(160):
        exact = np.array([complex(each.mid()) for each in PassLine(of, plan).path.transforms])
        path = FloatLine(of, plan).path
        off = float(np.abs(path.values - exact).max())
        # the exact ones are rounded to floats themselves
        assert off - 2e-16 <= path.rounding < 1e-12
        assert off > 1e-3 * path.rounding


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_bounds_of_a_path_in_floats_are_hardly_larger_than_those_in_balls(epsilon: float) -> None:
    of = order_of(0.9, 700, epsilon)
    plan = plan_of(of, -18.0)
    with ctx.workprec(160):
        balls, floats = PassLine(of, plan).path, FloatLine(of, plan).path
        for tilt in (plan.tilt, plan.call_tilt, -plan.put_tilt):
            least = float(balls.abs_error(arb(tilt)).lower())
            assert least <= floats._bound_panels(tilt) <= (1 + 1e-6) * least
            assert floats.bound_moment(arb(tilt)) >= balls.bound_moment(arb(tilt)).mid() - floats.rounding
        assert floats.most_beyond >= balls.most_beyond.lower()
        assert floats.most_beyond <= balls.most_beyond.upper() + 2 * floats.rounding + arb(2e-8)


def test_a_plan_serves_epsilons_beside_its_own() -> None:
    plan = plan_of(order_of(1.0, 300, 0.2), -19.0)
    for epsilon in (0.17, 0.23):
        of = order_of(1.0, 300, epsilon)
        low, high = enclose_in_floats(of, plan)
        least, most = enclose_curve(of, -22.0)
        assert low <= most <= high + math.exp(-21)
        assert least - math.exp(-21) <= low + (high - low)
        assert low <= least + math.exp(-21)


def test_an_order_that_is_a_float_is_taken_as_it_is() -> None:
    order = Fraction(math.exp(0.3))
    of = order_of(1.2, 90, 0.3)
    exact = PassOrder(of.allocation, 0.3, order)
    low, high = enclose_in_floats(exact, plan_of(of, -24.0))
    least, most = enclose_curve(exact, -27.0)
    assert low <= most <= high
    assert low <= least <= high


def test_chernoff_is_above_the_curve() -> None:
    law = law_of(1.0, 300)
    for epsilon in (0.0, 0.3, 0.9):
        low, _ = enclose_in_floats(of := order_of(1.0, 300, epsilon), plan_of(of, -25.0))
        assert math.log(low) <= bound_log_curve(law, epsilon) <= 0
    assert bound_log_curve(law, 6.0) < -40


@pytest.mark.parametrize(("noise", "batches", "tilt"), [(1.0, 100, 2.5), (2.0, 30, 0.9)])
def test_a_sketch_tells_moments_about(noise: float, batches: int, tilt: float) -> None:
    law, power = law_of(noise, batches), math.ceil(tilt) + 4
    table = ExchangedTable(law, power, plan_pair_lattice(law, power, (tilt, tilt), 0.0, -9.0))
    with ctx.workprec(table.bits):
        exact = float(table.moments(arb(tilt), [arb(0)])[0].real.log().mid())
    found = sketch_curve(law).cumulants(tilt)
    assert found[0] == pytest.approx(exact, rel=2e-3)
    step = 1e-3
    low, middle, high = (sketch_curve(law).cumulants(tilt + i * step)[0] for i in (-1, 0, 1))
    assert found[1] == pytest.approx((high - low) / (2 * step), rel=1e-5)
    assert found[2] == pytest.approx((high - 2 * middle + low) / step**2, rel=1e-3)


@pytest.mark.parametrize(
    ("noise", "batches", "passes", "delta", "expected"),
    [(1.54, 2622, 4, 1.3e-12, True), (1.08, 329, 10, 8.4e-7, False), (4.83, 5887, 476, 1.8e-9, False)],
)
def test_few_passes_of_many_batches_explode_before_they_tell_a_small_delta(
    noise: float, batches: int, passes: int, delta: float, expected: bool
) -> None:
    def cumulants(c: float) -> tuple[float, float, float]:
        one = sketch_curve(law_of(noise, batches)).cumulants(c)
        return passes * one[0], passes * one[1], passes * one[2]

    assert explodes_early(cumulants, math.log(delta)) == expected


def test_moments_by_floats_agree_with_those_of_ratios() -> None:
    law, tilts = law_of(1.3, 60), (2.0, 2.5)
    table = CurveTable(law, plan_moments(law, tilts, 3.0, -15.0))
    other = ExchangedTable(law, 7, plan_pair_lattice(law, 7, tilts, 3.0, -15.0))
    with ctx.workprec(max(table.bits, other.bits)):
        for tilt in tilts:
            found, expected = (each.moments(arb(tilt), [arb(0), arb(1.5), arb(3)]) for each in (table, other))
            assert all(one.overlaps(two) for one, two in zip(found, expected, strict=True))
            assert all(float(one.real.rad()) < 1e-5 * float(found[0].real.mid()) for one in found)


@pytest.mark.parametrize(
    ("noise", "batches", "epochs", "delta", "least", "most"),
    [(1.08, 329, 10, 8.4e-7, 1.504743, 1.504765), (4.83, 5887, 476, 1.8e-9, 0.622269, 0.622277)],
)
def test_runs_that_took_long_are_told_as_before(
    noise: float, batches: int, epochs: int, delta: float, least: float, most: float
) -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.BallsInBins(batches=batches))
    found = tr.epsilon(step * (batches * epochs), delta=delta, relation=tr.SUBSTITUTE)
    assert least <= found.lower <= found.upper <= most
