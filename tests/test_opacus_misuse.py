"""Loops that looked like private training and were none: each of these was called a match."""

import copy
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
    USUAL_WARNINGS,
    dataset,
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


# --- copies, threads and other optimizers

both_ways = pytest.mark.parametrize("by_name", [False, True])


def any_engine(by_name: bool) -> tuple[Any, Any, Any, Any]:
    """An engine of ours, or one of Opacus with our accountant; module, optimizer and loader."""
    if not by_name:
        return engine_and_parts(without_replacement())
    engine = PrivacyEngine(accountant="tightrope")
    return (engine, *made_private(engine, shuffled()))


def verdict_on(engine: Any) -> Verdict:
    trained = engine.accountant if type(engine) is PrivacyEngine else engine
    return audit_training(trained, delta=DELTA).verdict


def count(engine: Any) -> int:
    return len(engine.accountant)


@both_ways
@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps])
def test_a_private_optimizer_is_not_copied(duplicate: Callable[[Any], Any], by_name: bool) -> None:
    """Opacus' copy has no optimizer inside, and torch broke the step of every other private optimizer."""
    engine, module, optimizer, loader = any_engine(by_name)
    with pytest.raises(InvalidSetting, match="optimizer must not be copied or pickled"):
        duplicate((module, optimizer))
    train(module, optimizer, loader)
    assert (count(engine), verdict_on(engine)) == (10, Verdict.MATCHES)


@both_ways
def test_a_copy_of_an_engine_keeps_what_was_recorded_and_gets_no_steps_of_the_other(by_name: bool) -> None:
    engine, module, optimizer, loader = any_engine(by_name)
    train(module, optimizer, loader)
    copies = [copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))]
    train(module, optimizer, loader)
    assert (count(engine), verdict_on(engine)) == (20, Verdict.MATCHES)
    for one in copies:
        assert (count(one), verdict_on(one)) == (10, Verdict.MATCHES)


def test_engines_that_share_a_sampler_get_batches_of_their_own() -> None:
    sampler = without_replacement()
    engines = [engine_and_parts(sampler) for _ in range(2)]
    used = []
    for engine, module, optimizer, loader in engines:
        used += [tuple(map(tuple, points.tolist())) for points, _ in loader]
        train(module, optimizer, loader)
        assert (count(engine), verdict_on(engine)) == (10, Verdict.MATCHES)
    assert len(set(used)) == len(used) == 20
    assert sampler.drawn == 40


def test_a_copy_of_a_sampler_does_not_draw_its_batches_again_for_the_same_engine() -> None:
    sampler = without_replacement()
    engine, *_ = engine_and_parts(sampler)
    for again in (copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler)), without_replacement()):
        with pytest.raises(InvalidSetting, match="seed must be another one for each sampler"):
            engine.make_private(
                **module_and_optimizer(),
                dataset=dataset(),
                sampler=again,
                noise_multiplier=NOISE,
                max_grad_norm=1.0,
            )


@both_ways
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.filterwarnings("ignore::tightrope.integrations.opacus.SamplerMismatch")
def test_another_optimizer_over_the_same_parameters_is_noticed(by_name: bool, after: bool) -> None:
    """Between a backward pass and the private step it trains on plain gradients."""
    engine, module, optimizer, loader = any_engine(by_name)
    other = torch.optim.SGD(module.parameters(), lr=0.1)
    points, labels = next(iter(loader))
    loss_of(module(points), labels).backward()
    if after:
        optimizer.step()
    if by_name:
        other.step()
        assert engine.accountant.get_epsilon(DELTA) == math.inf
        assert verdict_on(engine) is Verdict.UNKNOWN
    else:
        before = [one.detach().clone() for one in module.parameters()]
        with pytest.raises(InvalidSetting, match="another SGD over the same parameters"):
            other.step()
        assert all(map(torch.equal, before, module.parameters()))


def test_another_optimizer_over_parameters_that_the_private_one_leaves_out_is_noticed() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    private, _, loader = engine.make_private(
        module=module,
        optimizer=torch.optim.SGD(module[1].parameters(), lr=0.1),
        dataset=dataset(),
        sampler=poisson(),
        noise_multiplier=NOISE,
        max_grad_norm=1.0,
    )
    points, labels = next(iter(loader))
    loss_of(private(points), labels).backward()
    with pytest.raises(InvalidSetting, match="another Adam over the same parameters"):
        torch.optim.Adam(module[0].parameters()).step()


def test_an_optimizer_around_the_private_one_and_one_of_another_model_are_left_alone() -> None:
    class Around(torch.optim.Optimizer):  # type: ignore[misc]
        def __init__(self, inner: Any) -> None:
            super().__init__(inner.param_groups, {})
            self.inner = inner

        def step(self, closure: Any = None) -> Any:
            return self.inner.step(closure)

        def zero_grad(self, set_to_none: bool = True) -> None:
            self.inner.zero_grad(set_to_none)

    engine, module, optimizer, loader = any_engine(by_name=False)
    elsewhere = nn.Linear(3, 2)
    other = torch.optim.SGD([*elsewhere.parameters(), *copy.deepcopy(module).parameters()], lr=0.1)
    for points, labels in loader:
        learn(module, Around(optimizer), points, labels)
        loss_of(elsewhere(points), labels).backward()
        other.step()
    assert (count(engine), verdict_on(engine)) == (10, Verdict.MATCHES)


