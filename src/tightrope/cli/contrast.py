"""tightrope contrast: what the same run costs under every sampling and relation."""

import tightrope.answers.contrast as answers
from tightrope.answers.spend import privacy_curve
from tightrope.cli.machine import bracket_object, print_json, question_object, theorem_object
from tightrope.cli.options import Deltas, Json, Question
from tightrope.cli.page import Page
from tightrope.cli.refusals import in_options
from tightrope.cli.show import evidence_of, show_question, show_theorems
from tightrope.report.digits import ends
from tightrope.report.words import spelled
from tightrope.theorems.evidence import Evidence

EXAMPLE = """\
tightrope contrast --noise 0.8 --sampling poisson --rate 0.001 \\
    --steps 10000 --delta 1e-6"""

_DIGITS = 6


def contrast(question: Question, *, delta: Deltas, json: Json = False) -> None:
    """Bracket epsilon for the same noise, rate and steps under every sampling and relation."""
    table = answers.contrast(question.run, delta=delta, accuracy=question.accuracy)
    evidence = [_evidence(row) for row in table.rows]
    theorems = list(dict.fromkeys(theorem for found, _ in evidence for theorem in found))
    if json:
        rows = [_row_object(row, table.deltas, *found) for row, found in zip(table.rows, evidence, strict=True)]
        shown = [theorem_object(theorem) for theorem in theorems]
        print_json({"question": question_object(question, None), "rows": rows, "theorems": shown})
        return
    page = Page()
    show_question(page, question, None)
    body = [_cells(row, len(table.deltas), found, theorems) for row, (found, _) in zip(table.rows, evidence, strict=True)]
    page.table([["sampling", "relation", *(f"epsilon at delta {at:.12g}" for at in table.deltas), "because"], *body])
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


def _evidence(row: answers.Row) -> tuple[tuple[Evidence, ...], tuple[str, ...]]:
    """Return the theorems of a row's upper ends and the datasets of its lower ends; nothing where it was refused."""
    if row.refusal is not None:
        return (), ()
    curve = privacy_curve(row.run, relation=row.relation)
    return evidence_of(curve), curve.witnessed_by


def _named(row: answers.Row) -> str:
    return f"{spelled(row.sampling)}, {spelled(row.relation)}"


def _cells(row: answers.Row, deltas: int, evidence: tuple[Evidence, ...], theorems: list[Evidence]) -> list[str]:
    brackets = [f"[{', '.join(ends(bracket, _DIGITS))}]" for bracket in row.epsilons] or ["refused"] * deltas
    numbers = ", ".join(str(theorems.index(theorem) + 1) for theorem in evidence) or "-"
    return [spelled(row.sampling), spelled(row.relation), *brackets, numbers]


def _row_object(
    row: answers.Row, deltas: tuple[float, ...], evidence: tuple[Evidence, ...], reached_by: tuple[str, ...]
) -> dict[str, object]:
    answered = zip(deltas, row.epsilons, strict=True) if row.refusal is None else ()
    return {
        "sampling": spelled(row.sampling),
        "relation": spelled(row.relation),
        "brackets": [{"delta": at, "epsilon": bracket_object(bracket)} for at, bracket in answered],
        "theorems": [theorem.name for theorem in evidence],
        "reached_by": list(reached_by),
        "refusal": row.refusal,
    }
