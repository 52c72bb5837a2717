"""An index sampler as the stream of one pass."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tightrope.audit.finding import Finding, Scheme
from tightrope.audit.loaders.cuts import Stream
from tightrope.audit.loaders.words import counted, kind_of, refuse_other_size, unknown, unread
from tightrope.errors import InvalidSetting


def stream_of(sampler: Any, records: int) -> Stream | Finding:
    """What one pass over an index sampler yields, or the finding that this is not known."""
    reader = READERS.get(kind_of(sampler))
    return reader(sampler, records) if reader else unread(sampler, role="sampler", records=records)


def _all(records: int) -> str:
    return f"the {counted(records, 'record')}"


def _sequential(sampler: Any, records: int) -> Stream:
    refuse_other_size(sampler, len(sampler.data_source), records)
    return Stream(
        kind=Scheme.FIXED_PARTITION, records=records, length=records, whose=_all(records), follows=True
    )


def _random(sampler: Any, records: int) -> Stream:
    refuse_other_size(sampler, len(sampler.data_source), records)
    return Stream(
        kind=Scheme.WITH_REPLACEMENT if sampler.replacement else Scheme.SHUFFLE,
        records=records,
        length=sampler.num_samples,
        whose=_all(records),
        follows=True if sampler._num_samples is None else _set_by_hand(sampler.num_samples, records),
        share=1 / records if sampler.replacement else None,
    )


def _set_by_hand(draws: int, records: int) -> bool | None:
    """False: the number of draws does not follow the dataset. Where it equals its size, it may well have been taken from it."""
    return None if draws == records else False


def _seedable(sampler: Any, records: int) -> Stream:
    return replace(
        _random(sampler, records),
        renewed=False,
        notes=(
            "The order follows from a seed and the number of the pass: whoever knows the seed knows it.",
            "A pass that is broken off is repeated in the same order.",
        ),
    )


def _subset(sampler: Any, records: int) -> Stream | Finding:
    indices = _whole_numbers(sampler.indices)
    if not indices:
        raise InvalidSetting(
            "The SubsetRandomSampler has no indices, so the loader yields no batch. Give it at least one index."
        )
    beyond = max(max(indices), -min(indices) - 1)
    if beyond >= records:
        raise InvalidSetting(
            f"The SubsetRandomSampler was made for at least {beyond + 1:,} records, but the dataset has {records:,} now. "
            "The dataset changed size, so the accounted rate is not the rate run: make the sampler anew from this dataset."
        )
    distinct = len({index % records for index in indices})  # -1 is the last record
    if distinct < len(indices):
        return unknown(
            f"The SubsetRandomSampler names {counted(len(indices), 'record')}, of which only {distinct:,} are different, "
            "so some come more often than others",
            records=distinct,
        )
    whose = _all(records) if distinct == records else f"the {counted(distinct, 'record')} of a subset"
    note = f"The subset is {distinct:,} of the {counted(records, 'record')} of the dataset: the others are never used."
    return Stream(
        kind=Scheme.SHUFFLE,
        records=distinct,
        length=distinct,
        whose=whose,
        follows=True,
        notes=() if distinct == records else (note,),
    )


def _whole_numbers(indices: Any) -> Sequence[int]:
    """Indices as Python numbers: tensors are not hashed by value."""
    return [int(index) for index in (indices.tolist() if hasattr(indices, "tolist") else indices)]


def _weighted(sampler: Any, records: int) -> Stream:
    weights = [float(weight) for weight in sampler.weights.tolist()]
    refuse_other_size(sampler, len(weights), records)
    total = math.fsum(weights)
    if not (min(weights) >= 0 and 0 < total < math.inf):
        raise InvalidSetting(
            f"The weights of the WeightedRandomSampler must be at least 0 with a finite sum above 0, "
            f"got a sum of {total} and a smallest weight of {min(weights)}. Give one weight per record."
        )
    afresh = sampler.replacement
    return Stream(
        kind=Scheme.WEIGHTED,
        records=records,
        length=sampler.num_samples,
        whose=_all(records),
        follows=_set_by_hand(sampler.num_samples, records),
        share=max(weights) / total if afresh else None,
        notes=()
        if afresh
        else ("Within one pass no record is drawn twice, so later batches depend on earlier ones.",),
    )


def _distributed(sampler: Any, records: int) -> Stream:
    refuse_other_size(sampler, len(sampler.dataset), records)
    ranks, length = sampler.num_replicas, sampler.total_size
    least = records // ranks * ranks
    # total_size is counted once, when the sampler is made
    if length != (least if sampler.drop_last or least == records else least + ranks):
        raise InvalidSetting(
            f"The DistributedSampler was made for {counted(length, 'draw')} by {counted(ranks, 'rank')}, which does not fit the "
            f"{counted(records, 'record')} that the dataset has now. The dataset changed size, so the accounted rate is not "
            "the rate run: make the sampler anew from this dataset."
        )
    notes = [f"Of {counted(ranks, 'rank')} each takes its part of every global batch."]
    if sampler.drop_last and length < records:
        notes.append(
            f"drop_last of the sampler leaves {counted(records - length, 'record')} out of each epoch."
        )
    if sampler.shuffle:
        notes.append("The order is the same in every epoch unless set_epoch is called before each one.")
        notes.append(
            f"The order follows from the seed {sampler.seed} and the epoch: whoever knows the seed knows it."
        )
    return Stream(
        kind=Scheme.SHUFFLE if sampler.shuffle else Scheme.FIXED_PARTITION,
        records=records,
        length=length,
        whose=_all(records),
        repeated=max(0, length - records),
        renewed=False,  # without set_epoch every pass is the same
        ranks=ranks,
        notes=tuple(notes),
    )


READERS: dict[str, Callable[[Any, int], Stream | Finding]] = {
    "torch.utils.data.sampler.SequentialSampler": _sequential,
    "torch.utils.data.sampler.RandomSampler": _random,
    "torch.utils.data.sampler.SubsetRandomSampler": _subset,
    "torch.utils.data.sampler.WeightedRandomSampler": _weighted,
    "torch.utils.data.distributed.DistributedSampler": _distributed,
    "accelerate.data_loader.SeedableRandomSampler": _seedable,
}
