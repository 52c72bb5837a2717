"""tightrope noise, steps and rate: the value that meets a privacy target, to be typed as it is printed."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, Literal

from cyclopts import Parameter

from tightrope.accountants.certified import Certified
from tightrope.answers.calibrate import Calibration, largest_batch, largest_rate, most_steps, smallest_noise
from tightrope.answers.frontier import V
from tightrope.answers.target import Target
from tightrope.cli import options as opt
from tightrope.cli import show
from tightrope.cli.terminal import Page, watch_rounds
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.report.digits import ends
from tightrope.report.words import mechanism_in_words, relation_in_words, sampling_in_words
from tightrope.setting.effort import Effort
from tightrope.setting.mechanism import Gaussian, Laplace, Mechanism
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import Poisson, Sampling

ASKED_FOR = "asked for"


@Parameter(name="*", group=opt.ANSWER)
@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The options that state the privacy to reach, and how exactly that is checked."""

    relation: opt.WhichRelation
    epsilon: Annotated[float, opt.Number, opt.about("Privacy loss that is accepted.")]
    delta: Annotated[float, opt.Number, opt.about("Failure probability that is accepted.")]
    accuracy: opt.Accuracy = Certified.accuracy
    effort: opt.WhichEffort = "quick"

    @property
    def neighbours(self) -> Relation:
        """The relation that was named."""
        return as_relation(self.relation)

    @property
    def by(self) -> Certified:
        """The accountant that checks it."""
        return Certified(accuracy=self.accuracy, effort=Effort(self.effort))

    @property
    def asked(self) -> dict[str, Any]:
        """What every calibration takes."""
        return {"epsilon": self.epsilon, "delta": self.delta, "relation": self.neighbours, "by": self.by}


Said = tuple[str, Any]  # in words, and as JSON


@dataclass(frozen=True)
class OpenQuestion:
    """A question with a blank (null in JSON); `option` is what to type for it."""

    option: str
    name: str
    mechanism: Said
    sampling: Said
    steps: Said

    @property
    def facts(self) -> list[show.Fact]:
        """The question in words."""
        return [(name, getattr(self, name)[0]) for name in ("mechanism", "sampling", "steps")]

    @property
    def stated(self) -> show.Object:
        """The question as JSON."""
        return {name: getattr(self, name)[1] for name in ("mechanism", "sampling", "steps")}


def _say_mechanism(mechanism: Mechanism) -> Said:
    return mechanism_in_words(mechanism), show.mechanism_object(mechanism)


def _say_sampling(sampling: Sampling) -> Said:
    return sampling_in_words(sampling), show.sampling_object(sampling)


@dataclass(frozen=True, kw_only=True)
class Found(Generic[V]):
    """The value that was found, and the number to type for it: short, safe, verified by its own curve."""

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
        """The value to six digits, rounded `up` or down; with all digits where that misses the target."""
        text = show.round_outwards(found.value, up=up)
        typed = float(text)
        curve = found.target.verify(run(typed), found.curve.accuracy)
        if curve is None:
            return Found.exact(found)
        return Found(found=found, text=text, typed=typed, **_read(curve, found.target))

    @property
    def missing(self) -> str | None:
        """What certainly misses the target, rounded further away; None at a limit."""
        beyond = self.found.beyond
        if beyond is None or isinstance(beyond, int):
            return beyond if beyond is None else str(beyond)
        return show.round_outwards(beyond, up=beyond > self.found.value)

    @property
    def how_close(self) -> str:
        """How far the best possible value can be from the number to type, in words."""
        if self.missing is None:
            return "It is the limit of what can be set: nothing beyond it could miss the target."
        if isinstance(self.found.beyond, int) and self.found.beyond == self.found.value + 1:
            return "It is the best possible value: the next one misses the target."
        away = abs(float(self.missing) - self.typed) / self.typed if self.typed else math.inf
        away_text = show.round_outwards(away, up=True, digits=2)
        return f"The best possible value is at most {away_text} away, relative to this one."


def _read(curve: PrivacyCurve, target: Target) -> dict[str, Any]:
    """A curve with what it says at the target, asked while the asking is watched."""
    return {"curve": curve, "epsilon": curve.epsilon(target.delta), "delta": curve.delta(target.epsilon)}


@Parameter(name="*", group=opt.QUESTION)
@dataclass(frozen=True, kw_only=True)
class NoiseOptions(opt.SamplingOptions):
    """Everything about a run but its noise."""

    mechanism: Annotated[Literal["gaussian", "laplace"], opt.WhichMechanism] = "gaussian"
    steps: opt.Steps


def noise(question: NoiseOptions, target: TargetOptions, *, json: opt.Json = False) -> None:
    """Find the smallest noise multiplier with which the run is (epsilon, delta)-private."""
    sampling, kind = question.stated_sampling, Gaussian if question.mechanism == "gaussian" else Laplace
    blank = f"{question.mechanism}, its noise multiplier (noise scale / C) is {ASKED_FOR}"
    asked = OpenQuestion(
        "--noise",
        "smallest noise multiplier",
        mechanism=(blank, {"kind": question.mechanism, "noise_multiplier": None}),
        sampling=_say_sampling(sampling),
        steps=(str(question.steps), question.steps),
    )
    with watch_rounds() as progress:
        found = smallest_noise(
            sampling, steps=question.steps, mechanism=kind, progress=progress, **target.asked
        )
        answer = Found.rounded(
            found, lambda noise: Step(kind(noise_multiplier=noise), sampling) * question.steps, up=True
        )
    _print_found(answer, asked, target, json=json)


