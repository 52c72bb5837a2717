"""From a run, what is known of its batches and a few facts to a privacy statement; and from a statement to whether it holds."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

from tightrope import __version__
from tightrope.answers.ledger import Ledger
from tightrope.answers.spend import privacy_curve
from tightrope.audit.claims.judge import Audit, audit
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.curve.bracket import Bracket
from tightrope.errors import InvalidSetting
from tightrope.report.words import sampling_in_words
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, WithoutReplacement
from tightrope.setting.spelling import spelled
from tightrope.statements.model import (
    CONVENTION,
    FORMAT,
    VERSION,
    Statement,
    checked,
    plain_finding,
    plain_steps,
)
from tightrope.theorems.evidence import Evidence

DIGITS = Decimal("0.0001")  # a claim that is not given is the proved epsilon, rounded up to this
AGREE = 1e-3  # relative: brackets computed by different versions may differ by their accuracy
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


def declared(scheme: Scheme, sampling: Sampling | None = None) -> Finding:
    """A finding that rests on somebody's word."""
    if scheme is Scheme.UNKNOWN:
        return Finding(scheme=scheme, how=How.DECLARED, sentence="How batches are drawn was not stated.")
    said = sampling_in_words(sampling) if sampling is not None else scheme.value
    sentence = f"It is declared that batches are drawn so: {said}."
    return Finding(scheme=scheme, how=How.DECLARED, sentence=sentence, sampling=sampling)


def declared_as_accounted(run: Run | Step) -> Finding:
    """Somebody's word that batches are drawn as they were accounted; all steps must share one sampling."""
    samplings = {step.sampling for step, _ in as_run(run)}
    if len(samplings) != 1:
        raise InvalidSetting(
            f"implemented must be stated for a run of {len(samplings)} samplings, got none. Pass a Finding or an Audit."
        )
    (sampling,) = samplings
    schemes = {
        Poisson: Scheme.POISSON,
        WithoutReplacement: Scheme.WITHOUT_REPLACEMENT,
        EveryRecord: Scheme.EVERY_RECORD,
    }
    return declared(schemes[type(sampling)], sampling)


