"""tightrope noise, steps and rate: the value that meets a privacy target, to be typed as it is printed."""

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from tightrope.accountants.certified import Certified
from tightrope.answers.batches import fewest_batches, largest_batch
from tightrope.answers.calibrate import Calibration, largest_rate, most_steps, smallest_noise
from tightrope.answers.target import Target
from tightrope.cli.printed import show
from tightrope.cli.printed.calibrated import OpenQuestion, Said, TypedValue, print_calibration
from tightrope.cli.printed.sentences import short
from tightrope.cli.process.exits import ExitCode
from tightrope.cli.process.long_work import long_work
from tightrope.cli.typed import options as opt
from tightrope.cli.typed.form import IN_WORDS, Form
from tightrope.errors import Infeasible, NotPreciseEnough
from tightrope.numerics.text import round_outwards
from tightrope.report.words import (
    batches_in_words,
    mechanism_in_short,
    mechanism_in_words,
    sampling_in_words,
    write_epochs,
    write_steps,
)
from tightrope.setting.effort import Effort
from tightrope.setting.mechanism import Gaussian, Laplace, Mechanism
from tightrope.setting.plain import plain_setting
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.run import Step
from tightrope.setting.sampling import EveryRecord, InPasses, Poisson, Sampling, epoch_length

TO_BE_FOUND = "to be found"


