"""What a person sees: text and tables on standard output, progress and remarks on standard error."""

import os
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.text import Text

from tightrope.numerics.text import align, stack, wrap

_UNWRAPPED = 100_000


class StandardOutput(Console):
    """Standard output: escape codes on a terminal only, and a given width everywhere else.

    FORCE_COLOR puts no escape codes into files, and NO_COLOR takes the colours off a terminal.
    """

    def __init__(self, width: int) -> None:
        terminal = sys.stdout.isatty()
        super().__init__(
            file=sys.stdout,
            force_terminal=terminal,
            width=None if terminal else width,
            highlight=False,
            markup=False,
            emoji=False,
        )


class Page:
    """What a command prints on standard output: wrapped between words to the width of a terminal or COLUMNS.

    Elsewhere paragraphs are one line each. Escape codes reach terminals only.
    """

    def __init__(self) -> None:
        self._console = StandardOutput(_UNWRAPPED)
        self._width = self._console.width if self._console.is_terminal else _read_columns()

    def opening(self, *paragraphs: str) -> None:
        """Print the answer in words, above everything else; only its first sentence stands out."""
        for place, paragraph in enumerate(filter(None, paragraphs)):
            self._print(wrap(paragraph, self._width), style="" if place else "bold")

    def heading(self, text: str) -> None:
        """Print a line that opens a part, after an empty line."""
        self._print("")
        self._print(wrap(text, self._width), style="bold")

    def line(self, text: str, *, indent: int = 0) -> None:
        """Print a paragraph."""
        self._print(wrap(text, self._width, first=indent, rest=indent))

    def item(self, number: int, head: str, body: str) -> None:
        """Print one entry of a numbered list: a line and what it says."""
        self._print(wrap(f"{number:>3}. {head}", self._width, rest=5), style="bold")
        self._print(wrap(body, self._width, first=5, rest=5))

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Print names and what they are."""
        margin = max(len(name) for name, _ in facts) + 2
        for name, what in facts:
            self._print(wrap(f"{name.ljust(margin)}{what}", self._width, rest=margin))

    def table(self, rows: Sequence[Sequence[str]], stacked: Sequence[str] | None = None) -> None:
        """Print a table whose first row is the heading, after an empty line.

        Where it is too wide each row is a block of lines; `stacked` is the heading to name them by.
        """
        self._print("")
        text = align(rows)
        if self._width is not None and max(map(len, text.splitlines())) > self._width:
            self._print(stack([stacked or rows[0], *rows[1:]], self._width))
            return
        heading, rule, *body = text.split("\n")
        self._print(heading, style="bold cyan")
        self._print("\n".join([rule, *body]))

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)


def _read_columns() -> int | None:
    """The width that COLUMNS asks for; None where it says nothing of use."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else None


def print_brief(values: Iterable[str]) -> None:
    """Print one value a line and nothing else."""
    print("\n".join(values))


def say(sentence: str) -> None:
    """Say on standard error what is no result."""
    print(f"tightrope: {sentence}", file=sys.stderr)


def make_bar(*more: ProgressColumn) -> Progress:
    """Make a bar on standard error that is gone when it stops."""
    columns = (TextColumn("{task.description}"), BarColumn(), *more, Elapsed())
    return Progress(*columns, console=Console(stderr=True), transient=True)
