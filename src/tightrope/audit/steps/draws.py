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
    each is a token that the step which uses it stamps.
    """

    __slots__ = ("is_used", "loader_pass", "number", "place", "size")

    def __init__(self, number: int, size: int, loader_pass: LoaderPass) -> None:
        self.number = number
        self.size = size
        self.is_used = False
        self.loader_pass = loader_pass
        self.place = loader_pass.draws
        loader_pass.draws += 1

    def __repr__(self) -> str:
        used = ", used" if self.is_used else ""
        return f"Draw(number={self.number}, size={self.size}{used})"


class HandedBatch(NamedTuple):  # one for each batch, and made in a third of the time of a dataclass
    """What reached the training loop: `records` records of one draw, from its record `start` on."""

    draw: Draw
    start: int
    records: int

    def cut(self, start: int, records: int) -> "HandedBatch":
        """Some of its records, counted from its own first one."""
        return HandedBatch(self.draw, self.start + start, records)


class DrawCounter:
    """Numbers the passes over a loader and its draws, each once, whatever threads ask.

    >>> counter = DrawCounter()
    >>> counter.draw(counter.begin_pass(), 3)
    HandedBatch(draw=Draw(number=0, size=3), start=0, records=3)
    """

    def __init__(self) -> None:
        self._passes, self._draws = count(), count()

    def begin_pass(self) -> LoaderPass:
        """A new pass."""
        return LoaderPass(next(self._passes))

    def draw(self, loader_pass: LoaderPass, size: int) -> HandedBatch:
        """The next draw, of so many records, all of it in one batch."""
        return HandedBatch(Draw(next(self._draws), size, loader_pass), 0, size)
