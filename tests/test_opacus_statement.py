"""From a training with Opacus to a statement, without retyping a number."""

import warnings

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

from opacus import PrivacyEngine

import tightrope as tr
from opacus_training import (
    BATCH,
    DELTA,
    NOISE,
    RECORDS,
    USUAL_WARNINGS,
    dataset,
    made_private,
    module_and_optimizer,
    shuffled,
    train,
    trained,
    without_replacement,
)
from tightrope.audit import Verdict
from tightrope.integrations.opacus import SamplerMismatch, TightropeEngine, audit_training
from tightrope.statements.make import Facts, state_audit
from tightrope.statements.verify import verify

pytestmark = USUAL_WARNINGS

FACTS = Facts(
    name="points",
    setting="central",
    unit="example",
    data_accesses="one pass",
    tuning="none",
    outputs="the weights",
    records=RECORDS,
    batch=BATCH,
    epochs=1,
)


def test_an_engine_states_what_its_sampler_drew() -> None:
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    parts = engine.make_private(
        **module_and_optimizer(),
        dataset=dataset(),
        sampler=without_replacement(),
        noise_multiplier=NOISE,
        max_grad_norm=1.0,
    )
    train(*parts)
    found = audit_training(engine, delta=DELTA)
    assert found.verdict is Verdict.MATCHES
    made = state_audit(found, facts=FACTS)
    assert made.accounted == engine.ledger.run
    assert made.implemented.evidence == "inspected"
    assert verify(made).holds


def test_an_accountant_by_name_states_what_its_loader_drew() -> None:
    accountant = trained("tightrope", shuffled())
    found = audit_training(accountant, delta=DELTA)
    assert found.verdict is Verdict.MATCHES
    assert found.run == accountant.run
    assert state_audit(found, facts=FACTS).claim.epsilon >= accountant.get_epsilon(DELTA)


def test_a_mismatch_is_stated_as_one() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplerMismatch)
        accountant = trained("tightrope", shuffled(), poisson_sampling=False)
    found = audit_training(accountant, delta=DELTA)
    assert not found.verdict.holds
    assert "shuffles" in found.sentence
    assert not verify(state_audit(found, facts=FACTS, epsilon=1.0)).holds


def test_accountants_of_opacus_know_nothing_of_the_loader() -> None:
    engine = PrivacyEngine(accountant="rdp")
    train(*made_private(engine, shuffled()))
    found = audit_training(engine.accountant, delta=DELTA)
    assert found.verdict is Verdict.UNKNOWN
    assert found.run == tr.Step(tr.Gaussian(noise_multiplier=NOISE), tr.Poisson(rate=1 / 10)) * 10


def test_what_cannot_be_stated_is_refused() -> None:
    with pytest.raises(tr.InvalidSetting, match="trained must be a TightropeEngine or an accountant"):
        audit_training(3, delta=DELTA)
    with pytest.raises(tr.InvalidSetting, match="relation must be ADD_OR_REMOVE, as it was recorded"):
        audit_training(trained("tightrope", shuffled()), delta=DELTA, relation=tr.SUBSTITUTE)
