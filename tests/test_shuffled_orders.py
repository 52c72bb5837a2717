"""Orders of shuffled batches at which a bound is hard to find, and epochs made of them."""

import math
from fractions import Fraction

import pytest

from tightrope.engines.shuffles import epoch_pair
from tightrope.engines.shuffles.one_epoch import bound_order
from tightrope.engines.shuffles.worst_difference import WorstDifference
from tightrope.pairs.shuffled_epoch import ShuffledEpoch

NOISE_OF_TWO = ShuffledEpoch(separation=Fraction(1), batches=100, released=100)


@pytest.mark.parametrize("epsilon", [3.0, 4.0])
def test_an_order_where_the_first_guess_fits_no_lattice_is_bounded_from_above(epsilon: float) -> None:
    order = Fraction(math.exp(epsilon))
    told = WorstDifference(NOISE_OF_TWO.separation, order).positive_part
    assert bound_order(NOISE_OF_TWO, order) < told / 20


def test_bounds_that_are_level_for_a_while_do_not_end_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def bound(epoch: ShuffledEpoch, order: Fraction) -> float:
        asked.append(math.log(order))
        return math.exp(-10 * (asked[-1] if len(asked) > 10 else 0)) / 2

    monkeypatch.setattr(epoch_pair, "bound_order", bound)
    epoch_pair.bound_epoch.__wrapped__(NOISE_OF_TWO)
    assert math.exp(-10 * asked[-1]) / 2 < epoch_pair.LEAST_DELTA
