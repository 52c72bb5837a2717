"""From a run, its batches and a few facts to a statement."""

import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tightrope import __version__
from tightrope.answers.ledger import Ledger
from tightrope.answers.spend import privacy_curve
from tightrope.audit.claims.counted import is_all_so_far
from tightrope.audit.claims.judge import Audit, audit
from tightrope.audit.finding import Finding, How, Scheme, scheme_of
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import round_up
from tightrope.errors import Described, InvalidSetting
from tightrope.files import PEOPLE_SEND
from tightrope.report.words import sampling_in_words
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.plain import spell
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.sampling import Poisson, Sampling
from tightrope.setting.trials import TrialLaw, as_trials
from tightrope.statements.checks import check_statement
from tightrope.statements.facts import Facts as Facts  # makers of statements find it here too
from tightrope.statements.model import (
    CONVENTION,
    FORMAT,
    VERSION,
    CertifiedEnds,
    Computed,
    Statement,
    Theorem,
    list_steps,
)
from tightrope.statements.searched import search_runs
from tightrope.statements.words import find_schedule_gap, find_unit_gap, judge_anew

DECIMALS = 4  # a claim that is not given is the proved epsilon, rounded up to so many
VERIFY = "tightrope verify statement.json"


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
        raise InvalidSetting("implemented", None, must, "State each phase by itself.")
    (sampling,) = samplings
    return declare(scheme_of(sampling), sampling)


def state_run(
    run: Run | Step,
    *,
    relation: Relation | str,
    delta: float,
    facts: Facts,
    implemented: Finding,
    epsilon: float | None = None,
) -> Statement:
    """The statement about a run whose batches are drawn as `implemented` says; `epsilon` is the claim.

    Without a claim it is the epsilon proved for what runs, rounded up to four decimals. A claim that is
    false is stated as refuted, and `statements.render` prints it only if `even_if_refuted` asks for that.
    """
    check_parts(as_run(run))
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
        kept.run,
        relation=kept.relation,
        delta=delta,
        facts=adopt_schedule(facts, kept),
        implemented=found,
        epsilon=epsilon,
    )


def adopt_schedule(facts: Facts, kept: Ledger) -> Facts:
    """The facts with the schedule that a ledger states; what contradicts it is refused."""
    if kept.schedule is None or facts.schedule == kept.schedule:
        return facts
    if facts.schedule != "not stated":
        remedy = f"The ledger says {kept.schedule!r}: leave out what the facts say."
        raise InvalidSetting("schedule", facts.schedule, "be that of the ledger", remedy)
    return replace(facts, schedule=kept.schedule)


def state_audit(found: Audit, *, facts: Facts, epsilon: float | None = None) -> Statement:
    """The statement about what was audited; everything wrong with the facts is listed at once."""
    check_parts(found.run)
    if is_all_so_far(found.run, found.finding):  # a file does not hold how far a sampler has come
        kept = Finding.from_plain(found.finding.plain())
        found = audit(kept, found.run, delta=found.delta, relation=found.relation)
    trials = None if facts.trials is None else as_trials(facts.trials)
    found = search_runs(found, trials)
    claimed = choose_claim(found) if epsilon is None else epsilon
    made = judge_anew(check_statement(_list_entries(found, facts, trials, claimed)))
    if epsilon is None and (gap := find_schedule_gap(made)):
        raise _ask_for_claim(f"nothing is proved ({gap})")
    if epsilon is None and (gap := find_unit_gap(made)):
        advice = (
            f"Pass records_per_unit=1 if each {facts.unit} has one record, or account for groups of so many: "
            "add-or-remove of 5, for example. "
        )
        raise _ask_for_claim(f"nothing is proved for one {facts.unit} ({gap})", advice)
    return made


def _list_entries(found: Audit, facts: Facts, trials: TrialLaw | None, claimed: float) -> dict[str, Any]:
    """Everything that the statement says, but for what is judged from it."""
    finding = found.finding.plain()
    finding.pop("tests")
    unit = {
        "protects": facts.unit,
        "details": facts.unit_details,
        "records_per_unit": facts.records_per_unit,
    }
    return {
        "claim": {"standing": "not proved", "epsilon": claimed, "delta": found.delta},
        "format": FORMAT,
        "version": VERSION,
        "name": facts.name,
        "description": facts.description,
        "setting": facts.setting,
        "unit": unit,
        "relation": spell(found.relation),
        "data_accesses": facts.data_accesses,
        "tuning": facts.tuning,
        "trials": None if trials is None else str(trials),
        "outputs": facts.outputs,
        "schedule": facts.schedule,
        "noise_convention": CONVENTION,
        "run": list_steps(found.run),
        "dataset": {"records": facts.records, "batch": facts.batch, "epochs": facts.epochs},
        "implemented": finding,
        "certified": compute_ends(found).model_dump(),
        "theorems": [one.model_dump() for one in list_theorems(found)],
        "assumptions": [],
        "code": facts.code,
        "command": VERIFY,
        "tightrope": __version__,
    }


def check_parts(run: Run) -> None:
    """Refuse a run of more parts than a statement holds, before hours are spent on it."""
    most = PEOPLE_SEND.tables
    if len(run.parts) > most:
        found = Described(f"{len(run.parts):,} parts")
        remedy = "State phases by themselves, or steps of the smallest noise in the place of all."
        raise InvalidSetting("run", found, f"have at most {most:,} different steps", remedy)


def choose_claim(found: Audit) -> float:
    """The smallest epsilon to claim for what runs: the proved one, rounded up to four decimals."""
    if math.isinf(found.proved.upper):
        raise _ask_for_claim(f"nothing is proved for what runs ({found.why_not.removesuffix('.')})")
    return float(round_up(found.proved.upper, DECIMALS))


def _ask_for_claim(why: str, advice: str = "") -> InvalidSetting:
    remedy = f"{advice}State the claim, and verify will say that it is not supported."
    return InvalidSetting("epsilon", None, f"be stated: {why}", remedy)


def compute_ends(found: Audit) -> Computed:
    """What an audit certifies, as a statement says it."""
    return Computed.model_validate(
        {
            "accounted": _write_ends(found.claimed),
            "runs": _write_ends(found.proved),
            "sampling_verdict": found.verdict.name.lower(),
            "provided": found.provided,
            "why_not": found.why_not,
        }
    )


def list_theorems(found: Audit) -> tuple[Theorem, ...]:
    """What the upper end rests on; where there is none, what the accounted run rests on."""
    theorems = found.because or privacy_curve(found.run, relation=found.relation).because
    return tuple(
        Theorem(name=one.name, statement=one.statement, standing=one.standing.value, reference=one.reference)
        for one in theorems
    )


def _write_ends(bracket: Bracket) -> CertifiedEnds:
    # JSON has no infinity: where no epsilon is enough, every float is a lower end
    lower = min(bracket.lower, sys.float_info.max)
    return CertifiedEnds(lower=lower, upper=bracket.upper if math.isfinite(bracket.upper) else None)


def read_history(history: Iterable[tuple[float, float, int]]) -> Run:
    """The run that an accountant of Opacus accounts: noise multiplier, Poisson sampling rate and steps.

    >>> read_history([(0.8, 0.001, 10_000)])
    Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.001)) * 10000
    """
    parts = (
        (Step(Gaussian(noise_multiplier=noise), Poisson(rate=rate)), steps) for noise, rate, steps in history
    )
    return Run(tuple(parts))
