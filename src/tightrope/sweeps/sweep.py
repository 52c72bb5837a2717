"""Every cell of a grid answered, here or on many machines; a sweep that was stopped can go on."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tightrope.errors import InvalidSetting, WorkerDied
from tightrope.parallel import in_parallel
from tightrope.sweeps.answer import answer, answer_several, is_quick, report_failure
from tightrope.sweeps.cells import Cell, Key, Row, key_of
from tightrope.sweeps.grid import Grid

if TYPE_CHECKING:
    from tightrope.sweeps.results import Results

MOST_TOGETHER = 32  # cells that one worker takes at a time: some 50 ms
__all__ = ["Grid", "SweepProgress", "WorkerDied", "in_parallel", "sweep"]


@dataclass(frozen=True, kw_only=True)
class SweepProgress:
    """How far a sweep is: `done` of `cells` have a row, `errors` of these an error; `kept` are older."""

    cells: int
    done: int
    errors: int
    kept: int

    @staticmethod
    def start(cells: int, rows: Collection[Row]) -> "SweepProgress":
        """Before anything is answered, with the rows that are kept."""
        errors = sum(row["error"] is not None for row in rows)
        return SweepProgress(cells=cells, done=len(rows), errors=errors, kept=len(rows))

    def after(self, row: Row) -> "SweepProgress":
        """With one row more."""
        return replace(self, done=self.done + 1, errors=self.errors + (row["error"] is not None))


def sweep(
    grid: Grid | Mapping[str, object] | str | Path,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    workers: int | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
) -> list[Row]:
    """The rows of all cells, in the order of the grid: question, answer, and in `error` why there is none.

    With `out`, each row is safe in a journal as soon as it is there. When the sweep ends, also by Ctrl-C, the
    rows are in that .csv or .parquet file, in the order of the grid. A file that exists is refused, unless to
    `resume`: its rows are kept, and only cells without a row, or whose worker died, are answered. `workers`
    is as in `joblib`: None for all cores or the configured cluster, 1 for this process. `progress` is called
    at the start and after each row.

    >>> import tightrope as tr
    >>> asked = {"ask": "epsilon", "relation": "remove", "mechanism": "gaussian", "noise_multiplier": [1, 2]}
    >>> sampled = {"sampling": "poisson", "rate": [0.01, 7], "steps": 9, "delta": 1e-6}
    >>> rows = sweep({**asked, **sampled}, workers=1)
    >>> [(row["noise_multiplier"], row["rate"], row["error"]) for row in rows][1]
    (1.0, 7.0, 'InvalidSetting: rate must be in [0, 1], got 7.0. It is the probability that one record
    joins...')
    """
    if progress is not None and not callable(progress):
        raise InvalidSetting("progress", progress, "be callable", "Pass a function of one SweepProgress.")
    cells = {key_of(cell): cell for cell in _read_grid(grid)}
    in_parallel(answer, (), workers=workers)  # refuses bad workers before a file is made
    with _open_results(out, cells, resume) as results:
        known = {} if results is None else results.rows
        rows = {key: row for key, row in known.items() if key in cells and not _is_unfinished(row)}
        state = SweepProgress.start(len(cells), rows.values())
        tell = progress or (lambda state: None)
        tell(state)
        unanswered = [cell for key, cell in cells.items() if key not in rows]
        with closing(_answer_all(unanswered, workers)) as answers:
            for row in answers:
                if results is not None:
                    results.add(row)
                rows[key_of(row)] = row
                state = state.after(row)
                tell(state)
    return [rows[key] for key in cells]


def _read_grid(grid: Grid | Mapping[str, object] | str | Path) -> Grid:
    if isinstance(grid, Grid):
        return grid
    return Grid.read(grid) if isinstance(grid, str | Path) else Grid.of(grid)


def _open_results(
    out: str | Path | None, order: Iterable[Key], resume: bool
) -> "AbstractContextManager[Results | None]":
    if out is None:
        return nullcontext()
    from tightrope.sweeps.results import open_results  # SQLite takes a while to load

    return open_results(out, order, resume=resume)


def _is_unfinished(row: Row) -> bool:
    """Whether the machine is to blame that there is no answer."""
    return str(row["error"] or "").startswith(f"{WorkerDied.__name__}:")


def _answer_all(cells: list[Cell], workers: int | None) -> Generator[Row, None, None]:
    """Quick cells of one run go to one worker, which keeps what they share; where it dies, one by one."""
    if workers == 1:  # which keeps what all cells share
        yield from _answer_alone(cells, workers)
        return
    groups = _group(cells)
    with closing(in_parallel(answer_several, groups, workers=workers)) as outcomes:
        for place, outcome in outcomes:
            group = groups[place]
            if not isinstance(outcome, Exception):
                yield from ({**cell, **found} for cell, found in zip(group, outcome, strict=True))
            elif len(group) == 1:
                yield {**group[0], **report_failure(outcome)}
            else:
                yield from _answer_alone(group, workers)


def _answer_alone(cells: list[Cell], workers: int | None) -> Generator[Row, None, None]:
    with closing(in_parallel(answer, cells, workers=workers)) as outcomes:
        for place, outcome in outcomes:
            found = report_failure(outcome) if isinstance(outcome, Exception) else outcome
            yield {**cells[place], **found}


def _group(cells: list[Cell]) -> list[list[Cell]]:
    """Those that ask about one run at several points; what may take long is by itself."""
    groups: list[list[Cell]] = []
    begun: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        run = tuple(value for key, value in cell.items() if key not in ("epsilon", "delta"))
        if is_quick(cell) and len(begun.get(run, ())) % MOST_TOGETHER:
            begun[run].append(cell)
        else:
            begun[run] = [cell]
            groups.append(begun[run])
    return groups
