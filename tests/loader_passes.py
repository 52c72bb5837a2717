"""Loaders to inspect, with passes over them to hold against the findings."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

import torch
from torch.utils.data import (
    DataLoader,
    TensorDataset,
)

from tightrope.audit.finding import Finding, Scheme
from tightrope.audit.loaders.inspect import inspect_loader
from tightrope.errors import InvalidSetting
from tightrope.setting.sampling import EveryRecord, WithoutReplacement

Steps = list[list[int]]


def dataset(records: int) -> TensorDataset:
    return TensorDataset(torch.arange(records))


def over(records: int, **how: Any) -> Finding:
    return inspect_loader(DataLoader(dataset(records), **how))


def seeded(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def together(*ranks: Any) -> Steps:
    """The global batches of one pass: what all ranks draw in each step."""
    return [
        [int(i) for part in parts for i in part]
        for parts in itertools.zip_longest(*(list(rank) for rank in ranks), fillvalue=())
    ]


def twice(indices: list[int]) -> bool:
    return len(set(indices)) < len(indices)


def agrees(finding: Finding, steps: Steps, records: int) -> None:
    """One pass of a loader that shuffles or goes in order is as the finding says."""
    everything = list(itertools.chain.from_iterable(steps))
    assert not any(twice(step) for step in steps)
    assert finding.records == records
    assert finding.batch_count == len(steps)
    assert finding.batch == len(steps[0]) == max(len(step) for step in steps)
    if finding.scheme is Scheme.EVERY_RECORD:
        assert finding.sampling == EveryRecord()
        assert all(len(step) == records for step in steps)
    elif finding.scheme is Scheme.WITHOUT_REPLACEMENT:
        assert finding.sampling == WithoutReplacement(batch=len(steps[0]), population=records)
        assert len(steps) == 1
    else:
        assert finding.scheme in (Scheme.SHUFFLE, Scheme.FIXED_PARTITION)
        assert finding.epoch is not None
        epochs = [steps[start : start + finding.epoch] for start in range(0, len(steps), finding.epoch)]
        often = max(max(Counter(itertools.chain.from_iterable(epoch)).values()) for epoch in epochs)
        assert often == finding.times
        assert len(epochs) == 1 or len(everything) > records


def inspected(loader: Any, steps: Callable[[], Steps], records: int) -> Finding | None:
    if not steps():
        with pytest.raises(InvalidSetting, match="must yield a batch"):
            inspect_loader(loader)
        return None
    finding = inspect_loader(loader)
    if finding.scheme is Scheme.UNKNOWN:
        # a record twice in one batch, in this pass or another, or batches with all records next to others
        seen = list(itertools.chain.from_iterable(steps() for _ in range(50)))
        if "with one record fewer" in finding.sentence:
            assert {len(step) for step in seen} == {records}
            return finding
        assert any(twice(step) for step in seen) or {len(step) == records for step in seen} == {True, False}
    else:
        agrees(finding, steps(), records)
    return finding
