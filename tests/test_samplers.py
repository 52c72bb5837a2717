"""What the samplers draw has exactly the law that is accounted, and no batch is handed out twice."""

import itertools
import json
import math
import os
import pickle
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import tightrope as tr
from tightrope import Gaussian, InvalidSetting, Poisson, WithoutReplacement
from tightrope.samplers import Passes, PoissonSampler, Sampler, WithoutReplacementSampler, fresh_seed
from tightrope.samplers.draws import _drawn_flags, _drawn_sorted, _uniform_below, base_256_digits, poisson_batch
from tightrope.samplers.entropy import Bytes, ByteSource, seeded_bytes

SURPRISING = 1e-4  # seeds are fixed, so a test passes always or never
IMPOSSIBLE = 1e-9  # for the operating system's entropy: some 20 p-values a run, so a false alarm in ten million runs

Indices = NDArray[np.int64]
Batches = list[Indices]
SubsetLaw = Mapping[tuple[int, ...], float]


# ---- statistics: small p-values mean that the batches do not have the law they should


def chi_square(observed: Iterable[float], expected: Iterable[float]) -> float:
    """The p-value of counts, cells expected fewer than five times pooled into one."""
    cells = [(0.0, 0.0)]
    for seen, wanted in zip(observed, expected, strict=True):
        if wanted < 5:
            cells[0] = (cells[0][0] + seen, cells[0][1] + wanted)
        else:
            cells.append((seen, wanted))
    if cells[0][1] == 0:
        if cells[0][0]:
            return 0.0
        cells = cells[1:]
    return float(stats.chi2.sf(sum((seen - wanted) ** 2 / wanted for seen, wanted in cells), max(1, len(cells) - 1)))


def subset_p(batches: Batches, law: SubsetLaw) -> float:
    """Every possible batch as often as its probability says."""
    counts = dict.fromkeys(law, 0)
    for batch in batches:
        subset = tuple(batch.tolist())
        if subset not in counts:
            return 0.0
        counts[subset] += 1
    return chi_square(counts.values(), [len(batches) * probability for probability in law.values()])


def inclusion_p(batches: Batches, records: int, rate: float, *, fixed_size: bool) -> float:
    """Every record as often as every other; a fixed size takes away one degree of freedom."""
    counts = np.bincount(np.concatenate(batches), minlength=records)
    squares = float(np.sum((counts - len(batches) * rate) ** 2)) / (len(batches) * rate * (1 - rate))
    if fixed_size:
        return float(stats.chi2.sf(squares * (records - 1) / records, records - 1))
    return float(stats.chi2.sf(squares, records))


def pair_p(batches: Batches, records: int, pair_probability: float) -> float:
    """The pair of records whose count of common batches is the most surprising, times the number of pairs."""
    member = np.zeros((len(batches), records))
    for row, batch in zip(member, batches, strict=True):
        row[batch] = 1
    counts = (member.T @ member)[np.triu_indices(records, 1)]
    tails = 2 * np.minimum(
        stats.binom.cdf(counts, len(batches), pair_probability), stats.binom.sf(counts - 1, len(batches), pair_probability)
    )
    return float(min(1.0, tails.min() * counts.size))


def counts_p(counts: Iterable[int], law: Callable[[NDArray[np.int64]], NDArray[np.float64]], most: int) -> float:
    """Whole numbers from 0 to `most` as often as the law says."""
    found = np.bincount(np.fromiter(counts, dtype=np.int64), minlength=most + 1)
    return chi_square(found, found.sum() * law(np.arange(most + 1)))


def size_p(batches: Batches, records: int, rate: float) -> float:
    """Batch sizes are binomial."""
    return counts_p(map(len, batches), lambda k: np.asarray(stats.binom.pmf(k, records, rate)), records)


def overlap_p(batches: Batches, law: Callable[[NDArray[np.int64]], NDArray[np.float64]], records: int) -> float:
    """Each second batch is independent of the one before it: what they share."""
    overlaps = [np.intersect1d(one, next_one).size for one, next_one in zip(batches[::2], batches[1::2], strict=True)]
    return counts_p(overlaps, law, records)


