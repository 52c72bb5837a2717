"""Certified accountants where Opacus expects one of its own, which know what the loader was found to draw."""

import math
import sys
import textwrap
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from tightrope.accountants.certified import Certified
from tightrope.answers.ledger import Ledger
from tightrope.answers.spend import BY_DEFAULT, privacy_curve
from tightrope.audit.claims.proven import Proven, proven
from tightrope.audit.finding import Finding, Scheme
from tightrope.audit.loaders.rates import float32_rate, rate_torch_runs
from tightrope.curve.bracket import Bracket, round_to
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import InvalidSetting
from tightrope.integrations.opacus.findings import (
    ADAPTIVE_CLIPPING,
    clips_adaptively,
    finding_of,
)
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import ADD_OR_REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, WithoutReplacement
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.other_batchings import SPLIT_NOISE, split_noise

try:
    from opacus.accountants import IAccountant
except ModuleNotFoundError as missing:
    raise ImportError(
        "tightrope.integrations.opacus needs Opacus 1.6 or newer: pip install 'tightrope[opacus]'"
    ) from missing

STATE_KEY, STATE_VERSION = "tightrope", 1
ANY_DELTA = 1e-6  # which theorems a bound rests on does not depend on it
BOX_WIDTH = 100
UNACCOUNTED_RATE = (
    0.01  # relative difference from the rate Opacus takes that is worth a word where it is on the safe side
)


class SamplerMismatch(UserWarning):
    """The loader does not draw its batches as the accountant accounts them."""


@dataclass(frozen=True)
class Question:
    """What is asked of the history as it is now."""

    at: float
    by: Certified


