"""The verdict on a loader agrees with the batches it yields, and is UNKNOWN rather than a guess."""

import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

import torch
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

import tightrope as tr
from loader_passes import dataset, inspected, over, seeded, together, twice
from tightrope.audit.claims.verdict import Verdict
from tightrope.audit.finding import How, Scheme
from tightrope.audit.loaders.inspect import inspect_loader
from tightrope.errors import InvalidSetting
from tightrope.samplers import PoissonSampler
from tightrope.samplers import torch as ours
from tightrope.setting.sampling import EveryRecord, WithoutReplacement

# --- plain loaders


def test_a_shuffled_loader_says_so_in_one_sentence() -> None:
    finding = over(10_000, batch_size=64, shuffle=True)
    assert finding.scheme is Scheme.SHUFFLE
    assert finding.how is How.INSPECTED
    assert (finding.records, finding.batch, finding.epoch, finding.sampling) == (10_000, 64, 157, None)
    assert (finding.times, finding.full, finding.removal_changes_one_slot, finding.reshuffles) == (
        1,
        156,
        True,
        True,
    )
    assert finding.sentence == (
        "This loader shuffles the 10,000 records and cuts them into 157 batches of 64 per epoch "
        "(the last has 16)."
    )
    assert str(over(10_000, batch_size=64, shuffle=True, drop_last=True)) == (
        "This loader shuffles the 10,000 records and cuts them into 156 batches of 64 per epoch.\n"
        "  Note: drop_last leaves 16 records out of each epoch."
    )


def test_a_loader_in_order_is_a_fixed_partition() -> None:
    finding = over(100, batch_size=10)
    assert finding.scheme is Scheme.FIXED_PARTITION
    assert finding.epoch == 10
    assert "same order every time" in finding.sentence


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("batch", [100, 128])
def test_a_batch_of_all_records_is_every_record(shuffle: bool, batch: int) -> None:
    finding = over(100, batch_size=batch, shuffle=shuffle)
    assert (finding.scheme, finding.sampling, finding.batch) == (Scheme.EVERY_RECORD, EveryRecord(), 100)


def test_one_batch_of_a_shuffle_is_without_replacement_and_several_are_not() -> None:
    one = over(1000, batch_size=64, sampler=RandomSampler(range(1000), num_samples=50))
    assert (one.scheme, one.sampling) == (
        Scheme.WITHOUT_REPLACEMENT,
        WithoutReplacement(batch=50, population=1000),
    )
    several = over(1000, batch_size=20, sampler=RandomSampler(range(1000), num_samples=50))
    assert (several.scheme, several.epoch, several.sampling) == (Scheme.SHUFFLE, 3, None)
    assert any("batches of one pass are disjoint" in note for note in several.notes)
    dropped = over(100, batch_size=64, shuffle=True, drop_last=True)
    assert dropped.sampling == WithoutReplacement(batch=64, population=100)


def test_a_batch_that_follows_from_a_given_generator_is_not_drawn_afresh() -> None:
    for draws, batch in ((50, 64), (None, 640)):
        sampler = RandomSampler(range(1000), num_samples=draws, generator=seeded())
        finding = over(1000, batch_size=batch, sampler=sampler, drop_last=draws is None)
        assert (finding.scheme, finding.sampling, finding.epoch) == (Scheme.SHUFFLE, None, 1)
        assert finding.reshuffles is None


def test_a_pass_that_ends_before_the_dataset_is_not_a_shuffle_of_all_records() -> None:
    ends_early = over(100, batch_size=30, sampler=RandomSampler(range(100), num_samples=95))
    assert "(the last has 5)" in ends_early.sentence
    assert ends_early.shuffled is None
    run = tr.Step(tr.Gaussian(noise_multiplier=2), tr.Shuffled.cut(records=100, batch=30)) * 4
    for relation in (tr.ADD_OR_REMOVE, tr.SUBSTITUTE):
        assert tr.audit(ends_early, run, delta=1e-5, relation=relation).verdict is not Verdict.MATCHES


