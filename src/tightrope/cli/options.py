"""The options of the commands, and the settings they state."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar, assert_never

from cyclopts import Group, Parameter

from tightrope.accountants.accountant import Accountant
from tightrope.accountants.certified import Certified
from tightrope.accountants.exact import Exact
from tightrope.accountants.monte_carlo import MonteCarlo
from tightrope.accountants.names import find_accountant
from tightrope.cli.refusals import Misused
from tightrope.engines.draws.tilts import Drawing
from tightrope.numerics.confidence import Interval
from tightrope.setting.effort import Effort
from tightrope.setting.mechanism import Gaussian, Laplace, Mechanism, RandomizedResponse
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, WithoutReplacement

T = TypeVar("T")

QUESTION = Group("What is run", sort_key=1)
ANSWER = Group("What is asked", sort_key=2)
SIMULATION = Group("How monte-carlo draws", sort_key=3)
INTEGERS = Group("How exact counts", sort_key=4)

MOST_POINTS = 100_000
_MOST_DIGITS = 18


# Numbers as people type them: 0.001, 1e-6, 1/1000, 10_000, 1e-7,1e-6, 0:2:21


class Word(Protocol):
    """One word of the command line."""

    value: str


def read_number(_: Any, words: Sequence[Word]) -> float:
    """Read one number; a fraction is rounded once, to the nearest float."""
    return _parse_number(words[0].value)


def read_whole(_: Any, words: Sequence[Word]) -> int:
    """Read one whole number; 1e4 is whole, 1.5 is refused instead of rounded."""
    text = words[0].value
    not_whole = ValueError(f"{text!r} is not a whole number; pass for example 10000.")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise not_whole from None
    if value.is_finite() and value.adjusted() >= _MOST_DIGITS:  # before it is written out: 1e999999999
        raise ValueError(f"{text!r} is too large; pass a whole number of at most {_MOST_DIGITS} digits.")
    if not value.is_finite() or value != value.to_integral_value():
        raise not_whole
    return int(value)


def read_numbers(_: Any, words: Sequence[Word]) -> list[float]:
    """Read numbers separated by spaces or commas; at least one."""
    found = [_parse_number(part) for word in words for part in word.value.split(",") if part.strip()]
    if not found:
        raise ValueError("it has no value; pass at least one number.")
    return found


def read_points(_: Any, words: Sequence[Word]) -> list[float]:
    """Read start:stop:count, evenly spaced with both ends, or numbers separated by spaces or commas."""
    if not any(":" in word.value for word in words):
        return read_numbers(_, words)
    text = " ".join(word.value for word in words)
    parts = text.split(":")
    if len(parts) != 3 or len(words) != 1:
        raise ValueError(f"{text!r} is not start:stop:count; pass for example 0:2:21.")
    start, stop, count = (_parse_number(part) for part in parts)
    if count % 1 != 0 or not 2 <= count <= MOST_POINTS:
        raise ValueError(f"{text!r} asks for {count:g} points; pass a whole count from 2 to {MOST_POINTS}.")
    if not -math.inf < start < stop < math.inf:
        raise ValueError(f"{text!r} does not go upwards; pass start below stop, for example 0:2:21.")
    # in exact arithmetic on what was typed: 0:1:11 holds 0.3 and not 0.30000000000000004
    first, last = Fraction(repr(start)), Fraction(repr(stop))
    return [float(first + (last - first) * i / (int(count) - 1)) for i in range(int(count))]


def _parse_number(text: str) -> float:
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f"{text!r} is not a number; pass for example 0.5, 1e-6 or 1/1000.") from None


Number = Parameter(converter=read_number, n_tokens=1)
Whole = Parameter(converter=read_whole, n_tokens=1)
Numbers = Parameter(converter=read_numbers, n_tokens=-1, consume_multiple=1, negative="")
Points = Parameter(converter=read_points, n_tokens=-1, consume_multiple=1, negative="")
MaybeNumber = Annotated[float | None, Number]
MaybeWhole = Annotated[int | None, Whole]


# Options that several commands share


def about(text: str, group: Group | None = None, name: str | None = None) -> Parameter:
    """What an option is for. Without a group it stands in that of its table of options."""
    if group is None:
        return Parameter(name=name, help=text)
    return Parameter(name=name, help=text, group=group)


def flag(text: str, group: Group = ANSWER, name: str | None = None) -> Parameter:
    """An option without a value."""
    return Parameter(name=name, negative="", group=group, show_default=False, help=text)


Deltas = Annotated[list[float], Numbers, about("Failure probabilities, one or several.", ANSWER)]
Epsilons = Annotated[list[float], Numbers, about("Privacy losses, one or several.", ANSWER)]
SamplingName = Literal["poisson", "without-replacement", "every-record"]
RelationName = Literal["add", "remove", "add-or-remove", "substitute"]
WhichRelation = Annotated[
    RelationName, about("Which datasets count as neighbours. There is no default.", QUESTION, "--relation")
]
Json = Annotated[bool, flag("Print one JSON object instead of tables.")]
Population = Annotated[
    MaybeWhole,
    about("Records to draw from, for without-replacement; under add and remove, of the larger neighbour."),
]
Steps = Annotated[int, Whole, about("How many times the mechanism is run.")]
Accuracy = Annotated[float, Number, about("Relative width in delta that a bracket may have.", ANSWER)]
WhichEffort = Annotated[
    Literal["quick", "tight"],
    about(
        "For without-replacement under substitute: quick takes milliseconds; tight plays a game for "
        "seconds to minutes and narrows the bracket.",
        ANSWER,
        "--effort",
    ),
]
Picture = Annotated[Path | None, about("Also draw delta into this png, pdf or svg file.", ANSWER, "--plot")]
WhichMechanism = about("The noise of one step.")
WhichSampling = about("How batches are drawn. There is no default.")


# What is run. Each command asks one flat question, so that the words about a missing option name the option.


@dataclass(frozen=True, kw_only=True)
class MechanismOptions:
    """The options that state a mechanism."""

    mechanism: Annotated[Literal["gaussian", "laplace", "randomized-response"], WhichMechanism] = "gaussian"
    noise: Annotated[MaybeNumber, about("Noise multiplier: noise scale / C.")] = None
    truth: Annotated[MaybeNumber, about("Probability of the true bit, for randomized-response.")] = None

    @property
    def stated_mechanism(self) -> Mechanism:
        """The mechanism, given exactly its own options."""
        of = f"--mechanism {self.mechanism}"
        if self.mechanism == "randomized-response":
            refuse(of, "has no noise scale: use --truth", noise=self.noise)
            truth = require(of, "for example --truth 0.75", truth=self.truth)
            return RandomizedResponse(truth_probability=truth)
        advice = "always adds noise: use --noise, or choose --mechanism randomized-response"
        refuse(of, advice, truth=self.truth)
        noise = require(of, "for example --noise 0.8", noise=self.noise)
        return (Gaussian if self.mechanism == "gaussian" else Laplace)(noise_multiplier=noise)


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """The options that state a sampling."""

    sampling: Annotated[SamplingName, WhichSampling]
    rate: Annotated[MaybeNumber, about("Probability that a record joins a batch, for poisson.")] = None
    batch: Annotated[MaybeWhole, about("Records in a batch, for without-replacement.")] = None
    population: Population = None

    @property
    def stated_sampling(self) -> Sampling:
        """The sampling, given exactly its own options."""
        of = f"--sampling {self.sampling}"
        match self.sampling:
            case "without-replacement":
                refuse(of, "draws batches of fixed size: use --batch and --population", rate=self.rate)
                example = "for example --batch 1 --population 1000"
                batch = require(of, example, batch=self.batch)
                population = require(of, example, population=self.population)
                return WithoutReplacement(batch=batch, population=population)
            case "poisson":
                advice = "draws batches of varying size: use --rate, or choose --sampling without-replacement"
                refuse(of, advice, batch=self.batch, population=self.population)
                return Poisson(rate=require(of, "for example --rate 0.001", rate=self.rate))
            case "every-record":
                advice = "uses all records in every step: leave it out, or choose another --sampling"
                refuse(of, advice, rate=self.rate, batch=self.batch, population=self.population)
                return EveryRecord()
        assert_never(self.sampling)


@Parameter(name="*", group=QUESTION)
@dataclass(frozen=True, kw_only=True)
class StepOptions(SamplingOptions, MechanismOptions):
    """The options that state one step."""

    @property
    def step(self) -> Step:
        """One step, or a refusal that names the option."""
        return Step(self.stated_mechanism, self.stated_sampling)


@Parameter(name="*", group=QUESTION)
@dataclass(frozen=True, kw_only=True)
class RunOptions(StepOptions):
    """The options that state what is run, and how exactly the answer is wanted."""

    steps: Steps
    accuracy: Accuracy = Certified.accuracy

    @property
    def run(self) -> Run:
        """The step as often as it is taken."""
        return self.step * self.steps

    def certified(self, effort: str) -> Certified:
        """The certified accountant, to the accuracy that was asked for."""
        return Certified(accuracy=self.accuracy, effort=Effort(effort))


def require(of: str, example: str, **option: T | None) -> T:
    """Give the value of the option that must be there."""
    ((name, value),) = option.items()
    if value is None:
        raise Misused(f"--{name} is missing: {of} needs it, {example}")
    return value


def refuse(of: str, remedy: str, **options: object) -> None:
    """Refuse options that must not be there."""
    for name, value in options.items():
        if value is not None:
            text = f"{value:.12g}" if isinstance(value, float) else f"{value}"
            raise Misused(f"--{name} {text} contradicts {of}, which {remedy}")


# Who answers

_Drawing = Literal["plain", "tilted"]
_Interval = Literal["hoeffding", "chernoff", "betting"]


@Parameter(name="*", group=SIMULATION)
@dataclass(frozen=True, kw_only=True)
class DrawOptions:
    """The options of monte-carlo; what is left out has the default of the library."""

    draws: Annotated[MaybeWhole, about("Sums of losses to draw; 200000 by default.")] = None
    confidence: Annotated[MaybeNumber, about("Of all answers together; 0.99 by default.")] = None
    seed: Annotated[MaybeWhole, about("The same seed gives the same answer; 0 by default.")] = None
    drawing: Annotated[_Drawing | None, about("tilted by default: small deltas need it.")] = None
    interval: Annotated[_Interval | None, about("betting by default.")] = None
    workers: Annotated[MaybeWhole, about("Processes; 1 by default. The answer does not depend on it.")] = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that were typed."""
        names = ("draws", "confidence", "seed", "drawing", "interval", "workers")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def monte_carlo(self) -> MonteCarlo:
        """The accountant that draws so."""
        kinds: dict[str, Any] = {"drawing": Drawing, "interval": Interval}
        return MonteCarlo(**{name: kinds.get(name, _same)(value) for name, value in self.given.items()})


