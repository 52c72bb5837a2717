"""Private training by a Lightning `Trainer`, which takes no loader from Opacus: a callback installs it."""

from collections.abc import Mapping
from typing import Any

from tightrope.extras import MissingExtra

try:
    from lightning.pytorch import Callback
    from lightning.pytorch.callbacks import BatchSizeFinder, GradientAccumulationScheduler, LearningRateFinder
    from lightning.pytorch.plugins.precision import Precision
    from lightning.pytorch.strategies import SingleDeviceStrategy
    from lightning.pytorch.utilities.rank_zero import rank_zero_info
except ModuleNotFoundError as missing:
    raise MissingExtra("tightrope.integrations.lightning", "Lightning and Opacus", "lightning") from missing

from torch.utils.data import DataLoader

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.audit.claims.judge import Audit
from tightrope.audit.loaders.words import name_class
from tightrope.audit.steps.summary import StepsSummary
from tightrope.curve.bracket import Bracket
from tightrope.errors import Described, InvalidSetting
from tightrope.integrations.metrics import MetricsLog, Spent
from tightrope.integrations.private_session import PrivateSession, keep_options
from tightrope.numerics import check
from tightrope.samplers.sampler import Passes
from tightrope.setting.relation import Relation

_OWN_TRAINING = "It trains for itself before any callback is asked, without clipping and noise."


class PrivateTraining(Callback):
    """Trains privately, and checks that every step is taken on one fresh batch of `sampler`.

    When a fit starts, the loader that Lightning was given is replaced by one over the same dataset, collated
    in the same way, whose batches `sampler` draws; its own batch size and shuffling play no part. The
    optimizer clips the gradient of each record to `max_grad_norm` and adds noise. Settings of the `Trainer`
    that would change what is run are refused. What was spent is in `spent`, in words in `audit()`, and every
    `log_every` steps in the loggers of the `Trainer` (and in `log`).

    Several fits with one callback add up. A checkpoint of the `Trainer` holds the state of the callback: a
    seed in it is as secret as the records.
    """

    def __init__(
        self,
        *,
        sampler: Passes,
        noise_multiplier: float,
        max_grad_norm: float,
        relation: Relation | str,
        delta: float,
        by: Certified = BY_DEFAULT,
        log: MetricsLog | None = None,
        log_every: int = 100,
    ) -> None:
        super().__init__()
        self._session = PrivateSession(
            sampler=sampler,
            noise_multiplier=noise_multiplier,
            relation=relation,
            delta=delta,
            by=by,
            log=log,
            log_every=log_every,
        )
        self._max_grad_norm = check.positive(max_grad_norm=max_grad_norm)
        self._loader: Any = None
        self._optimizer: Any = None

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

    # hooks of Lightning

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Refuse what would change the training, before anything is done."""
        if stage == "fit":
            _check_trainer(trainer)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Install the private optimizer and the loader of the sampler."""
        if len(trainer.optimizers) != 1:
            got = Described(f"{len(trainer.optimizers)} of them")
            remedy = "Each would release gradients of its own. Return one from configure_optimizers."
            raise InvalidSetting("optimizers", got, "be one", remedy)
        source = trainer.fit_loop._data_source
        theirs = source.dataloader()
        if not isinstance(theirs, DataLoader):
            remedy = "Pass one DataLoader: its dataset is what the sampler draws from."
            raise InvalidSetting("train_dataloaders", Described(name_class(theirs)), "be one loader", remedy)
        parts = self._session.make_private(
            module=pl_module,
            optimizer=trainer.optimizers[0],
            dataset=theirs.dataset,
            max_grad_norm=self._max_grad_norm,
            loader_options=keep_options(theirs),
        )
        source.instance = self._loader = parts.loader
        trainer.optimizers = [parts.optimizer]
        self._optimizer = parts.optimizer

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Check that Lightning trains with what was installed."""
        self._check_parts(trainer)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """The same again: other callbacks may have changed it."""
        self._check_parts(trainer)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Log what is spent, where it is time."""
        self._session.log_when_due(*map(_LightningLog, trainer.loggers))

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log what is spent, and show it to other callbacks: early stopping, for example."""
        pl_module.log_dict(self._session.metrics(), logger=False)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Log what was spent, and say what was seen."""
        self._session.log_now(*map(_LightningLog, trainer.loggers))
        numbers = self._session.metrics()
        lower, upper = numbers["epsilon_lower"], numbers["epsilon_upper"]
        rank_zero_info(
            f"epsilon is {Bracket(lower, upper)} at delta {numbers['delta']}. {self.steps.sentence}"
        )

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Give the model back without hooks."""
        if stage == "fit":
            self._session.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The same after a failure."""
        self._session.close()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return self._session.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._session.load_state_dict(state_dict)

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Mapping[str, Any]) -> None:
        """Refuse steps that nobody recorded."""
        taken = checkpoint.get("global_step", 0)
        if taken and self.state_key not in checkpoint.get("callbacks", {}):
            got = Described(f"{taken} steps without a record")
            remedy = (
                "It was written without this callback. To start from its weights as from public ones, load "
                "them into the model instead of passing ckpt_path."
            )
            raise InvalidSetting("ckpt_path", got, "hold what its steps have spent", remedy)

    def _check_parts(self, trainer: Any) -> None:
        _check_trainer(trainer)
        if trainer.train_dataloader is not self._loader:
            got = Described(name_class(trainer.train_dataloader))
            remedy = "Another callback or strategy replaced it: its batches are not those accounted."
            raise InvalidSetting("train_dataloader", got, "be the one that the sampler draws for", remedy)
        if [*trainer.optimizers] != [self._optimizer]:
            remedy = "Another callback replaced it: steps would be taken without noise."
            got = Described(", ".join(map(name_class, trainer.optimizers)) or "none")
            raise InvalidSetting("optimizers", got, "be the one that was made private", remedy)


