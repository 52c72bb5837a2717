"""Certified accountants where Opacus expects one of its own, which know what the loader was found to draw."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from opacus.accountants import IAccountant

from tightrope.accountants.certified import BY_DEFAULT, Certified, check_certified
from tightrope.answers.ledger import Ledger
from tightrope.answers.spend import privacy_curve
from tightrope.audit.claims.prove import ProvedBound, drop_lower_end, prove_bound
from tightrope.audit.finding import Finding
from tightrope.audit.steps.checks import CheckedStep, StepTally, StepVerdict
from tightrope.audit.steps.summary import StepsSummary, forget_passes
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import InvalidSetting
from tightrope.integrations.opacus.mismatch import Teller, warn, warn_in_a_box
from tightrope.integrations.opacus.samplings import (
    assume_sampling,
    find_sampling,
    is_accounted,
    is_another_rate,
)
from tightrope.integrations.opacus.shared_noise import count_draws
from tightrope.integrations.opacus.states import (
    STATE_KEY,
    AccountantState,
    RecordedKind,
    count_steps,
    read_state,
)
from tightrope.integrations.opacus.steps import check_step, clips_adaptively
from tightrope.integrations.opacus.waiting import WaitingSteps
from tightrope.integrations.opacus.words import (
    ADAPTIVE_CLIPPING,
    BATCHES_OF_PASSES,
    BY_HAND,
    KIND_IN_WORDS,
    NOT_WATCHED,
    ONE_STEP_EACH,
    REMEDIES,
    TAKE_THE_ENGINE,
    UNTIL_THEN,
    find_step,
    is_off_the_loader,
    say_other_rate,
)
from tightrope.integrations.seeds import UsedSeeds
from tightrope.numerics.text import round_outwards
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import ADD_OR_REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import Poisson, WithoutReplacement
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.other_batchings import SPLIT_NOISE, split_noise

ANY_DELTA = 1e-6  # which theorems a bound rests on does not depend on it


class OpacusAccountant(IAccountant):
    """An accountant of Opacus whose answers are certified: to the last bit those of `tightrope.epsilon`.

    The subclasses at the end of this module fix `kind`, how batches are taken to be drawn, and `relation`,
    who counts as a neighbour. `history` is what Opacus keeps: (noise multiplier, rate, steps). Where the
    loader is known, its own sampling is accounted, also where that is not of this `kind`; each answer says so
    then. Where nothing is proved about the loader, or a step was not taken on a fresh batch of it, epsilon is
    infinite. Without a loader the history is believed; Poisson rates are then those that torch really draws,
    if these are larger.
    """

    name: ClassVar[str]
    kind: ClassVar[type[Poisson] | type[WithoutReplacement]]
    relation: ClassVar[Relation]

    def __init__(self) -> None:
        self._history: list[tuple[float, float, int]] = []
        self._waiting = WaitingSteps(self._record)
        self._drawn: list[Finding | None] = []  # one for each entry of the history
        self._found: Finding | None = None
        self._shared_noise = False  # whether several draws of some step shared its noise
        self.used_seeds = UsedSeeds()
        self._tallies = [StepTally()]  # the first of steps that nobody watched, then one for each loader
        self._resumed_from = StepsSummary()
        self._recorded = count_steps([])  # the steps that are in one of these
        self._teller = Teller()
        self._answered_for: object = None
        self._answers: dict[tuple[float, Certified], ProvedBound] = {}

    @classmethod
    def mechanism(cls) -> str:
        """The name to pass as `PrivacyEngine(accountant=...)`."""
        return cls.name

    @property
    def history(self) -> list[tuple[float, float, int]]:
        """What Opacus keeps: noise multipliers, rates and steps."""
        self._waiting.flush()
        return self._history

    @history.setter
    def history(self, history: list[tuple[float, float, int]]) -> None:
        self._waiting.flush()  # they were taken, whatever the history says
        self._history = history

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    # what is run

    def see_loader(self, finding: Finding, *, opacus_rate: float | None = None) -> None:
        """Account the steps from now on as this loader draws them; warn if that is not what is accounted.

        `opacus_rate` is what Opacus takes for the rate, in `make_private_with_epsilon` and for the expected
        batch size.
        """
        if not isinstance(finding, Finding) or finding.rate_range is not None:
            remedy = "A rate estimated from batches is not the exact one: use tightrope.audit.audit for that."
            raise InvalidSetting("finding", finding, "be what inspect_loader found", remedy)
        self._found = finding = forget_passes(finding, BATCHES_OF_PASSES)
        if not is_accounted(self.kind, finding):
            warn_in_a_box(self._say_mismatch(finding), f"{REMEDIES[self.kind]} {UNTIL_THEN}")
        elif opacus_rate is not None and finding.sampling is not None:
            rate = finding.sampling.rate
            if is_another_rate(self.kind, opacus_rate, rate):
                warn_in_a_box(say_other_rate(opacus_rate, rate), TAKE_THE_ENGINE)

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step on one freshly drawn batch, which nobody saw."""
        self._record(RecordedKind(float(noise_multiplier), float(sample_rate), self._found), 1)
        self._tallies[0].count(CheckedStep(StepVerdict.UNSEEN, why=BY_HAND))

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What Opacus calls at each step, when the gradients are clipped and noisy.

        A step over several accumulated draws is bounded by as many steps that share its noise. Opacus itself
        would multiply the rate instead, as if no record could be drawn twice. After a step that was not taken
        on a fresh batch of the loader nothing is proved.
        """
        finding = self._found
        sampling = None if finding is None else finding.sampling
        rate = float(sample_rate) if sampling is None else sampling.rate
        return self._waiting.hook(
            usual=lambda noise: RecordedKind(noise, rate, finding),
            other=lambda optimizer: self._record_step(optimizer, finding, rate),
        )

    def _record_step(self, optimizer: Any, finding: Finding | None, rate: float) -> None:
        step = check_step(optimizer) or self._count_unwatched()
        draws = count_draws(optimizer, step)
        self._shared_noise |= draws > 1
        drawn = ADAPTIVE_CLIPPING if clips_adaptively(optimizer) else finding
        first_off = find_step(step) if step.verdict is StepVerdict.UNMATCHED else None
        if first_off is not None:
            drawn = next(filter(is_off_the_loader, self._drawn), first_off)
        noise = split_noise(float(optimizer.noise_multiplier), draws)
        self._record(RecordedKind(noise, rate, drawn), draws)
        if first_off is not None and drawn is first_off:
            warn_in_a_box(self._say_mismatch(first_off), ONE_STEP_EACH)

    def tally_steps(self) -> StepTally:
        """Where the steps on the loader that was seen last are counted by those who watch them."""
        self._tallies.append(StepTally(None if self._found is None else self._found.epoch))
        return self._tallies[-1]

    def _count_unwatched(self) -> CheckedStep:
        step = CheckedStep(StepVerdict.UNSEEN, why=NOT_WATCHED)
        self._tallies[0].count(step)
        return step

    @property
    def steps(self) -> StepsSummary:
        """What was seen of the steps: whether each was taken on a fresh batch of the loader."""
        stated = count_steps(self.history)
        # the history was overwritten: steps were added to it, taken from it or given another noise
        by_hand = max((stated - self._recorded).total(), (self._recorded - stated).total())
        unseen = StepsSummary(unseen=by_hand, why=BY_HAND if by_hand else "")
        return sum((tally.summary() for tally in self._tallies), self._resumed_from) + unseen

    def _record(self, kind: RecordedKind, steps: int) -> None:
        noise, rate, finding = kind
        history, drawn = self.history, self._align_findings()
        self._recorded[noise, rate] += steps
        if history and history[-1][:2] == (noise, rate) and drawn[-1] == finding:
            history[-1] = noise, rate, history[-1][2] + steps
        else:
            history.append((noise, rate, steps))
            drawn.append(finding)

    def _align_findings(self) -> list[Finding | None]:
        """A finding for each entry of the history, which Opacus and its users may overwrite."""
        missing = len(self.history) - len(self._drawn)
        if missing > 0:
            self._drawn += [self._found] * missing
        elif missing < 0:
            del self._drawn[missing:]
        return self._drawn

    @property
    def findings(self) -> tuple[Finding | None, ...]:
        """What was found of the loader, for each entry of the history; None where none was seen."""
        return tuple(self._align_findings())

    @property
    def loader(self) -> Finding | None:
        """What was found of the loader of the steps to come."""
        return self._found

    @property
    def run(self) -> Run:
        """Everything recorded, each step with the sampling found or, failing that, the one accounted."""
        parts = zip(self.history, self.findings, strict=True)
        return Run(
            tuple(
                (
                    Step(
                        Gaussian(noise_multiplier=noise),
                        find_sampling(self.kind, rate, found) or assume_sampling(self.kind, rate),
                    ),
                    steps,
                )
                for (noise, rate, steps), found in parts
            )
        )

    def ledger(self) -> Ledger:
        """Everything recorded as a ledger, to be saved or to go on with elsewhere."""
        unproven = next(self._list_unproven(), None)
        if unproven is not None:
            must = f"be {KIND_IN_WORDS[self.kind]} to become a ledger"
            remedy = "There is no sampling to write down: ask epsilon(delta) for what is proved."
            raise InvalidSetting("run", unproven.sentence, must, remedy)
        ledger = Ledger(relation=self.relation)
        ledger.record(self.run)
        return ledger

    def _list_unproven(self) -> Iterator[Finding]:
        """The distinct findings that leave some step without a sampling."""
        pairs = zip(self.history, self.findings, strict=True)
        yield from dict.fromkeys(
            f for (_, rate, _), f in pairs if f and find_sampling(self.kind, rate, f) is None
        )

    # what it costs

    def get_epsilon(self, delta: float, **options: Any) -> float:
        """The smallest epsilon that is certain to hold at `delta`; `by` may be passed as to `epsilon`."""
        for name in options.keys() - {"by"}:
            remedy = (
                "The accountant {!r} knows by=Certified(...) only. make_private_with_epsilon passes all its "
                "further options here: if this one is for the optimizer, find the noise by "
                "opacus.accountants.utils.get_noise_multiplier, then call make_private."
            )
            raise InvalidSetting(name, options[name], "be left out", remedy.format(self.name))
        return self.epsilon(delta, **options).upper

    def epsilon(self, delta: float, *, by: Certified = BY_DEFAULT) -> Bracket:
        """Both ends: the guarantee above, and below what real neighbouring datasets reach."""
        found = self._prove(delta, check_certified(by))
        spent = drop_lower_end(found.epsilon, by) if self._is_a_bound() else found.epsilon
        mismatch = self._first_mismatch()
        if self._found is not None:
            self._teller.tell(self.steps)
        if mismatch is not None:
            is_bounded = math.isfinite(spent.upper)
            most = f"at most {round_outwards(spent.upper, 4, up=True)}" if is_bounded else "infinite"
            why = f": {found.why_not.removesuffix('.')}" if found.why_not else ""
            why += f", provided that {found.provided}" if found.provided else ""
            warn(f"{self._say_mismatch(mismatch)} What is proved: epsilon is {most} at delta {delta:g}{why}.")
        return replace(spent, conditions=(*spent.conditions, *self.steps.conditions))

    def get_delta(self, epsilon: float) -> float:
        """The smallest delta that is certain to hold at `epsilon`; 1 where the batches have no curve."""
        mismatch = self._first_mismatch()
        if mismatch is not None:
            warn(self._say_mismatch(mismatch))
        return self._curve().delta(epsilon).upper if self._has_curve() else 1.0

    @property
    def because(self) -> tuple[Evidence, ...]:
        """The theorems that the answers rest on; none where nothing is proved."""
        if not self._has_curve():
            return self._prove(ANY_DELTA, BY_DEFAULT).because
        rests_on = tuple(evidence for evidence in self._curve().because if isinstance(evidence, Evidence))
        return (*rests_on, SPLIT_NOISE) if self._shared_noise else rests_on

    def _curve(self, by: Certified = BY_DEFAULT) -> PrivacyCurve:
        return privacy_curve(self.run, relation=self.relation, by=by)

    def _prove(self, delta: float, by: Certified) -> ProvedBound:
        history = tuple(self.history), self.findings, self.steps
        if history != self._answered_for:
            self._answers.clear()
            self._answered_for = history
        if (delta, by) not in self._answers:
            self._answers[delta, by] = self._compute(delta, by)
        return self._answers[delta, by]

    def _compute(self, delta: float, by: Certified) -> ProvedBound:
        if self._has_curve():
            return ProvedBound(epsilon=self._curve(by).epsilon(delta))
        why_not = ""
        unproven = list(self._list_unproven())
        if self._has_noiseless_step():
            why_not = "some steps added no noise"
        elif any(map(is_off_the_loader, unproven)):
            why_not = "nothing is known of what that step was taken on"
        elif len(set(self.findings)) > 1 or any(finding.sampling is not None for finding in unproven):
            why_not = "loaders of which one has no sampling have no bound together"
        if why_not:
            return ProvedBound(epsilon=Bracket(0.0, math.inf), why_not=why_not)
        epochs = self._count_epochs()
        return prove_bound(self.run, unproven[0], delta=delta, relation=self.relation, by=by, epochs=epochs)

    def _count_epochs(self) -> int:
        """In how many epochs steps were taken: as many as there are steps, unless every step was seen."""
        steps = self.steps
        return len(self) if steps.unseen or steps.unmatched else max(steps.epochs, 1)

    def _has_curve(self) -> bool:
        return not any(self._list_unproven()) and not self._has_noiseless_step()

    def _has_noiseless_step(self) -> bool:
        return any(noise == 0 for noise, _, _ in self.history)

    @property
    def only_bounds(self) -> bool:
        """Whether what is recorded only bounds what was run, or depends on how often training was resumed."""
        return self._is_a_bound() or any(self._has_cut_passes(found.epoch) for found in self._list_unproven())

    def _has_cut_passes(self, epoch: int | None) -> bool:
        """Whether passes of so many batches were, or may have been, broken off before the last one."""
        return epoch is not None and self._count_epochs() > -(-len(self) // epoch)

    def _is_a_bound(self) -> bool:
        """Whether the accounted steps are worse than those that were run: then no lower end is attained."""
        pairs = zip(self.history, self.findings, strict=True)
        by_hand = any(f and f.sampling is not None and f.sampling.rate != rate for (_, rate, _), f in pairs)
        return self._shared_noise or by_hand

    def _first_mismatch(self) -> Finding | None:
        return next((found for found in self.findings if found and not is_accounted(self.kind, found)), None)

    def _say_mismatch(self, finding: Finding) -> str:
        return f"The accountant {self.name!r} is for {KIND_IN_WORDS[self.kind]}. {finding.sentence}"

    def state_dict(self, destination: Any = None) -> Any:
        """What Opacus saves, and what was found of the loader of each entry of the history."""
        state = super().state_dict(destination)
        state[STATE_KEY] = AccountantState(
            drawn=self.findings, steps=self.steps, shared_noise=self._shared_noise
        ).plain(self.relation.name)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the place of the accountant that wrote the state, which must be of the same name.

        The loader of this accountant, if it saw one, is that of the steps to come.
        """
        state = read_state(state_dict)
        super().load_state_dict(state_dict)
        self.history = [(noise, rate, steps) for noise, rate, steps in self.history]
        self._drawn = list(state.drawn)
        self._shared_noise = state.shared_noise
        self._resumed_from, self._recorded = state.steps, count_steps(self.history)
        for tally in self._tallies:
            tally.clear()
        self._answered_for = None


def _subclass(
    class_name: str, name: str, kind: type[Poisson] | type[WithoutReplacement], relation: Relation
) -> type[OpacusAccountant]:
    about = f"`PrivacyEngine(accountant={name!r})`: {KIND_IN_WORDS[kind]}, {relation.meaning}."
    # Opacus makes accountants by name and without arguments, so that each setting is a class; pickling needs
    # __module__.
    fixed = {"name": name, "kind": kind, "relation": relation, "__doc__": about, "__module__": __name__}
    return type(class_name, (OpacusAccountant,), fixed)


PoissonAccountant = _subclass("PoissonAccountant", "tightrope", Poisson, ADD_OR_REMOVE)
PoissonSubstituteAccountant = _subclass(
    "PoissonSubstituteAccountant", "tightrope-substitute", Poisson, SUBSTITUTE
)
WithoutReplacementAccountant = _subclass(
    "WithoutReplacementAccountant", "tightrope-wor", WithoutReplacement, ADD_OR_REMOVE
)
WithoutReplacementSubstituteAccountant = _subclass(
    "WithoutReplacementSubstituteAccountant", "tightrope-wor-substitute", WithoutReplacement, SUBSTITUTE
)
