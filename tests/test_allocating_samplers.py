"""Balls in bins, random allocations and capped Poisson batches have the laws that are accounted."""

import copy
import itertools
import json
import math
import os
import pickle
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tightrope as tr
from test_samplers import (
    IMPOSSIBLE,
    SURPRISING,
    Batches,
    SubsetLaw,
    chi_square,
    inclusion_p,
    pair_p,
    poisson_law,
    size_p,
    subset_p,
)
from tightrope import InvalidSetting
from tightrope.samplers import (
    BallsInBinsSampler,
    PoissonSampler,
    RandomAllocationSampler,
    Sampler,
    TruncatedPoissonSampler,
    WithoutReplacementSampler,
    allocations,
)
from tightrope.samplers.draws import BinnedRecords, allocate

NOISE = tr.Gaussian(noise_multiplier=1.0)


def passes_of(sampler: Sampler, batches: int, count: int) -> Iterator[Batches]:
    for _ in range(count):
        yield list(itertools.islice(sampler, batches))


def choices(batches: Batches, records: int) -> tuple[tuple[int, ...], ...]:
    """Which batches of a pass each record takes."""
    return tuple(
        tuple(place for place, batch in enumerate(batches) if record in batch) for record in range(records)
    )


def equally_likely_p(seen: Counter[Any], outcomes: int) -> float:
    """The p-value of so many outcomes being equally likely."""
    assert len(seen) <= outcomes
    found = [*seen.values(), *[0] * (outcomes - len(seen))]
    return chi_square(found, [seen.total() / outcomes] * outcomes)


# ---- the law


@pytest.mark.parametrize("batches", [1, 2, 7, 256, 1000])
def test_in_each_pass_every_record_comes_exactly_once(batches: int) -> None:
    for seed in (None, 3):
        sampler = BallsInBinsSampler(records=300, batches=batches, seed=seed)
        for drawn in passes_of(sampler, batches, 3):
            assert sorted(np.concatenate(drawn).tolist()) == list(range(300))
            assert all(bool(np.all(np.diff(batch) > 0)) and batch.dtype == np.int64 for batch in drawn)


@pytest.mark.parametrize(("records", "batches"), [(3, 3), (2, 5), (5, 2), (1, 6)])
def test_every_allocation_of_records_to_bins_is_equally_likely(records: int, batches: int) -> None:
    for seed, least in ((2, SURPRISING), (None, IMPOSSIBLE)):
        sampler = BallsInBinsSampler(records=records, batches=batches, seed=seed)
        seen = Counter(choices(drawn, records) for drawn in passes_of(sampler, batches, 2000))
        assert equally_likely_p(seen, batches**records) > least


def test_one_pass_tells_nothing_about_the_next() -> None:
    sampler = BallsInBinsSampler(records=2, batches=3, seed=4)
    made = [choices(drawn, 2) for drawn in passes_of(sampler, 3, 8000)]
    pairs = Counter(zip(made[::2], made[1::2], strict=True))
    assert equally_likely_p(pairs, 81) > SURPRISING


@pytest.mark.parametrize(("records", "batches"), [(40, 5), (400, 300)])
def test_a_bin_is_a_poisson_batch_at_the_rate_of_one_in_so_many(records: int, batches: int) -> None:
    sampler = BallsInBinsSampler(records=records, batches=batches, steps=1, seed=5)
    drawn = [sampler.batch_at(batches * number + number % batches) for number in range(4000)]
    values = {
        "inclusion": inclusion_p(drawn, records, 1 / batches, fixed_size=False),
        "pairs": pair_p(drawn, records, batches**-2),
        "sizes": size_p(drawn, records, 1 / batches),
    }
    assert min(values.values()) > SURPRISING, values


@pytest.mark.parametrize(
    ("records", "batches", "chosen"), [(1, 5, 2), (1, 5, 3), (2, 4, 2), (2, 3, 3), (2, 6, 1)]
)
def test_every_choice_of_batches_is_equally_likely(records: int, batches: int, chosen: int) -> None:
    for seed, least in ((6, SURPRISING), (None, IMPOSSIBLE)):
        sampler = RandomAllocationSampler(records=records, batches=batches, chosen=chosen, seed=seed)
        seen = Counter(choices(drawn, records) for drawn in passes_of(sampler, batches, 2000))
        assert all(len(taken) == chosen for made in seen for taken in made)
        assert equally_likely_p(seen, math.comb(batches, chosen) ** records) > least


