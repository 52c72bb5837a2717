"""tightrope contrast: what the same run costs under every sampling and relation."""

from typing import Annotated, Any

from cyclopts import Parameter

import tightrope.answers.contrast as answers
from tightrope.cli.machine import bracket_object, print_json, question_object, theorem_object
from tightrope.cli.options import (
    ANSWER,
    Deltas,
    EffortChoice,
    Json,
    Question,
    RelationChoice,
    SamplingChoice,
    stated_effort,
    stated_relation,
)
from tightrope.cli.page import Page
from tightrope.cli.progress import game_watched
from tightrope.cli.refusals import in_options
from tightrope.cli.show import evidence_of, show_question, show_theorems
from tightrope.report.digits import ends
from tightrope.report.words import spelled
from tightrope.setting.effort import QUICK, meaning_of
from tightrope.setting.spelling import SAMPLING_SPELLINGS
from tightrope.theorems.evidence import Evidence

EXAMPLE = """\
tightrope contrast --noise 0.8 --sampling poisson --rate 0.001 \\
    --steps 10000 --delta 1e-6"""

_DIGITS = 6


ClaimedSampling = Annotated[
    SamplingChoice | None,
    Parameter(group=ANSWER, help="The sampling to compare with; by default that of --sampling."),
]
ClaimedRelation = Annotated[
    RelationChoice,
    Parameter(group=ANSWER, help="The relation to compare with."),
]


def contrast(
    question: Question,
    *,
    delta: Deltas,
    claimed_sampling: ClaimedSampling = None,
    claimed_relation: ClaimedRelation = "add-or-remove",
    effort: EffortChoice = "quick",
    json: Json = False,
) -> None:
    """Bracket epsilon for the same noise, rate and steps under every sampling and relation, and compare with a claim."""
    claimed = (SAMPLING_SPELLINGS[claimed_sampling or question.sampling], stated_relation(claimed_relation))
    how_hard = stated_effort(effort)
    with game_watched() as progress:
        table = answers.contrast(
            question.run,
            delta=delta,
            claimed=claimed,
            accuracy=question.accuracy,
            effort=how_hard,
            progress=progress,
        )
    evidence = [
        ((), ()) if row.curve is None else (evidence_of(row.curve), row.curve.witnessed_by)
        for row in table.rows
    ]
    theorems = list(dict.fromkeys(theorem for found, _ in evidence for theorem in found))
    if json:
        rows = [
            _row_object(row, table.deltas, *found) for row, found in zip(table.rows, evidence, strict=True)
        ]
        shown = [theorem_object(theorem) for theorem in theorems]
        claim = {"sampling": spelled(claimed[0]), "relation": spelled(claimed[1])}
        print_json(
            {
                "question": question_object(question, None, how_hard),
                "claimed": claim,
                "rows": rows,
                "verdict": table.verdict,
                "theorems": shown,
            }
        )
        return
    page = Page()
    show_question(page, question, None, how_hard)
    body = [_cells(table, row, found, theorems) for row, (found, _) in zip(table.rows, evidence, strict=True)]
    page.table(
        [["sampling", "relation", *(f"epsilon at delta {at:.12g}" for at in table.deltas), "because"], *body]
    )
    for row in table.rows:
        if row.effort is not None:
            narrower = "; --effort tight narrows the bracket" if row.effort is QUICK else ""
            page.line(f"{_named(row)}: {meaning_of(row.effort)}{narrower}.")
    page.heading("The upper ends are guaranteed, because")
    show_theorems(page, theorems)
    page.heading("The lower ends are reached by the neighbours")
    for row, (_, reached_by) in zip(table.rows, evidence, strict=True):
        if row.refusal is None:
            page.line(f"{_named(row)}: {' or '.join(reached_by)}", indent=2)
    for row in table.rows:
        if row.refusal is not None:
            page.heading(f"Refused: {_named(row)}")
            page.line(in_options(row.refusal), indent=2)
    # last: what stays above the prompt is what one must not miss
    page.heading("Verdict")
    page.line(table.verdict, indent=2)


def _named(row: answers.Row) -> str:
    return f"{spelled(row.sampling)}, {spelled(row.relation)}"


def _cells(
    table: answers.Contrast, row: answers.Row, evidence: tuple[Evidence, ...], theorems: list[Evidence]
) -> list[str]:
    found = zip(row.epsilons, table.ratios_in_words(row), strict=True)
    brackets = [f"[{', '.join(ends(bracket, _DIGITS))}]{beside}" for bracket, beside in found] or [
        "refused"
    ] * len(table.deltas)
    numbers = ", ".join(str(theorems.index(theorem) + 1) for theorem in evidence) or "-"
    return [spelled(row.sampling), spelled(row.relation), *brackets, numbers]


def _row_object(
    row: answers.Row, deltas: tuple[float, ...], evidence: tuple[Evidence, ...], reached_by: tuple[str, ...]
) -> dict[str, object]:
    ratios: list[Any] = [bracket_object(ratio) for ratio in row.ratios] or [None] * len(row.epsilons)
    answered = zip(deltas, row.epsilons, ratios, strict=True) if row.refusal is None else ()
    return {
        "sampling": spelled(row.sampling),
        "relation": spelled(row.relation),
        "brackets": [
            {"delta": at, "epsilon": bracket_object(bracket), "ratio": ratio}
            for at, bracket, ratio in answered
        ],
        "theorems": [theorem.name for theorem in evidence],
        "reached_by": list(reached_by),
        "effort": None if row.effort is None else row.effort.value,
        "refusal": row.refusal,
    }
