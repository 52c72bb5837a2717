"""Batches of indices, written to a file as they are drawn and read from it again."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TypeVar

from tightrope.audit.recordings.batches import Whole, as_indices, check_batches, check_records
from tightrope.errors import InvalidSetting, UnusableFile
from tightrope.files import as_path, read_text

T = TypeVar("T")

FORMAT, VERSION = "tightrope-batches", 1
KEYS = ("format", "version", "records")
MOST_LISTED = 10  # wrong lines named in one refusal


def record(batches: Iterable[T], path: str | Path, *, records: int) -> Iterator[T]:
    """The same batches, each written to the file as one line of JSON before it is passed on.

    The first line names the format and `records`, the size of the dataset. A line is with the operating
    system before its batch is used: a crash of the program loses at most the line that was being written. An
    existing file is never overwritten. Like any iterator this one passes through `batches` once: hand it the
    batches of all epochs to be recorded.
    """
    check_batches(batches)
    place, size = as_path(path), check_records(records)
    try:
        file = place.open("xb", buffering=0)
    except FileExistsError:
        remedy = "Recordings are never overwritten: choose another name."
        raise UnusableFile(place, "exists", remedy) from None
    except (OSError, ValueError) as problem:  # a path that holds a zero byte is a ValueError
        raise _cannot_write(place, problem, "Choose another place.") from None
    try:
        _write(file, {"format": FORMAT, "version": VERSION, "records": size})
    except BaseException:
        file.close()
        raise
    return _pass_on(batches, file, size)


def _pass_on(batches: Iterable[T], file: IO[bytes], records: int) -> Iterator[T]:
    with file:
        for number, batch in enumerate(batches):
            _write(file, as_indices(batch, number, records).tolist())
            yield batch


def _write(file: IO[bytes], content: object) -> None:
    line = json.dumps(content, separators=(",", ":")).encode() + b"\n"
    try:
        while line:
            line = line[file.write(line) :]
    except OSError as problem:
        remedy = "The batches before are safe: make room, then record anew."
        raise _cannot_write(file.name, problem, remedy) from problem


def _cannot_write(path: object, problem: OSError | ValueError, remedy: str) -> UnusableFile:
    why = getattr(problem, "strerror", None) or str(problem)
    return UnusableFile(path, f"could not be written: {why}", remedy)


def read_recording(path: str | Path, *, records: int | None = None) -> tuple[int, list[Whole]]:
    """The size of the dataset and the batches of a file that `record` wrote, whole or refused.

    Batches without the first line are read too, if `records` says what only that line tells.
    """
    place = as_path(path)
    lines = read_text(place).split("\n")
    if len(lines) == 1:
        raise UnusableFile(place, "holds no whole line", "Record anew.")
    if records is not None and lines[0].lstrip().startswith("["):
        size, above = check_records(records), 1
    else:
        size, above = _read_header(place, lines.pop(0)), 2
    if not lines[-1]:
        lines.pop()
    elif not lines[-1].rstrip().endswith("]"):
        problem = "has no end: the program stopped while it was written"
        remedy = "Delete this line; the batches before it are whole."
        raise UnusableFile(f"{place}, line {len(lines) - 1 + above},", problem, remedy)
    return size, _read_lines(place, lines, size, above)


def _read_lines(place: Path, lines: list[str], records: int, above: int) -> list[Whole]:
    """The batches of all lines, the first of them being number `above` of the file."""
    batches: list[Whole] = []
    wrong: list[str] = []
    for number, line in enumerate(lines):
        try:
            batches.append(as_indices(_read_list(line, number), number, records))
        except InvalidSetting as refusal:
            wrong.append(f"line {number + above}: {refusal}")
    if wrong:
        left_out = len(wrong) - MOST_LISTED
        listed = [*wrong[:MOST_LISTED], *([f"and {left_out} more lines"] if left_out > 0 else [])]
        remedy = "Record anew, or delete the wrong lines if you know why they are wrong."
        raise UnusableFile(place, "is damaged:\n  " + "\n  ".join(listed).removesuffix("."), remedy)
    return batches


def _read_list(line: str, number: int) -> list[object]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        raise UnusableFile(f"batches[{number}]", "is no JSON") from None
    if not isinstance(content, list):
        raise InvalidSetting(f"batches[{number}]", content, "be a list of indices")
    return content


def _read_header(path: Path, line: str) -> int:
    """The number of records that the first line states; a refusal if it is not ours."""
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        problem = f'is no recording: line 1 must be {{"format": "{FORMAT}", ...}}'
        remedy = "Pass a file written by record(). Bare lists of indices are read with {records=60000}."
        raise UnusableFile(path, problem, remedy)
    where, version = f"{path}, line 1: ", header.get("version")
    if type(version) is not int or version != VERSION:
        remedy = "Read it with the release that wrote it."
        raise InvalidSetting("version", version, f"be {VERSION}", remedy, where=where)
    if unknown := [key for key in header if key not in KEYS]:
        problem = f"unknown {', '.join(map(repr, unknown))}"
        raise UnusableFile(where.rstrip(), problem, f"Known are {', '.join(KEYS)}.")
    try:
        return check_records(header.get("records"))
    except InvalidSetting as refusal:
        refusal.where = where
        raise
