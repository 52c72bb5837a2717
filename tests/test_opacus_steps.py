"""With Opacus every step is checked against a draw: what was found to slip through, and the rules."""

import math
import queue
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

import torch
from opacus import PrivacyEngine
from opacus.accountants import create_accountant
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader

import tightrope as tr
from opacus_training import (
    BATCH,
    DELTA,
    GAUSSIAN,
    NOISE,
    RECORDS,
    USUAL_WARNINGS,
    asked,
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
from tightrope.audit.steps.summary import StepsSummary
from tightrope.integrations.opacus import SamplerMismatch, TightropeEngine, audit_training
from tightrope.integrations.training import watch_training

pytestmark = USUAL_WARNINGS

loss_of = nn.CrossEntropyLoss()
quietly = pytest.mark.filterwarnings("ignore::tightrope.integrations.opacus.SamplerMismatch")


def learn(module: Any, optimizer: Any, points: Any, labels: Any) -> None:
    """One step on this batch."""
    optimizer.zero_grad()
    loss_of(module(points), labels).backward()
    optimizer.step()


def steps_of(trained: Any) -> Any:
    """What was seen of the steps of an engine."""
    return (trained.accountant if type(trained) is PrivacyEngine else trained).steps


def is_proved(trained: Any) -> bool:
    """Whether the audit of an engine or an accountant ends in MATCHES."""
    audited = trained.accountant if type(trained) is PrivacyEngine else trained
    return audit_training(audited, delta=DELTA).verdict is Verdict.MATCHES


# --- what was found: each of these was accounted as if nothing were wrong


@quietly
def test_the_loader_of_before_is_not_the_one_that_is_accounted() -> None:
    """Lightning has no place for the loader that make_private returns; plain loops keep the old name."""
    engine = PrivacyEngine(accountant="tightrope")
    before = shuffled()
    module, optimizer, _ = made_private(engine, before)
    train(module, optimizer, before)
    assert engine.get_epsilon(DELTA) == math.inf
    assert engine.accountant.get_delta(1.0) == 1.0
    audit = audit_training(engine.accountant, delta=DELTA)
    assert audit.verdict is Verdict.UNKNOWN
    assert audit.finding.how.value == "declared"
    assert "10 of 10 steps were not taken on one fresh batch of the loader" in audit.sentence


@quietly
@pytest.mark.parametrize("name", ["tightrope", "tightrope-substitute"])
def test_three_steps_on_each_batch_are_not_three_draws(name: str) -> None:
    engine = PrivacyEngine(accountant=name)
    module, optimizer, loader = made_private(engine, shuffled())
    for points, labels in loader:
        for _ in range(3):
            learn(module, optimizer, points, labels)
    assert engine.get_epsilon(DELTA) == math.inf
    assert not is_proved(engine)
    assert steps_of(engine).unmatched == 20


def test_a_validation_pass_over_the_loader_gives_no_slack() -> None:
    engine, module, optimizer, loader = engine_and_parts(without_replacement())
    module.eval()
    with torch.no_grad():
        for points, _ in loader:
            module(points)
    module.train()
    with pytest.raises(InvalidSetting, match="no batch of the loader had been handed out"):
        train(module, optimizer, shuffled())
    assert engine.ledger.steps == 0
    optimizer.zero_grad()
    assert train(module, optimizer, loader) == engine.ledger.steps == 10
    assert is_proved(engine)


def test_the_engine_takes_one_step_for_each_batch() -> None:
    engine, module, optimizer, loader = engine_and_parts(without_replacement())
    list(loader)
    batches = iter(loader)
    for _ in range(3):
        points, labels = next(batches)
        learn(module, optimizer, points, labels)
        with pytest.raises(InvalidSetting, match="was stepped on before"):
            learn(module, optimizer, points, labels)
    assert engine.ledger.steps == 3


def test_workers_that_fetch_ahead_give_no_slack() -> None:
    options = {"num_workers": 2, "prefetch_factor": 4}
    engine, module, optimizer, loader = engine_and_parts(without_replacement(), loader_options=options)
    points, labels = next(iter(loader))
    learn(module, optimizer, points, labels)
    with pytest.raises(InvalidSetting, match="was stepped on before"):
        learn(module, optimizer, points, labels)
    optimizer.zero_grad()
    assert train(module, optimizer, loader) == 10
    assert engine.ledger.steps == 11
    assert is_proved(engine)


@quietly
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_first_batch_of_64_passes_is_64_visits_and_not_7(shuffle: bool) -> None:
    engine = PrivacyEngine(accountant="tightrope-substitute")
    loader = DataLoader(dataset(), batch_size=BATCH, shuffle=shuffle)
    module, optimizer, loader = made_private(engine, loader, poisson_sampling=False, noise_multiplier=4.0)
    for _ in range(64):
        learn(module, optimizer, *next(iter(loader)))
    # passes that are broken off count as whole ones, of which a shuffle hides something
    noise, cut = tr.Gaussian(noise_multiplier=4.0), tr.Shuffled.cut(records=RECORDS, batch=BATCH)
    every_time = (
        tr.Step(noise, cut) * (64 * cut.batches) if shuffle else tr.Step(noise, tr.EveryRecord()) * 64
    )
    assert engine.get_epsilon(DELTA) >= asked(every_time, tr.SUBSTITUTE).upper
    with pytest.raises(tr.NoTheorem):
        audit_training(engine.accountant, delta=DELTA)


# --- the rules


@pytest.mark.parametrize("make", [poisson, without_replacement])
@pytest.mark.parametrize(
    "workers", [{}, {"num_workers": 2, "prefetch_factor": 3, "persistent_workers": True}]
)
def test_plain_passes_match(make: Callable[[], Any], workers: dict[str, Any]) -> None:
    engine, module, optimizer, loader = engine_and_parts(make(), loader_options=workers)
    steps = 0
    for _ in range(2):
        steps += train(module, optimizer, loader)
        for points, _ in loader:  # a validation pass in training mode, without gradients
            with torch.no_grad():
                module(points)
    assert (steps_of(engine).records, steps_of(engine).steps) == (steps, steps)
    assert is_proved(engine)


def test_poisson_batches_of_opacus_match_by_name_and_are_stated_so() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    private = made_private(engine, shuffled())
    for _ in range(2):
        train(*private)
    audit = audit_training(engine.accountant, delta=DELTA)
    assert (audit.verdict, audit.finding.how.value) == (Verdict.MATCHES, "inspected")
    assert "Each of the 20 steps was seen to use the records of one fresh batch" in audit.finding.notes[-1]


@pytest.mark.parametrize("workers", [0, 2])
def test_parts_of_a_memory_manager_make_one_draw_together(workers: int) -> None:
    options = {"num_workers": workers}
    engine, module, optimizer, loader = engine_and_parts(poisson(rate=0.2), loader_options=options)
    for _ in range(2):
        with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as parts:
            train(module, optimizer, parts)
    assert (engine.ledger.steps, steps_of(engine).records) == (14, 14)
    assert is_proved(engine)


def test_a_pass_in_parts_that_is_broken_off_is_noticed() -> None:
    engine, module, optimizer, loader = engine_and_parts(without_replacement())
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as parts:
        learn(module, optimizer, *next(iter(parts)))  # the first of two parts: no step yet
        assert engine.ledger.steps == 0
        batches = iter(parts)
        learn(module, optimizer, *next(batches))
        with pytest.raises(InvalidSetting, match="it holds 9 gradients where the loader drew 12 records"):
            learn(module, optimizer, *next(batches))
    assert engine.ledger.steps == 0


def test_accumulated_draws_are_counted_and_match() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson(steps=8))
    module.allow_grad_accumulation()
    train(module, optimizer, loader, accumulate=4)
    assert (engine.ledger.steps, steps_of(engine).records) == (8, 2)


