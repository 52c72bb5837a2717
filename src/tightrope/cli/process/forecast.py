"""How much time is left: what was foreseen, corrected by how fast the work really goes."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Clock = Callable[[], float]


@dataclass(frozen=True)
class Mark:
    """How much of a piece was done, and when."""

    at: float
    done: int


@dataclass
class RunningPiece:
    """The piece that is worked on; `foreseen` is 0 where nobody knows. Counts may start anew in `rounds`."""

    foreseen: float
    began: float
    rounds: bool = False
    of: int = 0
    marks: list[Mark] = field(default_factory=list)

    def count(self, done: int, of: int, now: float) -> None:
        """Note how much is done; a mark is kept whenever that has doubled."""
        if self.marks and done < self.marks[-1].done:  # a new round
            self.marks = []
        self.of = of
        if len(self.marks) < 2 or done >= 2 * self.marks[-2].done:
            self.marks.append(Mark(now, done))
        else:
            self.marks[-1] = Mark(now, done)

    def left(self, now: float) -> float:
        """By the speed since half of it was undone: the first steps of some work are slow for their size.

        Of work in rounds the counts tell little, and what was foreseen stands.
        """
        last = self.marks[-1] if self.marks else Mark(now, 0)
        before = next((mark for mark in reversed(self.marks) if 2 * mark.done <= last.done), None)
        if before is None or self.rounds:
            return max(self.foreseen - (now - self.began), 0.0)
        return (last.at - before.at) / (last.done - before.done) * (self.of - last.done)


class Forecast:
    """The time left for pieces of work, each foreseen to take so many seconds.

    >>> now = [0.0]
    >>> forecast = Forecast([10.0, 30.0], clock=lambda: now[0])
    >>> forecast.total
    40.0
    >>> forecast.begin(10.0)
    >>> for now[0] in (1.0, 2.0, 3.0, 4.0):
    ...     forecast.count(int(now[0]), 20)
    >>> forecast.left  # 16 s for the rest of the first, which takes twice as long as foreseen, and 60 s
    76.0
    """

    def __init__(self, planned: Iterable[float], clock: Clock = time.monotonic) -> None:
        self.planned = sum(planned)
        self._clock = clock
        self._began = clock()
        self._foreseen, self._spent = 0.0, 0.0  # of pieces that are done
        self._current: RunningPiece | None = None

    def begin(self, foreseen: float, *, rounds: bool = False) -> None:
        """Note that a piece begins, and that the one before is done."""
        now = self._clock()
        if self._current is not None:
            self._foreseen += self._current.foreseen
            self._spent += now - self._current.began
        self._current = RunningPiece(foreseen, now, rounds)

    def count(self, done: int, of: int) -> None:
        """Note how much of the piece is done."""
        if self._current is None:
            self._current = RunningPiece(0.0, self._began)
        self._current.count(done, of, self._clock())

    @property
    def is_measured(self) -> bool:
        """Whether some of the work was timed."""
        return self._current is not None and not self._current.rounds and len(self._current.marks) > 2

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return self._clock() - self._began

    @property
    def total(self) -> float:
        """Seconds in all."""
        return self.elapsed + self.left

    @property
    def left(self) -> float:
        """Seconds that are left."""
        if self._current is None:
            return max(self.planned - self.elapsed, 0.0)
        now = self._clock()
        left = self._current.left(now)
        foreseen = self._foreseen + self._current.foreseen
        takes = self._spent + (now - self._current.began) + left
        return left + max(self.planned - foreseen, 0.0) * (takes / foreseen if foreseen else 1.0)
