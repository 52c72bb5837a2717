"""Work that takes long: an estimate before it, a quick answer meanwhile, and what is known after Ctrl-C."""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TypeVar

from rich.progress import TextColumn

from tightrope.cli.printed.refusals import WORDS
from tightrope.cli.printed.sentences import tell_so_far
from tightrope.cli.printed.terminal import make_bar, say
from tightrope.cli.process.forecast import Forecast
from tightrope.cli.process.memory import free_memory
from tightrope.cli.process.pace import measure_slowness
from tightrope.engines.watching import Rehearsal, Watcher, Workload
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.text import write_duration

T = TypeVar("T")

ANNOUNCED_FROM = 5.0  # seconds
PATIENCE = 1.0  # seconds before a bar appears, and before draws are extrapolated
REPORTED_EVERY = 30.0  # seconds, where there is no bar
TOO_LONG = 365 * 86_400.0  # seconds: nobody waits for a year
OFF_BY = 2.0  # an estimate that is off by more is corrected
REDRAWN_AFTER = 0.1  # seconds
GIGABYTE = 1e9


class Stage(Enum):
    """REHEARSING: work is noted and stopped before it begins. WORKING: it is done. STOPPED: no more of it."""

    REHEARSING = 1
    WORKING = 2
    STOPPED = 3