def test_draws_that_are_accumulated_by_skipped_steps_are_counted_as_draws() -> None:
    """Opacus takes this for one draw: its own count restarts with each skipped step."""
    engine = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(engine, shuffled())
    for place, (points, labels) in enumerate(loader):
        optimizer.signal_skip_step(do_skip=place % 2 == 0)
        learn(module, optimizer, points, labels)
    ((noise, _, steps),) = engine.accountant.history
    assert (noise, steps) == (pytest.approx(NOISE / math.sqrt(2)), 10)
    assert (steps_of(engine).records, steps_of(engine).steps) == (5, 5)


def test_gradients_that_are_cleared_without_a_step_do_not_count() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    for place, (points, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss_of(module(points), labels).backward()
        if place % 2:
            optimizer.step()
    assert (engine.ledger.steps, steps_of(engine).records) == (3, 3)


def test_gradients_cleared_through_the_module_do_not_count_either() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    for points, labels in loader:
        loss_of(module(points), labels).backward()
        module.zero_grad()
        loss_of(module(points), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert steps_of(engine).records == 7


def test_empty_batches_match() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson(rate=0.002, steps=20))
    train(module, optimizer, loader)
    assert steps_of(engine).records == 20
    named = PrivacyEngine(accountant="tightrope")
    private = made_private(named, shuffled(records=4, batch=1))
    for _ in range(5):
        train(*private)
    assert steps_of(named).records == 20


def test_part_of_a_batch_is_refused_and_so_is_more() -> None:
    engine, module, optimizer, loader = engine_and_parts(without_replacement())
    batches = iter(loader)
    points, labels = next(batches)
    with pytest.raises(InvalidSetting, match="it holds 4 gradients where the loader drew 6 records"):
        learn(module, optimizer, points[:4], labels[:4])
    with pytest.raises(InvalidSetting, match="it holds 12 gradients where the loader drew 6 records"):
        learn(module, optimizer, torch.cat([points, points]), torch.cat([labels, labels]))
    learn(module, optimizer, points, labels)
    assert engine.ledger.steps == 1


def test_a_record_that_is_collated_twice_is_two_gradients_too_many() -> None:
    def collate_twice(records: list[Any]) -> Any:
        return torch.utils.data.default_collate(records + records)

    options = {"collate_fn": collate_twice}
    _, module, optimizer, loader = engine_and_parts(without_replacement(), loader_options=options)
    with pytest.raises(InvalidSetting, match="it holds 12 gradients where the loader drew 6 records"):
        train(module, optimizer, loader)


@pytest.mark.parametrize(
    "change",
    [
        lambda points: points.clone(),
        lambda points: points.double().float(),
        lambda points: points.view(-1, 3),
        lambda points: points.detach().requires_grad_(),
    ],
)
def test_records_are_known_again_when_they_are_copied_or_viewed(change: Callable[[Any], Any]) -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    for points, labels in loader:
        learn(module, optimizer, change(points), labels)
    assert steps_of(engine).records == 7


def test_records_that_are_changed_on_the_way_leave_sizes_only() -> None:
    changes: list[Callable[[Any], Any]] = [lambda x: x + 1, lambda x: x.mul_(2), lambda x: x.flip(0)]
    for change in changes:
        engine, module, optimizer, loader = engine_and_parts(poisson(rate=0.3))
        for points, labels in loader:
            learn(module, optimizer, change(points), labels)
        assert steps_of(engine).sizes >= 6, "a batch of one record is its own flip"
        audit = audit_training(engine, delta=DELTA)
        assert audit.verdict is Verdict.UNKNOWN
        assert "which records the gradients came from was not seen" in audit.sentence


def test_other_records_of_the_same_number_are_not_taken_for_the_batch() -> None:
    """Sizes of fixed batches agree whatever is trained on: they prove nothing."""
    engine, module, optimizer, loader = engine_and_parts(without_replacement())
    for _, (points, labels) in zip(loader, shuffled(), strict=True):
        learn(module, optimizer, points, labels)
    assert (steps_of(engine).records, steps_of(engine).sizes) == (0, 10)
    assert not is_proved(engine)


def test_two_loaders_in_one_loop_each_have_their_own_draws() -> None:
    first, module, optimizer, loader = engine_and_parts(without_replacement())
    second, other_module, other_optimizer, other_loader = engine_and_parts(without_replacement(seed=6))
    for mine, yours in zip(loader, other_loader, strict=True):
        learn(module, optimizer, *mine)
        learn(other_module, other_optimizer, *yours)
    assert steps_of(first).records == steps_of(second).records == 10
    with pytest.raises(InvalidSetting, match="no batch of the loader had been handed out"):
        learn(module, optimizer, *next(iter(other_loader)))


def test_two_models_of_one_loader_do_not_share_a_draw() -> None:
    """Both releases are about the same records: two independent draws would be accounted."""
    engine = PrivacyEngine(accountant="tightrope-wor")
    loader = drawn_by(without_replacement())
    first = made_private(engine, loader, poisson_sampling=False)
    second = made_private(engine, loader, poisson_sampling=False)
    points, labels = next(iter(loader))
    learn(*first[:2], points, labels)
    with pytest.warns(SamplerMismatch, match="was stepped on before"):
        learn(*second[:2], points, labels)


def read_ahead(loader: Any, most: int = 4) -> Iterator[Any]:
    """Batches that another thread fetches."""
    waiting: queue.Queue[Any] = queue.Queue(maxsize=most)

    def fetch() -> None:
        for batch in loader:
            waiting.put(batch)
        waiting.put(None)

    thread = threading.Thread(target=fetch)
    thread.start()
    yield from iter(waiting.get, None)
    thread.join()


def test_batches_that_another_thread_fetches_match() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson(steps=12))
    assert train(module, optimizer, read_ahead(loader)) == 12
    assert steps_of(engine).records == 12


