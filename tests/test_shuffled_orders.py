"""Orders of shuffled batches at which a bound is hard to find, and epochs made of them."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tightrope.engines.shuffles import epoch_pair, one_epoch
from tightrope.engines.shuffles.contours import half_sinh
from tightrope.engines.shuffles.counts import CountsProblem
from tightrope.engines.shuffles.one_epoch import bound_by_levels, bound_by_size, bound_order
from tightrope.engines.shuffles.walks import DEEPEST_PLACE, Walks, place_levels
from tightrope.engines.shuffles.worst_difference import Atoms, WorstDifference
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.shuffled_epoch import ShuffledEpoch

NOISE_OF_TWO = ShuffledEpoch(separation=Fraction(1), batches=100, released=100)


@pytest.mark.parametrize("epsilon", [3.0, 4.0])
def test_an_order_where_the_first_guess_fits_no_lattice_is_bounded_from_above(epsilon: float) -> None:
    order = Fraction(math.exp(epsilon))
    told = WorstDifference(NOISE_OF_TWO.separation, order).positive_part
    assert bound_order(NOISE_OF_TWO, order) < told / 20


def test_bounds_that_are_level_for_a_while_do_not_end_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def bound(epoch: ShuffledEpoch, order: Fraction, guess: float, known: float) -> float:
        asked.append(math.log(order))
        return math.exp(-10 * (asked[-1] if len(asked) > 10 else 0)) / 2

    monkeypatch.setattr(epoch_pair, "list_ways", lambda epoch: [bound])
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
    assert places[0] == -DEEPEST_PLACE
    assert masses[0] >= 0.25


def test_cuts_are_whole_counts_that_are_above_the_linear_function() -> None:
    atoms = WorstDifference(Fraction(1), Fraction(21, 20)).spread(1e-3)
    levels = (0.5, 1.0, 2.0)
    problem = CountsProblem(
        Walks(place_levels(atoms, levels, 0.3), levels, spacing=0.3, count=40), 3.0, 0.05 + atoms.beyond
    )
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
    walks = Walks(place_levels(atoms, (1.0,), 0.3), (1.0,), spacing=0.3, count=40)
    walks.evaluate(np.array([[40.0]]), np.array([0.0]))
    assert len(walks._contours) == 1 < len(walks._plans)


def test_any_guess_serves() -> None:
    """It only says where the search for what to cut off begins."""
    epoch = ShuffledEpoch(separation=Fraction(1), batches=1000, released=1000, batch=1000, last=1000)
    order = Fraction(math.exp(0.1))
    for way in (bound_by_size, bound_by_levels):
        usual = way(epoch, order, 0.0, 1.0)
        for guess in (1e-9, 0.3):
            assert usual / 1.5 < way(epoch, order, guess, 1.0) < 1.5 * usual


def test_more_is_cut_off_where_that_makes_a_bound_for_large_batches_smaller() -> None:
    """A hundredth of the bound would make it 5.4e-6."""
    epoch = ShuffledEpoch(separation=Fraction(1), batches=1000, released=1000, batch=1000, last=1000)
    assert bound_order(epoch, Fraction(math.exp(0.2388))) < 3e-6


@pytest.mark.parametrize("batch", [2, 16, 64])
def test_a_size_that_is_known_never_costs_more_than_any_size(batch: int) -> None:
    known = ShuffledEpoch(separation=Fraction(1, 4), batches=30, released=30, batch=batch, last=batch)
    curves = [epoch_pair.bound_epoch(epoch) for epoch in (known, one_epoch.forget_size(known))]
    for order in np.exp(np.linspace(0, 1, 41)):
        known_above, any_above = (
            sum(max(float(p - Fraction(order) * q), 0.0) for p, q in _list_masses(curve)) for curve in curves
        )
        assert known_above <= any_above * (1 + 1e-12)


def _list_masses(pair: FinitePair) -> list[tuple[Fraction, Fraction]]:
    return list(zip(pair.observed.masses, pair.alternative.masses, strict=True))


def test_the_payoff_is_that_of_its_formula() -> None:
    for tilt in (1e-6, 0.01, 3.0):
        frequencies = np.linspace(0, math.pi, 50)
        exact = np.sinh((tilt + 1j * frequencies) / 2)
        assert (np.abs(half_sinh(tilt, frequencies) - exact) <= 1e-14 * np.abs(exact)).all()
