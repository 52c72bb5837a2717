"""A privacy engine that draws with our samplers and accounts what they draw."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from opacus import PrivacyEngine

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.answers.calibrate import smallest_noise
from tightrope.answers.ledger import Ledger
from tightrope.audit.claims.prove import drop_lower_end
from tightrope.audit.loaders.inspect import inspect_loader
from tightrope.audit.steps.summary import StepsSummary
from tightrope.curve.bracket import Bracket
from tightrope.errors import Described, InvalidSetting
from tightrope.integrations.opacus.ledger_accountant import LedgerAccountant
from tightrope.integrations.opacus.mismatch import Teller
from tightrope.integrations.opacus.steps import PrivateWatch
from tightrope.integrations.opacus.target import EpsilonTarget, check_steps
from tightrope.integrations.ranks import compare_ranks
from tightrope.integrations.torch_loaders import numbers_of
from tightrope.samplers.sampler import Passes, Share
from tightrope.samplers.torch import data_loader
from tightrope.setting.effort import QUICK
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import Relation
from tightrope.setting.run import UNBROKEN
from tightrope.theorems.lookup import analyse

SAMPLER_KEY = "tightrope_sampler_state_dict"
REFUSED_OPTIONS = {
    "poisson_sampling": "The sampler decides how batches are drawn, and its sampling is what is accounted.",
    "data_loader": "The engine makes it from dataset and sampler, so that it draws what is accounted.",
    "rand_on_empty": "An empty batch is a step of noise only; a made-up record would not be accounted.",
    "epochs": "Say how many steps there will be: {steps}.",
    "epsilon_tolerance": "The noise found is the smallest one.",
}


class TightropeEngine(PrivacyEngine):
    """Opacus' `PrivacyEngine` for a sampler of `tightrope.samplers`, whose sampling is what is accounted.

    It works under any `relation` that has a theorem for the sampler, with noise schedulers and under
    `BatchMemoryManager`. It divides the noisy sum of gradients by the expected size of a batch, never by the
    size of the one drawn. A step on anything but one fresh batch of its loader is refused.
    """

    def __init__(
        self, *, relation: Relation | str, by: Certified = BY_DEFAULT, secure_mode: bool = False
    ) -> None:
        ledger = Ledger(relation=relation, by=by)
        # Opacus requires the name of an accountant, which is replaced at once.
        super().__init__(accountant="prv", secure_mode=secure_mode)
        self.accountant = LedgerAccountant(ledger)
        self._sampler: Passes | None = None
        self._teller = Teller()

    @property
    def relation(self) -> Relation:
        """Who counts as a neighbour."""
        return self.ledger.relation

    @property
    def steps(self) -> StepsSummary:
        """What was seen of the steps: whether their gradients came from the records that were drawn."""
        steps: StepsSummary = self.accountant.steps
        return steps

    @property
    def exceeded(self) -> str:
        """What is to say of more steps than the noise was chosen for; empty if there are none."""
        target, steps = self.accountant.target, self.ledger.steps
        return "" if target is None or steps <= target.steps else str(target.say_exceeded(steps))

    @property
    def ledger(self) -> Ledger:
        """Every step taken; one over several accumulated batches is bounded by steps that share its noise."""
        ledger: Ledger = self.accountant.ledger
        return ledger

    def epsilon(self, delta: float) -> Bracket:
        """Both ends: the guarantee above, and below what real neighbouring datasets reach."""
        self._teller.tell(self.steps)
        spent = self.ledger.epsilon(delta)
        if self.accountant.shared_noise or self.steps.unused:
            spent = drop_lower_end(spent, self.ledger.by)
        # passes that were broken off count as whole ones, unless they were recorded by hand
        seen_to = (UNBROKEN,) if self.accountant.passes.are_whole else ()
        left = (condition for condition in spent.conditions if condition not in seen_to)
        return replace(spent, conditions=(*left, *self.steps.conditions))

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
        """Module, optimizer and loader for private training; in ghost mode the criterion before the loader.

        The loader is `tightrope.samplers.torch.data_loader(dataset, sampler, **loader_options)`. Other
        options are those of Opacus, except what the sampler decides.
        """
        _check_options(opacus_options)
        loader = data_loader(dataset, sampler, **(loader_options or {}))
        _check_records(loader)
        self.accountant.used_seeds.claim(sampler)
        step = sampler.step(Gaussian(noise_multiplier=noise_multiplier))
        analyse(step * 1, self.relation, QUICK)  # refuse what no theorem covers before training, not after
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
        ranks = _count_ranks(private_optimizer, sampler)
        private_optimizer.expected_batch_size = sampler.expected_batch / ranks
        watch = PrivateWatch(refuses=True)
        watch.checks.tally, watch.checks.caveat = self.accountant.tally, compare_ranks(sampler)
        watch.openings = self.accountant.used_seeds.openings
        watch.watch_private(
            module=private_module, optimizer=private_optimizer, loader=criterion_and_loader[-1]
        )
        numbers = numbers_of(criterion_and_loader[-1])
        record = self.accountant.hook(sampler, watch.checks, numbers)
        private_optimizer.attach_step_hook(_keep_size(private_optimizer.expected_batch_size, record))
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
        """The same at the smallest noise that keeps what is spent and `steps` more within the target.

        `steps` are all steps to come, at least those of one pass over the sampler. The first one beyond them
        is warned of (`PlanExceeded`), and accounted like any other.
        """
        _check_options(options)
        passes = self.accountant.passes
        planned = check_steps(steps, sampler) + passes.count_begun(sampler)
        besides = self.ledger.run + passes.list_rests(sampler)
        found = smallest_noise(
            sampler.sampling,
            steps=planned,
            epsilon=target_epsilon,
            delta=target_delta,
            relation=self.relation,
            besides=besides,
            by=self.ledger.by,
        )
        made = self.make_private(
            module=module,
            optimizer=optimizer,
            dataset=dataset,
            sampler=sampler,
            noise_multiplier=found.value,
            max_grad_norm=max_grad_norm,
            **options,
        )
        self.accountant.aim_at(
            EpsilonTarget(epsilon=target_epsilon, delta=target_delta, steps=besides.steps + planned)
        )
        return made

    def save_checkpoint(
        self, *, checkpoint_dict: dict[str, Any] | None = None, **opacus_options: Any
    ) -> None:
        """Save what Opacus saves, the ledger and the state of the sampler, which with a seed is a secret."""
        state = {} if self._sampler is None else {SAMPLER_KEY: self._sampler.state_dict()}
        super().save_checkpoint(checkpoint_dict={**(checkpoint_dict or {}), **state}, **opacus_options)

    def load_checkpoint(self, **opacus_options: Any) -> dict[str, Any]:
        """Load all of it; the sampler of `make_private` goes on with the batch after the last one drawn."""
        restore = self.accountant.remember()
        try:
            checkpoint: dict[str, Any] = super().load_checkpoint(**opacus_options)
            state = checkpoint.pop(SAMPLER_KEY, None)
            if state is not None:
                if self._sampler is None:
                    must = "be there to go on with"
                    raise InvalidSetting("sampler", None, must, "Call make_private first.")
                self._sampler.load_state_dict(state)
        except BaseException:  # what was spent stays on record when a checkpoint is refused
            restore()
            raise
        return checkpoint


def _check_options(options: Mapping[str, Any]) -> None:
    for name, why in REFUSED_OPTIONS.items():
        if name in options:
            raise InvalidSetting(name, options[name], "be left out", why)
    if options.get("clipping") == "adaptive":
        remedy = (
            "Opacus divides the number of clipped gradients by the size of the batch that was drawn, which "
            "is released without noise: no theorem covers that."
        )
        raise InvalidSetting("clipping", "adaptive", "be 'flat' or 'per_layer'", remedy)


def _check_records(loader: Any) -> None:
    """Refuse a dataset that gives one record more than once, or does not tell."""
    found = inspect_loader(loader)
    if found.sampling is None:
        remedy = "One record would count as several: leave out what repeats it."
        raise InvalidSetting("dataset", Described(found.sentence), "hold each record once", remedy)


def _keep_size(size: float, record: Callable[[Any], None]) -> Callable[[Any], None]:
    """Refuse a step whose noisy sum is divided by another size; `record` any other."""

    def check_and_record(optimizer: Any) -> None:
        if optimizer.expected_batch_size != size:
            must = f"stay {size!r}, the expected size of a batch"
            remedy = (
                "The noise is divided by it as well, and so tells how many records were drawn if it follows "
                "them. To take larger or smaller steps, change the learning rate."
            )
            raise InvalidSetting("expected_batch_size", optimizer.expected_batch_size, must, remedy)
        record(optimizer)

    return check_and_record


def _count_ranks(optimizer: Any, sampler: Passes) -> int:
    """Over how many ranks the sums of a step are averaged."""
    ranks = sampler.ranks if isinstance(sampler, Share) else 1
    # Every distributed optimizer of Opacus has a world_size, and no other does.
    world = getattr(optimizer, "world_size", ranks)
    if world != ranks:
        remedy = (
            "Build the same seeded sampler on every rank and pass sampler.share(rank=..., ranks=...): a "
            "draw per rank would be another scheme than the one accounted."
        )
        raise InvalidSetting("sampler", sampler, f"be a share for one of {world} ranks", remedy)
    return ranks
