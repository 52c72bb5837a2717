"""From a run, its batches and a few facts to a statement; and from a statement to whether it holds."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tightrope import __version__
from tightrope.accountants.exact import Exact
from tightrope.answers.ledger import Ledger
from tightrope.answers.spend import epsilon, privacy_curve
from tightrope.audit.claims.judge import Audit, Verdict, audit
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import round_up
from tightrope.engines.face import Progress
from tightrope.errors import InvalidSetting
from tightrope.numerics.text import round_outwards, write_number
from tightrope.report.words import sampling_in_words
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.plain import spell
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.sampling import Poisson, Sampling
from tightrope.statements.checks import check_statement
from tightrope.statements.model import (
    CONVENTION,
    FORMAT,
    VERSION,
    Assumption,
    CertifiedEnds,
    Computed,
    Holds,
    Statement,
    Theorem,
    list_steps,
)

DECIMALS = 4  # a claim that is not given is the proved epsilon, rounded up to so many
AGREE = 1e-3  # relative: brackets computed by different versions may differ by their accuracy
HOLDS: dict[How, Holds] = {How.DECLARED: "not checked", How.INSPECTED: "yes", How.WATCHED: "tested"}
NOBODY_CHECKS = {
    "The contribution of every record has norm at most C.": "Clipping happens in the training code.",
    "Noise is fresh, and nobody can predict noise or batches.": "Random numbers come from the training code.",
}
VERIFY = "tightrope verify statement.json"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What no accountant can know: the facts that people state about a release."""

    name: str
    setting: str
    unit: str
    data_accesses: str
    tuning: str
    outputs: str
    description: str = ""
    unit_details: str = ""
    code: str = ""
    records: int | None = None
    batch: float | None = None
    epochs: float | None = None


def declare(scheme: Scheme, sampling: Sampling | None = None, **numbers: Any) -> Finding:
    """A finding that is only declared; `numbers` are those of the finding that were declared too."""
    said = sampling_in_words(sampling) if sampling is not None else scheme.value
    sentence = f"It is declared that batches are drawn so: {said}."
    if scheme is Scheme.UNKNOWN:
        sentence = "How batches are drawn was not stated."
    return Finding(scheme=scheme, how=How.DECLARED, sentence=sentence, sampling=sampling, **numbers)


def declare_as_accounted(run: Run | Step) -> Finding:
    """The declaration that batches are drawn as accounted; all steps must share one sampling."""
    samplings = {step.sampling for step, _ in as_run(run)}
    if len(samplings) != 1:
        must = f"be stated for a run of {len(samplings)} samplings"
        raise InvalidSetting("implemented", None, must, "Pass a Finding or an Audit.")
    (sampling,) = samplings
    return declare(Scheme[spell(type(sampling)).replace("-", "_").upper()], sampling)


def state_run(
    run: Run | Step,
    *,
    relation: Relation,
    delta: float,
    facts: Facts,
    implemented: Finding,
    epsilon: float | None = None,
) -> Statement:
    """The statement about a run whose batches are drawn as `implemented` says; `epsilon` is the claim.

    Without a claim it is the epsilon proved for what runs, rounded up to four decimals.
    """
    return state_audit(audit(implemented, run, delta=delta, relation=relation), facts=facts, epsilon=epsilon)


def state_ledger(
    ledger: Ledger | str | Path,
    *,
    delta: float,
    facts: Facts,
    implemented: Finding | None = None,
    epsilon: float | None = None,
) -> Statement:
    """The statement about all that a ledger, or its file, has recorded; batches as accounted by default."""
    kept = ledger if isinstance(ledger, Ledger) else Ledger.load(ledger)
    found = declare_as_accounted(kept.run) if implemented is None else implemented
    return state_run(
        kept.run, relation=kept.relation, delta=delta, facts=facts, implemented=found, epsilon=epsilon
    )


def state_audit(found: Audit, *, facts: Facts, epsilon: float | None = None) -> Statement:
    """The statement about what was audited; everything wrong with the facts is listed at once."""
    finding = found.finding.plain()
    finding.pop("tests")
    computed, theorems, assumptions = _results(found)
    return check_statement(
        {
            "format": FORMAT,
            "version": VERSION,
            "name": facts.name,
            "description": facts.description,
            "setting": facts.setting,
            "unit": {"protects": facts.unit, "details": facts.unit_details},
            "relation": spell(found.relation),
            "data_accesses": facts.data_accesses,
            "tuning": facts.tuning,
            "outputs": facts.outputs,
            "noise_convention": CONVENTION,
            "run": list_steps(found.run),
            "dataset": {"records": facts.records, "batch": facts.batch, "epochs": facts.epochs},
            "implemented": finding,
            "claim": {"epsilon": choose_claim(found) if epsilon is None else epsilon, "delta": found.delta},
            "certified": computed.model_dump(),
            "theorems": [one.model_dump() for one in theorems],
            "assumptions": [one.model_dump() for one in assumptions],
            "code": facts.code,
            "command": VERIFY,
            "tightrope": __version__,
        }
    )


def choose_claim(found: Audit) -> float:
    """The smallest epsilon to claim for what runs: the proved one, rounded up to four decimals."""
    if math.isinf(found.proved.upper):
        why = f"be stated: nothing is proved for what runs ({found.why_not.removesuffix('.')})"
        remedy = "State the claim, and verify will say that it is not supported."
        raise InvalidSetting("epsilon", None, why, remedy)
    return float(round_up(found.proved.upper, DECIMALS))


def read_history(history: Iterable[tuple[float, float, int]]) -> Run:
    """The run that an accountant of Opacus accounts: noise multiplier, Poisson sampling rate and steps.

    >>> read_history([(0.8, 0.001, 10_000)])
    Run(10000 x Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.001)))
    """
    parts = (
        (Step(Gaussian(noise_multiplier=noise), Poisson(rate=rate)), steps) for noise, rate, steps in history
    )
    return Run(tuple(parts))


