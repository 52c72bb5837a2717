"""The curve of a pass with little noise at many points: theorems/proofs/turned_curve.md."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import arb, ctx

import tightrope as tr
from tightrope.engines.lines.line import enclose_curve
from tightrope.engines.lines.plan import PassOrder
from tightrope.engines.transforms.curve_moments import (
    S_CELLS,
    S_CELLS_GROW,
    CurveTable,
    _bound_inverse,
    plan_moments,
)
from tightrope.engines.transforms.exchanged import has_curve
from tightrope.engines.transforms.exchanged_moments import ExchangedTable, plan_pair_lattice
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.engines.transforms.turned_curve import TurnedCurve, TurnedPlan, plan_curve
from tightrope.engines.transforms.turned_strip import bound_laplace
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.shift_pair import ShiftPair


def law_of(noise: float, batches: int) -> PairLaw:
    return PairLaw(1 / Fraction(noise), batches, batches)


def plan_of(noise: float, batches: int, spacing: float, count: int, log_error: float) -> TurnedPlan:
    return plan_curve(law_of(noise, batches), spacing, (log_error,) * (count + 1))


@pytest.mark.parametrize(("noise", "batches", "order"), [(0.5, 300, 0), (0.5, 300, 3), (0.45, 50, 2)])
def test_line_integrals_agree(noise: float, batches: int, order: int) -> None:
    step = ShiftPair.of_normals(1 / Fraction(noise))
    of = PassOrder(Allocation(step, batches, batches, is_exchanged=True), 0.5 * order)
    low, high = enclose_curve(of, math.log(1e-9))
    found = TurnedCurve(law_of(noise, batches), plan_of(noise, batches, 0.5, 3, -20.0)).values[order]
    assert found.overlaps(arb((low + high) / 2, (high - low) / 2))
    assert found.rad() < 1e-8


def test_two_batches_by_quadrature() -> None:
    """E(S)_+ over two normals on a fine grid, whose own error is far below the ball."""
    a, t = 2.0, math.exp(0.5)
    z = np.linspace(-9, 9 + 2 * a, 3001)
    mass = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    difference = np.exp(a * z - a * a / 2) - t * np.exp(-a * z - a * a / 2)
    total = np.maximum(np.add.outer(difference, difference), 0.0)
    brute = float(mass @ total @ mass) / 2
    found = TurnedCurve(law_of(0.5, 2), plan_of(0.5, 2, 0.5, 1, -18.0)).values[1]
    assert abs(float(found.mid()) - brute) <= float(found.rad()) + 3e-6
    assert found.rad() < 1e-6


@pytest.mark.parametrize("coarse", [1, 3])
def test_coarser_rules_still_hold_the_curve(coarse: int) -> None:
    """A step of x several times too wide: what the rule misses is seen, and charged."""
    plan = plan_of(0.5, 300, 0.25, 2, -16.0)
    fine = TurnedCurve(law_of(0.5, 300), plan).values
    wide = TurnedCurve(law_of(0.5, 300), replace(plan, coarser=plan.coarser * (1 + coarse))).values
    assert all(one.overlaps(other) for one, other in zip(fine, wide, strict=True))
    assert coarse == 1 or max(float(value.rad()) for value in wide) > 100 * float(fine[0].rad())


def test_what_lies_before_the_first_point_is_told_by_a_square() -> None:
    """Rules that begin early and late agree, and without the square the late ones would be far off."""
    law, plan = law_of(0.5, 300), plan_of(0.5, 300, 0.5, 3, -12.0)
    early = replace(plan, log_errors=(-24.0,) * 4)
    late, exact = TurnedCurve(law, plan), TurnedCurve(law, early)
    for i, (one, other) in enumerate(zip(late.values, exact.values, strict=True)):
        assert one.overlaps(other)
        with ctx.workprec(80):
            assert late._sum_low(i) * plan.step / (math.pi * 300) > 3 * one.rad()


def test_moments_agree_with_those_of_ratios() -> None:
    law, tilt = law_of(0.5, 300), 0.75
    table = CurveTable(law, plan_moments(law, (tilt, tilt), 2.0, -12.0))
    other = ExchangedTable(law, 5, plan_pair_lattice(law, 5, (tilt, tilt), 2.0, -12.0))
    heights = [arb(0), arb(1), arb(2)]
    with ctx.workprec(max(table.bits, other.bits)):
        found, expected = (each.moments(arb(tilt), heights) for each in (table, other))
        assert all(one.overlaps(two) for one, two in zip(found, expected, strict=True))
        assert all(float(one.real.rad()) < 1e-3 * float(found[0].real.mid()) for one in found)


def test_laplace_is_bounded_from_above() -> None:
    z = np.linspace(-9, 9, 20001)
    for rate in (1e-4, 1e-2, 1.0):
        exact = np.exp(-z * z / 2 - rate * np.exp(2 * z)).sum() * (z[1] - z[0]) / math.sqrt(2 * math.pi)
        assert exact <= bound_laplace(law_of(0.5, 10), rate) <= exact + 0.1 * (1 - exact) + 0.01 * exact


@pytest.mark.parametrize(("seen", "chosen", "expected"), [(10, 1, True), (9, 1, False), (10, 2, False)])
def test_curves_at_many_points_are_those_of_whole_passes(seen: int, chosen: int, expected: bool) -> None:
    step = ShiftPair.of_normals(1 / Fraction(0.3))
    assert has_curve(Allocation(step, 10, seen, is_exchanged=True, chosen=chosen)) == expected


def test_few_batches_by_quadrature() -> None:
    """Three batches, far out: floats do not do for products of two small numbers, balls do."""
    a, t = 2.0, math.exp(4.0)
    z = np.linspace(-7, 7 + 2 * a, 361)
    mass = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    difference = np.exp(a * z - a * a / 2) - t * np.exp(-a * z - a * a / 2)
    two = np.add.outer(difference, difference)
    brute = sum(
        m * float(mass @ np.maximum(two + d, 0.0) @ mass) for m, d in zip(mass, difference, strict=True)
    )
    found = TurnedCurve(law_of(0.5, 3), plan_of(0.5, 3, 1.0, 4, -26.0)).values[4]
    assert abs(float(found.mid()) - brute / 3) <= 2e-4 * brute
    assert float(found.rad()) < 1e-11


@pytest.mark.parametrize(("noise", "batches", "tilt"), [(0.5, 4, 0.75), (1.0, 20, 2.5), (2.0, 30, 4.0)])
def test_moments_of_few_batches_and_of_more_noise_agree_with_those_of_ratios(
    noise: float, batches: int, tilt: float
) -> None:
    """By turned normals and by line integrals."""
    law, power = law_of(noise, batches), math.ceil(tilt) + 4
    table = CurveTable(law, plan_moments(law, (tilt, tilt), 2.0, -14.0))
    other = ExchangedTable(law, power, plan_pair_lattice(law, power, (tilt, tilt), 2.0, -14.0))
    heights = [arb(0), arb(1), arb(2)]
    with ctx.workprec(max(table.bits, other.bits)):
        found, expected = (each.moments(arb(tilt), heights) for each in (table, other))
        assert all(one.overlaps(two) for one, two in zip(found, expected, strict=True))
        for each in (found, expected):
            assert all(float(one.real.rad()) < 1e-4 * float(each[0].real.mid()) for one in each)


def test_moments_of_large_powers_of_few_batches_are_told() -> None:
    """What first columns and large s miss was charged as if neither decayed: the ball held everything."""
    law = law_of(1.0, 3)
    table = ExchangedTable(law, 17, plan_pair_lattice(law, 17, (8.0, 10.1), 0.0, -9.0))
    with ctx.workprec(table.bits):
        found = table.moments(arb(8.9), [arb(0)])[0].real
        assert float(found.rad()) < 1e-4 * float(found.mid())


@pytest.mark.parametrize(
    ("noise", "batches", "epochs", "delta", "least", "most"),
    [
        (0.4, 3, 300, 1e-13, 1843.36, 1843.37),
        (0.4, 12, 300, 0.05, 766.02, 766.03),
        (1.0, 3, 2, 1e-13, 13.1285, 13.1286),
        (2.05, 4, 2, 7.6e-13, 4.88949, 4.88950),
        (5.0, 8000, 300, 1e-13, 0.52353, 0.52355),
    ],
)
def test_runs_that_were_wide_or_did_not_end_are_told(
    noise: float, batches: int, epochs: int, delta: float, least: float, most: float
) -> None:
    """They were [1434, 4386], [566, 777], [12.9, 13.3], [4.84, 4.91], and not told in two minutes."""
    step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.BallsInBins(batches=batches))
    found = tr.epsilon(step * (batches * epochs), delta=delta, relation=tr.SUBSTITUTE)
    assert least <= found.lower <= found.upper <= most


def test_a_bound_on_negative_powers_keeps_what_floats_call_nothing() -> None:
    """Powers below the smallest float were left out, though times a power of s they decide it: by e^29."""
    law, power = PairLaw(Fraction(2), 602, 602), 300
    rate, count = math.exp(-2) / law.batches, law.batches - power - 1
    with ctx.workprec(128):
        ends = [arb(S_CELLS_GROW) ** i for i in range(S_CELLS + 1)]
        total = sum(
            arb(bound_laplace(law, rate * float(start) * (1 - 1e-12))) ** count * (end**power - start**power)
            for start, end in pairwise(ends)
        )
        assert _bound_inverse(law, power) > total / math.factorial(power)
