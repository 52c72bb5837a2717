"""What is proved for shuffled, weighted and doubly drawn batches, against all orders of small datasets."""

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tightrope as tr
from alike import delta_of_alike
from precise import mp, mpf
from tightrope.audit.claims.prove import prove_bound
from tightrope.audit.claims.reach import bound_below
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.theorems.other_batchings import LargestSum, most_squares

NOISE = 0.9
GRID = np.linspace(-9.0, 9.0, 721)


def found(scheme: Scheme, **numbers: object) -> Finding:
    return Finding(scheme=scheme, how=How.INSPECTED, sentence="", reshuffles=True, **numbers)  # type: ignore[arg-type]


def run_of(steps: int, noise: float = NOISE) -> tr.Run:
    return tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=0.5)) * steps


def density(means: Iterable[tuple[float, ...]]) -> np.ndarray:
    """The density of two noisy sums, a mixture over equally likely means, on the grid squared."""
    every = np.array(list(means))
    one, two = (np.exp(-(((GRID[:, None] - every[:, slot]) / NOISE) ** 2) / 2) for slot in (0, 1))
    return np.asarray(one @ two.T) / len(every) / (2 * math.pi * NOISE**2)


def sums_of_orders(records: tuple[float, ...], batch: int) -> list[tuple[float, ...]]:
    """The two batch sums for every order of the records; orders within a batch are alike, so one is taken."""
    places = frozenset(range(len(records)))
    return [
        (sum(records[i] for i in first), sum(records[i] for i in second))
        for first in itertools.combinations(sorted(places), batch)
        for second in itertools.combinations(sorted(places - set(first)), min(batch, len(records) - batch))
    ]


def sums_of_bins(records: tuple[float, ...]) -> list[tuple[float, ...]]:
    """The two batch sums for every choice of batches."""
    values = np.array(records)
    choices = [np.array(bins, dtype=bool) for bins in itertools.product((False, True), repeat=len(records))]
    return [(float(values[first].sum()), float(values[~first].sum())) for first in choices]


def delta_of(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (GRID[1] - GRID[0]) ** 2)


# 3 records in batches of 2: the last batch has one; 4 records: both are full, and 3 remain for a neighbour
SHUFFLES = [(4, 2), (5, 2), (6, 3), (5, 3)]


@pytest.mark.parametrize(("records", "batch"), SHUFFLES)
@pytest.mark.parametrize("relation", [tr.SUBSTITUTE, tr.REMOVE, tr.ADD], ids=repr)
def test_no_dataset_exceeds_the_bound_for_shuffled_batches(
    records: int, batch: int, relation: tr.Relation
) -> None:
    rng = np.random.default_rng(records * 10 + batch)
    # of five records in batches of two one is left out of each epoch
    finding = found(
        Scheme.SHUFFLE,
        records=records,
        batch=batch,
        epoch=2,
        full=records // batch,
        removal_changes_one_slot=True,
    )
    reached: dict[float, list[float]] = {0.3: [], 1.0: [], 2.0: []}
    for trial in range(6):
        shared = tuple(rng.uniform(-1, 1, records - 1)) if trial else (-1.0,) * (records - 1)
        others = (
            sums_of_orders((*shared, -1.0), batch)
            if relation is tr.SUBSTITUTE
            else sums_of_orders(shared, batch)
        )
        p, q = density(sums_of_orders((*shared, 1.0), batch)), density(others)
        if relation is tr.ADD:
            p, q = q, p
        for epsilon, deltas in reached.items():
            delta = delta_of(p, q, epsilon)
            if relation is tr.SUBSTITUTE and not trial:  # which is reached: a grid is not close enough
                first, second = Fraction(batch, records), Fraction(min(batch, records - batch), records)
                exact = delta_of_alike(epsilon, noise=NOISE, first=first, second=second)
                assert delta == pytest.approx(exact, rel=1e-3)
                delta = exact
            deltas.append(delta)
    for epsilon, deltas in reached.items():
        largest = max(deltas)  # the upper end falls with delta: who does not exceed it here never does
        if largest < 1e-9:
            continue
        answer = prove_bound(run_of(2), finding, delta=largest, relation=relation)
        assert answer.epsilon.upper >= epsilon * (1 - 1e-6)
        if relation is tr.SUBSTITUTE:  # the very datasets of the lower bound
            assert largest == deltas[0]
            assert answer.epsilon.lower <= epsilon * (1 + 1e-6)
            if records // batch == 2:  # both batches are looked at
                assert answer.epsilon.lower > 0.9999 * epsilon


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_two_copies_of_a_record_reach_what_one_reaches_and_more(epsilon: float) -> None:
    p, q = (density(sums_of_orders((x, x, -1.0, -1.0), 2)) for x in (1.0, -1.0))
    half, delta = Fraction(1, 2), delta_of(p, q, epsilon)
    assert delta > 1.1 * delta_of_alike(epsilon, noise=NOISE, first=half, second=half)
    finding = found(Scheme.SHUFFLE, records=4, batch=2, epoch=2, full=2, copies=2)
    answer = prove_bound(run_of(2), finding, delta=delta, relation=tr.SUBSTITUTE).epsilon
    assert answer.lower < epsilon < answer.upper