def poisson_law(records: int, rate: float) -> SubsetLaw:
    subsets = itertools.chain.from_iterable(itertools.combinations(range(records), k) for k in range(records + 1))
    return {subset: rate ** len(subset) * (1 - rate) ** (records - len(subset)) for subset in subsets}


def uniform_law(records: int, batch: int) -> SubsetLaw:
    return {subset: 1 / math.comb(records, batch) for subset in itertools.combinations(range(records), batch)}


def poisson_p_values(batches: Batches, records: int, rate: float) -> dict[str, float]:
    return {
        "inclusion": inclusion_p(batches, records, rate, fixed_size=False),
        "pairs": pair_p(batches, records, rate**2),
        "sizes": size_p(batches, records, rate),
        "overlaps": overlap_p(batches, lambda k: np.asarray(stats.binom.pmf(k, records, rate**2)), records),
    }


def fixed_size_p_values(batches: Batches, records: int, batch: int) -> dict[str, float]:
    return {
        "inclusion": inclusion_p(batches, records, batch / records, fixed_size=True),
        "pairs": pair_p(batches, records, batch * (batch - 1) / (records * (records - 1))),
        "sizes": float(all(len(one) == batch for one in batches)),
        "overlaps": overlap_p(batches, lambda k: np.asarray(stats.hypergeom.pmf(k, records, batch, batch)), records),
    }


# ---- the law


@pytest.mark.parametrize(("records", "rate", "steps"), [(40, 0.3, 6000), (40, 1 / 3, 6000), (400, 1e-3, 6000), (40, 0.97, 3000)])
def test_poisson_batches_have_the_law_that_is_accounted(records: int, rate: float, steps: int) -> None:
    values = poisson_p_values(list(PoissonSampler(records=records, rate=rate, steps=steps, seed=1)), records, rate)
    assert min(values.values()) > SURPRISING, values


@pytest.mark.parametrize(
    ("records", "batch", "steps"), [(40, 8, 6000), (40, 29, 6000), (300, 3, 6000), (33, 16, 3000), (7, 6, 3000)]
)
def test_fixed_batches_have_the_law_that_is_accounted(records: int, batch: int, steps: int) -> None:
    values = fixed_size_p_values(
        list(WithoutReplacementSampler(records=records, batch=batch, steps=steps, seed=1)), records, batch
    )
    assert min(values.values()) > SURPRISING, values


@pytest.mark.parametrize(("records", "rate"), [(3, 0.3), (3, 1 / 3), (5, 0.55), (4, 0.999)])
def test_every_subset_is_as_likely_as_poisson_says(records: int, rate: float) -> None:
    batches = list(PoissonSampler(records=records, rate=rate, steps=20_000, seed=2))
    assert subset_p(batches, poisson_law(records, rate)) > SURPRISING


@pytest.mark.parametrize(("records", "batch"), [(5, 2), (5, 3), (3, 1), (3, 2), (6, 3), (4, 4), (4, 0), (1, 1)])
def test_every_subset_of_the_size_is_equally_likely(records: int, batch: int) -> None:
    batches = list(WithoutReplacementSampler(records=records, batch=batch, steps=10_000, seed=2))
    assert subset_p(batches, uniform_law(records, batch)) > SURPRISING


def test_the_operating_systems_entropy_has_the_same_laws() -> None:
    for steps in (4000, 4000):  # the second time with other bytes
        poisson = list(PoissonSampler(records=30, rate=0.3, steps=steps))
        fixed = list(WithoutReplacementSampler(records=30, batch=9, steps=steps))
        values = poisson_p_values(poisson, 30, 0.3), fixed_size_p_values(fixed, 30, 9)
        assert min(*values[0].values(), *values[1].values()) > IMPOSSIBLE, values
        assert subset_p(list(PoissonSampler(records=3, rate=0.3, steps=steps)), poisson_law(3, 0.3)) > IMPOSSIBLE
        assert subset_p(list(WithoutReplacementSampler(records=5, batch=2, steps=steps)), uniform_law(5, 2)) > IMPOSSIBLE