class TightropeAccountant(IAccountant):
    """An accountant of Opacus whose answers are certified, to the last digit those of `tightrope.epsilon`.

    The subclasses at the end of this module fix `kind`, how batches are taken to be drawn, and `relation`, who counts as a
    neighbour. `history` is what Opacus keeps: (noise multiplier, rate, steps). Where the loader is known its own sampling is
    accounted, also where that is not of this `kind`, which is said each time; where nothing is proved about it, epsilon is
    infinite. Without a loader the history is believed; Poisson rates are then those that torch really draws, if these are
    larger.
    """

    name: ClassVar[str]
    kind: ClassVar[type[Poisson] | type[WithoutReplacement]]
    relation: ClassVar[Relation]

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []
        self._drawn: list[Finding | None] = []  # one for each entry of the history
        self._found: Finding | None = None
        self._shared_noise = False  # whether several draws of some step shared its noise
        self._starts = 0  # how often training began with a new pass over a loader
        self._answered_for: object = None
        self._answers: dict[Question, Proven] = {}

    @classmethod
    def mechanism(cls) -> str:
        """The name to pass as `PrivacyEngine(accountant=...)`."""
        return cls.name

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    # what is run

    def saw(self, finding: Finding, *, opacus_rate: float | None = None) -> None:
        """Account the steps from now on as drawn by a loader of which this was found; warns if that is not what is accounted.

        `opacus_rate` is what Opacus takes for the rate, in `make_private_with_epsilon` and for the expected batch size.
        """
        if not isinstance(finding, Finding) or finding.rate_range is not None:
            raise InvalidSetting(
                f"finding must be what inspect_loader found, got {finding!r}. "
                "A rate that was estimated from batches is not the exact one: use tightrope.audit.audit for that."
            )
        self._found = finding
        self._starts += 1
        if not self._accounts(finding):
            _warn_in_a_box(self._mismatch(finding), f"What to do: {REMEDIES[self.kind]} {UNTIL_THEN}")
        elif (
            opacus_rate is not None
            and finding.sampling is not None
            and self._is_unlike(opacus_rate, finding.sampling.rate)
        ):
            _warn_in_a_box(
                f"Opacus takes {opacus_rate:.6g}, one by the length of the loader, for the sampling rate; that of this loader "
                f"is {finding.sampling.rate:.6g}. Epsilon is accounted at the latter. The expected batch size, and the noise if "
                "make_private_with_epsilon chose it, are made for the former.",
                "What to do: use tightrope.integrations.opacus.TightropeEngine, which takes both from the sampler.",
            )

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step on one freshly drawn batch."""
        self._record(float(noise_multiplier), float(sample_rate), 1, self._found)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What Opacus calls after each step.

        A step over several accumulated draws is bounded by as many steps that share its noise. Opacus itself would multiply
        the rate instead, as if no record could be drawn twice.
        """
        finding = self._found
        rate = (
            finding.sampling.rate
            if finding is not None and finding.sampling is not None
            else float(sample_rate)
        )

        def record(optimizer: Any) -> None:
            draws = optimizer.accumulated_iterations
            self._shared_noise |= draws > 1
            drawn = ADAPTIVE_CLIPPING if clips_adaptively(optimizer) else finding
            self._record(split_noise(float(optimizer.noise_multiplier), draws), rate, draws, drawn)

        return record

    def _record(self, noise: float, rate: float, steps: int, finding: Finding | None) -> None:
        drawn = self._aligned()
        if (
            self.history
            and self.history[-1][:2] == (noise, rate)
            and (drawn[-1] is finding or drawn[-1] == finding)
        ):
            self.history[-1] = noise, rate, self.history[-1][2] + steps
        else:
            self.history.append((noise, rate, steps))
            drawn.append(finding)

    def _aligned(self) -> list[Finding | None]:
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
        return tuple(self._aligned())

    @property
    def run(self) -> Run:
        """Everything recorded, each step with the sampling that was found or, where that is none, the one accounted."""
        return Run(
            tuple(
                (
                    Step(
                        Gaussian(noise_multiplier=noise), self._sampling(rate, finding) or self._stated(rate)
                    ),
                    steps,
                )
                for (noise, rate, steps), finding in zip(self.history, self._aligned(), strict=True)
            )
        )

    def ledger(self) -> Ledger:
        """Everything recorded as a ledger, to be saved or to go on with elsewhere."""
        unproven = self._unproven()
        if unproven:
            raise InvalidSetting(
                f"a ledger would state {_in_words(self.kind)}, but that is not what was run. {unproven[0].sentence} "
                "There is no sampling to write down: ask epsilon(delta) for what is proved."
            )
        ledger = Ledger(relation=self.relation)
        ledger.record(self.run)
        return ledger

    def _stated(self, rate: float) -> Sampling:
        if self.kind is Poisson:
            truly = rate_torch_runs(rate)
            # nobody saw the loader: never below the rate that was told, should torch round it down
            return Poisson(rate=max(rate, float32_rate(rate) if truly is None else truly))
        exact = Fraction(
            repr(rate)
        )  # the fraction that was meant: 0.001 is 1/1000, not the nearest binary fraction
        return WithoutReplacement(batch=exact.numerator, population=exact.denominator)

    def _sampling(self, rate: float, finding: Finding | None) -> Sampling | None:
        """How the steps of an entry were drawn; None where that is no sampling that can be accounted."""
        if finding is None:
            return self._stated(rate)
        if finding.sampling is None or finding.sampling.rate == rate:
            return finding.sampling
        # recorded by hand at another rate than the loader's: the larger one is safe, if they are of one kind
        return (
            max(self._stated(rate), finding.sampling, key=lambda s: s.rate)
            if self._accounts(finding)
            else None
        )

    def _accounts(self, finding: Finding) -> bool:
        return isinstance(finding.sampling, self.kind | EveryRecord)

    def _is_unlike(self, opacus_rate: float, found: float) -> bool:
        stated = self._stated(opacus_rate).rate
        return found > stated * (1 + 1e-9) or found < stated * (1 - UNACCOUNTED_RATE)

    def _unproven(self) -> list[Finding]:
        """The distinct findings that leave some step without a sampling."""
        pairs = zip(self.history, self._aligned(), strict=True)
        return list(
            dict.fromkeys(f for (_, rate, _), f in pairs if f is not None and self._sampling(rate, f) is None)
        )

    # what it costs

    def get_epsilon(self, delta: float, **wanted: Any) -> float:
        """The smallest epsilon that is certain to hold at `delta`; `accuracy` and `effort` may be passed as to `epsilon`."""
        for name in wanted:
            if name != "by":
                raise InvalidSetting(
                    f"{name} is not an option of the accountant {self.name!r}, got {name}={wanted[name]!r}. Known is by=Certified(...). "
                    "make_private_with_epsilon passes all its further options here: if this one is for the "
                    "optimizer, find the noise by opacus.accountants.utils.get_noise_multiplier, then call make_private."
                )
        return self.epsilon(delta, **wanted).upper

    def epsilon(self, delta: float, *, by: Certified = BY_DEFAULT) -> Bracket:
        """Both ends: the guarantee above, and below what real neighbouring datasets reach.

        The effort of `by` matters for batches without replacement under SUBSTITUTE only, as in `tightrope.epsilon`.
        """
        found = self._proven(Question(delta, by))
        spent = Bracket(0.0, found.epsilon.upper) if self._is_only_bounded() else found.epsilon
        mismatches = self._mismatches()
        if mismatches:
            at_most = (
                f"at most {round_to(spent.upper, 4, down=False)}"
                if math.isfinite(spent.upper)
                else "infinite"
            )
            why = f": {found.why_not.removesuffix('.')}" if found.why_not else ""
            why += f", provided that {found.provided}" if found.provided else ""
            _warn(
                f"{self._mismatch(mismatches[0])} What is proved: epsilon is {at_most} at delta {delta:g}{why}."
            )
        return spent

    def get_delta(self, epsilon: float) -> float:
        """The smallest delta that is certain to hold at `epsilon`; 1 where the loader draws in a way that has no curve."""
        mismatches = self._mismatches()
        if mismatches:
            _warn(self._mismatch(mismatches[0]))
        if self._unproven() or self._has_noiseless_step():
            return 1.0
        return self._curve().delta(epsilon).upper

    @property
    def because(self) -> tuple[Evidence, ...]:
        """The theorems that the answers rest on; none where nothing is proved."""
        if self._unproven() or self._has_noiseless_step():
            return self._proven(Question(ANY_DELTA, BY_DEFAULT)).because
        rests_on = tuple(evidence for evidence in self._curve().because if isinstance(evidence, Evidence))
        return (*rests_on, SPLIT_NOISE) if self._shared_noise else rests_on

    def _curve(self, by: Certified = BY_DEFAULT) -> PrivacyCurve:
        return privacy_curve(self.run, relation=self.relation, by=by)

    def _proven(self, question: Question) -> Proven:
        history = tuple(self.history), tuple(self._aligned()), self._starts
        if history != self._answered_for:
            self._answers.clear()
            self._answered_for = history
        if question not in self._answers:
            self._answers[question] = self._answer(question)
        return self._answers[question]

    def _answer(self, question: Question) -> Proven:
        unproven = self._unproven()
        if self._has_noiseless_step():
            return Proven(epsilon=Bracket(0.0, math.inf), why_not="some steps added no noise")
        if not unproven:
            return Proven(epsilon=self._curve(question.by).epsilon(question.at))
        if len(set(self._aligned())) > 1 or any(finding.sampling is not None for finding in unproven):
            return Proven(
                epsilon=Bracket(0.0, math.inf),
                why_not="loaders of which one has no sampling have no bound together",
            )
        return proven(
            self.run,
            unproven[0],
            delta=question.at,
            relation=self.relation,
            by=question.by,
            starts=max(self._starts, 1),
        )

    @property
    def only_bounds(self) -> bool:
        """Whether what is recorded bounds what was run and is not it, or hangs on how often training was resumed."""
        return self._is_only_bounded() or (self._starts > 1 and bool(self._unproven()))

    def _is_only_bounded(self) -> bool:
        """Whether the steps that are accounted are worse than those that were run: then no lower end is attained."""
        pairs = zip(self.history, self._aligned(), strict=True)
        by_hand = any(
            f is not None and f.sampling is not None and f.sampling.rate != rate for (_, rate, _), f in pairs
        )
        return self._shared_noise or by_hand

    def _has_noiseless_step(self) -> bool:
        return any(noise == 0 for noise, _, _ in self.history)

    def _mismatches(self) -> list[Finding]:
        return list(
            dict.fromkeys(
                found for found in self._aligned() if found is not None and not self._accounts(found)
            )
        )

    def _mismatch(self, finding: Finding) -> str:
        return f"The accountant {self.name!r} is for {_in_words(self.kind)}. {finding.sentence}"

    # checkpoints

    def state_dict(self, destination: Any = None) -> Any:
        """What Opacus saves, and what was found of the loader of each entry of the history."""
        state = super().state_dict(destination)
        plain = [None if finding is None else finding.plain() for finding in self._aligned()]
        state[STATE_KEY] = {
            "version": STATE_VERSION,
            "relation": self.relation.name,
            "drawn": plain,
            "shared_noise": self._shared_noise,
            "starts": self._starts,
        }
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the place of the accountant that wrote the state, which must be of the same name.

        The loader of this accountant, if it saw one, is that of the steps to come.
        """
        ours = state_dict.get(STATE_KEY) if state_dict else None
        if ours is not None and ours.get("version") != STATE_VERSION:
            raise InvalidSetting(
                f"version in the state must be {STATE_VERSION}, got {ours.get('version')!r}. "
                "Use the tightrope that wrote it, or a later one."
            )
        drawn = [None if plain is None else finding_of(plain) for plain in ours["drawn"]] if ours else None
        super().load_state_dict(state_dict)
        self.history = [(noise, rate, steps) for noise, rate, steps in self.history]
        self._drawn = [None] * len(self.history) if drawn is None else drawn
        self._shared_noise = bool(ours and ours["shared_noise"])
        self._starts += int(ours["starts"]) if ours else 0  # what resumes begins with a new pass
        self._answered_for = None


REMEDIES: dict[type[Sampling], str] = {
    Poisson: "leave out poisson_sampling=False and rand_on_empty=True, so that Opacus draws plain Poisson batches, or use "
    "TightropeEngine with a PoissonSampler.",
    WithoutReplacement: "use TightropeEngine with a WithoutReplacementSampler, or pass poisson_sampling=False with a loader "
    "that draws every batch afresh.",
}
UNTIL_THEN = "Until then get_epsilon returns only what is proved for this loader, which may be infinite."


def _in_words(kind: type[Sampling]) -> str:
    scheme = Scheme.POISSON if kind is Poisson else Scheme.WITHOUT_REPLACEMENT
    return str(scheme.value)


def _warn(message: str) -> None:
    # not only a warning: one filter over all warnings, as notebooks and trainers set, would hide that epsilon is another one
    print(f"SamplerMismatch: {message}", file=sys.stderr)
    warnings.warn(message, SamplerMismatch, stacklevel=3)


def _warn_in_a_box(message: str, remedy: str) -> None:
    lines = [
        line for part in ("SAMPLER MISMATCH", message, remedy) for line in textwrap.wrap(part, BOX_WIDTH)
    ]
    edge = "+" + "-" * (BOX_WIDTH + 2) + "+"
    print("\n".join([edge, *(f"| {line:<{BOX_WIDTH}} |" for line in lines), edge]), file=sys.stderr)
    warnings.warn(message, SamplerMismatch, stacklevel=3)


ACCOUNTANTS: tuple[tuple[str, str, type[Poisson] | type[WithoutReplacement], Relation], ...] = (
    ("PoissonAccountant", "tightrope", Poisson, ADD_OR_REMOVE),
    ("PoissonSubstituteAccountant", "tightrope-substitute", Poisson, SUBSTITUTE),
    ("WithoutReplacementAccountant", "tightrope-wor", WithoutReplacement, ADD_OR_REMOVE),
    ("WithoutReplacementSubstituteAccountant", "tightrope-wor-substitute", WithoutReplacement, SUBSTITUTE),
)


def _subclass(
    class_name: str, name: str, kind: type[Poisson] | type[WithoutReplacement], relation: Relation
) -> type[TightropeAccountant]:
    about = f"`PrivacyEngine(accountant={name!r})`: {_in_words(kind)}, {relation.meaning}."
    # Opacus makes accountants by name and without arguments, so that each setting is a class; with __module__ it is pickled
    fixed = {"name": name, "kind": kind, "relation": relation, "__doc__": about, "__module__": __name__}
    return type(class_name, (TightropeAccountant,), fixed)


(
    PoissonAccountant,
    PoissonSubstituteAccountant,
    WithoutReplacementAccountant,
    WithoutReplacementSubstituteAccountant,
) = (_subclass(*row) for row in ACCOUNTANTS)
