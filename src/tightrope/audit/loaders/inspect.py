"""A data loader, read from its structure, as a finding."""

import sys
from collections.abc import Callable
from typing import Any

from tightrope.audit.finding import Finding
from tightrope.audit.loaders.words import kind_of, name_class, refuse, tell_unknown, tell_unread
from tightrope.audit.loaders.wrappers import add_note, dispatch, finish, read_batch_sampler, skip

SPLITTING = "opacus.utils.batch_memory_manager.BatchSplittingSampler"


def inspect_loader(loader: object) -> Finding:
    """Which scheme a torch `DataLoader` runs, by the exact classes of the loader and its samplers.

    Loaders of torch, Opacus (also a `BatchMemoryManager`) and Accelerate are read, and nothing is drawn from
    them. A class that is not known, such as a subclass that may override `__iter__`, gives `Scheme.UNKNOWN`
    and never a guess. Not seen from here: a dataset that picks records by itself, a training loop that stops
    early, and other processes that draw on their own.
    """
    reader = LOADERS.get(kind_of(loader))
    if reader:
        return reader(loader)
    if not _looks_like_a_loader(loader):
        remedy = (
            "Pass the DataLoader that the training iterates over, or what watch(batches, records=...) finds "
            "in the index batches."
        )
        raise refuse("be a torch DataLoader", name_class(loader), remedy)
    return tell_unread(loader, role="loader")


def _looks_like_a_loader(loader: object) -> bool:
    torch_loader = getattr(sys.modules.get("torch.utils.data"), "DataLoader", ())
    has_parts = hasattr(loader, "dataset") and hasattr(loader, "batch_sampler")
    return not isinstance(loader, type) and (isinstance(loader, torch_loader) or has_parts)


def _read_plain(loader: Any) -> Finding:
    return _read_parts(loader, processes=1, split=False, drop_last=False)


def _read_parts(loader: Any, *, processes: int, split: bool, drop_last: bool) -> Finding:
    """What a loader runs when each of its batches, or as many as there are processes, are dealt out."""
    if isinstance(loader.dataset, sys.modules["torch.utils.data"].IterableDataset):
        kind = f"{name_class(loader.dataset)}, an IterableDataset"
        return tell_unknown(f"The dataset is {kind}, which picks its records by itself")
    records = _count_records(loader.dataset)
    batch_sampler = loader.batch_sampler
    if batch_sampler is None:
        reason = "With batch_size=None the dataset makes the batches, not the loader"
        return tell_unknown(reason, records=records)
    # looked through here and nowhere deeper: a wrapper around it would deal with parts of batches
    if kind_of(batch_sampler) == SPLITTING and processes == 1:
        whole = finish(read_batch_sampler(batch_sampler.sampler, records))
        return _tell_parts(whole, batch_sampler.max_batch_size)
    batches = read_batch_sampler(batch_sampler, records)
    return finish(dispatch(batches, records, processes=processes, split=split, drop_last=drop_last))


def _tell_parts(finding: Finding, most: int) -> Finding:
    parts = f"Batches reach the model in parts of at most {most:,} records"
    return add_note(finding, f"{parts}; a step is taken after the last part.")


def _count_records(dataset: Any) -> int:
    try:
        records = len(dataset)
    except (TypeError, NotImplementedError):
        found = f"{name_class(dataset)}, which has no length"
        raise refuse("have a dataset with a length", found, "Without it no rate can be told.") from None
    if records == 0:
        found = f"{name_class(dataset)}, which has 0 records"
        raise refuse("have a dataset that is not empty", found, "Pass one over at least one record.")
    return records


def _read_memory_manager(manager: Any) -> Finding:
    return _tell_parts(inspect_loader(manager.data_loader), manager.max_physical_batch_size)


def _read_accelerate_shard(loader: Any) -> Finding:
    base, skipped = loader.base_dataloader, loader.skip_batches
    return skip(inspect_loader(base), skipped, of=len(base)) if skipped else inspect_loader(base)


def _read_accelerate_dispatcher(loader: Any) -> Finding:
    base, skipped = loader.base_dataloader, loader.skip_batches
    if LOADERS.get(kind_of(base)) is not _read_plain:
        return tell_unread(base, role="loader")
    processes = loader.state.num_processes
    if getattr(loader, "submesh_tp", None) is not None and processes > 1:
        reason = "Processes that share the layers of a model get copies of one batch, which is not read here"
        return tell_unknown(reason)
    finding = _read_parts(base, processes=processes, split=loader.split_batches, drop_last=loader._drop_last)
    return skip(finding, skipped, of=len(loader)) if skipped else finding


LOADERS: dict[str, Callable[[Any], Finding]] = {
    "torch.utils.data.dataloader.DataLoader": _read_plain,
    "opacus.data_loader.DPDataLoader": _read_plain,
    "opacus.utils.batch_memory_manager.BatchMemoryManager": _read_memory_manager,
    "accelerate.data_loader.DataLoaderShard": _read_accelerate_shard,
    "accelerate.data_loader.DataLoaderDispatcher": _read_accelerate_dispatcher,
}
