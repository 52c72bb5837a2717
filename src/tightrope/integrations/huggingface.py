"""Private training by Hugging Face's `Trainer`, and a callback that says what any `Trainer` really ran."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tightrope.extras import MissingExtra

try:
    from transformers import Trainer, TrainerCallback
except ModuleNotFoundError as missing:
    raise MissingExtra(
        "tightrope.integrations.huggingface", "transformers 5.22 or newer, and Opacus", "huggingface"
    ) from missing

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.audit.claims.judge import Audit, audit
from tightrope.audit.claims.verdict import Verdict
from tightrope.audit.finding import Finding
from tightrope.audit.loaders.words import name_class
from tightrope.audit.steps.summary import StepsSummary, apply_steps
from tightrope.curve.bracket import Bracket
from tightrope.errors import Described, InvalidSetting, UnusableFile
from tightrope.files import read_json, write_whole
from tightrope.integrations.accelerate import check_accelerator
from tightrope.integrations.metrics import MetricsLog, Spent
from tightrope.integrations.private_session import INFINITE, PrivateParts, PrivateSession, keep_options
from tightrope.integrations.training import TrainingWatch
from tightrope.samplers.sampler import Passes
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.run import Step

STATE_FILE = "tightrope.json"  # in each checkpoint, beside the optimizer's state
NO_NOISE_SEEN = "nothing shows that each record was clipped and noise was added"
_ANOTHER_LOSS = (
    "The mean over all labels of a batch lets one record change the weight of the others, which clipping "
    "does not bound. Cut texts to one length, or pass a compute_loss_func that averages within each record "
    "first."
)


class PrivateTrainer(Trainer):
    """A `Trainer` that trains privately, and checks that every step is on one fresh batch of `sampler`.

    The gradient of each record is clipped to `max_grad_norm` of the `TrainingArguments`. `sampler` decides
    the batches, so `per_device_train_batch_size` plays no part, and one epoch is one pass of the sampler.
    Arguments that would change what is run are refused. The norm of the gradients is not logged, since it is
    a number about the records without noise. What was spent is in `spent`, in words in `audit()`, and every
    `log_every` steps in the logs of the trainer (and in `log`).

    Several calls of `train` add up. Checkpoints hold the ledger and the state of the sampler: a seed in it
    is as secret as the records.
    """

    def __init__(
        self,
        *given: Any,
        sampler: Passes,
        noise_multiplier: float,
        relation: Relation | str,
        delta: float,
        by: Certified = BY_DEFAULT,
        log: MetricsLog | None = None,
        log_every: int = 100,
        **options: Any,
    ) -> None:
        super().__init__(*given, **options)
        self._session = PrivateSession(
            sampler=sampler,
            noise_multiplier=noise_multiplier,
            relation=relation,
            delta=delta,
            by=by,
            log=log,
            log_every=log_every,
        )
        self._parts: PrivateParts | None = None
        self._check_settings()
        self.add_callback(_Progress(self))

    # what is known

    @property
    def spent(self) -> Spent:
        """The cost so far: the bracket, and whether what ran is what was accounted."""
        return self._session.spent

    @property
    def steps(self) -> StepsSummary:
        """What was seen of the steps."""
        return self._session.steps

    def audit(self) -> Audit:
        """The whole answer in words."""
        return self._session.audit()

    # what the trainer asks for

    def get_train_dataloader(self) -> Any:
        """The loader of the sampler, collated as the trainer's own; the optimizer becomes private with it."""
        self._check_settings()
        theirs = super().get_train_dataloader()
        plain = _unwrap(self.create_optimizer())
        self._parts = self._session.make_private(
            module=self.model,
            optimizer=plain,
            dataset=theirs.dataset,
            max_grad_norm=self.args.max_grad_norm,
            loader_options=keep_options(getattr(theirs, "base_dataloader", theirs)),
        )
        self.optimizer: Any = self._parts.optimizer
        return self._parts.loader

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """Forward and backward pass. The trainer clears the model's gradients, not those of each record."""
        if self._parts is not None:
            self._parts.optimizer.zero_grad()
        return super().training_step(model, inputs, num_items_in_batch)

    def compute_loss(self, model: Any, inputs: Any, *given: Any, **options: Any) -> Any:
        """The loss, if it is a mean over records."""
        if model.training and self.compute_loss_func is None:
            _check_labels(inputs, shifted=getattr(self, "_loss_shifts_labels", False))
        return super().compute_loss(model, inputs, *given, **options)

    def _clip_grad_norm(self, model: Any) -> None:
        return None  # each record is clipped, by the optimizer

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> None:
        return None  # it would be logged

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        content = json.dumps(self._session.state_dict()).encode()
        write_whole(Path(output_dir) / STATE_FILE, content, what="the state of the private training")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._session.load_state_dict(_read_state(Path(checkpoint) / STATE_FILE))

    # what is checked

    def _check_settings(self) -> None:
        _check_arguments(self.args)
        check_accelerator(self.accelerator)
        self.args.ignore_data_skip = True  # after a restart the sampler goes on with fresh batches by itself

    def _check_parts(self, loader: Any, optimizer: Any) -> None:
        self._check_settings()
        parts = self._parts
        if parts is None or loader is not parts.loader:
            remedy = "Leave get_train_dataloader as it is: other batches are not those accounted."
            got = Described(name_class(loader))
            raise InvalidSetting("train_dataloader", got, "be the one that the sampler draws for", remedy)
        if getattr(optimizer, "optimizer", optimizer) is not parts.optimizer:
            remedy = "Leave self.optimizer as it is: steps would be taken without noise."
            got = Described(name_class(optimizer))
            raise InvalidSetting("optimizer", got, "be the one that was made private", remedy)

    def _end(self) -> None:
        self._session.log_now(_TrainerLog(self))
        self._session.close()


