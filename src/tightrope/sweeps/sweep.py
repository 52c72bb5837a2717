"""Every cell of a grid answered, here or on many machines; a sweep that was stopped can go on."""

import math
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tightrope.errors import InvalidSetting, WorkerDied
from tightrope.parallel import count_jobs, has_chosen_backend, in_parallel
from tightrope.sweeps.answer import LastCurve, answer, answer_several, find_run, is_quick, report_failure
from tightrope.sweeps.cells import Cell, Key, Row, key_of
from tightrope.sweeps.grid import Grid

if TYPE_CHECKING:
    from tightrope.sweeps.results import Results

MOST_TOGETHER = 1024  # cells that one worker takes at a time: their rows come together, after half a second
SOON_DONE = 200  # quick cells that one process answers before another would have started, half a second
_MOST_OF_ONE_RUN = 32  # of a grid that is small enough to share out more finely
_PIECES = 64  # per worker, so that all finish at about the same time
Asked = tuple[Key, Cell]
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
    are processes, 1 means this one; None means the configured cluster, or else all cores, unless cells are
    few and quick. `progress` is called at the start and after each row.

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
        unanswered = [(key, cell) for key, cell in cells.items() if key not in rows]
        with closing(_answer_all(unanswered, workers)) as answers:
            for key, row in answers:
                if results is not None:
                    results.add(key, row)
                rows[key] = row
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


def _answer_all(asked: list[Asked], workers: int | None) -> Generator[tuple[Key, Row], None, None]:
    """Here where that is soon done, or else shared out."""
    are_quick = all(is_quick(cell) for _, cell in asked)
    if workers is None and are_quick and not has_chosen_backend():
        workers = max(min(count_jobs(None), math.ceil(len(asked) / SOON_DONE)), 1)
    if workers == 1:
        yield from _answer_alone(asked, 1)  # which keeps what all cells share
    else:
        yield from _answer_shared(asked, workers, joining=are_quick)


def _answer_shared(
    asked: list[Asked], workers: int | None, *, joining: bool
) -> Generator[tuple[Key, Row], None, None]:
    """One worker takes neighbouring quick cells, and keeps what they share; where it dies, one by one."""
    pieces = _share_out(asked, count_jobs(workers))
    handed_out = ([cell for _, cell in piece] for piece in pieces)
    with closing(in_parallel(answer_several, handed_out, workers=workers, joining=joining)) as outcomes:
        for place, outcome in outcomes:
            piece = pieces[place]
            if not isinstance(outcome, Exception):
                answered = zip(piece, outcome, strict=True)
                yield from ((key, {**cell, **found}) for (key, cell), found in answered)
            elif len(piece) == 1:
                ((key, cell),) = piece
                yield key, {**cell, **report_failure(outcome)}
            else:
                yield from _answer_alone(piece, workers)


def _answer_alone(asked: list[Asked], workers: int | None) -> Generator[tuple[Key, Row], None, None]:
    cells = [cell for _, cell in asked]
    work = partial(answer, last=LastCurve(cells)) if workers == 1 else answer
    with closing(in_parallel(work, cells, workers=workers)) as outcomes:
        for place, outcome in outcomes:
            key, cell = asked[place]
            found = report_failure(outcome) if isinstance(outcome, Exception) else outcome
            yield key, {**cell, **found}


def _share_out(asked: list[Asked], workers: int) -> list[list[Asked]]:
    """What may take long is by itself and comes first; then stretches of quick cells, run by run.

    Runs that lie side by side in a grid are alike, and whoever takes the next one has solved half of it.
    """
    pieces = [[one] for one in asked if not is_quick(one[1])]
    runs: dict[tuple[object, ...], list[Asked]] = {}
    for one in asked:
        if is_quick(one[1]):
            runs.setdefault(find_run(one[1]), []).append(one)
    enough = min(math.ceil((len(asked) - len(pieces)) / (_PIECES * workers)), MOST_TOGETHER)
    most = max(enough, _MOST_OF_ONE_RUN)
    piece: list[Asked] = []
    for run in runs.values():
        for start in range(0, len(run), most):
            piece += run[start : start + most]
            if len(piece) >= enough:
                pieces.append(piece)
                piece = []
    return [*pieces, piece] if piece else pieces