def truncated_law(records: int, rate: float, at_most: int) -> SubsetLaw:
    """Where more would have joined, every subset of the size kept is equally likely."""
    law = poisson_law(records, rate)
    more = sum(chance for subset, chance in law.items() if len(subset) > at_most)
    full = math.comb(records, at_most)
    return {
        subset: chance + more / full * (len(subset) == at_most)
        for subset, chance in law.items()
        if len(subset) <= at_most
    }


@pytest.mark.parametrize(("records", "rate", "at_most"), [(5, 0.5, 2), (4, 0.9, 3), (3, 1.0, 1), (4, 0.3, 4)])
def test_every_subset_is_as_likely_as_truncated_poisson_says(records: int, rate: float, at_most: int) -> None:
    for seed, least in ((7, SURPRISING), (None, IMPOSSIBLE)):
        sampler = TruncatedPoissonSampler(records=records, rate=rate, at_most=at_most, steps=8000, seed=seed)
        assert subset_p(list(sampler), truncated_law(records, rate, at_most)) > least


def test_wrong_samplers_would_be_noticed() -> None:
    generator = np.random.default_rng(8)
    shuffled = [np.sort(generator.permutation(40)[:8]) for _ in range(4000)]
    assert size_p(shuffled, 40, 1 / 5) < SURPRISING
    one_for_ever = Counter([choices([np.array([0]), np.array([1])], 2)] * 4000)
    assert equally_likely_p(one_for_ever, 4) < SURPRISING
    first_ones = [np.flatnonzero(generator.random(5) < 0.5)[:2] for _ in range(8000)]
    assert subset_p(first_ones, truncated_law(5, 0.5, 2)) < SURPRISING


# ---- passes, and what is counted


def test_a_loop_that_is_left_goes_on_in_the_same_pass() -> None:
    sampler = BallsInBinsSampler(records=100, batches=5)
    taken = list(itertools.islice(sampler, 2))
    taken += itertools.islice(sampler, 3)
    assert sorted(np.concatenate(taken).tolist()) == list(range(100))
    assert sampler.run(NOISE) == tr.Step(NOISE, tr.BallsInBins(batches=5)) * 5


def test_a_run_that_stops_within_a_pass_counts_the_batches_it_drew() -> None:
    sampler = BallsInBinsSampler(records=100, batches=5, steps=13, seed=1)
    assert len(list(sampler)) == len(sampler) == sampler.drawn == 13
    assert sampler.run(NOISE) == tr.Step(NOISE, tr.BallsInBins(batches=5)) * 13


@pytest.mark.parametrize(("taken", "counted"), [(0, 0), (1, 5), (4, 5), (5, 5), (7, 10)])
def test_a_pass_that_was_broken_off_and_cannot_be_drawn_again_counts_as_a_whole_one(
    taken: int, counted: int
) -> None:
    first, second = (BallsInBinsSampler(records=100, batches=5, steps=20) for _ in range(2))
    list(itertools.islice(first, taken))
    assert first.drawn == taken
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    resumed = BallsInBinsSampler(records=100, batches=5, drawn=taken)
    for sampler in (second, resumed):
        assert sampler.drawn == counted
        assert sampler.run(NOISE).steps == counted
        whole = list(itertools.islice(sampler, 5))
        assert sorted(np.concatenate(whole).tolist()) == list(range(100))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_no_allocation_in_common_with_what_it_was_copied_from(copied: Any) -> None:
    sampler = BallsInBinsSampler(records=200, batches=8)
    begun = list(itertools.islice(sampler, 3))
    other = copied(sampler)
    assert (sampler.drawn, other.drawn) == (3, 8)  # the pass that was begun counts as a whole one
    rest = list(itertools.islice(sampler, 5))
    assert sorted(np.concatenate([*begun, *rest])) == list(range(200))
    assert all(not np.array_equal(mine, its) for mine, its in zip(rest, other, strict=False))
    seeded = BallsInBinsSampler(records=200, batches=8, seed=1, drawn=3)
    assert copied(seeded).drawn == 3


