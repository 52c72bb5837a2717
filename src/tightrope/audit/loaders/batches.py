"""A batch sampler that draws for itself, as a cut stream or as a finding."""

from collections.abc import Callable
from typing import Any

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.loaders.cuts import Cut, found
from tightrope.audit.loaders.orders import stream_of
from tightrope.audit.loaders.rates import rate_torch_runs
from tightrope.audit.loaders.words import counted, kind_of, refuse_other_size, unknown, unread
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.setting.sampling import Poisson

NEGLIGIBLE = 1e-9  # a chance of an empty batch in a pass below this is as good as none


def as_finding(batches: Cut | Finding) -> Finding:
    """Batches in their final form."""
    return found(batches) if isinstance(batches, Cut) else batches


def _torch_batches(batch_sampler: Any, records: int) -> Cut | Finding:
    stream = stream_of(batch_sampler.sampler, records)
    if isinstance(stream, Finding):
        return stream
    return Cut(
        stream=stream, batch=batch_sampler.batch_size * stream.ranks, drop_last=batch_sampler.drop_last
    )


def _poisson(rate: float, records: int, *, batches: int, notes: tuple[str, ...] = ()) -> Finding:
    asked = check.probability(
        remedy="It is the probability that one record joins one batch.", sample_rate=rate
    )
    run = rate_torch_runs(asked)
    if run is None:
        return unknown(
            "Each record joins each batch on its own, but for torch's present default device or dtype the rate is not known",
            records=records,
            notes=notes,
        )
    grid = f"sample_rate is {asked:.10g}; records join at {run:.10g}, since torch compares numbers on a grid with it."
    notes = (*((grid,) if run != asked else ()), f"One pass is {counted(batches, 'batch')}.", *notes)
    return _poisson_finding(Poisson(rate=run), records, notes)


def _poisson_finding(sampling: Poisson, records: int, notes: tuple[str, ...]) -> Finding:
    return Finding(
        scheme=Scheme.POISSON,
        how=How.INSPECTED,
        sentence=f"This loader draws Poisson batches: each of the {counted(records, 'record')} joins each batch on its own, "
        f"with probability {sampling.rate:.10g}.",
        sampling=sampling,
        records=records,
        rate=sampling.rate,
        notes=notes,
    )


def _opacus(sampler: Any, records: int) -> Finding:
    refuse_other_size(sampler, sampler.num_samples, records)
    return _poisson(sampler.sample_rate, records, batches=_some_batches(sampler, sampler.steps))


def _opacus_distributed(sampler: Any, records: int) -> Finding:
    refuse_other_size(sampler, sampler.total_size, records)
    batches = _some_batches(sampler, sampler.num_batches)
    if sampler.num_replicas > 1:
        return unknown(
            f"Each of {sampler.num_replicas} ranks draws from its own part of the records: Poisson batches only if their "
            "generators are seeded differently, which cannot be seen from here; with equal seeds records join together. "
            "Empty batches are dropped besides",
            records=records,
        )
    finding = _poisson(sampler.sample_rate, records, batches=batches)
    if finding.rate is None:
        return finding
    empty = batches * (1 - finding.rate) ** records
    if empty <= NEGLIGIBLE:
        return finding
    return unknown(
        f"Each record joins each batch on its own, but empty batches are dropped, which in a pass happens with probability "
        f"{min(1.0, empty):.2g}",
        records=records,
        notes=finding.notes,
    )


def _some_batches(sampler: object, batches: int) -> int:
    if batches < 1:
        raise InvalidSetting(
            f"The {type(sampler).__name__} draws {batches} batches in a pass. Give it steps of at least 1."
        )
    return batches


def _ours(batch_sampler: Any, records: int) -> Finding:
    passes = batch_sampler.sampler
    shared = kind_of(passes) == SHARE
    drawer = passes.sampler if shared else passes
    if kind_of(drawer) not in OUR_DRAWERS:
        return unread(drawer, role="sampler", records=records)
    refuse_other_size(drawer, drawer.records, records)
    sampling = drawer.sampling
    notes = (f"Of {counted(passes.ranks, 'rank')} each takes its part of every batch.",) if shared else ()
    if isinstance(sampling, Poisson):
        return _poisson_finding(sampling, records, notes)
    return Finding(
        scheme=Scheme.WITHOUT_REPLACEMENT,
        how=How.INSPECTED,
        sentence=f"This loader draws each batch of {sampling.batch:,} of the {counted(records, 'record')} without replacement, "
        "afresh at every step.",
        sampling=sampling,
        records=records,
        batch=sampling.batch,
        notes=notes,
    )


SHARE = "tightrope.samplers.sampler.Share"
OUR_DRAWERS = (
    "tightrope.samplers.schemes.PoissonSampler",
    "tightrope.samplers.schemes.WithoutReplacementSampler",
)
DRAWING: dict[str, Callable[[Any, int], Cut | Finding]] = {
    "torch.utils.data.sampler.BatchSampler": _torch_batches,
    "opacus.utils.uniform_sampler.UniformWithReplacementSampler": _opacus,
    "opacus.utils.uniform_sampler.DistributedUniformWithReplacementSampler": _opacus_distributed,
    "tightrope.samplers.torch.BatchSampler": _ours,
}
