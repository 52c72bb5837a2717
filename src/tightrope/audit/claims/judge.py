"""The verdict on a claim: what was accounted against what runs."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from tightrope.accountants.certified import BY_DEFAULT, Certified, check_certified
from tightrope.audit.claims.counted import (
    NEW_RNG,
    count_batches,
    count_missing,
    count_unseen,
    is_all_so_far,
    run_every_batch,
    tell_condition,
    tell_counts,
)
from tightrope.audit.claims.epochs import is_shuffled_so
from tightrope.audit.claims.prove import ProvedBound, prove_bound, resample
from tightrope.audit.claims.verdict import Verdict, refuse_truth
from tightrope.audit.finding import Finding, How, Scheme, check_finding
from tightrope.audit.loaders.inspect import inspect_loader
from tightrope.audit.loaders.samplers import float32_rate, float64_rate
from tightrope.audit.loaders.words import count
from tightrope.audit.recordings.naming import CONFIDENCE
from tightrope.audit.recordings.watch import watch
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends, write_brackets
from tightrope.errors import PYTHON, InvalidSetting, NoTheorem, NotPreciseEnough, Words
from tightrope.numerics import check
from tightrope.numerics.text import round_outwards, write_number
from tightrope.setting.given import as_given
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.sampling import (
    BallsInBins,
    EveryRecord,
    Poisson,
    RandomAllocation,
    Sampling,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
)
from tightrope.theorems.evidence import Evidence

TWO_WAYS = "what draws in one way cannot have drawn all steps of {} samplings: audit each phase by itself"
MORE_BATCHES = (
    "only {} of the {} batches were accounted, and which of the mechanisms the others used is not known"
)
GRID = 1e-4  # relative: if torch rounds a rate up by less, it is still the rate that was meant


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A claim and a finding, with both epsilons: `claimed` as accounted, `proved` for what runs.

    `provided` is what the upper end takes for granted besides the finding; `why_not` says why there is none.
    `without_replacement` is what epsilon would be if batches of the size found were drawn afresh each step:
    the nearest scheme that is understood, where the one that runs is not.
    """

    run: Run
    delta: float
    relation: Relation
    finding: Finding
    claimed: Bracket
    proved: Bracket
    verdict: Verdict
    because: tuple[Evidence, ...] = ()
    provided: str = ""
    why_not: str = ""
    without_replacement: Bracket | None = None

    @property
    def holds(self) -> bool:
        """Whether the accounted epsilon stands for what runs, as its verdict says."""
        return self.verdict.holds

    def __bool__(self) -> bool:
        refuse_truth("an audit", ".holds, or .verdict for what was found")

    @property
    def sentence(self) -> str:
        """All that a reader must know, in plain words."""
        return self.in_words(PYTHON)

    def in_words(self, words: Words) -> str:
        """The sentence as a front end says it."""
        at = f"at delta {write_number(self.delta)} under {words.fill(self.relation.text)}"
        claim = f"{_describe(self.run)}, epsilon {write_brackets([self.claimed])[0]} {at}"
        told = [f"Accounted as {claim}.", self.finding.sentence, tell_counts(self.run, self.finding)]
        told += [self._tell_bound(), self._tell_nearest()]
        return " ".join(filter(None, told))

    def _tell_bound(self) -> str:
        if self.verdict is Verdict.MATCHES or self._agrees_in_part:
            return self._tell_agreement()
        if self.verdict is Verdict.DECLARED:
            most = round_outwards(self.proved.upper, 9, up=True)
            return (
                f"If that is true, which nobody checked, epsilon is at most {most}{self._tell_condition()}."
            )
        if is_all_so_far(self.run, self.finding) and math.isfinite(self.proved.upper):
            most = round_outwards(self.proved.upper, 4, up=True)
            pass_more = (
                f"If the batches that a pass still holds are used, they are {count_batches(self.finding):,}"
            )
            return f"{pass_more}, and epsilon is at most {most}."
        if self.finding.sampling is not None and math.isfinite(self.proved.upper):
            proved, claimed = write_brackets([self.proved, self.claimed])
            sure = "" if self.finding.rate_range is None else f", with confidence {CONFIDENCE:g},"
            if proved != claimed:
                return f"So epsilon is{sure} {proved}, not {claimed}{self._tell_condition()}."
        most = round_outwards(self.proved.upper, 4, up=True)
        if self.verdict is Verdict.COVERED:
            return f"What runs costs no more: epsilon is at most {most}{self._tell_condition()}."
        told = f"no bound better than {most} is proved{self._tell_condition()}."
        if math.isinf(self.proved.upper):
            told = f"no bound is proved: {self.why_not}."
        if self.proved.lower > 0:
            told = f"epsilon is certainly at least {round_outwards(self.proved.lower, 4, up=False)}; {told}"
        return told[0].upper() + told[1:]

    @property
    def _agrees_in_part(self) -> bool:
        """Whether what was recorded is as accounted, but not all that was accounted was recorded."""
        is_part = self.verdict is Verdict.COVERED and count_unseen(self.run, self.finding) > 0
        return is_part and _all_agree(self.run, self.finding, self.relation)

    def _tell_agreement(self) -> str:
        provided = self._tell_condition() if self._agrees_in_part else ""
        if self.finding.rate_range is not None:
            low, high = ends(Bracket(*self.finding.rate_range), 4)
            return (
                "That agrees with what was accounted, as far as the batches tell: with confidence "
                f"{CONFIDENCE:g} the rate lies between {low} and {high}, and epsilon "
                f"{write_brackets([self.proved])[0]}{provided}."
            )
        if self._agrees_in_part:
            return f"That is what was accounted{provided}."
        if self.proved.upper > self.claimed.upper:
            return (
                "That is what was accounted, but for the rate, which torch rounds up: "
                f"state epsilon {round_outwards(self.proved.upper, 9, up=True)}."
            )
        if self.finding.scheme is Scheme.SHUFFLE or NEW_RNG in self.provided:
            return f"That is what was accounted{self._tell_condition()}."
        return "That is what was accounted."

    def _tell_condition(self) -> str:
        return f", provided that {self.provided}" if self.provided else ""

    def _tell_nearest(self) -> str:
        if self.without_replacement is None:
            return ""
        (epsilon,) = write_brackets([self.without_replacement])
        return f"If it were without replacement, epsilon would be {epsilon}."

    def __str__(self) -> str:
        notes = [f"Note: {note}" for note in self.finding.notes]
        proofs = [] if self.verdict is Verdict.MATCHES else self.because
        details = "".join(f"\n  {line}" for line in (*self.finding.tests, *notes, *proofs))
        return f"{self.verdict.name}: {self.verdict.value}.\n{self.sentence}{details}"


