"""Batches of indices, written to a file as they are drawn and read from it again."""

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TypeVar

from tightrope.audit.recordings.batches import INDICES_WANTED, MOST_RECORDS, Whole, indices
from tightrope.errors import InvalidSetting
from tightrope.files import as_path, read_text
from tightrope.numerics import check

T = TypeVar("T")

FORMAT, VERSION = "tightrope-batches", 1
KEYS = ("format", "version", "records")
SYNCED = 1.0  # seconds within which a line is on the disk, and not only with the operating system
MOST_LISTED = 10  # wrong lines named in one refusal


def record(batches: Iterable[T], path: str | Path, *, records: int) -> Iterator[T]:
    """The same batches, each written to the file as one line of JSON before it is passed on.

    The first line names the format and `records`, the size of the dataset. A line is with the operating system before its
    batch is used: a crash of the program loses at most the line that was being written. A file that exists is never
    overwritten. As any iterator, this one passes once through `batches`: hand it the batches of all epochs to be recorded.
    """
    if isinstance(batches, str | bytes | dict) or not isinstance(batches, Iterable):
        raise InvalidSetting(f"batches must be an iterable of batches, got {batches!r}. {INDICES_WANTED}")
    place, size = as_path(path), check.whole(least=1, records=records)
    if size > MOST_RECORDS:
        raise InvalidSetting(
            f"records must be at most {MOST_RECORDS:.0e}, got {size}. Pass the size of the dataset."
        )
    try:
        file = place.open("xb", buffering=0)
    except FileExistsError:
        raise InvalidSetting(
            f"path must name a new file, got {str(place)!r}, which exists. Recordings are never overwritten: choose another name."
        ) from None
    except (OSError, ValueError) as problem:  # a path that holds a zero byte is a ValueError
        raise InvalidSetting(
            f"{str(place)!r} could not be written: {_why(problem)}. Choose another place."
        ) from None
    try:
        _write(file, {"format": FORMAT, "version": VERSION, "records": size})
    except BaseException:
        file.close()
        raise
    return _passed_on(batches, file, size)


def _passed_on(batches: Iterable[T], file: IO[bytes], records: int) -> Iterator[T]:
    with file:
        synced = time.monotonic()
        for number, batch in enumerate(batches):
            _write(file, indices(batch, number, records).tolist())
            if time.monotonic() - synced >= SYNCED:
                os.fsync(file.fileno())
                synced = time.monotonic()
            yield batch


def _write(file: IO[bytes], content: object) -> None:
    line = memoryview(json.dumps(content, separators=(",", ":")).encode() + b"\n")
    try:
        while line:
            line = line[file.write(line) :]
    except OSError as problem:
        raise InvalidSetting(
            f"{file.name} could not be written: {_why(problem)}. The batches before are safe: make room, then record anew."
        ) from problem


def read_recording(path: str | Path) -> tuple[int, list[Whole]]:
    """The size of the dataset and the batches of a file that `record` wrote, whole or refused."""
    place = as_path(path)
    first, *lines = read_text(place).split("\n")
    if not lines:
        raise InvalidSetting(f"{place} holds no whole line. Record anew.")
    records = _records(place, first)
    if lines.pop():
        raise InvalidSetting(
            f"{place}, line {len(lines) + 2}, has no end: the program stopped while it was written. Delete this line; "
            "the batches before it are whole."
        )
    batches: list[Whole] = []
    wrong: list[str] = []
    for number, line in enumerate(lines):
        try:
            batches.append(indices(_batch(line, number), number, records))
        except InvalidSetting as problem:
            wrong.append(f"line {number + 2}: {problem}")
    if wrong:
        more = [f"and {len(wrong) - MOST_LISTED} more lines"] if len(wrong) > MOST_LISTED else []
        listed = "\n".join(f"  {line}" for line in [*wrong[:MOST_LISTED], *more])
        raise InvalidSetting(
            f"{place} is damaged. Record anew, or delete the lines that are wrong if you know why:\n{listed}"
        )
    return records, batches


def _batch(line: str, number: int) -> object:
    try:
        found = json.loads(line)
    except ValueError:
        raise InvalidSetting(f"batches[{number}] is no JSON.") from None
    if not isinstance(found, list):
        raise InvalidSetting(f"batches[{number}] must be a list of indices, got {found!r}.")
    return found


def _records(path: Path, line: str) -> int:
    """What the first line states, or why it is not one of ours."""
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidSetting(
            f'{path} is no recording: line 1 must be {{"format": "{FORMAT}", ...}}. Pass a file written by record().'
        )
    version = header.get("version")
    if type(version) is not int or version != VERSION:
        raise InvalidSetting(
            f"{path}, line 1: version must be {VERSION}, got {version!r}. Read it with the release that wrote it."
        )
    if unknown := [key for key in header if key not in KEYS]:
        raise InvalidSetting(
            f"{path}, line 1: unknown {', '.join(map(repr, unknown))}. Known are {', '.join(KEYS)}."
        )
    try:
        records = check.whole(least=1, records=header.get("records"))
    except InvalidSetting as problem:
        raise InvalidSetting(f"{path}, line 1: {problem}") from None
    if records > MOST_RECORDS:
        raise InvalidSetting(
            f"{path}, line 1: records must be at most {MOST_RECORDS:.0e}, got {records}. Record anew."
        )
    return records


def _why(problem: OSError | ValueError) -> str:
    return getattr(problem, "strerror", None) or str(problem)
