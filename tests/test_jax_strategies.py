"""jax_privacy's batch selection strategies are read as what they draw, and never as plain Poisson if not."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax_privacy", reason="jax_privacy is not installed: make training")

from jax_privacy.batch_selection import (
    BallsInBinsSampling,
    BatchSelectionStrategy,
    BMinSepSampling,
    CyclicPoissonSampling,
    FixedBatchSampling,
    PartitionType,
    UserSelectionStrategy,
    pad_to_multiple_of,
)

import tightrope as tr
from tightrope.audit import Finding, Scheme, Verdict, audit, inspect_loader, watch
from tightrope.errors import InvalidSetting

RECORDS = 1000
GAUSSIAN = tr.Gaussian(noise_multiplier=1)
INDEPENDENT, EQUAL_SPLIT = PartitionType.INDEPENDENT, PartitionType.EQUAL_SPLIT


def read(strategy: Any, records: int = RECORDS) -> Finding:
    return inspect_loader(strategy, records=records)


def draw(strategy: Any, records: int = RECORDS, seed: int = 1) -> list[list[int]]:
    return [batch.tolist() for batch in strategy.batch_iterator(records, rng=seed)]


def poisson(**how: Any) -> CyclicPoissonSampling:
    return CyclicPoissonSampling(**{"sampling_prob": 0.05, "iterations": 400, **how})


# --- what has a sampling


@pytest.mark.parametrize("partition", [INDEPENDENT, EQUAL_SPLIT])
@pytest.mark.parametrize("limit", [None, RECORDS, 10 * RECORDS])
def test_plain_poisson_is_poisson_and_a_limit_that_is_never_reached_changes_nothing(
    partition: PartitionType, limit: int | None
) -> None:
    strategy = poisson(partition_type=partition, truncated_batch_size=limit)
    finding = read(strategy)
    assert (finding.scheme, finding.sampling, finding.records) == (
        Scheme.POISSON,
        tr.Poisson(rate=0.05),
        RECORDS,
    )
    assert finding.sentence == (
        "This strategy draws Poisson batches: each of the 1,000 records joins each batch on its own, with "
        "probability 0.05."
    )
    assert finding.notes[0] == "One batch_iterator yields 400 batches: account as many steps for each."
    assert finding.notes[1].startswith("Cannot be seen: the rng that each batch_iterator is given.")
    assert "-1 in a padded batch" in finding.notes[2]
    drawn = draw(strategy)
    assert len(drawn) == 400
    seen = watch(drawn, records=RECORDS)
    assert seen.scheme is Scheme.POISSON
    run = tr.Step(GAUSSIAN, tr.Poisson(rate=0.05)) * 400
    for found in (
        audit(strategy, run, delta=1e-5, relation="add-or-remove", records=RECORDS),
        audit(seen, run, delta=1e-5, relation="add-or-remove"),
    ):
        assert found.verdict is Verdict.MATCHES


def test_a_padded_batch_holds_the_drawn_records_and_minus_ones() -> None:
    batch = np.array(draw(poisson())[0])
    padded = pad_to_multiple_of(batch, 64)
    assert padded[: len(batch)].tolist() == batch.tolist()
    assert set(padded[len(batch) :].tolist()) == {-1}


def test_fixed_batches_are_drawn_afresh_without_replacement() -> None:
    strategy = FixedBatchSampling(batch_size=50, iterations=400)
    finding = read(strategy)
    assert (finding.scheme, finding.batch) == (Scheme.WITHOUT_REPLACEMENT, 50)
    assert finding.sampling == tr.WithoutReplacement(batch=50, population=RECORDS)
    assert watch(draw(strategy), records=RECORDS).scheme is Scheme.WITHOUT_REPLACEMENT
    run = tr.Step(GAUSSIAN, tr.Poisson(rate=0.05)) * 400
    assert (
        audit(strategy, run, delta=1e-5, relation="add-or-remove", records=RECORDS).verdict
        is Verdict.TOO_SMALL
    )


def test_one_group_or_one_bin_is_every_record() -> None:
    strategy = BallsInBinsSampling(iterations=5, cycle_length=1)
    finding = read(strategy, 20)
    assert (finding.scheme, finding.sampling) == (Scheme.EVERY_RECORD, tr.EveryRecord())
    assert all(sorted(batch) == list(range(20)) for batch in draw(strategy, 20))
    assert read(poisson(sampling_prob=1), 20).sampling == tr.Poisson(rate=1)
    assert all(sorted(batch) == list(range(20)) for batch in draw(poisson(sampling_prob=1, iterations=3), 20))


@pytest.mark.parametrize("partition", [INDEPENDENT, EQUAL_SPLIT])
def test_truncated_batches_from_all_records_are_truncated_poisson_and_not_poisson(
    partition: PartitionType,
) -> None:
    strategy = poisson(truncated_batch_size=55, partition_type=partition)
    finding = read(strategy)
    capped = tr.TruncatedPoisson(rate=0.05, at_most=55, population=RECORDS)
    assert (finding.scheme, finding.sampling) == (Scheme.TRUNCATED_POISSON, capped)
    assert finding.sentence == (
        "This strategy draws Poisson batches of the 1,000 records at rate 0.05, and keeps a random 55 of "
        "those that have more."
    )
    drawn = draw(strategy)
    assert max(map(len, drawn)) == 55
    times = Counter(itertools.chain(*drawn))  # which records are dropped does not depend on their place
    halves = [sum(times[record] for record in range(start, start + 500)) for start in (0, 500)]
    assert abs(halves[0] - halves[1]) < 4 * sum(halves) ** 0.5
    run = tr.Step(GAUSSIAN, tr.Poisson(rate=0.05)) * 400
    result = audit(strategy, run, delta=1e-5, relation="add-or-remove", records=RECORDS)
    assert result.verdict is not Verdict.MATCHES


@pytest.mark.parametrize(
    "strategy",
    [
        BallsInBinsSampling(iterations=10, cycle_length=10),
        CyclicPoissonSampling(sampling_prob=1, iterations=10, cycle_length=10, partition_type=INDEPENDENT),
    ],
    ids=["BallsInBinsSampling", "CyclicPoissonSampling"],
)
def test_one_pass_of_balls_in_bins_is_that_sampling_and_so_is_one_iterator_for_each_pass(
    strategy: Any,
) -> None:
    finding, bins = read(strategy), tr.BallsInBins(batches=10)
    assert (finding.scheme, finding.sampling, finding.epoch) == (Scheme.BALLS_IN_BINS, bins, 10)
    passes = [draw(strategy, seed=seed) for seed in (1, 2)]
    for one in passes:
        assert sorted(itertools.chain(*one)) == list(range(RECORDS))
    assert list(map(sorted, passes[0])) != list(map(sorted, passes[1]))
    for steps in (10, 20):
        run = tr.Step(GAUSSIAN, bins) * steps
        result = audit(strategy, run, delta=1e-5, relation="add-or-remove", records=RECORDS)
        assert result.verdict is Verdict.MATCHES


@pytest.mark.parametrize("iterations", [9, 11, 20])
def test_an_iterator_that_does_not_end_with_its_pass_is_no_such_sampling(iterations: int) -> None:
    assert read(BallsInBinsSampling(iterations=iterations, cycle_length=10)).sampling is None


# --- what has a bound


@pytest.mark.parametrize(
    "strategy",
    [
        BallsInBinsSampling(iterations=30, cycle_length=10),
        CyclicPoissonSampling(sampling_prob=1, iterations=30, cycle_length=10, partition_type=INDEPENDENT),
    ],
    ids=["BallsInBinsSampling", "CyclicPoissonSampling"],
)
def test_balls_in_bins_come_in_the_same_bin_of_every_cycle(strategy: Any) -> None:
    finding = read(strategy)
    assert (finding.scheme, finding.epoch, finding.sampling) == (Scheme.BALLS_IN_BINS, 10, None)
    assert (finding.times, finding.reshuffles) == (1, False)
    drawn = draw(strategy)
    assert drawn[:10] == drawn[10:20] == drawn[20:] or list(map(sorted, drawn[:10])) == list(
        map(sorted, drawn[10:20])
    )
    assert sorted(itertools.chain(*drawn[:10])) == list(range(RECORDS))
    sizes = [len(batch) for batch in drawn[:10]]
    assert len(set(sizes)) > 1  # each record by itself: sizes vary
    run = tr.Step(GAUSSIAN, tr.Poisson(rate=0.1)) * 30
    result = audit(strategy, run, delta=1e-5, relation="add-or-remove", records=RECORDS)
    full = tr.epsilon(tr.Step(GAUSSIAN, tr.EveryRecord()) * 3, delta=1e-5, relation="add-or-remove")
    assert result.proved.upper == full.upper
    assert not result.verdict.holds


@pytest.mark.parametrize("records", [100, 107])
def test_whole_groups_of_equal_size_are_shuffled_once(records: int) -> None:
    strategy = CyclicPoissonSampling(sampling_prob=1, iterations=20, cycle_length=10)
    finding, drawn = read(strategy, records), draw(strategy, records)
    assert (finding.scheme, finding.batch, finding.epoch, finding.reshuffles) == (
        Scheme.SHUFFLE,
        10,
        10,
        False,
    )
    assert list(map(sorted, drawn[:10])) == list(map(sorted, drawn[10:]))
    assert {len(batch) for batch in drawn} == {10}
    assert len(set(itertools.chain(*drawn))) == 100
    # whether one record fewer leaves all batches as large
    fewer = {len(batch) for batch in draw(strategy, records - 1)}
    assert finding.removal_changes_one_slot == (fewer == {10})
    assert (finding.full is not None) == (fewer == {10})
    assert any("7 records, drawn at random, are never used" in note for note in finding.notes) == (
        records == 107
    )


def test_with_replacement_a_batch_may_hold_a_record_twice() -> None:
    strategy = FixedBatchSampling(batch_size=50, iterations=400, replace=True)
    finding = read(strategy)
    assert (finding.scheme, finding.batch, finding.share) == (Scheme.WITH_REPLACEMENT, 50, 1e-3)
    drawn = draw(strategy)
    assert {len(batch) for batch in drawn} == {50}
    assert any(max(Counter(batch).values()) > 1 for batch in drawn)
    larger = FixedBatchSampling(batch_size=30, iterations=2, replace=True)
    assert read(larger, 20).batch == len(draw(larger, 20)[0])


# --- what no theorem here covers


def test_truncated_batches_of_one_group_in_turn_are_not_poisson() -> None:
    strategy = poisson(truncated_batch_size=12, cycle_length=4)
    finding = read(strategy)
    assert (finding.scheme, finding.sampling) == (Scheme.UNKNOWN, None)
    assert "cuts those of more than 12 records down to that size" in finding.sentence
    assert "not plain Poisson sampling" in finding.sentence
    assert max(map(len, draw(strategy))) == 12
    cut = float(finding.sentence.split("probability about ")[1].split(")")[0])
    often = sum(len(batch) > 12 for batch in draw(poisson(cycle_length=4))) / 400
    assert cut == pytest.approx(often, abs=0.08)
    run = tr.Step(GAUSSIAN, tr.Poisson(rate=0.05)) * 400
    result = audit(strategy, run, delta=1e-5, relation="add-or-remove", records=RECORDS)
    assert result.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("partition", [INDEPENDENT, EQUAL_SPLIT])
def test_cyclic_poisson_is_not_poisson_from_all_records(partition: PartitionType) -> None:
    strategy = poisson(cycle_length=4, sampling_prob=0.2, partition_type=partition)
    finding = read(strategy)
    assert (finding.scheme, finding.sampling) == (Scheme.UNKNOWN, None)
    assert "every 4th batch only" in finding.sentence
    assert ("banded_run accounts for it" in finding.sentence) == (partition is INDEPENDENT)
    turns: dict[int, set[int]] = {}
    for step, batch in enumerate(draw(strategy)):
        for record in batch:
            turns.setdefault(record, set()).add(step % 4)
    assert all(len(turn) == 1 for turn in turns.values())
    # groups of 250 never reach a limit of 300; those that records choose by themselves may
    limited = poisson(cycle_length=4, truncated_batch_size=300, partition_type=partition)
    assert ("cuts" in read(limited).sentence) == (partition is INDEPENDENT)


def test_records_kept_apart_are_not_poisson() -> None:
    strategy = BMinSepSampling(sampling_prob=0.2, iterations=50, min_sep=3)
    finding = read(strategy)
    assert finding.scheme is Scheme.UNKNOWN
    assert "one of the last 2 batches" in finding.sentence
    drawn = list(map(set, draw(strategy)))
    assert all(not a & b for a, b in itertools.pairwise(drawn))


def test_users_are_the_records_of_their_base_strategy() -> None:
    single = UserSelectionStrategy(poisson(), 1)
    finding = read(single)
    assert finding.sampling == tr.Poisson(rate=0.05)
    assert finding.notes[0] == "Users are drawn: records= must count them."
    owners = np.repeat(np.arange(RECORDS), 2)
    batch = next(single.batch_iterator(owners, rng=1))
    assert batch.shape[1] == 1
    assert len(set(owners[batch[:, 0]])) == len(batch)
    several = read(UserSelectionStrategy(poisson(), 2))
    assert (several.scheme, several.sampling) == (Scheme.UNKNOWN, None)
    assert "clipped as one" in several.sentence


class OwnStrategy(CyclicPoissonSampling):  # type: ignore[misc]
    pass


class OtherStrategy(BatchSelectionStrategy):  # type: ignore[misc]
    def batch_iterator(self, num_examples: int, rng: Any = None) -> Any:
        return iter([np.arange(num_examples)])


REFUSED: dict[str, Callable[[], Any]] = {
    "records must be the number of examples, got None. A strategy holds no dataset": lambda: inspect_loader(
        poisson()
    ),
    "records must be left out, got 10. The loader or the sampler tells": lambda: inspect_loader(
        [1], records=10
    ),
    "records must be left out, got 10. Findings": lambda: audit(
        read(poisson()), tr.Step(GAUSSIAN, tr.EveryRecord()), delta=0.1, relation="add", records=10
    ),
    "rate must be in": lambda: read(poisson(sampling_prob=1.5)),
    "got 11 groups of 10 records, so that some are empty": lambda: read(poisson(cycle_length=11), 10),
    "got batches of 20 out of 20 records": lambda: read(FixedBatchSampling(batch_size=20, iterations=2), 20),
    "batch_size must be": lambda: read(FixedBatchSampling(batch_size=0, iterations=2)),
    "iterations must be": lambda: read(poisson(iterations=0)),
    "loader must be a torch DataLoader, got an ABCMeta": lambda: inspect_loader(CyclicPoissonSampling),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_read_as_a_strategy_is_refused(message: str) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        REFUSED[message]()
    assert message in str(refusal.value)


def test_a_strategy_of_your_own_is_not_guessed() -> None:
    for strategy in (OwnStrategy(sampling_prob=0.05, iterations=3), OtherStrategy()):
        finding = read(strategy)
        assert (finding.scheme, finding.sampling) == (Scheme.UNKNOWN, None)
        assert finding.sentence.endswith("watch its batches instead.")


NEW_RNG = "That is what was accounted, provided that each batch_iterator is given a new rng."
BEYOND_ONE_ITERATOR: list[tuple[Any, Any]] = [
    (BallsInBinsSampling(iterations=20, cycle_length=20), tr.BallsInBins(batches=20)),
    (
        CyclicPoissonSampling(sampling_prob=1, iterations=20, cycle_length=20, partition_type=INDEPENDENT),
        tr.BallsInBins(batches=20),
    ),
    (poisson(iterations=20), tr.Poisson(rate=0.05)),
    (
        poisson(iterations=20, truncated_batch_size=55),
        tr.TruncatedPoisson(rate=0.05, at_most=55, population=RECORDS),
    ),
    (FixedBatchSampling(batch_size=50, iterations=20), tr.WithoutReplacement(batch=50, population=RECORDS)),
]


@pytest.mark.parametrize(("strategy", "sampling"), BEYOND_ONE_ITERATOR)
def test_steps_of_more_than_one_iterator_match_on_the_condition_that_each_has_a_new_rng(
    strategy: Any, sampling: Any
) -> None:
    """Five iterators with the same seed yield the same batches, and they matched all the same."""
    assert draw(strategy, seed=1) == draw(strategy, seed=1)
    finding = read(strategy)
    judged = {
        steps: audit(finding, tr.Step(GAUSSIAN, sampling) * steps, delta=1e-5, relation=tr.ADD_OR_REMOVE)
        for steps in (20, 21, 100)
    }
    assert {result.verdict for result in judged.values()} == {Verdict.MATCHES}
    assert NEW_RNG not in judged[20].sentence
    assert all(judged[steps].sentence.endswith(NEW_RNG) for steps in (21, 100))
    assert judged[100].provided == "each batch_iterator is given a new rng"


def test_where_every_record_comes_there_is_nothing_to_draw_and_no_condition() -> None:
    finding = read(BallsInBinsSampling(iterations=5, cycle_length=1), 20)
    result = audit(finding, tr.Step(GAUSSIAN, tr.EveryRecord()) * 10, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    assert (result.verdict, result.provided) == (Verdict.MATCHES, "")
    assert not any("rng" in note for note in finding.notes)


def test_a_statement_keeps_the_condition_on_the_rng() -> None:
    finding = read(BallsInBinsSampling(iterations=20, cycle_length=20))
    kept = Finding.from_plain(finding.plain())
    run = tr.Step(GAUSSIAN, tr.BallsInBins(batches=20)) * 100
    assert audit(kept, run, delta=1e-5, relation=tr.ADD_OR_REMOVE).sentence.endswith(NEW_RNG)