def bytes_after_zeros(source: ByteSource, zeros: int) -> ByteSource:
    """A source whose first calls give zeros only: what is left of the law given that U < 256^-zeros."""
    calls = itertools.count()
    return lambda count: np.zeros(count, dtype=np.uint8) if next(calls) < zeros else source(count)


TINY = 1e-7
TINY_AS_FLOAT32_DRAWS_IT = math.ceil(TINY * 2**24) / 2**24


def test_a_rate_of_one_in_ten_million_is_not_rounded_to_24_bits() -> None:
    assert round(TINY_AS_FLOAT32_DRAWS_IT / TINY, 2) == 1.19
    # given that the first two bytes are 0, a record joins with probability 65536 * rate: 6,900 of a million
    source = bytes_after_zeros(seeded_bytes(seed=3, number=0), zeros=2)
    joined = len(poisson_batch(records=2**20, rate=TINY, draw=source))
    assert stats.binomtest(joined, 2**20, 65536 * TINY).pvalue > SURPRISING
    assert stats.binomtest(joined, 2**20, 65536 * TINY_AS_FLOAT32_DRAWS_IT).pvalue < 1e-30


def test_a_rate_below_the_smallest_float32_draw_is_kept() -> None:
    rate, records, steps = 1e-9, 2**24, 12
    joined = sum(map(len, PoissonSampler(records=records, rate=rate, steps=steps, seed=4)))  # 0.2 expected
    assert stats.binomtest(joined, records * steps, rate).pvalue > SURPRISING
    generator = np.random.default_rng(4)
    rounded = sum(int(np.count_nonzero(generator.random(records, dtype=np.float32) < rate)) for _ in range(steps))  # 12 expected
    assert stats.binomtest(rounded, records * steps, rate).pvalue < SURPRISING


@pytest.mark.parametrize("rate", [5 / 256 + 77 / 65536, 255 / 256 + 255 / 65536, 1 / 65536, 0.5, 200 / 256])
def test_of_all_two_byte_numbers_exactly_those_below_the_rate_join(rate: float) -> None:
    first_digit = int(rate * 256)
    streams = iter([np.repeat(np.arange(256), 256), np.arange(256)])

    def all_numbers(count: int) -> Bytes:
        stream = next(streams).astype(np.uint8)
        assert count == stream.size
        return stream

    joined = poisson_batch(records=65536, rate=rate, draw=all_numbers)
    assert joined.tolist() == list(range(int(rate * 65536)))
    assert first_digit * 256 <= joined.size


@given(st.floats(0, 1, exclude_max=True))
def test_the_digits_are_the_rate_exactly(rate: float) -> None:
    numerator, denominator = rate.as_integer_ratio()
    digits = base_256_digits(rate)
    assert int.from_bytes(bytes(digits), "big") * denominator == numerator * 256 ** len(digits)


@pytest.mark.parametrize("bound", [1, 2, 5, 128, 129, 256])
def test_values_below_a_bound_are_equally_likely_over_all_bytes(bound: int) -> None:
    counts = np.bincount(_uniform_below(bound, 256, lambda count: np.arange(count).astype(np.uint8)), minlength=bound)
    assert len(counts) == bound
    assert len(set(counts.tolist())) == 1


def test_sorting_and_flagging_draw_the_same_set() -> None:
    for number in range(50):
        flagged = _drawn_flags(300, 120, seeded_bytes(seed=5, number=number))
        assert np.flatnonzero(flagged).tolist() == _drawn_sorted(300, 120, seeded_bytes(seed=5, number=number)).tolist()


@pytest.mark.parametrize(("records", "batch"), [(2**33 + 1, 50), (70_000, 7), (70_000, 69_990), (2**20 + 3, 2**19)])
def test_large_batches_are_sorted_distinct_and_in_range(records: int, batch: int) -> None:
    for seed in (None, 6):
        (drawn,) = WithoutReplacementSampler(records=records, batch=batch, steps=1, seed=seed)
        assert drawn.dtype == np.int64
        assert len(drawn) == batch
        assert bool(np.all(np.diff(drawn) > 0))
        assert 0 <= drawn[0] <= drawn[-1] < records


