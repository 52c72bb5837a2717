"""A Lightning Trainer with the callback: what it trains on is what the sampler drew, or it is refused."""

import csv
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning", reason="lightning is not installed: make training")

import lightning.pytorch as lightning
import torch
from lightning.pytorch.callbacks import Callback, GradientAccumulationScheduler, LearningRateFinder
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, Subset

import tightrope as tr
from opacus_training import (
    BATCH,
    DELTA,
    GAUSSIAN,
    NOISE,
    USUAL_WARNINGS,
    asked,
    dataset,
    drawn_by,
    poisson,
    shuffled,
    without_replacement,
)
from tightrope.audit.claims.verdict import Verdict
from tightrope.integrations.lightning import PrivateTraining
from tightrope.integrations.opacus import TightropeEngine

pytestmark = [
    *USUAL_WARNINGS,
    # what Lightning says of small trainings and of its own use of torch
    pytest.mark.filterwarnings("ignore::lightning.fabric.utilities.warnings.PossibleUserWarning"),
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:DeprecationWarning"),
]
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Model(lightning.LightningModule):  # type: ignore[misc]
    """Calls a part of itself, as most do."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.loss_of = nn.CrossEntropyLoss()
        self.seen: list[Any] = []

    def training_step(self, batch: Any, _: int) -> Any:
        points, labels = batch
        self.seen.append(points.clone())
        return self.loss_of(self.network(points), labels)

    def validation_step(self, batch: Any, _: int) -> None:
        self.network(batch[0])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def callback(**options: Any) -> PrivateTraining:
    usual = {"sampler": poisson(), "noise_multiplier": NOISE, "max_grad_norm": 1.0}
    return PrivateTraining(**{**usual, "relation": tr.ADD_OR_REMOVE, "delta": DELTA, **options})


def trainer_of(*callbacks: Any, **options: Any) -> Any:
    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    usual = {"accelerator": "cpu", "max_epochs": 2, **dict.fromkeys(quiet, False)}
    return lightning.Trainer(callbacks=list(callbacks), **{**usual, **options})


def fit(private: PrivateTraining, model: Any = None, *others: Any, **options: Any) -> Any:
    trainer = trainer_of(private, *others, **options)
    trainer.fit(Model() if model is None else model, shuffled())
    return trainer


def test_the_records_of_the_sampler_are_trained_on_and_accounted(tmp_path: Path) -> None:
    private, model = callback(log_every=5), Model()
    trainer = fit(private, model, logger=CSVLogger(tmp_path))
    again = poisson()
    for number, points in enumerate(model.seen):
        assert torch.equal(points, dataset().tensors[0][again.batch_at(number)])
    spent, cost = private.spent, asked(poisson().step(GAUSSIAN) * 14, tr.ADD_OR_REMOVE)
    assert (spent.steps, spent.verdict, spent.epsilon) == (14, Verdict.MATCHES, cost)
    audit = private.audit()
    assert (audit.verdict, audit.proved) == (Verdict.MATCHES, cost)
    assert trainer.callback_metrics["epsilon_upper"] == pytest.approx(cost.upper)
    (file,) = tmp_path.rglob("metrics.csv")
    lines = csv.DictReader(file.read_text().splitlines())
    rows = [row for row in lines if row["privacy/private_steps"]]
    assert [float(row["privacy/private_steps"]) for row in rows] == [5, 10, 14]
    assert float(rows[-1]["privacy/epsilon_upper"]) == cost.upper
    assert not hasattr(model, "autograd_grad_sample_hooks"), "the model is given back as it was"
    assert not hasattr(model.network[0].weight, "grad_sample")


@pytest.mark.parametrize(
    ("options", "others", "name"),
    [
        ({"accumulate_grad_batches": 2}, (), "accumulate_grad_batches"),
        ({"gradient_clip_val": 1.0}, (), "gradient_clip_val"),
        ({"overfit_batches": 2}, (), "overfit_batches"),
        ({"precision": "bf16-mixed"}, (), "precision"),
        ({"precision": "64-true"}, (), "precision"),
        ({"devices": 2, "strategy": "ddp"}, (), "strategy"),
        ({}, (GradientAccumulationScheduler(scheduling={1: 2}),), "GradientAccumulationScheduler"),
        ({}, (LearningRateFinder(),), "LearningRateFinder"),
    ],
)
def test_settings_that_change_what_is_run_are_refused(options: Any, others: Any, name: str) -> None:
    private = callback()
    trainer = trainer_of(private, *others, **options)
    with pytest.raises(tr.InvalidSetting, match=name):
        private.setup(trainer, Model(), "fit")
    if "devices" not in options:  # which would start processes
        with pytest.raises(tr.InvalidSetting, match=name):
            trainer.fit(Model(), shuffled())
    assert private.spent.steps == 0


def test_two_processes_are_refused_in_both_before_a_step(tmp_path: Path) -> None:
    script = Path(__file__).with_name("two_devices.py")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert ran.returncode != 0
    assert ran.stderr.count("strategy must train in one process on one device, got a DDPStrategy with 2") >= 2
    assert "trained" not in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_passes_that_are_broken_off_cost_what_was_run() -> None:
    private = callback()
    fit(private, limit_train_batches=3)
    assert private.spent.epsilon == asked(poisson().step(GAUSSIAN) * 6, tr.ADD_OR_REMOVE)
    assert private.spent.verdict is Verdict.MATCHES


def test_validation_on_batches_of_the_sampler_is_no_training() -> None:
    sampler = poisson()
    private = callback(sampler=sampler)
    trainer_of(private, max_epochs=1).fit(Model(), shuffled(), val_dataloaders=drawn_by(sampler))
    assert (private.spent.steps, private.spent.verdict) == (7, Verdict.MATCHES)
    assert sampler.drawn > 7


class TwoSteps(Model):
    def optimizer_step(self, epoch: int, index: int, optimizer: Any, closure: Any = None) -> None:
        optimizer.step(closure=closure)
        optimizer.step(closure=closure)


class ByHand(Model):
    """Steps by hand: the automatic way is off."""

    def __init__(self, times: int = 1) -> None:
        super().__init__()
        self.automatic_optimization, self.times = False, times

    def training_step(self, batch: Any, _: int) -> None:
        for _ in range(self.times):
            self.optimizers().zero_grad()
            self.manual_backward(super().training_step(batch, 0))
            self.optimizers().step()


class InnerOptimizer(ByHand):
    """Keeps the optimizer that adds no noise."""

    def configure_optimizers(self) -> Any:
        self.plain = super().configure_optimizers()
        return self.plain

    def training_step(self, batch: Any, _: int) -> None:
        self.manual_backward(Model.training_step(self, batch, 0))
        self.plain.step()


class SecondOptimizer(InnerOptimizer):
    def configure_optimizers(self) -> Any:
        self.plain = torch.optim.Adam(self.parameters())
        return Model.configure_optimizers(self)


def test_steps_by_hand_are_checked_like_others() -> None:
    private = callback()
    fit(private, ByHand())
    assert (private.spent.steps, private.spent.verdict) == (14, Verdict.MATCHES)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (TwoSteps, "draw 0 of the loader was stepped on before"),
        (lambda: ByHand(times=2), "draw 0 of the loader was stepped on before"),
        (InnerOptimizer, "without clipping and noise"),
        (SecondOptimizer, "another Adam over the same parameters"),
    ],
)
def test_steps_that_are_not_accounted_are_refused(model: Any, why: str) -> None:
    private, made = callback(), model()
    with pytest.raises(tr.InvalidSetting, match=why):
        fit(private, made)
    assert private.spent.steps <= 1
    assert not hasattr(made, "autograd_grad_sample_hooks")


class OldLoader(Model):
    """Ignores its batch, and trains on as many records of the shuffled loader."""

    def on_train_start(self) -> None:
        self.old = iter(shuffled())

    def training_step(self, batch: Any, _: int) -> Any:
        return super().training_step(next(self.old), 0)


class ChangedBatch(Model):
    """Changes batches on their way, where nobody sees it."""

    def on_after_batch_transfer(self, batch: Any, _: int) -> Any:
        return 2 * batch[0], batch[1]


@pytest.mark.parametrize("model", [OldLoader, ChangedBatch])
def test_records_from_elsewhere_are_never_a_match(model: Any) -> None:
    private = callback(sampler=without_replacement())
    fit(private, model(), max_epochs=1)
    assert (private.spent.verdict, private.spent.epsilon.upper) == (Verdict.UNKNOWN, float("inf"))
    assert private.audit().verdict is Verdict.UNKNOWN
    assert "which records the gradients came from was not seen" in private.audit().sentence
    assert private.spent.metrics()["matches"] == 0


class LoaderBack(Callback):  # type: ignore[misc]
    """Puts the shuffled loader back after ours was installed."""

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        trainer.fit_loop._data_source.instance = shuffled()


class OptimizerBack(Callback):  # type: ignore[misc]
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        trainer.optimizers = [trainer.optimizers[0].original_optimizer]


@pytest.mark.parametrize(
    ("back", "name"), [(LoaderBack(), "train_dataloader"), (OptimizerBack(), "optimizers")]
)
def test_what_was_installed_is_what_is_trained_with(back: Any, name: str) -> None:
    with pytest.raises(tr.InvalidSetting, match=name):
        fit(callback(), None, back)


def test_a_number_that_cannot_be_certified_does_not_end_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def epsilon(*_: Any) -> None:
        raise tr.NotPreciseEnough("too many steps")

    monkeypatch.setattr(TightropeEngine, "epsilon", epsilon)
    trainer = fit(callback(), max_epochs=1)
    assert trainer.callback_metrics["epsilon_upper"] == float("inf")
    assert trainer.callback_metrics["matches"] == 0


def test_two_loaders_are_refused() -> None:
    with pytest.raises(tr.InvalidSetting, match="train_dataloaders must be one loader"):
        trainer_of(callback()).fit(Model(), [shuffled(), shuffled()])


def test_a_dataset_of_another_size_is_refused() -> None:
    with pytest.raises(tr.InvalidSetting, match="hold the records=60 of its sampler"):
        trainer_of(callback()).fit(Model(), shuffled(records=50, batch=BATCH))


def test_a_dataset_that_repeats_records_is_refused() -> None:
    repeated = Subset(dataset(), [0, *range(59)])
    with pytest.raises(tr.InvalidSetting, match="dataset must hold each record once"):
        trainer_of(callback()).fit(Model(), DataLoader(repeated, batch_size=BATCH))


def test_two_fits_add_up() -> None:
    private, model = callback(), Model()
    trainer = fit(private, model, max_epochs=1)
    trainer.fit_loop.max_epochs = 2
    trainer.fit(model, shuffled())
    fit(private, model, max_epochs=1)
    assert private.spent.epsilon == asked(poisson().step(GAUSSIAN) * 21, tr.ADD_OR_REMOVE)
    assert private.spent.verdict is Verdict.MATCHES


def test_a_checkpoint_goes_on_with_fresh_batches_and_what_was_spent(tmp_path: Path) -> None:
    first = fit(callback(), max_epochs=1)
    first.save_checkpoint(tmp_path / "private.ckpt")
    private, model = callback(), Model()
    trainer_of(private).fit(model, shuffled(), ckpt_path=tmp_path / "private.ckpt", weights_only=True)
    assert private.spent.epsilon == asked(poisson().step(GAUSSIAN) * 14, tr.ADD_OR_REMOVE)
    assert private.spent.verdict is Verdict.MATCHES
    assert torch.equal(model.seen[0], dataset().tensors[0][poisson().batch_at(7)])


def test_a_checkpoint_without_a_record_of_its_steps_is_refused(tmp_path: Path) -> None:
    trainer = trainer_of(max_epochs=1)
    trainer.fit(Model(), shuffled())
    trainer.save_checkpoint(tmp_path / "plain.ckpt")
    with pytest.raises(tr.InvalidSetting, match="10 steps without a record"):
        trainer_of(callback()).fit(Model(), shuffled(), ckpt_path=tmp_path / "plain.ckpt", weights_only=True)
