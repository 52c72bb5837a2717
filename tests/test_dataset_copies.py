"""Records that are there several times are counted wherever the structure of a dataset can be read."""

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

import numpy as np
import torch
from opacus.data_loader import DPDataLoader
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    default_collate,
    random_split,
)

import tightrope as tr
from tightrope.audit import Finding, Scheme, Verdict, audit, inspect_loader
from tightrope.audit.loaders.datasets import count_copies
from tightrope.samplers import PoissonSampler, WithoutReplacementSampler
from tightrope.samplers.torch import data_loader

TEN = TensorDataset(torch.arange(10.0))
SAME_TEN = TensorDataset(*TEN.tensors)


class Own(Dataset):  # type: ignore[misc]
    """A dataset of one's own."""

    def __init__(self, records: int = 10) -> None:
        self.values = list(range(records))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> int:
        return self.values[index]


class Transformed(Dataset):  # type: ignore[misc]
    """A wrapper that gives the records it holds, index for index."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index]


class Longer(Transformed):
    """A wrapper that goes through what it holds twice."""

    def __len__(self) -> int:
        return 2 * len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index % len(self.dataset)]


class Bootstrapped(Subset):  # type: ignore[misc]
    """A class derived from Subset, free to do otherwise."""


class ItsOwnOwner(Own):
    """A dataset that holds itself."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = self


def found_in(dataset: Any) -> Finding:
    """What is found of a Poisson loader over a dataset."""
    return inspect_loader(data_loader(dataset, PoissonSampler(records=len(dataset), rate=0.25, steps=4)))


def as_read(dataset: Any) -> int:
    """How often the most frequent record of a dataset of numbers is there, by reading all."""
    values = [
        record[0] if isinstance(record, tuple) else record
        for record in map(dataset.__getitem__, range(len(dataset)))
    ]
    return max(Counter(map(float, values)).values())


