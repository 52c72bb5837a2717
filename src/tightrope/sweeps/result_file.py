"""Where the rows of a sweep go: a CSV file, or a Parquet file beside which a CSV journal grows until it is whole."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tightrope.errors import InvalidSetting
from tightrope.files import as_path, write_whole
from tightrope.sweeps.cells import CELL_KEYS, COLUMNS, TEXT_COLUMNS, WHOLE_KEYS, Row, read_value, written
from tightrope.sweeps.journal import Journal, Texts, csv_bytes, exists_already

SUFFIXES = (".csv", ".parquet")
_NEEDS_PYARROW = (
    "Parquet files need pyarrow, which is not installed: install tightrope[parquet], or write a .csv file."
)


class ResultFile:
    """The file of a sweep's rows. `rows` are the last ones found for each cell, by its key, and `mended` what was taken off.

    A Parquet file cannot grow row by row: until it is whole its rows are in `name.parquet.journal.csv`.
    """

    def __init__(self, path: str | Path, *, resume: bool) -> None:
        self.path = as_path(path)
        if self.path.suffix not in SUFFIXES:
            raise InvalidSetting(
                f"results go to a file that ends in {' or '.join(SUFFIXES)}, got {str(path)!r}. Name such a file."
            )
        self._is_parquet = self.path.suffix == ".parquet"
        if self._is_parquet:
            _pyarrow()  # now, and not when all the work is done
            if self.path.exists() and not resume:
                raise exists_already(self.path)
        self.grows_in = (
            self.path.with_name(f"{self.path.name}.journal.csv") if self._is_parquet else self.path
        )
        self._journal = Journal(self.grows_in, COLUMNS, resume=resume)
        try:
            before = _read_parquet(self.path) if self._is_parquet and self.path.exists() else []
            for line, row in enumerate(self._journal.rows, start=2):
                _check(row, self.grows_in, line)
        except BaseException:
            self._close(keep=bool(self._journal.rows))
            raise
        self.rows: dict[Texts, Texts] = {row[: len(CELL_KEYS)]: row for row in (*before, *self._journal.rows)}

    @property
    def mended(self) -> str:
        """What was taken off the end of the file; empty where nothing was."""
        return self._journal.mended

    def __enter__(self) -> "ResultFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(keep=True)

    def add(self, row: Mapping[str, Any]) -> None:
        """Write one row, which is then safe."""
        texts = tuple(written(row[column]) for column in COLUMNS)
        self.rows[texts[: len(CELL_KEYS)]] = texts
        self._journal.add(texts)

    def finish(self, order: Iterable[Texts]) -> None:
        """Put the rows into this order of their keys, rows of other cells after them, and replace the file by the whole."""
        first = [self.rows[key] for key in order]
        known = {row[: len(CELL_KEYS)] for row in first}
        rows = [*first, *(row for key, row in self.rows.items() if key not in known)]
        if self._is_parquet:
            write_whole(self.path, _parquet_bytes(rows), what="results")
            self.grows_in.unlink()
            return
        content = csv_bytes(COLUMNS, rows)
        if content != self.path.read_bytes():
            write_whole(self.path, content, what="results")

    def _close(self, *, keep: bool) -> None:
        if not keep and self._is_parquet:
            self.grows_in.unlink(missing_ok=True)
        self._journal.close()


def row_of(texts: Texts) -> Row:
    """A row of text as values."""
    return {column: read_value(column, text) for column, text in zip(COLUMNS, texts, strict=True)}


def _check(row: Texts, path: Path, line: int) -> None:
    try:
        row_of(row)
    except ValueError as problem:
        raise InvalidSetting(
            f"{path} is not a file of such results: line {line}: {problem}. It is unchanged."
        ) from None


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise InvalidSetting(_NEEDS_PYARROW) from None
    return pyarrow


def _parquet_bytes(rows: list[Texts]) -> bytes:
    arrow = _pyarrow()
    kinds = {column: arrow.string() for column in TEXT_COLUMNS} | {
        column: arrow.int64() for column in WHOLE_KEYS
    }
    schema = arrow.schema([(column, kinds.get(column, arrow.float64())) for column in COLUMNS])
    columns: dict[str, list[Any]] = {column: [] for column in COLUMNS}
    for texts in rows:
        for column, value in row_of(texts).items():
            columns[column].append(
                float(value) if isinstance(value, int) and column not in WHOLE_KEYS else value
            )
    buffer = io.BytesIO()
    arrow.parquet.write_table(arrow.table(columns, schema=schema), buffer)
    return buffer.getvalue()


def _read_parquet(path: Path) -> list[Texts]:
    arrow = _pyarrow()
    refused = f"{path} is not a file of such results: {{}}. It is unchanged; choose another place."
    try:
        table = arrow.parquet.read_table(path)
    except (OSError, ValueError, arrow.ArrowException) as problem:
        raise InvalidSetting(refused.format(" ".join(str(problem).split()))) from None
    if tuple(table.column_names) != COLUMNS:
        raise InvalidSetting(
            refused.format(f"its columns are {', '.join(table.column_names)} and not {', '.join(COLUMNS)}")
        )
    return [tuple(written(row[column]) for column in COLUMNS) for row in table.to_pylist()]
