"""Hugging Face's Trainer: private with our sampler, and audited with its own loader."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: make training")

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import tightrope as tr
from opacus_training import (
    BATCH,
    DELTA,
    GAUSSIAN,
    NOISE,
    RECORDS,
    USUAL_WARNINGS,
    asked,
    poisson,
    without_replacement,
)
from tightrope.audit.claims.verdict import Verdict
from tightrope.integrations.huggingface import STATE_FILE, PrivateTrainer, TrainingAudit
from tightrope.samplers.torch import data_loader

pytestmark = USUAL_WARNINGS


class Texts(Dataset):  # type: ignore[misc]
    """Made-up tokens; `spread` gives records different numbers of labels."""

    def __init__(self, *, labels: Any = None) -> None:
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(0, 30, (RECORDS, 5), generator=generator)
        self.labels = torch.randint(0, 2, (RECORDS,), generator=generator) if labels is None else labels

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.tokens[index], "labels": self.labels[index]}


class Model(nn.Module):  # type: ignore[misc]
    """Small, and with a loss for one label for each record, or for several."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
        self.seen: list[Any] = []

    def forward(self, input_ids: Any, labels: Any) -> dict[str, Any]:
        self.seen.append(input_ids.clone())
        logits = self.network(input_ids.float())
        if labels.ndim > 1:
            logits = logits.unsqueeze(1).expand(-1, labels.shape[1], -1)
        loss = nn.functional.cross_entropy(logits.reshape(-1, 2), labels.reshape(-1))
        return {"loss": loss, "logits": logits}


def arguments(folder: Path, **options: Any) -> TrainingArguments:
    usual = {"report_to": [], "use_cpu": True, "save_strategy": "no", "disable_tqdm": True}
    epochs = {"num_train_epochs": 2, "per_device_train_batch_size": BATCH, "learning_rate": 0.1}
    return TrainingArguments(output_dir=str(folder), **{**usual, **epochs, **options})


def trainer_of(folder: Path, *, kind: Any = PrivateTrainer, **options: Any) -> Any:
    private = {"sampler": poisson(), "noise_multiplier": NOISE, "relation": tr.ADD_OR_REMOVE, "delta": DELTA}
    names = (*private, "model", "train_dataset", "callbacks", "log_every")
    given = {name: options.pop(name) for name in names if name in options}
    usual = {"model": Model(), "train_dataset": Texts(), **private}
    return kind(args=arguments(folder, **options), **{**usual, **given})


def plain_trainer(folder: Path, *callbacks: Any, kind: Any = Trainer, **options: Any) -> Any:
    args = arguments(folder, **options)
    return kind(model=Model(), args=args, train_dataset=Texts(), callbacks=list(callbacks))


def test_a_transformer_trains_on_what_the_sampler_draws(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    bert = BertForSequenceClassification(BertConfig(vocab_size=30, max_position_embeddings=8, **sizes))
    for parameter in bert.bert.embeddings.parameters():
        parameter.requires_grad = False  # positions are shared by all records: they have no gradient of each
    trainer = trainer_of(tmp_path, model=bert, logging_steps=3, num_train_epochs=1)
    trainer.train()
    assert (trainer.spent.steps, trainer.spent.verdict) == (7, Verdict.MATCHES)
    assert any("loss" in row for row in trainer.state.log_history)
    assert not any("grad_norm" in row for row in trainer.state.log_history), "it has no noise"


def test_the_records_of_the_sampler_are_trained_on_and_accounted(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, log_every=5)
    trainer.train()
    again, cost = poisson(), asked(poisson().step(GAUSSIAN) * 14, tr.ADD_OR_REMOVE)
    for number, tokens in enumerate(trainer.model.seen):
        assert torch.equal(tokens, Texts().tokens[again.batch_at(number)])
    assert (trainer.spent.verdict, trainer.spent.epsilon) == (Verdict.MATCHES, cost)
    assert (trainer.audit().verdict, trainer.audit().proved) == (Verdict.MATCHES, cost)
    logged = [row for row in trainer.state.log_history if "privacy/epsilon_upper" in row]
    assert [row["privacy/private_steps"] for row in logged] == [5, 10, 14]
    assert logged[-1]["privacy/epsilon_upper"] == cost.upper
    assert not hasattr(trainer.model, "autograd_grad_sample_hooks")
    trainer.train()
    assert trainer.spent.epsilon == asked(poisson().step(GAUSSIAN) * 28, tr.ADD_OR_REMOVE), "both trainings"
    assert trainer.spent.verdict is Verdict.MATCHES


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gradient_accumulation_steps", 2),
        ("max_grad_norm", 0.0),
        ("bf16", True),
        ("auto_find_batch_size", True),
        ("torch_compile", True),
    ],
)
def test_arguments_that_change_what_is_run_are_refused(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match=name):
        trainer_of(tmp_path, **{name: value})
    trainer = trainer_of(tmp_path)
    setattr(trainer.args, name, value)
    with pytest.raises(tr.InvalidSetting, match=name):
        trainer.train()
    assert trainer.spent.steps == 0


