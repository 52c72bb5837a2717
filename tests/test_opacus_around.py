"""What people put around a private training: copies, compilers, schedulers, scalers, threads, seeds."""

import copy
import io
import math
import pickle
import threading
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
    NOISE,
    RECORDS,
    USUAL_WARNINGS,
    dataset,
    drawn_by,
    engine_and_parts,
    made_private,
    module_and_optimizer,
    poisson,
    shuffled,
    train,
    without_replacement,
)
from tightrope import InvalidSetting
from tightrope.audit import Verdict
from tightrope.integrations.opacus import SamplerMismatch, TightropeEngine, audit_training
from tightrope.integrations.training import watch_training

pytestmark = USUAL_WARNINGS

loss_of = nn.CrossEntropyLoss()


def save_and_load(module: Any) -> Any:
    saved = io.BytesIO()
    torch.save(module, saved)
    saved.seek(0)
    return torch.load(saved, weights_only=False)


# --- copies of a model


@pytest.mark.parametrize("copied", [copy.deepcopy, save_and_load])
@pytest.mark.parametrize("wrap", [True, False])
def test_a_copy_of_a_private_model_is_a_model_of_its_own(copied: Callable[[Any], Any], wrap: bool) -> None:
    """Averages of weights are kept in such copies; `torch.save(model)` used to fail."""
    parts = module_and_optimizer()
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    made = {"dataset": dataset(), "sampler": poisson(), "noise_multiplier": NOISE, "max_grad_norm": 1.0}
    private, optimizer, loader = engine.make_private(**parts, **made, wrap_model=wrap)
    module = private if wrap else parts["module"]
    train(module, optimizer, loader)
    again, points = copied(module), dataset().tensors[0]
    with torch.no_grad():
        assert torch.equal(again(points), module(points))
        next(again.parameters()).zero_()
        assert not torch.equal(again(points), module(points)), "it must not call what it was copied from"
    for batch, labels in loader:
        if copied is save_and_load:  # Opacus cannot train what was copied in memory
            again.train()(torch.zeros_like(batch))
        loss_of(module(batch), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert engine.steps.records == engine.steps.steps == 14


def test_a_model_that_is_made_private_twice_tells_the_engine_that_trains() -> None:
    module, optimizer = module_and_optimizer().values()
    given = {"dataset": dataset(), "noise_multiplier": NOISE, "max_grad_norm": 1.0}
    first, second = (TightropeEngine(relation=tr.ADD_OR_REMOVE) for _ in range(2))
    wrapped, _, _ = first.make_private(module=module, optimizer=optimizer, sampler=poisson(seed=1), **given)
    again, private, loader = second.make_private(
        module=wrapped, optimizer=optimizer, sampler=poisson(seed=2), **given
    )
    assert again is wrapped
    train(again, private, loader)
    assert (first.steps.steps, second.steps.records) == (0, 7)


# --- a compiler

# what torch says of hooks that it traces
compiled_quietly = pytest.mark.filterwarnings("ignore::UserWarning")


@compiled_quietly
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_compiled_model_is_seen(when: str) -> None:
    torch._dynamo.reset()
    parts = module_and_optimizer()
    given = {"dataset": dataset(), "sampler": poisson(), "noise_multiplier": NOISE, "max_grad_norm": 1.0}
    if when == "before":
        parts["module"] = torch.compile(parts["module"], backend="eager")
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    module, optimizer, loader = engine.make_private(**parts, **given)
    if when == "after":
        module = torch.compile(module, backend="eager")
    train(module, optimizer, loader)
    assert engine.steps.records == 7
    points, labels = next(iter(loader))
    loss_of(module(torch.zeros_like(points)), labels).backward()
    optimizer.step()
    assert engine.steps.sizes == 1


@compiled_quietly
@pytest.mark.parametrize("inside", [True, False])
def test_a_model_that_was_compiled_and_run_before_is_not_seen_from_inside(inside: bool) -> None:
    """The compiler keeps what it made before there were hooks."""
    torch._dynamo.reset()
    model, optimizer = module_and_optimizer().values()
    compiled = torch.compile(model, backend="eager")
    for size in (5, 6, 7):
        compiled(torch.zeros(size, 3))
    loader = drawn_by(poisson())
    watch = watch_training(loader=loader, model=model if inside else compiled, optimizer=optimizer)
    train(compiled, optimizer, loader)
    assert (watch.summary.unseen, watch.summary.records) == ((7, 0) if inside else (0, 7))


# --- schedulers and scalers


def test_a_scheduler_of_learning_rates_changes_nothing() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for points, labels in loader:
        optimizer.zero_grad()
        loss_of(module(points), labels).backward()
        optimizer.step()
        scheduler.step()
    assert engine.steps.records == 7
    assert optimizer.param_groups[0]["lr"] == 0.1 * 0.5**3


def scale_and_step(module: Any, optimizer: Any, loader: Any, **options: Any) -> None:
    scaler = torch.amp.GradScaler("cpu", **options)
    for points, labels in loader:
        optimizer.zero_grad()
        scaler.scale(loss_of(module(points), labels)).backward()
        scaler.step(optimizer)
        scaler.update()


def test_a_scaler_that_would_skip_steps_is_refused_by_the_engine() -> None:
    """Whether a step is skipped depends on gradients without noise, and was not accounted."""
    engine, module, optimizer, loader = engine_and_parts(poisson())
    with pytest.raises(InvalidSetting, match="scaler must be left out or be disabled"):
        scale_and_step(module, optimizer, loader)
    scale_and_step(module, optimizer, loader, enabled=False)
    assert engine.steps.records == engine.steps.steps == 7


@pytest.mark.parametrize("scale", [2.0, 1e38])
def test_steps_of_a_scaler_prove_nothing_by_name(scale: float) -> None:
    """With the larger scale gradients overflow, and the scaler skips steps until it is small enough."""
    engine = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(engine, shuffled())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1e3)
    with pytest.warns(SamplerMismatch, match="a GradScaler decides by the gradients themselves"):
        scale_and_step(module, optimizer, loader, init_scale=scale)
    with pytest.warns(SamplerMismatch):
        assert engine.accountant.get_epsilon(DELTA) == math.inf
    assert audit_training(engine.accountant, delta=DELTA).verdict is Verdict.UNKNOWN


