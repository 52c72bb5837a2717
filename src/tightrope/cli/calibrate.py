"""tightrope noise, steps and rate: the value that meets a privacy target, to be typed as it is printed."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, Literal

from cyclopts import Parameter

from tightrope.accountants.certified import Certified
from tightrope.answers.calibrate import Calibration, largest_batch, largest_rate, most_steps, smallest_noise
from tightrope.answers.frontier import V
from tightrope.answers.target import Target
from tightrope.cli import options as opt
from tightrope.cli import show
from tightrope.cli.long_work import LongWork, long_work
from tightrope.cli.terminal import Page
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import StopWork
from tightrope.numerics.text import round_outwards, write_number
from tightrope.report.words import mechanism_in_words, relation_in_words, sampling_in_words
from tightrope.setting.effort import Effort
from tightrope.setting.mechanism import Gaussian, Laplace, Mechanism
from tightrope.setting.plain import plain_setting
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import Poisson, Sampling

TO_BE_FOUND = "to be found"


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
    return mechanism_in_words(mechanism), plain_setting(mechanism)


def _say_sampling(sampling: Sampling) -> Said:
    return sampling_in_words(sampling), plain_setting(sampling)


@dataclass(frozen=True, kw_only=True)
class TypedValue(Generic[V]):
    """A calibrated value, and the number to type for it: short, safe, verified by its own curve."""

    calibration: Calibration[V]
    text: str
    value: V
    curve: PrivacyCurve
    epsilon: Bracket
    delta: Bracket

    @staticmethod
    def exact(calibration: Calibration[V]) -> "TypedValue[V]":
        """The value with all its digits."""
        value, read = calibration.value, _read(calibration.curve, calibration.target)
        return TypedValue(calibration=calibration, text=str(value), value=value, **read)

    @staticmethod
    def rounded(
        calibration: Calibration[float], run: Callable[[float], Run], *, up: bool
    ) -> "TypedValue[float]":
        """The value to six digits, rounded `up` or down; with all digits where that misses the target."""
        text, target = round_outwards(calibration.value, show.DIGITS, up=up), calibration.target
        value = float(text)
        curve = None
        with suppress(StopWork):
            curve = target.verify(run(value), calibration.curve.accuracy)
        if curve is None:
            return TypedValue.exact(calibration)
        return TypedValue(calibration=calibration, text=text, value=value, **_read(curve, target))

    @property
    def missing(self) -> str | None:
        """What certainly misses the target, rounded further away; None at a limit."""
        beyond = self.calibration.beyond
        if beyond is None or isinstance(beyond, int):
            return beyond if beyond is None else str(beyond)
        return round_outwards(beyond, show.DIGITS, up=beyond > self.calibration.value)

    def in_short(self, option: str) -> str:
        """What is known while the search goes on."""
        misses = "" if self.missing is None else f", and {self.missing} misses the target"
        return f"{option} {self.text} is safe{misses} (quick)."

    @property
    def how_close(self) -> str:
        """How far the best possible value can be from the number to type, in words."""
        if self.missing is None:
            return "It is the limit of what can be set: nothing beyond it could miss the target."
        if isinstance(self.calibration.beyond, int) and self.calibration.beyond == self.calibration.value + 1:
            return "It is the best possible value: the next one misses the target."
        away = abs(float(self.missing) - self.value) / self.value if self.value else math.inf
        away_text = round_outwards(away, 2, up=True)
        return f"The best possible value is at most {away_text} away, relative to this one."


def _read(curve: PrivacyCurve, target: Target) -> dict[str, Any]:
    """A curve with what it says at the target. It is asked here, while a bar shows progress."""
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
    blank = f"{question.mechanism}, its noise multiplier (noise scale / C) is {TO_BE_FOUND}"
    asked = OpenQuestion(
        "--noise",
        "smallest noise multiplier",
        mechanism=(blank, {"kind": question.mechanism, "noise_multiplier": None}),
        sampling=_say_sampling(sampling),
        steps=(str(question.steps), question.steps),
    )
    with long_work() as work:

        def answer() -> TypedValue[float]:
            found = smallest_noise(
                sampling, steps=question.steps, mechanism=kind, progress=work, **target.asked
            )
            return TypedValue.rounded(
                found, lambda noise: Step(kind(noise_multiplier=noise), sampling) * question.steps, up=True
            )

        typed = work.finish(answer, lambda quick: quick.in_short(asked.option))
    _print_answer(typed, asked, target, work, json=json)


def steps(question: opt.StepOptions, target: TargetOptions, *, json: opt.Json = False) -> None:
    """Find how many steps are (epsilon, delta)-private together."""
    step = question.step
    mechanism, sampling = _say_mechanism(step.mechanism), _say_sampling(step.sampling)
    asked = OpenQuestion("--steps", "most steps", mechanism, sampling, steps=(TO_BE_FOUND, None))
    with long_work() as work:
        typed = work.finish(
            lambda: TypedValue.exact(most_steps(step, progress=work, **target.asked)),
            lambda quick: quick.in_short(asked.option),
        )
    _print_answer(typed, asked, target, work, json=json)


@Parameter(name="*", group=opt.QUESTION)
@dataclass(frozen=True, kw_only=True)
class RateOptions(opt.MechanismOptions):
    """Everything about a run but its rate."""

    sampling: Annotated[Literal["poisson", "without-replacement"], opt.WhichSampling]
    population: opt.Population = None
    steps: opt.Steps

    def open(self, option: str, name: str, words: str, **sampling: int | None) -> OpenQuestion:
        """The question, given what is known about the sampling."""
        blank = f"{self.sampling}, {words} is {TO_BE_FOUND}"
        return OpenQuestion(
            option,
            name,
            mechanism=_say_mechanism(self.stated_mechanism),
            sampling=(blank, {"kind": self.sampling, **sampling}),
            steps=(str(self.steps), self.steps),
        )


def rate(question: RateOptions, target: TargetOptions, *, json: opt.Json = False) -> None:
    """Find the largest sampling rate, or batch, with which the run is (epsilon, delta)-private."""
    (_find_rate if question.sampling == "poisson" else _find_batch)(question, target, json=json)


def _find_rate(question: RateOptions, target: TargetOptions, *, json: bool) -> None:
    opt.refuse(
        "--sampling poisson", "draws from any population: leave it out", population=question.population
    )
    mechanism = question.stated_mechanism
    with long_work() as work:
        calibration = largest_rate(mechanism, steps=question.steps, progress=work, **target.asked)
        typed = TypedValue.rounded(
            calibration, lambda rate: Step(mechanism, Poisson(rate=rate)) * question.steps, up=False
        )
    words = "the probability with which each record joins each batch"
    _print_answer(typed, question.open("--rate", "largest rate", words, rate=None), target, work, json=json)


def _find_batch(question: RateOptions, target: TargetOptions, *, json: bool) -> None:
    of, example = "--sampling without-replacement", "for example --population 60000"
    population = opt.require(of, example, population=question.population)
    mechanism = question.stated_mechanism
    words = f"the size of a batch out of {population} records"
    asked = question.open("--batch", "largest batch", words, batch=None, population=population)
    with long_work() as work:

        def answer() -> TypedValue[int]:
            how: Any = {"population": population, "steps": question.steps, "progress": work}
            return TypedValue.exact(largest_batch(mechanism, **how, **target.asked))

        typed = work.finish(answer, lambda quick: quick.in_short(asked.option))
    _print_answer(typed, asked, target, work, also={"rate": typed.value / population}, json=json)


def _print_answer(
    typed: TypedValue[V],
    asked: OpenQuestion,
    target: TargetOptions,
    work: LongWork,
    *,
    also: Mapping[str, float] | None = None,
    json: bool,
) -> None:
    """Print the question, the value with what it spends, how close the other side is, and why."""
    meanings = also or {}
    if json:
        show.print_json({**_answer_object(typed, asked, target, meanings), **work.mark})
        work.end()
        return
    at = write_number(target.epsilon), write_number(target.delta)
    delta = show.answer_cells(typed.delta, typed.curve.log_delta(target.epsilon))
    rows: list[list[str]] = [
        ["meets the target", typed.text, f"[{', '.join(ends(typed.epsilon))}]", f"[{', '.join(delta)}]"]
    ]
    if typed.missing is not None:
        rows.append(["misses it", typed.missing, f"above {at[0]}", f"above {at[1]}"])
    facts = [*asked.facts, ("relation", relation_in_words(target.neighbours))]
    facts.append(("target", f"epsilon at most {at[0]} at delta {at[1]}"))
    by = replace(target.by, accuracy=typed.curve.accuracy)
    facts += show.effort_facts(by, [(typed.calibration.run, target.neighbours)])
    page = Page()
    work.show_on(page)
    page.facts(facts)
    page.table([["", asked.name, f"epsilon at delta {at[1]}", f"delta at epsilon {at[0]}"], *rows])
    meant = "".join(f" ({key} {value:.6g})" for key, value in meanings.items())
    page.heading(f"{asked.option} {typed.text}{meant} is safe to type.")
    page.line(typed.how_close, indent=2)
    brackets = (typed.epsilon, typed.delta)
    page.line(show.width_in_words([typed.epsilon], "The ends of epsilon"), indent=2)
    show.show_why(page, show.find_theorems(brackets), show.find_datasets(brackets))
    work.end()


def _answer_object(
    typed: TypedValue[V], asked: OpenQuestion, target: TargetOptions, also: Mapping[str, float]
) -> show.Object:
    calibration, relation = typed.calibration, show.relation_object(target.neighbours)
    brackets = (typed.epsilon, typed.delta)
    how = {"accuracy": target.accuracy, "effort": target.effort, "relation": relation}
    return {
        "question": {**asked.stated, **how},
        "target": {"epsilon": target.epsilon, "delta": target.delta},
        "parameter": calibration.parameter,
        "value": calibration.value,
        "beyond": calibration.beyond,
        "gap": show.number_object(calibration.gap),
        "rounded": typed.value,
        **also,
        "at_value": _cost_object(calibration.curve, target),
        "at_rounded": _cost_object(typed.curve, target),
        **show.why_object(show.find_theorems(brackets), show.find_datasets(brackets)),
    }


def _cost_object(curve: PrivacyCurve, target: TargetOptions) -> show.Object:
    epsilon, delta = curve.epsilon(target.delta), curve.delta(target.epsilon)
    ends = {"epsilon": show.bracket_object(epsilon), "delta": show.bracket_object(delta)}
    return {**ends, **show.width_object(epsilon)}