@Parameter(name="*", group=opt.ANSWER)
@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The options that state the privacy to reach, and how exactly that is checked."""

    relation: opt.WhichRelation
    group: opt.WhichGroup = 1
    epsilon: Annotated[float, opt.Number, opt.about("Privacy loss that is accepted.")]
    delta: Annotated[float, opt.Number, opt.about("Failure probability that is accepted.")]
    accuracy: opt.Accuracy = Certified.accuracy
    effort: opt.WhichEffort = "quick"
    tuning: opt.Tuning = None

    @property
    def neighbours(self) -> Relation:
        """The relation that was named."""
        return as_relation(self.relation).of(self.group)

    @property
    def by(self) -> Certified:
        """The accountant that checks it."""
        return Certified(accuracy=self.accuracy, effort=Effort(self.effort))

    @property
    def asked(self) -> dict[str, Any]:
        """What every calibration takes."""
        asked = {"epsilon": self.epsilon, "delta": self.delta, "relation": self.neighbours, "by": self.by}
        return {**asked, "trials": opt.read_tuning(self.tuning)}


def _say_mechanism(mechanism: Mechanism) -> Said:
    return mechanism_in_words(mechanism), plain_setting(mechanism)


def _say_sampling(sampling: Sampling) -> Said:
    return sampling_in_words(sampling), plain_setting(sampling)


def _shorten(noise: str, asked: opt.SamplingOptions, sampling: Sampling, relation: Relation) -> str:
    """The question in a line; how batches are drawn only where no line about the training has said it."""
    return noise if asked.rate_in_records else f"{noise}; {batches_in_words(sampling, relation)}"


@Parameter(name="*", group=opt.QUESTION)
@dataclass(frozen=True, kw_only=True)
class NoiseOptions(opt.LengthOptions, opt.SamplingOptions):
    """Everything about a run but its noise."""

    mechanism: Annotated[Literal["gaussian", "laplace"], opt.WhichMechanism] = "gaussian"

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return self.count_steps(self.stated_sampling)


def noise(
    question: NoiseOptions, target: TargetOptions, *, plot: opt.Picture = None, form: Form = IN_WORDS
) -> None:
    """Find the smallest noise multiplier with which the run is (epsilon, delta)-private."""
    picture = show.check_picture(plot)
    sampling, kind = question.stated_sampling, Gaussian if question.mechanism == "gaussian" else Laplace
    neighbours = target.neighbours
    blank = f"{question.mechanism}, its noise multiplier (noise scale / C) is {TO_BE_FOUND}"
    asked = OpenQuestion(
        "--noise",
        "smallest noise multiplier",
        _shorten(f"{write_steps(question.steps)} of {kind.__name__} noise", question, sampling, neighbours),
        show.training(question),
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
    print_calibration(typed, asked, interrupted=work.interrupted, form=form)
    if picture is not None:
        work.draw(picture, lambda: _draw(typed.calibration, picture))
    work.end()


def _draw(found: Calibration[Any], target: Path) -> None:
    from tightrope.report.charts import draw_calibration  # only where something is drawn

    draw_calibration(found, to=target)


def steps(question: opt.StepOptions, target: TargetOptions, *, form: Form = IN_WORDS) -> int:
    """Find how many steps are (epsilon, delta)-private together."""
    step, noise_of_a_step = question.step, mechanism_in_short(question.stated_mechanism)
    asked = OpenQuestion(
        "--steps",
        "most steps",
        _shorten(f"{noise_of_a_step} in every step", question, step.sampling, target.neighbours),
        show.training(question),
        mechanism=_say_mechanism(step.mechanism),
        sampling=_say_sampling(step.sampling),
        steps=(TO_BE_FOUND, None),
    )
    with long_work() as work:
        typed = work.finish(
            lambda: TypedValue.exact(most_steps(step, progress=work, **target.asked)),
            lambda quick: quick.in_short(asked.option),
        )
        if not typed.value and not form.json:
            raise work.finish(lambda: _refuse_one_step(step, typed.calibration.target))
    more = _in_epochs(typed.value, step.sampling)
    print_calibration(typed, asked, interrupted=work.interrupted, more=more, form=form)
    work.end()
    return ExitCode.FINE if typed.value else ExitCode.NOT_MET


def _in_epochs(steps: int, sampling: Sampling) -> str:
    """How many epochs these steps are, to be said behind them; passes have so many batches, and no rate."""
    if isinstance(sampling, EveryRecord):
        return ""
    exact = steps / epoch_length(sampling)
    places = max(4 - len(str(int(exact))), 1)  # cut, not rounded: typed again, they take no more steps
    epochs = write_epochs(float(Fraction(int(exact * 10**places), 10**places)))
    of = f"of {sampling.batches:,} batches" if isinstance(sampling, InPasses) else "at this rate"
    return f" ({epochs} {of})"


def _refuse_one_step(step: Step, target: Target) -> Infeasible:
    """Why no steps can be taken, with what the first one costs where that can be certified."""
    alone = ""
    with suppress(NotPreciseEnough):
        least = target.curve(step * 1).epsilon(target.delta).lower
        alone = f": it alone spends an epsilon of at least {short(least, up=False)}"
    remedy = "Add noise, draw smaller batches, or accept a larger {epsilon} or {delta}."
    return Infeasible(f"not even one step meets {target.named}{alone}", remedy, limit=0.0)


@Parameter(name="*", group=opt.QUESTION)
@dataclass(frozen=True, kw_only=True)
class RateOptions(opt.LengthOptions, opt.MechanismOptions):
    """Everything about a run but its rate."""

    sampling: Annotated[Literal["poisson", "without-replacement", "balls-in-bins"], opt.WhichSampling]
    records: opt.Records = None

    @property
    def length(self) -> dict[str, Any]:
        """How long the training is, said once."""
        if self.epochs is None:
            opt.require("a run", "for example --epochs 30 or --steps 10000", steps=self.stated_steps)
        else:
            opt.refuse_both_lengths(self.epochs, self.stated_steps)
        return {"steps": self.stated_steps, "epochs": self.epochs}

    def open(self, option: str, name: str, words: str, **sampling: int | None) -> OpenQuestion:
        """The question, given what is known about the sampling."""
        blank = f"{self.sampling}, {words} is {TO_BE_FOUND}"
        length = write_epochs(self.epochs) if self.epochs else write_steps(self.stated_steps or 0)
        return OpenQuestion(
            option,
            name,
            f"{length} of {mechanism_in_short(self.stated_mechanism)}",
            show.training(self),
            mechanism=_say_mechanism(self.stated_mechanism),
            sampling=(blank, {"kind": self.sampling, **sampling}),
            steps=(length, self.stated_steps),
        )


def rate(question: RateOptions, target: TargetOptions, *, form: Form = IN_WORDS) -> None:
    """Find the largest sampling rate, or batch, with which the run is (epsilon, delta)-private."""
    if question.records is None and question.sampling == "balls-in-bins":
        _find_batches(question, target, form=form)
    elif question.records is None and question.sampling == "poisson" and question.epochs is None:
        _find_rate(question, target, form=form)
    else:
        _find_batch(question, target, form=form)


def _find_rate(question: RateOptions, target: TargetOptions, *, form: Form) -> None:
    mechanism = question.stated_mechanism
    steps = opt.require("a run", "for example --steps 10000", steps=question.stated_steps)
    with long_work() as work:
        calibration = largest_rate(mechanism, steps=steps, progress=work, **target.asked)
        typed = TypedValue.rounded(
            calibration, lambda rate: Step(mechanism, Poisson(rate=rate)) * steps, up=False
        )
    words = "the probability with which each record joins each batch"
    asked = question.open("--rate", "largest rate", words, rate=None)
    print_calibration(typed, asked, interrupted=work.interrupted, form=form)
    work.end()


def _find_batch(question: RateOptions, target: TargetOptions, *, form: Form) -> None:
    of, example = f"--sampling {question.sampling}", "for example --records 60000"
    records = opt.require(of, example, records=question.records)
    length, mechanism = question.length, question.stated_mechanism
    on_average = " on average" if question.sampling == "poisson" else ""
    words = f"the size of a batch{on_average} out of {records} records"
    in_bins = question.sampling == "balls-in-bins"
    if in_bins:
        words += ": a pass has records / batch batches, rounded up"
    asked = question.open("--batch", "largest batch", words, batch=None, population=records)
    drawn: Any = {"population": records, "sampling": question.sampling}
    with long_work() as work:
        typed = work.finish(
            lambda: TypedValue.exact(
                largest_batch(mechanism, progress=work, **drawn, **length, **target.asked),
                steps_follow=question.epochs is not None,
            ),
            lambda quick: quick.in_short(asked.option),
        )
    bins = -(-records // typed.value)  # of a pass: their number decides, not what one holds on average
    rate = 1 / bins if in_bins else typed.value / records
    # a larger rate is less private
    rated = f"rate {round_outwards(rate, show.DIGITS, up=False)}"
    size = f"{bins:,} batch{'es' * (bins > 1)} in a pass" if in_bins else rated
    more = f"{on_average} out of {records:,} records ({size})"
    print_calibration(typed, asked, interrupted=work.interrupted, more=more, also={"rate": rate}, form=form)
    work.end()


def _find_batches(question: RateOptions, target: TargetOptions, *, form: Form) -> None:
    length, mechanism = question.length, question.stated_mechanism
    words = "the number of batches in a pass"
    asked = question.open("--batches", "fewest batches", words, batches=None)
    with long_work() as work:
        typed = work.finish(
            lambda: TypedValue.exact(
                fewest_batches(mechanism, progress=work, **length, **target.asked),
                steps_follow=question.epochs is not None,
            ),
            lambda quick: quick.in_short(asked.option),
        )
    print_calibration(typed, asked, interrupted=work.interrupted, also={"rate": 1 / typed.value}, form=form)
    work.end()