REPEATED: dict[str, Callable[[], Any]] = {
    "a list of indices": lambda: Subset(TEN, [0, 1, 2, 0, 0, 5]),
    "an array of indices": lambda: Subset(TEN, np.array([0, 1, 1])),
    "a tensor of indices": lambda: Subset(TEN, torch.tensor([4, 1, 4])),
    "a list of tensors": lambda: Subset(TEN, [torch.tensor(4), torch.tensor(4)]),
    "indices from the end": lambda: Subset(TEN, [9, -1, 3]),
    "booleans taken for indices": lambda: Subset(list(range(10)), [True, False, True]),
    "itself twice": lambda: ConcatDataset([TEN, TEN]),
    "another of the same tensors": lambda: ConcatDataset([TEN, SAME_TEN]),
    "a part and the whole": lambda: ConcatDataset([Subset(TEN, range(3)), TEN]),
    "parts that overlap": lambda: ConcatDataset([Subset(TEN, range(6)), Subset(TEN, range(5, 10))]),
    "every other record and the rest": lambda: ConcatDataset(
        [Subset(TEN, range(0, 10, 2)), Subset(TEN, [1, 2])]
    ),
    "a part of a part": lambda: Subset(Subset(TEN, [3, 3, 4]), [2, 1, 0]),
    "a part of two": lambda: Subset(ConcatDataset([TEN, TEN]), [0, 10, 5, -20]),
    "a random part, joined": lambda: ConcatDataset([*random_split(TEN, [6, 4]), TEN]),
    "a range backwards": lambda: ConcatDataset([Subset(TEN, range(9, -1, -1)), Subset(TEN, [0])]),
    "stacked": lambda: StackDataset(TEN, Subset(TEN, [0] * 10)),
    "a wrapper of a part": lambda: Transformed(Subset(TEN, [0, 0])),
    "a wrapper of a list, joined": lambda: ConcatDataset([Transformed(Own())] * 3),
    "derived from Subset": lambda: Bootstrapped(TEN, [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
}


@pytest.mark.parametrize("named", REPEATED)
def test_repeated_records_are_counted(named: str) -> None:
    dataset = REPEATED[named]()
    found = count_copies(dataset)
    if named != "stacked":  # of which one half is repeated
        assert found.most == as_read(dataset)
    assert found.most is not None
    assert found.most > 1
    finding = found_in(dataset)
    assert (finding.scheme, finding.sampling, finding.copies) == (Scheme.POISSON, None, found.most)
    assert f"one of them {found.most} times" in finding.sentence


DISTINCT: dict[str, Callable[[], Any]] = {
    "tensors": lambda: TEN,
    "a list": lambda: list(range(10)),
    "a part": lambda: Subset(TEN, [5, 3, 1]),
    "a random part": lambda: random_split(TEN, [6, 4])[0],
    "parts joined": lambda: ConcatDataset(random_split(TEN, [6, 4])),
    "others joined": lambda: ConcatDataset([TEN, TensorDataset(torch.arange(10.0, 20.0))]),
    "a range backwards": lambda: Subset(TEN, range(9, -1, -1)),
    "stacked": lambda: StackDataset(TEN, TEN),
    "an empty part, joined": lambda: ConcatDataset([Subset(TEN, []), TEN]),
}


@pytest.mark.parametrize("named", DISTINCT)
def test_records_with_an_index_of_their_own_are_there_once(named: str) -> None:
    finding = found_in(DISTINCT[named]())
    assert (finding.copies, finding.scheme) == (1, Scheme.POISSON)
    assert finding.sampling == tr.Poisson(rate=0.25)
    assert not any("Cannot be seen" in note for note in finding.notes)


@pytest.mark.parametrize("dataset", [Own(), Transformed(TEN), ItsOwnOwner(), Bootstrapped(TEN, [1, 2])])
def test_a_class_of_your_own_is_read_and_what_it_hides_is_said(dataset: Any) -> None:
    finding = found_in(dataset)
    assert (finding.copies, finding.sampling) == (None, tr.Poisson(rate=0.25))
    (said,) = [note for note in finding.notes if "Cannot be seen" in note]
    assert type(dataset).__name__ in said
    assert said.endswith("gives one record under two indices.")


UNREADABLE: dict[str, Callable[[], Any]] = {
    "a Longer of 20 records holds a TensorDataset of 10 records": lambda: Longer(TEN),
    "a Longer of 20 records holds a list of 10 records": lambda: ConcatDataset([Longer([*range(10)]), TEN]),
    "a Subset names index 10 of 10 records": lambda: Subset(TEN, [10]),
    "a Subset names index -11 of 10 records": lambda: Subset(TEN, [3, -11]),
    "a Subset cannot be read, since its indices are not a row of whole numbers": lambda: Subset(
        TEN, torch.tensor([0.5])
    ),
    "a Subset cannot be read, since its indices are not whole numbers": lambda: Subset(TEN, ["zero"]),
}


@pytest.mark.parametrize("reason", UNREADABLE)
def test_a_wrapper_that_cannot_be_read_is_unknown(reason: str) -> None:
    finding = found_in(UNREADABLE[reason]())
    assert (finding.scheme, finding.sampling) == (Scheme.UNKNOWN, None)
    assert finding.sentence == f"How often one record comes cannot be told: {reason}" + (
        ", and which of them it gives how often is not known." if "holds" in reason else "."
    )
    assert "indices are drawn like this: This loader draws Poisson batches" in finding.notes[0]


def test_eight_copies_of_a_record_do_not_match_what_is_accounted_for_one() -> None:
    whole = TensorDataset(torch.zeros(1000, 3))
    run = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.01)) * 100
    sampler = PoissonSampler(records=1000, rate=0.01, steps=100)
    plain = audit(data_loader(whole, sampler), run, delta=1e-5, relation="add-or-remove")
    copied = data_loader(Subset(whole, [*range(993), *[0] * 7]), sampler)
    result = audit(copied, run, delta=1e-5, relation="add-or-remove")
    assert plain.verdict is Verdict.MATCHES
    assert result.verdict is Verdict.TOO_SMALL
    assert 5.4 < result.proved.lower < result.proved.upper < 57  # 0.72 is accounted
    assert "only 993 different records, one of them 8 times" in str(result)


