"""Index samplers as the stream of one pass, batch samplers as a cut stream or a finding."""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from tightrope.audit.finding import Finding, Scheme, scheme_of
from tightrope.audit.loaders.cuts import Cut, Stream
from tightrope.audit.loaders.datasets import UnreadableDataset, as_array, as_indices
from tightrope.audit.loaders.words import (
    check_size,
    count,
    kind_of,
    refuse,
    refuse_size,
    tell,
    tell_poisson,
    tell_replaced,
    tell_truncated,
    tell_unknown,
    tell_unread,
)
from tightrope.errors import Described, InvalidSetting
from tightrope.numerics import check
from tightrope.numerics.floats import Floats, ceil_fraction
from tightrope.numerics.text import round_outwards
from tightrope.setting.sampling import (
    BallsInBins,
    Poisson,
    RandomAllocation,
    Sampling,
    TruncatedPoisson,
    WithoutReplacement,
)

NEGLIGIBLE = 1e-9  # a chance of an empty batch in a pass below this is as good as none

GIVEN_GENERATOR = (
    "The order follows from a generator that was given: whoever knows its seed knows the order, and nothing "
    "is gained by the shuffle. Without one, torch draws a new seed for each pass."
)
SEEDED = "Batches follow from a seed: to anyone who knows it, nothing was drawn at random."

# index samplers


def read_order(sampler: Any, records: int) -> Stream | Finding:
    """What one pass over an index sampler yields, or the finding that this is not known."""
    if replaced := tell_replaced(sampler, role="sampler", records=records):
        return replaced
    reader = ORDERS.get(kind_of(sampler))
    return reader(sampler, records) if reader else tell_unread(sampler, role="sampler", records=records)


def _all(records: int) -> str:
    return f"the {count(records, 'record')}"


def _read_sequential(sampler: Any, records: int) -> Stream:
    check_size(sampler, len(sampler.data_source), records)
    return Stream(
        kind=Scheme.FIXED_PARTITION, records=records, length=records, whose=_all(records), follows=True
    )


def _read_random(sampler: Any, records: int) -> Stream:
    check_size(sampler, len(sampler.data_source), records)
    return Stream(
        kind=Scheme.WITH_REPLACEMENT if sampler.replacement else Scheme.SHUFFLE,
        records=records,
        length=sampler.num_samples,
        whose=_all(records),
        follows=True if sampler._num_samples is None else _follows(sampler.num_samples, records),
        share=ceil_fraction(Fraction(1, records)) if sampler.replacement else None,
        **_read_generator(sampler),
    )


def _read_generator(sampler: Any) -> dict[str, Any]:
    """A generator that was given may be seeded, and seeded again before every pass."""
    if sampler.generator is None:
        return {}
    return {"is_seeded": True, "notes": (GIVEN_GENERATOR,)}


def _follows(draws: int, records: int) -> bool | None:
    """False for a number of draws set by hand; None if it equals the records, and may follow them."""
    return None if draws == records else False


def _read_seedable(sampler: Any, records: int) -> Stream:
    notes = (
        "The order follows from a seed and the number of the pass: anyone who knows the seed knows it.",
        "A pass that is broken off is repeated in the same order.",
    )
    return replace(_read_random(sampler, records), renewed=False, is_seeded=True, notes=notes)