@pytest.mark.parametrize("relation", [tr.SUBSTITUTE, tr.REMOVE, tr.ADD], ids=repr)
def test_no_dataset_exceeds_the_bound_for_balls_in_bins(relation: tr.Relation) -> None:
    rng = np.random.default_rng(7)
    finding = found(Scheme.BALLS_IN_BINS, records=4, epoch=2)
    for trial in range(6):
        shared = tuple(rng.uniform(-1, 1, 3)) if trial else (0.0, 0.0, 0.0)
        others = sums_of_bins((*shared, -1.0)) if relation is tr.SUBSTITUTE else sums_of_bins(shared)
        p, q = density(sums_of_bins((*shared, 1.0))), density(others)
        if relation is tr.ADD:
            p, q = q, p
        for epsilon in (0.2, 0.7, 1.5):
            delta = delta_of(p, q, epsilon)
            if delta < 1e-9:
                continue
            answer = prove_bound(run_of(2), finding, delta=delta, relation=relation)
            assert answer.epsilon.upper >= epsilon * (1 - 1e-6)
            if not trial:
                assert answer.epsilon.lower <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize("relation", [tr.SUBSTITUTE, tr.REMOVE, tr.ADD], ids=repr)
def test_no_dataset_exceeds_the_bound_for_draws_with_replacement(relation: tr.Relation) -> None:
    rng = np.random.default_rng(11)
    finding = found(Scheme.WITH_REPLACEMENT, records=3, batch=2, share=1 / 3, removal_changes_one_slot=True)
    for _ in range(6):
        shared = tuple(rng.uniform(-1, 1, 2))

        def sums(records: tuple[float, ...]) -> list[tuple[float, ...]]:
            batches = [sum(pair) for pair in itertools.product(records, repeat=2)]
            return list(itertools.product(batches, repeat=2))

        p, q = (
            density(sums((*shared, 1.0))),
            density(sums((*shared, -1.0)) if relation is tr.SUBSTITUTE else sums(shared)),
        )
        if relation is tr.ADD:
            p, q = q, p
        for epsilon in (0.3, 1.0, 2.0):
            delta = delta_of(p, q, epsilon)
            if delta > 1e-9:
                answer = prove_bound(run_of(2), finding, delta=delta, relation=relation)
                assert answer.epsilon.upper >= epsilon


def test_the_fixed_order_is_bracketed_to_the_last_digits_under_substitution() -> None:
    finding = found(Scheme.FIXED_PARTITION, records=100, batch=10, epoch=10, removal_changes_one_slot=True)
    answer = prove_bound(run_of(25), finding, delta=1e-6, relation=tr.SUBSTITUTE)
    full = tr.epsilon(
        tr.Step(tr.Gaussian(noise_multiplier=NOISE), tr.EveryRecord()) * 3, delta=1e-6, relation=tr.SUBSTITUTE
    )
    assert answer.epsilon == full  # two whole epochs and a third that was begun