COPIED: dict[str, tuple[Callable[[Any], Any], int, float]] = {
    "eight times": (lambda whole: Subset(whole, [*range(995), *[0] * 7]), 8, 5.477),
    "joined to itself": (lambda whole: ConcatDataset([Subset(whole, range(501))] * 2), 2, 1.302),
}


@pytest.mark.parametrize("named", COPIED)
def test_a_group_of_copies_is_accounted_where_one_record_was_called_a_match(named: str) -> None:
    """1,002 indices, batches of 10: epsilon is 0.618 for one record, and 5.478 for eight of them."""
    copy, copies, truth = COPIED[named]
    whole = TensorDataset(torch.zeros(1002, 3))
    sampler = PoissonSampler(records=1002, rate=10 / 1002, steps=61)
    run = tr.Step(tr.Gaussian(noise_multiplier=1.1), sampler.sampling) * 61
    plain = audit(data_loader(whole, sampler), run, delta=1e-6, relation="add-or-remove")
    assert (plain.verdict, plain.finding.copies) == (Verdict.MATCHES, 1)
    assert 0.618 < plain.claimed.upper < 0.6185
    result = audit(data_loader(copy(whole), sampler), run, delta=1e-6, relation="add-or-remove")
    assert (result.verdict, result.finding.copies) == (Verdict.TOO_SMALL, copies)
    assert truth < result.proved.lower <= result.proved.upper < truth + 0.001
    assert result.proved == tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE.of(copies))
    assert f"what is accounted for one record must hold for {copies} that come and go together" in str(result)


def test_a_dataset_joined_to_itself_matches_no_fixed_batches() -> None:
    joined = ConcatDataset([TEN, TEN])
    sampler = WithoutReplacementSampler(records=20, batch=4, steps=10)
    run = tr.Step(tr.Gaussian(noise_multiplier=1), sampler.sampling) * 10
    result = audit(data_loader(joined, sampler), run, delta=1e-5, relation="add-or-remove")
    assert (result.verdict, result.finding.copies) == (Verdict.TOO_SMALL, 2)


def test_hugging_face_selections_are_counted() -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: make training")
    whole = datasets.Dataset.from_dict({"x": list(range(10))})
    assert count_copies(whole).most == 1
    assert count_copies(whole.select([3, 1, 3, 3])).most == 3
    assert count_copies(whole.select([3, 1, 3]).select([0, 1])).most == 1
    assert count_copies(whole.select(range(3, 8))).most == 1
    assert count_copies(whole.shuffle(seed=1)).most == 1
    assert count_copies(datasets.concatenate_datasets([whole, whole])).most == 2
    assert count_copies(ConcatDataset([whole, whole.select([1, 5])])).most == 2
    assert count_copies(Transformed(whole.select([3, 3]))).most == 2


# --- how much work it is; benchmarks/watching.py measures what that takes


def indices_of(kind: str, records: int) -> Any:
    order = torch.randperm(records, generator=torch.Generator().manual_seed(1))
    return {
        "list": order.tolist,
        "array": order.numpy,
        "tensor": order.clone,
        "range": lambda: range(records),
    }[kind]()


