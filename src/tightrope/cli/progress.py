"""How far a long command has come, on a terminal's standard error."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, track

T = TypeVar("T")

PATIENCE = 1.0  # seconds without a bar
_REDRAWN = 0.1  # seconds between two looks at the count


def watched(items: Sequence[T], doing: str) -> Iterable[T]:
    """The items, with a bar that is gone when they are; files and pipes get none."""
    return track(items, doing, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


@contextmanager
def game_watched(doing: str = "Game, round") -> Iterator[Callable[[int, int], None] | None]:
    """What `privacy_curve` takes as progress: a bar that appears after a second and is gone afterwards, also when interrupted.

    `doing` names what is counted several times. Files and pipes get none. Nothing may be printed meanwhile.
    """
    if not sys.stderr.isatty():
        yield None
        return
    bar = _GameBar(doing)
    try:
        yield bar.count
    finally:
        bar.close()


class _GameBar:
    """One bar for several rounds; it pulses while nothing is counted."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("Preparing", total=None)
        self._rounds, self._last, self._shown = 0, 0, 0.0
        self._lock, self._closed = threading.Lock(), False
        self._starter = threading.Timer(PATIENCE, self._start)
        self._starter.daemon = True
        self._starter.start()

    def count(self, done: int, steps: int) -> None:
        """So many steps of this round are done; a round begins where the count falls back."""
        if done <= self._last or not self._rounds:
            self._rounds += 1
        self._last, now = done, time.monotonic()
        if now - self._shown >= _REDRAWN or done == steps:
            self._shown = now
            self._bar.update(
                self._task, description=f"{self._doing} {self._rounds}", completed=done, total=steps
            )

    def close(self) -> None:
        """Take the bar away, or see to it that it never comes."""
        self._starter.cancel()
        with self._lock:
            self._closed = True
        self._bar.stop()

    def _start(self) -> None:
        with self._lock:
            if not self._closed:
                self._bar.start()
