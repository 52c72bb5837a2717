"""Batch samplers around batch samplers: what they make of the batches they hand on, to one process or to several."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.loaders.batches import DRAWING, as_finding
from tightrope.audit.loaders.cuts import Cut
from tightrope.audit.loaders.words import counted, kind_of, unknown, unread
from tightrope.errors import InvalidSetting


def batches_of(batch_sampler: Any, records: int) -> Cut | Finding:
    """What a batch sampler over `records` records yields, all processes together."""
    kind = kind_of(batch_sampler)
    reader = DRAWING.get(kind) or HANDING_ON.get(kind)
    return (
        reader(batch_sampler, records)
        if reader
        else unread(batch_sampler, role="batch sampler", records=records)
    )


def noted(finding: Finding, *notes: str) -> Finding:
    """The same finding with more to say about it."""
    return replace(finding, notes=(*finding.notes, *notes))


def skipped(finding: Finding, batches: int, *, of: int) -> Finding:
    """A finding about a loader that leaves out the first batches of every pass."""
    if batches <= 0:
        return finding
    if batches >= of:
        raise InvalidSetting(
            f"The loader skips {counted(batches, 'batch')} of the {of:,} of a pass, so none is left. Skip fewer batches."
        )
    left = of - batches
    # what is left of a pass is no epoch of the order: only that a record comes no more often in it is still known
    cut_short = replace(
        finding,
        epoch=left if finding.epoch == of else None,
        full=None,
        removal_changes_one_slot=False,
        reshuffles=None,
    )
    return noted(
        cut_short,
        f"The first {counted(batches, 'batch')} of each pass over this loader are skipped, {left:,} are left.",
    )


def dispatched(
    inner: Cut | Finding, records: int, *, processes: int, split: bool, drop_last: bool
) -> Cut | Finding:
    """Batches that one process loads and deals out, in equal parts, to all.

    A batch that does not divide by the number of processes loses what is left over, except the last of a pass, which is filled.
    """
    if processes == 1:
        return inner
    if isinstance(inner, Finding):
        lost = "Batches of varying size lose the records that are left over when one process deals them out evenly"
        return inner if inner.scheme is Scheme.UNKNOWN else unknown(lost, records=records, notes=inner.notes)
    if inner.stream.ranks > 1 or (split and inner.batch % processes) or (drop_last and not inner.drop_last):
        return unknown(
            "The batches do not divide evenly between the processes, and what is left over is lost",
            records=records,
        )
    if split:
        return replace(
            inner,
            fill_to=processes,
            notes=(*inner.notes, f"Each batch is split between {processes} processes."),
        )
    stream = replace(
        inner.stream, length=inner.used, follows=None
    )  # what is left of a pass once the inner batches have been cut
    several = f"One step uses {processes} batches of {inner.batch:,}, one for each process."
    return Cut(
        stream=stream,
        batch=inner.batch * processes,
        drop_last=drop_last,
        fill_to=processes,
        notes=(*inner.notes, several),
    )


def _skipping(sampler: Any, records: int) -> Finding:
    return skipped(
        as_finding(batches_of(sampler.batch_sampler, records)),
        sampler.skip_batches,
        of=len(sampler.batch_sampler),
    )


def _sharded(shard: Any, records: int) -> Cut | Finding:
    inner = batches_of(shard.batch_sampler, records)
    if isinstance(inner, Finding) and inner.scheme is Scheme.UNKNOWN:
        return inner
    if kind_of(shard.batch_sampler) not in DRAWING or _ranks(shard.batch_sampler) > 1:
        return unknown(
            "The BatchSamplerShard deals out batches that were already dealt out, or skipped", records=records
        )
    if isinstance(inner, Cut):
        return _shared_cut(shard, inner)
    if inner.scheme is Scheme.POISSON and shard.batch_size is not None:
        return unknown(
            f"Poisson batches vary in size, but the BatchSamplerShard takes one that has not {shard.batch_size} records for "
            "the end of a pass",
            records=records,
            notes=inner.notes,
        )
    if shard.num_processes == 1:
        return inner
    if shard.split_batches:
        return noted(inner, f"Each batch is split between {shard.num_processes} processes.")
    return _several_draws(shard, inner)


def _ranks(batch_sampler: Any) -> int:
    """How many processes a batch sampler, or the sampler in it, already draws for."""
    inside = getattr(batch_sampler, "sampler", None)
    return int(
        getattr(batch_sampler, "num_replicas", getattr(inside, "num_replicas", getattr(inside, "ranks", 1)))
    )


def _shared_cut(shard: Any, cut: Cut) -> Cut | Finding:
    processes = shard.num_processes
    if processes > 1 and not cut.stream.renewed:
        return unknown(
            f"Each of {processes} processes shuffles by a seed of its own: unless all seeds are equal, which cannot be seen from "
            "here, the parts of a batch overlap",
            records=cut.stream.records,
            notes=cut.stream.notes,
        )
    if shard.batch_size != cut.batch or shard.drop_last != cut.drop_last:
        return unknown(
            f"The BatchSamplerShard was made for batches of {shard.batch_size}, but its batch sampler now cuts {cut.batch:,}",
            records=cut.stream.records,
        )
    batch = cut.batch if shard.split_batches else cut.batch * processes
    split = f"Each batch is split between {processes} processes."
    several = f"One step uses {processes} batches of {cut.batch:,}, one for each process."
    alike = "All processes must draw alike for that: accelerate's prepare arranges it."
    notes = () if processes == 1 else (split if shard.split_batches else several, alike)
    return replace(cut, batch=batch, fill_to=batch if shard.even_batches else 1, notes=notes)


def _several_draws(shard: Any, inner: Finding) -> Finding:
    """Whole batches, one for each process in every step."""
    processes, batches = shard.num_processes, len(shard.batch_sampler)
    left_over = 0 if shard.drop_last else batches % processes
    if inner.scheme is not Scheme.POISSON or inner.rate is None:
        reason = f"One step joins {processes} batches that were drawn without replacement, and may hold a record {processes} times"
        return replace(unknown(reason, records=inner.records, notes=inner.notes), draws=processes)
    if left_over and shard.even_batches:
        reason = (
            f"One step uses {processes} Poisson draws, but {counted(batches, 'batch')} do not divide by {processes}, "
            "so the last step of a pass repeats earlier draws, which even_batches=False would avoid"
        )
        return replace(
            unknown(reason, records=inner.records, notes=inner.notes), draws=processes, rate=inner.rate
        )
    finding = Finding(
        scheme=Scheme.SEVERAL_DRAWS,
        how=How.INSPECTED,
        sentence=f"This loader gives each of {processes} processes a Poisson batch of its own: one step uses {processes} draws "
        f"at rate {inner.rate:.10g} and may hold a record {processes} times.",
        records=inner.records,
        draws=processes,
        rate=inner.rate,
        notes=inner.notes,
    )
    return (
        noted(finding, f"The last step of a pass has only {counted(left_over, 'draw')}.")
        if left_over
        else finding
    )


HANDING_ON: dict[str, Callable[[Any, int], Cut | Finding]] = {
    "accelerate.data_loader.BatchSamplerShard": _sharded,
    "accelerate.data_loader.SkipBatchSampler": _skipping,
}
