"""Passes of several loaders in one engine: none that is broken off hides, and what is unused is said."""

import copy
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

import torch

import tightrope as tr
from opacus_training import (
    DELTA,
    GAUSSIAN,
    NOISE,
    RECORDS,
    USUAL_WARNINGS,
    dataset,
    engine_and_parts,
    module_and_optimizer,
    train,
)
from tightrope import InvalidSetting
from tightrope.answers.ledger import Ledger
from tightrope.audit import Verdict
from tightrope.audit.steps.checks import CheckedStep, StepVerdict
from tightrope.audit.steps.draws import Draw, LoaderPass
from tightrope.integrations.opacus import TightropeEngine, audit_training
from tightrope.integrations.opacus.ledger_accountant import LedgerAccountant
from tightrope.samplers import BallsInBinsSampler
from tightrope.setting.run import UNBROKEN

pytestmark = USUAL_WARNINGS
BINS = 4
STEP = tr.Step(GAUSSIAN, tr.BallsInBins(batches=BINS))


def bins(**options: Any) -> BallsInBinsSampler:
    return BallsInBinsSampler(**{"records": RECORDS, "batches": BINS, **options})


def attached(engine: TightropeEngine, sampler: BallsInBinsSampler, **options: Any) -> tuple[Any, Any, Any]:
    common = {"dataset": dataset(), "noise_multiplier": NOISE, "max_grad_norm": 1.0}
    made = engine.make_private(**module_and_optimizer(), sampler=sampler, **{**common, **options})
    module, optimizer, loader = made
    return module, optimizer, loader


def step_on(parts: tuple[Any, Any, Any], batch: Any = None) -> None:
    """One step on the next batch of the loader, or on this one."""
    module, optimizer, loader = parts
    points, labels = next(iter(loader)) if batch is None else batch
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(module(points), labels).backward()
    optimizer.step()


def begun_together(batches: int, loaders: int) -> TightropeEngine:
    """One step on each of the loaders, all of which were there before the first."""
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    for parts in [attached(engine, bins(batches=batches)) for _ in range(loaders)]:
        step_on(parts)
    return engine


@pytest.mark.parametrize(("batches", "loaders"), [(2, 2), (2, 5), (10, 10)])
def test_begun_passes_of_several_loaders_cost_what_their_poisson_batches_cost(
    batches: int, loaders: int
) -> None:
    """Two of two batches each were accounted as one pass: 3.70 where 4.85 was spent."""
    engine = begun_together(batches, loaders)
    truth = tr.epsilon(
        tr.Step(GAUSSIAN, tr.Poisson(rate=1 / batches)) * loaders, delta=DELTA, relation=tr.ADD_OR_REMOVE
    )
    found = engine.epsilon(DELTA)
    assert found.lower <= truth.lower
    assert truth.upper <= found.upper
    assert found.conditions == ()
    assert engine.ledger.steps == batches * (loaders - 1) + 1
    assert audit_training(engine, delta=DELTA).verdict is Verdict.MATCHES


def test_loaders_in_turns_cost_their_passes_and_not_more() -> None:
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    both = [attached(engine, bins()) for _ in range(2)]
    for turn in range(2 * BINS):
        for parts in both:
            step_on(parts)
        begun = turn % BINS != BINS - 1
        assert bool(engine.steps.unused) is begun
        assert (engine.epsilon(DELTA).lower == 0) is begun
    assert engine.ledger.run == STEP * (4 * BINS)
    assert engine.epsilon(DELTA) == tr.epsilon(STEP * (4 * BINS), delta=DELTA, relation=tr.ADD_OR_REMOVE)


def test_a_loader_that_goes_on_after_another_was_begun_pays_once() -> None:
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    first = attached(engine, bins())
    step_on(first)
    second = attached(engine, bins())
    assert engine.ledger.run == STEP * BINS
    for parts in (second, first, first, first):
        step_on(parts)
    assert engine.ledger.run == STEP * (BINS + 1)
    step_on(first)  # a pass of its own, while the other one is begun
    assert engine.ledger.run == STEP * (2 * BINS + 1)


def test_two_loaders_of_one_sampler_count_its_batches_once() -> None:
    """They were counted by each of the loaders."""
    engine, sampler = TightropeEngine(relation=tr.ADD_OR_REMOVE), bins()
    both = [attached(engine, sampler) for _ in range(2)]
    for _ in range(BINS):
        for parts in both:
            step_on(parts)
    assert engine.ledger.run == STEP * (2 * BINS) == sampler.run(GAUSSIAN)
    assert engine.epsilon(DELTA).lower > 0


