"""What is proved for the batches that a published run is stated to draw."""

import math
from dataclasses import replace

import tightrope as tr
from reproduction.published.runs_file import (
    DROPPED,
    JOINED,
    KEPT,
    SEVERAL_DRAWS,
    SHUFFLE,
    WINDOWED,
    PublishedRun,
)
from tightrope.audit.claims.prove import ProvedBound, prove_bound
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.loaders.cuts import Cut, Stream
from tightrope.setting.sampling import Sampling
from tightrope.theorems.other_batchings import REVEALED_BATCHES

_SCHEMES = {
    "poisson": Scheme.POISSON,
    "without-replacement": Scheme.WITHOUT_REPLACEMENT,
    "every-record": Scheme.EVERY_RECORD,
}
# why a shuffle has no upper end, by what becomes of the last batch of an epoch
_UNBOUNDED = {
    JOINED: "a batch that joins two epochs may hold a record twice, and for that no bound is proved here",
    None: (
        "what becomes of the last batch of an epoch is not stated: if it joins the next one, a record may "
        "come twice"
    ),
}


def sampling_of(run: PublishedRun, kind: str) -> Sampling | None:
    """The sampling by this name at the run's rate; None where a number is missing."""
    if kind == "every-record":
        return tr.EveryRecord()
    if kind == "poisson":
        return None if run.rate is None else tr.Poisson(rate=float(run.rate))
    if run.batch is None or run.records is None:
        return None
    return tr.WithoutReplacement(batch=run.batch, population=run.records)


def prove_as_implemented(run: PublishedRun, relation: tr.Relation) -> ProvedBound:
    """epsilon for the batches that are stated to be drawn: both ends where there are theorems, or why not."""
    steps, delta = run.steps, run.delta
    if steps is None or run.noise_multiplier is None or delta is None:
        return _nothing("numbers are missing")
    try:
        finding = finding_of(run)
        # how batches are drawn is the finding's to say
        step = tr.Step(tr.Gaussian(noise_multiplier=run.noise_multiplier), tr.EveryRecord())
    except tr.InvalidSetting as refusal:
        return _nothing(str(refusal))
    if isinstance(finding, str):
        return _nothing(finding)
    fewest, most = (
        prove_bound(step * count, finding, delta=delta, relation=relation)
        for count in (steps.least, steps.most)
    )
    both = replace(most, epsilon=tr.Bracket(fewest.epsilon.lower, most.epsilon.upper))
    if run.implemented != SHUFFLE or run.last_batch not in _UNBOUNDED:
        return both
    kept = tuple(evidence for evidence in both.because if evidence is not REVEALED_BATCHES)
    return ProvedBound(
        epsilon=tr.Bracket(both.epsilon.lower, math.inf), because=kept, why_not=_UNBOUNDED[run.last_batch]
    )


def finding_of(run: PublishedRun) -> Finding | str:
    """What is stated about the batches, as the audit takes it; a sentence where that is not enough."""
    kind = run.implemented
    if kind is None:
        return "how batches are drawn is not stated"
    if kind == WINDOWED:
        return "a shuffle within a window is no uniform order, and there is no theorem for it here"
    if kind == SHUFFLE:
        return _shuffle(run)
    if kind == SEVERAL_DRAWS:
        return _several_draws(run)
    sampling, scheme = sampling_of(run, kind), _SCHEMES[kind]
    if sampling is None:
        return "the rate is not stated"
    return Finding(scheme=scheme, how=How.INSPECTED, sentence=scheme.value, sampling=sampling)


def _shuffle(run: PublishedRun) -> Finding | str:
    records, batch = run.records, run.batch
    if records is None or batch is None:
        return "batch and records are needed, and one is not stated"
    if run.last_batch not in (KEPT, DROPPED):
        return _joined(records, batch, run)
    stream = Stream(
        kind=Scheme.SHUFFLE,
        records=records,
        length=records,
        whose=f"the {records:,} records",
        follows=True,
        renewed=bool(run.reshuffled),
    )
    return Cut(stream=stream, batch=batch, drop_last=run.last_batch == DROPPED).find()


def _joined(records: int, batch: int, run: PublishedRun) -> Finding:
    """Batches cut from one epoch after another without a gap, or in a way that is not stated.

    Wherever an epoch begins within a batch, at least (records - (batch - 1)) // batch of its batches are full
    and hold no other epoch's records. A neighbour of one record fewer has shifted by one place per epoch,
    which is taken off too. An epoch is over after ceil(records / batch) further batches at the latest. So the
    largest sum of those batches tells neighbours apart; the other batches are not looked at.
    """
    most = run.steps.most if run.steps else 0
    shifted = -(-most * batch // records) + 1
    return Finding(
        scheme=Scheme.SHUFFLE,
        how=How.INSPECTED,
        sentence=f"The {records:,} records are shuffled and cut into batches of {batch:,}",
        records=records,
        batch=batch,
        epoch=-(-records // batch),
        full=max((records - (batch - 1) - shifted) // batch, 0),
        reshuffles=run.reshuffled or None,
    )


def _several_draws(run: PublishedRun) -> Finding | str:
    if run.rate is None or run.draws is None:
        return "the rate or the number of draws is not stated"
    return Finding(
        scheme=Scheme.SEVERAL_DRAWS,
        how=How.INSPECTED,
        sentence=f"Each step sums {run.draws} Poisson draws",
        draws=run.draws,
        rate=float(run.rate / run.draws),
    )


def _nothing(why_not: str) -> ProvedBound:
    return ProvedBound(epsilon=tr.Bracket(0.0, math.inf), why_not=why_not)
