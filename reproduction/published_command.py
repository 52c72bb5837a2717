"""tightrope recheck: published claims beside what is certified for the same hyperparameters."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import reproduction.published.recheck as reports
from tightrope.cli.machine import print_json
from tightrope.cli.options import ANSWER, QUESTION, Json
from tightrope.cli.page import Page
from tightrope.cli.progress import game_watched
from tightrope.errors import InvalidSetting

EXAMPLE = """\
tightrope recheck examples/papers.toml
tightrope recheck examples/papers.toml --markdown"""

Where = Annotated[
    Path, Parameter(group=QUESTION, help="The published settings, a TOML file as examples/papers.toml.")
]
Markdown = Annotated[
    bool,
    Parameter(
        negative="", group=ANSWER, show_default=False, help="Print a page in Markdown instead of a table."
    ),
]


def recheck(papers: Where, *, json: Json = False, markdown: Markdown = False) -> None:
    """Account published runs again: each claim beside what is certified as accounted and proved as implemented."""
    if json and markdown:
        raise InvalidSetting("--json and --markdown exclude each other. Choose one.")
    stated = reports.read_papers(papers)
    with game_watched("Settings, pass") as progress:
        found = reports.recheck(stated, progress)
    if json:
        print_json(found.plain())
    elif markdown:
        print(found.markdown(), end="")
    else:
        page = Page()
        page.table(found.table())
        page.heading("Together")
        for sentence in found.summary():
            page.line(sentence, indent=2)