def test_one_batch_in_order_with_the_rest_dropped_is_a_fixed_partition() -> None:
    assert over(100, batch_size=64, drop_last=True).scheme is Scheme.FIXED_PARTITION


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("batch", [1, 3, 4, 6, 12, 13, 24, 30])
@pytest.mark.parametrize("draws", [None, 1, 3, 5, 11, 12, 13, 24, 30])
def test_random_samplers_do_what_is_said_also_with_more_draws_than_records(
    draws: int | None, batch: int, drop_last: bool
) -> None:
    sampler = RandomSampler(range(12), num_samples=draws, generator=seeded())
    loader = DataLoader(dataset(12), batch_size=batch, sampler=sampler, drop_last=drop_last)
    inspected(loader, lambda: together(loader.batch_sampler), 12)


def test_a_batch_across_two_shuffles_may_hold_a_record_twice() -> None:
    finding = over(10, batch_size=4, sampler=RandomSampler(range(10), num_samples=20))
    assert finding.scheme is Scheme.UNKNOWN
    assert "and hold a record twice" in finding.sentence
    sampler = BatchSampler(RandomSampler(range(10), num_samples=20, generator=seeded()), 4, False)
    assert any(twice(step) for _ in range(50) for step in sampler)
    aligned = over(12, batch_size=4, sampler=RandomSampler(range(12), num_samples=24))
    assert (aligned.scheme, aligned.epoch) == (Scheme.SHUFFLE, 3)
    assert "One pass is 2 epochs, each shuffled anew." in aligned.notes


def test_with_replacement_every_record_has_an_equal_share() -> None:
    finding = over(1000, batch_size=50, sampler=RandomSampler(range(1000), replacement=True))
    assert (finding.scheme, finding.share, finding.batch, finding.epoch) == (
        Scheme.WITH_REPLACEMENT,
        1e-3,
        50,
        None,
    )
    assert (
        finding.sentence
        == "This loader draws each batch of 50 one by one from the 1,000 records, with replacement."
    )


def test_shares_are_rounded_up() -> None:
    for records in (3, 49, 1001):
        finding = over(records, batch_size=1, sampler=RandomSampler(range(records), replacement=True))
        assert finding.share is not None
        assert Fraction(finding.share) >= Fraction(1, records)
    weights = [0.1, 0.2, 0.3, 0.7]
    drawn = over(4, batch_size=2, sampler=WeightedRandomSampler(weights, 6))
    exact = [Fraction(weight) for weight in WeightedRandomSampler(weights, 6).weights.tolist()]
    assert drawn.share is not None
    assert Fraction(drawn.share) >= max(exact) / sum(exact)


@pytest.mark.parametrize("scale", [1.0, 2.0**900, 2.0**-1060])
def test_the_share_among_many_weights_is_the_exact_one_rounded_up(scale: float) -> None:
    spread = torch.rand(3000, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) ** 9
    weights = scale * torch.cat([spread, torch.tensor([1.0, 2.0**-40, 0.0])])
    drawn = over(3003, batch_size=2, sampler=WeightedRandomSampler(weights, 6))
    exact = Fraction(float(weights.max())) / sum(map(Fraction, weights.tolist()))
    assert drawn.share is not None
    assert Fraction(math.nextafter(drawn.share, 0)) < exact <= Fraction(drawn.share)


def test_the_share_of_weights_is_the_largest() -> None:
    weights = [1.0, 2.0, 5.0, 0.0]
    drawn = over(4, batch_size=2, sampler=WeightedRandomSampler(weights, 6))
    assert (drawn.scheme, drawn.share, drawn.batch) == (Scheme.WEIGHTED, 5 / 8, 2)
    kept = over(4, batch_size=2, sampler=WeightedRandomSampler(weights, 3, replacement=False))
    assert (kept.scheme, kept.share) == (Scheme.WEIGHTED, None)
    assert "later batches depend on earlier ones" in kept.notes[0]


def test_a_subset_is_shuffled_for_itself() -> None:
    finding = over(1000, batch_size=32, sampler=SubsetRandomSampler(range(100)))
    assert (finding.scheme, finding.records, finding.epoch) == (Scheme.SHUFFLE, 100, 4)
    assert "the others are never used" in finding.notes[0]
    whole = over(1000, batch_size=100, sampler=SubsetRandomSampler(torch.arange(900, 1000)))
    assert (whole.scheme, whole.records) == (Scheme.EVERY_RECORD, 100)
    assert whole.sentence == "This loader puts all of the 100 records of a subset into every batch."
    repeated = over(1000, batch_size=10, sampler=SubsetRandomSampler([3, 4, -997, 5]))
    assert repeated.scheme is Scheme.UNKNOWN
    assert "4 records, of which only 3 are different" in repeated.sentence


