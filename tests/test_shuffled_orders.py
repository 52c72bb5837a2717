"""Orders of shuffled batches at which a bound is hard to find, and epochs made of them."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tightrope.engines.shuffles import epoch_pair
from tightrope.engines.shuffles.counts import CountsProblem
from tightrope.engines.shuffles.one_epoch import bound_order
from tightrope.engines.shuffles.walks import DEEPEST, Walks, place_levels
from tightrope.engines.shuffles.worst_difference import Atoms, WorstDifference
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


def test_levels_lie_where_they_tell_most() -> None:
    """Four levels, evenly apart by logarithms, give six times as much."""
    epoch = ShuffledEpoch(separation=Fraction(1), batches=1000, released=1000)
    assert bound_order(epoch, Fraction(math.exp(0.94))) < 1e-6


def test_left_tails_that_no_lattice_holds_are_raised() -> None:
    """Noise 1 and a spare place: differences reach further down than a lattice, which hardly matters."""
    spare = ShuffledEpoch(
        separation=Fraction(2), batches=100, released=100, batch=1000, last=1000, left_over=1
    )
    for epsilon in (5.0, 7.0):
        order = Fraction(math.exp(epsilon))
        assert bound_order(spare, order) < WorstDifference(spare.separation, order).positive_part / 100


def test_an_atom_below_the_lattice_is_raised_to_it() -> None:
    atoms = Atoms(
        values=np.array([-1e9, 0.0, 1.0]), weights=np.array([0.25, 0.5, 0.25]), beyond=0.0, below=0.0
    )
    ((places, masses),) = place_levels(atoms, (1.0,), 1.0)
    assert places[0] == -DEEPEST
    assert masses[0] >= 0.25


def test_cuts_are_whole_counts_that_are_above_the_linear_function() -> None:
    atoms = WorstDifference(Fraction(1), Fraction(21, 20)).spread(1e-3)
    problem = CountsProblem(Walks(atoms, (0.5, 1.0, 2.0), spacing=0.3, count=40), 3.0, 0.05 + atoms.beyond)
    places = np.array([[20.5, 19.0, 0.5], [39.5, 0.25, 0.25], [0.0, 0.0, 40.0]])
    values = problem._evaluate(np.array([[0.0, 0.0, 40.0]]))
    cuts = problem._find_cuts(places, np.full(3, 0.999 * values[0] / 40))
    assert cuts.tolist() == [[0.0, 0.0, 40.0]]
    cuts = problem._find_cuts(places, np.full(3, 1e-9))
    assert len(cuts) == 3
    assert (cuts == np.floor(cuts)).all()
    assert (cuts.sum(axis=1) == 40).all()


def test_where_amplified_bounds_end_an_epoch_goes_on_without_amplification() -> None:
    epoch = ShuffledEpoch(separation=Fraction(1, 2), batches=100, released=100)
    pair = epoch_pair.bound_epoch(epoch)
    assert 0 < pair.infinite_mass < 1e-13


def test_contours_are_made_only_for_rows_that_need_them() -> None:
    atoms = WorstDifference(Fraction(1), Fraction(21, 20)).spread(1e-3)
    walks = Walks(atoms, (1.0,), spacing=0.3, count=40)
    walks.evaluate(np.array([[40.0]]), np.array([0.0]))
    assert len(walks._contours) == 1 < len(walks._plans)
