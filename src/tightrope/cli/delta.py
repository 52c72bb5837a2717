"""tightrope delta: the smallest delta at given epsilons."""

from tightrope.accountants.names import CERTIFIED, Accountant
from tightrope.cli.accountants import AccountantChoice, OtherQuestion, SimulationOptions, stated_simulation
from tightrope.cli.deltas import DeltaQuestion, print_deltas
from tightrope.cli.options import (
    EffortChoice,
    Epsilons,
    Json,
    Question,
    RelationName,
    stated_effort,
    stated_relation,
)

EXAMPLE = """\
tightrope delta --noise 0.8 --sampling without-replacement --batch 1 \\
    --population 1000 --steps 10000 --relation add-or-remove --epsilon 1 15"""


def delta(
    question: Question,
    *,
    relation: RelationName,
    epsilon: Epsilons,
    accountant: AccountantChoice = "certified",
    effort: EffortChoice = "tight",
    simulation: SimulationOptions | None = None,
    json: Json = False,
) -> None:
    """Bracket the smallest delta for which the run is (epsilon, delta)-private, or ask another accountant."""
    neighbours, who = stated_relation(relation), Accountant(accountant)
    drawn = stated_simulation(simulation, who)
    if who is CERTIFIED:
        print_deltas(DeltaQuestion(question, neighbours, stated_effort(effort)), epsilon, json=json)
    else:
        OtherQuestion(question, neighbours, who, drawn).print("delta", epsilon, json=json)