def test_a_loop_that_reads_one_batch_ahead_and_copies_matches() -> None:
    """As Accelerate and Lightning do, which move batches to a device."""

    def one_ahead(loader: Any) -> Iterator[Any]:
        batches = iter(loader)
        batch = next(batches)
        for following in batches:
            yield [part.clone() for part in batch]
            batch = following
        yield [part.clone() for part in batch]

    engine, module, optimizer, loader = engine_and_parts(poisson(rate=0.3))
    train(module, optimizer, one_ahead(loader))
    assert steps_of(engine).records == 7


def test_batches_out_of_order_are_refused_by_our_loader_and_unknown_by_name() -> None:
    with pytest.raises(InvalidSetting, match="in_order must be left out"):
        engine_and_parts(poisson(), loader_options={"in_order": False})
    engine = PrivacyEngine(accountant="tightrope-wor")
    loader = DataLoader(
        dataset(), batch_sampler=drawn_by(without_replacement()).batch_sampler, in_order=False
    )
    private = made_private(engine, loader, poisson_sampling=False)
    train(*private)
    assert (
        engine.get_epsilon(DELTA)
        == asked(without_replacement(drawn=10).run(GAUSSIAN), tr.ADD_OR_REMOVE).upper
    )
    audit = audit_training(engine.accountant, delta=DELTA)
    assert audit.verdict is Verdict.UNKNOWN
    assert "with in_order=False batches do not come in the order" in audit.sentence


