"""A privacy engine that draws with our samplers and accounts what they draw."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from opacus import PrivacyEngine
from opacus.accountants import IAccountant

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.answers.calibrate import smallest_noise
from tightrope.answers.ledger import Ledger
from tightrope.audit.claims.prove import drop_lower_end
from tightrope.audit.loaders.inspect import inspect_loader
from tightrope.audit.steps.checks import StepChecks, StepTally
from tightrope.audit.steps.summary import StepsSummary
from tightrope.curve.bracket import Bracket
from tightrope.errors import Described, InvalidSetting
from tightrope.integrations.opacus.mismatch import PlanExceeded, Teller, warn
from tightrope.integrations.opacus.passes import PassCount, complete_passes, count_begun
from tightrope.integrations.opacus.states import read_steps
from tightrope.integrations.opacus.steps import PrivateWatch, count_draws
from tightrope.integrations.opacus.target import GOES_ON, EpsilonTarget, check_steps
from tightrope.integrations.opacus.waiting import WaitingSteps
from tightrope.integrations.ranks import compare_ranks
from tightrope.integrations.seeds import UsedSeeds
from tightrope.samplers.sampler import Passes, Share
from tightrope.samplers.torch import data_loader
from tightrope.setting.effort import QUICK
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.parts import run_of
from tightrope.setting.plain import plain_run
from tightrope.setting.relation import Relation
from tightrope.setting.run import UNBROKEN, Step
from tightrope.setting.sampling import Allocated
from tightrope.setting.tables import Table
from tightrope.theorems.lookup import analyse
from tightrope.theorems.other_batchings import split_noise

SAMPLER_KEY = "tightrope_sampler_state_dict"
REFUSED_OPTIONS = {
    "poisson_sampling": "The sampler decides how batches are drawn, and its sampling is what is accounted.",
    "data_loader": "The engine makes it from dataset and sampler, so that it draws what is accounted.",
    "rand_on_empty": "An empty batch is a step of noise only; a made-up record would not be accounted.",
    "epochs": "Say how many steps there will be: {steps}.",
    "epsilon_tolerance": "The noise found is the smallest one.",
}


class LedgerAccountant(IAccountant):
    """What Opacus takes for an accountant, in front of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting = WaitingSteps(self._count)
        # whether draws of some step shared its noise: then the ledger only bounds it
        self.shared_noise = False
        self.tally, self.resumed_from = StepTally(), StepsSummary()  # of all watches together
        self.used_seeds = UsedSeeds()
        self.target: EpsilonTarget | None = None
        self._has_warned = False
        self._passes: PassCount | None = None  # of a sampler whose records choose among the batches of a pass

    def aim_at(self, target: EpsilonTarget) -> None:
        """Warn at the first step beyond those that the noise was chosen for. It is accounted all the same."""
        self._waiting.flush()
        self.target, self._has_warned = target, False

    def _compare_plan(self, draws: int = 1) -> None:
        """A step on so many draws is taken, and all before it are in the ledger."""
        target, steps = self.target, self._ledger.steps
        if target is None or self._has_warned:
            self._waiting.most = math.inf
            return
        self._waiting.most = max(1, target.steps - steps)
        if steps + draws > target.steps:
            self._has_warned = True
            warn(f"{target.say_exceeded(steps + draws)} {GOES_ON}", PlanExceeded)

    @classmethod
    def mechanism(cls) -> str:
        """What checkpoints are marked with."""
        return "tightrope-ledger"

    @property
    def ledger(self) -> Ledger:
        """All steps."""
        self._waiting.flush()
        return self._ledger

    @ledger.setter
    def ledger(self, ledger: Ledger) -> None:
        self._waiting.flush()
        self._ledger = ledger

    def _count(self, step: Step, times: int) -> None:
        self._ledger.count(step, times)

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
        remedy = "Record it in the ledger: engine.ledger.step(noise_multiplier=..., sampling=...)."
        must = "be replaced by a sampling: it does not say how batches are drawn"
        raise InvalidSetting("sample_rate", sample_rate, must, remedy)

    @property
    def steps(self) -> StepsSummary:
        """What was seen of the steps."""
        return self.resumed_from + self.tally.summary()

    def hook(self, sampler: Passes, checks: StepChecks) -> Callable[[Any], None]:
        """What an optimizer calls before each update on batches of `sampler`, with its noise at that step."""
        self._passes = None
        if isinstance(sampler.sampling, Allocated):
            self.ledger.record(complete_passes(self.ledger.run, sampler.sampling))
            self._passes = PassCount(sampler, sampler.sampling)
            return self._passes.hook(checks.judge, count_draws, self._count_batches)

        @lru_cache(maxsize=8)  # the noise rarely changes
        def make_step(noise: float, draws: int) -> Step:
            return Step(Gaussian(noise_multiplier=split_noise(noise, draws)), sampler.sampling)

        def begin_usual(noise: float) -> Step:
            self._compare_plan()
            return make_step(noise, 1)

        def record_other(optimizer: Any) -> None:
            draws = count_draws(optimizer, checks.judge())
            self._waiting.flush()
            self._compare_plan(draws)
            self.shared_noise |= draws > 1
            self.ledger.count(make_step(float(optimizer.noise_multiplier), draws), draws)

        return self._waiting.hook(usual=begin_usual, other=record_other)

    def _count_batches(self, step: Step, times: int) -> None:
        self._compare_plan(times)
        if times:
            self._ledger.count(step, times)

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
            "steps": self.steps.plain(),
            "passes": None if self._passes is None else self._passes.plain(),
        }
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Record all that the state holds in a new ledger, under the same relation."""
        table = Table.of(dict(state_dict or {}), "state: ")
        if table.need("mechanism", "Pass what state_dict() returned.") != self.mechanism():
            remedy = "It was saved by another engine: load it there."
            raise table.refusal("mechanism", repr(self.mechanism()), remedy)
        kept = table.need("tightrope", "It holds the ledger: the checkpoint is damaged.")
        ours = Table.of(kept, "state: tightrope.")
        ours.keep_to(("relation", "parts", "shared_noise", "steps", "passes"))
        relation = self.ledger.relation
        if ours.need("relation", "It says who counts as a neighbour.") != relation.name:
            remedy = "Make the engine with the relation of the run to go on with."
            raise ours.refusal("relation", relation.name, remedy)
        ledger = Ledger(relation=relation, by=self.ledger.by, schedule=self.ledger.schedule)
        ledger.record(run_of(ours, "parts"))
        steps = read_steps(ours.entries.get("steps"), ledger.steps)
        if self._passes is not None:
            self._passes.go_on(ours.entries.get("passes"))
        self.ledger, self.shared_noise = ledger, bool(ours.need("shared_noise", "It is true or false."))
        self.tally.clear()
        self.resumed_from = steps


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
        spent = drop_lower_end(spent, self.ledger.by) if self.accountant.shared_noise else spent
        # the engine counts passes that were broken off as whole ones
        left = (condition for condition in spent.conditions if condition != UNBROKEN)
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
        private_optimizer.attach_step_hook(self.accountant.hook(sampler, watch.checks))
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
        planned = check_steps(steps, sampler) + count_begun(sampler)
        besides = self.ledger.run + complete_passes(self.ledger.run, sampler.sampling)
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
        accountant = self.accountant
        before = {"ledger": accountant.ledger, "shared_noise": accountant.shared_noise}
        steps = accountant.steps
        try:
            checkpoint: dict[str, Any] = super().load_checkpoint(**opacus_options)
            state = checkpoint.pop(SAMPLER_KEY, None)
            if state is not None:
                if self._sampler is None:
                    must = "be there to go on with"
                    raise InvalidSetting("sampler", None, must, "Call make_private first.")
                self._sampler.load_state_dict(state)
        except BaseException:  # what was spent stays on record when a checkpoint is refused
            for name, value in before.items():
                setattr(accountant, name, value)
            accountant.tally.clear()
            accountant.resumed_from = steps
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
