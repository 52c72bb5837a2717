"""Passes with an exchanged record as walks on one lattice: never below the exact chain, and close to it."""

import math
from fractions import Fraction

import pytest

from tightrope.engines.face import ABOVE, BELOW
from tightrope.engines.passes.exchanged import Difference, bound_divergence
from tightrope.engines.passes.walked import spread_difference, walk_divergence
from tightrope.numerics.balls import ceil_float, floor_float
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.shift_pair import ShiftPair

FINE = 64


@pytest.mark.parametrize(
    ("noise", "batches", "released", "epsilon"),
    [
        (1.0, 100, 100, 1.0),
        (1.0, 40, 40, 0.0),
        (2.0, 30, 12, 0.3),
        (4.0, 1000, 1000, 0.05),
        (1.0, 2, 2, 2.0),
    ],
)
def test_a_walk_is_above_the_divergence_and_close_to_it(
    noise: float, batches: int, released: int, epsilon: float
) -> None:
    step = ShiftPair.of_normals(1 / Fraction(noise))
    exchanged = Allocation(step, batches, released, is_exchanged=True)
    order = Fraction(math.exp(epsilon))
    walked = walk_divergence(exchanged, order)
    assert walked >= floor_float(bound_divergence(exchanged, order, BELOW, FINE))
    assert walked <= 1.01 * ceil_float(bound_divergence(exchanged, order, ABOVE, FINE))


@pytest.mark.parametrize("order", [1, 3])
def test_values_of_a_difference_carry_its_mass_and_its_mean(order: int) -> None:
    difference = Difference(Fraction(1, 2), Fraction(order), weights=False)
    atoms = spread_difference(difference, 1e-9)
    assert atoms.weights.sum() == pytest.approx(1, abs=1e-12)
    # what is cut off is raised on the left and missing on the right
    assert atoms.values @ atoms.weights == pytest.approx(1 - order + atoms.below - atoms.beyond, abs=1e-12)
    assert 0 < atoms.beyond <= 1e-9 >= atoms.below > 0
