"""A data loader, read from its structure through all that wraps its batch sampler, as a finding."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tightrope.audit.finding import Finding, Scheme
from tightrope.audit.loaders.collating import tell_collate
from tightrope.audit.loaders.cuts import Cut
from tightrope.audit.loaders.datasets import RecordCopies, count_copies
from tightrope.audit.loaders.samplers import BATCH_SAMPLERS, OUR_SAMPLERS, OURS, SHARE, read_passes
from tightrope.audit.loaders.strategies import STRATEGIES
from tightrope.audit.loaders.words import (
    count,
    kind_of,
    name_class,
    refuse,
    tell,
    tell_replaced,
    tell_unknown,
    tell_unread,
)
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.setting.sampling import Allocated

UNSEEN_DATASET = (
    "Cannot be seen: the dataset, whether it has these records or gives one of them under two indices, and "
    "the loader that reads it."
)
CHOSEN_IN_PASSES = (Scheme.BALLS_IN_BINS, Scheme.RANDOM_ALLOCATION)
VARYING = (Scheme.POISSON, Scheme.TRUNCATED_POISSON, *CHOSEN_IN_PASSES)  # in size, from batch to batch
SPLITTING = "opacus.utils.batch_memory_manager.BatchSplittingSampler"


def inspect_loader(loader: object, *, records: int | None = None) -> Finding:
    """Which scheme a torch `DataLoader` runs, by the exact classes of the loader and its samplers.

    Loaders of torch, Opacus (also a `BatchMemoryManager`) and Accelerate are read, and nothing is drawn from
    them. A class that is not known, such as a subclass that may override `__iter__`, gives `Scheme.UNKNOWN`
    and never a guess. Records that are there several times are counted. Not seen from here: a dataset class
    of your own that gives one record under two indices, a `collate_fn` that mixes records, a training loop
    that stops early, and other processes that draw on their own.

    A sampler of `tightrope.samplers`, or a share of one, is read for what it says; its dataset is not seen.
    A batch selection strategy of jax_privacy is read too. It holds no dataset: `records` says how many
    examples its `batch_iterator` is given.
    """
    strategy = STRATEGIES.get(kind_of(loader))
    if strategy:
        return strategy(loader, _check_records(records))
    if hasattr(loader, "batch_iterator") and not isinstance(loader, type):
        return tell_unread(loader, role="strategy", records=records)
    if records is not None:
        raise InvalidSetting("records", records, "be left out", "The loader or the sampler tells it.")
    if kind_of(loader) in (SHARE, *OUR_SAMPLERS):
        return _read_sampler(loader)
    reader = LOADERS.get(kind_of(loader))
    if reader:
        return tell_replaced(loader, role="loader") or reader(loader)
    if not _looks_like_a_loader(loader):
        remedy = (
            "Pass the DataLoader that the training iterates over, a sampler of tightrope.samplers, a "
            "strategy of jax_privacy, or what watch(batches, records=...) finds in the index batches."
        )
        raise refuse("be a torch DataLoader", name_class(loader), remedy)
    return tell_unread(loader, role="loader")


def _read_sampler(passes: Any) -> Finding:
    finding = _count_begun(read_passes(passes, passes.records, by="This sampler"), passes)
    return finding if finding.scheme is Scheme.UNKNOWN else add_note(finding, UNSEEN_DATASET)


def _count_begun(finding: Finding, passes: Any) -> Finding:
    """The same, where the batches to come do not begin with a pass: those before them count as well.

    The rest of one pass and the first batches of the next tell more than as many batches of one pass.
    """
    if not isinstance(finding.sampling, Allocated) or finding.batch_count is None:
        return finding
    begun = passes.drawn % finding.sampling.batches
    if not begun:
        return finding
    note = f"Of the present pass {count(begun, 'batch')} were drawn before: account them with those to come."
    return replace(add_note(finding, note), batch_count=finding.batch_count + begun, begun=begun)


def _check_records(records: int | None) -> int:
    if records is None:
        remedy = "A strategy holds no dataset: pass records=, what its batch_iterator takes as num_examples."
        raise InvalidSetting("records", records, "be the number of examples", remedy)
    return check.whole(least=1, records=records)


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
    if loader.batch_sampler is None:
        reason = "With batch_size=None the dataset makes the batches, not the loader"
        return tell_unknown(reason, records=records)
    finding = _read_batches(loader, records, processes=processes, split=split, drop_last=drop_last)
    mixes = tell_collate(loader.collate_fn)
    finding = add_note(finding, mixes) if mixes else finding
    return finding if finding.scheme is Scheme.UNKNOWN else tell_copies(finding, count_copies(loader.dataset))


def _read_batches(loader: Any, records: int, *, processes: int, split: bool, drop_last: bool) -> Finding:
    batch_sampler = loader.batch_sampler
    # looked through here and nowhere deeper: a wrapper around it would deal with parts of batches
    if kind_of(batch_sampler) == SPLITTING and processes == 1:
        logical = batch_sampler.sampler
        whole = _tell_parts(finish(read_batch_sampler(logical, records)), batch_sampler.max_batch_size)
    else:
        logical, batches = batch_sampler, read_batch_sampler(batch_sampler, records)
        whole = finish(dispatch(batches, records, processes=processes, split=split, drop_last=drop_last))
    return _count_begun(whole, logical.sampler) if kind_of(logical) == OURS else whole


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


# batch samplers around batch samplers


def read_batch_sampler(batch_sampler: Any, records: int) -> Cut | Finding:
    """What a batch sampler over `records` records yields, all processes together."""
    kind = kind_of(batch_sampler)
    if replaced := tell_replaced(batch_sampler, role="batch sampler", records=records):
        return replaced
    reader = BATCH_SAMPLERS.get(kind) or WRAPPERS.get(kind)
    if reader is None:
        return tell_unread(batch_sampler, role="batch sampler", records=records)
    return reader(batch_sampler, records)


def finish(batches: Cut | Finding) -> Finding:
    """The finding about batches that no wrapper changes any more."""
    return batches.find() if isinstance(batches, Cut) else batches


def add_note(finding: Finding, note: str) -> Finding:
    """The same finding with more to say about it."""
    return replace(finding, notes=(*finding.notes, note))


def tell_copies(finding: Finding, copies: RecordCopies) -> Finding:
    """A finding about indices, as one about records of which some may be there several times."""
    for unread in copies.unread:
        finding = add_note(finding, f"Cannot be seen: whether {unread} gives one record under two indices.")
    if copies.why_not:
        return tell(
            scheme=Scheme.UNKNOWN,
            sentence=f"How often one record comes cannot be told: {copies.why_not}.",
            records=finding.records,
            notes=(f"Its indices are drawn like this: {finding.sentence}", *finding.notes),
        )
    if copies.most is None or copies.most == 1:
        return replace(finding, copies=copies.most)
    repeats = (
        f"But its dataset gives only {copies.distinct:,} different records, one of them {copies.most:,} times"
        f": what is accounted for one record must hold for {copies.most:,} that come and go together."
    )
    return replace(finding, sampling=None, copies=copies.most, sentence=f"{finding.sentence} {repeats}")


def skip(finding: Finding, batches: int, *, of: int) -> Finding:
    """A finding about a loader that leaves out the first batches of every pass."""
    if batches <= 0:
        return finding
    if batches >= of:
        found = f"one that skips {count(batches, 'batch')} of the {of:,} of a pass, so none is left"
        raise refuse("yield a batch", found, "Skip fewer batches.")
    left = of - batches
    # what is left of a pass is no epoch of the order; still known is that records come no more often
    finding = replace(
        finding,
        sampling=None if finding.scheme in CHOSEN_IN_PASSES else finding.sampling,
        epoch=left if finding.epoch == of else None,
        full=None,
        removal_changes_one_slot=False,
        reshuffles=None,
        batch_count=left,
    )
    first = f"The first {count(batches, 'batch')} of each pass over this loader are skipped"
    return add_note(finding, f"{first}, {left:,} are left.")


def dispatch(
    inner: Cut | Finding, records: int, *, processes: int, split: bool, drop_last: bool
) -> Cut | Finding:
    """Batches that one process loads and deals out, in equal parts, to all.

    A batch that does not divide by the number of processes loses what is left over, except the last of a
    pass, which is filled.
    """
    if processes == 1:
        return inner
    if isinstance(inner, Finding):
        if inner.scheme is Scheme.UNKNOWN:
            return inner
        lost = "Batches of varying size lose the records left over when one process deals them out evenly"
        return tell_unknown(lost, records=records, notes=inner.notes)
    if inner.stream.ranks > 1 or (split and inner.batch % processes) or (drop_last and not inner.drop_last):
        uneven = "The batches do not divide evenly between the processes, and what is left over is lost"
        return tell_unknown(uneven, records=records)
    if split:
        return replace(inner, fill_to=processes, notes=(*inner.notes, _tell_split(processes)))
    # what is left of a pass once the inner batches have been cut
    stream = replace(inner.stream, length=inner.used, follows=None)
    return Cut(
        stream=stream,
        batch=inner.batch * processes,
        drop_last=drop_last,
        fill_to=processes,
        notes=(*inner.notes, _tell_several(processes, inner.batch)),
    )


def _tell_split(processes: int) -> str:
    return f"Each batch is split between {processes} processes."


def _tell_several(processes: int, batch: int) -> str:
    return f"One step uses {processes} batches of {batch:,}, one for each process."


def _read_skip(sampler: Any, records: int) -> Finding:
    inner = sampler.batch_sampler
    return skip(finish(read_batch_sampler(inner, records)), sampler.skip_batches, of=len(inner))


def _read_shard(shard: Any, records: int) -> Cut | Finding:
    inner = read_batch_sampler(shard.batch_sampler, records)
    if isinstance(inner, Finding) and inner.scheme is Scheme.UNKNOWN:
        return inner
    if kind_of(shard.batch_sampler) not in BATCH_SAMPLERS or _ranks(shard.batch_sampler) > 1:
        dealt = "The BatchSamplerShard deals out batches that were already dealt out, or skipped"
        return tell_unknown(dealt, records=records)
    if isinstance(inner, Cut):
        return _shard_cut(shard, inner)
    if inner.scheme in VARYING and shard.batch_size is not None:
        who = "Poisson batches" if inner.scheme is Scheme.POISSON else "Batches"
        ends = (
            f"{who} vary in size, but the BatchSamplerShard takes one that has not "
            f"{shard.batch_size} records for the end of a pass"
        )
        return tell_unknown(ends, records=records, notes=inner.notes)
    if shard.num_processes == 1:
        return inner
    if shard.split_batches:
        return add_note(inner, _tell_split(shard.num_processes))
    return _shard_draws(shard, inner)


def _ranks(batch_sampler: Any) -> int:
    """How many processes a batch sampler, or the sampler in it, already draws for."""
    inside = getattr(batch_sampler, "sampler", None)
    ranks = getattr(inside, "num_replicas", getattr(inside, "ranks", 1))
    return int(getattr(batch_sampler, "num_replicas", ranks))


def _shard_cut(shard: Any, cut: Cut) -> Cut | Finding:
    processes, records = shard.num_processes, cut.stream.records
    if processes > 1 and not cut.stream.renewed:
        seeds = (
            f"Each of {processes} processes shuffles by a seed of its own: unless all seeds are equal, which "
            "cannot be seen from here, the parts of a batch overlap"
        )
        return tell_unknown(seeds, records=records, notes=cut.stream.notes)
    if shard.batch_size != cut.batch or shard.drop_last != cut.drop_last:
        made_for = f"The BatchSamplerShard was made for batches of {shard.batch_size}"
        return tell_unknown(f"{made_for}, but its batch sampler now cuts {cut.batch:,}", records=records)
    split = shard.split_batches
    batch = cut.batch if split else cut.batch * processes
    how = _tell_split(processes) if split else _tell_several(processes, cut.batch)
    same = "All processes must make the same draws for that: accelerate's prepare arranges it."
    notes = () if processes == 1 else (how, same)
    return replace(cut, batch=batch, fill_to=batch if shard.even_batches else 1, notes=notes)


def _shard_draws(shard: Any, inner: Finding) -> Finding:
    """Whole batches, one for each process in every step."""
    processes, batches = shard.num_processes, len(shard.batch_sampler)
    left_over = 0 if shard.drop_last else batches % processes
    if inner.scheme is not Scheme.POISSON or inner.rate is None:
        drawn = " that were drawn without replacement" * (inner.scheme is Scheme.WITHOUT_REPLACEMENT)
        reason = f"One step joins {processes} batches{drawn}, and may hold a record {processes} times"
        return replace(tell_unknown(reason, records=inner.records, notes=inner.notes), draws=processes)
    if left_over and shard.even_batches:
        reason = (
            f"One step uses {processes} Poisson draws, but {count(batches, 'batch')} do not divide by "
            f"{processes}, so the last step of a pass repeats earlier draws, which even_batches=False "
            "would avoid"
        )
        repeats = tell_unknown(reason, records=inner.records, notes=inner.notes)
        return replace(repeats, draws=processes, rate=inner.rate)
    finding = tell(
        scheme=Scheme.SEVERAL_DRAWS,
        sentence=f"This loader gives each of {processes} processes a Poisson batch of its own: one step uses "
        f"{processes} draws at rate {inner.rate:.10g} and may hold a record {processes} times.",
        records=inner.records,
        draws=processes,
        rate=inner.rate,
        batch_count=batches // processes + (left_over > 0),
        notes=inner.notes,
    )
    if not left_over:
        return finding
    return add_note(finding, f"The last step of a pass has only {count(left_over, 'draw')}.")


WRAPPERS: dict[str, Callable[[Any, int], Cut | Finding]] = {
    "accelerate.data_loader.BatchSamplerShard": _read_shard,
    "accelerate.data_loader.SkipBatchSampler": _read_skip,
}
