"""A PyTorch loader yields the sampler's batches: with workers, in pieces, on several ranks, or empty."""

import difflib
import importlib
import re
import subprocess
import sys
from collections import OrderedDict, UserDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make training")

from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset  # noqa: E402

import tightrope as tr  # noqa: E402
from tightrope import InvalidSetting  # noqa: E402
from tightrope.extras import advise_install  # noqa: E402
from tightrope.samplers import (  # noqa: E402
    BallsInBinsSampler,
    Passes,
    PoissonSampler,
    WithoutReplacementSampler,
    fresh_seed,
)
from tightrope.samplers.torch import BatchSampler, data_loader  # noqa: E402

RECORDS = 40


class Records:
    """A map-style dataset that may grow; record i is `record(i)`."""

    def __init__(self, length: int = RECORDS) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.record(index)

    def record(self, index: int) -> Any:
        return torch.full((3,), index), index


class Point(NamedTuple):
    place: Any
    label: Any


class NestedRecords(Records):
    def record(self, index: int) -> Any:
        return {
            "pair": (torch.zeros(2, 5), np.ones(4)),
            "point": Point(place=torch.ones(3), label=index),
            "text": f"record {index}",
            "texts": ("a", b"b"),
            "number": 0.5,
        }


def poisson(**options: Any) -> PoissonSampler:
    return PoissonSampler(**{"records": RECORDS, "rate": 0.05, "steps": 30, "seed": 1, **options})


def test_the_loader_gives_the_records_of_each_batch_the_empty_ones_included() -> None:
    sampler = poisson()
    batches = list(data_loader(Records(), sampler))
    assert len(batches) == sampler.drawn == 30
    sizes = []
    for number, (places, labels) in enumerate(batches):
        assert labels.tolist() == sampler.batch_at(number).tolist()
        assert places.shape == (len(labels), 3)
        assert places.dtype == labels.dtype == torch.int64
        sizes.append(len(labels))
    assert 0 in sizes
    assert max(sizes) > 2


def test_a_batch_sampler_is_the_sampler_in_lists() -> None:
    sampler = WithoutReplacementSampler(records=RECORDS, batch=4, steps=7, seed=2)
    batches = BatchSampler(sampler)
    assert isinstance(batches, torch.utils.data.Sampler)
    assert (len(batches), batches.sampler, batches.sampling) == (
        7,
        sampler,
        tr.WithoutReplacement(batch=4, population=RECORDS),
    )
    lists = list(batches)
    assert lists == [sampler.batch_at(number).tolist() for number in range(7)]
    assert {type(index) for batch in lists for index in batch} == {int}
    resumed = BatchSampler(WithoutReplacementSampler(records=RECORDS, batch=4, steps=7, seed=2))
    resumed.load_state_dict(batches.state_dict())
    assert next(iter(resumed)) == sampler.batch_at(7).tolist()


def test_a_loader_of_bins_hands_out_every_record_once_in_each_epoch() -> None:
    loader = data_loader(Records(), BallsInBinsSampler(records=RECORDS, batches=25, seed=1))
    for _ in range(3):
        labels = [labels.tolist() for _, labels in loader]
        assert len(labels) == len(loader) == 25
        assert sorted(label for batch in labels for label in batch) == list(range(RECORDS))
        assert [] in labels
    assert loader.batch_sampler.sampling == tr.BallsInBins(batches=25)


def may_fork(test: Any) -> Any:
    """Newer Pythons warn of forking a process with threads, as torch has; so does JAX where it is loaded."""
    test = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")(test)
    return pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")(test)


@may_fork
@pytest.mark.parametrize(("context", "workers"), [("fork", 2), ("spawn", 1)])
def test_worker_processes_get_the_same_batches(context: str, workers: int) -> None:
    sampler = poisson(steps=8, rate=0.02)
    loader = data_loader(
        Records(), sampler, num_workers=workers, multiprocessing_context=context, persistent_workers=True
    )
    labels = [labels.tolist() for _ in range(2) for _, labels in loader]
    assert labels == [sampler.batch_at(number).tolist() for number in range(16)]
    assert [] in labels
    assert sampler.drawn == 16


@may_fork
def test_workers_that_are_forked_within_a_pass_leave_it_to_the_loader() -> None:
    sampler = BallsInBinsSampler(records=RECORDS, batches=4)
    loader = data_loader(Records(), sampler, num_workers=2, multiprocessing_context="fork")
    begun = next(iter(sampler)).tolist()
    labels = [label for _, (_, batch) in zip(range(3), loader, strict=False) for label in batch.tolist()]
    assert sorted(begun + labels) == list(range(RECORDS))


@may_fork
def test_workers_that_fetch_ahead_are_counted_ahead() -> None:
    sampler = poisson(steps=20)
    loader = data_loader(Records(), sampler, num_workers=1, prefetch_factor=3, multiprocessing_context="fork")
    next(iter(loader))
    assert 1 < sampler.drawn <= 5


