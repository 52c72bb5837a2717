"""What Opacus takes for an accountant, in front of a ledger: every step on the batches of our samplers."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from opacus.accountants import IAccountant

from tightrope.answers.ledger import Ledger
from tightrope.audit.steps.checks import StepChecks, StepTally
from tightrope.audit.steps.summary import StepsSummary
from tightrope.errors import InvalidSetting
from tightrope.integrations.opacus.mismatch import PlanExceeded, warn
from tightrope.integrations.opacus.pass_counts import PassCounts
from tightrope.integrations.opacus.passes import Restore, SavedPasses
from tightrope.integrations.opacus.shared_noise import count_draws
from tightrope.integrations.opacus.states import read_steps
from tightrope.integrations.opacus.target import GOES_ON, EpsilonTarget
from tightrope.integrations.opacus.waiting import WaitingSteps
from tightrope.integrations.seeds import UsedSeeds
from tightrope.samplers.sampler import Passes
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.parts import run_of
from tightrope.setting.plain import plain_run
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import Allocated
from tightrope.setting.tables import Table
from tightrope.theorems.other_batchings import split_noise


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
        self.passes = PassCounts(read=self._read_run, record=self._count_batches)

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
        seen = self.resumed_from + self.tally.summary()
        return replace(seen, unused=max(seen.unused + self.passes.unused, 0))

    def hook(self, sampler: Passes, checks: StepChecks, numbers: Iterator[int]) -> Callable[[Any], None]:
        """What an optimizer calls before each update on batches of `sampler`, with its noise at that step.

        `numbers` are those of the draws of its loader.
        """
        if isinstance(sampler.sampling, Allocated):
            return self.passes.hook(sampler, sampler.sampling, numbers=numbers, judge=checks.judge)

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

    def _read_run(self) -> Run:
        return self.ledger.run

    def _count_batches(self, step: Step, times: int) -> None:
        ledger = self.ledger
        self._compare_plan(times)
        ledger.count(step, times)

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
            "passes": self.passes.save(),
            "are_whole": self.passes.are_whole,
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
        ours.keep_to(("relation", "parts", "shared_noise", "steps", "passes", "are_whole"))
        relation = self.ledger.relation
        if ours.need("relation", "It says who counts as a neighbour.") != relation.name:
            remedy = "Make the engine with the relation of the run to go on with."
            raise ours.refusal("relation", relation.name, remedy)
        ledger = Ledger(relation=relation, by=self.ledger.by, schedule=self.ledger.schedule)
        ledger.record(run_of(ours, "parts"))
        steps = read_steps(ours.entries.get("steps"), ledger.steps)
        passes = SavedPasses.read(ours.entries.get("passes"))
        self.ledger, self.shared_noise = ledger, bool(ours.need("shared_noise", "It is true or false."))
        self.passes.go_on(passes, are_whole=bool(ours.entries.get("are_whole", False)))
        self.tally.clear()
        self.resumed_from = steps

    def remember(self) -> Restore:
        """What brings back what was spent, should a checkpoint be refused when it is half loaded."""
        ledger, shared_noise, steps = self.ledger, self.shared_noise, self.steps
        restore_passes = self.passes.remember()

        def restore() -> None:
            self.ledger, self.shared_noise = ledger, shared_noise
            restore_passes()
            self.passes.unused = 0  # they are among the steps
            self.tally.clear()
            self.resumed_from = steps

        return restore
