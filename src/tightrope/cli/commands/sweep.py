"""tightrope sweep: every cell of a grid, streamed into a file that a killed sweep can go on with."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.progress import MofNCompleteColumn, TextColumn, TimeRemainingColumn

from tightrope.accountants.exact import Exact
from tightrope.cli.printed.terminal import make_bar, say
from tightrope.cli.process.exits import ExitCode
from tightrope.cli.process.long_work import ANNOUNCED_FROM, REPORTED_EVERY
from tightrope.cli.process.pace import measure_slowness
from tightrope.cli.typed import options as opt
from tightrope.cli.typed.misused import Misused
from tightrope.extras import install_command
from tightrope.numerics import check
from tightrope.numerics.text import write_duration
from tightrope.parallel import count_jobs
from tightrope.setting.effort import Effort
from tightrope.sweeps.answer import foresee
from tightrope.sweeps.grid import Grid
from tightrope.sweeps.sweep import SweepProgress, WorkerDied
from tightrope.sweeps.sweep import sweep as answer_cells

_SAMPLE = 8  # cells that are asked how long they take
_CONNECT_WITHIN = "10s"  # a scheduler that is there answers long before

GridFile = Annotated[
    Path, opt.about("The grid, a TOML file: docs/sweeps.md says how it is written.", opt.QUESTION)
]
Out = Annotated[
    Path, opt.about("The .csv or .parquet file for the rows; one that exists is not overwritten.", opt.ANSWER)
]
Resume = Annotated[bool, opt.flag("Go on with the file: rows that are there are kept.")]
Workers = Annotated[opt.MaybeWhole, opt.about("Processes to use; by default one for each core.", opt.ANSWER)]
Dask = Annotated[
    str | None,
    opt.about("Use the cluster of this scheduler, such as tcp://host:8786, not processes.", opt.ANSWER),
]


def sweep(
    grid: GridFile, *, out: Out, resume: Resume = False, workers: Workers = None, dask: Dask = None
) -> int:
    """Answer every cell of a grid into a file; a cell without an answer gets its error there."""
    if workers is not None:
        remedy = "Pass a number of processes, or leave it out for all cores."
        check.whole(least=1, remedy=remedy, **{"--workers": workers})
    asked = Grid.read(grid)
    last: list[SweepProgress] = []
    try:
        with _connect(dask), _show_bar(last, Announcer(asked, workers)) as tell:
            answer_cells(asked, out=out, resume=resume, workers=workers, progress=tell)
    except (KeyboardInterrupt, WorkerDied):
        for tally in last:
            say(f"{tally.done} of {tally.cells} rows are safe; go on with --resume.")
        raise
    for tally in last:
        errors = "1 of them with an error" if tally.errors == 1 else f"{tally.errors} of them with errors"
        kept = f", {tally.kept} of them known before" if tally.kept else ""
        if nothing_answered := tally.errors == tally.cells:
            errors = "which is an error" if tally.cells == 1 else "all of them with errors"
        cells = "1 cell" if tally.cells == 1 else f"{tally.cells} cells"
        say(f"wrote {out}: {cells}{kept}, {errors if tally.errors else 'no errors'}.")
        if nothing_answered:
            return ExitCode.REFUSED
    return ExitCode.FINE


@dataclass
class Announcer:
    """Says how long the cells will take before the first, and where there is no bar how far they are."""

    grid: Grid
    workers: int | None
    _began: float | None = None
    _reported: float = 0.0

    def hear(self, tally: SweepProgress, *, has_bar: bool) -> None:
        """Say something if it is time to."""
        now, left = time.monotonic(), tally.cells - tally.done
        if self._began is None:
            self._began = self._reported = now
            self._announce(left)
        elif left and not has_bar and now - self._reported >= REPORTED_EVERY:
            seconds = (now - self._began) / max(tally.done - tally.kept, 1) * left
            say(f"{tally.done} of {tally.cells} rows, about {write_duration(seconds)} left.")
            self._reported = now

    def _announce(self, left: int) -> None:
        """Of the cells that may take long, ask a few how long they take."""
        cells = list(self.grid)
        slow = [
            cell for cell in cells if cell["effort"] == Effort.TIGHT.value or cell["accountant"] == Exact.name
        ]
        asked = slow[:: max(math.ceil(len(slow) / _SAMPLE), 1)]
        works = [work for cell in asked for work in foresee(cell)]
        if not works:
            return
        each = sum(work.seconds or 0.0 for work in works) / len(asked) * measure_slowness()
        at_once = min(count_jobs(self.workers), left or 1)
        seconds = each * left * len(slow) / len(cells) / at_once
        if seconds >= ANNOUNCED_FROM:
            longest = max(works, key=lambda work: work.seconds or 0.0)
            say(
                f"this will take about {write_duration(seconds)}: {left} cells, each with work such as "
                f"{longest.what}. Ctrl-C keeps the rows that are done, and --resume goes on."
            )


@contextmanager
def _show_bar(last: list[SweepProgress], announcer: Announcer) -> Iterator[Callable[[SweepProgress], None]]:
    """Yield what takes tallies and keeps the last one: a bar on a terminal, now and then a line elsewhere."""
    bar = make_bar(MofNCompleteColumn(), TextColumn("{task.fields[errors]}"), TimeRemainingColumn())
    bar.disable = not sys.stderr.isatty()
    with bar:
        task = bar.add_task("Sweeping", total=None, errors="")

        def tell(tally: SweepProgress) -> None:
            last[:] = [tally]
            announcer.hear(tally, has_bar=not bar.disable)
            errors = f"{tally.errors} errors" if tally.errors else ""
            bar.update(task, total=tally.cells, completed=tally.done, errors=errors)

        yield tell


@contextmanager
def _connect(address: str | None) -> Iterator[None]:
    """Use the Dask cluster at this address, or without one the configured workers."""
    if address is None:
        yield
        return
    try:
        import joblib
        from distributed import Client
    except ModuleNotFoundError as missing:
        what = f"--dask needs {missing.name}, which is not installed"
        raise Misused(what, f"Install it with: {install_command('dist')} distributed") from None
    try:
        client: Any = Client(address, timeout=_CONNECT_WITHIN, set_as_default=False)
    except (OSError, ValueError, ImportError) as problem:
        why = " ".join(str(problem).split())
        what = f"--dask must be the address of a scheduler that runs, got {address!r}: {why}"
        raise Misused(what, "Start one with: dask scheduler.") from None
    with client, joblib.parallel_config("dask", client=client):
        yield
