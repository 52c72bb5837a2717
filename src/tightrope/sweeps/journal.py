"""Rows appended to a CSV file one by one: readable at any time, and a crash loses at most the row being written."""

import contextlib
import csv
import io
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from tightrope.errors import InvalidSetting

try:
    import fcntl
except ModuleNotFoundError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

Texts = tuple[str, ...]

SYNCED = 1.0  # seconds within which a row is on the disk, and not only with the operating system
_MOST_OPENINGS = 10


class Journal:
    """A CSV file with the given columns, held by an advisory lock while it is open; the system drops the lock of who dies.

    `rows` are those found in the file. A last line without an end was half written and is taken off: `mended` says so.
    Everything else that is not as it should be is refused, and the file is left as it was.
    """

    def __init__(self, path: Path, columns: Sequence[str], *, resume: bool) -> None:
        self.path, self.columns, self.mended = path, tuple(columns), ""
        self._synced = time.monotonic()
        self._file = _opened(path, resume=resume)
        try:
            self.rows = self._read()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, row: Iterable[str]) -> None:
        """Append one row; when this returns, a crash of this process cannot lose it."""
        self._append(_line(row))

    def close(self) -> None:
        """Bring everything to the disk and let others have the file."""
        with contextlib.suppress(OSError):  # what can be saved is
            os.fsync(self._file)
        os.close(self._file)

    def _append(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._file, line) :]
            now = time.monotonic()
            if now - self._synced >= SYNCED:
                os.fsync(self._file)
                self._synced = now
        except OSError as problem:
            raise InvalidSetting(
                f"{self.path} could not be written: {problem.strerror}. The rows before are safe: make room, then resume."
            ) from problem

    def _read(self) -> list[Texts]:
        content = b"".join(iter(lambda: os.read(self._file, 1 << 20), b""))
        header = _line(self.columns)
        whole, end, half = content.rpartition(b"\n")
        if not end and header.startswith(half):  # new, empty, or killed while its first line was written
            os.ftruncate(self._file, 0)
            self._append(header)
            return []
        try:
            text = (whole + end or half).decode("utf-8")
        except UnicodeDecodeError:
            raise self._refusal("it is not UTF-8 text") from None
        rows = self._parsed(text)
        if half:
            os.ftruncate(self._file, len(whole + end))
            self.mended = f"{self.path} ended in half a row, {len(half)} bytes, which was taken off."
        return rows

    def _parsed(self, text: str) -> list[Texts]:
        lines = enumerate(_parsed_lines(text), start=1)
        rows: list[Texts] = []
        try:
            _, found = next(lines, (1, ()))
            if found != self.columns:
                raise self._refusal(f"its columns are {', '.join(found)} and not {', '.join(self.columns)}")
            for number, row in lines:
                if len(row) != len(self.columns):
                    raise self._refusal(f"line {number} has {len(row)} fields and not {len(self.columns)}")
                rows.append(row)
        except csv.Error as problem:
            raise self._refusal(f"line {len(rows) + 2} is no CSV ({problem})") from None
        return rows

    def _refusal(self, why: str) -> InvalidSetting:
        return InvalidSetting(
            f"{self.path} is not a file of such results: {why}. It is unchanged; choose another place."
        )


def csv_bytes(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> bytes:
    """A whole file of rows."""
    return b"".join((_line(columns), *map(_line, rows)))


def _line(row: Iterable[str]) -> bytes:
    text = io.StringIO()
    # a row is a line, so that half a row can be told from a whole one
    csv.writer(text, lineterminator="\n").writerow([" ".join(field.splitlines()) for field in row])
    return text.getvalue().encode("utf-8")


def _parsed_lines(text: str) -> Iterator[Texts]:
    return (tuple(row) for row in csv.reader(io.StringIO(text, newline="")))


def _opened(path: Path, *, resume: bool) -> int:
    """The file, locked; made where there is none, and never one that exists unless to `resume`."""
    for _ in range(_MOST_OPENINGS):
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | (0 if resume else os.O_EXCL), 0o666)
        except FileExistsError:
            raise exists_already(path) from None
        except (OSError, ValueError) as problem:  # a path that holds a zero byte is a ValueError
            why = getattr(problem, "strerror", None) or str(problem)
            raise InvalidSetting(
                f"{str(path)!r} could not be opened: {why}. Choose a file that may be written."
            ) from None
        try:
            _lock(file, path)
            # Whoever had it may have put a new file in its place meanwhile; what we hold would then be nobody's.
            if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)
    raise InvalidSetting(f"{path} is replaced again and again. Choose another place.")


def exists_already(path: Path) -> InvalidSetting:
    """Why a file that exists is not written."""
    return InvalidSetting(
        f"{path} exists, and results are never overwritten. Go on with it (resume=True, --resume), or choose another place."
    )


def _lock(file: int, path: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InvalidSetting(
            f"{path} is being written by another sweep. Wait for it, or choose another place."
        ) from None
    except OSError:
        pass  # a file system without locks
