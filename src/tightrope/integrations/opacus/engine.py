"""A privacy engine that draws with our samplers and accounts what they draw."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tightrope.answers.calibrate import smallest_noise
from tightrope.answers.ledger import Ledger
from tightrope.curve.bracket import Bracket
from tightrope.errors import InvalidSetting
from tightrope.samplers.sampler import Passes, Share
from tightrope.samplers.torch import data_loader
from tightrope.setting.effort import QUICK
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.plain import plain_run, run_of
from tightrope.setting.relation import Relation
from tightrope.setting.run import Step
from tightrope.setting.tables import Table
from tightrope.theorems.lookup import analyse
from tightrope.theorems.other_batchings import split_noise

try:
    from opacus import PrivacyEngine
    from opacus.accountants import IAccountant
except ModuleNotFoundError as missing:
    raise ImportError(
        "tightrope.integrations.opacus needs Opacus 1.6 or newer: pip install 'tightrope[opacus]'"
    ) from missing

SAMPLER_KEY = "tightrope_sampler_state_dict"
REFUSED_OPTIONS = {
    "poisson_sampling": "The sampler decides how batches are drawn, and its sampling is what is accounted",
    "data_loader": "The engine makes the loader from dataset and sampler, so that what is drawn is what is accounted",
    "rand_on_empty": "An empty batch is a step that adds noise only; a made-up record in it would not be accounted",
    "epochs": "Say how many steps there will be: steps",
    "epsilon_tolerance": "The noise found is the smallest one",
}


class TrainingLedger(Ledger):
    """A ledger with a short way for steps that come again and again."""

    def count(self, step: Step, times: int) -> None:
        """Record a step that was checked when it was made.

        `record` checks a run as a whole, which with cold caches, as after a training step, takes 30 microseconds.
        """
        self._times[step] = self._times.get(step, 0) + times
        self._last = step
        self._answers.clear()


class LedgerAccountant(IAccountant):
    """What Opacus takes for an accountant, in front of a ledger."""

    def __init__(self, ledger: TrainingLedger) -> None:
        self.ledger = ledger
        self.used = 0  # batches of the sampler on which steps were taken, or which came before
        self.shared_noise = (
            False  # whether several draws of some step shared its noise, so that the ledger is only a bound
        )

    @classmethod
    def mechanism(cls) -> str:
        """What checkpoints are marked with."""
        return "tightrope-ledger"

    @property
    def history(self) -> list[tuple[float, float, int]]:
        """Noise multipliers, rates and steps, as the accountants of Opacus keep them."""
        additive = ((step.mechanism, step.sampling, times) for step, times in self.ledger.run)
        return [
            (noise.noise_multiplier, drawn.rate, times)
            for noise, drawn, times in additive
            if isinstance(noise, Gaussian)
        ]

    def __len__(self) -> int:
        return self.ledger.steps

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Refused: a rate does not say how batches are drawn."""
        raise InvalidSetting(
            f"step() by sample_rate={sample_rate!r} does not say how batches are drawn. "
            "Record it in the ledger: engine.ledger.step(noise_multiplier=..., sampling=...)."
        )

    def hook(self, sampler: Passes) -> Callable[[Any], None]:
        """What an optimizer calls before each update on batches drawn by `sampler`, with the noise it had at that step.

        More steps than batches that were drawn are refused before they are taken: they used other batches, or one twice.
        """
        self.used = sampler.drawn

        @lru_cache(maxsize=8)  # the noise rarely changes
        def taken(noise: float, draws: int) -> Step:
            return Step(Gaussian(noise_multiplier=split_noise(noise, draws)), sampler.sampling)

        def record(optimizer: Any) -> None:
            draws = optimizer.accumulated_iterations
            if sampler.drawn - self.used < draws:
                raise InvalidSetting(
                    "a step was to be taken on a batch that the sampler did not draw for it. Iterate over the loader that "
                    "make_private returned, and take one step for each of its batches."
                )
            self.used += draws
            self.shared_noise |= draws > 1
            self.ledger.count(taken(float(optimizer.noise_multiplier), draws), draws)

        return record

    def get_epsilon(self, delta: float) -> float:
        """The smallest epsilon that is certain to hold at `delta`."""
        return self.ledger.epsilon(delta).upper

    def state_dict(self, destination: Any = None) -> Any:
        """What Opacus saves, and the ledger."""
        state = super().state_dict(destination)
        state["tightrope"] = {
            "relation": self.ledger.relation.name,
            "parts": plain_run(self.ledger.run),
            "shared_noise": self.shared_noise,
        }
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Record all that the state holds in a new ledger, under the same relation."""
        table = Table.of(dict(state_dict or {}), "state: ")
        if table.wanted("mechanism", "Pass what state_dict() returned.") != self.mechanism():
            raise table.refusal(
                "mechanism", repr(self.mechanism()), "It was saved by another engine: load it there."
            )
        ours = Table.of(
            table.wanted("tightrope", "It holds the ledger: the checkpoint is damaged."), "state: tightrope."
        )
        ours.keep_to(("relation", "parts", "shared_noise"))
        if ours.wanted("relation", "It says who counts as a neighbour.") != self.ledger.relation.name:
            raise ours.refusal(
                "relation",
                self.ledger.relation.name,
                "Make the engine with the relation of the run to go on with.",
            )
        ledger = TrainingLedger(relation=self.ledger.relation)
        ledger.record(run_of(ours, "parts"))
        self.ledger, self.shared_noise = ledger, bool(ours.wanted("shared_noise", "It is true or false."))


class TightropeEngine(PrivacyEngine):
    """Opacus' `PrivacyEngine` for training with a sampler of `tightrope.samplers`, whose sampling is what is accounted.

    Works under any `relation` that has a theorem for the sampler, with noise schedulers and under `BatchMemoryManager`. The
    noisy sum of gradients is divided by the expected size of a batch, never by the size of the one drawn.
    """

    def __init__(self, *, relation: Relation, secure_mode: bool = False) -> None:
        ledger = TrainingLedger(relation=relation)
        super().__init__(
            accountant="prv", secure_mode=secure_mode
        )  # a name is required, and at once replaced
        self.accountant = LedgerAccountant(ledger)
        self._sampler: Passes | None = None

    @property
    def relation(self) -> Relation:
        """Who counts as a neighbour."""
        return self.ledger.relation

    @property
    def ledger(self) -> Ledger:
        """Every step taken. One over several accumulated batches is there as steps that share its noise, which bound it."""
        ledger: Ledger = self.accountant.ledger
        return ledger

    def epsilon(self, delta: float) -> Bracket:
        """Both ends: the guarantee above, and below what real neighbouring datasets reach."""
        spent = self.ledger.epsilon(delta)
        return Bracket(0.0, spent.upper) if self.accountant.shared_noise else spent

    def get_epsilon(self, delta: float) -> float:
        """The smallest epsilon that is certain to hold at `delta`."""
        return self.epsilon(delta).upper

    def make_private(
        self,
        *,
        module: Any,
        optimizer: Any,
        dataset: Any,
        sampler: Passes,
        noise_multiplier: float,
        max_grad_norm: float | list[float],
        loader_options: Mapping[str, Any] | None = None,
        **opacus_options: Any,
    ) -> tuple[Any, ...]:
        """Module, optimizer and loader for private training, and the criterion before the loader in ghost mode.

        The loader is `tightrope.samplers.torch.data_loader(dataset, sampler, **loader_options)`. Other options are those of
        Opacus, except what the sampler decides.
        """
        _refuse(opacus_options)
        loader = data_loader(dataset, sampler, **(loader_options or {}))
        step = sampler.step(Gaussian(noise_multiplier=noise_multiplier))
        analyse(
            step * 1, self.relation, QUICK
        )  # what no theorem covers is refused now, not after the training
        made = super().make_private(
            module=module,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            poisson_sampling=False,  # the loader is left as it is
            **opacus_options,
        )
        private_module, private_optimizer, *criterion_and_loader = made
        private_module.forbid_grad_accumulation()  # as Opacus does for its own Poisson batches
        private_optimizer.expected_batch_size = sampler.expected_batch / _ranks(private_optimizer, sampler)
        private_optimizer.attach_step_hook(self.accountant.hook(sampler))
        self._sampler = sampler
        return (private_module, private_optimizer, *criterion_and_loader)

    def make_private_with_epsilon(
        self,
        *,
        module: Any,
        optimizer: Any,
        dataset: Any,
        sampler: Passes,
        target_epsilon: float,
        target_delta: float,
        steps: int,
        max_grad_norm: float | list[float],
        **options: Any,
    ) -> tuple[Any, ...]:
        """The same with the smallest noise with which `steps` more steps keep to the target, besides what is already spent."""
        _refuse(options)
        found = smallest_noise(
            sampler.sampling,
            steps=steps,
            epsilon=target_epsilon,
            delta=target_delta,
            relation=self.relation,
            besides=self.ledger.run,
            by=self.ledger.by,
        )
        return self.make_private(
            module=module,
            optimizer=optimizer,
            dataset=dataset,
            sampler=sampler,
            noise_multiplier=found.value,
            max_grad_norm=max_grad_norm,
            **options,
        )

    def save_checkpoint(
        self, *, checkpoint_dict: dict[str, Any] | None = None, **opacus_options: Any
    ) -> None:
        """Save what Opacus saves, the ledger and the state of the sampler, which with a seed is a secret."""
        state = {} if self._sampler is None else {SAMPLER_KEY: self._sampler.state_dict()}
        super().save_checkpoint(checkpoint_dict={**(checkpoint_dict or {}), **state}, **opacus_options)

    def load_checkpoint(self, **opacus_options: Any) -> dict[str, Any]:
        """Load all of it; the sampler, given to `make_private` before, goes on with the batch after the last one drawn."""
        ledger, shared_noise = self.accountant.ledger, self.accountant.shared_noise
        try:
            checkpoint: dict[str, Any] = super().load_checkpoint(**opacus_options)
            state = checkpoint.pop(SAMPLER_KEY, None)
            if state is not None:
                if self._sampler is None:
                    raise InvalidSetting(
                        "load_checkpoint needs the sampler to go on with, got none. Call make_private first."
                    )
                self._sampler.load_state_dict(state)
                self.accountant.used = self._sampler.drawn
        except BaseException:  # what was spent stays on record when a checkpoint is refused
            self.accountant.ledger, self.accountant.shared_noise = ledger, shared_noise
            raise
        return checkpoint


def _refuse(options: Mapping[str, Any]) -> None:
    for name, why in REFUSED_OPTIONS.items():
        if name in options:
            raise InvalidSetting(f"{name} must be left out, got {name}={options[name]!r}. {why}.")
    if options.get("clipping") == "adaptive":
        raise InvalidSetting(
            "clipping must be 'flat' or 'per_layer', got 'adaptive'. Opacus divides the number of clipped gradients by the size "
            "of the batch that was drawn, which is released without noise: no theorem covers that."
        )


def _ranks(optimizer: Any, sampler: Passes) -> int:
    """Over how many ranks the sums of a step are averaged."""
    ranks = sampler.ranks if isinstance(sampler, Share) else 1
    world = getattr(
        optimizer, "world_size", None
    )  # every distributed optimizer of Opacus has one, and no other does
    if world is not None and world != ranks:
        raise InvalidSetting(
            f"sampler must be a share for one of {world} ranks, got {sampler!r}. Build the same seeded sampler on every rank and "
            "pass sampler.share(rank=..., ranks=...): a draw per rank would be another scheme than the one accounted."
        )
    return ranks