def audit(
    loader: object,
    run: Run | Step,
    *,
    delta: float,
    relation: Relation | str,
    by: Certified = BY_DEFAULT,
    records: int | None = None,
) -> Audit:
    """What was accounted (`run`, under `relation`, at `delta`) against what `loader` runs.

    `loader` is a torch DataLoader or a sampler of `tightrope.samplers` (both are inspected), a strategy of
    jax_privacy (likewise; say from how many `records` it draws), the path of a recording (it is watched), or
    a `Finding`. Every batch of a recording, and of one pass over a loader, is a step: more of them than `run`
    has steps are no match. A recording of fewer batches shows part of the run: it is covered and no match.
    The effort of `by` matters for batches without replacement under SUBSTITUTE, as in `tightrope.epsilon`.

    >>> import tightrope as tr
    >>> from tightrope.audit import watch
    >>> from tightrope.samplers import WithoutReplacementSampler
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.05)) * 1000
    >>> seen = watch(WithoutReplacementSampler(records=400, batch=20, steps=1000, seed=1), records=400)
    >>> audit(seen, run, delta=1e-5, relation=tr.ADD_OR_REMOVE).verdict
    TOO_SMALL
    """
    accounted = as_run(run)
    if not accounted:
        remedy = "Pass what was accounted: Step(mechanism, sampling) * times."
        raise InvalidSetting("run", run, "hold at least one step", remedy)
    check.open_probability(delta=delta)
    finding, neighbours = _find(loader, records), as_relation(relation)
    claimed = check_certified(by).curve(accounted, neighbours).epsilon(delta)
    bound = _bound_every_batch(accounted, finding, delta, neighbours, by)
    verdict = _judge(accounted, claimed, bound, finding, neighbours)
    unsettled = finding.sampling is None and not verdict.holds
    return Audit(
        run=accounted,
        delta=delta,
        relation=neighbours,
        finding=finding,
        claimed=claimed,
        proved=bound.epsilon,
        verdict=verdict,
        because=bound.because,
        provided=bound.provided,
        why_not=bound.why_not,
        without_replacement=_draw_afresh(accounted, finding, delta, neighbours, by) if unsettled else None,
    )


def _bound_every_batch(
    run: Run, finding: Finding, delta: float, relation: Relation, by: Certified
) -> ProvedBound:
    """What is proved if every batch that is known to come is a step."""
    samplings = {step.sampling for step, _ in run}
    if len(samplings) > 1 and finding.scheme is not Scheme.UNKNOWN and not _all_agree(run, finding, relation):
        return ProvedBound(epsilon=Bracket(0.0, math.inf), why_not=TWO_WAYS.format(len(samplings)))
    ran = run_every_batch(run, finding)
    bound = prove_bound(ran or run, finding, delta=delta, relation=relation, by=by)
    if is_all_so_far(run, finding):  # then nothing is certain of those to come
        so_far = prove_bound(run, finding, delta=delta, relation=relation, by=by)
        bound = replace(bound, epsilon=Bracket(so_far.epsilon.lower, bound.epsilon.upper))
    condition = tell_condition(run, finding)
    if condition and condition not in bound.provided:
        bound = replace(bound, provided=" and ".join(filter(None, (bound.provided, condition))))
    if ran is not None or finding.scheme is Scheme.UNKNOWN:
        return bound
    # what the accounted steps tell is told all the same
    why_not = MORE_BATCHES.format(f"{run.steps:,}", f"{count_batches(finding):,}")
    return replace(bound, epsilon=Bracket(bound.epsilon.lower, math.inf), why_not=why_not)