class _LightningLog:
    """A logger of Lightning as a place for metrics."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._logger.log_metrics({f"privacy/{name}": value for name, value in metrics.items()}, step=step)


def _check_trainer(trainer: Any) -> None:
    """Refuse settings with which something else is run than what is accounted."""
    if type(trainer.strategy) is not SingleDeviceStrategy or trainer.world_size != 1:
        got = Described(f"{name_class(trainer.strategy)} with {trainer.world_size} processes")
        remedy = (
            "Pass devices=1. Lightning gives each process batches of its own, which is another sampling; "
            "several processes can train with TightropeEngine in a loop of yours."
        )
        raise InvalidSetting("strategy", got, "train in one process on one device", remedy)
    if type(trainer.precision_plugin) is not Precision:
        remedy = "Pass precision='32-true': scaled or rounded gradients are clipped elsewhere than accounted."
        raise InvalidSetting("precision", trainer.precision, "be '32-true'", remedy)
    if trainer.accumulate_grad_batches != 1:
        remedy = "Each batch of the sampler is one step: draw larger ones."
        raise InvalidSetting("accumulate_grad_batches", trainer.accumulate_grad_batches, "be 1", remedy)
    if trainer.gradient_clip_val:
        remedy = "It clips sums before noise is added. Each record is clipped by {max_grad_norm}."
        raise InvalidSetting("gradient_clip_val", trainer.gradient_clip_val, "be left out", remedy)
    if trainer.overfit_batches:
        remedy = "It trains on the same batches again and again; the sampler draws fresh ones."
        raise InvalidSetting("overfit_batches", trainer.overfit_batches, "be left out", remedy)
    _check_callbacks(trainer)


def _check_callbacks(trainer: Any) -> None:
    why = {
        GradientAccumulationScheduler: "Each batch of the sampler is one step: draw larger ones.",
        LearningRateFinder: _OWN_TRAINING,
        BatchSizeFinder: _OWN_TRAINING,
    }
    for callback in trainer.callbacks:
        for kind, remedy in why.items():
            if isinstance(callback, kind):
                raise InvalidSetting("callbacks", Described(kind.__name__), "leave it out", remedy)
    if sum(isinstance(callback, PrivateTraining) for callback in trainer.callbacks) > 1:
        remedy = "One training is accounted once."
        raise InvalidSetting("callbacks", Described("several of them"), "hold one PrivateTraining", remedy)
