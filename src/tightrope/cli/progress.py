"""How far a long command has come, on a terminal's standard error."""

import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")


def watched(items: Sequence[T], doing: str) -> Iterable[T]:
    """The items, with a bar that is gone when they are; files and pipes get none."""
    return track(items, doing, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