def steps(question: opt.StepOptions, target: TargetOptions, *, json: opt.Json = False) -> None:
    """Find how many steps are (epsilon, delta)-private together."""
    step = question.step
    mechanism, sampling = _say_mechanism(step.mechanism), _say_sampling(step.sampling)
    asked = OpenQuestion("--steps", "most steps", mechanism, sampling, steps=(ASKED_FOR, None))
    with watch_rounds() as progress:
        answer = Found.exact(most_steps(step, progress=progress, **target.asked))
    _print_found(answer, asked, target, json=json)


@Parameter(name="*", group=opt.QUESTION)
@dataclass(frozen=True, kw_only=True)
class RateOptions(opt.MechanismOptions):
    """Everything about a run but its rate."""

    sampling: Annotated[Literal["poisson", "without-replacement"], opt.WhichSampling]
    population: opt.Population = None
    steps: opt.Steps

    def open(self, option: str, name: str, words: str, **sampling: int | None) -> OpenQuestion:
        """The question, given what is known about the sampling."""
        blank = f"{self.sampling}, {words} is {ASKED_FOR}"
        return OpenQuestion(
            option,
            name,
            mechanism=_say_mechanism(self.stated_mechanism),
            sampling=(blank, {"kind": self.sampling, **sampling, "rate": None}),
            steps=(str(self.steps), self.steps),
        )


def rate(question: RateOptions, target: TargetOptions, *, json: opt.Json = False) -> None:
    """Find the largest sampling rate, or batch without replacement, with which the run is private."""
    (_find_rate if question.sampling == "poisson" else _find_batch)(question, target, json=json)


def _find_rate(question: RateOptions, target: TargetOptions, *, json: bool) -> None:
    opt.refuse(
        "--sampling poisson", "draws from any population: leave it out", population=question.population
    )
    mechanism = question.stated_mechanism
    found = largest_rate(mechanism, steps=question.steps, **target.asked)
    answer = Found.rounded(found, lambda rate: Step(mechanism, Poisson(rate=rate)) * question.steps, up=False)
    words = "the probability with which each record joins each batch"
    _print_found(answer, question.open("--rate", "largest rate", words), target, json=json)


def _find_batch(question: RateOptions, target: TargetOptions, *, json: bool) -> None:
    of, example = "--sampling without-replacement", "for example --population 60000"
    population = opt.require(of, example, population=question.population)
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
    """Print the question, the value with what it spends, how close the other side is, and why."""
    meanings = also or {}
    if json:
        show.print_json(_found_object(answer, asked, target, meanings))
        return
    at = (f"{target.epsilon:.12g}", f"{target.delta:.12g}")
    delta = show.answer_cells(answer.delta, answer.curve.log_delta(target.epsilon))
    rows: list[list[str]] = [
        ["meets the target", answer.text, f"[{', '.join(ends(answer.epsilon))}]", f"[{', '.join(delta)}]"]
    ]
    if answer.missing is not None:
        rows.append(["misses it", answer.missing, f"above {at[0]}", f"above {at[1]}"])
    facts = [*asked.facts, ("relation", relation_in_words(target.neighbours))]
    facts.append(("target", f"epsilon at most {at[0]} at delta {at[1]}"))
    by = replace(target.by, accuracy=answer.curve.accuracy)
    facts += show.effort_facts(by, [(answer.found.run, target.neighbours)])
    page = Page()
    page.facts(facts)
    page.table([["", asked.name, f"epsilon at delta {at[1]}", f"delta at epsilon {at[0]}"], *rows])
    meant = "".join(f" ({key} {value:.6g})" for key, value in meanings.items())
    page.heading(f"{asked.option} {answer.text}{meant} is safe to type.")
    page.line(answer.how_close, indent=2)
    brackets = (answer.epsilon, answer.delta)
    page.line(show.width_in_words([answer.epsilon], "The ends of epsilon"), indent=2)
    show.show_why(page, show.find_theorems(brackets), show.find_datasets(brackets))


def _found_object(
    answer: Found[V], asked: OpenQuestion, target: TargetOptions, also: Mapping[str, float]
) -> show.Object:
    found, relation = answer.found, show.relation_object(target.neighbours)
    brackets = (answer.epsilon, answer.delta)
    how = {"accuracy": target.accuracy, "effort": target.effort, "relation": relation}
    return {
        "question": {**asked.stated, **how},
        "target": {"epsilon": target.epsilon, "delta": target.delta},
        "parameter": found.parameter,
        "value": found.value,
        "beyond": found.beyond,
        "gap": show.number_object(found.gap),
        "rounded": answer.typed,
        **also,
        "at_value": _spent(found.curve, target),
        "at_rounded": _spent(answer.curve, target),
        **show.why_object(show.find_theorems(brackets), show.find_datasets(brackets)),
    }


def _spent(curve: PrivacyCurve, target: TargetOptions) -> show.Object:
    epsilon, delta = curve.epsilon(target.delta), curve.delta(target.epsilon)
    ends = {"epsilon": show.bracket_object(epsilon), "delta": show.bracket_object(delta)}
    return {**ends, **show.width_object(epsilon)}