def test_a_sampler_that_is_taken_again_goes_on_in_its_pass_with_its_noise() -> None:
    engine, sampler = TightropeEngine(relation=tr.ADD_OR_REMOVE), bins()
    step_on(attached(engine, sampler))
    step_on(attached(engine, sampler))
    assert engine.ledger.run == STEP * 2
    louder = attached(engine, sampler, noise_multiplier=2 * NOISE)
    with pytest.raises(InvalidSetting, match=r"noise_multiplier must stay 1\.1 until the pass of 4 batches"):
        step_on(louder)


# ---- whatever the order


class Hooks:
    """Samplers whose hooks are called as optimizers call them, on batches of loaders."""

    def __init__(self, samplers: int) -> None:
        self.accountant = LedgerAccountant(Ledger(relation=tr.ADD_OR_REMOVE))
        self.samplers = [bins(steps=10**6) for _ in range(samplers)]
        self.used = 0
        self._step: CheckedStep | None = None
        self._hooks = [self._attach(sampler) for sampler in self.samplers]

    def _attach(self, sampler: BallsInBinsSampler) -> Any:
        self.pass_of = LoaderPass()
        checks: Any = SimpleNamespace(judge=lambda: self._step)
        return self.pass_of, self.accountant.hook(sampler, checks, self.pass_of.numbers)

    def draw(self, which: int) -> Draw:
        return Draw(self._hooks[which][0], len(next(iter(self.samplers[which]))))

    def step(self, which: int) -> None:
        self._step = CheckedStep(StepVerdict.RECORDS_MATCH, (self.draw(which),))
        optimizer = SimpleNamespace(noise_multiplier=NOISE, accumulated_iterations=1)
        self._hooks[which][1](optimizer)
        self.used += 1

    def attach_again(self, which: int) -> None:
        self._hooks[which] = self._attach(self.samplers[which])


def passes_of(hooks: Hooks) -> Iterator[int]:
    """How many batches each pass of each sampler has handed out."""
    for sampler in hooks.samplers:
        whole, begun = divmod(sampler.drawn, BINS)
        yield from [BINS] * whole + [begun] * bool(begun)


@pytest.mark.parametrize("seed", range(8))
def test_in_any_order_each_begun_pass_but_one_counts_as_a_whole_one(seed: int) -> None:
    chance, hooks = random.Random(seed), Hooks(3)
    for _ in range(60):
        which, happens = chance.randrange(3), chance.random()
        if happens < 0.1:
            hooks.attach_again(which)
        elif happens < 0.2:
            hooks.draw(which)
            hooks.step(which)
        else:
            hooks.step(which)
        accounted = hooks.accountant.ledger.steps
        whole, begun = divmod(accounted, BINS)
        passes = sorted(passes_of(hooks))
        assert whole + bool(begun) >= len(passes)
        assert whole >= len(passes) or begun >= passes[0]
        assert accounted - hooks.accountant.passes.unused == hooks.used
    for which, sampler in enumerate(hooks.samplers):
        while sampler.drawn % BINS:
            hooks.step(which)
    assert hooks.accountant.ledger.steps == sum(sampler.drawn for sampler in hooks.samplers)


# ---- what was drawn and not used


def test_batches_that_were_not_used_take_the_lower_end_and_are_named() -> None:
    """18 batches were looked at and one was used: [2.81, 2.81], where that one costs 1.68."""
    engine, module, optimizer, loader = engine_and_parts(bins(batches=10))
    for _ in range(18):
        next(iter(loader))
    step_on((module, optimizer, loader))
    one = tr.Step(GAUSSIAN, tr.Poisson(rate=0.1)) * 1
    truth, found = tr.epsilon(one, delta=DELTA, relation=tr.ADD_OR_REMOVE), engine.epsilon(DELTA)
    assert found.lower <= truth.lower
    assert truth.upper <= found.upper
    assert "only bound those that were run" in str(found.gap)
    assert engine.steps.sentence == (
        "The only step was seen to use the records of one fresh batch of the loader. 19 batches are "
        "accounted, of which 18 were drawn and not used, or complete a pass that was broken off."
    )
    assert engine.steps.sentence in str(audit_training(engine, delta=DELTA))


def test_what_was_not_used_is_remembered_by_checkpoints(tmp_path: Path) -> None:
    engine, module, optimizer, loader = engine_and_parts(bins(seed=5))
    next(iter(loader))
    step_on((module, optimizer, loader))
    engine.save_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    resumed, module, optimizer, loader = engine_and_parts(bins(seed=5))
    resumed.load_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    assert resumed.steps == engine.steps
    assert resumed.steps.unused == 1
    step_on((module, optimizer, loader))
    assert resumed.ledger.run == STEP * 3
    assert resumed.epsilon(DELTA).lower == 0
    assert resumed.epsilon(DELTA).conditions == ()