def test_every_step_is_in_the_history_whenever_someone_reads_it() -> None:
    """Usual steps are recorded together; nobody may see the difference."""
    engine = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(engine, shuffled())
    accountant = engine.accountant
    kept = accountant.history
    for number, batch in enumerate(loader, 1):
        optimizer.noise_multiplier = NOISE if number < 8 else 2 * NOISE
        learn(module, optimizer, *batch)
        if number % 3 == 0:
            assert len(accountant) == sum(steps for *_, steps in kept) == number
    assert [(noise, steps) for noise, _, steps in accountant.history] == [(NOISE, 7), (2 * NOISE, 3)]
    kept.clear()
    for batch in loader:
        learn(module, optimizer, *batch)
    assert accountant.history is kept
    assert [(noise, steps) for noise, _, steps in kept] == [(2 * NOISE, 10)]
    assert (accountant.steps.records, accountant.steps.unseen) == (20, 10)


def test_a_history_given_by_hand_is_answered_and_not_proved() -> None:
    accountant = create_accountant("tightrope")
    for _ in range(3):
        accountant.step(noise_multiplier=NOISE, sample_rate=0.25)
    assert accountant.get_epsilon(DELTA) == asked(accountant.run, tr.ADD_OR_REMOVE).upper
    assert (
        accountant.steps.sentence
        == "What 3 of 3 steps were taken on was not seen: they were recorded by hand."
    )
    assert not is_proved(accountant)

    engine = PrivacyEngine(accountant="tightrope")
    train(*made_private(engine, shuffled()))
    assert is_proved(engine)
    engine.accountant.history = [(NOISE, rate, 2 * steps) for _, rate, steps in engine.accountant.history]
    assert (steps_of(engine).records, steps_of(engine).unseen) == (10, 10)
    assert not is_proved(engine)


@pytest.mark.parametrize("name", ["tightrope", None])
def test_ghost_clipping_counts_norms(name: str | None) -> None:
    options = {"grad_sample_mode": "ghost"}
    common = {"noise_multiplier": NOISE, "max_grad_norm": 1.0, **module_and_optimizer(), **options}
    if name is None:
        engine: Any = tr_engine()
        made = engine.make_private(dataset=dataset(), sampler=poisson(steps=10, rate=0.2), **common)
    else:
        engine = PrivacyEngine(accountant=name)
        made = engine.make_private(data_loader=shuffled(), **common)
    module, optimizer, criterion, loader = made
    for points, labels in loader:
        optimizer.zero_grad()
        criterion(module(points), labels).backward()
        optimizer.step()
    assert steps_of(engine).records == 10
    assert is_proved(engine)