def test_records_beyond_the_first_million_are_drawn_alike() -> None:
    records = 5 * 2**19 + 11
    batches = list(PoissonSampler(records=records, rate=0.01, steps=4, seed=7))
    fifths = np.bincount(np.minimum(np.concatenate(batches) // 2**19, 4), minlength=5)
    assert chi_square(fifths, [4 * 0.01 * 2**19] * 4 + [4 * 0.01 * (2**19 + 11)]) > SURPRISING
    assert all(bool(np.all(np.diff(batch) > 0)) and batch[-1] < records for batch in batches)


# ---- the tests above can fail


def test_wrong_samplers_would_be_noticed() -> None:
    generator = np.random.default_rng(8)
    records, rate, steps = 40, 0.3, 6000
    by_one_byte = [np.flatnonzero(generator.integers(0, 256, records) < 256 * rate) for _ in range(steps)]  # 77 / 256 = 0.3008
    by_six_bits = [np.flatnonzero(generator.integers(0, 64, records) < 64 * rate) for _ in range(steps)]  # 20 / 64 = 0.3125
    assert poisson_p_values(by_one_byte, records, 77 / 256)["sizes"] > SURPRISING
    assert poisson_p_values(by_six_bits, records, rate)["sizes"] < SURPRISING
    fixed = [np.sort(generator.permutation(records)[:12]) for _ in range(steps)]
    assert poisson_p_values(fixed, records, rate)["sizes"] < SURPRISING
    assert min(fixed_size_p_values(fixed, records, 12).values()) > SURPRISING
    every_tenth = [np.arange(generator.integers(10), records, 10) for _ in range(steps)]
    assert fixed_size_p_values(every_tenth, records, 4)["pairs"] < SURPRISING
    modulo = [np.sort(np.unique(generator.integers(0, 64, 400) % records)[:12]) for _ in range(steps)]
    assert fixed_size_p_values(modulo, records, 12)["inclusion"] < SURPRISING
    shuffles = [generator.permutation(records) for _ in range(steps // 2)]
    shuffled_and_cut = [np.sort(half) for shuffle in shuffles for half in (shuffle[:12], shuffle[12:24])]
    values = fixed_size_p_values(shuffled_and_cut, records, 12)
    assert values["overlaps"] < SURPRISING < min(values["inclusion"], values["pairs"])
    biased_subsets = [np.sort(generator.choice(5, 2, replace=False, p=[0.22, 0.195, 0.195, 0.195, 0.195])) for _ in range(10_000)]
    assert subset_p(biased_subsets, uniform_law(5, 2)) < SURPRISING


# ---- passes, counts and seeds

SAMPLERS: list[Callable[..., Sampler]] = [
    lambda **options: PoissonSampler(records=50, rate=0.2, steps=10, **options),
    lambda **options: WithoutReplacementSampler(records=50, batch=9, steps=10, **options),
]
every_sampler = pytest.mark.parametrize("make", SAMPLERS, ids=["poisson", "without_replacement"])


def same(one: Iterable[Indices], other: Iterable[Indices]) -> bool:
    return [batch.tolist() for batch in one] == [batch.tolist() for batch in other]


@every_sampler
@pytest.mark.parametrize("seed", [None, 0, 9, 2**128 - 1])
def test_passes_never_replay_and_are_counted(make: Callable[..., Sampler], seed: int | None) -> None:
    sampler = make(seed=seed)
    assert (len(sampler), sampler.drawn) == (10, 0)
    batches = [*sampler, *sampler, *sampler]
    assert sampler.drawn == len(batches) == 30
    assert len({tuple(batch.tolist()) for batch in batches}) == 30
    if seed is not None:
        assert same(batches, map(sampler.batch_at, range(30)))
        assert sampler.drawn == 30


@every_sampler
def test_two_live_iterators_share_one_count(make: Callable[..., Sampler]) -> None:
    sampler = make(seed=1)
    one, other = iter(sampler), iter(sampler)
    taken = [next(one), next(other), next(other), next(one)]
    assert same(taken, map(sampler.batch_at, range(4)))
    assert sampler.drawn == 4


def test_seed_and_number_both_matter_and_do_not_trade_places() -> None:
    streams = {bytes(seeded_bytes(seed=s, number=t)(32)) for s in (0, 1, 2, 2**64, 2**127) for t in (0, 1, 2, 2**40)}
    assert len(streams) == 20


def test_a_seed_means_the_same_batches_for_ever() -> None:
    assert PoissonSampler(records=100, rate=0.05, steps=1, seed=7).batch_at(3).tolist() == [1, 67, 72]
    assert WithoutReplacementSampler(records=100, batch=5, steps=1, seed=7).batch_at(3).tolist() == [7, 24, 27, 66, 94]


def test_fresh_seeds_differ_and_fit() -> None:
    seeds = {fresh_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert max(seed.bit_length() for seed in seeds) in range(110, 129)


def test_without_a_seed_every_byte_is_asked_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def urandom(count: int) -> bytes:
        asked.append(count)
        return bytes(count)

    monkeypatch.setattr(os, "urandom", urandom)
    (batch,) = PoissonSampler(records=1000, rate=0.5, steps=1)
    assert (asked, len(batch)) == ([1000], 1000)


@every_sampler
def test_a_resumed_run_goes_on_with_the_next_batch(make: Callable[..., Sampler]) -> None:
    whole = make(seed=11)
    batches = [*whole, *whole]
    first = make(seed=11)
    taken = list(itertools.islice(first, 7))
    state = json.loads(json.dumps(first.state_dict()))
    second = make(seed=11)
    second.load_state_dict(state)
    assert same([*taken, *second], batches[:17])
    assert second.drawn == 17
    assert same(make(seed=11, drawn=4), batches[4:14])
    copy = pickle.loads(pickle.dumps(second))
    assert same(itertools.islice(copy, 3), batches[17:])


def test_an_unseeded_state_keeps_the_count() -> None:
    sampler = PoissonSampler(records=10, rate=0.5, steps=3)
    list(sampler)
    other = PoissonSampler(records=10, rate=0.5, steps=5)
    other.load_state_dict(sampler.state_dict())
    assert sampler.state_dict() == {"kind": "poisson", "records": 10, "rate": 0.5, "steps": 3, "seed": None, "drawn": 3}
    assert (other.drawn, len(other)) == (3, 5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "without_replacement"}, "kind in the state must be 'poisson' as in this sampler, got 'without_replacement'"),
        ({"records": 51}, "records in the state must be 50 as in this sampler, got 51"),
        ({"rate": 0.25}, "rate in the state must be 0.2 as in this sampler, got 0.25"),
        ({"seed": None}, "seed in the state must be the seed of this sampler"),
        ({"seed": 987654321}, "seed in the state must be the seed of this sampler"),
        ({"drawn": 1}, "drawn in the state must be at least 2, the batches this sampler has handed out, got 1"),
        ({"drawn": None}, "drawn must be a whole number, got None"),
        ({"drawn": -1}, "drawn must be at least 0, got -1"),
    ],
)
def test_states_of_other_runs_are_refused_by_name(changed: dict[str, object], message: str) -> None:
    sampler = PoissonSampler(records=50, rate=0.2, steps=10, seed=123456789, drawn=2)
    with pytest.raises(InvalidSetting, match=f"^{message}") as refusal:
        sampler.load_state_dict({**sampler.state_dict(), **changed})
    assert "123456789" not in str(refusal.value)
    assert "987654321" not in str(refusal.value)
    assert sampler.drawn == 2


def test_a_state_that_is_none_is_refused() -> None:
    other = WithoutReplacementSampler(records=50, batch=5, steps=1)
    with pytest.raises(InvalidSetting, match="state must be a mapping, got 3"):
        other.load_state_dict(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="kind in the state must be 'without_replacement' as in this sampler, got None"):
        other.load_state_dict({})


def test_a_seed_does_not_show_in_a_log() -> None:
    sampler = PoissonSampler(records=50, rate=0.2, steps=10, seed=123456789)
    assert repr(sampler) == "PoissonSampler(records=50, rate=0.2, steps=10, seed=..., drawn=0)"
    assert "123456789" not in repr(sampler.share(rank=0, ranks=2))
    assert repr(WithoutReplacementSampler(records=5, batch=2, steps=1)) == (
        "WithoutReplacementSampler(records=5, batch=2, steps=1, drawn=0)"
    )


# ---- ranks and pieces


@every_sampler
@pytest.mark.parametrize("ranks", [1, 2, 3, 60])
def test_the_shares_of_all_ranks_are_the_global_batch(make: Callable[..., Sampler], ranks: int) -> None:
    sampler = make(seed=12, drawn=5)
    shares = [sampler.share(rank=rank, ranks=ranks) for rank in range(ranks)]
    for number, parts in zip(range(5, 15), zip(*shares, strict=True), strict=True):
        assert sorted(np.concatenate(parts).tolist()) == sampler.batch_at(number).tolist()
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert {share.drawn for share in shares} == {sampler.drawn} == {15}
    for share in shares:
        assert (share.sampling, len(share), share.records) == (sampler.sampling, 10, 50)
        assert share.expected_batch == sampler.expected_batch
        assert share.run(Gaussian(noise_multiplier=1)) == sampler.step(Gaussian(noise_multiplier=1)) * 15


def test_a_divided_sampler_hands_out_each_record_of_a_batch_once() -> None:
    sampler = PoissonSampler(records=50, rate=0.2, steps=10, seed=13)
    live = iter(sampler)
    next(live)
    share = sampler.share(rank=0, ranks=2)
    assert sampler.share(rank=0, ranks=2) is share
    with pytest.raises(InvalidSetting, match=r"divided among ranks=2.*Iterate over the share"):
        next(live)
    with pytest.raises(InvalidSetting, match="ranks must be 2 as in the shares already taken, got 3"):
        sampler.share(rank=2, ranks=3)
    next(iter(share))
    assert (sampler.drawn, share.drawn, sampler.share(rank=1, ranks=2).drawn) == (2, 2, 1)


def test_a_run_can_be_resumed_on_another_number_of_ranks() -> None:
    share = PoissonSampler(records=50, rate=0.2, steps=10, seed=14).share(rank=1, ranks=2)
    list(share)
    resumed = PoissonSampler(records=50, rate=0.2, steps=10, seed=14)
    alone = resumed.share(rank=0, ranks=1)
    alone.load_state_dict(share.state_dict())
    assert resumed.drawn == alone.drawn == 10
    assert same(alone, map(resumed.batch_at, range(10, 20)))


@every_sampler
@pytest.mark.parametrize("most", [1, 4, 9, 100])
def test_pieces_make_up_the_logical_batches(make: Callable[..., Sampler], most: int) -> None:
    whole: Passes = make(seed=15)
    for passes, expected in ((make(seed=15), list(whole)), (make(seed=15).share(rank=1, ranks=9), None)):
        batches: list[list[int]] = [[]]
        for piece in passes.pieces(most=most):
            assert len(piece.indices) <= most
            assert len(piece.indices) or (piece.ends_step and not batches[-1])
            assert passes.drawn == len(batches)
            batches[-1] += piece.indices.tolist()
            batches += [[]] if piece.ends_step else []
        assert batches.pop() == []
        expected = expected or [passes.batch_at(number) for number in range(10)]
        assert batches == [batch.tolist() for batch in expected]


def test_empty_batches_are_batches() -> None:
    for sampler in (
        PoissonSampler(records=5, rate=0, steps=3),
        WithoutReplacementSampler(records=5, batch=0, steps=3),
        PoissonSampler(records=5, rate=5e-324, steps=3, seed=0),
        PoissonSampler(records=5, rate=0, steps=3, seed=1).share(rank=1, ranks=2),
    ):
        assert [batch.tolist() for batch in sampler] == [[], [], []]
        assert [(piece.indices.tolist(), piece.ends_step) for piece in sampler.pieces(most=2)] == [([], True)] * 3
        assert sampler.drawn == 6


def test_rate_one_and_the_full_batch_are_everybody() -> None:
    for sampler in (PoissonSampler(records=5, rate=1, steps=2), WithoutReplacementSampler(records=5, batch=5, steps=2)):
        assert [batch.tolist() for batch in sampler] == [[0, 1, 2, 3, 4]] * 2


# ---- accounting


def test_the_sampling_is_the_value_the_accountant_takes() -> None:
    poisson = PoissonSampler(records=1000, rate=0.01, steps=50, seed=16)
    fixed = WithoutReplacementSampler(records=1000, batch=10, steps=50, seed=16)
    assert (poisson.sampling, poisson.expected_batch) == (Poisson(rate=0.01), 10)
    assert (fixed.sampling, fixed.expected_batch) == (WithoutReplacement(batch=10, population=1000), 10)
    noise = Gaussian(noise_multiplier=1.0)
    assert poisson.run(noise) == tr.Run()
    list(poisson)
    list(fixed)
    assert poisson.run(noise) == tr.Step(noise, Poisson(rate=0.01)) * 50
    by_hand = tr.epsilon(tr.Step(noise, Poisson(rate=0.01)) * 50, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    assert tr.epsilon(poisson.run(noise), delta=1e-5, relation=tr.ADD_OR_REMOVE) == by_hand
    assert tr.epsilon(fixed.run(noise), delta=1e-5, relation=tr.SUBSTITUTE).upper > by_hand.upper


# ---- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"records": 0}, r"records must be at least 1, got 0\. It is the size of the dataset"),
        ({"records": 5.0}, r"records must be a whole number, got 5\.0"),
        ({"records": 2**63}, r"records must be at most 2\^62"),
        ({"rate": 1.5}, r"rate must be in \[0, 1\], got 1\.5"),
        ({"rate": float("nan")}, "rate must be finite"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"seed": -1}, r"seed must be at least 0, got -1\. Use fresh_seed"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"seed": 2**128}, r"seed must be below 2\^128, got a number of 129 bits"),
        ({"drawn": -1}, "drawn must be at least 0"),
        ({"drawn": 10**16}, r"drawn must be at most 1e\+15"),
    ],
)
def test_bad_arguments_are_refused_by_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        PoissonSampler(**{"records": 10, "rate": 0.5, "steps": 1, **options})  # type: ignore[arg-type]


