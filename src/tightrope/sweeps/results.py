"""The rows of a sweep: safe in an SQLite journal as they come, in a CSV or Parquet file when it stops."""

import csv
import io
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tightrope.errors import InvalidSetting, UnusableFile, UnwrittenRows
from tightrope.extras import install_command
from tightrope.files import as_path, read_text, write_whole
from tightrope.sweeps.cells import (
    COLUMNS,
    LACKING_COLUMNS,
    TEXT_COLUMNS,
    WHOLE_KEYS,
    Key,
    Row,
    key_of,
    read_value,
    write_value,
)

SUFFIXES = (".csv", ".parquet")
_OURS = 0x74726F70  # SQLite's application id, "trop"
_UNCHANGED = "It is unchanged; choose another place."
_INSERT = "INSERT OR REPLACE INTO rows VALUES (?, ?)"
_MAKE_ROOM = "The rows so far are safe: make room, then go on with {resume=True}."


class Results:
    """Rows by the key of their cell, beginning with those found in the file that is resumed.

    While the sweep runs, each row is committed to `name.csv.journal` beside the file, which survives a kill.
    SQLite locks the journal, so that a second sweep is refused; the system drops the lock of a process that
    dies. A journal that somebody removes, perhaps with its folder, is made anew. Rows come in this `order`.
    """

    def __init__(self, path: str | Path, order: Iterable[Key] = (), *, resume: bool) -> None:
        # A process may change its folder while the sweep runs.
        self.path, self.order = as_path(path).absolute(), tuple(order)
        if self.path.suffix not in SUFFIXES:
            must = f"end in {' or '.join(SUFFIXES)}"
            raise InvalidSetting("out", str(path), must, "Name such a file for the results.")
        if self._is_parquet:
            _import_pyarrow()  # now, and not when all the work is done
        self.journal_path = self.path.with_name(f"{self.path.name}.journal")
        self.rows = self._open(resume=resume)
        self._held = _identify(self.journal_path)

    def _open(self, *, resume: bool) -> dict[Key, Row]:
        """Take the journal, and read what is in it and in the file."""
        is_new = not self.journal_path.exists()
        if not is_new and not resume:
            raise _exists(self.journal_path)
        self._journal = _open_journal(self.journal_path)
        try:
            if self.path.exists() and not resume:
                raise _exists(self.path)
            found = [*self._read(), *_read_journal(self._journal, self.journal_path)]
        except BaseException:
            if is_new:
                self._discard_journal()
            self._journal.close()
            raise
        return {key_of(row): row for row in found}

    def add(self, key: Key, row: Row) -> None:
        """Keep the row of one cell; when this returns, a crash of this process cannot lose it."""
        self.rows[key] = row
        try:
            if not self._make_anew():
                self._journal.execute(_INSERT, _write_entry(key, row))
        except (OSError, sqlite3.Error, UnusableFile) as problem:
            raise self._refuse(problem, _MAKE_ROOM) from problem

    def _make_anew(self) -> bool:
        """Whether the journal was gone, and is made again, with every row; the folder, too.

        SQLite would go on writing into the file without a name. A sweep that has meanwhile taken the place
        is left alone while it runs, and the rows that it leaves are kept.
        """
        if self._held is not None and _identify(self.journal_path) == self._held:
            return False
        self._held = None
        self._journal.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.rows = {**self._open(resume=True), **self.rows}
        self._journal.execute("BEGIN")
        self._journal.executemany(_INSERT, (_write_entry(key, row) for key, row in self.rows.items()))
        self._journal.execute("COMMIT")
        self._held = _identify(self.journal_path)
        return True

    def close(self) -> None:
        """Write the file, the rows of the order first, and delete the journal."""
        try:
            if self.rows:
                self._make_anew()
                write_whole(self.path, self._write(), what="results")
            self._discard_journal()
        except (OSError, sqlite3.Error, UnusableFile) as problem:
            is_safe = self._held is not None and _identify(self.journal_path) == self._held
            raise self._refuse(problem, _MAKE_ROOM if is_safe else self._rescue()) from None
        finally:
            self._journal.close()

    def _discard_journal(self) -> None:
        with suppress(sqlite3.Error, FileNotFoundError):  # it is gone already, or harms nobody where it is
            # The log goes first: SQLite would delete it on closing, when it might be that of the next sweep.
            self._journal.execute("PRAGMA journal_mode = DELETE")
            self.journal_path.unlink()

    def _rescue(self) -> str:
        """Write the rows where there is room for them, and say where: nothing else holds them."""
        try:
            elsewhere = Path(tempfile.mkdtemp(prefix="tightrope-"), f"results{self.path.suffix}")
            write_whole(elsewhere, self._write(), what="results")
        except (OSError, UnusableFile):
            return "The rows are in no file: the attribute 'rows' of this refusal has them."
        there = f"The rows so far are in {str(elsewhere)!r}"
        return f"{there}: move it to where it should be, then go on with {{resume=True}}."

    def _refuse(self, problem: Exception, remedy: str) -> UnwrittenRows:
        rows = [self.rows[key] for key in self.order if key in self.rows]
        if isinstance(problem, UnusableFile):  # which names the file, and says what could not be done
            return UnwrittenRows(problem.path, problem.problem, remedy, rows=rows)
        why = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
        return UnwrittenRows(self.journal_path, f"could not be written: {why}", remedy, rows=rows)

    def _write(self) -> bytes:
        first = {key: self.rows[key] for key in self.order if key in self.rows}
        rows = [*first.values(), *(row for key, row in self.rows.items() if key not in first)]
        return _parquet_bytes(rows) if self._is_parquet else _csv_bytes(rows)

    @property
    def _is_parquet(self) -> bool:
        return self.path.suffix == ".parquet"

    def _read(self) -> Iterable[Row]:
        if not self.path.exists():
            return ()
        return _read_parquet(self.path) if self._is_parquet else _read_csv(self.path)


