"""tightrope compare: what every accountant says about one run."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import tightrope.answers.compare as answers
from tightrope.accountants.names import CERTIFIED, MONTE_CARLO, RENYI, promise_of
from tightrope.cli.accountants import (
    SimulationOptions,
    answer_in_short,
    answer_object,
    refuse_to_hide_an_interrupt,
    stated_simulation,
)
from tightrope.cli.machine import print_json, question_object
from tightrope.cli.options import (
    ANSWER,
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
from tightrope.cli.refusals import in_options
from tightrope.cli.show import show_question
from tightrope.cli.usual_range import drawn_range, usual_range
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve
from tightrope.report.accountants_plot import draw_accountants
from tightrope.report.plot import checked_target
from tightrope.report.words import assumed_in_short, run_in_short

EXAMPLE = """\
tightrope compare --noise 0.8 --sampling poisson --rate 0.001 \\
    --steps 10000 --relation add-or-remove --delta 1e-6 --plot accountants.png"""

Picture = Annotated[
    Path | None,
    Parameter(group=ANSWER, help="Also draw delta by all of them into this png, pdf or svg file."),
]


def compare(
    question: Question,
    *,
    relation: RelationName,
    delta: Deltas,
    effort: EffortChoice = "quick",
    simulation: SimulationOptions | None = None,
    plot: Picture = None,
    json: Json = False,
) -> None:
    """Set the certified bracket beside the Rényi bound, the Gaussian limit and Monte Carlo, on one run."""
    target = None if plot is None else checked_target(plot)
    neighbours, how_hard = stated_relation(relation), stated_effort(effort)
    drawn = None if simulation is None else stated_simulation(simulation, MONTE_CARLO)
    with game_watched("Counting, part") as progress:
        table = answers.compare(
            question.run,
            relation=neighbours,
            delta=delta,
            accuracy=question.accuracy,
            effort=how_hard,
            simulation=drawn,
            progress=progress,
        )
        if target is not None:
            ranged = [
                curve
                for who in (CERTIFIED, RENYI)
                if isinstance(curve := table.curves.get(who), PrivacyCurve | RenyiCurve)
            ]
            title, assumed = run_in_short(question.run), assumed_in_short(question.run, neighbours)
            draw_accountants(
                table.curves,
                epsilons=drawn_range(usual_range(ranged[:1])),
                to=target,
                title=title,
                assumed=assumed,
            )
    if json:
        rows = [_row_object(row, table.deltas) for row in table.rows]
        print_json({"question": question_object(question, neighbours, how_hard), "rows": rows})
    else:
        _show(question, table, relation=relation, effort=effort)
    if target is not None:
        print(f"tightrope: drew {target}", file=sys.stderr)
    simulated = [answer for row in table.rows if row.accountant is MONTE_CARLO for answer in row.epsilons]
    refuse_to_hide_an_interrupt(simulated)


def _show(
    question: Question, table: answers.Comparison, *, relation: RelationName, effort: EffortChoice
) -> None:
    page = Page()
    show_question(page, question, stated_relation(relation), stated_effort(effort))
    rows = [
        [
            "accountant",
            *(
                f"epsilon at delta {at:.12g}{more}"
                for at in table.deltas
                for more in ("", ", beside the bracket")
            ),
        ]
    ]
    for row in table.rows:
        cells = [
            c
            for i, answer in enumerate(row.epsilons)
            for c in (answer_in_short(answer), table.beside_certified(row, i))
        ]
        rows.append([row.name, *(cells or ["refused", ""] * len(table.deltas))])
    page.table(rows)
    page.heading("What each answer is worth")
    for accountant in dict.fromkeys(row.accountant for row in table.rows):
        page.line(f"{accountant.value}: {promise_of(accountant)}", indent=2)
    for row in table.rows:
        if row.refusal is not None:
            page.heading(f"Refused: {row.name}")
            page.line(in_options(row.refusal), indent=2)


def _row_object(row: answers.Row, deltas: tuple[float, ...]) -> dict[str, object]:
    found = zip(deltas, row.epsilons, strict=True) if row.refusal is None else ()
    return {
        "accountant": row.accountant.value,
        "theorem": row.by or None,
        "promise": promise_of(row.accountant),
        "epsilons": [{"delta": at, "epsilon": answer_object(answer)} for at, answer in found],
        "refusal": row.refusal,
    }
