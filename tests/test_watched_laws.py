"""What comes close to a scheme and is not it: found by the law that it breaks, and said in true sentences."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tightrope as tr
from draws import (
    DEPARTURES,
    Draw,
    binomial,
    cut,
    epochs,
    of_sizes,
    poisson,
    repeating,
    shuffled,
    subsets,
    tied,
)
from tightrope.audit import audit
from tightrope.audit.claims.verdict import Verdict
from tightrope.audit.finding import Scheme
from tightrope.audit.recordings import ends, sizes, ties
from tightrope.audit.recordings import epochs as epoch_cuts
from tightrope.audit.recordings.batches import join
from tightrope.audit.recordings.clues import LEVEL, Clue
from tightrope.audit.recordings.hypotheses import BatchStatistics
from tightrope.audit.recordings.overlaps import missing_moments
from tightrope.audit.recordings.size_law import SizeLaw, find_size_law
from tightrope.audit.recordings.watch import watch

N, B, COUNT = 10_000, 64, 400


def draw_400(draw: Draw, seed: int) -> list[NDArray[np.int64]]:
    return draw(np.random.default_rng([seed, 17]), N, B, COUNT)


# what must be found: the benchmark measures how often it is


@pytest.mark.parametrize("name", DEPARTURES)
def test_what_only_looks_like_a_scheme_is_no_match(name: str) -> None:
    for seed in range(4):
        finding = watch(draw_400(DEPARTURES[name], seed), records=N)
        assert (finding.sampling, finding.scheme) == (None, Scheme.UNKNOWN)


@pytest.mark.parametrize("cap", [60, 64])
@pytest.mark.parametrize("rate", [0.0064, 0.005])
def test_truncated_batches_of_jax_privacy_are_neither_a_match_nor_covered(cap: int, rate: float) -> None:
    selection = pytest.importorskip("jax_privacy.batch_selection")
    strategy = selection.CyclicPoissonSampling(sampling_prob=rate, iterations=400, truncated_batch_size=cap)
    run = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=rate)) * 400
    finding = watch(strategy.batch_iterator(N, rng=np.random.default_rng(1)), records=N)
    assert "sizes seem to have a cap. Batches that are truncated are not Poisson sampled" in finding.sentence
    assert audit(finding, run, delta=1e-5, relation=tr.ADD_OR_REMOVE).verdict is Verdict.UNKNOWN


def test_poisson_batches_of_jax_privacy_are_a_match() -> None:
    selection = pytest.importorskip("jax_privacy.batch_selection")
    strategy = selection.CyclicPoissonSampling(sampling_prob=0.0064, iterations=400)
    run = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.0064)) * 400
    finding = watch(strategy.batch_iterator(N, rng=np.random.default_rng(1)), records=N)
    assert audit(finding, run, delta=1e-5, relation=tr.ADD_OR_REMOVE).verdict is Verdict.MATCHES


@pytest.mark.parametrize("name", ["CyclicPoissonSampling", "BMinSepSampling"])
def test_batches_of_jax_privacy_that_keep_records_apart_are_no_match(name: str) -> None:
    selection = pytest.importorskip("jax_privacy.batch_selection")
    apart = {"cycle_length": 2} if name == "CyclicPoissonSampling" else {"min_sep": 2}
    strategy = getattr(selection, name)(sampling_prob=0.0128, iterations=400, **apart)
    finding = watch(strategy.batch_iterator(N, rng=np.random.default_rng(1)), records=N)
    assert finding.sampling is None
    assert "No record came twice within an epoch of 2 batches." in finding.sentence


def test_other_schemes_are_named_in_400_batches() -> None:
    assert watch(draw_400(shuffled, 1), records=N).scheme is Scheme.SHUFFLE
    finding = watch(draw_400(repeating, 1), records=N, repeats_allowed=True)
    assert finding.scheme is Scheme.WITH_REPLACEMENT


def test_one_shuffled_epoch_cut_at_binomial_sizes_is_no_match() -> None:
    rng = np.random.default_rng(1)
    bounds = np.cumsum(binomial(rng, N, B, 150))
    assert watch(np.split(rng.permutation(N), bounds)[:150], records=N).sampling is None


def test_records_that_never_come_are_noticed() -> None:
    rng = np.random.default_rng(1)
    batches = [batch + 300 for batch in poisson(rng, 9_700, B, COUNT)]
    finding = watch(batches, records=N)
    assert finding.sampling is None
    assert (
        "What rules out Poisson sampling: 976 records never came where 752 are expected" in finding.sentence
    )


def test_sizes_that_foretell_the_next_are_noticed() -> None:
    def wave(rng: np.random.Generator, n: int, b: int, count: int) -> NDArray[np.int64]:
        drawn = np.sort(binomial(rng, n, b, count))
        return drawn[
            np.argsort(np.sin(np.arange(count) / 3) + rng.normal(size=count), kind="stable").argsort()
        ]

    sentence = watch(draw_400(of_sizes(wave), 1), records=N).sentence
    assert "What rules out Poisson sampling: the square roots of sizes" in sentence
    assert "batches apart have the correlation -0." in sentence


def test_a_batch_that_shares_most_of_another_is_noticed() -> None:
    batches = draw_400(subsets, 1)
    batches[300] = np.unique(np.concatenate([batches[20][:40], batches[300]]))[:B]
    finding = watch(batches, records=N)
    assert finding.sampling is None
    assert "What rules out batches of fixed size without replacement: two batches have" in finding.sentence


# sentences


def sentence_of(batches: list[NDArray[np.int64]], records: int = N) -> str:
    finding = watch(batches, records=records)
    assert finding.scheme is Scheme.UNKNOWN
    return finding.sentence


def test_a_seed_that_is_set_again_is_described_as_what_was_seen() -> None:
    assert sentence_of(draw_400(DEPARTURES["the same seed again"], 1)) == (
        "No scheme that is known here fits these batches: from batch 157 on, each batch holds the same "
        "records as the one 156 before it, as if the same seed were set again."
    )


def test_batches_that_come_again_in_another_order_are_counted() -> None:
    rng = np.random.default_rng(1)
    parts = cut(rng.permutation(1000), 20)
    again = epochs(lambda: [parts[k] for k in rng.permutation(50)], 200)
    assert "150 of 200 batches hold the same records as an earlier one." in sentence_of(again, 1000)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("half in pairs", "What rules out Poisson sampling: pairs of batches share 1"),
        ("capped at 76", "exactly 76 records, and none holds more where about 2"),
        ("padded up to 56", "exactly 56 records, and none holds fewer where about"),
        ("cut to even", "400 of 400 sizes are multiples of 2 where 200 are expected"),
        ("cut to multiples of 3", "400 of 400 sizes are multiples of 3 where 133 are expected"),
    ],
)
def test_the_law_that_is_broken_is_named(name: str, said: str) -> None:
    assert said in sentence_of(draw_400(DEPARTURES[name], 1))


def saw_against(scheme: Scheme, batches: list[NDArray[np.int64]], records: int = N) -> str:
    tests = watch(batches, records=records, repeats_allowed=True).tests
    return next(test.saw for test in tests if test.hypothesis == scheme.value)


def test_records_in_common_are_counted_by_pairs_of_batches() -> None:
    batches = draw_400(poisson, 1)
    common = sum(len(np.intersect1d(*pair)) for pair in combinations(batches[:40], 2))
    said = saw_against(Scheme.WEIGHTED, batches[:40])
    assert said.startswith(f"pairs of batches have {common:,} records in common where weights that vary")


def test_a_batch_that_always_comes_again_is_not_said_never_to() -> None:
    always = np.random.default_rng(1).choice(N, B, replace=False)
    said = saw_against(Scheme.FIXED_PARTITION, [always] * 200)
    assert said == "batches are neither the same parts of the dataset over and over, nor its records in order"


def test_the_first_epoch_is_not_said_to_have_come_before() -> None:
    parts = cut(np.random.default_rng(1).permutation(N), B)
    assert watch([*parts, *parts], records=N).sentence == (
        "These batches are the same in every epoch: from batch 157 on, each batch holds the same records as "
        "the one 156 before it."
    )


def test_a_standard_deviation_is_told_beside_the_one_that_is_expected() -> None:
    drawn = BatchStatistics(join(draw_400(poisson, 1), N))
    deviation, mean = drawn.sizes.std(), drawn.sizes.mean()
    expected = (mean * (1 - mean / N) * (1 - 1 / COUNT)) ** 0.5  # given the sum
    said = f"with the standard deviation {deviation:.3g} where {expected:.3g} is expected"
    assert drawn.dispersion.saw.endswith(said)


def test_one_is_not_many_and_a_small_dataset_not_few_batches() -> None:
    assert sentence_of([np.arange(3)], 10).startswith("1 batch is too few to tell how batches are drawn")
    assert sentence_of([np.arange(10)], 10).startswith("1 batch holds all 10 records, but")
    two = [np.array([0]), np.array([1]), np.array([0, 1])]
    assert sentence_of(two * 50, 2) == "A dataset of 2 records is too small to tell how batches are drawn."
    often = [batch for batch in poisson(np.random.default_rng(1), 1000, 2, 800) if len(batch)]
    assert "batches hold 1 record, and none holds fewer" in saw_against(Scheme.POISSON, often, 1000)


def test_schemes_that_cannot_be_told_apart_are_named_as_things() -> None:
    assert "to tell Poisson sampling and draws with weights apart" in sentence_of(
        poisson(np.random.default_rng([3, 1000, 10]), 1000, 10, 200), 1000
    )


def test_weights_are_not_named_where_only_sizes_are_wrong() -> None:
    # too few draws to rule weights out, and sizes that no scheme has
    batches = of_sizes(lambda *how: 2 * (binomial(*how) // 2))(np.random.default_rng(1), 100_000, 64, 120)
    assert sentence_of(batches, 100_000).startswith(
        'Only "drawn with weights" is not ruled out, and nothing speaks for it. What rules out Poisson'
    )


def test_batches_in_order_are_not_said_to_come_again() -> None:
    finding = watch(cut(np.arange(N), B), records=N)
    assert finding.scheme is Scheme.FIXED_PARTITION
    assert finding.sentence == (
        "These batches are not random: each begins in the dataset where the one before it ended, or anew at "
        "the first record."
    )


# what is enough


def test_few_batches_are_not_enough_for_the_law_of_sizes() -> None:
    rng = np.random.default_rng(1)
    few = watch(poisson(rng, 20_000, 1000, 60), records=20_000)
    assert few.scheme is Scheme.UNKNOWN
    assert few.sentence == (
        "These 60 batches agree with Poisson sampling, but they are too few to test the law of their sizes: "
        "about 95 would do."
    )
    assert watch(poisson(rng, 20_000, 1000, 95), records=20_000).scheme is Scheme.POISSON


def test_what_was_tested_and_what_may_go_unnoticed_is_said() -> None:
    notes = " ".join(watch(draw_400(poisson, 1), records=N).notes)
    for said in (
        "Tested: sizes against the whole binomial law, at both ends, for remainders and in their order;",
        "All tests share an error level of 0.0007.",
        "one record that comes up to 7 times as often as the others, may go unnoticed",
        "A few records that always come together may go unnoticed if they came fewer than 6 times.",
        "A cap or a floor that at most 3.8% of the sizes would lie beyond may go unnoticed.",
    ):
        assert said in notes
    assert "Tested: how often single records come" in " ".join(watch(draw_400(subsets, 1), records=N).notes)


def test_two_records_that_come_together_as_often_as_is_said_are_noticed() -> None:
    batches = draw_400(poisson, 1)
    for number in range(0, 6 * 50, 50):
        batches[number] = np.unique(np.append(batches[number], [3, 4_000]))
    found = BatchStatistics(join(batches, N)).tied[1]
    assert found.weighed < LEVEL
    assert found.saw == "two records came together 6 times where 0.017 are expected"


# p-values


SIZE_TESTS: dict[str, Callable[[NDArray[np.int64], SizeLaw], Clue]] = {
    "whole law": sizes.weigh_whole_law,
    "largest": lambda drawn, law: ends.weigh_ends(drawn, law).largest[0],
    "how many have it": lambda drawn, law: ends.weigh_ends(drawn, law).largest[1],
    "smallest": lambda drawn, law: ends.weigh_ends(drawn, law).smallest[0],
    "how many have that": lambda drawn, law: ends.weigh_ends(drawn, law).smallest[1],
    "remainders": sizes.weigh_remainders,
    "order": lambda drawn, _: sizes.weigh_order(drawn),
}


SMALL = [(30, 3, 12), (100, 2, 50), (20, 10, 40), (300, 10, 40), (1000, 2, 100), (100, 50, 80), (50, 1, 90)]


@cache
def binomial_sizes(n: int, b: int, count: int) -> list[tuple[Any, Any]]:
    """200 recordings of binomial sizes, each with its law, which every test of sizes asks for."""
    rng = np.random.default_rng([n, b, count])
    drawn = [rng.binomial(n, b / n, size=count) for _ in range(200)]
    return [(sizes, find_size_law(sizes, n)) for sizes in drawn]


@pytest.mark.parametrize(("n", "b", "count"), [(N, B, 400), *SMALL])
@pytest.mark.parametrize("name", SIZE_TESTS)
def test_p_values_of_binomial_sizes_are_small_as_rarely_as_they_say(
    name: str, n: int, b: int, count: int
) -> None:
    values = [SIZE_TESTS[name](drawn, law).p_value for drawn, law in binomial_sizes(n, b, count)]
    assert np.mean(np.array(values) < 0.01) <= 0.01 + 0.4 / 200**0.5


@pytest.mark.parametrize(("n", "b", "count"), [(30, 3, 12), (100, 2, 50), (20, 10, 40), (300, 10, 40)])
@pytest.mark.parametrize("draw", [poisson, subsets])
def test_so_are_those_of_records_that_come_together(draw: Draw, n: int, b: int, count: int) -> None:
    values = []
    for seed in range(200):
        stats = BatchStatistics(join(draw(np.random.default_rng([seed, 8]), n, b, count), n))
        values.append([clue.p_value for clue in stats.tied])
    assert (np.mean(np.array(values) < 0.01, axis=0) <= 0.01 + 0.4 / 200**0.5).all()


def test_the_law_of_a_size_is_hypergeometric() -> None:
    from scipy.stats import hypergeom

    drawn = np.array([3, 5, 9, 0, 4, 4])
    law = find_size_law(drawn, 11)
    expected = hypergeom.pmf(law.least + np.arange(len(law.chances)), 66, drawn.sum(), 11)
    assert law.chances == pytest.approx(expected, rel=1e-12)


def law_of_sums(n: int, mean: float, count: int, cap: int) -> NDArray[np.float64]:
    """P(no size is above the cap, and they add up to s), for s = 0, 1, ..."""
    from scipy.stats import binom

    one, length = binom.pmf(np.arange(cap + 1), n, mean / n), cap * count + 1
    return np.fft.irfft(np.fft.rfft(one, length + 1) ** count, length + 1)[:length]


@pytest.mark.parametrize(("n", "b", "count", "most"), [(50, 1, 90, 9), (300, 8, 99, 22)])
def test_the_largest_size_rules_out_true_sizes_no_more_often_than_it_says(
    n: int, b: int, count: int, most: int
) -> None:
    """By the exact law of the largest size and the sum, which its p-value is made of."""
    far = round(6 * (b * count) ** 0.5)
    sums = np.arange(b * count - far, b * count + far)
    p_values = np.ones((most + 1, len(sums)))
    for place, total in enumerate(sums.tolist()):
        law = find_size_law(np.bincount(np.arange(total) % count, minlength=count), n)
        rows = ends.tabulate_nearby(law)
        for largest in range(law.least, most + 1):
            p_values[largest, place] = ends.weigh_reach(rows, largest - law.least, count)
            if p_values[largest, place] > 0.02:
                break
    for mean in b + np.linspace(-2, 2, 9) * (b / count) ** 0.5:
        up_to = np.zeros((most + 2, len(sums)))
        for largest in range(most + 1):
            law_of_sum = law_of_sums(n, float(mean), count, largest)
            reached = sums < len(law_of_sum)
            up_to[largest + 1, reached] = law_of_sum[sums[reached]]
        chances = np.diff(up_to, axis=0)
        assert 0.8 < chances.sum() < 1.0001
        for level in (1e-2, 1e-3, 5e-4, 1e-4):
            assert chances[p_values < level].sum() <= level


def test_what_the_largest_size_is_weighed_by_is_exact_to_half_a_percent() -> None:
    everything = law_of_sums(N, 63.5, COUNT, 150)
    for total in (25_000, 25_400, 25_800):
        law = find_size_law(np.bincount(np.arange(total) % COUNT), N)
        rows = ends.tabulate_nearby(law)
        found = ends.chance_none_beyond(rows, COUNT)[len(rows) // 2]
        for cap in (80, 82, 85):
            exact = law_of_sums(N, 63.5, COUNT, cap)[total] / everything[total]
            assert found[cap - law.least] == pytest.approx(exact, rel=0.005)


def test_sizes_that_are_drawn_again_above_two_standard_deviations_are_mostly_found() -> None:
    found = 0
    for seed in range(100):
        drawn = binomial(np.random.default_rng([seed, 80]), N, B, 500)
        drawn = drawn[drawn <= 80][:COUNT]
        found += ends.weigh_ends(drawn, find_size_law(drawn, N)).largest[0].weighed < LEVEL
    assert found >= 90


def test_what_finds_nearly_all_sizes_that_are_drawn_again_above_80_must_raise_false_alarms() -> None:
    """A test that may know it all but the rate: it finds 99 of 100, or alarms 7 times in 10,000 true ones.

    Given the sum, such sizes have the law of true ones of which none is above 80, so that against a true rate
    just below, the best test looks at the sum alone: those that are large enough.
    """
    again = law_of_sums(N, 64.0, COUNT, 80)
    reached = np.cumsum(again[::-1])[::-1] / again.sum()
    least = int(np.flatnonzero(reached >= 0.99)[-1])
    assert law_of_sums(N, 63.0, COUNT, 80)[least:].sum() > 7e-4


def test_moments_of_shared_pairs_and_of_missing_records_are_exact() -> None:
    drawn, n, recordings = np.array([2, 3, 5, 4]), 7, 100_000
    rng = np.random.default_rng(1)
    inside = np.argsort(rng.random((recordings, 4, n)), axis=2) < drawn[:, None]
    together = np.einsum("kir,kis->krs", inside, inside, dtype=float)
    common = (together * (together - 1) / 2)[:, *np.triu_indices(n, 1)].sum(axis=1)
    never = (~inside.any(axis=1)).sum(axis=1)
    expected, missing = ties.common_moments(drawn, n), missing_moments(drawn, n)
    for seen, moments, powers in ((common, expected, (1, 2, 3)), (never, missing, (1, 2))):
        off = seen - moments.mean
        for power, moment in zip(powers, (0.0, moments.variance, moments.third), strict=False):
            spread = float(np.std(off**power)) / recordings**0.5
            assert np.mean(off**power) == pytest.approx(float(moment), abs=5 * spread)


def test_pairs_are_counted_as_one_by_one() -> None:
    batches = join(poisson(np.random.default_rng(1), 50, 10, 30), 50)
    shared = ties.list_shared(batches)
    inside = np.zeros((30, 50))
    inside[batches.batch, batches.drawn] = 1
    by_batch, by_record = inside @ inside.T, inside.T @ inside
    assert sorted(shared.widths) == sorted(
        by_batch[np.triu_indices(30, 1)][by_batch[np.triu_indices(30, 1)] > 0]
    )
    together = by_record[np.triu_indices(50, 1)]
    assert shared.common == len(shared.list_common()) == (together * (together - 1) / 2).sum()
    assert ties.weigh_closest_records(shared).saw.startswith(
        f"two records came together {together.max():.0f} times"
    )


def test_dense_recordings_are_looked_at_in_part_and_ties_are_still_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ties, "MOST_SHARED", 30_000)
    rng = np.random.default_rng(1)
    free, bound = poisson(rng, 4000, 800, 60), tied(rng, 4000, rng.binomial(4000, 0.2, size=60))
    for batches, is_tied in ((free, False), (bound, True)):
        stats = BatchStatistics(join(batches, 4000))
        assert len(stats.shared.pair) < 30_000
        assert stats.shared.where == f"among {stats.shared.records:,} of the records"
        assert all(
            clue.saw.startswith(f"among {stats.shared.records:,} of the records, ") for clue in stats.tied
        )
        assert any(clue.weighed < LEVEL for clue in stats.tied) is is_tied


def test_where_only_the_first_batches_were_compared_this_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ties, "MOST_SHARED", 1_000)
    shared = ties.list_shared(join(poisson(np.random.default_rng(1), 100, 50, 60), 100))
    assert shared.where == f"in the first {len(shared.sizes)} batches"
    assert shared.tell("two batches are alike") == f"{shared.where}, two batches are alike"


def test_batches_that_are_always_the_same_do_not_fill_the_memory() -> None:
    always = np.random.default_rng(1).choice(N, B, replace=False)
    assert "from batch 2 on, each batch holds the same records as the one before it" in sentence_of(
        [always] * 2000
    )


# how much work it is; benchmarks/watching.py measures what that takes


@pytest.mark.parametrize(("n", "b"), [(N, 64), (N, 1), (50_000, 64), (50_000, 4)])
def test_three_shuffled_epochs_are_found_among_a_bounded_number_of_cuts_and_pairs(n: int, b: int) -> None:
    batches = shuffled(np.random.default_rng(1), n, b, 3 * (n // b))
    finding = watch(batches, records=n)
    assert (finding.scheme, finding.epoch) == (Scheme.SHUFFLE, n // b)
    stats = BatchStatistics(join(batches, n))
    assert len(stats.shared.pair) <= 3 * n  # of three times that a record comes, three pairs
    lengths = Counter(cut.length for cut in stats.cuts)
    assert len(lengths) <= epoch_cuts.LONGEST_TRIED + 2 * epoch_cuts.NEAR + 1
    assert max(lengths.values()) <= 3 * epoch_cuts.KEPT


def test_the_work_on_400_batches_grows_no_faster_than_the_pairs_that_share_a_record() -> None:
    stats = BatchStatistics(join(draw_400(poisson, 1), N))
    expected = COUNT * (COUNT - 1) / 2 * B**2 / N
    assert len(stats.shared.pair) < 1.1 * expected
    assert stats.cuts == []
