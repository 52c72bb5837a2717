"""What the samplers draw has exactly the law that is accounted, and no batch is handed out twice."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from tightrope.samplers import PoissonSampler, WithoutReplacementSampler
from tightrope.samplers.draws import (
    _flag_distinct,
    _sort_distinct,
    _uniform_below,
    base_256_digits,
    poisson_batch,
)
from tightrope.samplers.entropy import Bytes, ByteSource, seeded_bytes

SURPRISING = 1e-4  # seeds are fixed, so a test passes always or never
IMPOSSIBLE = (
    1e-9  # for the operating system's entropy: some 20 p-values a run, so a false alarm in ten million runs
)

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
    return float(
        stats.chi2.sf(sum((seen - wanted) ** 2 / wanted for seen, wanted in cells), max(1, len(cells) - 1))
    )


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
        stats.binom.cdf(counts, len(batches), pair_probability),
        stats.binom.sf(counts - 1, len(batches), pair_probability),
    )
    return float(min(1.0, tails.min() * counts.size))


def counts_p(
    counts: Iterable[int], law: Callable[[NDArray[np.int64]], NDArray[np.float64]], most: int
) -> float:
    """Whole numbers from 0 to `most` as often as the law says."""
    found = np.bincount(np.fromiter(counts, dtype=np.int64), minlength=most + 1)
    return chi_square(found, found.sum() * law(np.arange(most + 1)))


def size_p(batches: Batches, records: int, rate: float) -> float:
    """Batch sizes are binomial."""
    return counts_p(map(len, batches), lambda k: np.asarray(stats.binom.pmf(k, records, rate)), records)


def overlap_p(
    batches: Batches, law: Callable[[NDArray[np.int64]], NDArray[np.float64]], records: int
) -> float:
    """Each second batch is independent of the one before it: what they share."""
    overlaps = [
        np.intersect1d(one, next_one).size for one, next_one in zip(batches[::2], batches[1::2], strict=True)
    ]
    return counts_p(overlaps, law, records)


def poisson_law(records: int, rate: float) -> SubsetLaw:
    subsets = itertools.chain.from_iterable(
        itertools.combinations(range(records), k) for k in range(records + 1)
    )
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
        "overlaps": overlap_p(
            batches, lambda k: np.asarray(stats.hypergeom.pmf(k, records, batch, batch)), records
        ),
    }


# ---- the law


@pytest.mark.parametrize(
    ("records", "rate", "steps"), [(40, 0.3, 6000), (40, 1 / 3, 6000), (400, 1e-3, 6000), (40, 0.97, 3000)]
)
def test_poisson_batches_have_the_law_that_is_accounted(records: int, rate: float, steps: int) -> None:
    values = poisson_p_values(
        list(PoissonSampler(records=records, rate=rate, steps=steps, seed=1)), records, rate
    )
    assert min(values.values()) > SURPRISING, values


@pytest.mark.parametrize(
    ("records", "batch", "steps"),
    [(40, 8, 6000), (40, 29, 6000), (300, 3, 6000), (33, 16, 3000), (7, 6, 3000)],
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


@pytest.mark.parametrize(
    ("records", "batch"), [(5, 2), (5, 3), (3, 1), (3, 2), (6, 3), (4, 4), (4, 0), (1, 1)]
)
def test_every_subset_of_the_size_is_equally_likely(records: int, batch: int) -> None:
    batches = list(WithoutReplacementSampler(records=records, batch=batch, steps=10_000, seed=2))
    assert subset_p(batches, uniform_law(records, batch)) > SURPRISING


def test_the_operating_systems_entropy_has_the_same_laws() -> None:
    for steps in (4000, 4000):  # the second time with other bytes
        poisson = list(PoissonSampler(records=30, rate=0.3, steps=steps))
        fixed = list(WithoutReplacementSampler(records=30, batch=9, steps=steps))
        values = poisson_p_values(poisson, 30, 0.3), fixed_size_p_values(fixed, 30, 9)
        assert min(*values[0].values(), *values[1].values()) > IMPOSSIBLE, values
        assert (
            subset_p(list(PoissonSampler(records=3, rate=0.3, steps=steps)), poisson_law(3, 0.3)) > IMPOSSIBLE
        )
        assert (
            subset_p(list(WithoutReplacementSampler(records=5, batch=2, steps=steps)), uniform_law(5, 2))
            > IMPOSSIBLE
        )


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
    rounded = sum(
        int(np.count_nonzero(generator.random(records, dtype=np.float32) < rate)) for _ in range(steps)
    )  # 12 expected
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
    digits = list(base_256_digits(rate))
    assert int.from_bytes(bytes(digits), "big") * denominator == numerator * 256 ** len(digits)


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 10), Fraction(10**30 - 1, 10**30)])
def test_a_fraction_is_drawn_as_it_is_and_not_as_a_float(rate: Fraction) -> None:
    digits = list(itertools.islice(base_256_digits(rate), 40))
    below = [*digits[:-1], digits[-1] - 1] if digits[-1] else [*digits[:-2], digits[-2] - 1]
    for number, joins in ((below, 1), ([*digits, 255, 255, 255], 0)):
        told = iter([*number, *[255] * 5])

        def tell(count: int, told: Iterator[int] = told) -> NDArray[np.uint8]:
            return np.array([next(told) for _ in range(count)], dtype=np.uint8)

        assert poisson_batch(records=1, rate=rate, draw=tell).size == joins
    sampler = PoissonSampler(records=5, rate=rate, steps=3)
    assert sampler.sampling.exact_rate == rate
    assert len(list(sampler)) == 3


def test_the_largest_rate_below_one_leaves_somebody_out() -> None:
    def largest(count: int) -> Bytes:
        return np.full(count, 255, dtype=np.uint8)

    assert poisson_batch(records=9, rate=math.nextafter(1, 0), draw=largest).size == 0
    assert poisson_batch(records=9, rate=1.0, draw=largest).size == 9


@pytest.mark.parametrize("bound", [1, 2, 5, 128, 129, 256])
def test_values_below_a_bound_are_equally_likely_over_all_bytes(bound: int) -> None:
    counts = np.bincount(
        _uniform_below(bound, 256, lambda count: np.arange(count).astype(np.uint8)), minlength=bound
    )
    assert len(counts) == bound
    assert len(set(counts.tolist())) == 1


def test_sorting_and_flagging_draw_the_same_set() -> None:
    for number in range(50):
        flagged = _flag_distinct(300, 120, seeded_bytes(seed=5, number=number))
        assert (
            np.flatnonzero(flagged).tolist()
            == _sort_distinct(300, 120, seeded_bytes(seed=5, number=number)).tolist()
        )


@pytest.mark.parametrize(
    ("records", "batch"), [(2**33 + 1, 50), (70_000, 7), (70_000, 69_990), (2**20 + 3, 2**19)]
)
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
    by_one_byte = [
        np.flatnonzero(generator.integers(0, 256, records) < 256 * rate) for _ in range(steps)
    ]  # 77 / 256 = 0.3008
    by_six_bits = [
        np.flatnonzero(generator.integers(0, 64, records) < 64 * rate) for _ in range(steps)
    ]  # 20 / 64 = 0.3125
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
    biased_subsets = [
        np.sort(generator.choice(5, 2, replace=False, p=[0.22, 0.195, 0.195, 0.195, 0.195]))
        for _ in range(10_000)
    ]
    assert subset_p(biased_subsets, uniform_law(5, 2)) < SURPRISING