def test_the_fixed_order_moves_every_batch_when_a_record_leaves() -> None:
    finding = found(Scheme.FIXED_PARTITION, records=100, batch=10, epoch=10, removal_changes_one_slot=True)
    answer = prove_bound(run_of(20), finding, delta=1e-6, relation=tr.REMOVE)
    halved = tr.Step(tr.Gaussian(noise_multiplier=NOISE / 2), tr.EveryRecord()) * 20
    assert answer.epsilon.upper == tr.epsilon(halved, delta=1e-6, relation=tr.REMOVE).upper


def test_a_sum_over_two_poisson_draws_costs_at_most_two_steps_of_smaller_noise() -> None:
    rate, noise = 0.3, 1.1
    run = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate)) * 1
    finding = found(Scheme.SEVERAL_DRAWS, draws=2, rate=rate)
    fine = np.linspace(-12, 14, 200_001)

    def normal(at: float) -> np.ndarray:
        return np.exp(-(((fine - at) / noise) ** 2) / 2) / noise / math.sqrt(2 * math.pi)

    # the record comes 0, 1 or 2 times
    p = (1 - rate) ** 2 * normal(0) + 2 * rate * (1 - rate) * normal(1) + rate**2 * normal(2)
    for epsilon in (0.2, 1.0, 2.0):
        delta = float(np.maximum(p - math.exp(epsilon) * normal(0), 0).sum() * (fine[1] - fine[0]))
        answer = prove_bound(run, finding, delta=delta, relation=tr.REMOVE)
        assert epsilon <= answer.epsilon.upper <= 4 * epsilon
        # one draw at twice the rate, as people account it, is too small: records that come twice move further
        doubled = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=2 * rate)) * 1
        if epsilon == 2.0:
            assert tr.epsilon(doubled, delta=delta, relation=tr.REMOVE).upper < epsilon


def test_the_hardest_steps_are_those_of_smallest_noise_and_are_counted_once_per_epoch() -> None:
    mixed = run_of(8, noise=2.0) + run_of(2, noise=1.0)
    finding = found(Scheme.SHUFFLE, records=100, batch=25, epoch=4)
    answer = prove_bound(mixed, finding, delta=1e-6, relation=tr.SUBSTITUTE)
    full = tr.EveryRecord()
    hardest = tr.Step(tr.Gaussian(noise_multiplier=1.0), full) * 2 + tr.Step(
        tr.Gaussian(noise_multiplier=2.0), full
    )
    assert answer.epsilon.upper == tr.epsilon(hardest, delta=1e-6, relation=tr.SUBSTITUTE).upper


def test_neighbours_that_are_cut_differently_have_no_bound() -> None:
    finding = found(Scheme.SHUFFLE, records=100, batch=10, epoch=10, full=10)
    for relation in (tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE):
        answer = prove_bound(run_of(20), finding, delta=1e-6, relation=relation)
        assert math.isinf(answer.epsilon.upper)
        assert answer.epsilon.lower > 0
        assert "one record fewer" in answer.why_not
    assert math.isfinite(prove_bound(run_of(20), finding, delta=1e-6, relation=tr.SUBSTITUTE).epsilon.upper)


@pytest.mark.parametrize(
    ("scheme", "relation"),
    [
        (Scheme.SHUFFLE, tr.SUBSTITUTE),
        (Scheme.SHUFFLE, tr.ADD_OR_REMOVE),
        (Scheme.BALLS_IN_BINS, tr.SUBSTITUTE),
        (Scheme.BALLS_IN_BINS, tr.ADD_OR_REMOVE),
        (Scheme.FIXED_PARTITION, tr.SUBSTITUTE),
    ],
)
def test_an_epoch_of_unknown_length_has_no_bound(scheme: Scheme, relation: tr.Relation) -> None:
    answer = prove_bound(
        run_of(1000),
        found(scheme, records=2000, batch=20, removal_changes_one_slot=True),
        delta=1e-6,
        relation=relation,
    )
    assert math.isinf(answer.epsilon.upper)
    assert "epoch" in answer.why_not or "record fewer" in answer.why_not