# --- threads


def test_two_threads_that_each_iterate_over_the_loader_have_passes_of_their_own() -> None:
    """One was taken for a loader that had changed, while the other was beginning its pass."""
    engine, module, optimizer, loader = engine_and_parts(poisson(steps=3))
    batches: list[Any] = []
    for _ in range(20):
        together = threading.Barrier(2)

        def fetch(start: threading.Barrier = together) -> None:
            start.wait()
            batches.extend(loader)

        threads = [threading.Thread(target=fetch) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    train(module, optimizer, batches)
    assert engine.steps.records == len(batches) == 120


# --- seeds


def train_on(engine: Any, sampler: Any) -> None:
    given = {"dataset": dataset(), "noise_multiplier": NOISE, "max_grad_norm": 1.0}
    train(*engine.make_private(**module_and_optimizer(), sampler=sampler, **given))


@pytest.mark.parametrize("again", [poisson, lambda: poisson(rate=0.3), without_replacement])
def test_two_samplers_of_one_engine_need_two_seeds(again: Callable[[], Any]) -> None:
    """Two models on the same batches were accounted as if each had drawn its own."""
    engine, sampler = TightropeEngine(relation=tr.ADD_OR_REMOVE), poisson()
    train_on(engine, sampler)
    with pytest.raises(InvalidSetting, match="seed must be another one for each sampler"):
        train_on(engine, again())
    train_on(engine, sampler)  # which goes on with new batches
    train_on(engine, poisson(seed=6))
    train_on(engine, poisson(seed=None))
    train_on(engine, poisson(seed=None))
    assert engine.steps.records == 35


def test_two_samplers_of_one_accountant_need_two_seeds() -> None:
    engine = PrivacyEngine(accountant="tightrope-wor")
    train(*made_private(engine, drawn_by(without_replacement()), poisson_sampling=False))
    with pytest.raises(InvalidSetting, match="seed must be another one for each sampler"):
        made_private(engine, drawn_by(without_replacement()), poisson_sampling=False)
    train(*made_private(engine, drawn_by(without_replacement(seed=6)), poisson_sampling=False))
    assert engine.accountant.steps.records == 2 * RECORDS // 6


def test_two_loaders_of_one_accountant_that_draw_the_same_batches_are_noticed() -> None:
    """As they do where a seed of torch is set before each training."""
    engine = PrivacyEngine(accountant="tightrope")
    torch.manual_seed(3)
    parts = made_private(engine, shuffled())
    torch.manual_seed(3)
    train(*parts)
    parts = made_private(engine, shuffled())
    torch.manual_seed(3)
    with pytest.warns(SamplerMismatch, match="as if a seed had been set again"):
        train(*parts)
    with pytest.warns(SamplerMismatch):
        assert engine.accountant.get_epsilon(DELTA) == math.inf


def test_accountants_do_not_hear_of_each_other() -> None:
    """Each answers for its own training, and may be repeated from its seed."""
    for _ in range(2):
        engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
        train_on(engine, poisson())
        assert engine.steps.records == 7


def test_a_copy_of_an_accountant_holds_no_seed() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson(seed=987654321))
    train(module, optimizer, loader)
    assert (987654321).to_bytes(4, "little") not in pickle.dumps(engine.accountant.used_seeds)