@both_ways
def test_a_step_with_a_closure_is_one_step_and_a_second_one_is_noticed(by_name: bool) -> None:
    engine, module, optimizer, loader = any_engine(by_name)

    for points, labels in loader:

        def compute(points: Any = points, labels: Any = labels) -> Any:
            optimizer.zero_grad()
            loss = loss_of(module(points), labels)
            loss.backward()
            return loss

        optimizer.step(compute)
    assert (count(engine), verdict_on(engine)) == (10, Verdict.MATCHES)
    if by_name:
        with pytest.warns(SamplerMismatch, match="was stepped on before"):
            optimizer.step(compute)
    else:
        with pytest.raises(InvalidSetting, match="was stepped on before"):
            optimizer.step(compute)


@both_ways
def test_gradients_that_are_not_cleared_are_never_a_match(by_name: bool) -> None:
    """Opacus refuses them by itself; our checks must not count the step before it does."""
    engine, module, optimizer, loader = any_engine(by_name)
    batches = iter(loader)
    learn(module, optimizer, *next(batches))
    points, labels = next(batches)
    with pytest.raises((ValueError, InvalidSetting)):  # noqa: PT012  # where it is refused is up to Opacus
        loss_of(module(points), labels).backward()
        optimizer.step()
    assert (count(engine), verdict_on(engine)) == (1, Verdict.MATCHES)


@both_ways
def test_passes_that_are_interleaved_and_begun_anew_are_each_fresh(by_name: bool) -> None:
    engine, module, optimizer, loader = any_engine(by_name)
    first, second = iter(loader), iter(loader)
    for batches in (first, second, first, second):
        learn(module, optimizer, *next(batches))
    rest = list(first)
    for batch in rest:
        learn(module, optimizer, *batch)
    learn(module, optimizer, *next(second))
    assert (count(engine), verdict_on(engine)) == (5 + len(rest), Verdict.MATCHES)


@both_ways
@pytest.mark.parametrize("where", ["around", "inside"])
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin:UserWarning")
def test_compiled_models_are_seen_on_a_batch_and_on_nothing_else(by_name: bool, where: str) -> None:
    torch.compiler.reset()  # what other tests compiled is not part of the question
    if where == "around":
        engine, module, optimizer, loader = any_engine(by_name)
        module = torch.compile(module, backend="eager")
    else:
        engine = (
            PrivacyEngine(accountant="tightrope") if by_name else TightropeEngine(relation=tr.ADD_OR_REMOVE)
        )
        parts = module_and_optimizer()
        parts["module"] = torch.compile(parts["module"], backend="eager")
        source = {"data_loader": shuffled()} if by_name else {"dataset": dataset(), "sampler": poisson()}
        module, optimizer, loader = engine.make_private(
            **parts, **source, noise_multiplier=NOISE, max_grad_norm=1.0
        )
    steps = train(module, optimizer, loader)
    assert (count(engine), verdict_on(engine)) == (steps, Verdict.MATCHES)
    train(module, optimizer, [(points + 1, labels) for points, labels in [next(iter(loader))]])
    assert (count(engine), verdict_on(engine)) == (steps + 1, Verdict.UNKNOWN)


def test_a_forward_pass_in_another_thread_meanwhile_is_not_taken_for_the_batch() -> None:
    """The step was matched with the batch in the other thread, whose size is the same."""
    entered, go_on = threading.Event(), threading.Event()

    class Waiting(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, points: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                entered.set()
                go_on.wait()
            return self.linear(points)

    inner = Waiting()
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    module, optimizer, loader = engine.make_private(
        module=inner,
        optimizer=torch.optim.SGD(inner.parameters(), lr=0.1),
        dataset=dataset(),
        sampler=without_replacement(),
        noise_multiplier=NOISE,
        max_grad_norm=1.0,
    )
    batches = iter(loader)
    (other, _), (points, labels) = next(batches), next(batches)
    thread = threading.Thread(target=lambda: module(other))
    thread.start()
    entered.wait()
    try:
        try:
            learn(module, optimizer, points, labels)
        except InvalidSetting:
            return
        assert verdict_on(engine) is Verdict.UNKNOWN
    finally:
        go_on.set()
        thread.join()


@both_ways
def test_models_that_are_trained_in_threads_of_their_own_lose_no_step(by_name: bool) -> None:
    engine: Any
    if by_name:
        engine = PrivacyEngine(accountant="tightrope")
        parts = [made_private(engine, shuffled(batch=1)) for _ in range(2)]
    else:
        engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
        common = {"dataset": dataset(), "noise_multiplier": NOISE, "max_grad_norm": 1.0}
        parts = [
            engine.make_private(**module_and_optimizer(), **common, sampler=poisson(seed=seed, steps=60))
            for seed in (1, 2)
        ]
    threads = [threading.Thread(target=train, args=made) for made in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (count(engine), verdict_on(engine)) == (120, Verdict.MATCHES)
