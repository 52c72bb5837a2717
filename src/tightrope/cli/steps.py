"""tightrope steps: how often a step can be taken within a target."""

from tightrope.answers.calibrate import most_steps
from tightrope.cli.machine import mechanism_object, sampling_object
from tightrope.cli.options import Json, StepOptions
from tightrope.cli.progress import game_watched
from tightrope.cli.target import ASKED_FOR, Answer, Asked, TargetOptions, print_answer
from tightrope.report.words import mechanism_in_words, sampling_in_words

EXAMPLE = """\
tightrope steps --noise 0.8 --sampling poisson --rate 0.001 \\
    --relation add-or-remove --epsilon 1 --delta 1e-6"""


def steps(question: StepOptions, target: TargetOptions, *, json: Json = False) -> None:
    """Find how many steps are (epsilon, delta)-private together."""
    step = question.step
    with game_watched() as progress:
        found = most_steps(
            step,
            epsilon=target.epsilon,
            delta=target.delta,
            relation=target.neighbours,
            accuracy=target.accuracy,
            effort=target.how_hard,
            progress=progress,
        )
        answer = Answer.exact(found)
    asked = Asked(
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
    print_answer(answer, asked, target, option="--steps", name="most steps", json=json)