def _find(loader: object, records: int | None) -> Finding:
    if not isinstance(loader, Finding | str | Path):
        return inspect_loader(loader, records=records)
    if records is not None:
        remedy = "Findings and recordings say it themselves."
        raise InvalidSetting("records", records, "be left out", remedy)
    return check_finding(loader) if isinstance(loader, Finding) else watch(loader)


def _all_agree(run: Run, finding: Finding, relation: Relation) -> bool:
    return all(_agrees(step.sampling, finding, relation) for step, _ in run)


def _agrees(claimed: Sampling, finding: Finding, relation: Relation) -> bool:
    found = finding.sampling if (finding.copies or 1) == 1 else None
    if isinstance(claimed, Shuffled):
        return is_shuffled_so(claimed, finding, relation)
    if isinstance(claimed, Poisson) and isinstance(found, Poisson):
        if finding.rate_range is not None:
            return finding.rate_range[0] <= claimed.rate <= finding.rate_range[1]
        rounded_up = found.rate in (float32_rate(claimed.rate), float64_rate(claimed.rate))
        return found.rate == claimed.rate or (rounded_up and found.rate <= claimed.rate * (1 + GRID))
    if isinstance(claimed, WithoutReplacement) and isinstance(found, WithoutReplacement):
        # only the rate matters to the guarantee of one record, and both numbers to that of a group
        return claimed == found if relation.group > 1 else claimed.exact_rate == found.exact_rate
    return claimed == found  # every number of the others matters


def _judge(run: Run, claimed: Bracket, bound: ProvedBound, finding: Finding, relation: Relation) -> Verdict:
    verdict = _compare(claimed, bound, finding)
    if _all_agree(run, finding, relation) and not count_missing(run, finding):
        verdict = Verdict.COVERED if count_unseen(run, finding) else Verdict.MATCHES
    return Verdict.DECLARED if finding.how is How.DECLARED and verdict.holds else verdict


def _compare(claimed: Bracket, bound: ProvedBound, finding: Finding) -> Verdict:
    # a bound from watching, or with weights, takes more for granted than that every pass is run to its end
    is_firm = finding.how is not How.WATCHED and finding.scheme is not Scheme.WEIGHTED
    if finding.scheme is Scheme.UNKNOWN:
        return Verdict.UNKNOWN
    if bound.epsilon.upper <= claimed.upper and (finding.sampling is not None or is_firm):
        return Verdict.COVERED
    return Verdict.TOO_SMALL if bound.epsilon.lower > claimed.upper else Verdict.NOT_PROVEN


def _draw_afresh(
    run: Run, finding: Finding, delta: float, relation: Relation, by: Certified
) -> Bracket | None:
    """epsilon if batches of the size found were drawn without replacement; None where that is not known."""
    if finding.batch is None or finding.records is None or finding.batch >= finding.records:
        return None
    if (finding.copies or 1) > 1:
        return None  # that would not be understood either
    sampling = WithoutReplacement(batch=finding.batch, population=finding.records)
    try:
        return by.curve(resample(run_every_batch(run, finding) or run, sampling), relation).epsilon(delta)
    except (NoTheorem, NotPreciseEnough):
        return None


def _describe(run: Run) -> str:
    samplings = {step.sampling for step, _ in run}
    if len(samplings) > 1:
        return f"{len(samplings)} samplings"
    sampling = samplings.pop()
    match sampling:
        case EveryRecord():
            return "full batches"
        case Poisson():
            return f"Poisson sampling at rate {write_number(as_given(sampling, 'rate'))}"
        case WithoutReplacement(batch=batch, population=population):
            return f"batches of {batch:,} out of {population:,} without replacement"
        case TruncatedPoisson(at_most=most):
            rate = write_number(as_given(sampling, "rate"))
            return f"Poisson sampling at rate {rate}, at most {most:,} a batch"
        case BallsInBins(batches=batches):
            return f"balls in {batches:,} bins"
        case RandomAllocation(batches=batches, chosen=chosen):
            return f"{chosen:,} of {batches:,} batches for each record"
        case Shuffled(batches=batches):
            return f"shuffled epochs of {count(batches, 'batch')}"
    assert_never(sampling)
