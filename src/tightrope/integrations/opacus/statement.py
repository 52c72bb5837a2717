"""From a training with Opacus to an audit, and so to a statement, without retyping a number."""

from typing import Any

from tightrope.audit.claims.judge import Audit, audit
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.errors import InvalidSetting
from tightrope.integrations.opacus.accountants import TightropeAccountant
from tightrope.integrations.opacus.engine import TightropeEngine
from tightrope.setting.relation import ADD_OR_REMOVE, Relation
from tightrope.setting.sampling import Poisson
from tightrope.statements.make import declare, read_history


def audit_training(trained: Any, *, delta: float, relation: Relation | None = None) -> Audit:
    """What a `TightropeEngine`, or an accountant of Opacus, has recorded, set against what was found of its batches.

    Opacus' own accountants know Poisson batches and adding or removing a record, and never saw the loader: `relation` may be
    stated for them only, and how batches were drawn counts as not stated.
    """
    if isinstance(trained, TightropeEngine):
        _refuse(relation, trained.relation)
        return audit(
            _drawn_by_the_engine(trained), trained.ledger.run, delta=delta, relation=trained.relation
        )
    if isinstance(trained, TightropeAccountant):
        _refuse(relation, trained.relation)
        return audit(_seen_by(trained), trained.run, delta=delta, relation=trained.relation)
    if hasattr(trained, "history"):
        run = read_history(trained.history)
        return audit(
            declare(Scheme.UNKNOWN),
            run,
            delta=delta,
            relation=ADD_OR_REMOVE if relation is None else relation,
        )
    raise InvalidSetting(
        f"trained must be a TightropeEngine or an accountant of Opacus, got {trained!r}. Pass engine, or engine.accountant."
    )


def _refuse(stated: Relation | None, own: Relation) -> None:
    if stated is not None and stated is not own:
        raise InvalidSetting(
            f"relation must be {own.name}, as it was recorded, or be left out, got {stated.name}. Leave it out."
        )


def _seen_by(accountant: TightropeAccountant) -> Finding:
    seen = set(accountant.findings)
    if len(seen) > 1:
        raise InvalidSetting(
            f"the accountant saw {len(seen)} loaders that draw differently. State each part by itself, or what is proved of all: "
            "accountant.epsilon(delta)."
        )
    found = seen.pop() if seen else None
    if accountant.only_bounds:
        raise InvalidSetting(
            "the accountant recorded bounds of what was run: batches accumulated into one step, rates given by hand, or training "
            "that was resumed with a loader without a sampling. Ask accountant.epsilon(delta) for what is proved."
        )
    return declare(Scheme.UNKNOWN) if found is None else found


def _drawn_by_the_engine(engine: TightropeEngine) -> Finding:
    samplings = {step.sampling for step, _ in engine.ledger.run}
    if len(samplings) != 1:
        raise InvalidSetting(
            f"the ledger holds steps of {len(samplings)} samplings, got no single one. State each by itself."
        )
    (sampling,) = samplings
    scheme = Scheme.POISSON if isinstance(sampling, Poisson) else Scheme.WITHOUT_REPLACEMENT
    sentence = "The training engine drew every batch with the sampler whose sampling was accounted."
    return Finding(scheme=scheme, how=How.INSPECTED, sentence=sentence, sampling=sampling)
