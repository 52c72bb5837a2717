"""Statements in one call: made of a run, a ledger or an audit, and verified from a file.

What reads and checks statements needs pydantic, and is loaded when it is called.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tightrope.answers.filter import Filter
from tightrope.answers.ledger import Ledger
from tightrope.errors import InvalidSetting
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.tuned import Tuned
from tightrope.statements.facts import Facts

if TYPE_CHECKING:
    from tightrope.audit.claims.judge import Audit
    from tightrope.audit.finding import Finding
    from tightrope.statements.model import Statement
    from tightrope.statements.verify import Verification


def statement(
    release: "Run | Step | Tuned | Ledger | Audit | str | Path",
    *,
    facts: Facts,
    relation: Relation | str | None = None,
    delta: float | None = None,
    implemented: "Finding | None" = None,
    epsilon: float | None = None,
) -> "Statement":
    """The statement about a run, what a ledger or its file recorded, or what was audited.

    A run needs `relation` and `delta`, a ledger `delta`; an audit holds both. `implemented` says how batches
    are really drawn, as `inspect_loader` or `watch` found; without it they are declared to be drawn as
    accounted, and the statement says that nobody looked. `epsilon` is the claim: the proved one, rounded up,
    if it is left out. What was `tuned` is stated with the epsilon of the whole search.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 1000
    >>> about = dict(name="digits", setting="central", unit="example", outputs="the last weights")
    >>> facts = tr.Facts(**about, data_accesses="all passes", tuning="none")
    >>> made = tr.statement(run, relation="add-or-remove", delta=1e-6, facts=facts)
    >>> made.claim.epsilon, made.claim.standing, tr.verify(made).holds
    (0.4677, 'proved', True)
    """
    from tightrope.audit.claims.judge import Audit  # only statements need these
    from tightrope.statements.make import declare_as_accounted, state_audit, state_ledger, state_run

    if not isinstance(facts, Facts):
        remedy = "Write tightrope.Facts(name=..., setting=..., unit=..., ...)."
        raise InvalidSetting("facts", facts, "be Facts", remedy)
    if isinstance(release, Tuned):
        _refuse_what_is_held("The search", trials=facts.trials)
        facts = replace(facts, trials=release.trials)
        release = release.run
    if isinstance(release, Audit):
        _refuse_what_is_held("The audit", relation=relation, delta=delta, implemented=implemented)
        return state_audit(release, facts=facts, epsilon=epsilon)
    if delta is None:
        raise InvalidSetting("delta", None, "be stated", "Pass for example {delta=1e-6}.")
    if isinstance(release, Run | Step):
        if relation is None:
            remedy = "Say who counts as a neighbour: there is no default."
            raise InvalidSetting("relation", None, "be stated", remedy)
        found = declare_as_accounted(release) if implemented is None else implemented
        return state_run(
            release, relation=relation, delta=delta, facts=facts, implemented=found, epsilon=epsilon
        )
    if isinstance(release, Ledger | str | Path):
        _refuse_what_is_held("The ledger", relation=relation)
        return state_ledger(release, delta=delta, facts=facts, implemented=implemented, epsilon=epsilon)
    remedy = "Pass what was run, a Ledger or its file, or what tightrope.audit found."
    if isinstance(release, Filter):
        remedy = (
            "A statement is about steps that were fixed in advance. What a filter promises is its whole "
            "budget, which its file holds: save it, and tightrope filter budget.json --verify certifies it "
            "anew."
        )
    raise InvalidSetting("release", release, "be a Run, a Step, a Ledger or an Audit", remedy)


def verify(stated: "Statement | str | Path") -> "Verification":
    """The statement, or the one in a JSON file, computed anew: whether it holds, and on what it rests.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 1000
    >>> about = dict(name="digits", setting="central", unit="example", outputs="the last weights")
    >>> facts = tr.Facts(**about, data_accesses="all passes", tuning="none")
    >>> tr.verify(tr.statement(run, relation="add-or-remove", delta=1e-6, facts=facts)).holds
    True
    """
    from tightrope.files import PEOPLE_SEND, as_path, read_text  # only statements need these
    from tightrope.statements.checks import parse_statement
    from tightrope.statements.model import Statement
    from tightrope.statements.verify import verify as verify_anew

    if isinstance(stated, str | Path):
        text = read_text(as_path(stated), most=PEOPLE_SEND.size)
        stated = parse_statement(text, where=str(stated))
    if not isinstance(stated, Statement):
        remedy = "Pass what tightrope.statement made, or the path of its JSON."
        raise InvalidSetting("stated", stated, "be a Statement or its file", remedy)
    return verify_anew(stated)


def _refuse_what_is_held(holder: str, **named: object) -> None:
    for name, value in named.items():
        if value is not None:
            raise InvalidSetting(name, value, "be left out", f"{holder} holds it.")
