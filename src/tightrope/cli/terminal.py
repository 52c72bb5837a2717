"""What a person sees: text and tables on standard output, progress and remarks on standard error."""

import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.progress import track as track_items
from rich.table import Table
from rich.text import Text

from tightrope.numerics.text import align

T = TypeVar("T")

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

    def on_broken_pipe(self) -> None:
        """Tell the caller that the reader has gone."""
        raise BrokenPipeError


class Page:
    """What a command prints on standard output: styled on a terminal, plain and unwrapped elsewhere."""

    def __init__(self) -> None:
        self._console = StandardOutput(_UNWRAPPED)
        self._styled = self._console.is_terminal

    def heading(self, text: str) -> None:
        """Print a line that opens a part, after an empty line."""
        self._line("")
        self._line(text, style="bold")

    def line(self, text: str, *, indent: int = 0) -> None:
        """Print a paragraph."""
        if self._styled:
            self._console.print(Padding(Text(text), (0, 0, 0, indent)))
        else:
            self._line(" " * indent + text)

    def item(self, number: int, head: str, body: str) -> None:
        """Print one entry of a numbered list: a line and what it says."""
        if self._styled:
            entry = Table.grid(padding=(0, 1))
            entry.add_row(f"{number:>3}.", Text(head, style="bold"))
            entry.add_row("", Text(body))
            self._console.print(entry)
        else:
            self._line(f"{number:>3}. {head}\n     {body}")

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Print names and what they are."""
        if not self._styled:
            width = max(len(name) for name, _ in facts)
            for name, what in facts:
                self._line(f"{name.ljust(width)}  {what}")
            return
        table = Table.grid(padding=(0, 2))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column()
        for name, what in facts:
            table.add_row(name, Text(what))
        self._console.print(table)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Print a table whose first row is the heading, after an empty line."""
        self._line("")
        if not self._styled:
            self._line(align(rows))
            return
        table = Table(box=box.SIMPLE_HEAD, header_style="bold cyan", padding=(0, 1, 0, 0), pad_edge=False)
        table.show_edge = False
        for name in rows[0]:
            table.add_column(name, overflow="fold")
        for row in rows[1:]:
            table.add_row(*map(Text, row))
        self._console.print(table)

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)


def say(sentence: str) -> None:
    """Say on standard error what is no result."""
    print(f"tightrope: {sentence}", file=sys.stderr)


def watch_items(items: Sequence[T], doing: str) -> Iterable[T]:
    """Go through the items with a bar that is gone when they are; files and pipes get none."""
    hidden = not sys.stderr.isatty()
    return track_items(items, doing, console=Console(stderr=True), transient=True, disable=hidden)


def make_bar(*more: ProgressColumn) -> Progress:
    """Make a bar on standard error that is gone when it stops."""
    columns = (TextColumn("{task.description}"), BarColumn(), *more, Elapsed())
    return Progress(*columns, console=Console(stderr=True), transient=True)