def test_threads_that_share_a_sampler_tear_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them each made an allocation of one pass, so that records came twice in it or never."""

    def allocate_slowly(**options: Any) -> BinnedRecords:
        time.sleep(1e-4)  # long enough for the other thread to come in between
        return allocate(**options)

    monkeypatch.setattr(allocations, "allocate", allocate_slowly)
    sampler = BallsInBinsSampler(records=50, batches=3, steps=120)
    taken: list[Any] = []

    def take() -> None:
        taken.extend(batch.tolist() for batch in sampler)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sampler.drawn, sampler.handed_out, len(taken)) == (240, 240, 240)
    assert set(Counter(record for batch in taken for record in batch).values()) == {80}


def draw_in_a_fork(sampler: Sampler, count: int) -> tuple[int, Batches]:
    """What another process draws, and how much that is with what was drawn before."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        try:
            drawn = list(itertools.islice(sampler, count))
            os.write(writer, pickle.dumps((sampler.drawn, drawn)))
        finally:
            os._exit(0)
    os.waitpid(process, 0)
    with open(reader, "rb") as told:
        os.close(writer)
        found: tuple[int, Batches] = pickle.load(told)
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_no_allocation_in_common_with_the_one_that_it_came_from() -> None:
    sampler = BallsInBinsSampler(records=200, batches=8)
    begun = list(itertools.islice(sampler, 3))
    with sampler._drawing:  # as another thread may hold it at that time
        drawn, other = draw_in_a_fork(sampler, 5)
    assert (sampler.drawn, drawn) == (3, 13)  # there the pass that was begun counts as a whole one
    rest = list(itertools.islice(sampler, 5))
    assert sorted(np.concatenate([*begun, *rest])) == list(range(200))
    assert all(not np.array_equal(mine, its) for mine, its in zip(rest, other, strict=True))
    seeded = BallsInBinsSampler(records=200, batches=8, seed=1, drawn=3)
    assert draw_in_a_fork(seeded, 1)[0] == 4


def test_with_a_seed_a_broken_pass_is_gone_on_with() -> None:
    whole = [batch.tolist() for batch in BallsInBinsSampler(records=100, batches=5, steps=10, seed=9)]
    first, second = (BallsInBinsSampler(records=100, batches=5, seed=9) for _ in range(2))
    taken = [batch.tolist() for batch in itertools.islice(first, 3)]
    second.load_state_dict(first.state_dict())
    assert second.drawn == 3
    assert taken + [batch.tolist() for batch in second] == whole[:8]


def test_a_state_of_other_batches_is_refused_by_name() -> None:
    sampler = BallsInBinsSampler(records=50, batches=5, seed=1)
    message = "batches in the state must be 5 as in this sampler, got 6"
    with pytest.raises(InvalidSetting, match=message):
        sampler.load_state_dict({**sampler.state_dict(), "batches": 6})
    chosen = RandomAllocationSampler(records=50, batches=5, chosen=2, seed=1)
    with pytest.raises(InvalidSetting, match="kind in the state must be 'random-allocation'"):
        chosen.load_state_dict(sampler.state_dict())


def test_what_a_batch_hands_out_can_be_changed_without_changing_the_next_pass_of_it() -> None:
    sampler = BallsInBinsSampler(records=50, batches=5, seed=1)
    sampler.batch_at(0)[:] = -7
    assert min(sampler.batch_at(0)) >= 0


# ---- accounting


def test_the_samplings_are_the_values_the_accountant_takes() -> None:
    bins = BallsInBinsSampler(records=1000, batches=30)
    assert (bins.sampling, bins.batches, len(bins)) == (tr.BallsInBins(batches=30), 30, 30)
    assert bins.expected_batch == 1000 / 30
    chosen = RandomAllocationSampler(records=1000, batches=30, chosen=3)
    assert (chosen.sampling, chosen.expected_batch) == (tr.RandomAllocation(batches=30, chosen=3), 100)
    capped = TruncatedPoissonSampler(records=1000, rate=0.01, at_most=15, steps=4)
    assert capped.sampling == tr.TruncatedPoisson(rate=0.01, at_most=15, population=1000)
    list(capped)
    assert capped.run(NOISE) == tr.Step(NOISE, capped.sampling) * 4


@pytest.mark.parametrize(
    ("records", "rate", "at_most"),
    [(10, 0.3, 4), (10, 0.3, 1), (10, 0.3, 10), (7, 1, 3), (9, 0, 2), (500, 0.1, 50)],
)
def test_the_expected_size_of_a_capped_batch_counts_the_cap(records: int, rate: float, at_most: int) -> None:
    sampler = TruncatedPoissonSampler(records=records, rate=rate, at_most=at_most, steps=1)
    sizes = np.arange(records + 1)
    mean = float(np.sum(stats.binom.pmf(sizes, records, rate) * np.minimum(sizes, at_most)))
    assert sampler.expected_batch == pytest.approx(mean, rel=1e-12)


