"""The engine with samplers whose records choose a batch of each pass: batches drawn are what is accounted."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

import torch
from opacus.utils.batch_memory_manager import BatchMemoryManager

import tightrope as tr
from opacus_training import (
    DELTA,
    GAUSSIAN,
    NOISE,
    RECORDS,
    USUAL_WARNINGS,
    drawn_by,
    engine_and_parts,
    module_and_optimizer,
    train,
    trained,
)
from tightrope import InvalidSetting
from tightrope.audit import Verdict, audit
from tightrope.integrations.opacus import audit_training
from tightrope.integrations.training import watch_training
from tightrope.samplers import BallsInBinsSampler

pytestmark = USUAL_WARNINGS
BINS = 8
STEP = tr.Step(GAUSSIAN, tr.BallsInBins(batches=BINS))


def bins(**options: Any) -> BallsInBinsSampler:
    return BallsInBinsSampler(**{"records": RECORDS, "batches": BINS, "seed": 5, **options})


def train_on(module: Any, optimizer: Any, loader: Any, batches: int) -> None:
    """Steps on the first batches of a pass over the loader, which is then left."""
    for points, labels in loader:
        torch.nn.functional.cross_entropy(module(points), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
        batches -= 1
        if not batches:
            return


def test_whole_passes_are_recorded_and_match() -> None:
    sampler = bins()
    engine, module, optimizer, loader = engine_and_parts(sampler)
    assert optimizer.expected_batch_size == RECORDS / BINS
    for epochs in (1, 2):
        assert train(module, optimizer, loader) == BINS
        assert engine.ledger.run == sampler.run(GAUSSIAN) == STEP * (BINS * epochs)
    assert engine.epsilon(DELTA) == tr.epsilon(STEP * 16, delta=DELTA, relation=tr.ADD_OR_REMOVE)
    assert engine.ledger.conditions  # which the engine sees to
    assert engine.epsilon(DELTA).conditions == ()
    assert audit_training(engine, delta=DELTA).verdict is Verdict.MATCHES


def test_pieces_of_a_batch_are_one_step() -> None:
    engine, module, optimizer, loader = engine_and_parts(bins())
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=2, optimizer=optimizer) as pieces:
        assert train(module, optimizer, pieces) > BINS
    assert engine.ledger.run == STEP * BINS


def test_batches_that_are_skipped_count_as_used() -> None:
    engine, module, optimizer, loader = engine_and_parts(bins())
    for _ in range(3):
        next(iter(loader))  # looked at, and left
    train_on(module, optimizer, loader, 1)
    assert engine.ledger.run == STEP * 4
    list(loader)  # a validation: the rest of this pass, and half of the next
    train_on(module, optimizer, loader, 1)
    assert engine.ledger.run == STEP * 13


def test_a_pass_that_an_earlier_sampler_broke_off_counts_as_a_whole_one() -> None:
    engine, module, optimizer, loader = engine_and_parts(bins())
    train_on(module, optimizer, loader, 3)
    assert engine.ledger.run == STEP * 3
    module, optimizer, loader = engine.make_private(
        **module_and_optimizer(),
        dataset=loader.dataset,
        sampler=bins(seed=6),
        noise_multiplier=NOISE,
        max_grad_norm=1.0,
    )
    train_on(module, optimizer, loader, 2)
    assert engine.ledger.run == STEP * (BINS + 2)


def test_what_was_drawn_of_the_first_pass_before_counts() -> None:
    sampler = bins(drawn=11)
    engine, module, optimizer, loader = engine_and_parts(sampler)
    train_on(module, optimizer, loader, 1)
    assert engine.ledger.run == STEP * 4  # three of its pass were drawn before


def test_the_noise_may_change_where_a_pass_begins_and_nowhere_else() -> None:
    engine, module, optimizer, loader = engine_and_parts(bins())
    train(module, optimizer, loader)
    optimizer.noise_multiplier = 2 * NOISE
    train_on(module, optimizer, loader, 2)
    louder = tr.Step(tr.Gaussian(noise_multiplier=2 * NOISE), STEP.sampling)
    assert engine.ledger.run == STEP * BINS + louder * 2
    optimizer.noise_multiplier = NOISE
    before = [parameter.clone() for parameter in module.parameters()]
    with pytest.raises(InvalidSetting, match=r"noise_multiplier must stay 2\.2 until the pass of 8 batches"):
        train_on(module, optimizer, loader, 1)
    assert all(map(torch.equal, before, module.parameters()))
    assert engine.ledger.run == STEP * BINS + louder * 2


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_that_workers_fetched_ahead_keep_the_noise_of_their_pass(workers: int) -> None:
    sampler, louder = bins(), 2 * NOISE
    engine, module, optimizer, loader = engine_and_parts(sampler, loader_options={"num_workers": workers})
    handed = iter(loader)
    for _ in range(5):
        points, labels = next(handed)
        torch.nn.functional.cross_entropy(module(points), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert sampler.drawn == (BINS if workers else 5)  # the whole pass, of which three batches are to come
    optimizer.noise_multiplier = NOISE / 4
    with pytest.raises(InvalidSetting, match=r"noise_multiplier must stay 1\.1 until the pass of 8 batches"):
        train_on(module, optimizer, handed, 1)
    optimizer.zero_grad()
    optimizer.noise_multiplier = NOISE
    train(module, optimizer, handed)
    optimizer.noise_multiplier = louder
    train(module, optimizer, loader)
    louder_step = tr.Step(tr.Gaussian(noise_multiplier=louder), STEP.sampling)
    assert engine.ledger.run == STEP * BINS + louder_step * BINS


def test_after_a_checkpoint_the_noise_may_change_where_a_pass_begins(tmp_path: Path) -> None:
    engine, module, optimizer, loader = engine_and_parts(bins())
    train(module, optimizer, loader)
    engine.save_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    resumed, module, optimizer, loader = engine_and_parts(bins())
    resumed.load_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    expected = STEP * BINS
    for noise in (2 * NOISE, 3 * NOISE):
        optimizer.noise_multiplier = noise
        train(module, optimizer, loader)
        expected += tr.Step(tr.Gaussian(noise_multiplier=noise), STEP.sampling) * BINS
    assert resumed.ledger.run == expected


def test_noise_is_chosen_beside_a_broken_pass_as_a_whole_one_and_with_what_was_drawn_before() -> None:
    engine, module, optimizer, loader = engine_and_parts(bins())
    train_on(module, optimizer, loader, 3)
    sampler = bins(seed=6, drawn=8 + 3, steps=5)
    module, optimizer, loader = engine.make_private_with_epsilon(
        **module_and_optimizer(),
        dataset=loader.dataset,
        sampler=sampler,
        target_epsilon=6.0,
        target_delta=DELTA,
        steps=5,
        max_grad_norm=1.0,
    )
    train(module, optimizer, loader)
    chosen = tr.Gaussian(noise_multiplier=optimizer.noise_multiplier)
    assert engine.ledger.run == STEP * BINS + tr.Step(chosen, STEP.sampling) * BINS
    assert engine.epsilon(DELTA).upper <= 6
    assert not engine.exceeded


def test_draws_do_not_share_their_noise() -> None:
    engine, module, optimizer, loader = engine_and_parts(bins())
    module.allow_grad_accumulation()
    with pytest.raises(InvalidSetting, match="draws must be 1 in a step on BallsInBins"):
        train(module, optimizer, loader, accumulate=2)
    assert not engine.ledger.run


@pytest.mark.parametrize(("seed", "counted"), [(5, 6), (None, BINS + 3)])
def test_a_resumed_run_goes_on_in_its_pass_or_counts_the_broken_one_as_a_whole(
    tmp_path: Path, seed: int | None, counted: int
) -> None:
    engine, module, optimizer, loader = engine_and_parts(bins(seed=seed))
    train_on(module, optimizer, loader, 3)
    engine.save_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    resumed, module, optimizer, loader = engine_and_parts(bins(seed=seed))
    resumed.load_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    assert resumed.ledger.run == STEP * 3
    train_on(module, optimizer, loader, 3)
    assert resumed.ledger.run == STEP * counted


def test_a_resumed_pass_keeps_its_noise(tmp_path: Path) -> None:
    engine, module, optimizer, loader = engine_and_parts(bins())
    train_on(module, optimizer, loader, 3)
    engine.save_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    resumed, module, optimizer, loader = engine_and_parts(bins(), noise_multiplier=2 * NOISE)
    resumed.load_checkpoint(path=tmp_path / "kept.pt", module=module, optimizer=optimizer)
    optimizer.noise_multiplier = 2 * NOISE
    with pytest.raises(InvalidSetting, match="until the pass of 8 batches ends"):
        train_on(module, optimizer, loader, 1)


# where steps are counted and not batches


def test_an_accountant_by_name_counts_steps_and_so_proves_nothing_of_passes() -> None:
    with pytest.warns(UserWarning, match="TightropeEngine takes the sampler"):
        accountant = trained("tightrope", drawn_by(bins()), poisson_sampling=False)
    with pytest.warns(UserWarning, match="What is proved: epsilon is infinite"):
        spent = accountant.get_epsilon(DELTA)
    assert spent == float("inf")


@pytest.mark.parametrize(("looked_at", "verdict"), [(0, Verdict.MATCHES), (1, Verdict.UNKNOWN)])
def test_a_plain_loop_matches_if_every_batch_that_was_drawn_was_used(
    looked_at: int, verdict: Verdict
) -> None:
    loader, parts = drawn_by(bins()), module_and_optimizer()
    watch = watch_training(loader=loader, **{"model": parts["module"], "optimizer": parts["optimizer"]})
    for _ in range(looked_at):
        next(iter(loader))
    train(parts["module"], parts["optimizer"], loader)
    found = audit(watch.finding, STEP * BINS, delta=DELTA, relation=tr.ADD_OR_REMOVE)
    assert found.verdict is verdict
