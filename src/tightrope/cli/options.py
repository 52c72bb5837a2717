"""The options that state a question, and the question they state."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from cyclopts import Group, Parameter

from tightrope.accountants.certified import DEFAULT_ACCURACY
from tightrope.cli.numbers import number, numbers, whole
from tightrope.errors import InvalidSetting
from tightrope.report.words import spelled
from tightrope.setting.effort import Effort
from tightrope.setting.mechanism import Gaussian, Laplace, Mechanism, RandomizedResponse
from tightrope.setting.relation import RELATIONS, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, WithoutReplacement

T = TypeVar("T")

QUESTION = Group("What is run", sort_key=1)
ANSWER = Group("What is asked", sort_key=2)

Number = Parameter(converter=number, n_tokens=1)
Whole = Parameter(converter=whole, n_tokens=1)
Numbers = Parameter(converter=numbers, n_tokens=-1, consume_multiple=1, negative="")

Deltas = Annotated[
    list[float], Numbers, Parameter(group=ANSWER, help="Failure probabilities, one or several.")
]
Epsilons = Annotated[list[float], Numbers, Parameter(group=ANSWER, help="Privacy losses, one or several.")]
SamplingChoice = Literal["poisson", "without-replacement", "every-record"]
RelationChoice = Literal["add", "remove", "add-or-remove", "substitute"]
RelationName = Annotated[
    RelationChoice,
    Parameter(
        name="--relation", group=QUESTION, help="Which datasets count as neighbours. There is no default."
    ),
]
Json = Annotated[
    bool,
    Parameter(negative="", group=ANSWER, show_default=False, help="Print one JSON object instead of tables."),
]
Population = Annotated[
    int | None,
    Whole,
    Parameter(
        help="Records to draw from, for without-replacement; the larger neighbour under add and remove."
    ),
]
Steps = Annotated[int, Whole, Parameter(help="How many times the mechanism is run.")]
EffortChoice = Annotated[
    Literal["quick", "tight"],
    Parameter(
        name="--effort",
        group=ANSWER,
        help="For without-replacement under substitute: quick takes milliseconds, tight plays a game for seconds to minutes "
        "and narrows the bracket.",
    ),
]
Accuracy = Annotated[
    float, Number, Parameter(group=ANSWER, help="Relative width in delta that a bracket may have.")
]
WhichMechanism = Parameter(help="The noise of one step.")
WhichSampling = Parameter(help="How batches are drawn. There is no default.")


# Parts of questions: a command asks one flat question, so that the words about a missing option name the option.


@dataclass(frozen=True, kw_only=True)
class MechanismOptions:
    """The options that state a mechanism."""

    mechanism: Annotated[Literal["gaussian", "laplace", "randomized-response"], WhichMechanism] = "gaussian"
    noise: Annotated[float | None, Number, Parameter(help="Noise multiplier: noise scale / C.")] = None
    truth: Annotated[
        float | None, Number, Parameter(help="Probability of the true bit, for randomized-response.")
    ] = None

    @property
    def stated_mechanism(self) -> Mechanism:
        """The mechanism, given exactly its own options."""
        of = f"--mechanism {self.mechanism}"
        if self.mechanism == "randomized-response":
            unwanted(of, "has no noise scale: use --truth", noise=self.noise)
            return RandomizedResponse(
                truth_probability=wanted(of, "for example --truth 0.75", truth=self.truth)
            )
        unwanted(
            of, "always adds noise: use --noise, or choose --mechanism randomized-response", truth=self.truth
        )
        noise = wanted(of, "for example --noise 0.8", noise=self.noise)
        return (
            Gaussian(noise_multiplier=noise)
            if self.mechanism == "gaussian"
            else Laplace(noise_multiplier=noise)
        )


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """The options that state a sampling."""

    sampling: Annotated[SamplingChoice, WhichSampling]
    rate: Annotated[
        float | None, Number, Parameter(help="Probability that a record joins a batch, for poisson.")
    ] = None
    batch: Annotated[int | None, Whole, Parameter(help="Records in a batch, for without-replacement.")] = None
    population: Population = None

    @property
    def stated_sampling(self) -> Sampling:
        """The sampling, given exactly its own options."""
        of = f"--sampling {self.sampling}"
        if self.sampling == "without-replacement":
            unwanted(of, "draws batches of fixed size: use --batch and --population", rate=self.rate)
            example = "for example --batch 1 --population 1000"
            return WithoutReplacement(
                batch=wanted(of, example, batch=self.batch),
                population=wanted(of, example, population=self.population),
            )
        if self.sampling == "poisson":
            advice = "draws batches of varying size: use --rate, or choose --sampling without-replacement"
            unwanted(of, advice, batch=self.batch, population=self.population)
            return Poisson(rate=wanted(of, "for example --rate 0.001", rate=self.rate))
        advice = "uses all records in every step: leave it out, or choose another --sampling"
        unwanted(of, advice, rate=self.rate, batch=self.batch, population=self.population)
        return EveryRecord()


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
class Question(StepOptions):
    """The options that state what is run, and how exactly the answer is wanted."""

    steps: Steps
    accuracy: Accuracy = DEFAULT_ACCURACY

    @property
    def run(self) -> Run:
        """All steps."""
        return self.step * self.steps


def stated_effort(name: str) -> Effort:
    """Find the effort of that name."""
    return Effort(name)


def stated_relation(name: str) -> Relation:
    """Find the relation of that spelling."""
    return next(relation for relation in RELATIONS.values() if spelled(relation) == name)


def wanted(of: str, example: str, **option: T | None) -> T:
    """The option that must be there."""
    ((name, value),) = option.items()
    if value is None:
        raise InvalidSetting(f"--{name} is missing: {of} needs it, {example}.")
    return value


def unwanted(of: str, remedy: str, **options: float | None) -> None:
    """Refuse options that must not be there."""
    for name, value in options.items():
        if value is not None:
            raise InvalidSetting(f"--{name} {value:.12g} contradicts {of}, which {remedy}.")