class _Progress(TrainerCallback):
    """Tells a `PrivateTrainer` where its training is."""

    def __init__(self, trainer: PrivateTrainer) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        self._trainer._check_parts(parts["train_dataloader"], parts["optimizer"])

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        self._trainer._check_parts(parts["train_dataloader"], parts["optimizer"])

    def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        self._trainer._session.log_when_due(_TrainerLog(self._trainer))

    def on_train_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        self._trainer._end()


class _TrainerLog:
    """The logs of a `Trainer`, and through them whatever it reports to, as a place for metrics."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._trainer.log({f"privacy/{name}": value for name, value in metrics.items()})


class TrainingAudit(TrainerCallback):
    """Says what a `Trainer` of any kind really ran, against the `step` that was accounted for each step.

    It sees the loader, the inputs of the model and the steps, but not that noise was added. So it can say
    that the accounted epsilon is certainly too small, never that it holds. For that, use `PrivateTrainer`.
    """

    def __init__(
        self, *, step: Step, delta: float, relation: Relation | str, by: Certified = BY_DEFAULT
    ) -> None:
        self._step, self._delta, self._relation, self._by = step, delta, as_relation(relation), by
        self._watch = TrainingWatch()
        self._loader: Finding | None = None

    def on_train_begin(
        self,
        args: Any,
        state: Any,
        control: Any,
        *,
        model: Any,
        optimizer: Any,
        train_dataloader: Any,
        **_: Any,
    ) -> None:
        """Look at the loader, and watch the model and the optimizer."""
        self._watch = watch = TrainingWatch()
        watch.watch_loader(train_dataloader)
        if type(train_dataloader).__name__ == "DataLoaderShard" and not train_dataloader.skip_batches:
            watch.listen_to(train_dataloader.base_dataloader)
        watch.watch_model(model)
        watch.watch_optimizer(_unwrap(optimizer))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Watch no longer."""
        self._watch.close()

    @property
    def steps(self) -> StepsSummary:
        """What was seen of the steps."""
        return self._watch.summary

    def audit(self) -> Audit:
        """What was accounted against what was run."""
        finding, run = self._watch.finding, self._step * self.steps.steps
        found = audit(finding, run, delta=self._delta, relation=self._relation, by=self._by)
        if found.verdict is Verdict.TOO_SMALL:  # and without noise even more so
            return replace(found, proved=Bracket(found.proved.lower, INFINITE), why_not=NO_NOISE_SEEN)
        unseen = StepsSummary(unseen=self.steps.steps, why=NO_NOISE_SEEN)
        nothing = apply_steps(finding, unseen)
        return audit(nothing, run, delta=self._delta, relation=self._relation, by=self._by)


def _unwrap(optimizer: Any) -> Any:
    """The optimizer of torch inside those of Accelerate and Opacus."""
    inner = getattr(optimizer, "optimizer", optimizer)
    return getattr(inner, "original_optimizer", inner)


def _read_state(path: Path) -> Mapping[str, Any]:
    remedy = (
        "It was not written by a PrivateTrainer, so nobody knows what its steps have spent. To start from "
        "its weights as from public ones, load them into the model."
    )
    if not path.exists():
        raise UnusableFile(path, "is missing in the checkpoint", remedy)
    state = read_json(path, remedy=remedy)
    if not isinstance(state, dict):
        raise UnusableFile(path, "must hold an object", remedy)
    return state


def _check_labels(inputs: Mapping[str, Any], *, shifted: bool) -> None:
    """Refuse a batch whose records have different numbers of labels, where the loss is a mean over labels."""
    labels = inputs.get("labels")
    if labels is None or not hasattr(labels, "ndim") or not labels.ndim or labels.is_floating_point():
        return
    counted = labels[..., 1:] if shifted and labels.ndim > 1 else labels
    counts = counted.reshape(len(counted), -1).ne(-100).sum(dim=1) if len(counted) else counted
    if len(counts) and bool((counts != counts[0]).any()):
        got = Described("records with different numbers of them")
        raise InvalidSetting("labels", got, "be as many for each record", _ANOTHER_LOSS)


def _check_arguments(args: Any) -> None:
    """Refuse arguments with which something else is run than what is accounted."""
    devices = max(args.n_gpu, args.world_size)
    if devices > 1:
        remedy = "Make one device visible: batches would be dealt out to several."
        raise InvalidSetting("devices", devices, "be one", remedy)
    steps = args.gradient_accumulation_steps
    if steps != 1:
        remedy = "Each batch of the sampler is one step: draw larger ones."
        raise InvalidSetting("gradient_accumulation_steps", steps, "be 1", remedy)
    if not args.max_grad_norm > 0:
        remedy = "The gradient of each record is clipped to it."
        raise InvalidSetting("max_grad_norm", args.max_grad_norm, "be above 0", remedy)
    for name in ("fp16", "bf16", "deepspeed", "fsdp", "torch_compile", "auto_find_batch_size"):
        if value := getattr(args, name, None):
            remedy = "It changes how gradients are made, which nobody has checked with clipping and noise."
            raise InvalidSetting(name, value, "be left out", remedy)