def tr_engine() -> Any:
    return TightropeEngine(relation=tr.ADD_OR_REMOVE)


@pytest.mark.parametrize(("scale", "seen"), [(1.0, (7, 0)), (2.0, (0, 7))])
def test_parts_that_are_called_by_themselves_are_seen_on_a_batch_and_on_nothing_else(
    scale: float, seen: tuple[int, int]
) -> None:
    class Parts(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, points: Any) -> Any:
            return self.second(self.first(points))

    module = Parts()
    parts = {"module": module, "optimizer": torch.optim.SGD(module.parameters(), lr=0.1)}
    engine = tr_engine()
    common = {"dataset": dataset(), "sampler": poisson(), "noise_multiplier": NOISE, "max_grad_norm": 1.0}
    _, optimizer, loader = engine.make_private(**parts, **common)
    for points, labels in loader:
        optimizer.zero_grad()
        inputs = points if scale == 1 else scale * points
        loss_of(module.second(module.first(inputs)), labels).backward()
        optimizer.step()
    assert (steps_of(engine).records, steps_of(engine).sizes) == seen


def test_a_model_that_is_not_wrapped_is_seen() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    parts = module_and_optimizer()
    _, optimizer, loader = engine.make_private(
        **parts, data_loader=shuffled(), noise_multiplier=NOISE, max_grad_norm=1.0, wrap_model=False
    )
    train(parts["module"], optimizer, loader)
    assert steps_of(engine).records == 10


def test_a_part_that_is_called_besides_the_model_is_noticed() -> None:
    """Its gradients are summed into those of the batch, record by record: their number stays the same."""
    other = torch.randn(RECORDS, 3)
    for is_first in (True, False):
        module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
        parts = {"module": module, "optimizer": torch.optim.SGD(module.parameters(), lr=0.1)}
        engine = tr_engine()
        common = {"dataset": dataset(), "sampler": without_replacement(), "noise_multiplier": NOISE}
        private, optimizer, loader = engine.make_private(**parts, **common, max_grad_norm=1.0)
        for points, labels in loader:
            optimizer.zero_grad()
            hidden = module[1](other[:BATCH]).sum() if is_first else 0
            loss = loss_of(private(points), labels)
            (loss + (hidden if is_first else module[1](other[:BATCH]).sum())).backward()
            optimizer.step()
        assert (steps_of(engine).records, steps_of(engine).sizes) == (0, 10)


def test_a_forward_pass_that_is_repeated_to_save_memory_is_not_another_one() -> None:
    class Saving(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, points: Any) -> Any:
            return self.second(torch.utils.checkpoint.checkpoint(self.first, points, use_reentrant=False))

    module = Saving()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    loader = drawn_by(poisson())
    watch = watch_training(loader=loader, model=module, optimizer=optimizer)
    for points, labels in loader:
        learn(module, optimizer, points, labels)
    assert watch.summary == StepsSummary(records=7, epochs=1)


@quietly
def test_a_step_of_the_optimizer_inside_is_a_step_without_noise() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    points, labels = next(iter(loader))
    loss_of(module(points), labels).backward()
    with pytest.raises(InvalidSetting, match="was stepped by itself, without clipping and noise"):
        optimizer.original_optimizer.step()
    assert engine.ledger.steps == 0

    named = PrivacyEngine(accountant="tightrope")
    parts = module_and_optimizer()
    module, optimizer, loader = named.make_private(
        **parts, data_loader=shuffled(), noise_multiplier=NOISE, max_grad_norm=1.0
    )
    train(module, optimizer, loader)
    assert math.isfinite(named.get_epsilon(DELTA))
    points, labels = next(iter(loader))
    loss_of(module(points), labels).backward()
    parts["optimizer"].step()
    assert named.get_epsilon(DELTA) == math.inf
    assert steps_of(named).unmatched == 1


def test_what_is_made_private_anew_is_watched_anew() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    parts = module_and_optimizer()
    for _ in range(2):
        module, optimizer, loader = engine.make_private(
            **parts, data_loader=shuffled(), noise_multiplier=NOISE, max_grad_norm=1.0
        )
        train(module, optimizer, loader)
        parts = {"module": module, "optimizer": optimizer}
    assert (steps_of(engine).records, steps_of(engine).steps) == (20, 20)


# --- restarts


