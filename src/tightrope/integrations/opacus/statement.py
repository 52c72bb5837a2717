"""From a training with Opacus to an audit, and so to a statement, without retyping a number."""

from typing import Any

from tightrope.audit.claims.judge import Audit, audit
from tightrope.audit.finding import Finding, How, Scheme, scheme_of
from tightrope.audit.steps.summary import apply_steps
from tightrope.errors import InvalidSetting, NoTheorem
from tightrope.integrations.opacus.accountants import OpacusAccountant
from tightrope.integrations.opacus.engine import TightropeEngine
from tightrope.integrations.opacus.words import is_off_the_loader
from tightrope.setting.relation import ADD_OR_REMOVE, Relation
from tightrope.setting.run import UNBROKEN
from tightrope.statements.make import declare, read_history

BY_HAND = f"Some batches of passes were recorded by hand: epsilon holds if {UNBROKEN}."


def audit_training(trained: Any, *, delta: float, relation: Relation | None = None) -> Audit:
    """What a `TightropeEngine` or an accountant of Opacus recorded, against what was found of its batches.

    Opacus' own accountants know Poisson batches and adding or removing a record, and never saw the loader.
    Only for them may `relation` be stated, and how batches were drawn counts as not stated.
    """
    if isinstance(trained, TightropeEngine):
        finding, run = _read_engine(trained), trained.ledger.run
    elif isinstance(trained, OpacusAccountant):
        finding, run = _read_accountant(trained), trained.run
    elif hasattr(trained, "history"):
        asked = ADD_OR_REMOVE if relation is None else relation
        return audit(declare(Scheme.UNKNOWN), read_history(trained.history), delta=delta, relation=asked)
    else:
        remedy = "Pass engine, or engine.accountant."
        raise InvalidSetting("trained", trained, "be a TightropeEngine or an accountant of Opacus", remedy)
    if relation is not None and relation is not trained.relation:
        must = f"be {{{trained.relation.name}}}, as it was recorded, or be left out"
        raise InvalidSetting("relation", relation, must, "Leave it out.")
    return audit(finding, run, delta=delta, relation=trained.relation)


def _read_accountant(accountant: OpacusAccountant) -> Finding:
    seen = {found for found in accountant.findings if not is_off_the_loader(found)}
    if len(seen) > 1:
        remedy = "State each part by itself, or ask accountant.epsilon(delta) for what is proved of all."
        raise InvalidSetting("loaders", len(seen), "all draw in one way", remedy)
    found = next(iter(seen), accountant.loader) or declare(Scheme.UNKNOWN)
    if found.scheme is Scheme.UNKNOWN:
        return found
    if accountant.steps.is_proof and accountant.only_bounds:
        raise NoTheorem(
            "the accountant recorded bounds of what was run: batches accumulated into one step, rates given "
            "by hand, or passes over a loader without a sampling that were broken off",
            "Ask accountant.epsilon(delta) for what is proved.",
        )
    return apply_steps(found, accountant.steps)


def _read_engine(engine: TightropeEngine) -> Finding:
    samplings = {step.sampling for step, _ in engine.ledger.run}
    if len(samplings) != 1:
        raise InvalidSetting("ledger", samplings, "hold steps of one sampling", "State each by itself.")
    (sampling,) = samplings
    scheme = scheme_of(sampling)
    sentence = "The training engine drew its batches with the sampler whose sampling was accounted."
    by_hand = () if engine.accountant.passes.are_whole else (BY_HAND,)
    notes = (*((engine.exceeded,) if engine.exceeded else ()), *by_hand)
    drawn = Finding(scheme=scheme, how=How.INSPECTED, sentence=sentence, sampling=sampling, notes=notes)
    return apply_steps(drawn, engine.steps)
