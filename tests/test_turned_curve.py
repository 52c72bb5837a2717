"""The curve of a pass with little noise at many points: theorems/proofs/turned_curve.md."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from tightrope.engines.passes.line import enclose_curve
from tightrope.engines.passes.line_plan import PassOrder
from tightrope.engines.transforms.exchanged import turns
from tightrope.engines.transforms.exchanged_moments import ExchangedTable, plan_pair_lattice
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.engines.transforms.turned_curve import TurnedCurve, TurnedPlan, plan_curve
from tightrope.engines.transforms.turned_moments import TurnedTable, plan_turned
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


def test_moments_agree_with_those_of_ratios() -> None:
    law, tilt = law_of(0.5, 300), 0.75
    table = TurnedTable(law, plan_turned(law, (tilt, tilt), 2.0, -12.0))
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


@pytest.mark.parametrize(
    ("noise", "batches", "is_turned"), [(0.3, 10, False), (0.3, 1000, True), (0.6, 1000, False)]
)
def test_few_batches_and_more_noise_are_told_by_moments_of_ratios(
    noise: float, batches: int, is_turned: bool
) -> None:
    """A table of ten batches takes five seconds, and their curve took a minute, in vain."""
    step = ShiftPair.of_normals(1 / Fraction(noise))
    assert turns(Allocation(step, batches, batches, is_exchanged=True)) == is_turned