def test_a_checkpoint_keeps_what_was_seen(tmp_path: Path) -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    train(module, optimizer, loader)
    engine.save_checkpoint(path=tmp_path / "saved", module=module, optimizer=optimizer)
    later, module, optimizer, loader = engine_and_parts(poisson())
    later.load_checkpoint(path=tmp_path / "saved", module=module, optimizer=optimizer)
    train(module, optimizer, loader)
    assert steps_of(later).records == 14
    assert is_proved(later)


@quietly
def test_an_unmatched_step_survives_a_checkpoint() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    before = shuffled()
    module, optimizer, _ = made_private(engine, before)
    train(module, optimizer, before)
    restored = PrivacyEngine(accountant="tightrope")
    private = made_private(restored, shuffled())
    restored.accountant.load_state_dict(engine.accountant.state_dict())
    train(*private)
    assert restored.get_epsilon(DELTA) == math.inf
    assert not is_proved(restored)
    assert (steps_of(restored).unmatched, steps_of(restored).records) == (10, 10)


def test_checkpoints_from_before_steps_were_checked_are_read_and_prove_nothing() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    private = made_private(engine, shuffled())
    train(*private)
    state = engine.accountant.state_dict()
    del state["tightrope"]["steps"]
    state["tightrope"]["version"] = 1
    restored = create_accountant("tightrope")
    restored.load_state_dict(state)
    assert restored.get_epsilon(DELTA) == engine.get_epsilon(DELTA)
    assert "the checkpoint does not say" in restored.steps.sentence
    assert not is_proved(restored)


# --- what is said


def test_the_first_unmatched_step_is_said_in_a_box_at_once_and_only_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = PrivacyEngine(accountant="tightrope")
    before = shuffled()
    module, optimizer, _ = made_private(engine, before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batches = iter(before)
        learn(module, optimizer, *next(batches))
        told = capsys.readouterr().err
        assert "SAMPLER MISMATCH" in told
        assert "no batch of the loader had been handed out for it" in told.replace("\n", " ")
        assert "iterate over the loader that make_private returned" in told.replace("\n", " ")
        for batch in batches:
            learn(module, optimizer, *batch)
        assert capsys.readouterr().err == ""
        engine.get_epsilon(DELTA)
        assert "What is proved: epsilon is infinite" in capsys.readouterr().err
    with pytest.raises(InvalidSetting, match="to become a ledger"):
        engine.accountant.ledger()


def test_what_was_not_seen_is_said_once_with_the_first_answer(capsys: pytest.CaptureFixture[str]) -> None:
    engine = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(engine, shuffled())
    ours, other_module, other_optimizer, other_loader = engine_and_parts(poisson())
    for points, labels in loader:
        learn(module, optimizer, points + 1, labels)
    for points, labels in other_loader:
        learn(other_module, other_optimizer, points + 1, labels)
    for trained in (engine, ours):
        assert math.isfinite(trained.get_epsilon(DELTA))
        told = capsys.readouterr().err
        assert "which records the gradients came from was not seen" in told
        assert "an audit of the training says UNKNOWN" in told
        trained.get_epsilon(DELTA)
        assert capsys.readouterr().err == ""


def test_a_refused_step_changes_nothing() -> None:
    engine, module, optimizer, _ = engine_and_parts(poisson())
    before = [parameter.detach().clone() for parameter in module.parameters()]
    generator = torch.random.get_rng_state()
    points, labels = next(iter(drawn_by(without_replacement())))
    state = torch.random.get_rng_state()
    loss_of(module(points), labels).backward()
    with pytest.raises(InvalidSetting, match="step must be taken on one fresh batch of the loader"):
        optimizer.step()
    assert all(torch.equal(old, new) for old, new in zip(before, module.parameters(), strict=True))
    assert torch.equal(state, torch.random.get_rng_state()), "no noise was drawn"
    assert generator is not None
    assert engine.ledger.steps == 0


@quietly
def test_passes_that_nobody_counted_are_as_many_as_there_are_steps() -> None:
    """A condition that nobody checks is not part of a number that is returned."""
    engine = PrivacyEngine(accountant="tightrope-substitute")
    loader = DataLoader(dataset(), batch_size=BATCH, shuffle=True, in_order=False)
    private = made_private(engine, loader, poisson_sampling=False)
    train(*private)
    ten = tr.Step(GAUSSIAN, tr.EveryRecord()) * 10
    assert engine.get_epsilon(DELTA) >= asked(ten, tr.SUBSTITUTE).upper