def test_a_run_that_was_watched_may_begin_in_the_middle_of_an_epoch() -> None:
    finding = found(Scheme.SHUFFLE, records=100, batch=10, epoch=10, full=9)
    watched = replace(finding, how=How.WATCHED)
    full = tr.Step(tr.Gaussian(noise_multiplier=NOISE), tr.EveryRecord())
    for steps, inspected_visits, watched_visits in ((10, 1, 2), (11, 2, 2), (12, 2, 3), (1, 1, 1)):
        for seen, visits in ((finding, inspected_visits), (watched, watched_visits)):
            upper = prove_bound(run_of(steps), seen, delta=1e-6, relation=tr.SUBSTITUTE).epsilon.upper
            assert upper == tr.epsilon(full * visits, delta=1e-6, relation=tr.SUBSTITUTE).upper


def test_orders_that_may_be_the_same_count_as_one_epoch_from_below() -> None:
    finding = found(Scheme.SHUFFLE, records=1000, batch=10, epoch=100, full=100)
    once = prove_bound(run_of(100), finding, delta=1e-6, relation=tr.SUBSTITUTE).epsilon.lower
    ten_times = prove_bound(run_of(1000), finding, delta=1e-6, relation=tr.SUBSTITUTE).epsilon.lower
    same_order = prove_bound(
        run_of(1000), replace(finding, reshuffles=None), delta=1e-6, relation=tr.SUBSTITUTE
    ).epsilon.lower
    assert same_order == once < ten_times


def test_an_estimated_rate_counts_with_its_whole_range() -> None:
    finding = found(Scheme.POISSON, sampling=tr.Poisson(rate=0.01), rate_range=(0.009, 0.011))
    answer = prove_bound(run_of(100), finding, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    for rate, end in ((0.009, answer.epsilon.lower), (0.011, answer.epsilon.upper)):
        run = tr.Step(tr.Gaussian(noise_multiplier=NOISE), tr.Poisson(rate=rate)) * 100
        assert end in tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE)


@pytest.mark.parametrize(("batches", "noise"), [(10, 0.22), (10, 0.25), (1000, 0.19), (100, 1.0), (10, 4.0)])
def test_cells_have_their_masses_between_two_floats(batches: int, noise: float) -> None:
    witness = LargestSum(epochs=1, batches=batches, weight=0.9, with_record=2.0, without=0.0, noise=noise)
    edges = witness.edges()
    for shift in (2.0, 0.0):
        with mp.workdps(400):
            below = [mpf(0)]
            for edge in edges:
                plain, moved = (
                    mp.ncdf(mpf(float(edge)) / mpf(noise)),
                    mp.ncdf((mpf(float(edge)) - shift) / mpf(noise)),
                )
                weight = mpf(0.9)
                below.append((1 - weight) * plain**batches + weight * plain ** (batches - 1) * moved)
            exact = [high - low for low, high in itertools.pairwise([*below, mpf(1)])]
            for (low, high), truth in zip(witness.masses(shift), exact, strict=True):
                assert mpf(low) <= truth <= mpf(high)
                assert high - low <= 4 * math.ulp(high)


@pytest.mark.parametrize("direction", [tr.ADD, tr.REMOVE])
def test_masses_are_rounded_to_the_side_on_which_a_witness_reaches_less(direction: tr.Relation) -> None:
    witness = LargestSum(epochs=3, batches=7, weight=0.9, with_record=2.0, without=0.0, noise=1.3)
    rounded = witness.rounded(direction)
    assert 1 - Fraction(1, 2**50) <= rounded.kept <= 1 <= rounded.grown <= 1 + Fraction(1, 2**50)
    assert rounded.delta_above(1e-5) > 1e-5 * (1 - 1e-16)
    assert rounded.epsilon_below(1.0) < 1


def test_noise_too_small_to_be_halved_has_no_bound() -> None:
    finding = found(Scheme.SHUFFLE, records=105, batch=10, epoch=11, removal_changes_one_slot=True)
    answer = prove_bound(run_of(20, noise=1e-6), finding, delta=1e-6, relation=tr.REMOVE)
    assert math.isinf(answer.epsilon.upper)
    with pytest.raises(tr.InvalidSetting, match="delta"):
        prove_bound(run_of(20), finding, delta=1.5, relation=tr.REMOVE)