def statement(
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
    return statement_of(audit(implemented, run, delta=delta, relation=relation), facts=facts, epsilon=epsilon)


def statement_of(found: Audit, *, facts: Facts, epsilon: float | None = None) -> Statement:
    """The statement about what was audited; all that is wrong with the facts is listed at once."""
    accounted = privacy_curve(found.run, relation=found.relation).because
    theorems = found.because or tuple(one for one in accounted if isinstance(one, Evidence))
    return checked(
        {
            "format": FORMAT,
            "version": VERSION,
            "name": facts.name,
            "description": facts.description,
            "setting": facts.setting,
            "unit": {"protects": facts.unit, "details": facts.unit_details},
            "relation": spelled(found.relation),
            "data_accesses": facts.data_accesses,
            "tuning": facts.tuning,
            "outputs": facts.outputs,
            "noise_convention": CONVENTION,
            "run": plain_steps(found.run),
            "dataset": {"records": facts.records, "batch": facts.batch, "epochs": facts.epochs},
            "implemented": plain_finding(found.finding),
            "claim": {"epsilon": proved_epsilon(found) if epsilon is None else epsilon, "delta": found.delta},
            "certified": {
                "accounted": _ends(found.claimed),
                "runs": _ends(found.truly),
                "verdict": found.verdict.name.lower(),
                "provided": found.provided,
                "why_not": found.why_not,
            },
            "theorems": [
                {
                    "name": one.name,
                    "statement": one.statement,
                    "standing": one.standing.value,
                    "reference": one.reference,
                }
                for one in theorems
            ],
            "assumptions": _assumptions(found),
            "code": facts.code,
            "command": VERIFY,
            "tightrope": __version__,
        }
    )


def facts_of(stated: Statement) -> Facts:
    """The facts that a statement was made with."""
    return Facts(
        name=stated.name,
        description=stated.description,
        setting=stated.setting,
        unit=stated.unit.protects,
        unit_details=stated.unit.details,
        data_accesses=stated.data_accesses,
        tuning=stated.tuning,
        outputs=stated.outputs,
        code=stated.code,
        records=stated.dataset.records,
        batch=stated.dataset.batch,
        epochs=stated.dataset.epochs,
    )


def proved_epsilon(found: Audit) -> float:
    """The smallest epsilon to claim for what runs: the proved one, rounded up to four decimals."""
    if math.isinf(found.truly.upper):
        raise InvalidSetting(
            f"epsilon must be stated: nothing is proved for what runs ({found.why_not.removesuffix('.')}). "
            "State the claim, and verify will say that it is not supported."
        )
    return float(Decimal(repr(found.truly.upper)).quantize(DIGITS, rounding=ROUND_CEILING))


def ledger_statement(
    ledger: Ledger | str | Path,
    *,
    delta: float,
    facts: Facts,
    implemented: Finding | None = None,
    epsilon: float | None = None,
) -> Statement:
    """The statement about everything a ledger, or the file of one, has recorded; batches as accounted unless said otherwise."""
    kept = ledger if isinstance(ledger, Ledger) else Ledger.load(ledger)
    found = declared_as_accounted(kept.run) if implemented is None else implemented
    return statement(
        kept.run, relation=kept.relation, delta=delta, facts=facts, implemented=found, epsilon=epsilon
    )


def run_of_history(history: Iterable[tuple[float, float, int]]) -> Run:
    """The run that an accountant of Opacus accounts: (noise multiplier, sampling rate, steps), Poisson sampling.

    >>> run_of_history([(0.8, 0.001, 10_000)])
    Run(10000 x Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.001)))
    """
    parts = (
        (Step(Gaussian(noise_multiplier=noise), Poisson(rate=rate)), steps) for noise, rate, steps in history
    )
    return Run(tuple(parts))


@dataclass(frozen=True, kw_only=True)
class Verification:
    """A statement against what is computed now: `holds` if the claim is proved for what runs and the numbers are right."""

    statement: Statement
    audit: Audit
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.problems

    def __str__(self) -> str:
        claim = self.statement.claim
        if self.holds:
            said = f"The claim holds: epsilon {claim.epsilon:g} at delta {claim.delta:g} under {self.audit.relation.name}."
            return f"{said} {self.audit.sentence}"
        return "\n  ".join(["The claim does not hold:", *self.problems])


def verified(stated: Statement) -> Verification:
    """The statement, computed anew."""
    found = audit(stated.finding, stated.accounted, delta=stated.claim.delta, relation=stated.neighbours)
    problems = []
    if stated.claim.epsilon < found.truly.upper:
        at_most = "no epsilon" if math.isinf(found.truly.upper) else f"epsilon {found.truly.upper:.6g}"
        problems.append(
            f"claim.epsilon = {stated.claim.epsilon:g} is not proved: {at_most} is proved for what runs. {found.sentence}"
        )
    for name, ends, bracket in (
        ("accounted", stated.certified.accounted, found.claimed),
        ("runs", stated.certified.runs, found.truly),
    ):
        certainly_false = ends.lower > bracket.upper, ends.upper is not None and ends.upper < bracket.lower
        both = (("lower", ends.lower, bracket.lower), ("upper", ends.upper, bracket.upper))
        for false, (end, before, after) in zip(certainly_false, both, strict=True):
            if false or not _agree(before, after):
                said = "nothing" if before is None else f"{before:.6g}"
                problems.append(f"certified.{name}.{end} = {said} is not what is computed now, {after:.6g}.")
    again = statement_of(found, facts=facts_of(stated), epsilon=stated.claim.epsilon)
    for name in ("verdict", "provided", "why_not"):
        before, now = getattr(stated.certified, name), getattr(again.certified, name)
        if before != now:
            problems.append(f"certified.{name} = {before!r} is not what is found now, {now!r}.")
    problems += [
        f"{name} are not those that are found now. Make the statement anew."
        for name in ("theorems", "assumptions")
        if getattr(stated, name) != getattr(again, name)
    ]
    return Verification(statement=stated, audit=found, problems=tuple(problems))


def _agree(before: float | None, after: float) -> bool:
    if before is None or math.isinf(after):
        return before is None and math.isinf(after)
    return math.isclose(before, after, rel_tol=AGREE, abs_tol=1e-9)


def _ends(bracket: Bracket) -> dict[str, float | None]:
    return {"lower": bracket.lower, "upper": bracket.upper if math.isfinite(bracket.upper) else None}


def _assumptions(found: Audit) -> list[dict[str, str]]:
    drawn = {How.DECLARED: "not checked", How.INSPECTED: "yes", How.WATCHED: "tested"}[found.finding.how]
    if not found.verdict.holds:
        drawn = "not checked" if found.finding.scheme is Scheme.UNKNOWN else "no"
    clipped = {"says": "The contribution of every record has norm at most C.", "holds": "not checked"}
    secret = {"says": "Noise is fresh, and nobody can predict noise or batches.", "holds": "not checked"}
    listed = [
        {
            "says": "Batches are drawn as accounted, or cost no more.",
            "holds": drawn,
            "because": found.finding.sentence,
        },
        {**clipped, "because": "Clipping happens in the training code."},
        {**secret, "because": "Random numbers come from the training code."},
    ]
    if found.provided:
        listed.append(
            {
                "says": f"{found.provided[0].upper()}{found.provided[1:]}.",
                "holds": "not checked",
                "because": "Nobody looked at it.",
            }
        )
    return listed
