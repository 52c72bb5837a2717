"""tightrope rate: the largest sampling rate, or batch, within a target."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from tightrope.answers.calibrate import largest_batch, largest_rate
from tightrope.cli.machine import mechanism_object
from tightrope.cli.options import (
    QUESTION,
    Json,
    MechanismOptions,
    Population,
    Steps,
    WhichSampling,
    unwanted,
    wanted,
)
from tightrope.cli.progress import game_watched
from tightrope.cli.target import ASKED_FOR, Answer, Asked, TargetOptions, print_answer
from tightrope.report.words import mechanism_in_words
from tightrope.setting.run import Step
from tightrope.setting.sampling import Poisson

EXAMPLE = """\
tightrope rate --noise 0.8 --sampling poisson --steps 10000 \\
    --relation add-or-remove --epsilon 1 --delta 1e-6"""


@Parameter(name="*", group=QUESTION)
@dataclass(frozen=True, kw_only=True)
class RateQuestion(MechanismOptions):
    """Everything about a run but its rate."""

    sampling: Annotated[Literal["poisson", "without-replacement"], WhichSampling]
    population: Population = None
    steps: Steps

    def asked(self, words: str, **sampling: int | None) -> Asked:
        """The question, given what is known about the sampling."""
        return Asked(
            words=[
                ("mechanism", mechanism_in_words(self.stated_mechanism)),
                ("sampling", f"{self.sampling}, {words}"),
                ("steps", str(self.steps)),
            ],
            stated={
                "mechanism": mechanism_object(self.stated_mechanism),
                "sampling": {"kind": self.sampling, **sampling, "rate": None},
                "steps": self.steps,
            },
        )


def rate(question: RateQuestion, target: TargetOptions, *, json: Json = False) -> None:
    """Find the largest sampling rate, or batch without replacement, with which the run is (epsilon, delta)-private."""
    (_print_rate if question.sampling == "poisson" else _print_batch)(question, target, json=json)


def _print_rate(question: RateQuestion, target: TargetOptions, *, json: bool) -> None:
    unwanted("--sampling poisson", "draws from any population: leave it out", population=question.population)
    mechanism = question.stated_mechanism
    found = largest_rate(
        mechanism,
        steps=question.steps,
        epsilon=target.epsilon,
        delta=target.delta,
        relation=target.neighbours,
        accuracy=target.accuracy,
        effort=target.how_hard,
    )
    answer = Answer.rounded(
        found, lambda rate: Step(mechanism, Poisson(rate=rate)) * question.steps, up=False
    )
    asked = question.asked(f"the probability with which each record joins each batch is {ASKED_FOR}")
    print_answer(answer, asked, target, option="--rate", name="largest rate", json=json)


def _print_batch(question: RateQuestion, target: TargetOptions, *, json: bool) -> None:
    population = wanted(
        "--sampling without-replacement", "for example --population 60000", population=question.population
    )
    with game_watched() as progress:
        found = largest_batch(
            question.stated_mechanism,
            population=population,
            steps=question.steps,
            epsilon=target.epsilon,
            delta=target.delta,
            relation=target.neighbours,
            accuracy=target.accuracy,
            effort=target.how_hard,
            progress=progress,
        )
        answer = Answer.exact(found)
    asked = question.asked(
        f"the size of a batch out of {population} records is {ASKED_FOR}", batch=None, population=population
    )
    also = {"rate": found.value / population}
    print_answer(answer, asked, target, option="--batch", name="largest batch", also=also, json=json)