@dataclass(frozen=True, kw_only=True)
class Verification:
    """A statement against what is computed now.

    It `holds` if the claim is proved for what runs and every number is right.
    """

    statement: Statement
    audit: Audit
    problems: tuple[str, ...]
    in_integers: Bracket | None = None  # the accounted epsilon by `Exact`, if that was asked

    @property
    def holds(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.problems

    def __str__(self) -> str:
        if not self.holds:
            return "\n  ".join(["The claim does not hold:", *self.problems])
        claim, relation = self.statement.claim, self.audit.relation
        numbers = f"epsilon {write_number(claim.epsilon)} at delta {write_number(claim.delta)}"
        said = f"{numbers} under {relation.name}"
        also = "" if self.in_integers is None else f" In exact integers it is {self.in_integers}."
        return f"The claim holds: {said}. {self.audit.sentence}{also}"


def verify(stated: Statement) -> Verification:
    """The statement, computed anew."""
    found = audit(stated.finding, stated.accounted, delta=stated.claim.delta, relation=stated.neighbours)
    return Verification(statement=stated, audit=found, problems=tuple(_find_problems(stated, found)))


def verify_in_integers(found: Verification, progress: Progress | None = None) -> Verification:
    """The same, with the accounted run computed once more by `Exact`, which shares no arithmetic.

    Both brackets must overlap, and neither the stated upper end nor, where what runs is what was accounted,
    the claim may be below what exact integers reach.
    """
    stated, claimed = found.statement, found.audit.claimed
    asked: Any = {"delta": stated.claim.delta, "relation": stated.neighbours, "progress": progress}
    exact = epsilon(stated.accounted, by=Exact(), **asked)
    problems = list(found.problems)
    if exact.lower > claimed.upper or claimed.lower > exact.upper:
        problems.append(f"the certified bracket {claimed} contradicts {exact} in exact integers.")
    upper = stated.certified.accounted.upper
    if upper is not None and upper < exact.lower:
        said = f"certified.accounted.upper = {write_number(upper)}"
        problems.append(f"{said} is below {exact} in exact integers.")
    if found.audit.verdict is Verdict.MATCHES and stated.claim.epsilon < exact.lower:
        said = f"claim.epsilon = {write_number(stated.claim.epsilon)}"
        problems.append(f"{said} is below {exact} in exact integers.")
    return replace(found, problems=tuple(problems), in_integers=exact)


def _find_problems(stated: Statement, found: Audit) -> Iterator[str]:
    claimed, proved, certified = stated.claim.epsilon, found.proved.upper, stated.certified
    if claimed < proved:
        at_most = "no epsilon" if math.isinf(proved) else f"epsilon {round_outwards(proved, 6, up=True)}"
        known = f"{at_most} is proved for what runs"
        yield f"claim.epsilon = {write_number(claimed)} is not proved: {known}. {found.sentence}"
    yield from _compare_ends("accounted", certified.accounted, found.claimed)
    yield from _compare_ends("runs", certified.runs, found.proved)
    computed, theorems, assumptions = _results(found)
    for name in ("verdict", "provided", "why_not"):
        before, now = getattr(certified, name), getattr(computed, name)
        if before != now:
            yield f"certified.{name} = {before!r} is not what is found now, {now!r}."
    if stated.theorems != theorems:
        yield "theorems are not those that are found now. Make the statement anew."
    if stated.assumptions != assumptions:
        yield "assumptions are not those that are found now. Make the statement anew."


def _compare_ends(name: str, stated: CertifiedEnds, found: Bracket) -> Iterator[str]:
    lower, upper = stated.lower, math.inf if stated.upper is None else stated.upper
    rows = (
        ("lower", lower, found.lower, lower > found.upper),
        ("upper", upper, found.upper, upper < found.lower),
    )
    for end, before, after, certainly_false in rows:
        if certainly_false or not math.isclose(before, after, rel_tol=AGREE, abs_tol=1e-9):
            said = "nothing" if math.isinf(before) else write_number(before)
            yield f"certified.{name}.{end} = {said} is not what is computed now, {write_number(after)}."


def _results(found: Audit) -> tuple[Computed, tuple[Theorem, ...], tuple[Assumption, ...]]:
    """What a statement says that was computed."""
    computed = Computed.model_validate(
        {
            "accounted": _ends(found.claimed),
            "runs": _ends(found.proved),
            "verdict": found.verdict.name.lower(),
            "provided": found.provided,
            "why_not": found.why_not,
        }
    )
    theorems = found.because or privacy_curve(found.run, relation=found.relation).because
    stated = (
        Theorem(name=one.name, statement=one.statement, standing=one.standing.value, reference=one.reference)
        for one in theorems
    )
    return computed, tuple(stated), tuple(_assumptions(found))


def _ends(bracket: Bracket) -> CertifiedEnds:
    return CertifiedEnds(lower=bracket.lower, upper=bracket.upper if math.isfinite(bracket.upper) else None)


def _assumptions(found: Audit) -> Iterator[Assumption]:
    drawn = HOLDS[found.finding.how]
    if not found.verdict.holds:
        drawn = "not checked" if found.finding.scheme is Scheme.UNKNOWN else "no"
    says = "Batches are drawn as accounted, or cost no more."
    yield Assumption(says=says, holds=drawn, because=found.finding.sentence)
    unchecked = dict(NOBODY_CHECKS)
    if found.provided:
        unchecked[f"{found.provided[0].upper()}{found.provided[1:]}."] = "Nobody looked at it."
    yield from (Assumption(says=says, holds="not checked", because=why) for says, why in unchecked.items())