def test_counts_exceed_their_bound_as_rarely_as_is_said() -> None:
    batch, share, steps, beta = 8, 0.02, 50, 1e-2
    most = most_squares(batch=batch, share=share, steps=steps, beta=beta)
    counts = np.random.default_rng(3).binomial(batch, share, (200_000, steps))
    assert ((counts**2).sum(axis=1) > most).mean() <= beta
    assert most < 40  # of at most 3200
    assert most_squares(batch=3, share=1.0, steps=4, beta=1e-6) == 36


@pytest.mark.parametrize("beta", [0.2, 1e-3, 1e-9, 1e-30])
def test_counts_exceed_their_bound_exactly_as_rarely_as_is_said(beta: float) -> None:
    batch, share, steps = 4, 0.3, 6
    one = {
        count**2: math.comb(batch, count)
        * Fraction(share) ** count
        * (1 - Fraction(share)) ** (batch - count)
        for count in range(batch + 1)
    }
    law = {0: Fraction(1)}
    for _ in range(steps):
        sums: dict[int, Fraction] = {}
        for total, mass in law.items():
            for square, chance in one.items():
                sums[total + square] = sums.get(total + square, Fraction(0)) + mass * chance
        law = sums
    most = most_squares(batch=batch, share=share, steps=steps, beta=beta)
    assert sum(mass for total, mass in law.items() if total > most) <= Fraction(beta)


def test_more_is_proved_of_an_epoch_with_smaller_noise() -> None:
    witness = LargestSum(epochs=5, batches=100, weight=1.0, with_record=2.0, without=0.0, noise=1.0)
    lower = [
        bound_below(replace(witness, noise=noise), delta=1e-6, directions=(tr.REMOVE,))
        for noise in (4.0, 2.0, 1.0, 0.5, 0.25, 0.05)
    ]
    assert lower == sorted(lower)
    assert lower[-1] > 100


def test_shuffling_costs_far_more_than_the_poisson_sampling_that_was_accounted() -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    finding = found(
        Scheme.SHUFFLE, records=64_000, batch=64, epoch=1000, full=1000, removal_changes_one_slot=True
    )
    claimed = tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    truly = prove_bound(run, finding, delta=1e-6, relation=tr.ADD_OR_REMOVE).epsilon
    assert claimed.upper < 0.95
    assert truly.lower > 13.9
    assert truly.upper < 81


@pytest.mark.parametrize("scheme", [s for s in Scheme if s.value and s not in list(Scheme)[:3]], ids=repr)
def test_what_is_not_proved_is_infinite_and_says_why(scheme: Scheme) -> None:
    response = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.EveryRecord()) * 20
    finding = found(
        scheme,
        records=105,
        batch=10,
        epoch=11,
        removal_changes_one_slot=True,
        share=1 / 105,
        draws=2,
        rate=0.1,
    )
    answer = prove_bound(response, finding, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert answer.epsilon == tr.Bracket(0.0, math.inf)
    assert answer.why_not


def test_laplace_noise_is_bounded_once_per_epoch() -> None:
    run = tr.Step(tr.Laplace(noise_multiplier=3.0), tr.Poisson(rate=0.1)) * 20
    finding = found(Scheme.SHUFFLE, records=105, batch=10, epoch=11)
    full = tr.Step(tr.Laplace(noise_multiplier=3.0), tr.EveryRecord()) * 2
    answer = prove_bound(run, finding, delta=1e-6, relation=tr.SUBSTITUTE)
    assert answer.epsilon == tr.Bracket(0.0, tr.epsilon(full, delta=1e-6, relation=tr.SUBSTITUTE).upper)


def test_declared_numbers_that_cannot_be_reach_nothing() -> None:
    finding = found(Scheme.SHUFFLE, records=100, batch=50, epoch=1000, full=999)
    assert prove_bound(run_of(2000), finding, delta=1e-6, relation=tr.SUBSTITUTE).epsilon.lower == 0
    short = found(Scheme.SHUFFLE, records=1000, batch=10, epoch=10, full=50)
    assert prove_bound(run_of(100), short, delta=1e-6, relation=tr.SUBSTITUTE).epsilon.lower == 0