def _read_subset(sampler: Any, records: int) -> Stream | Finding:
    try:
        indices = as_array(as_indices(sampler.indices))
    except UnreadableDataset as refusal:
        return tell_unknown(f"The SubsetRandomSampler cannot be read, since {refusal}", records=records)
    if not len(indices):
        found = "a SubsetRandomSampler without indices"
        raise refuse("yield a batch", found, "Give the sampler at least one index.")
    beyond = max(int(indices.max()), -int(indices.min()) - 1)
    if beyond >= records:
        raise refuse_size(sampler, f"at least {beyond + 1:,} records", records)
    marks = np.zeros(records, dtype=bool)
    marks[indices] = True  # -1 is the last record
    distinct = int(np.count_nonzero(marks))
    if distinct < len(indices):
        names = f"{count(len(indices), 'record')}, of which only {distinct:,} are different"
        reason = f"The SubsetRandomSampler names {names}, so some come more often than others"
        return tell_unknown(reason, records=distinct)
    subset = f"{distinct:,} of the {count(records, 'record')} of the dataset: the others are never used"
    is_all, generator = distinct == records, _read_generator(sampler)
    notes = () if is_all else (f"The subset is {subset}.",)
    return Stream(
        kind=Scheme.SHUFFLE,
        records=distinct,
        length=distinct,
        whose=_all(records) if is_all else f"the {count(distinct, 'record')} of a subset",
        follows=True,
        **{**generator, "notes": (*notes, *generator.get("notes", ()))},
    )


def _largest_share(weights: Floats) -> float:
    """The largest weight over the sum of all, rounded up."""
    return ceil_fraction(Fraction(float(weights.max())) / _add_exactly(weights))


def _add_exactly(values: Floats) -> Fraction:
    """The sum of numbers that are not negative: math.fsum would take a Python object for each of a million.

    Cut to multiples of a unit that is so large that no sum of theirs reaches 2^53 units, n of them add up
    without a rounding. What is cut off is added up in the same way.
    """
    total, left = Fraction(0), values
    while (largest := float(left.max())) > 0:
        unit = math.ldexp(1.0, max(math.frexp(largest)[1] + len(values).bit_length() - 53, -1074))
        cut = np.floor(left / unit) * unit
        total, left = total + Fraction(float(cut.sum())), left - cut
    return total


def _read_weighted(sampler: Any, records: int) -> Stream:
    weights = np.asarray(sampler.weights.double().cpu())
    check_size(sampler, len(weights), records)
    least = float(weights.min())
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if not (least >= 0 and 0 < total < math.inf):
        found = Described(f"a sum of {total} and a smallest weight of {least}")
        must = "be at least 0 with a finite sum above 0"
        raise InvalidSetting("weights of the loader", found, must, "Give one weight per record.")
    afresh = sampler.replacement
    depends = "Within one pass no record is drawn twice, so later batches depend on earlier ones."
    return Stream(
        kind=Scheme.WEIGHTED,
        records=records,
        length=sampler.num_samples,
        whose=_all(records),
        follows=_follows(sampler.num_samples, records),
        share=_largest_share(weights) if afresh else None,
        notes=() if afresh else (depends,),
    )


def _read_distributed(sampler: Any, records: int) -> Stream:
    check_size(sampler, len(sampler.dataset), records)
    ranks, length = sampler.num_replicas, sampler.total_size
    least = records // ranks * ranks
    # total_size is counted once, when the sampler is made
    if length != (least if sampler.drop_last or least == records else least + ranks):
        raise refuse_size(sampler, f"{count(length, 'draw')} by {count(ranks, 'rank')}", records)
    notes = [f"Of {count(ranks, 'rank')} each takes its part of every global batch."]
    if sampler.drop_last and length < records:
        left_out = count(records - length, "record")
        notes.append(f"drop_last of the sampler leaves {left_out} out of each epoch.")
    if sampler.shuffle:
        notes.append("The order is the same in every epoch unless set_epoch is called before each one.")
        known = f"The order follows from the seed {sampler.seed} and the epoch"
        notes.append(f"{known}: anyone who knows the seed knows it.")
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


ORDERS: dict[str, Callable[[Any, int], Stream | Finding]] = {
    "torch.utils.data.sampler.SequentialSampler": _read_sequential,
    "torch.utils.data.sampler.RandomSampler": _read_random,
    "torch.utils.data.sampler.SubsetRandomSampler": _read_subset,
    "torch.utils.data.sampler.WeightedRandomSampler": _read_weighted,
    "torch.utils.data.distributed.DistributedSampler": _read_distributed,
    "accelerate.data_loader.SeedableRandomSampler": _read_seedable,
}

