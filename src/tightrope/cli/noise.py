"""tightrope noise: the smallest noise multiplier within a target."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from tightrope.answers.calibrate import smallest_noise
from tightrope.cli.machine import sampling_object
from tightrope.cli.options import QUESTION, Json, SamplingOptions, Steps, WhichMechanism
from tightrope.cli.progress import game_watched
from tightrope.cli.target import ASKED_FOR, Answer, Asked, TargetOptions, print_answer
from tightrope.report.words import sampling_in_words
from tightrope.setting.mechanism import Gaussian, Laplace
from tightrope.setting.run import Step

EXAMPLE = """\
tightrope noise --sampling poisson --rate 0.001 --steps 10000 \\
    --relation add-or-remove --epsilon 1 --delta 1e-6"""


@Parameter(name="*", group=QUESTION)
@dataclass(frozen=True, kw_only=True)
class NoiseQuestion(SamplingOptions):
    """Everything about a run but its noise."""

    mechanism: Annotated[Literal["gaussian", "laplace"], WhichMechanism] = "gaussian"
    steps: Steps


def noise(question: NoiseQuestion, target: TargetOptions, *, json: Json = False) -> None:
    """Find the smallest noise multiplier with which the run is (epsilon, delta)-private."""
    sampling, kind = question.stated_sampling, Gaussian if question.mechanism == "gaussian" else Laplace
    with game_watched() as progress:
        found = smallest_noise(
            sampling,
            steps=question.steps,
            epsilon=target.epsilon,
            delta=target.delta,
            relation=target.neighbours,
            mechanism=kind,
            accuracy=target.accuracy,
            effort=target.how_hard,
            progress=progress,
        )
        answer = Answer.rounded(
            found, lambda x: Step(kind(noise_multiplier=x), sampling) * question.steps, up=True
        )
    asked = Asked(
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
    print_answer(answer, asked, target, option="--noise", name="smallest noise multiplier", json=json)
