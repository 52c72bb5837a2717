"""The options of the commands, and the settings they state."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Group, Parameter

from tightrope.accountants.accountant import Accountant
from tightrope.accountants.certified import Certified
from tightrope.accountants.exact import Exact
from tightrope.accountants.monte_carlo import MonteCarlo
from tightrope.accountants.names import find_accountant
from tightrope.cli.typed.misused import Misused
from tightrope.cli.typed.numbers import read_exactly, read_number, read_numbers, read_points, read_whole
from tightrope.cli.typed.samplings import RATED_IN_RECORDS, read_sampling
from tightrope.cli.typed.samplings import SHUFFLES as SHUFFLES
from tightrope.cli.typed.samplings import refuse as refuse
from tightrope.cli.typed.samplings import require as require
from tightrope.engines.draws.tilts import Drawing
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.numerics.confidence import Interval
from tightrope.numerics.text import write_number
from tightrope.setting.effort import Effort
from tightrope.setting.mechanism import Gaussian, Laplace, Mechanism, RandomizedResponse
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import Sampling
from tightrope.setting.training import Training, as_typed, count_steps, tell_batches, tell_steps
from tightrope.setting.trials import KNOWN_TRIALS, TrialLaw, as_trials

T = TypeVar("T")

QUESTION = Group("What is run", sort_key=1)
ANSWER = Group("What is asked", sort_key=2)
SIMULATION = Group("How monte-carlo draws", sort_key=3)
INTEGERS = Group("How exact counts", sort_key=4)

Number = Parameter(converter=read_number, n_tokens=1)
Whole = Parameter(converter=read_whole, n_tokens=1)
Numbers = Parameter(converter=read_numbers, n_tokens=-1, consume_multiple=1, negative="")
Points = Parameter(converter=read_points, n_tokens=-1, consume_multiple=1, negative="")
Exactly = Parameter(converter=read_exactly, n_tokens=1)
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
SamplingName = Literal[
    "poisson",
    "without-replacement",
    "balls-in-bins",
    "random-allocation",
    "truncated-poisson",
    "every-record",
]
AnySampling = Literal[SamplingName, "shuffle", "shuffled"]
RelationName = Literal["add", "remove", "add-or-remove", "substitute"]
WhichRelation = Annotated[
    RelationName, about("Which datasets count as neighbours. There is no default.", QUESTION, "--relation")
]
WhichGroup = Annotated[
    int,
    Whole,
    about("Neighbours differ in up to so many records, such as all of one user.", QUESTION, "--group"),
]
Json = Annotated[bool, flag("Print one JSON object instead of tables.")]
Records = Annotated[
    MaybeWhole,
    about("Size of the dataset; under add and remove, of the larger neighbour.", name="--records"),
]
Steps = Annotated[MaybeWhole, about("How many times the mechanism is run.", name="--steps")]
Epochs = Annotated[
    float | Fraction | None,
    Exactly,
    about(
        "Passes over the dataset, in place of steps: epochs * records / batch steps, or epochs * batches, "
        "rounded up."
    ),
]
Accuracy = Annotated[float, Number, about("Relative width in delta that a bracket may have.", ANSWER)]
WhichEffort = Annotated[
    Literal["quick", "tight"],
    about(
        "For without-replacement and shuffle under substitute: quick tells what is known at once; tight "
        "works for seconds to minutes and narrows the bracket.",
        ANSWER,
        "--effort",
    ),
]
Tuning = Annotated[
    str | None,
    about(
        f"The best of several runs is published: the law of their number, {KNOWN_TRIALS}.",
        QUESTION,
        "--tuning",
    ),
]
Picture = Annotated[Path | None, about("Also draw it into this png, pdf or svg file.", ANSWER, "--plot")]
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

    sampling: Annotated[AnySampling, WhichSampling]
    records: Records = None
    batch: Annotated[MaybeWhole, about("Records in a batch; where sizes vary, on average.")] = None
    rate: Annotated[
        float | Fraction | None,
        Exactly,
        about("For poisson, in place of records and batch: the probability that a record joins."),
    ] = None
    batches: Annotated[
        MaybeWhole,
        about(
            "For balls-in-bins, random-allocation and shuffle, in place of records and batch: the batches of "
            "one pass."
        ),
    ] = None
    drop_last: Annotated[
        bool, flag("For shuffle: leave out the records of a smaller last batch.", QUESTION, "--drop-last")
    ] = False
    chosen: Annotated[MaybeWhole, about("For random-allocation: how many of them a record takes.")] = None
    at_most: Annotated[MaybeWhole, about("For truncated-poisson: records that a batch keeps.")] = None

    @property
    def stated_sampling(self) -> Sampling:
        """The sampling, given exactly its own options."""
        names = ("records", "batch", "rate", "batches", "chosen", "at_most", "drop_last")
        return read_sampling(self.sampling, {name: getattr(self, name) for name in names})

    @property
    def rate_in_records(self) -> bool:
        """Whether the rate is that of so many records, which the line about the training tells."""
        return self.batch is not None and self.sampling in RATED_IN_RECORDS

    @property
    def mapping(self) -> str | None:
        """How records, batch and epochs were read, if they were stated."""
        told, sampling = [], self.stated_sampling
        if isinstance(self, LengthOptions) and self.epochs is not None:
            told.append(tell_steps(as_typed(self.epochs), sampling))
        if self.rate_in_records and self.records is not None:
            plan = Training(records=self.records, batch=self.batch, epochs=1, sampling=sampling)
            told.append(tell_batches(plan))
        said = "; ".join(told)
        return f"{said[0].upper()}{said[1:]}." if said else None


@dataclass(frozen=True, kw_only=True)
class LengthOptions:
    """The options that state how long the training is."""

    stated_steps: Steps = None
    epochs: Epochs = None

    def count_steps(self, sampling: Sampling) -> int:
        """The steps, as they were stated or as the epochs make them."""
        if self.epochs is None:
            return require("a run", "for example --steps 10000", steps=self.stated_steps)
        epochs = write_number(self.epochs)
        refuse_both_lengths(self.epochs, self.stated_steps)
        check.positive(remedy="Pass how often the training goes through the dataset.", epochs=self.epochs)
        if not sampling.exact_rate:
            raise Misused(f"--epochs {epochs} contradicts --rate 0, at which no record is ever drawn")
        return count_steps(as_typed(self.epochs), sampling)


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
class RunOptions(LengthOptions, StepOptions):
    """The options that state what is run, and how exactly the answer is wanted."""

    accuracy: Accuracy = Certified.accuracy

    @property
    def steps(self) -> int:
        """How often the step is taken."""
        return self.count_steps(self.stated_sampling)

    @property
    def run(self) -> Run:
        """The step as often as it is taken."""
        return self.step * self.steps

    def certified(self, effort: str) -> Certified:
        """The certified accountant, to the accuracy that was asked for."""
        return Certified(accuracy=self.accuracy, effort=Effort(effort))


def refuse_both_lengths(epochs: float | Fraction, steps: int | None) -> None:
    """Refuse steps beside epochs."""
    of = f"--epochs {write_number(epochs)}"
    refuse(of, "says how long the training is: leave out one of them", steps=steps)


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


def read_tuning(typed: str | None) -> TrialLaw | None:
    """The law of the number of runs that was typed, or None; refusals name the option."""
    if typed is None:
        return None
    try:
        return as_trials(typed)
    except InvalidSetting as wrong:
        raise InvalidSetting("tuning", typed, wrong.must, wrong.remedy) from None


USUAL_ACCOUNTANT = AccountantOptions()
