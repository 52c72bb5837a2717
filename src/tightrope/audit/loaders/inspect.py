"""A data loader, read from its structure, as a finding."""

import sys
from collections.abc import Callable
from typing import Any

from tightrope.audit.finding import Finding
from tightrope.audit.loaders.batches import as_finding
from tightrope.audit.loaders.processes import batches_of, dispatched, noted, skipped
from tightrope.audit.loaders.rates import float32_rate
from tightrope.audit.loaders.words import called, kind_of, unknown, unread
from tightrope.errors import InvalidSetting

__all__ = ["float32_rate", "inspect_loader"]

SPLITTING = "opacus.utils.batch_memory_manager.BatchSplittingSampler"


def inspect_loader(loader: object) -> Finding:
    """Which scheme a torch `DataLoader` runs, by the exact classes of the loader, its batch sampler and its sampler.

    Loaders of torch, Opacus (also a `BatchMemoryManager`) and Accelerate are read, and nothing is drawn from them. A class that
    is not known, such as a subclass that may override `__iter__`, gives `Scheme.UNKNOWN` and never a guess. Not seen from here:
    a dataset that picks records by itself, a training loop that stops early, and other processes that draw on their own.
    """
    reader = READERS.get(kind_of(loader))
    if reader:
        return reader(loader)
    if not _looks_like_a_loader(loader):
        raise InvalidSetting(
            f"loader must be a torch DataLoader, got {called(loader)}. "
            "Pass the DataLoader that the training iterates over, or what watch(batches, records=...) finds of the index batches."
        )
    return unread(loader, role="loader")


def _looks_like_a_loader(loader: object) -> bool:
    torch_loader = getattr(sys.modules.get("torch.utils.data"), "DataLoader", None)
    return not isinstance(loader, type) and (
        (torch_loader is not None and isinstance(loader, torch_loader))
        or (hasattr(loader, "dataset") and hasattr(loader, "batch_sampler"))
    )


def _plain(loader: Any) -> Finding:
    return _read(loader, processes=1, split=False, drop_last=False)


def _read(loader: Any, *, processes: int, split: bool, drop_last: bool) -> Finding:
    """What a loader runs when each of its batches, or as many as there are processes, are dealt out."""
    from_iterable = isinstance(loader.dataset, sys.modules["torch.utils.data"].IterableDataset)
    if from_iterable:
        return unknown(
            f"The dataset is {called(loader.dataset)}, an IterableDataset, which picks its records by itself"
        )
    records = _records(loader.dataset)
    batch_sampler = loader.batch_sampler
    if batch_sampler is None:
        return unknown("With batch_size=None the dataset makes the batches, not the loader", records=records)
    # looked through here and nowhere deeper: a wrapper around it would deal with parts of batches
    if kind_of(batch_sampler) == SPLITTING and processes == 1:
        return _in_parts(as_finding(batches_of(batch_sampler.sampler, records)), batch_sampler.max_batch_size)
    batches = batches_of(batch_sampler, records)
    return as_finding(dispatched(batches, records, processes=processes, split=split, drop_last=drop_last))


def _in_parts(finding: Finding, most: int) -> Finding:
    return noted(
        finding,
        f"Batches reach the model in parts of at most {most:,} records; a step is taken after the last part.",
    )


def _records(dataset: Any) -> int:
    try:
        records = len(dataset)
    except (TypeError, NotImplementedError):
        raise InvalidSetting(
            f"The dataset of the loader, {called(dataset)}, has no length, so no rate can be told. Give it a __len__."
        ) from None
    if records == 0:
        raise InvalidSetting(
            f"The dataset of the loader, {called(dataset)}, has 0 records. Pass a loader over at least one record."
        )
    return records


def _memory_manager(manager: Any) -> Finding:
    return _in_parts(inspect_loader(manager.data_loader), manager.max_physical_batch_size)


def _accelerate_shard(loader: Any) -> Finding:
    base = loader.base_dataloader
    return (
        skipped(inspect_loader(base), loader.skip_batches, of=len(base))
        if loader.skip_batches
        else inspect_loader(base)
    )


def _accelerate_dispatcher(loader: Any) -> Finding:
    base = loader.base_dataloader
    if READERS.get(kind_of(base)) is not _plain:
        return unread(base, role="loader")
    processes = loader.state.num_processes
    if getattr(loader, "submesh_tp", None) is not None and processes > 1:
        return unknown(
            "Processes that share the layers of a model get copies of one batch, which is not read here"
        )
    finding = _read(base, processes=processes, split=loader.split_batches, drop_last=loader._drop_last)
    return skipped(finding, loader.skip_batches, of=len(loader)) if loader.skip_batches else finding


READERS: dict[str, Callable[[Any], Finding]] = {
    "torch.utils.data.dataloader.DataLoader": _plain,
    "opacus.data_loader.DPDataLoader": _plain,
    "opacus.utils.batch_memory_manager.BatchMemoryManager": _memory_manager,
    "accelerate.data_loader.DataLoaderShard": _accelerate_shard,
    "accelerate.data_loader.DataLoaderDispatcher": _accelerate_dispatcher,
}