# batch samplers


def _read_torch(batch_sampler: Any, records: int) -> Cut | Finding:
    stream = read_order(batch_sampler.sampler, records)
    if isinstance(stream, Finding):
        return stream
    batch = batch_sampler.batch_size * stream.ranks
    return Cut(stream=stream, batch=batch, drop_last=batch_sampler.drop_last)


def _read_opacus(sampler: Any, records: int) -> Finding:
    check_size(sampler, sampler.num_samples, records)
    return _tell_torch_rate(sampler.sample_rate, records, batches=_check_pass(sampler, sampler.steps))


def _read_opacus_ranks(sampler: Any, records: int) -> Finding:
    check_size(sampler, sampler.total_size, records)
    batches = _check_pass(sampler, sampler.num_batches)
    if sampler.num_replicas > 1:
        reason = (
            f"Each of {sampler.num_replicas} ranks draws from its own part of the records: Poisson batches "
            "only if their generators are seeded differently, which cannot be seen from here; with equal "
            "seeds records join together. Empty batches are dropped besides"
        )
        return tell_unknown(reason, records=records)
    finding = _tell_torch_rate(sampler.sample_rate, records, batches=batches)
    if finding.rate is None:
        return finding
    empty = batches * (1 - finding.rate) ** records
    if empty <= NEGLIGIBLE:
        return finding
    reason = (
        "Each record joins each batch on its own, but empty batches are dropped, which in a pass happens "
        f"with probability up to {round_outwards(min(1.0, empty), 2, up=True)}"
    )
    return tell_unknown(reason, records=records, notes=finding.notes)


def _check_pass(sampler: object, batches: int) -> int:
    if batches < 1:
        found = f"a {type(sampler).__name__} that draws {batches} batches in a pass"
        raise refuse("yield a batch", found, "Give it steps of at least 1.")
    return batches


def _tell_torch_rate(rate: float, records: int, *, batches: int) -> Finding:
    remedy = "It is the probability that one record joins one batch."
    asked = check.probability(remedy=remedy, sample_rate=rate)
    run = rate_torch_runs(asked)
    if run is None:
        reason = (
            "Each record joins each batch on its own, but for torch's present default device or dtype "
            "the rate is not known"
        )
        return tell_unknown(reason, records=records)
    rounded = f"sample_rate is {asked:.10g}; records join at {run:.10g}, since torch compares on a grid."
    notes = (*((rounded,) if run != asked else ()), f"One pass is {count(batches, 'batch')}.")
    return tell_poisson(Poisson(rate=run), records, notes, batch_count=batches)


def _read_ours(batch_sampler: Any, records: int) -> Finding:
    return read_passes(batch_sampler.sampler, records)


def read_passes(passes: Any, records: int, *, by: str = "This loader") -> Finding:
    """What a sampler of ours, or a share of one, draws from a dataset of `records` records."""
    shared = kind_of(passes) == SHARE
    drawer = passes.sampler if shared else passes
    if kind_of(drawer) not in OUR_SAMPLERS:
        return tell_unread(drawer, role="sampler", records=records)
    for part in (passes, drawer):
        if replaced := tell_replaced(part, role="sampler", records=records):
            return replaced
    check_size(drawer, drawer.records, records)
    sampling = drawer.sampling
    ranked = (f"Of {count(passes.ranks, 'rank')} each takes its part of every batch.",) if shared else ()
    notes = (*ranked, SEEDED) if passes.fingerprint().seed else ranked
    if passes.handed_out > passes.steps:
        notes = (
            *notes,
            f"It has handed out {count(passes.handed_out, 'batch')}, {passes.steps:,} in a pass.",
        )
    if isinstance(sampling, Poisson):
        poisson = tell_poisson(sampling, records, notes, batch_count=passes.steps, by=by)
        return replace(poisson, handed_out=passes.handed_out)
    sentence, known = _tell_drawn(sampling, records)
    return tell(
        scheme=scheme_of(sampling),
        sentence=f"{by} {sentence}.",
        sampling=sampling,
        records=records,
        batch_count=passes.steps,
        handed_out=passes.handed_out,
        notes=notes,
        **known,
    )


