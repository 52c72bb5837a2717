"""Accelerate's prepare makes a loader of its own: checked in one process, refused in several."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("accelerate", reason="accelerate is not installed: make training")

from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.state import AcceleratorState, GradientState, PartialState
from torch import nn

import tightrope as tr
from opacus_training import GAUSSIAN, USUAL_WARNINGS, asked, engine_and_parts, poisson, shuffled
from tightrope.integrations.accelerate import prepare_private

pytestmark = USUAL_WARNINGS
loss_of = nn.CrossEntropyLoss()


@pytest.fixture(autouse=True)
def _forget_settings() -> None:
    for shared in (AcceleratorState, GradientState, PartialState):
        shared._reset_state()


def run(accelerator: Any, module: Any, optimizer: Any, loader: Any, *, steps: int = 1) -> None:
    for points, labels in loader:
        for _ in range(steps):
            optimizer.zero_grad()
            accelerator.backward(loss_of(module(points), labels))
            optimizer.step()


def prepare(accelerator: Any, **options: Any) -> tuple[Any, tuple[Any, Any, Any]]:
    engine, module, optimizer, loader = engine_and_parts(poisson(), **options)
    return engine, prepare_private(accelerator, module=module, optimizer=optimizer, loader=loader)


@pytest.mark.parametrize("workers", [0, 2])
def test_in_one_process_every_step_is_seen(workers: int) -> None:
    accelerator = Accelerator(cpu=True)
    engine, parts = prepare(accelerator, loader_options={"num_workers": workers})
    for _ in range(2):
        run(accelerator, *parts)
    assert engine.steps.is_proof
    assert engine.epsilon(1e-5) == asked(poisson().step(GAUSSIAN) * 14, tr.ADD_OR_REMOVE)


def test_a_loader_prepared_without_us_is_refused() -> None:
    accelerator = Accelerator(cpu=True)
    _, *parts = engine_and_parts(poisson())
    with pytest.raises(tr.InvalidSetting, match="no batch of the loader had been handed out"):
        run(accelerator, *accelerator.prepare(*parts))


def test_old_loaders_and_second_steps_are_refused() -> None:
    accelerator = Accelerator(cpu=True)
    _, (module, optimizer, loader) = prepare(accelerator)
    with pytest.raises(tr.InvalidSetting, match="was stepped on before"):
        run(accelerator, module, optimizer, loader, steps=2)
    with pytest.raises(tr.InvalidSetting, match="step must be taken on one fresh batch"):
        run(accelerator, module, optimizer, shuffled())


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"gradient_accumulation_steps": 2}, "gradient_accumulation_steps"),
        ({"mixed_precision": "bf16"}, "mixed_precision"),
        ({"dataloader_config": DataLoaderConfiguration(dispatch_batches=True)}, "DataLoaderDispatcher"),
    ],
)
def test_settings_that_change_what_is_run_are_refused(settings: Any, name: str) -> None:
    with pytest.raises(tr.InvalidSetting, match=name):
        prepare(Accelerator(cpu=True, **settings))


def test_several_processes_are_refused_with_the_way_out() -> None:
    two = SimpleNamespace(num_processes=2, gradient_accumulation_steps=1, mixed_precision="no")
    with pytest.raises(tr.InvalidSetting, match=r"num_processes must be 1, got 2.*share\(rank"):
        prepare(two)


def test_an_optimizer_that_is_not_private_is_refused() -> None:
    with pytest.raises(tr.InvalidSetting, match="be a private one"):
        prepare_private(Accelerator(cpu=True), module=None, optimizer=None, loader=None)
