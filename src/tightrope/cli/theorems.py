"""tightrope theorems: which questions have an answer, why, and which beliefs are false."""

from typing import Annotated

from cyclopts import Parameter

from tightrope.cli.machine import print_json, theorem_object
from tightrope.cli.options import ANSWER, Json
from tightrope.cli.page import Page
from tightrope.cli.show import show_theorems
from tightrope.errors import InvalidSetting
from tightrope.report.theorem_page import matrix_rows, theorem_page
from tightrope.report.words import spelled
from tightrope.theorems.evidence import REFUTED
from tightrope.theorems.lookup import every_theorem, support_matrix

EXAMPLE = "tightrope theorems"

Markdown = Annotated[
    bool,
    Parameter(negative="", group=ANSWER, show_default=False, help="Print a Markdown page instead of tables."),
]


def theorems(*, json: Json = False, markdown: Markdown = False) -> None:
    """Print which questions have a theorem, every theorem with its standing, and the beliefs that are refuted."""
    if json and markdown:
        raise InvalidSetting("--json contradicts --markdown: choose one of them.")
    if markdown:
        print(theorem_page(), end="")
        return
    holds = [evidence for evidence in every_theorem() if evidence.standing is not REFUTED]
    refuted = support_matrix().refuted_beliefs
    if json:
        cells = [
            {
                "mechanism": spelled(mechanism),
                "sampling": spelled(sampling),
                "relation": spelled(relation),
                "theorems": [evidence.name for evidence in found],
            }
            for mechanism, sampling, relation, found in support_matrix().cells
        ]
        print_json(
            {
                "support": cells,
                "theorems": [theorem_object(evidence) for evidence in holds],
                "refuted_beliefs": [theorem_object(evidence) for evidence in refuted],
            }
        )
        return
    page = Page()
    page.line("Which theorem, by its number below, answers which question; none where it is refused.")
    page.table(matrix_rows(lambda evidence: str(holds.index(evidence) + 1)))
    page.heading("Theorems")
    show_theorems(page, holds)
    page.heading("Refuted beliefs")
    show_theorems(page, refuted)
