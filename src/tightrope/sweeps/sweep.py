"""Every cell of a grid answered, here or on many machines; rows are safe as soon as they are there, and a sweep can go on."""

from collections.abc import Callable, Generator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tightrope.errors import InvalidSetting, WorkerDied
from tightrope.parallel import in_parallel
from tightrope.sweeps.cells import Cell, Row, answer, failed, key_of
from tightrope.sweeps.grid import Grid
from tightrope.sweeps.journal import Texts
from tightrope.sweeps.result_file import ResultFile, row_of

__all__ = ["Grid", "Tally", "WorkerDied", "in_parallel", "sweep"]


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How far a sweep is: `done` of `cells` have a row, `errors` of these an error; `kept` of them were there before.

    `mended` says what was taken off the end of a file that a killed sweep left half written.
    """

    cells: int
    done: int
    errors: int
    kept: int
    mended: str = ""


def sweep(
    grid: Grid | Mapping[str, object] | str | Path,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    workers: int | None = None,
    progress: Callable[[Tally], None] | None = None,
) -> list[Row]:
    """The rows of all cells, in the order of the grid: what was asked, what was answered, and in `error` why not.

    With `out`, each row is written to that .csv or .parquet file as it comes, and at the end the file is put into the
    order of the grid. A file that exists is refused, unless to `resume`: its rows are kept, and only cells without a row, or
    whose worker died, are answered. `workers` is as in `joblib`: None for all cores or the configured cluster, 1 for this
    process. `progress` is called with a `Tally` at the start and after each row.

    >>> import tightrope as tr
    >>> asked = {"ask": "epsilon", "relation": "remove", "mechanism": "gaussian", "noise_multiplier": [1, 2], "steps": 9}
    >>> rows = sweep({**asked, "sampling": "poisson", "rate": [0.01, 7], "delta": 1e-6}, workers=1)
    >>> [(row["noise_multiplier"], row["rate"], row["error"]) for row in rows][1]
    (1.0, 7.0, 'InvalidSetting: rate must be in [0, 1], got 7.0. It is the probability that one record joins one batch: ...')
    """
    if isinstance(grid, str | Path):
        grid = Grid.read(grid)
    elif not isinstance(grid, Grid):
        grid = Grid.of(grid)
    if progress is not None and not callable(progress):
        raise InvalidSetting(f"progress must be callable, got {progress!r}. Pass a function of one tally.")
    keys = {key_of(cell): cell for cell in grid}
    in_parallel(answer, (), workers=workers)  # which refuses bad workers before a file is made
    with nullcontext() if out is None else ResultFile(out, resume=resume) as file:
        found: dict[Texts, Row] = {}
        for key, texts in {} if file is None else file.rows.items():
            if key in keys and not _is_unfinished(row := row_of(texts)):
                found[key] = row
        kept, errors = len(found), sum(row["error"] is not None for row in found.values())
        tell = progress or (lambda tally: None)
        mended = "" if file is None else file.mended
        tell(Tally(cells=len(keys), done=kept, errors=errors, kept=kept, mended=mended))
        open_cells = [cell for key, cell in keys.items() if key not in found]
        with closing(_answers(open_cells, workers)) as answers:
            for row in answers:
                if file is not None:
                    file.add(row)
                found[key_of(row)] = row
                errors += row["error"] is not None
                tell(Tally(cells=len(keys), done=len(found), errors=errors, kept=kept, mended=mended))
        if file is not None:
            file.finish(keys)
    return [found[key] for key in keys]


def _is_unfinished(row: Row) -> bool:
    """Whether it was the machine's fault that there is no answer."""
    return str(row["error"] or "").startswith(f"{WorkerDied.__name__}:")


def _answers(cells: list[Cell], workers: int | None) -> Generator[Row, None, None]:
    with closing(in_parallel(answer, cells, workers=workers)) as outcomes:
        for place, outcome in outcomes:
            yield {**cells[place], **(failed(outcome) if isinstance(outcome, Exception) else outcome)}
