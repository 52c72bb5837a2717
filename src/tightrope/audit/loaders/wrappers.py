"""Batch samplers around batch samplers: what they make of the batches they hand on."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tightrope.audit.finding import Finding, Scheme
from tightrope.audit.loaders.cuts import Cut
from tightrope.audit.loaders.samplers import BATCH_SAMPLERS
from tightrope.audit.loaders.words import count, kind_of, refuse, tell, tell_unknown, tell_unread


def read_batch_sampler(batch_sampler: Any, records: int) -> Cut | Finding:
    """What a batch sampler over `records` records yields, all processes together."""
    kind = kind_of(batch_sampler)
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
        epoch=left if finding.epoch == of else None,
        full=None,
        removal_changes_one_slot=False,
        reshuffles=None,
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
    if inner.scheme is Scheme.POISSON and shard.batch_size is not None:
        ends = (
            "Poisson batches vary in size, but the BatchSamplerShard takes one that has not "
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
        joins = f"One step joins {processes} batches that were drawn without replacement"
        reason = f"{joins}, and may hold a record {processes} times"
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
        notes=inner.notes,
    )
    if not left_over:
        return finding
    return add_note(finding, f"The last step of a pass has only {count(left_over, 'draw')}.")


WRAPPERS: dict[str, Callable[[Any, int], Cut | Finding]] = {
    "accelerate.data_loader.BatchSamplerShard": _read_shard,
    "accelerate.data_loader.SkipBatchSampler": _read_skip,
}
