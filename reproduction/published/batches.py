"""What is proved for the batches that a published run is stated to draw."""

import math
from dataclasses import replace

from reproduction.published.file import DROPPED, JOINED, KEPT, SEVERAL_DRAWS, SHUFFLE, WINDOWED, Setting
from tightrope.accountants.certified import Certified
from tightrope.audit.claims.proven import Proven, proven
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.loaders.cuts import Cut, Stream, found
from tightrope.curve.bracket import Bracket
from tightrope.errors import InvalidSetting
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, WithoutReplacement
from tightrope.theorems.other_batchings import REVEALED_BATCHES

_TWICE = "a batch that joins two epochs may hold a record twice, and for that no bound is proved here"
_LAST_UNKNOWN = "what becomes of the last batch of an epoch is not stated: if it joins the next one, a record may come twice"


def sampling_of(setting: Setting, kind: str) -> Sampling | None:
    """The sampling by this name at the setting's rate; None where a number is missing."""
    if kind == "every-record":
        return EveryRecord()
    if kind == "poisson":
        return None if setting.rate is None else Poisson(rate=float(setting.rate))
    if setting.batch is None or setting.records is None:
        return None
    return WithoutReplacement(batch=setting.batch, population=setting.records)


def proven_as_implemented(setting: Setting, relation: Relation) -> Proven:
    """epsilon for the batches that are stated to be drawn: both ends where there are theorems, or why not."""
    steps, noise, delta = setting.steps, setting.noise_multiplier, setting.delta
    if steps is None or noise is None or delta is None:
        return _nothing("numbers are missing")
    finding = finding_of(setting)
    if isinstance(finding, str):
        return _nothing(finding)
    try:
        step = Step(
            Gaussian(noise_multiplier=noise), EveryRecord()
        )  # how batches are drawn is the finding's to say
    except InvalidSetting as refusal:
        return _nothing(str(refusal))
    asked = {count: _asked(step * count, finding, delta, relation) for count in {steps.least, steps.most}}
    both = replace(
        asked[steps.most], epsilon=Bracket(asked[steps.least].epsilon.lower, asked[steps.most].epsilon.upper)
    )
    unbounded = (
        {JOINED: _TWICE, None: _LAST_UNKNOWN}.get(setting.last_batch)
        if setting.implemented == SHUFFLE
        else None
    )
    if unbounded is None:
        return both
    kept = tuple(evidence for evidence in both.because if evidence is not REVEALED_BATCHES)
    return Proven(epsilon=Bracket(both.epsilon.lower, math.inf), because=kept, why_not=unbounded)


def finding_of(setting: Setting) -> Finding | str:
    """What is stated about the batches, as the audit takes it; a sentence where that is not enough."""
    kind = setting.implemented
    if kind is None:
        return "how batches are drawn is not stated"
    if kind == WINDOWED:
        return "a shuffle within a window is no uniform order, and there is no theorem for it here"
    if kind == SHUFFLE:
        return _shuffle(setting)
    if kind == SEVERAL_DRAWS:
        return _several_draws(setting)
    sampling = sampling_of(setting, kind)
    if sampling is None:
        return "the rate is not stated"
    schemes = {
        "poisson": Scheme.POISSON,
        "without-replacement": Scheme.WITHOUT_REPLACEMENT,
        "every-record": Scheme.EVERY_RECORD,
    }
    return Finding(scheme=schemes[kind], how=How.INSPECTED, sentence=schemes[kind].value, sampling=sampling)


def _shuffle(setting: Setting) -> Finding | str:
    records, batch = setting.records, setting.batch
    if records is None or batch is None:
        return "batch and records are needed, and one is not stated"
    if setting.last_batch in (KEPT, DROPPED):
        stream = Stream(
            kind=Scheme.SHUFFLE,
            records=records,
            length=records,
            whose=f"the {records:,} records",
            follows=True,
            renewed=bool(setting.reshuffled),
        )
        try:
            return found(Cut(stream=stream, batch=batch, drop_last=setting.last_batch == DROPPED))
        except InvalidSetting as refusal:  # no batch at all
            return str(refusal)
    return _joined(records, batch, setting)


def _joined(records: int, batch: int, setting: Setting) -> Finding:
    """Batches cut from one epoch after another without a gap, or in a way that is not stated: what any cut has in common.

    Wherever an epoch begins within a batch, at least (records - (batch - 1)) // batch of its batches are full and hold no other
    epoch's records. A neighbour of one record fewer has shifted by one place per epoch, which is taken off too. An epoch is over
    after ceil(records / batch) further batches at the latest. So the largest sum of those batches tells neighbours apart; the
    other batches are not looked at.
    """
    most = setting.steps.most if setting.steps else 0
    shifted = -(-most * batch // records) + 1
    return Finding(
        scheme=Scheme.SHUFFLE,
        how=How.INSPECTED,
        sentence=f"The {records:,} records are shuffled and cut into batches of {batch:,}",
        records=records,
        batch=batch,
        epoch=-(-records // batch),
        full=max((records - (batch - 1) - shifted) // batch, 0),
        reshuffles=setting.reshuffled or None,
    )


def _several_draws(setting: Setting) -> Finding | str:
    if setting.rate is None or setting.draws is None:
        return "the rate or the number of draws is not stated"
    return Finding(
        scheme=Scheme.SEVERAL_DRAWS,
        how=How.INSPECTED,
        sentence=f"Each step sums {setting.draws} Poisson draws",
        draws=setting.draws,
        rate=float(setting.rate / setting.draws),
    )


def _asked(run: Run, finding: Finding, delta: float, relation: Relation) -> Proven:
    return proven(run, finding, delta=delta, relation=relation, by=Certified(accuracy=1e-3))


def _nothing(why_not: str) -> Proven:
    return Proven(epsilon=Bracket(0.0, math.inf), why_not=why_not)