@contextmanager
def open_results(path: str | Path, order: Iterable[Key], *, resume: bool) -> Iterator[Results]:
    """The results at `path`, which are written however the sweep ends."""
    results = Results(path, order, resume=resume)
    try:
        yield results
    finally:
        results.close()


def _identify(path: Path) -> tuple[int, int] | None:
    """Which file has this name now."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _write_entry(key: Key, row: Row) -> tuple[str, str]:
    return json.dumps(key), json.dumps(row)


def _open_journal(path: Path) -> sqlite3.Connection:
    """The journal, made where there is none; locked until it is closed."""
    connection = None
    try:
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and owner != _OURS:
            raise UnusableFile(path, "is not the journal of a sweep", _UNCHANGED)
        # Rows appended to a log need no wait for the disk, and are whole or absent after a power cut.
        for statement in ("journal_mode = WAL", "synchronous = NORMAL", f"application_id = {_OURS}"):
            connection.execute(f"PRAGMA {statement}")
        connection.execute("CREATE TABLE IF NOT EXISTS rows (key TEXT PRIMARY KEY, row TEXT NOT NULL)")
        if not path.exists():  # whoever had it has just finished and taken it away
            raise sqlite3.OperationalError("database is locked")
        return connection
    except (sqlite3.Error, UnusableFile, ValueError) as problem:
        if connection is not None:
            connection.close()
        if isinstance(problem, UnusableFile):
            raise
        if "locked" in str(problem):
            remedy = "Wait for it, or choose another place."
            raise UnusableFile(path, "is being written by another sweep", remedy) from None
        raise UnusableFile(path, f"could not be opened: {problem}", "Choose another place.") from None


def _read_journal(journal: sqlite3.Connection, path: Path) -> Iterator[Row]:
    try:
        for (text,) in journal.execute("SELECT row FROM rows ORDER BY rowid"):
            row = json.loads(text)
            _check_columns(path, tuple(row))
            yield _complete(row)
    except UnusableFile:
        raise
    except (sqlite3.Error, ValueError) as problem:
        raise UnusableFile(path, f"is damaged: {problem}", _UNCHANGED) from None


def _exists(path: Path) -> UnusableFile:
    remedy = "Go on with it ({resume=True}), or choose another place."
    return UnusableFile(path, "exists, and results are never overwritten", remedy)


def _check_columns(path: Path, found: Iterable[str]) -> tuple[str, ...]:
    """The columns of a file, if they are ours or were ours before."""
    columns = tuple(found)
    known = [tuple(column for column in COLUMNS if column not in lacking) for lacking in LACKING_COLUMNS]
    if columns not in (COLUMNS, *known):
        raise _foreign(path, f"its columns are {', '.join(columns)} and not {', '.join(COLUMNS)}")
    return columns


def _complete(row: Row) -> Row:
    """The row with a place for every column."""
    return {column: row.get(column) for column in COLUMNS}


def _foreign(path: Path, why: object) -> UnusableFile:
    return UnusableFile(path, f"is not a file of such results: {' '.join(str(why).split())}", _UNCHANGED)


def _read_csv(path: Path) -> Iterator[Row]:
    lines = csv.reader(io.StringIO(read_text(path), newline=""))
    number = 1
    try:
        header = next(lines, None)
        if header is None:  # an empty file has no rows, and no columns to differ
            return
        columns = _check_columns(path, header)
        for number, fields in enumerate(lines, start=2):
            if len(fields) != len(columns):
                raise _foreign(path, f"line {number} has {len(fields)} fields and not {len(columns)}")
            read = {column: read_value(column, text) for column, text in zip(columns, fields, strict=True)}
            yield _complete(read)
    except UnusableFile:
        raise
    except (csv.Error, ValueError) as problem:
        raise _foreign(path, f"line {number}: {problem}") from None


def _csv_bytes(rows: Iterable[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([" ".join(write_value(row[column]).splitlines()) for column in COLUMNS])
    return text.getvalue().encode("utf-8")


def _import_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        must = "end in .csv where pyarrow is not installed"
        remedy = f"Write a .csv file, or install it with: {install_command('parquet')}"
        raise InvalidSetting("out", ".parquet", must, remedy) from None
    return pyarrow


def _parquet_bytes(rows: Iterable[Row]) -> bytes:
    arrow = _import_pyarrow()
    kinds = dict.fromkeys(TEXT_COLUMNS, arrow.string()) | dict.fromkeys(WHOLE_KEYS, arrow.int64())
    schema = arrow.schema([(column, kinds.get(column, arrow.float64())) for column in COLUMNS])
    # The ends of a number of steps are whole, those of everything else are not, and a column has one kind.
    floats: Any = [column for column in COLUMNS if column not in kinds]
    plain = [{**row, **{key: row[key] and float(str(row[key])) for key in floats}} for row in rows]
    buffer = io.BytesIO()
    arrow.parquet.write_table(arrow.Table.from_pylist(plain, schema=schema), buffer)
    return buffer.getvalue()


def _read_parquet(path: Path) -> Iterator[Row]:
    arrow = _import_pyarrow()
    try:
        table = arrow.parquet.read_table(path)
    except (OSError, ValueError, arrow.ArrowException) as problem:
        raise _foreign(path, problem) from None
    _check_columns(path, table.column_names)
    yield from map(_complete, table.to_pylist())
