"""tightrope sweep: every cell of a grid, streamed into a file that a killed sweep can go on with."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tightrope.cli.options import ANSWER, QUESTION, Whole
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.sweeps.grid import Grid
from tightrope.sweeps.sweep import SweepProgress, WorkerDied
from tightrope.sweeps.sweep import sweep as answered

EXAMPLE = """\
tightrope sweep examples/grid.toml --out results.csv"""

_CONNECTING = "10s"  # to a scheduler that is there this is long

Where = Annotated[
    Path, Parameter(group=QUESTION, help="The grid, a TOML file: docs/sweeps.md says how it is written.")
]
Out = Annotated[
    Path,
    Parameter(
        group=ANSWER, help="The .csv or .parquet file for the rows; one that exists is not overwritten."
    ),
]
Resume = Annotated[
    bool,
    Parameter(
        negative="",
        group=ANSWER,
        show_default=False,
        help="Go on with the file: rows that are there are kept.",
    ),
]
Workers = Annotated[
    int | None, Whole, Parameter(group=ANSWER, help="Processes to use; by default one for each core.")
]
Dask = Annotated[
    str | None,
    Parameter(
        group=ANSWER,
        help="Use the cluster of this scheduler, such as tcp://host:8786, in place of processes.",
    ),
]


def sweep(
    grid: Where,
    *,
    out: Out,
    resume: Resume = False,
    workers: Workers = None,
    dask: Dask = None,
) -> None:
    """Answer every cell of a grid, row by row into a file; a cell that cannot be answered gets its error there."""
    if workers is not None:
        check.whole(
            least=1,
            remedy="Pass a number of processes, or leave it out for all cores.",
            **{"--workers": workers},
        )
    asked = Grid.read(grid)
    last: list[SweepProgress] = []

    def remembered(tell: Callable[[SweepProgress], None]) -> Callable[[SweepProgress], None]:
        def told(tally: SweepProgress) -> None:
            last[:] = [tally]
            tell(tally)

        return told

    try:
        with _cluster(dask), _bar() as tell:
            answered(asked, out=out, resume=resume, workers=workers, progress=remembered(tell))
    except (KeyboardInterrupt, WorkerDied):
        for tally in last:
            _say(f"{tally.done} of {tally.cells} rows are safe; go on with --resume.")
        raise
    for tally in last:
        errors = "1 of them with an error" if tally.errors == 1 else f"{tally.errors} of them with errors"
        kept = f", {tally.kept} of them known before" if tally.kept else ""
        _say(f"wrote {out}: {tally.cells} cells{kept}, {errors if tally.errors else 'no errors'}.")


@contextmanager
def _bar() -> Iterator[Callable[[SweepProgress], None]]:
    """What takes tallies: a bar on a terminal's standard error, nothing elsewhere."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[errors]}"),
    )
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(
        *columns, *times, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("Sweeping", total=None, errors="")

        def tell(tally: SweepProgress) -> None:
            bar.update(
                task,
                total=tally.cells,
                completed=tally.done,
                errors=f"{tally.errors} errors" if tally.errors else "",
            )

        yield tell


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    """The configured workers, or the Dask cluster at this address."""
    if address is None:
        yield
        return
    try:
        import joblib
        from distributed import Client
    except ModuleNotFoundError as missing:
        raise InvalidSetting(
            f"--dask needs {missing.name}, which is not installed: install tightrope[dist] and distributed."
        ) from None
    try:
        client: Any = Client(address, timeout=_CONNECTING, set_as_default=False)
    except (OSError, ValueError, ImportError) as problem:
        why = " ".join(str(problem).split())
        raise InvalidSetting(
            f"--dask must be the address of a scheduler that runs, got {address!r}: {why}. Start one with: dask scheduler."
        ) from None
    with client, joblib.parallel_config("dask", client=client):
        yield


def _say(sentence: str) -> None:
    print(f"tightrope: {sentence}", file=sys.stderr)
