"""Tokens: what one draw of a loader is, wherever its records travel."""

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple, final


@final
class LoaderPass:
    """One pass over a loader: how many draws were made in it, and the `numbers` of those to come.

    All passes over a loader share their `numbers`, of which each is taken once, whatever threads ask.

    >>> first = LoaderPass()
    >>> Draw(first, 3), Draw(first, 0), Draw(LoaderPass(first.numbers), 2)
    (Draw(number=0, size=3), Draw(number=1, size=0), Draw(number=2, size=2))
    """

    __slots__ = ("draws", "numbers")

    def __init__(self, numbers: Iterator[int] | None = None) -> None:
        self.numbers: Iterator[int] = count() if numbers is None else numbers
        self.draws = 0


@final
class Draw:
    """One draw of a loader: `size` records (on this rank), which one step may use once.

    `number` counts the draws of the loader from 0, and `place` those of its pass. Two draws are never equal:
    each is a token that the step which uses it stamps. It is also the batch that holds all of its records, as
    most batches do: a second object for each would cost a third of what telling of it costs.
    """

    __slots__ = ("is_used", "loader_pass", "number", "place", "size")

    def __init__(self, loader_pass: LoaderPass, size: int) -> None:
        self.number = next(loader_pass.numbers)
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
