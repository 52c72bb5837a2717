"""tightrope epsilon: the smallest epsilon at given deltas."""

from tightrope.accountants.names import CERTIFIED, Accountant
from tightrope.answers.spend import privacy_curve
from tightrope.cli.accountants import AccountantChoice, OtherQuestion, SimulationOptions, stated_simulation
from tightrope.cli.machine import bracket_object, curve_object, print_json
from tightrope.cli.options import (
    Deltas,
    EffortChoice,
    Json,
    Question,
    RelationName,
    stated_effort,
    stated_relation,
)
from tightrope.cli.page import Page
from tightrope.cli.progress import game_watched
from tightrope.cli.show import show_evidence, show_question
from tightrope.report.digits import ends

EXAMPLE = """\
tightrope epsilon --noise 0.8 --sampling poisson --rate 0.001 \\
    --steps 10000 --relation add-or-remove --delta 1e-6"""


def epsilon(
    question: Question,
    *,
    relation: RelationName,
    delta: Deltas,
    accountant: AccountantChoice = "certified",
    effort: EffortChoice = "tight",
    simulation: SimulationOptions | None = None,
    json: Json = False,
) -> None:
    """Bracket the smallest epsilon >= 0 for which the run is (epsilon, delta)-private, or ask another accountant."""
    neighbours, how_hard, who = stated_relation(relation), stated_effort(effort), Accountant(accountant)
    drawn = stated_simulation(simulation, who)
    if who is not CERTIFIED:
        OtherQuestion(question, neighbours, who, drawn).print("epsilon", delta, json=json)
        return
    with game_watched() as progress:
        curve = privacy_curve(
            question.run, relation=neighbours, accuracy=question.accuracy, effort=how_hard, progress=progress
        )
        found = [(at, curve.epsilon(at)) for at in delta]
    if json:
        brackets = [{"delta": at, "epsilon": bracket_object(bracket)} for at, bracket in found]
        print_json(curve_object(question, neighbours, how_hard, curve, brackets))
        return
    page = Page()
    show_question(page, question, neighbours, how_hard)
    page.table(
        [
            ["delta", "epsilon, lower end", "epsilon, upper end"],
            *([f"{at:.12g}", *ends(b)] for at, b in found),
        ]
    )
    show_evidence(page, curve)