# --- several ranks


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("sampler_drops", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_distributed_samplers_are_read_as_one_global_loader(
    shuffle: bool, sampler_drops: bool, drop_last: bool
) -> None:
    seen = set()
    for records, ranks, batch in itertools.product([5, 12, 13, 24], [1, 2, 3, 7], [1, 2, 4, 6, 30]):
        parts = [
            DistributedSampler(dataset(records), ranks, rank, shuffle=shuffle, drop_last=sampler_drops)
            for rank in range(ranks)
        ]
        loaders = [
            DataLoader(dataset(records), batch_size=batch, sampler=part, drop_last=drop_last)
            for part in parts
        ]
        finding = inspected(
            loaders[0], partial(together, *(loader.batch_sampler for loader in loaders)), records
        )
        seen.add(finding.scheme if finding else None)
    assert seen >= {Scheme.SHUFFLE if shuffle else Scheme.FIXED_PARTITION, Scheme.UNKNOWN}


def test_a_distributed_loader_tells_of_padding_ranks_and_epochs() -> None:
    sampler = DistributedSampler(dataset(101), num_replicas=4, rank=1)
    finding = over(101, batch_size=8, sampler=sampler)
    assert (finding.scheme, finding.batch, finding.records, finding.epoch, finding.times) == (
        Scheme.SHUFFLE,
        32,
        101,
        4,
        2,
    )
    said = " ".join(finding.notes)
    assert "first 3 draws of the epoch once more" in said
    assert "Of 4 ranks" in said
    assert "unless set_epoch is called" in said
    assert list(sampler) == list(sampler)  # as that note says


# --- what is not known


class ReversedSampler(RandomSampler):  # type: ignore[misc]
    def __iter__(self) -> Iterator[int]:
        return iter(reversed(range(len(self))))


class OwnBatches(BatchSampler):  # type: ignore[misc]
    pass


class OwnLoader(DataLoader):  # type: ignore[misc]
    pass


class OwnPoisson(UniformWithReplacementSampler):  # type: ignore[misc]
    pass


class Endless(IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Iterator[int]:
        return iter(itertools.count())


UNKNOWN: dict[str, Callable[[], Any]] = {
    "ReversedSampler, derived from RandomSampler": lambda: DataLoader(
        dataset(9), 3, sampler=ReversedSampler(range(9))
    ),
    "an OwnBatches, derived from BatchSampler": lambda: DataLoader(
        dataset(9), batch_sampler=OwnBatches(RandomSampler(range(9)), 3, False)
    ),
    "an OwnLoader, derived from DataLoader": lambda: OwnLoader(dataset(9), 3, shuffle=True),
    "an OwnPoisson, derived from UniformWithReplacementSampler": lambda: DataLoader(
        dataset(9), batch_sampler=OwnPoisson(num_samples=9, sample_rate=0.5)
    ),
    "sampler is a list": lambda: DataLoader(dataset(9), 3, sampler=[1, 2, 3]),
    "an Endless, an IterableDataset": lambda: DataLoader(Endless(), 3),
    "batch_size=None": lambda: DataLoader(dataset(9), batch_size=None),
    "a SimpleNamespace": lambda: SimpleNamespace(dataset=dataset(9), batch_sampler=None),
}


@pytest.mark.parametrize("named", UNKNOWN)
def test_what_is_not_known_is_not_guessed(named: str) -> None:
    finding = inspect_loader(UNKNOWN[named]())
    assert (finding.scheme, finding.sampling) == (Scheme.UNKNOWN, None)
    assert named in finding.sentence
    assert finding.sentence.endswith("watch its batches instead.")


def test_a_class_that_only_bears_a_known_name_is_unknown() -> None:
    namesake = type("RandomSampler", (RandomSampler,), {"__module__": RandomSampler.__module__})
    assert over(9, batch_size=3, sampler=namesake(range(9))).scheme is Scheme.UNKNOWN


class NoLength:
    def __getitem__(self, index: int) -> int:
        return index


def grown() -> DataLoader:
    """A loader over a list that grew after its sampler was made."""
    records = list(range(10))
    loader = DataLoader(records, 3, sampler=DistributedSampler(records, num_replicas=2, rank=0))
    records.extend(range(10))
    return loader


REFUSED: dict[str, Callable[[], Any]] = {
    "got a list. Pass the DataLoader": lambda: [1, 2, 3],
    "got a generator. Pass": lambda: (i for i in range(3)),
    "got a RandomSampler. Pass": lambda: RandomSampler(range(3)),
    "got a type. Pass": lambda: DataLoader,
    "a NoLength, which has no length": lambda: DataLoader(NoLength(), 3),
    "has 0 records": lambda: DataLoader([], 3),
    "the 9 records of its dataset, got a RandomSampler made for 8 records": lambda: DataLoader(
        dataset(9), 3, sampler=RandomSampler(range(8))
    ),
    "the 9 records of its dataset, got a SequentialSampler made for 10 records": lambda: DataLoader(
        dataset(9), 3, sampler=SequentialSampler(range(10))
    ),
    "the 9 records of its dataset, got a SubsetRandomSampler made for at least 10 records": lambda: (
        DataLoader(dataset(9), 3, sampler=SubsetRandomSampler([0, 9]))
    ),
    "SubsetRandomSampler without indices": lambda: DataLoader(dataset(9), 3, sampler=SubsetRandomSampler([])),
    "WeightedRandomSampler made for 2 records": lambda: DataLoader(
        dataset(9), 3, sampler=WeightedRandomSampler([1, 2], 5)
    ),
    "a sum of inf": lambda: DataLoader(
        dataset(3), 3, sampler=WeightedRandomSampler(torch.full((3,), 1e308, dtype=torch.float64), 5)
    ),
    "finite sum above 0": lambda: DataLoader(dataset(2), 3, sampler=WeightedRandomSampler([0, 0], 5)),
    "the 20 records of its dataset, got a DistributedSampler made for 10 draws by 2 ranks": grown,
    "the 9 records of its dataset, got a UniformWithReplacementSampler made for 1 record": lambda: DataLoader(
        dataset(9), batch_sampler=UniformWithReplacementSampler(num_samples=1, sample_rate=0.5)
    ),
    "sample_rate must be in": lambda: DataLoader(
        dataset(9), batch_sampler=UniformWithReplacementSampler(num_samples=9, sample_rate=1.5, steps=1)
    ),
    "draws 0 batches": lambda: DataLoader(
        dataset(9), batch_sampler=UniformWithReplacementSampler(num_samples=9, sample_rate=0.5, steps=0)
    ),
    "the 9 records of its dataset, got a PoissonSampler made for 8 records": lambda: DataLoader(
        dataset(9), batch_sampler=ours.BatchSampler(PoissonSampler(records=8, rate=0.5, steps=1))
    ),
    "yield a batch, got 9 draws per pass, a batch size of 10 and drop_last": lambda: DataLoader(
        dataset(9), 10, drop_last=True
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_a_private_loader_is_refused(message: str) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        inspect_loader(REFUSED[message]())
    assert message in str(refusal.value)


def test_inspecting_draws_nothing() -> None:
    generator = seeded()
    before = generator.get_state()
    over(100, batch_size=10, sampler=RandomSampler(range(100), generator=generator))
    assert torch.equal(generator.get_state(), before)


def test_the_audit_loads_no_training_library() -> None:
    script = (
        "import sys, tightrope.audit.loaders.inspect; "
        "print([n for n in ('torch', 'opacus', 'accelerate') if n in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_a_loader_or_a_sampler_whose_method_was_replaced_is_not_known_by_its_class() -> None:
    sampled, iterated = DataLoader(dataset(10), batch_size=2), DataLoader(dataset(10), batch_size=2)
    sampled.batch_sampler.sampler.__len__ = lambda: 3
    iterated._get_iterator = lambda: iter([])
    for loader, said in (
        (sampled, "a SequentialSampler whose __len__ was replaced"),
        (iterated, "a DataLoader whose _get_iterator was replaced"),
    ):
        finding = inspect_loader(loader)
        assert finding.scheme is Scheme.UNKNOWN
        assert said in finding.sentence
