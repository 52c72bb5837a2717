"""Loops that looked like private training and were none: each of these was called a match."""

import math
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

import torch
from opacus import PrivacyEngine
from torch import nn

import tightrope as tr
from opacus_training import (
    DELTA,
    USUAL_WARNINGS,
    engine_and_parts,
    made_private,
    poisson,
    shuffled,
    train,
    without_replacement,
)
from tightrope import InvalidSetting
from tightrope.audit import Verdict
from tightrope.integrations.opacus import SamplerMismatch, audit_training

pytestmark = USUAL_WARNINGS

loss_of = nn.CrossEntropyLoss()


def learn(module: Any, optimizer: Any, points: Any, labels: Any) -> None:
    optimizer.zero_grad()
    loss_of(module(points), labels).backward()
    optimizer.step()


@pytest.mark.parametrize(
    "change",
    [
        lambda points: points[:1].expand_as(points),
        lambda points: points.as_strided(points.shape, (0, 1)),
        lambda points: points.as_strided(points.shape, (1, 1)),
    ],
)
def test_a_view_of_one_record_many_times_is_not_the_batch(change: Callable[[Any], Any]) -> None:
    """Six gradients of one record move the sum by six times the clipping norm."""
    engine, module, optimizer, loader = engine_and_parts(without_replacement())
    for points, labels in loader:
        learn(module, optimizer, change(points), labels)
    assert engine.steps.records == 0
    assert audit_training(engine, delta=DELTA).verdict is Verdict.UNKNOWN


def test_records_that_are_put_into_the_list_of_a_batch_are_not_the_batch() -> None:
    """The watch kept the very list that it handed over, and so whatever the loop put into it."""
    engine, module, optimizer, loader = engine_and_parts(without_replacement())
    for batch in loader:
        batch[0] = torch.randn_like(batch[0])
        learn(module, optimizer, *batch)
    assert (engine.steps.sizes, engine.steps.records) == (10, 0)
    assert audit_training(engine, delta=DELTA).verdict is Verdict.UNKNOWN


def test_a_square_batch_that_is_transposed_mixes_records() -> None:
    engine, module, optimizer, loader = engine_and_parts(without_replacement(batch=3, steps=4))
    for points, labels in loader:
        learn(module, optimizer, points.t(), labels)
    assert engine.steps.records == 0


def test_a_view_whose_memory_is_laid_out_otherwise_is_still_the_batch() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    for points, labels in loader:
        learn(module, optimizer, points.t().t().view(len(points), 3), labels)
    assert engine.steps.records == 7


def test_a_history_with_another_noise_is_not_what_was_run() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    train(*made_private(engine, shuffled()))
    accountant = engine.accountant
    assert audit_training(accountant, delta=DELTA).verdict is Verdict.MATCHES
    accountant.history = [(50.0, rate, steps) for _, rate, steps in accountant.history]
    assert accountant.steps.unseen == 10
    assert audit_training(accountant, delta=DELTA).verdict is Verdict.UNKNOWN


def test_a_rate_that_is_changed_after_the_loader_was_looked_at_is_noticed() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(engine, shuffled())
    train(module, optimizer, loader)
    loader.batch_sampler.sample_rate = 0.9
    with pytest.warns(SamplerMismatch, match="no longer draws its batches as it did"):
        train(module, optimizer, loader)
    with pytest.warns(SamplerMismatch):
        assert engine.accountant.get_epsilon(DELTA) == math.inf
    assert audit_training(engine.accountant, delta=DELTA).verdict is Verdict.UNKNOWN


def test_a_seed_that_is_set_again_draws_no_fresh_batches() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(engine, shuffled())
    torch.manual_seed(3)
    train(module, optimizer, loader)
    torch.manual_seed(3)
    with pytest.warns(SamplerMismatch, match="as if a seed had been set again"):
        train(module, optimizer, loader)
    with pytest.warns(SamplerMismatch):
        assert engine.accountant.get_epsilon(DELTA) == math.inf
    assert audit_training(engine.accountant, delta=DELTA).verdict is Verdict.UNKNOWN


def test_passes_over_fresh_batches_are_never_taken_for_repeats() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(engine, shuffled())
    for _ in range(5):
        train(module, optimizer, loader)
    assert engine.accountant.steps.records == 50


def test_loaders_that_keep_their_workers_are_looked_at_again_in_each_pass() -> None:
    engine, module, optimizer, loader = engine_and_parts(
        without_replacement(steps=2), loader_options={"num_workers": 1, "persistent_workers": True}
    )
    train(module, optimizer, loader)
    assert engine.steps.records == 2
    loader.batch_sampler._sampler = without_replacement(steps=2, batch=30)
    with pytest.raises(InvalidSetting, match="no longer draws its batches as it did"):
        train(module, optimizer, loader)
    assert tr.WithoutReplacement(batch=6, population=60) in {step.sampling for step, _ in engine.ledger.run}


def test_an_epsilon_of_steps_that_were_not_seen_says_so() -> None:
    """Records of elsewhere in batches of the same size: the bracket said nothing of it."""
    engine, module, optimizer, loader = engine_and_parts(without_replacement())
    for _, (points, labels) in zip(loader, shuffled(), strict=True):
        learn(module, optimizer, points, labels)
    said = "10 of 10 steps, though not seen to be, were taken on one fresh batch each"
    assert engine.epsilon(DELTA).conditions == (said,)
    assert str(engine.epsilon(DELTA)).endswith(f" if {said}")

    by_name = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(by_name, shuffled())
    for points, labels in loader:
        learn(module, optimizer, points + 0.5, labels)
    assert by_name.accountant.epsilon(DELTA).conditions == (said,)