def test_an_empty_batch_has_the_structure_of_a_full_one() -> None:
    (full,) = data_loader(NestedRecords(), poisson(rate=1, steps=1))
    (empty,) = data_loader(NestedRecords(), poisson(rate=0, steps=1))
    assert full["pair"][0].shape == (RECORDS, 2, 5)
    assert list(empty) == list(full)
    assert [part.shape for part in empty["pair"]] == [(0, 2, 5), (0, 4)]
    assert [part.dtype for part in empty["pair"]] == [part.dtype for part in full["pair"]]
    assert type(empty["point"]) is type(full["point"]) is Point
    assert (empty["point"].place.shape, empty["point"].label.shape) == ((0, 3), (0,))
    assert (empty["text"], [list(texts) for texts in empty["texts"]]) == ([], [[], []])
    assert (empty["number"].shape, empty["number"].dtype) == ((0,), full["number"].dtype)


class Padded:
    """A collation of one's own, for records of any kind."""

    def __init__(self, make: Any) -> None:
        self.make = make
        self.sizes: list[int] = []

    def __call__(self, records: list[Any]) -> Any:
        self.sizes.append(len(records))
        return self.make(torch.stack([record[0] for record in records]))


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict])
def test_a_collation_of_ones_own_is_never_called_without_records(kind: Any) -> None:
    collate = Padded(lambda places: kind(x=places, y=[places.numpy()]))
    empties = list(data_loader(Records(), poisson(rate=0, steps=2), collate_fn=collate))
    assert collate.sizes == [1, 1]
    assert [type(empty) for empty in empties] == [kind, kind]
    assert [(empty["x"].shape, empty["y"][0].shape) for empty in empties] == [((0, 3), (0, 3))] * 2


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda places: {"x": places, "size": len(places)}, r"batch\['size'\] of type int"),
        (lambda places: [places, places.sum()], r"batch\[1\] of shape \(\)"),
        (lambda places: (places.T,), r"batch\[0\] of shape \(3, 1\)"),
        (lambda places: {"x": {"deep": None}}, r"batch\['x'\]\['deep'\] of type NoneType"),
        (lambda places: "text", "batch of type str"),
    ],
)
def test_other_structures_are_refused_by_name(make: Any, what: str) -> None:
    with pytest.raises(InvalidSetting, match=f"got {what}. Pass a collate_fn that accepts an empty list"):
        list(data_loader(Records(), poisson(rate=0, steps=1), collate_fn=Padded(make)))


def test_a_collation_that_accepts_an_empty_list_decides_itself() -> None:
    assert list(data_loader(Records(), poisson(rate=0, steps=2), collate_fn=len)) == [0, 0]


def test_a_dataset_that_changes_its_size_is_noticed_at_the_next_pass() -> None:
    dataset, sampler = Records(), poisson()
    loader = data_loader(dataset, sampler)
    list(loader)
    dataset.length += 1
    with pytest.raises(
        InvalidSetting,
        match=r"records=40 of its sampler, got 41 records\. The accounted rate would no longer be",
    ):
        iter(loader)
    with pytest.raises(InvalidSetting, match="records=40 of its sampler, got 41 records"):
        data_loader(dataset, sampler)
    assert sampler.drawn == 30


def test_datasets_that_cannot_be_sampled_are_refused() -> None:
    stream: Any = type("Stream", (IterableDataset,), {"__iter__": lambda self: iter(range(3))})()
    with pytest.raises(InvalidSetting, match="dataset must give records by index, got the iterable Stream"):
        data_loader(stream, poisson())
    with pytest.raises(InvalidSetting, match="dataset must have a length, got object"):
        data_loader(object(), poisson())


@pytest.mark.parametrize(
    "option",
    [{"batch_size": 4}, {"shuffle": False}, {"batch_sampler": [[0]]}, {"drop_last": True}],
    ids=lambda option: next(iter(option)),
)
def test_options_that_choose_the_batches_are_refused(option: dict[str, Any]) -> None:
    ((name, value),) = option.items()
    with pytest.raises(InvalidSetting) as refusal:
        data_loader(Records(), poisson(), **option)
    assert str(refusal.value).startswith(f"{name} must be left out, got {value!r}. The sampler alone decides")


def test_other_samplers_are_refused() -> None:
    with pytest.raises(
        InvalidSetting,
        match=r"sampler must be one of tightrope\.samplers, such as a PoissonSampler, or a share",
    ):
        data_loader(Records(), torch.utils.data.RandomSampler(Records()))


def test_subsets_and_tensors_are_datasets_too() -> None:
    numbers = TensorDataset(torch.arange(RECORDS))
    sampler = poisson(records=20, steps=10)
    batches = [batch.tolist() for (batch,) in data_loader(Subset(numbers, range(20, 40)), sampler)]
    assert batches == [(20 + sampler.batch_at(number)).tolist() for number in range(10)]
    assert [] in batches


