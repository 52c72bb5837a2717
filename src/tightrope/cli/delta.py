"""tightrope delta: the smallest delta at given epsilons."""

from tightrope.answers.spend import privacy_curve
from tightrope.cli.deltas import print_deltas
from tightrope.cli.options import Epsilons, Json, Question, RelationName, stated_relation

EXAMPLE = """\
tightrope delta --noise 0.8 --sampling without-replacement --batch 1 \\
    --population 1000 --steps 10000 --relation add-or-remove --epsilon 1 15"""


def delta(question: Question, *, relation: RelationName, epsilon: Epsilons, json: Json = False) -> None:
    """Bracket the smallest delta for which the run is (epsilon, delta)-private."""
    neighbours = stated_relation(relation)
    curve = privacy_curve(question.run, relation=neighbours, accuracy=question.accuracy)
    print_deltas(question, neighbours, curve, epsilon, json=json)