# ---- checkpoints and copies


def state_after(steps: int, **options: Any) -> dict[str, Any]:
    engine, *parts = engine_and_parts(bins(**options))
    module, optimizer, loader = parts
    for _ in range(steps):
        step_on((module, optimizer, loader))
    state: dict[str, Any] = engine.accountant.state_dict()
    return state


def test_batches_of_a_sampler_that_does_not_go_on_where_the_state_was_written_count() -> None:
    """They were taken for those that the state had counted, and cost nothing."""
    engine, module, optimizer, loader = engine_and_parts(bins())
    engine.accountant.load_state_dict(state_after(3 * BINS + 2))
    assert train(module, optimizer, loader) == BINS
    assert engine.ledger.run == STEP * (5 * BINS)  # four passes, of which one was broken off, and this one


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_state_that_is_loaded_before_there_is_a_sampler_is_gone_on_with(goes_on: bool) -> None:
    """As Lightning loads it. The pass that was begun counted as a whole one, and once more."""
    engine, first = TightropeEngine(relation=tr.ADD_OR_REMOVE), bins(seed=5)
    kept, *parts = engine_and_parts(first)
    module, optimizer, loader = parts
    for _ in range(BINS + 1):
        step_on((module, optimizer, loader))
    engine.accountant.load_state_dict(kept.accountant.state_dict())
    engine.accountant.load_state_dict(engine.accountant.state_dict())  # which is not lost meanwhile
    sampler = bins(seed=5 if goes_on else 6)
    if goes_on:
        sampler.load_state_dict(first.state_dict())
    made = attached(engine, sampler)
    step_on(made)
    assert engine.ledger.run == STEP * (BINS + 2 if goes_on else 2 * BINS + 1)
    assert engine.epsilon(DELTA).conditions == ()


def test_a_refused_checkpoint_leaves_the_count_of_passes_as_it_was(tmp_path: Path) -> None:
    """The count of the refused one stayed, and the next steps cost nothing."""
    other, module, optimizer, loader = engine_and_parts(bins(seed=6))
    for _ in range(3):
        train(module, optimizer, loader)
    other.save_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    engine, module, optimizer, loader = engine_and_parts(bins(seed=5))
    step_on((module, optimizer, loader))
    with pytest.raises(InvalidSetting, match="seed in the state"):
        engine.load_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    step_on((module, optimizer, loader))
    assert engine.ledger.run == STEP * 2
    assert (engine.steps.records, engine.steps.unused) == (2, 0)


def test_a_batch_that_was_drawn_before_a_state_was_loaded_is_refused(tmp_path: Path) -> None:
    engine, module, optimizer, loader = engine_and_parts(bins(seed=5))
    step_on((module, optimizer, loader))
    engine.save_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    resumed, module, optimizer, loader = engine_and_parts(bins(seed=5))
    earlier = next(iter(loader))
    resumed.load_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    with pytest.raises(InvalidSetting, match="drawn before the state was loaded"):
        step_on((module, optimizer, loader), earlier)
    step_on((module, optimizer, loader))
    assert resumed.ledger.run == STEP * 2


@pytest.mark.parametrize("load", [False, True])
def test_passes_that_were_recorded_by_hand_keep_their_condition(load: bool) -> None:
    engine, module, optimizer, loader = engine_and_parts(bins())
    step_on((module, optimizer, loader))
    assert engine.epsilon(DELTA).conditions == ()
    engine.ledger.record(STEP * (BINS - 1))
    if load:
        state = engine.accountant.state_dict()
        engine.accountant.load_state_dict(state)
    assert engine.epsilon(DELTA).conditions == (UNBROKEN,)
    assert f"recorded by hand: epsilon holds if {UNBROKEN}" in str(audit_training(engine, delta=DELTA))
    step_on((module, optimizer, loader))
    assert engine.ledger.steps >= BINS + 2  # two batches of this pass, and those of another one or of several


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_an_engine_counts_its_own_passes(copied: Any) -> None:
    engine, module, optimizer, loader = engine_and_parts(bins())
    step_on((module, optimizer, loader))
    other = copied(engine)
    step_on(attached(other, bins(), dataset=other.dataset))
    step_on((module, optimizer, loader))
    assert other.ledger.run == STEP * (BINS + 1)
    assert engine.ledger.run == STEP * 2