def test_other_bad_questions_are_refused_by_name() -> None:
    with pytest.raises(InvalidSetting, match="batch must be at most population, got batch=11 and population=10"):
        WithoutReplacementSampler(records=10, batch=11, steps=1)
    unseeded = PoissonSampler(records=10, rate=0.5, steps=1)
    with pytest.raises(InvalidSetting, match=r"batch_at\(0\) needs a sampler with a seed.*fresh_seed"):
        unseeded.batch_at(0)
    with pytest.raises(InvalidSetting, match=r"call fresh_seed\(\) on one rank, broadcast it"):
        unseeded.share(rank=0, ranks=2)
    with pytest.raises(InvalidSetting, match="most must be at least 1, got 0"):
        unseeded.pieces(most=0)
    seeded = PoissonSampler(records=10, rate=0.5, steps=1, seed=1)
    with pytest.raises(InvalidSetting, match="rank must be below ranks, got rank=2 and ranks=2"):
        seeded.share(rank=2, ranks=2)
    with pytest.raises(InvalidSetting, match="number must be at least 0, got -1"):
        seeded.batch_at(-1)
    with pytest.raises(InvalidSetting, match=r"number must be below 1e\+15"):
        seeded.batch_at(10**15)
    with pytest.raises(InvalidSetting, match="mechanism must be one of"):
        seeded.step(3)  # type: ignore[arg-type]