def test_a_share_of_batches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tr.InvalidSetting, match="not one rank's share"):
        trainer_of(tmp_path, sampler=poisson().share(rank=0, ranks=2))


def test_a_loss_that_lets_records_change_each_others_weight_is_refused(tmp_path: Path) -> None:
    labels = torch.ones(RECORDS, 3, dtype=torch.long)
    trainer = trainer_of(tmp_path, train_dataset=Texts(labels=labels), num_train_epochs=1)
    trainer.train()
    assert trainer.spent.verdict is Verdict.MATCHES, "as many labels for each record"
    labels[::2, 1:] = -100
    with pytest.raises(tr.InvalidSetting, match="labels must be as many for each record"):
        trainer_of(tmp_path, train_dataset=Texts(labels=labels)).train()


class StepsAgain(TrainerCallback):  # type: ignore[misc]
    def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        parts["optimizer"].step()


class StepsInside(TrainerCallback):  # type: ignore[misc]
    """Steps with an optimizer that adds no noise, before the private one does."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        torch.optim.SGD(parts["model"].parameters(), lr=0.1).step()


@pytest.mark.parametrize(
    ("callback", "why"), [(StepsAgain, "step must be taken"), (StepsInside, "another SGD over the same")]
)
def test_steps_that_are_not_accounted_are_refused(tmp_path: Path, callback: Any, why: str) -> None:
    trainer = trainer_of(tmp_path, callbacks=[callback()])
    with pytest.raises(tr.InvalidSetting, match=why):
        trainer.train()


class LoaderBack(PrivateTrainer):
    """Makes all private, and trains with the loader of the trainer."""

    def get_train_dataloader(self) -> Any:
        super().get_train_dataloader()
        return Trainer.get_train_dataloader(self)


class SecretLoader(PrivateTrainer):
    """Trains on as many records of another loader."""

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        other = next(iter(Trainer.get_train_dataloader(self)))
        return super().training_step(model, other, num_items_in_batch)


def test_another_loader_is_refused_or_not_a_match(tmp_path: Path) -> None:
    with pytest.raises(tr.InvalidSetting, match="train_dataloader must be the one"):
        trainer_of(tmp_path, kind=LoaderBack).train()
    trainer = trainer_of(tmp_path, kind=SecretLoader, sampler=without_replacement())
    trainer.train()
    assert (trainer.spent.verdict, trainer.spent.epsilon.upper) == (Verdict.UNKNOWN, float("inf"))


def test_a_checkpoint_goes_on_with_fresh_batches_and_what_was_spent(tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 5}
    trainer_of(tmp_path, **saving).train()
    trainer = trainer_of(tmp_path, **saving)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert (trainer.spent.steps, trainer.spent.verdict) == (14, Verdict.MATCHES)
    assert torch.equal(trainer.model.seen[0], Texts().tokens[poisson().batch_at(5)])
    (tmp_path / "checkpoint-10" / STATE_FILE).unlink()
    with pytest.raises(tr.InvalidSetting, match=r"tightrope.json is missing in the checkpoint"):
        trainer_of(tmp_path, **saving).train(resume_from_checkpoint=str(tmp_path / "checkpoint-10"))


POISSON_STEP = tr.Step(GAUSSIAN, tr.Poisson(rate=BATCH / RECORDS))


def auditor(step: tr.Step = POISSON_STEP) -> TrainingAudit:
    return TrainingAudit(step=step, delta=DELTA, relation=tr.ADD_OR_REMOVE)


def test_the_callback_says_what_the_trainer_really_ran(tmp_path: Path) -> None:
    callback = auditor()
    plain_trainer(tmp_path, callback).train()
    audit = callback.audit()
    assert callback.steps.records == 20
    assert (audit.verdict, audit.proved.upper) == (Verdict.TOO_SMALL, float("inf"))
    assert "shuffles the 60 records" in audit.sentence
    assert "nothing shows that each record was clipped and noise was added" in audit.sentence


def test_accumulated_batches_are_no_steps_that_were_accounted(tmp_path: Path) -> None:
    callback = auditor()
    plain_trainer(tmp_path, callback, gradient_accumulation_steps=2).train()
    assert callback.steps.unmatched == callback.steps.steps == 10
    assert callback.audit().verdict is Verdict.UNKNOWN
    assert callback.steps.why == "it adds up the gradients of several batches"


class OurLoaderWithoutNoise(Trainer):  # type: ignore[misc]
    def get_train_dataloader(self) -> Any:
        return data_loader(self.train_dataset, poisson(), collate_fn=self.data_collator)


def test_the_callback_never_says_that_noise_was_added(tmp_path: Path) -> None:
    callback = auditor(poisson().step(GAUSSIAN))
    plain_trainer(tmp_path, callback, kind=OurLoaderWithoutNoise).train()
    assert callback.steps.is_proof
    assert (callback.audit().verdict, callback.audit().proved.upper) == (Verdict.UNKNOWN, float("inf"))
