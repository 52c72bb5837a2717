"""Loaders of Opacus, of Accelerate and our own are read as what all their processes draw together."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

import torch
from opacus.data_loader import DPDataLoader
from opacus.utils.batch_memory_manager import BatchMemoryManager, BatchSplittingSampler
from opacus.utils.uniform_sampler import (
    DistributedUniformWithReplacementSampler,
    UniformWithReplacementSampler,
)
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from loader_passes import dataset, inspected, over, seeded, together
from tightrope.audit.finding import Finding, Scheme
from tightrope.audit.loaders.inspect import inspect_loader
from tightrope.audit.loaders.samplers import float32_rate
from tightrope.errors import InvalidSetting
from tightrope.samplers import PoissonSampler, WithoutReplacementSampler
from tightrope.samplers import torch as ours
from tightrope.setting.sampling import Poisson

# --- Opacus


def below(rate: float, dtype: torch.dtype, bits: int) -> int:
    """How many numbers of the grid of `bits` bits torch finds below `rate`, by trying those around it."""
    middle = int(rate * 2**bits)
    tried = range(max(0, middle - 8), min(2**bits, middle + 9))
    mask = torch.tensor([k / 2**bits for k in tried], dtype=dtype) < rate
    assert mask.tolist() == sorted(mask.tolist(), reverse=True)
    return tried.start + int(mask.sum())


RATES = [
    1e-3,
    1e-7,
    1.3e-8,
    5e-9,
    1e-50,
    0.0,
    1 / 3,
    0.1,
    0.5,
    2**-24,
    2**-25,
    1 - 1e-9,
    1 - 2**-25,
    1.0,
    64 / 60_000,
]
AROUND_A_POINT = [
    k / 2**24 + offset
    for k in (1, 2, 3, 16_777, 2**23 + 1)
    for offset in (-(2.0**-50), 2.0**-50, 2.0**-47, 2.0**-26)
]


@pytest.mark.parametrize("rate", [*RATES, *AROUND_A_POINT])
def test_the_rate_opacus_runs_is_what_torch_finds_on_its_grid(rate: float) -> None:
    assert float32_rate(rate) == below(rate, torch.float32, 24) / 2**24


def test_torch_draws_from_the_grid_that_is_counted() -> None:
    scaled = torch.rand(200_000, generator=seeded()).double() * 2**24
    assert torch.equal(scaled, scaled.round())
    assert bool((scaled % 2 == 1).any())


def test_an_opacus_loader_is_poisson_at_the_rate_of_the_grid() -> None:
    loader = DPDataLoader(dataset(100), sample_rate=1e-3)
    finding = inspect_loader(loader)
    assert (finding.scheme, finding.sampling, finding.records) == (
        Scheme.POISSON,
        Poisson(rate=16778 / 2**24),
        100,
    )
    assert "sample_rate is 0.001; records join at 0.00100004673" in finding.notes[0]
    tiny = over(100, batch_sampler=UniformWithReplacementSampler(num_samples=100, sample_rate=1e-7, steps=3))
    assert tiny.sampling == Poisson(rate=2 / 2**24)
    exact = DPDataLoader.from_data_loader(DataLoader(dataset(64), batch_size=16))
    assert inspect_loader(exact).notes == ("One pass is 4 batches.",)


@pytest.fixture
def float64_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("float64_default")
def test_with_float64_numbers_the_grid_is_finer() -> None:
    for rate in (1e-3, 1e-7, 1e-17, 1 / 3):
        sampler = UniformWithReplacementSampler(num_samples=100, sample_rate=rate, steps=3)
        true = below(rate, torch.float64, 53) / 2**53
        assert over(100, batch_sampler=sampler).sampling == Poisson(rate=true)


def test_on_other_grids_the_rate_is_not_known() -> None:
    sampler = UniformWithReplacementSampler(num_samples=100, sample_rate=0.1)
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert over(100, batch_sampler=sampler).scheme is Scheme.UNKNOWN
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert over(100, batch_sampler=sampler).scheme is Scheme.UNKNOWN


def test_memory_managers_are_looked_through() -> None:
    loader = DPDataLoader(dataset(100), sample_rate=0.25)
    manager = BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=None)
    for view in (manager, manager.__enter__()):
        finding = inspect_loader(view)
        assert (finding.scheme, finding.sampling) == (Scheme.POISSON, Poisson(rate=0.25))
        assert "parts of at most 4 records" in finding.notes[-1]
    plain = BatchMemoryManager(
        data_loader=DataLoader(dataset(100), 10, True), max_physical_batch_size=4, optimizer=None
    )
    assert inspect_loader(plain.__enter__()).batch == 10


@pytest.fixture
def four_ranks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    sampler: Callable[..., Any] = DistributedUniformWithReplacementSampler
    return sampler


def test_ranks_that_may_be_seeded_alike_are_not_called_poisson(four_ranks: Callable[..., Any]) -> None:
    finding = over(8000, batch_sampler=four_ranks(total_size=8000, sample_rate=0.0625))
    assert (finding.scheme, finding.sampling) == (Scheme.UNKNOWN, None)
    assert "with equal seeds records join together" in finding.sentence


def test_one_rank_is_poisson_only_if_no_batch_is_empty(four_ranks: Callable[..., Any]) -> None:
    alone = four_ranks(total_size=8000, sample_rate=0.0625)
    alone.num_replicas = 1
    assert over(8000, batch_sampler=alone).sampling == Poisson(rate=0.0625)
    few = four_ranks(total_size=20, sample_rate=0.5)
    few.num_replicas = 1
    finding = over(20, batch_sampler=few)
    assert finding.scheme is Scheme.UNKNOWN
    assert "probability up to 2.0e-06" in finding.sentence  # 2 / 2^20 = 1.907e-6, rounded up


def test_processes_that_shuffle_by_seeds_of_their_own_are_not_read(accelerated: Any) -> None:
    data = dataset(96)
    batches = BatchSampler(accelerated.SeedableRandomSampler(data, data_seed=1), 8, False)
    finding = over(96, batch_sampler=accelerated.BatchSamplerShard(batches, 2, 0))
    assert finding.scheme is Scheme.UNKNOWN
    assert "unless all seeds are equal" in finding.sentence


# --- Accelerate


@pytest.fixture(scope="module")
def accelerated() -> Any:
    pytest.importorskip("accelerate", reason="accelerate is not installed: make training")
    from accelerate import data_loader

    return data_loader


def shards(accelerated: Any, make: Callable[[], Any], processes: int, **how: Any) -> list[Any]:
    return [accelerated.BatchSamplerShard(make(), processes, number, **how) for number in range(processes)]


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_shards_are_read_as_one_global_loader(
    accelerated: Any, split: bool, even: bool, drop_last: bool
) -> None:
    sizes = [(5, None), (12, None), (13, None), (24, None), (24, 7), (12, 30)]
    for (records, draws), processes, batch in itertools.product(sizes, [1, 2, 3], [1, 2, 3, 4, 6, 12, 30]):
        if split and batch % processes:
            continue  # accelerate refuses these

        samplers = [
            RandomSampler(range(records), num_samples=draws, generator=seeded()) for _ in range(processes)
        ]
        parts = [
            accelerated.BatchSamplerShard(
                BatchSampler(sampler, batch, drop_last), processes, rank, split, even
            )
            for rank, sampler in enumerate(samplers)
        ]
        inspected(DataLoader(dataset(records), batch_sampler=parts[0]), partial(together, *parts), records)


def test_two_processes_make_one_step_of_two_shuffled_batches(accelerated: Any) -> None:
    shard = shards(accelerated, lambda: BatchSampler(RandomSampler(range(96)), 8, False), 2)[0]
    finding = over(96, batch_sampler=shard)
    assert (finding.scheme, finding.batch, finding.epoch) == (Scheme.SHUFFLE, 16, 6)
    assert "One step uses 2 batches of 8" in finding.notes[0]


def test_two_processes_make_one_step_of_two_poisson_draws(accelerated: Any) -> None:
    def sampler(steps: int) -> Any:
        return UniformWithReplacementSampler(
            num_samples=96, sample_rate=0.25, steps=steps, generator=seeded()
        )

    finding = over(96, batch_sampler=shards(accelerated, lambda: sampler(4), 2)[0])
    assert (finding.scheme, finding.draws, finding.rate, finding.sampling) == (
        Scheme.SEVERAL_DRAWS,
        2,
        0.25,
        None,
    )
    draws = list(sampler(4))
    assert together(*shards(accelerated, lambda: sampler(4), 2)) == [draws[0] + draws[1], draws[2] + draws[3]]
    alone = over(96, batch_sampler=shards(accelerated, lambda: sampler(4), 1)[0])
    assert alone.sampling == Poisson(rate=0.25)


def test_an_odd_number_of_draws_repeats_the_first_unless_even_batches_is_off(accelerated: Any) -> None:
    def sampler() -> Any:
        return UniformWithReplacementSampler(num_samples=96, sample_rate=0.25, steps=3, generator=seeded())

    finding = over(96, batch_sampler=shards(accelerated, sampler, 2)[0])
    assert (finding.scheme, finding.draws) == (Scheme.UNKNOWN, 2)
    assert "repeats earlier draws" in finding.sentence
    draws = list(sampler())
    assert together(*shards(accelerated, sampler, 2))[1] == draws[2] + draws[0]
    uneven = over(96, batch_sampler=shards(accelerated, sampler, 2, even_batches=False)[0])
    assert uneven.scheme is Scheme.SEVERAL_DRAWS
    assert uneven.notes[-1] == "The last step of a pass has only 1 draw."


def test_samplers_shared_twice_are_unknown(accelerated: Any, four_ranks: Callable[..., Any]) -> None:
    distributed = BatchSampler(DistributedSampler(dataset(96), num_replicas=2, rank=0), 8, False)
    poisson = four_ranks(total_size=96, sample_rate=0.5)
    nested = accelerated.BatchSamplerShard(BatchSampler(RandomSampler(range(96)), 8, False), 2, 0)
    skipping = accelerated.SkipBatchSampler(
        UniformWithReplacementSampler(num_samples=96, sample_rate=0.25), 1
    )
    parts = BatchSplittingSampler(sampler=skipping.batch_sampler, max_batch_size=4, optimizer=None)
    for inner in (distributed, poisson, nested, skipping, parts):
        assert over(96, batch_sampler=accelerated.BatchSamplerShard(inner, 2, 0)).scheme is Scheme.UNKNOWN


def test_a_shard_that_takes_poisson_batches_for_full_ones_is_unknown(accelerated: Any) -> None:
    sampler = UniformWithReplacementSampler(num_samples=96, sample_rate=0.25)
    sampler.batch_size = 24
    finding = over(96, batch_sampler=accelerated.BatchSamplerShard(sampler, 1, 0))
    assert finding.scheme is Scheme.UNKNOWN
    assert "Poisson batches vary in size" in finding.sentence


@pytest.fixture
def prepare(accelerated: Any) -> Callable[..., Any]:
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    def prepared(loader: Any, **how: Any) -> Any:
        return Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**how)).prepare(loader)

    return prepared


def test_prepared_loaders_are_looked_through(prepare: Callable[..., Any], accelerated: Any) -> None:
    shuffled = DataLoader(dataset(100), batch_size=8, shuffle=True)
    assert type(prepare(shuffled)) is accelerated.DataLoaderShard
    assert inspect_loader(prepare(shuffled)) == inspect_loader(shuffled)
    seedable = inspect_loader(prepare(shuffled, use_seedable_sampler=True))
    assert (seedable.scheme, seedable.epoch) == (Scheme.SHUFFLE, 13)
    assert "anyone who knows the seed" in seedable.notes[0]
    assert inspect_loader(prepare(DPDataLoader(dataset(100), sample_rate=0.25))).sampling == Poisson(
        rate=0.25
    )


def test_one_batch_in_a_seeded_order_is_no_fresh_draw(prepare: Callable[..., Any]) -> None:
    loader = DataLoader(dataset(100), batch_size=10, sampler=RandomSampler(range(100), num_samples=10))
    assert inspect_loader(prepare(loader)).scheme is Scheme.WITHOUT_REPLACEMENT
    seeded_order = prepare(loader, use_seedable_sampler=True)
    assert inspect_loader(seeded_order).scheme is Scheme.SHUFFLE
    assert torch.equal(next(iter(seeded_order))[0], next(iter(seeded_order))[0])  # the pass was broken off


def test_skipped_batches_are_told(prepare: Callable[..., Any], accelerated: Any) -> None:
    for loader in (
        DataLoader(dataset(100), batch_size=10, shuffle=True),
        prepare(DataLoader(dataset(100), 10, shuffle=True)),
    ):
        finding = inspect_loader(accelerated.skip_first_batches(loader, 3))
        assert (finding.scheme, finding.epoch) == (Scheme.SHUFFLE, 7)
        assert (
            finding.notes[-1] == "The first 3 batches of each pass over this loader are skipped, 7 are left."
        )
        with pytest.raises(InvalidSetting, match="none is left"):
            inspect_loader(accelerated.skip_first_batches(loader, 10))


def test_a_dispatcher_deals_out_what_one_process_loads(prepare: Callable[..., Any], accelerated: Any) -> None:
    loader = DataLoader(dataset(100), batch_size=8, shuffle=True)
    dispatcher = prepare(loader, dispatch_batches=True)
    assert type(dispatcher) is accelerated.DataLoaderDispatcher
    assert inspect_loader(dispatcher) == inspect_loader(loader)

    def of_processes(processes: int, inner: Any, **how: Any) -> Finding:
        dispatcher = prepare(inner, dispatch_batches=True)
        dispatcher.state = SimpleNamespace(num_processes=processes)
        for name, value in how.items():
            setattr(dispatcher, name, value)
        return inspect_loader(dispatcher)

    two = of_processes(2, loader)
    assert (two.scheme, two.batch, two.epoch) == (Scheme.SHUFFLE, 16, 7)
    three = of_processes(3, loader)
    assert (three.batch, three.epoch, three.times) == (24, 5, 2)  # the last 4 are filled to 6
    assert (
        of_processes(4, loader, split_batches=True).batch,
        of_processes(3, loader, split_batches=True).scheme,
    ) == (
        8,
        Scheme.UNKNOWN,
    )
    assert of_processes(2, DPDataLoader(dataset(100), sample_rate=0.25)).scheme is Scheme.UNKNOWN


# --- our own


def test_our_loaders_carry_their_sampling() -> None:
    poisson = PoissonSampler(records=100, rate=1e-3, steps=7)
    finding = inspect_loader(ours.data_loader(dataset(100), poisson))
    assert (finding.scheme, finding.sampling) == (Scheme.POISSON, poisson.sampling)
    fixed = WithoutReplacementSampler(records=100, batch=8, steps=7, seed=5)
    finding = inspect_loader(ours.data_loader(dataset(100), fixed))
    assert (finding.scheme, finding.sampling, finding.batch) == (
        Scheme.WITHOUT_REPLACEMENT,
        fixed.sampling,
        8,
    )
    shared = inspect_loader(ours.data_loader(dataset(100), fixed.share(rank=0, ranks=2)))
    assert shared.sampling == fixed.sampling
    ranks, seeded = shared.notes
    assert ranks == "Of 2 ranks each takes its part of every batch."
    assert seeded.startswith("Batches follow from a seed: to anyone who knows it")


def test_our_samplers_in_shards(accelerated: Any) -> None:
    poisson = ours.BatchSampler(PoissonSampler(records=100, rate=0.1, steps=6))
    fixed = ours.BatchSampler(WithoutReplacementSampler(records=100, batch=8, steps=6))
    assert over(100, batch_sampler=accelerated.BatchSamplerShard(poisson, 3, 0)).draws == 3
    joined = over(100, batch_sampler=accelerated.BatchSamplerShard(fixed, 3, 0))
    assert (joined.scheme, joined.draws) == (Scheme.UNKNOWN, 3)
    assert over(100, batch_sampler=accelerated.BatchSamplerShard(fixed, 1, 0)).sampling == fixed.sampling