def _same(value: T) -> T:
    return value


@Parameter(name="*", group=SIMULATION)
@dataclass(frozen=True, kw_only=True)
class AccountantOptions(DrawOptions):
    """The options that say who answers, and how hard to work."""

    accountant: Annotated[
        Literal["certified", "exact", "renyi", "gaussian-limit", "monte-carlo"],
        about(
            "Who answers: certified (a bracket), exact (one in exact integers, in seconds), renyi (an "
            "upper bound), gaussian-limit (an approximation) or monte-carlo (an interval with a confidence "
            "level). Accuracy and effort are for certified.",
            ANSWER,
        ),
    ] = "certified"
    effort: WhichEffort = "quick"
    width: Annotated[MaybeNumber, about("Between the ends, in epsilon; 0.001 by default.", INTEGERS)] = None
    cells: Annotated[MaybeWhole, about("Losses in a window; chosen for the width.", INTEGERS)] = None
    bits: Annotated[MaybeWhole, about("Masses count 2^-bits; chosen for the width.", INTEGERS)] = None

    def by(self, accuracy: float) -> Accountant[Any, Any]:
        """Who answers; the certified accountant to this accuracy."""
        lattice = {name: getattr(self, name) for name in ("width", "cells", "bits")}
        lattice = {name: value for name, value in lattice.items() if value is not None}
        of = f"--accountant {self.accountant}"
        if self.accountant != MonteCarlo.name:
            refuse(of, "draws nothing: leave it out", **self.given)
        if self.accountant != Exact.name:
            refuse(of, "has no lattice: leave it out", **lattice)
        if self.accountant == Certified.name:
            return Certified(accuracy=accuracy, effort=Effort(self.effort))
        refuse(of, "plays no game: leave it out", effort=None if self.effort == "quick" else self.effort)
        typed = None if accuracy == Certified.accuracy else accuracy
        refuse(of, "does not take it: leave it out", accuracy=typed)
        if self.accountant == MonteCarlo.name:
            return self.monte_carlo
        return find_accountant(self.accountant)(**lattice)


USUAL_ACCOUNTANT = AccountantOptions()
