"""What is proved about loaders whose neighbours are cut differently: never below what real datasets reach."""

import math
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    WeightedRandomSampler,
)

import tightrope as tr
from loader_passes import dataset
from tightrope.audit import audit, inspect_loader, prove_bound

DELTA = 1e-5


def upper(loader: Any, steps: int, relation: tr.Relation, noise: float = 1.0) -> float:
    run = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=0.1)) * steps
    return prove_bound(run, inspect_loader(loader), delta=DELTA, relation=relation).epsilon.upper


def lower(loader: Any, steps: int, relation: tr.Relation, noise: float, delta: float) -> float:
    run = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=0.1)) * steps
    return prove_bound(run, inspect_loader(loader), delta=delta, relation=relation).epsilon.lower


def far(moved: float) -> float:
    """epsilon of sums that lie `moved` apart, as a fixed order of batches gives them."""
    return tr.epsilon(
        tr.Step(tr.Gaussian(noise_multiplier=1 / moved), tr.EveryRecord()), delta=DELTA, relation=tr.ADD
    ).lower


def shared(records: int, **how: Any) -> DataLoader:
    sampler = DistributedSampler(dataset(records), num_replicas=4, rank=0, **how)
    return DataLoader(dataset(records), batch_size=5, sampler=sampler)


@pytest.mark.parametrize(
    "loader",
    [
        shared(100, shuffle=True, drop_last=True),  # 99 records: the last batch loses four
        shared(97, shuffle=False),  # padded
        shared(98, shuffle=False),
        shared(100, shuffle=False, drop_last=True),
        shared(100, shuffle=True),  # 100 are not padded, 99 are
        DataLoader(dataset(1001), batch_size=100, sampler=RandomSampler(range(1001), replacement=True)),
        DataLoader(
            dataset(1001),
            batch_size=100,
            sampler=WeightedRandomSampler([1.0] * 1001, 1001, replacement=False),
        ),
        DataLoader(dataset(1001), batch_size=100, sampler=WeightedRandomSampler([1.0] * 1001, 1001)),
        DataLoader(dataset(105), batch_size=10, sampler=RandomSampler(range(105), replacement=True)),
        DataLoader(dataset(100), batch_size=10, sampler=RandomSampler(range(100), num_samples=150)),
        DataLoader(dataset(101), batch_size=10, shuffle=True),  # the last batch is one record
        DataLoader(dataset(100), batch_size=10, shuffle=True, drop_last=True),
        DataLoader(dataset(100), batch_size=10, sampler=RandomSampler(range(100), num_samples=100)),
        DataLoader(dataset(101), batch_size=10),
        DataLoader(dataset(10), batch_size=10, drop_last=True),
    ],
)
def test_loaders_that_cut_neighbours_differently_have_no_bound_when_a_record_leaves(loader: Any) -> None:
    for relation in (tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE):
        assert math.isinf(upper(loader, 20, relation))


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(dataset(100), batch_size=10, shuffle=True),
        DataLoader(dataset(105), batch_size=10, shuffle=True),
        DataLoader(dataset(105), batch_size=10, shuffle=True, drop_last=True),
        DataLoader(dataset(100), batch_size=10),
        DataLoader(dataset(100), batch_size=10, sampler=RandomSampler(range(100), num_samples=25)),
        DataLoader(dataset(100), batch_size=10, sampler=RandomSampler(range(100), num_samples=99)),
        DataLoader(
            dataset(105), batch_size=10, sampler=RandomSampler(range(105), replacement=True), drop_last=True
        ),
        DataLoader(
            dataset(100), batch_size=10, sampler=RandomSampler(range(100), replacement=True, num_samples=55)
        ),
        DataLoader(
            dataset(100), batch_size=10, sampler=WeightedRandomSampler([1.0] * 100, 50, replacement=False)
        ),
    ],
)
def test_loaders_that_cut_neighbours_alike_have_one(loader: Any) -> None:
    assert math.isfinite(upper(loader, 20, tr.ADD_OR_REMOVE))
    assert math.isfinite(upper(loader, 20, tr.SUBSTITUTE))


def test_a_fixed_order_moves_every_batch_by_two_and_the_last_by_one() -> None:
    """Batches end with +1 and -1 in turn: without the first record nine sums move by 2 and the last by 1."""
    assert upper(DataLoader(dataset(100), batch_size=10), 10, tr.REMOVE) >= far(math.sqrt(9 * 4 + 1))


def test_a_record_comes_as_often_as_passes_of_one_and_a_half_shuffles_can_hold_it() -> None:
    loader = DataLoader(dataset(100), batch_size=10, sampler=RandomSampler(range(100), num_samples=150))
    assert (inspect_loader(loader).epoch, inspect_loader(loader).times) == (15, 2)
    four = tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord()) * 4
    assert upper(loader, 30, tr.SUBSTITUTE) == tr.epsilon(four, delta=DELTA, relation=tr.SUBSTITUTE).upper
    assert lower(loader, 30, tr.SUBSTITUTE, noise=0.05, delta=0.9) == 0


def test_a_pass_whose_last_batch_is_short_is_not_taken_for_full() -> None:
    """A quarter of the records comes in a pass: no test is right more often than that, whatever the noise."""
    loader = DataLoader(dataset(100), batch_size=10, sampler=RandomSampler(range(100), num_samples=25))
    for relation in (tr.SUBSTITUTE, tr.REMOVE):
        assert lower(loader, 3, relation, noise=0.1, delta=0.27) == 0
        assert lower(loader, 3, relation, noise=0.1, delta=0.15) > 1


def test_skipped_batches_make_passes_shorter() -> None:
    accelerated = pytest.importorskip(
        "accelerate.data_loader", reason="accelerate is not installed: make training"
    )
    fixed = accelerated.skip_first_batches(DataLoader(dataset(100), batch_size=10), 5)
    two_passes = tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord()) * 2
    assert (
        upper(fixed, 10, tr.SUBSTITUTE) == tr.epsilon(two_passes, delta=DELTA, relation=tr.SUBSTITUTE).upper
    )
    assert math.isinf(upper(fixed, 10, tr.REMOVE))
    shuffled = accelerated.skip_first_batches(DataLoader(dataset(100), batch_size=10, shuffle=True), 5)
    assert lower(shuffled, 10, tr.SUBSTITUTE, noise=0.1, delta=0.9) == 0


def test_batches_that_were_cut_twice_have_no_bound_when_a_record_leaves() -> None:
    cut = BatchSampler(RandomSampler(range(100)), 5, drop_last=True)
    accelerated = pytest.importorskip(
        "accelerate.data_loader", reason="accelerate is not installed: make training"
    )
    shard = accelerated.BatchSamplerShard(cut, num_processes=4, process_index=0)
    assert math.isinf(upper(DataLoader(dataset(100), batch_sampler=shard), 10, tr.REMOVE))


def test_weights_may_come_from_the_records_so_nothing_is_covered_by_them() -> None:
    loader = DataLoader(
        dataset(100), batch_size=10, sampler=WeightedRandomSampler([1.0] * 100, 50, replacement=False)
    )
    full = tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord()) * 1000
    result = audit(loader, full, delta=DELTA, relation=tr.SUBSTITUTE)
    assert not result.verdict.holds
    assert "the weights do not depend on the records" in result.sentence