def _tell_drawn(sampling: Sampling, records: int) -> tuple[str, dict[str, Any]]:
    """What a sampler of ours does, in words and in numbers."""
    all_records = f"the {count(records, 'record')}"
    match sampling:
        case WithoutReplacement(batch=batch):
            drawn = (
                f"draws each batch of {batch:,} of {all_records} without replacement, afresh at every step"
            )
            return drawn, {"batch": batch}
        case TruncatedPoisson(rate=rate, at_most=most):
            return tell_truncated(rate, most, records), {"rate": rate}
        case BallsInBins(batches=batches):
            drawn = (
                f"puts each of {all_records} into one of {batches:,} batches by chance, anew in every pass"
            )
            return drawn, {"epoch": batches, "reshuffles": True}
        case RandomAllocation(batches=batches, chosen=chosen):
            taken = f"{chosen:,} of {batches:,} batches"
            drawn = f"puts each of {all_records} into {taken} by chance, anew in every pass"
            return drawn, {"epoch": batches, "times": chosen, "reshuffles": True}
    raise AssertionError(f"no sampler of ours draws {sampling!r}")


# torch draws floats from a grid, so that the rate it runs is not quite the rate it is given


def float32_rate(rate: float) -> float:
    """The exact probability that `torch.rand(...) < rate` holds when torch draws float32 numbers.

    They are the multiples of 2^-24 below 1, all equally likely, and torch rounds `rate` to the nearest
    float32 r before it compares: ceil(r 2^24) of the 2^24 numbers lie below r.

    >>> float32_rate(0.25)
    0.25
    >>> float32_rate(1e-3)
    0.001000046730041504
    >>> float32_rate(1e-7) / 1e-7
    1.19...
    """
    rounded = float(np.float32(check.probability(rate=rate)))
    return math.ceil(rounded * 2.0**24) / 2**24


def float64_rate(rate: float) -> float:
    """The same when torch draws float64 numbers: multiples of 2^-53, compared without rounding.

    >>> float64_rate(1e-3)
    0.0010000000000000009
    """
    return math.ceil(check.probability(rate=rate) * 2.0**53) / 2**53


def rate_torch_runs(rate: float) -> float | None:
    """The exact probability of `torch.rand(...) < rate` under torch's defaults; None on an unknown grid."""
    torch = sys.modules["torch"]
    if torch.get_default_device().type != "cpu":  # other devices have other grids
        return None
    exact = {torch.float32: float32_rate, torch.float64: float64_rate}.get(torch.get_default_dtype())
    return exact(rate) if exact else None


SHARE = "tightrope.samplers.sampler.Share"
OURS = "tightrope.samplers.torch.BatchSampler"
OUR_SAMPLERS = (
    "tightrope.samplers.allocations.BallsInBinsSampler",
    "tightrope.samplers.allocations.RandomAllocationSampler",
    "tightrope.samplers.schemes.TruncatedPoissonSampler",
    "tightrope.samplers.schemes.PoissonSampler",
    "tightrope.samplers.schemes.WithoutReplacementSampler",
)
BATCH_SAMPLERS: dict[str, Callable[[Any, int], Cut | Finding]] = {
    "torch.utils.data.sampler.BatchSampler": _read_torch,
    "opacus.utils.uniform_sampler.UniformWithReplacementSampler": _read_opacus,
    "opacus.utils.uniform_sampler.DistributedUniformWithReplacementSampler": _read_opacus_ranks,
    OURS: _read_ours,
}
