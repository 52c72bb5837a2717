"""tightrope delta: the smallest delta at given epsilons."""

from tightrope.cli.deltas import DeltaQuestion, print_deltas
from tightrope.cli.options import EffortChoice, Epsilons, Json, Question, RelationName, stated_effort, stated_relation

EXAMPLE = """\
tightrope delta --noise 0.8 --sampling without-replacement --batch 1 \\
    --population 1000 --steps 10000 --relation add-or-remove --epsilon 1 15"""


def delta(
    question: Question, *, relation: RelationName, epsilon: Epsilons, effort: EffortChoice = "tight", json: Json = False
) -> None:
    """Bracket the smallest delta for which the run is (epsilon, delta)-private."""
    print_deltas(DeltaQuestion(question, stated_relation(relation), stated_effort(effort)), epsilon, json=json)