def test_samplers_are_written_so_that_python_reads_them() -> None:
    for sampler in (
        BallsInBinsSampler(records=5, batches=2),
        RandomAllocationSampler(records=5, batches=4, chosen=2, steps=3),
        TruncatedPoissonSampler(records=5, rate=0.5, at_most=2, steps=3),
    ):
        assert repr(eval(repr(sampler))) == repr(sampler)
    assert repr(BallsInBinsSampler(records=5, batches=2)) == (
        "BallsInBinsSampler(records=5, batches=2, steps=2, drawn=0)"
    )


# ---- one physical size


def test_padded_batches_have_one_size_and_lose_nobody() -> None:
    sampler = BallsInBinsSampler(records=500, batches=10, seed=2)
    whole = list(BallsInBinsSampler(records=500, batches=10, seed=2))
    for padded, batch in zip(sampler.padded(to=90), whole, strict=True):
        assert padded.indices.shape == padded.is_padding.shape == (90,)
        assert padded.indices[~padded.is_padding].tolist() == batch.tolist()
        assert set(padded.indices[padded.is_padding].tolist()) <= {-1}
    assert sampler.drawn == 10


def test_a_batch_that_does_not_fit_is_refused_and_not_cut() -> None:
    sampler = BallsInBinsSampler(records=500, batches=10, seed=2)
    message = r"to must hold the \d+ records of a batch, none of which may be dropped, got 10\."
    with pytest.raises(InvalidSetting, match=message) as refusal:
        list(sampler.padded(to=10))
    assert f"hold more than to={sampler.ample_batch} once in 10^12" in str(refusal.value)
    assert sampler.drawn == 1
    with pytest.raises(InvalidSetting, match="to must be at least 1, got 0"):
        sampler.padded(to=0)


@pytest.mark.parametrize(("records", "batches"), [(60_000, 235), (1000, 1000), (10, 2), (10**6, 3)])
def test_a_size_is_ample_if_hardly_any_batch_exceeds_it(records: int, batches: int) -> None:
    sampler = BallsInBinsSampler(records=records, batches=batches)
    beyond = stats.binom.sf(sampler.ample_batch, records, 1 / batches)
    assert beyond <= 1e-12
    assert next(iter(sampler.padded())).indices.size == sampler.ample_batch <= records


def test_ample_sizes_know_fixed_and_capped_batches_and_shares() -> None:
    assert WithoutReplacementSampler(records=1000, batch=50, steps=1).ample_batch == 50
    assert TruncatedPoissonSampler(records=1000, rate=0.05, at_most=60, steps=1).ample_batch == 60
    poisson = PoissonSampler(records=1000, rate=0.05, steps=3, seed=1)
    assert poisson.share(rank=1, ranks=2).ample_batch == math.ceil(poisson.ample_batch / 2)
    assert [len(each.indices) for each in poisson.share(rank=0, ranks=2).padded(to=64)] == [64] * 3


# ---- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batches": 0}, "batches must be at least 1, got 0"),
        ({"batches": 2.5}, r"batches must be a whole number, got 2\.5"),
        ({"batches": 10**16}, r"batches must be at most 1e\+15"),
        ({"records": 0}, "records must be at least 1, got 0"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"drawn": -1}, "drawn must be at least 0"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_bad_arguments_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        BallsInBinsSampler(**{"records": 10, "batches": 5, **options})


def test_bad_caps_and_choices_are_refused_by_name() -> None:
    with pytest.raises(InvalidSetting, match="chosen must be at most batches=3, got 4"):
        RandomAllocationSampler(records=10, batches=3, chosen=4)
    with pytest.raises(InvalidSetting, match="at_most must be at least 1, got 0"):
        TruncatedPoissonSampler(records=10, rate=0.5, at_most=0, steps=1)
    with pytest.raises(InvalidSetting, match="seed must be given for batch_at"):
        BallsInBinsSampler(records=10, batches=3).batch_at(0)
    with pytest.raises(InvalidSetting, match=r"call fresh_seed\(\) on one rank"):
        BallsInBinsSampler(records=10, batches=3).share(rank=0, ranks=2)


def test_more_batches_than_records_leave_most_of_them_empty() -> None:
    sampler = BallsInBinsSampler(records=3, batches=10**9, steps=4, seed=1)
    assert sum(map(len, sampler)) <= 3
