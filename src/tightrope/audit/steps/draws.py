"""Tokens: what one draw of a loader is, wherever its records travel."""

from itertools import count
from typing import NamedTuple, final


@final
class LoaderPass:
    """One pass over a loader, and the number of draws that were made in it."""

    __slots__ = ("draws", "number")

    def __init__(self, number: int) -> None:
        self.number, self.draws = number, 0


@final
class Draw:
    """One draw of a loader: `size` records (on this rank), which one step may use once.

    `number` counts the draws of the loader from 0, and `place` those of its pass. Two draws are never equal:
    each is a token that the step which uses it stamps. It is also the batch that holds all of its records, as
    most batches do: a second object for each would cost a third of what telling of it costs.
    """

    __slots__ = ("is_used", "loader_pass", "number", "place", "size")

    def __init__(self, number: int, size: int, loader_pass: LoaderPass) -> None:
        self.number = number
        self.size = size
        self.is_used = False
        self.loader_pass = loader_pass
        self.place = loader_pass.draws
        loader_pass.draws += 1

    start = 0

    @property
    def draw(self) -> "Draw":
        """Itself."""
        return self

    @property
    def records(self) -> int:
        """All of them."""
        return self.size

    def cut(self, start: int, records: int) -> "HandedBatch":
        """Some of its records."""
        is_whole = start == 0 and records == self.size
        return self if is_whole else DrawPart(self, start, records)

    def __repr__(self) -> str:
        used = ", used" if self.is_used else ""
        return f"Draw(number={self.number}, size={self.size}{used})"


class DrawPart(NamedTuple):
    """Some of a draw: `records` records, from its record `start` on."""

    draw: Draw
    start: int
    records: int

    @property
    def is_used(self) -> bool:
        """Whether a step used the draw."""
        return self.draw.is_used

    def cut(self, start: int, records: int) -> "HandedBatch":
        """Some of its records, counted from its own first one."""
        return self.draw.cut(self.start + start, records)


HandedBatch = Draw | DrawPart  # what reached the training loop


class DrawCounter:
    """Numbers the passes over a loader and its draws, each once, whatever threads ask.

    >>> counter = DrawCounter()
    >>> counter.draw(counter.begin_pass(), 3)
    Draw(number=0, size=3)
    """

    def __init__(self) -> None:
        self._passes, self._draws = count(), count()

    def begin_pass(self) -> LoaderPass:
        """A new pass."""
        return LoaderPass(next(self._passes))

    def draw(self, loader_pass: LoaderPass, size: int) -> Draw:
        """The next draw, of so many records."""
        return Draw(next(self._draws), size, loader_pass)