def test_shares_divide_a_batch_among_loaders() -> None:
    sampler = poisson()
    loaders = [data_loader(Records(), sampler.share(rank=rank, ranks=3)) for rank in range(3)]
    for number, parts in enumerate(zip(*loaders, strict=True)):
        assert (
            sorted(index for _, labels in parts for index in labels.tolist())
            == sampler.batch_at(number).tolist()
        )
    assert sampler.drawn == 30


def gradient_of(indices: list[int]) -> float:
    """The sum over a batch of gradients no larger than 1, so that nothing is clipped."""
    return sum(index / RECORDS for index in indices)


@pytest.mark.filterwarnings("ignore")  # importing opacus and hooking its modules warns of its own affairs
@pytest.mark.parametrize(
    "make", [poisson, lambda: WithoutReplacementSampler(records=RECORDS, batch=9, steps=5, seed=3)]
)
def test_logical_batches_survive_the_batch_memory_manager_of_opacus(make: Any) -> None:
    pytest.importorskip("opacus", reason="opacus is not installed: make training")
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    sampler: Passes = make()
    dataset = TensorDataset(torch.arange(RECORDS).reshape(-1, 1) / RECORDS)
    model = GradSampleModule(torch.nn.Linear(1, 1, bias=False))
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    expected = int(sampler.expected_batch)
    optimizer = DPOptimizer(plain, noise_multiplier=0.0, max_grad_norm=10.0, expected_batch_size=expected)
    moves: list[float] = []
    weight = next(model.parameters())
    before = float(weight)
    optimizer.attach_step_hook(lambda _: moves.append(float(weight.grad) * expected))
    with BatchMemoryManager(
        data_loader=data_loader(dataset, sampler), max_physical_batch_size=2, optimizer=optimizer
    ) as loader:
        for (inputs,) in loader:
            assert len(inputs) <= 2
            optimizer.zero_grad()
            model(inputs).mean().backward()
            optimizer.step()
    sums = [gradient_of(sampler.batch_at(number).tolist()) for number in range(sampler.drawn)]
    assert sampler.drawn == len(sampler)
    assert moves == pytest.approx(sums, abs=1e-5)
    assert before - float(weight) == pytest.approx(sum(sums) / expected, abs=1e-4)


def train_on_one_of_two_ranks(rank: int, meeting_point: str, found: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=2
    )
    seed = [fresh_seed() if rank == 0 else None]
    torch.distributed.broadcast_object_list(seed, src=0)
    sampler = poisson(seed=seed[0], steps=12)
    share = sampler.share(rank=rank, ranks=2)
    totals, sizes = [], []
    for places, _ in data_loader(Records(), share):
        total = places[:, 0].sum()
        torch.distributed.all_reduce(total)  # would wait for ever if a rank skipped its empty share
        totals.append(int(total))
        sizes.append(len(places))
    expected = [int(sampler.batch_at(number).sum()) for number in range(12)]
    torch.save((totals, expected, sizes, share.drawn, share.state_dict()), f"{found}{rank}")
    torch.distributed.destroy_process_group()


def test_two_processes_make_one_draw(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(
        train_on_one_of_two_ranks, args=(str(tmp_path / "meet"), str(tmp_path / "found")), nprocs=2
    )
    ranks = [torch.load(tmp_path / f"found{rank}") for rank in range(2)]
    for totals, expected, _, drawn, state in ranks:
        assert totals == expected
        assert (drawn, state) == (12, ranks[0][4])
    assert 0 in ranks[0][2] + ranks[1][2]


def test_without_torch_the_import_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['torch'] = None; import tightrope.samplers; import tightrope.samplers.torch"
    )
    failed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    said = f"MissingExtra: tightrope.samplers.torch needs PyTorch. {advise_install('torch')}"
    assert failed.stderr.strip().endswith(said)


def test_the_loader_is_a_plain_one() -> None:
    loader = data_loader(Records(), poisson(), pin_memory=False, timeout=0)
    assert type(loader) is DataLoader
    assert len(loader) == 30
    assert loader.batch_sampler.sampling == tr.Poisson(rate=0.05)


def test_the_way_out_of_a_shuffle_changes_the_loader_and_the_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(__file__).parent.parent / "examples"
    monkeypatch.syspath_prepend(str(folder))
    spent, sources = [], []
    for name in ("shuffle_before", "shuffle_after"):
        example = importlib.import_module(name)
        monkeypatch.setattr(example, "EPOCHS", 2)
        assert example.main() == 0
        said = capsys.readouterr().out
        assert "Trained 2 epochs" in said
        (ends,) = re.findall(r"epsilon is in \[([\d.]+), ([\d.]+)\] at delta 1e-05", said)
        spent.append(tuple(map(float, ends)))
        sources.append((folder / f"{name}.py").read_text().partition("def main()")[2].splitlines())
    (shuffled_at_least, _), (_, binned_at_most) = spent
    assert binned_at_most < shuffled_at_least / 3
    removed = [line for line in difflib.ndiff(sources[0], sources[1]) if line.startswith("- ")]
    assert len(removed) == 3  # the loader, and the two lines that ask
