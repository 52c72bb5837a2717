"""Published training runs, accounted again on equal terms: each claim beside what is certified and what is proved."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reproduction.published.file import Papers, read_papers
from reproduction.published.page import markdown_page, plain_row, summary, table
from reproduction.published.row import Row, Standing, row_of
from tightrope.numerics.columns import aligned

__all__ = ["Papers", "Recheck", "Row", "Standing", "read_papers", "recheck"]


@dataclass(frozen=True)
class Recheck:
    """One row per setting, in the order of the file; prints as a table."""

    papers: Papers
    rows: tuple[Row, ...]

    def table(self) -> list[list[str]]:
        """The cells of the table, its heading first."""
        return table(self.rows)

    def summary(self) -> list[str]:
        """What the rows say together, in sentences."""
        return summary(self.rows)

    def markdown(self) -> str:
        """A page: what was asked, the table, and each setting with its sources, what was computed and what is missing."""
        return markdown_page(self.rows, self.papers.path)

    def plain(self) -> dict[str, Any]:
        """What JSON holds: every setting as read, both answers and what is missing."""
        return {"settings": [plain_row(row) for row in self.rows], "summary": self.summary()}

    def __str__(self) -> str:
        return "\n".join([aligned(self.table()), "", *self.summary()])


def recheck(papers: Papers, progress: Callable[[int, int], None] | None = None) -> Recheck:
    """Account every setting again; `progress` is told how many are done, out of how many.

    Under the sampling that was accounted the bracket is certified. Under the sampling that is implemented it
    is what the audit proves for such batches: both ends for a shuffle, an upper end for several draws,
    nothing where nothing is known.
    """
    rows = []
    for done, setting in enumerate(papers.settings, start=1):
        rows.append(row_of(setting))
        if progress is not None:
            progress(done, len(papers.settings))
    return Recheck(papers, tuple(rows))