def calls_to_inspect(loader: Any) -> int:
    """How many functions, of Python and of C, are called to read a loader."""
    calls = 0

    def count(_frame: Any, event: str, _function: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        finding = inspect_loader(loader)
    finally:
        sys.setprofile(before)
    assert finding.copies == 1
    return calls


LOADERS: dict[str, Callable[[Any, int], Any]] = {
    "of a subset": lambda indices, records: DPDataLoader(
        Subset(TensorDataset(torch.zeros(records)), indices), sample_rate=1e-3
    ),
    "of a sampler": lambda indices, records: DataLoader(
        range(records), 64, sampler=SubsetRandomSampler(indices)
    ),
}


@pytest.mark.parametrize("kind", ["list", "array", "tensor", "range"])
@pytest.mark.parametrize("named", LOADERS)
def test_indices_are_counted_all_at_once_and_not_one_by_one(named: str, kind: str) -> None:
    few, many = 10_000, 200_000
    calls_to_inspect(LOADERS[named](indices_of(kind, few), few))  # what is imported on the way is not counted
    a_few = calls_to_inspect(LOADERS[named](indices_of(kind, few), few))
    assert calls_to_inspect(LOADERS[named](indices_of(kind, many), many)) < 2 * a_few


# --- what makes batches of records


def mixup(records: list[Any]) -> Any:
    return default_collate(records)


def test_a_collate_function_of_your_own_is_named() -> None:
    for loader in (
        DataLoader(TEN, 2, collate_fn=mixup),
        DPDataLoader(TEN, sample_rate=0.25, collate_fn=mixup),
        data_loader(TEN, PoissonSampler(records=10, rate=0.25, steps=4), collate_fn=mixup),
    ):
        (said,) = [note for note in inspect_loader(loader).notes if "collate_fn" in note]
        assert said.startswith("Cannot be seen: whether the collate_fn, mixup, mixes records")


def test_the_collate_functions_of_torch_are_not_named() -> None:
    for loader in (
        DataLoader(TEN, 2),
        DPDataLoader(TEN, sample_rate=0.25),
        DPDataLoader.from_data_loader(DataLoader(TEN, 2)),
        data_loader(TEN, PoissonSampler(records=10, rate=0.25, steps=4)),
        data_loader(TEN, PoissonSampler(records=10, rate=0.25, steps=4), collate_fn=default_collate),
    ):
        assert not any("collate_fn" in note for note in inspect_loader(loader).notes)


ROWS = torch.randn(10, 3)


@pytest.mark.parametrize(
    ("dataset", "most", "distinct"),
    [
        (ConcatDataset([TensorDataset(ROWS[:8]), TensorDataset(ROWS[2:])]), 2, 10),
        (ConcatDataset([TensorDataset(ROWS[:5]), TensorDataset(ROWS[5:])]), 1, 10),
        (ConcatDataset([TensorDataset(ROWS[:5], ROWS[:5, 0]), TensorDataset(ROWS[4:], ROWS[4:, 0])]), 2, 10),
        (TensorDataset(ROWS[:1].expand(10, 3)), 10, 1),
        (TensorDataset(ROWS[:1].expand(10, 3), torch.arange(10)), 1, 10),
        (ConcatDataset([TensorDataset(ROWS[2:], torch.arange(8))] * 2), 2, 8),
        ([*(minority := [(ROWS[0], 1), (ROWS[1], 1)]) * 8, (ROWS[2], 0)], 8, 3),
        ([(row, 0) for row in ROWS], 1, 10),
        ([1, 1, 1], 1, 3),
        (ROWS.numpy(), 1, 10),
        (np.broadcast_to(np.zeros(2), (10, 2)), 10, 1),
        (ROWS[:1].expand(10, 3), 10, 1),
        (ConcatDataset([ROWS.numpy()[:8], ROWS.numpy()[2:]]), 2, 10),
        (ConcatDataset([(flat := np.arange(10.0))[:8], flat[8:]]), 1, 10),
        (np.array([one := object(), one, object()], dtype=object), 2, 2),
    ],
)
def test_parts_of_the_same_memory_and_the_same_objects_are_the_same_records(
    dataset: Any, most: int, distinct: int
) -> None:
    """A list whose minority was multiplied, and slices that overlap, were said to hold each record once."""
    copies = count_copies(dataset)
    assert (copies.most, copies.distinct) == (most, distinct)
