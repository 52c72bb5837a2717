"""Which scheme drew these batches: decided from indices alone, right or UNKNOWN, by p-values that hold."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import flint
import numpy as np
import pytest
from numpy.typing import NDArray

import tightrope as tr
from draws import (
    DRAWN,
    Draw,
    bins,
    cut,
    partition,
    poisson,
    repeating,
    shuffled,
    shuffled_and_half_used,
    shuffled_with_short_ones,
    subsets,
    weighted,
)
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.recordings.batches import join
from tightrope.audit.recordings.clues import (
    CROWDED_SHARE,
    EVENNESS_SHARE,
    LARGEST_SHARE,
    LEVEL,
    SHARE,
    Clue,
    combine,
)
from tightrope.audit.recordings.hypotheses import BatchStatistics
from tightrope.audit.recordings.naming import find_interval
from tightrope.audit.recordings.overlaps import overlap_moments
from tightrope.audit.recordings.recording import record
from tightrope.audit.recordings.schemes import _test_balls_in_bins, _test_shuffle
from tightrope.audit.recordings.watch import batches_needed, watch


def seen(draw: Draw, seed: int, n: int = 10_000, b: int = 64, count: int = 200) -> Finding:
    batches = draw(np.random.default_rng([seed, n, b, count]), n, b, count)
    return watch(batches, records=n, repeats_allowed=draw is repeating)


# what is decided


@pytest.mark.parametrize(("draw", "scheme"), DRAWN)
def test_each_scheme_is_recognised_in_200_batches_of_64_out_of_10_000(draw: Draw, scheme: Scheme) -> None:
    assert {seen(draw, seed).scheme for seed in range(16)} == {scheme}


@pytest.mark.parametrize(
    ("n", "b", "count"), [(60_000, 256, 130), (1000, 10, 600), (100, 10, 200), (100, 50, 120)]
)
@pytest.mark.parametrize(
    ("draw", "scheme"), [pair for pair in DRAWN[:6] if pair[0] is not shuffled_and_half_used]
)
def test_other_sizes_are_recognised_too(draw: Draw, scheme: Scheme, n: int, b: int, count: int) -> None:
    assert {seen(draw, seed, n, b, count).scheme for seed in range(3)} == {scheme}


def test_tiny_recordings_are_right_or_unknown() -> None:
    answered = 0
    for seed in range(500):
        rng = np.random.default_rng([seed, 1])
        n, count = int(rng.integers(3, 50)), int(rng.integers(1, 40))
        b = int(rng.integers(1, n // 2 + 1))
        draw, scheme = DRAWN[int(rng.integers(len(DRAWN)))]
        # one batch per epoch is a draw without replacement; a partition that is not seen again is a shuffle
        same_law = (draw is shuffled_and_half_used and n // 2 < 2 * b) or (
            draw is partition and count <= n // b
        )
        if same_law or draw is weighted:
            continue
        found = watch(draw(rng, n, b, count), records=n, repeats_allowed=True).scheme
        assert found in (scheme, Scheme.UNKNOWN), (seed, draw.__name__, n, b, count)
        answered += found is scheme
    assert answered > 50


@pytest.mark.parametrize(("draw", "scheme"), DRAWN)
def test_two_batches_say_nothing(draw: Draw, scheme: Scheme) -> None:
    found = seen(draw, 1, count=2)
    assert found.scheme is Scheme.UNKNOWN
    assert found.sentence.startswith("2 batches are too few to tell how batches are drawn: about ")


@pytest.mark.parametrize(("n", "b"), [(10_000, 64), (1000, 10), (60_000, 256), (100, 10), (200, 50)])
@pytest.mark.parametrize(("draw", "scheme"), DRAWN[:2])
def test_as_many_batches_as_are_asked_for_do(draw: Draw, scheme: Scheme, n: int, b: int) -> None:
    needed = batches_needed(n, b)
    assert needed is not None
    assert {seen(draw, seed, n, b, needed).scheme for seed in range(5)} == {scheme}


def test_less_than_an_epoch_is_enough_for_a_shuffle_and_a_note_says_what_was_not_seen() -> None:
    found = seen(shuffled, 1, count=100)
    assert (found.scheme, found.epoch) == (Scheme.SHUFFLE, None)
    assert "Whether the next epoch draws a new order was not seen" in found.notes[0]


# what is said and filled in


def test_a_shuffle_names_its_epoch() -> None:
    found = seen(shuffled, 1)
    assert found.sentence == (
        "These batches are shuffled and cut: no record came twice within an epoch of 156 batches, which "
        "happens to independent draws with probability below 1e-300."
    )
    assert (found.how, found.records, found.batch, found.epoch, found.sampling) == (
        How.WATCHED,
        10_000,
        64,
        156,
        None,
    )
    assert seen(shuffled_with_short_ones, 3, n=1000, b=30).epoch == 34


def test_poisson_gets_an_estimated_rate_with_an_interval_that_holds_it() -> None:
    found = seen(poisson, 1)
    assert found.sampling == tr.Poisson(rate=found.rate or 0)
    assert found.rate == pytest.approx(0.0064, rel=0.03)
    assert "The rate is estimated: 0.006" in found.notes[0]
    assert "99.9% confidence between 0.00" in found.notes[0]
    assert any("logical batches" in note for note in found.notes)


def test_without_replacement_gets_the_exact_sampling() -> None:
    found = seen(subsets, 1)
    assert found.sampling == tr.WithoutReplacement(batch=64, population=10_000)
    assert (found.batch, found.rate) == (64, 0.0064)
    assert found.sentence.startswith(
        "These batches are drawn afresh without replacement: each holds 64 of the 10,000 records"
    )


def test_the_others_get_what_is_known_of_them() -> None:
    assert (seen(repeating, 1).share, seen(repeating, 1).batch) == (1e-4, 64)
    assert (seen(weighted, 1).share, seen(weighted, 1).sampling) == (None, None)
    assert seen(partition, 1).epoch == 156
    assert "Each record comes in one random batch of each epoch" in seen(bins, 1).sentence
    assert seen(weighted, 1).sentence.startswith("Some records come more often than others")


def test_every_scheme_has_a_p_value_and_only_one_is_left() -> None:
    tests = seen(subsets, 1).tests
    assert len({test.hypothesis for test in tests if test.saw}) == len(tests) == 7
    assert [test.hypothesis for test in tests if test.p_value >= LEVEL] == [Scheme.WITHOUT_REPLACEMENT.value]


def test_every_record_in_every_batch() -> None:
    found = watch([range(100)] * 5, records=100)
    assert (found.scheme, found.sampling, found.rate) == (Scheme.EVERY_RECORD, tr.EveryRecord(), 1.0)
    assert watch([range(3)] * 5, records=3).scheme is Scheme.UNKNOWN


# what fits no scheme


def unknown(batches: Iterable[object], n: int = 10_000) -> str:
    found = watch(batches, records=n)
    assert found.scheme is Scheme.UNKNOWN
    return found.sentence


def test_dropped_empty_batches_are_noticed(rng: np.random.Generator) -> None:
    batches = [batch for batch in poisson(rng, 1000, 2, 3000) if len(batch)]
    assert "its empty batches seem to be dropped" in unknown(batches, 1000)


def test_physical_pieces_are_noticed(rng: np.random.Generator) -> None:
    pieces = [piece for batch in poisson(rng, 10_000, 64, 100) for piece in cut(batch, 32, drop_last=False)]
    assert "record the logical batches" in unknown(pieces)


def test_a_dataset_that_is_smaller_than_was_said_is_noticed(rng: np.random.Generator) -> None:
    assert "is that the size of the dataset" in unknown(poisson(rng, 8000, 64, 200))


def test_a_shuffle_buffer_is_no_shuffle(rng: np.random.Generator) -> None:
    order = np.argsort(np.arange(10_000) + rng.uniform(0, 3000, size=10_000))
    assert "mean indices of batches lie further apart" in unknown(cut(order, 64))


def test_a_moving_window_is_not_poisson(rng: np.random.Generator) -> None:
    unknown([batch + 8 * k for k, batch in enumerate(poisson(rng, 8000, 64, 200))])


def test_empty_batches_alone_say_nothing() -> None:
    assert unknown([[], [], []]).startswith("All batches are empty")


# p-values


def calibrated(draw: Draw, names: Iterable[str], n: int, b: int, count: int, recordings: int) -> None:
    values: dict[str, list[float]] = {name: [] for name in names}
    for seed in range(recordings):
        tests = BatchStatistics(join(draw(np.random.default_rng([seed, 5]), n, b, count), n))
        for name, found in values.items():
            found.append(getattr(tests, name).p_value)
    for name, found in values.items():
        # 0.01 plus four standard deviations
        assert np.mean(np.array(found) < 0.01) <= 0.01 + 0.4 / recordings**0.5, name


UNIFORM = ("evenness", "favourite", "left_out", "neighbours", "spread", "top_index", "recurrence", "repeats")
REPEATING = (
    "evenness_with_replacement",
    "favourite_with_replacement",
    "neighbours_with_replacement",
    "repeats_within",
    "spread",
    "top_index",
)
SIZES = [(30, 3, 12), (100, 2, 50), (20, 10, 40), (300, 10, 40)]


@pytest.mark.parametrize(("n", "b", "count"), SIZES)
def test_p_values_of_the_true_scheme_are_small_as_rarely_as_they_say(n: int, b: int, count: int) -> None:
    calibrated(poisson, (*UNIFORM, "dispersion", "equal_sizes"), n, b, count, 200)
    calibrated(subsets, UNIFORM, n, b, count, 200)
    calibrated(repeating, REPEATING, n, b, count, 200)


WHOLE = {Scheme.SHUFFLE: _test_shuffle, Scheme.BALLS_IN_BINS: _test_balls_in_bins}
WHOLE_SCHEMES = [
    (draw, scheme, *size)
    for draw, scheme in DRAWN
    for size in SIZES
    if scheme in WHOLE
    and not (
        draw is shuffled_and_half_used and size[0] // 2 < 2 * size[1]
    )  # one batch per epoch is another scheme
]


@pytest.mark.parametrize(("draw", "scheme", "n", "b", "count"), WHOLE_SCHEMES)
def test_so_are_those_of_whole_schemes(draw: Draw, scheme: Scheme, n: int, b: int, count: int) -> None:
    values = []
    for seed in range(100):
        stats = BatchStatistics(join(draw(np.random.default_rng([seed, 6]), n, b, count), n))
        values.append(WHOLE[scheme](stats).p_value)
    assert np.mean(np.array(values) < 0.01) <= 0.01 + 0.4 / 100**0.5


def test_weights_that_vary_by_more_are_not_ruled_out() -> None:
    values = []
    for seed in range(200):
        rng = np.random.default_rng([seed, 7])
        rates = np.minimum(
            1, 0.02 * rng.uniform(1 - 0.3 * 3**0.5, 1 + 0.3 * 3**0.5, size=1000)
        )  # standard deviation 0.3
        batches = [np.flatnonzero(rng.random(1000) < rates) for _ in range(100)]
        values.append(BatchStatistics(join(batches, 1000)).unevenness.p_value)
    assert np.mean(np.array(values) < 0.01) <= 0.01 + 0.4 / 200**0.5


def test_moments_of_shared_records_are_exact() -> None:
    sizes, n = np.array([1, 2, 4, 3]), 6
    rng = np.random.default_rng(1)
    draws = np.argsort(rng.random((200_000, 4, n)), axis=2) < sizes[:, None]
    counts = draws.sum(axis=1)
    pairs = (counts * (counts - 1) // 2).sum(axis=1)
    expected = overlap_moments(sizes, n)
    off = pairs - expected.mean
    for power, moment in ((1, 0.0), (2, expected.variance), (3, expected.third)):
        assert np.mean(off**power) == pytest.approx(moment, abs=5 * float(np.std(off**power)) / 200_000**0.5)


def test_shares_of_the_level_add_up_to_no_more_than_one() -> None:
    assert LARGEST_SHARE + EVENNESS_SHARE + 2 * CROWDED_SHARE + 16 * SHARE <= 1
    with pytest.raises(AssertionError, match="tests share one level"):
        combine(Scheme.POISSON, [Clue(p_value=0.5, saw="a", share=0.6)] * 2)
    halves = [Clue(p_value=0.01, saw="a", share=0.5), Clue(p_value=0.5, saw="b", share=0.5)]
    assert (combine(Scheme.POISSON, halves).p_value, combine(Scheme.POISSON, halves).clue.saw) == (0.02, "a")


# what is taken and what is refused


class TensorLike:
    """Has what a tensor has: an array on request, or only a list where numpy cannot read it."""

    def __init__(self, values: list[int], *, on_a_device: bool) -> None:
        self.values, self.on_a_device = values, on_a_device

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        if self.on_a_device:
            raise TypeError("copy to host memory first")
        return np.array(self.values)

    def tolist(self) -> list[int]:
        return self.values


def test_batches_may_come_in_many_forms() -> None:
    lists = [batch.tolist() for batch in subsets(np.random.default_rng(1), 500, 30, 200)]
    expected = watch(lists, records=500)
    assert expected.scheme is Scheme.WITHOUT_REPLACEMENT
    forms: list[Iterable[object]] = [
        (tuple(batch) for batch in lists),
        [np.array(batch, dtype=np.int32) for batch in lists],
        [np.array(batch, dtype=np.uint64) for batch in lists],
        [set(batch) for batch in lists],
        [iter(batch) for batch in lists],
        [TensorLike(batch, on_a_device=False) for batch in lists],
        [TensorLike(batch, on_a_device=True) for batch in lists],
        np.array(lists),
    ]
    for form in forms:
        assert watch(form, records=500) == expected


REFUSED: dict[str, tuple[object, object, str]] = {
    "no records": ([[1]], None, "records must be given, got None"),
    "records zero": ([[1]], 0, "records must be at least 1, got 0"),
    "records not whole": ([[1]], 10.0, "records must be a whole number, got 10.0"),
    "records beyond reason": ([[1]], 10**13, r"records must be at most 1e\+12"),
    "out of range": (
        [[1], [2, 10]],
        10,
        r"batches\[1\] must hold indices below records=10, got 10.*changed size",
    ),
    "negative": ([[1], [-3]], 10, r"batches\[1\] must hold no index below 0, got -3"),
    "floats": ([[1.0, 2.5]], 10, r"batches\[0\] must hold indices only, got 1.0"),
    "float array": ([np.array([1.5])], 10, r"batches\[0\] must hold indices only, got 1.5"),
    "bool among numbers": ([[1, True]], 10, r"batches\[0\] must hold indices only, got True"),
    "numpy bool among numbers": (
        [[np.int64(1), np.True_]],
        10,
        r"batches\[0\] must hold indices only, got np.True_",
    ),
    "bools": ([np.array([True, False])], 10, r"batches\[0\] must hold indices only, got True"),
    "texts": ([["a", "b"]], 10, r"batches\[0\] must hold indices only, got 'a'"),
    "huge": ([[2**70]], 10, r"batches\[0\] must hold indices only, got \d+"),
    "huge unsigned": (
        [np.array([2**63], dtype=np.uint64)],
        10,
        r"batches\[0\] must hold indices only, got \d+",
    ),
    "twice": (
        [[1, 2], [3, 4, 3]],
        10,
        r"batches\[1\] must hold each index once, got the index 3 more than once.*repeats_allowed=True",
    ),
    "none": ([], 10, "batches must hold at least one batch, got none"),
    "no iterable": (5, 10, "batches must be an iterable of batches, got 5"),
    "dict": ({"a": 1}, 10, "batches must be an iterable of batches"),
    "flat": (
        [1, 2, 3],
        10,
        r"batches\[0\] must be one flat sequence of indices, got 1. Cut the indices of a sampler",
    ),
    "nested too deep": ([[[1, 2], [3, 4]]], 10, r"batches\[0\] must be one flat sequence of indices"),
    "ragged": ([[[1, 2], [3]]], 10, r"batches\[0\] must be one flat sequence of indices"),
    "text batch": (["12"], 10, r"batches\[0\] must be one flat sequence of indices, got '12'"),
    "examples": ([({"x": 1}, [2])], 10, r"batches\[0\] "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_recording_is_refused(case: str) -> None:
    batches, records, message = REFUSED[case]
    with pytest.raises(tr.InvalidSetting, match=message):
        watch(batches, records=records)  # type: ignore[arg-type]


def test_repeats_are_evidence_where_they_are_allowed() -> None:
    assert watch([[1, 1]], records=3, repeats_allowed=True).scheme is Scheme.UNKNOWN


def test_a_recorded_file_is_watched_and_its_size_must_agree(tmp_path: Path) -> None:
    path = tmp_path / "batches.jsonl"
    batches = subsets(np.random.default_rng(1), 500, 30, 200)
    assert all(
        passed is batch for passed, batch in zip(record(batches, path, records=500), batches, strict=True)
    )
    assert watch(path) == watch(str(path), records=500) == watch(batches, records=500)
    with pytest.raises(
        tr.InvalidSetting, match=r"records must be 500, as .* states, or be left out, got 400"
    ):
        watch(path, records=400)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.mark.parametrize("trials", [10, 1000, 54321])
def test_the_interval_of_a_rate_is_not_narrower_by_any_rounding(trials: int) -> None:
    """In exact integers of millions of bits; as fractions they would be reduced after every step."""

    def parts(probability: Fraction) -> tuple[Any, Any]:
        fails, of = (1 - probability).as_integer_ratio()
        return flint.fmpz(fails), flint.fmpz(of)

    least, most = find_interval(0, trials)
    assert least == 0
    fails, of = parts(Fraction(most))
    assert 2000 * fails**trials <= of**trials  # exactly, and hardly below
    fails, of = parts(Fraction(most) * (1 - Fraction(1, 10**9)))
    assert 2000 * fails**trials > of**trials
    low, high = find_interval(1, trials)
    fails, of = parts(Fraction(low))
    assert 2000 * (of**trials - fails**trials) <= of**trials
    fails, of = parts(Fraction(high))
    assert 2000 * fails ** (trials - 1) * (fails + trials * (of - fails)) <= of**trials  # none, or one
