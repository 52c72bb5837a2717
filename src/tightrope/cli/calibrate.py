"""tightrope noise, steps and rate: the value that meets a privacy target, to be typed as it is printed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal

from cyclopts import Parameter

from tightrope.accountants.certified import DEFAULT_ACCURACY, effort_matters
from tightrope.answers.calibrate import Calibration, largest_batch, largest_rate, most_steps, smallest_noise
from tightrope.answers.frontier import V
from tightrope.answers.target import Target
from tightrope.cli.options import (
    ANSWER,
    QUESTION,
    Accuracy,
    Json,
    MechanismOptions,
    Number,
    Population,
    SamplingOptions,
    StepOptions,
    Steps,
    WhichEffort,
    WhichMechanism,
    WhichRelation,
    WhichSampling,
    refuse,
    require,
)
from tightrope.cli.show import (
    Fact,
    Object,
    answer_cells,
    bracket_object,
    mechanism_object,
    number_object,
    print_json,
    relation_object,
    round_outwards,
    sampling_object,
    show_evidence,
    why_object,
)
from tightrope.cli.terminal import Page, watch_rounds
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.report.digits import ends
from tightrope.report.words import mechanism_in_words, relation_in_words, sampling_in_words
from tightrope.setting.effort import Effort, meaning_of
from tightrope.setting.mechanism import Gaussian, Laplace
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import Poisson
from tightrope.setting.spelling import RELATION_SPELLINGS

ASKED_FOR = "asked for"


@Parameter(name="*", group=ANSWER)
@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The options that state the privacy to reach, and how exactly that is checked."""

    relation: WhichRelation
    epsilon: Annotated[float, Number, Parameter(help="Privacy loss that is accepted.")]
    delta: Annotated[float, Number, Parameter(help="Failure probability that is accepted.")]
    accuracy: Accuracy = DEFAULT_ACCURACY
    effort: WhichEffort = "quick"

    @property
    def neighbours(self) -> Relation:
        """The relation that was named."""
        return RELATION_SPELLINGS[self.relation]

    @property
    def how_hard(self) -> Effort:
        """The effort that was named."""
        return Effort(self.effort)

    @property
    def asked(self) -> dict[str, Any]:
        """What every calibration takes."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": self.neighbours,
            "accuracy": self.accuracy,
            "effort": self.how_hard,
        }


@dataclass(frozen=True, kw_only=True)
class OpenQuestion:
    """A question with a blank, in words and as JSON, where the blank is null; `option` is what to type for it."""

    option: str
    name: str
    words: Sequence[Fact]
    stated: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Found(Generic[V]):
    """The value that was found, and the number to type for it: short, on the safe side, verified by its own curve."""

    found: Calibration[V]
    text: str
    typed: V
    curve: PrivacyCurve
    epsilon: Bracket
    delta: Bracket

    @staticmethod
    def exact(found: Calibration[V]) -> "Found[V]":
        """The value with all its digits."""
        text = str(found.value)
        return Found(found=found, text=text, typed=found.value, **_read(found.curve, found.target))

    @staticmethod
    def rounded(found: Calibration[float], run: Callable[[float], Run], *, up: bool) -> "Found[float]":
        """The value to six digits, rounded `up` or down; with all digits where the rounded one misses the target."""
        text = round_outwards(found.value, up=up)
        typed = float(text)
        curve = found.target.verified(run(typed), found.curve.accuracy)
        if curve is None:
            return Found.exact(found)
        return Found(found=found, text=text, typed=typed, **_read(curve, found.target))

    @property
    def missing(self) -> str | None:
        """What certainly misses the target, rounded further away: more risk never costs less. None at a limit."""
        beyond = self.found.beyond
        if beyond is None or isinstance(beyond, int):
            return beyond if beyond is None else str(beyond)
        return round_outwards(beyond, up=beyond > self.found.value)

    @property
    def how_close(self) -> str:
        """How far the best possible value can be from the number to type, in words."""
        if self.missing is None:
            return "It is the limit of what can be set: nothing beyond it could miss the target."
        if isinstance(self.found.beyond, int) and self.found.beyond == self.found.value + 1:
            return "It is the best possible value: the next one misses the target."
        away = abs(float(self.missing) - self.typed) / self.typed if self.typed else math.inf
        away_text = round_outwards(away, up=True, digits=2)
        return f"The best possible value is at most {away_text} away, relative to this one."


def _read(curve: PrivacyCurve, target: Target) -> dict[str, Any]:
    """A curve with what it says at the target, asked while the asking is watched."""
    return {"curve": curve, "epsilon": curve.epsilon(target.delta), "delta": curve.delta(target.epsilon)}


@Parameter(name="*", group=QUESTION)
@dataclass(frozen=True, kw_only=True)
class NoiseOptions(SamplingOptions):
    """Everything about a run but its noise."""

    mechanism: Annotated[Literal["gaussian", "laplace"], WhichMechanism] = "gaussian"
    steps: Steps


def noise(question: NoiseOptions, target: TargetOptions, *, json: Json = False) -> None:
    """Find the smallest noise multiplier with which the run is (epsilon, delta)-private."""
    sampling, kind = question.stated_sampling, Gaussian if question.mechanism == "gaussian" else Laplace
    asked = OpenQuestion(
        option="--noise",
        name="smallest noise multiplier",
        words=[
            ("mechanism", f"{question.mechanism}, its noise multiplier (noise scale / C) is {ASKED_FOR}"),
            ("sampling", sampling_in_words(sampling)),
            ("steps", str(question.steps)),
        ],
        stated={
            "mechanism": {"kind": question.mechanism, "noise_multiplier": None},
            "sampling": sampling_object(sampling),
            "steps": question.steps,
        },
    )
    with watch_rounds() as progress:
        found = smallest_noise(
            sampling, steps=question.steps, mechanism=kind, progress=progress, **target.asked
        )
        answer = Found.rounded(
            found, lambda noise: Step(kind(noise_multiplier=noise), sampling) * question.steps, up=True
        )
    _print_found(answer, asked, target, json=json)


def steps(question: StepOptions, target: TargetOptions, *, json: Json = False) -> None:
    """Find how many steps are (epsilon, delta)-private together."""
    step = question.step
    asked = OpenQuestion(
        option="--steps",
        name="most steps",
        words=[
            ("mechanism", mechanism_in_words(step.mechanism)),
            ("sampling", sampling_in_words(step.sampling)),
            ("steps", ASKED_FOR),
        ],
        stated={
            "mechanism": mechanism_object(step.mechanism),
            "sampling": sampling_object(step.sampling),
            "steps": None,
        },
    )
    with watch_rounds() as progress:
        answer = Found.exact(most_steps(step, progress=progress, **target.asked))
    _print_found(answer, asked, target, json=json)


@Parameter(name="*", group=QUESTION)
@dataclass(frozen=True, kw_only=True)
class RateOptions(MechanismOptions):
    """Everything about a run but its rate."""

    sampling: Annotated[Literal["poisson", "without-replacement"], WhichSampling]
    population: Population = None
    steps: Steps

    def open(self, option: str, name: str, words: str, **sampling: int | None) -> OpenQuestion:
        """The question, given what is known about the sampling."""
        mechanism = self.stated_mechanism
        return OpenQuestion(
            option=option,
            name=name,
            words=[
                ("mechanism", mechanism_in_words(mechanism)),
                ("sampling", f"{self.sampling}, {words} is {ASKED_FOR}"),
                ("steps", str(self.steps)),
            ],
            stated={
                "mechanism": mechanism_object(mechanism),
                "sampling": {"kind": self.sampling, **sampling, "rate": None},
                "steps": self.steps,
            },
        )


def rate(question: RateOptions, target: TargetOptions, *, json: Json = False) -> None:
    """Find the largest sampling rate, or batch without replacement, with which the run is (epsilon, delta)-private."""
    (_find_rate if question.sampling == "poisson" else _find_batch)(question, target, json=json)


def _find_rate(question: RateOptions, target: TargetOptions, *, json: bool) -> None:
    refuse("--sampling poisson", "draws from any population: leave it out", population=question.population)
    mechanism = question.stated_mechanism
    found = largest_rate(mechanism, steps=question.steps, **target.asked)
    answer = Found.rounded(found, lambda rate: Step(mechanism, Poisson(rate=rate)) * question.steps, up=False)
    words = "the probability with which each record joins each batch"
    _print_found(answer, question.open("--rate", "largest rate", words), target, json=json)


def _find_batch(question: RateOptions, target: TargetOptions, *, json: bool) -> None:
    of, example = "--sampling without-replacement", "for example --population 60000"
    population = require(of, example, population=question.population)
    mechanism = question.stated_mechanism
    with watch_rounds() as progress:
        found = largest_batch(
            mechanism, population=population, steps=question.steps, progress=progress, **target.asked
        )
        answer = Found.exact(found)
    words = f"the size of a batch out of {population} records"
    asked = question.open("--batch", "largest batch", words, batch=None, population=population)
    _print_found(answer, asked, target, also={"rate": found.value / population}, json=json)


def _print_found(
    answer: Found[V],
    asked: OpenQuestion,
    target: TargetOptions,
    *,
    also: Mapping[str, float] | None = None,
    json: bool,
) -> None:
    """Print the question, the value with what it spends and means, how close the other side is, and the evidence."""
    meanings = also or {}
    if json:
        print_json(_found_object(answer, asked, target, meanings))
        return
    at = (f"{target.epsilon:.12g}", f"{target.delta:.12g}")
    delta = answer_cells(answer.delta, answer.curve.log_delta(target.epsilon))
    rows: list[list[str]] = [
        ["meets the target", answer.text, f"[{', '.join(ends(answer.epsilon))}]", f"[{', '.join(delta)}]"]
    ]
    if answer.missing is not None:
        rows.append(["misses it", answer.missing, f"above {at[0]}", f"above {at[1]}"])
    facts = [*asked.words, ("relation", relation_in_words(target.neighbours))]
    facts.append(("target", f"epsilon at most {at[0]} at delta {at[1]}"))
    if effort_matters(answer.found.run, target.neighbours):
        facts.append(("effort", meaning_of(target.how_hard)))
    facts.append(("accuracy", f"{answer.curve.accuracy:.2g} relative width in delta, asked for"))
    page = Page()
    page.facts(facts)
    page.table([["", asked.name, f"epsilon at delta {at[1]}", f"delta at epsilon {at[0]}"], *rows])
    meant = "".join(f" ({key} {value:.6g})" for key, value in meanings.items())
    page.heading(f"{asked.option} {answer.text}{meant} is safe to type.")
    page.line(answer.how_close, indent=2)
    show_evidence(page, answer.curve)


def _found_object(
    answer: Found[V], asked: OpenQuestion, target: TargetOptions, also: Mapping[str, float]
) -> Object:
    found, relation = answer.found, relation_object(target.neighbours)
    how = {"accuracy": target.accuracy, "effort": target.effort, "relation": relation}
    return {
        "question": {**asked.stated, **how},
        "target": {"epsilon": target.epsilon, "delta": target.delta},
        "parameter": found.parameter,
        "value": found.value,
        "beyond": found.beyond,
        "gap": number_object(found.gap),
        "rounded": answer.typed,
        **also,
        "at_value": _spent(found.curve, target),
        "at_rounded": _spent(answer.curve, target),
        **why_object(answer.curve),
    }


def _spent(curve: PrivacyCurve, target: TargetOptions) -> Object:
    return {
        "epsilon": bracket_object(curve.epsilon(target.delta)),
        "delta": bracket_object(curve.delta(target.epsilon)),
    }