class LongWork(Watcher):
    """What the library takes as `progress`. It rehearses an answer, announces the work, and then has it done.

    The rehearsal stops every piece of long work before it begins. So it takes milliseconds, gives the quick
    answer, and tells what the work will be. Where there is none, the quick answer is the answer. After an
    interrupt the answer is asked for once more, and finds what was finished by then.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._stage = Stage.REHEARSING
        self._rehearsal = Rehearsal()
        self._slowness = 1.0
        self._forecast = Forecast(())
        self._announced: float | None = None  # seconds
        self._reported = time.monotonic()
        self._current: Workload | None = None
        self._bar: _Bar | None = None
        self._open_bar()

    # What commands call

    def finish(self, answer: Callable[[], T], meanwhile: Callable[[T], str] | None = None) -> T:
        """The answer. While it is worked on, `meanwhile` puts the quick answer into words.

        An interrupt leaves the best answer so far and sets `interrupted`; it is raised where there is none.
        """
        if self._stage is Stage.STOPPED:
            return answer()
        rehearsed: list[T] = []
        self._stage, self._rehearsal = Stage.REHEARSING, Rehearsal()
        try:
            rehearsed.append(answer())
        except NotPreciseEnough:
            if not self._rehearsal.noted:
                raise
        self._stage = Stage.WORKING
        if not self._rehearsal.noted:
            return rehearsed[0]
        try:
            self._announce_plan()
            if rehearsed and meanwhile is not None and self._announced is not None:
                say(f"meanwhile: {meanwhile(rehearsed[0])}")
            return answer()
        except KeyboardInterrupt:
            return self._answer_so_far(answer, rehearsed)

    def draw(self, target: Path, draw: Callable[[], object]) -> None:
        """Draw a picture and say so; not after an interrupt.

        Everything is printed before: an interrupt, or a full disk, loses no numbers.
        """
        if not self.interrupted:
            self._open_bar()
            try:
                draw()
            except KeyboardInterrupt:
                self.interrupted = True
            finally:
                self.close()
        say(f"interrupted before {target} was drawn" if self.interrupted else f"drew {target}")

    def note_interrupts(self, answers: Iterable[object]) -> None:
        """Note that answers say so themselves, as estimates do, which keep what was drawn by then."""
        self.interrupted |= any(getattr(answer, "interrupted", False) for answer in answers)

    @property
    def mark(self) -> dict[str, bool]:
        """What JSON says of an interrupt."""
        return {"interrupted": True} if self.interrupted else {}

    def tell(self, said: str) -> str:
        """The answer in words, which open with the interrupt if there was one."""
        return tell_so_far(said) if self.interrupted else said

    def end(self) -> None:
        """Let the exit code tell of an interrupt, after everything is printed."""
        if self.interrupted:
            raise KeyboardInterrupt

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def _open_bar(self) -> None:
        self._bar = _Bar() if sys.stderr.isatty() else None

    # What the library calls

    def begin(self, work: Workload) -> None:
        """Note the work, or begin with it."""
        if self._stage is not Stage.WORKING:
            self._rehearsal.begin(work)
        self._current = work
        self._forecast.begin(self._foresee(work), rounds=work.rounds)

    def __call__(self, done: int, of: int) -> None:
        """Show how much of it is done, and how long the rest will take."""
        if self._stage is not Stage.WORKING:
            self._rehearsal(done, of)
        self._forecast.count(done, of)
        what = self._current.what if self._current is not None else "Working"
        if self._bar is not None:
            self._bar.show(what, self._forecast)
        if self._forecast.elapsed >= PATIENCE:
            self._report()

    # Telling

    def _announce_plan(self) -> None:
        """Say how long what was rehearsed will take, if that is long; refuse what nobody can wait for."""
        self._slowness = measure_slowness()
        self._forecast = Forecast(map(self._foresee, self._works))
        memory = max(work.memory for work in self._works)
        if memory > free_memory():
            longest = self._longest
            need = f"{longest.what} would take about {memory / GIGABYTE:.1g} GB of memory, more than is free"
            raise NotPreciseEnough(need, f"{longest.instead}.")
        if self._forecast.planned >= ANNOUNCED_FROM:
            self._announce(self._forecast.planned)

    def _announce(self, seconds: float) -> None:
        longest, takes = self._longest, f"take about {write_duration(seconds)}"
        if seconds > TOO_LONG:
            raise NotPreciseEnough(f"this would {takes}: {longest.what}", f"{self._instead(seconds)}.")
        count = len(self._works)
        times = f", about {count} times" if count > 2 else ""  # both ends of one answer are one game
        instead = " and ".join(filter(None, (self._instead(seconds), "Ctrl-C leaves what is known by then")))
        say(f"this will {takes}: {longest.what}{times}. {instead}.")
        self._announced, self._reported = seconds, time.monotonic()

    def _instead(self, seconds: float) -> str:
        """What answers sooner, in the words of the command line."""
        longest = self._longest
        if longest.scales_with is None:
            return WORDS.fill(longest.instead)
        name, value = longest.scales_with
        fewer = _round_down(value * 60 / seconds)
        soon = write_duration(seconds * fewer / value)
        return WORDS.fill(f"{{{name}={fewer}}} takes about {soon}") if fewer < value else ""

    @property
    def _longest(self) -> Workload:
        if self._current is not None and self._current.seconds is None:
            return self._current
        works = self._works + ([self._current] if self._current is not None else [])
        return max(works, key=lambda work: work.seconds or 0.0)

    @property
    def _works(self) -> list[Workload]:
        return list(self._rehearsal.noted.values())

    def _foresee(self, work: Workload) -> float:
        return (work.seconds or 0.0) * self._slowness

    def _report(self) -> None:
        """Say what the first steps tell; where there is no bar, also from time to time how far it is."""
        elapsed, left = self._forecast.elapsed, self._forecast.left
        total, is_measured = elapsed + left, self._forecast.is_measured
        if self._announced is None:
            if is_measured and total >= ANNOUNCED_FROM and left >= PATIENCE:
                self._announce(total)
        elif self._bar is not None:
            return
        elif is_measured and not self._announced / OFF_BY <= total <= self._announced * OFF_BY:
            say(f"this will rather take about {write_duration(total)} in all.")
            self._announced, self._reported = total, time.monotonic()
        elif time.monotonic() - self._reported >= REPORTED_EVERY:
            say(f"{elapsed / total:.0%} done, about {write_duration(left)} left.")
            self._reported = time.monotonic()

    def _answer_so_far(self, answer: Callable[[], T], rehearsed: list[T]) -> T:
        """The answer from what was finished; else the quick one; an interrupt where there is none."""
        self._stage, self.interrupted = Stage.STOPPED, True
        self.close()
        try:
            return answer()
        except (NotPreciseEnough, KeyboardInterrupt):
            if not rehearsed:
                raise KeyboardInterrupt from None
            return rehearsed[0]


@contextmanager
def long_work() -> Iterator[LongWork]:
    """Yield what watches over long work.

    On a terminal a bar appears after a second, and is gone afterwards. Print nothing meanwhile.
    """
    work = LongWork()
    try:
        yield work
    finally:
        work.close()


def _round_down(value: float) -> int:
    """The power of 10 at or below a number; 1 below 10."""
    return int(10 ** math.floor(math.log10(max(value, 1.0))))


class _Bar:
    """One bar for all pieces; it pulses until something is counted."""

    def __init__(self) -> None:
        self._bar = make_bar(TextColumn("{task.fields[left]}"))
        self._task = self._bar.add_task("Preparing", total=None, left="")
        self._drawn = 0.0
        self._lock, self._closed = threading.Lock(), False
        self._starter = threading.Timer(PATIENCE, self._start)
        self._starter.daemon = True
        self._starter.start()

    def show(self, what: str, forecast: Forecast) -> None:
        """Draw how far the work is."""
        now = time.monotonic()
        if now - self._drawn < REDRAWN_AFTER:
            return
        self._drawn, elapsed, left = now, forecast.elapsed, forecast.left
        if forecast.is_measured:
            about = f"about {write_duration(left)} left"
            self._bar.update(
                self._task, description=what, completed=elapsed, total=elapsed + left, left=about
            )
        else:
            self._bar.update(self._task, description=what)

    def close(self) -> None:
        """Take the bar away, or make sure that it never comes."""
        self._starter.cancel()
        with self._lock:
            self._closed = True
        self._bar.stop()

    def _start(self) -> None:
        with self._lock:
            if not self._closed:
                self._bar.start()
