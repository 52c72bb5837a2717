"""Files that are read and written whole, or refused."""

import contextlib
import errno
import json
import math
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.errors import InvalidSetting, UnusableFile


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much is read: bytes of a file, and tables in one of its lists. More is refused before it costs."""

    size: int
    tables: int


# Measured: TOML takes 0.6 s at worst, JSON 0.1 s; a thousand different steps are accounted in 15 s.
PEOPLE_WRITE = Limits(size=2**18, tables=1000)
PEOPLE_SEND = Limits(size=2**20, tables=1000)
PROGRAMS_KEEP = Limits(size=2**26, tables=10**6)  # what a run has recorded must be read again

MOST_DEPTH = 32  # tables and lists within one another
MOST_CHARACTERS = 10_000  # of one text
MOST_DIGITS = 4000  # of one number: Python prints 4,300
MOST_BITS = int(MOST_DIGITS / math.log10(2))
MOST_KEYS = 64  # joined by dots: reading them takes time that grows with the square of their number

_KEY = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DOTTED = re.compile(rf"(?<![\w-]){_KEY}(?:[ \t]*+\.[ \t]*+{_KEY}){{{MOST_KEYS}}}")


def as_path(path: str | Path) -> Path:
    """The path, if it is one.

    >>> as_path(5)
    Traceback (most recent call last):
        ...
    tightrope.errors.InvalidSetting: path must be a string or a Path, got 5. Pass the name of a file.
    """
    if not isinstance(path, str | Path):
        raise InvalidSetting("path", path, "be a string or a Path", "Pass the name of a file.")
    return Path(path)


def read_text(path: Path, *, most: int | None = None) -> str:
    """The whole file, of at most so many bytes, which must be UTF-8 without a byte order mark."""
    try:
        with path.open("rb") as file:
            content = file.read() if most is None else file.read(most + 1)
        if most is not None and len(content) > most:
            raise _too_large(path, most)
        text = content.decode("utf-8")
    except InvalidSetting:
        raise
    except (OSError, ValueError) as problem:
        why = "it is not UTF-8 text" if isinstance(problem, UnicodeDecodeError) else _explain(problem)
        remedy = "Pass a text file in UTF-8 that exists and may be read."
        raise UnusableFile(path, f"could not be read: {why}", remedy) from None
    if text.startswith("\N{BOM}"):
        raise UnusableFile(path, "opens with a byte order mark", "Save it as UTF-8 without one.")
    return text


def read_toml(path: Path, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The tables of a TOML file that people write."""
    import tomllib  # most questions come without a file

    text = read_text(path, most=PEOPLE_WRITE.size)
    try:
        if found := _DOTTED.search(text):
            line = text.count("\n", 0, found.start()) + 1
            raise ValueError(f"more than {MOST_KEYS} keys joined by dots in line {line}")
        tables = tomllib.loads(text, parse_float=lambda number: parse_float(_check_number(number)))
        _check_tree(tables, PEOPLE_WRITE)
    except (ValueError, RecursionError) as problem:
        raise UnusableFile(path, f"must be a TOML file, got: {problem}", "Correct it there.") from None
    return tables


def read_json(path: Path, *, remedy: str) -> object:
    """What a JSON file holds that a program of ours has written."""
    return parse_json(
        read_text(path, most=PROGRAMS_KEEP.size), where=path, remedy=remedy, limits=PROGRAMS_KEEP
    )


def parse_json(text: str, *, where: object, remedy: str, limits: Limits = PEOPLE_SEND) -> object:
    """What a text in JSON says, if every reader would take it for the same: keys once, finite numbers.

    >>> parse_json('{"a": 1, "a": 2}', where="x.json", remedy="Choose one.")
    Traceback (most recent call last):
        ...
    tightrope.errors.UnusableFile: x.json must be a whole JSON file, got: the key 'a' twice. Choose one.
    """
    if len(text) > limits.size:
        raise _too_large(where, limits.size)
    try:
        found: object = json.loads(
            text, object_pairs_hook=_refuse_twins, parse_float=_finite, parse_constant=_finite
        )
        _check_tree(found, limits)
    except (ValueError, RecursionError) as problem:
        raise UnusableFile(where, f"must be a whole JSON file, got: {problem}", remedy) from None
    return found


def _too_large(where: object, most: int) -> UnusableFile:
    return UnusableFile(
        where, f"has more than {most:,} bytes, and no more are read", "Leave out or split it."
    )


def _refuse_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object without repeated keys: of two equal ones, each reader would believe another."""
    table = dict(pairs)
    if len(table) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice!r} twice")
    return table


def _check_number(text: str) -> str:
    """The digits of a number, unless it is one that a float would turn into 0 or infinity."""
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number of {len(text):,} digits; at most {MOST_DIGITS:,} are read")
    value, mantissa = float(text), text.lower().partition("e")[0]
    if math.isinf(value) and "inf" not in mantissa:
        raise ValueError(f"{text[:99]}, which is larger than any float")
    if value == 0 and re.search(r"[1-9]", mantissa):
        raise ValueError(f"{text[:99]}, which is not 0 and nearer to it than any other float")
    return text


def _finite(text: str) -> float:
    """A float that JSON can hold; the standard library would read NaN, Infinity and 1e999 too."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text}, which is not a finite number")
    return float(_check_number(text))


def _check_tree(whole: object, limits: Limits) -> None:
    """Refuse what is nested too deeply, listed too often or written too long, by the key it stands under."""
    level: list[tuple[str, object]] = [("", whole)]
    for _ in range(MOST_DEPTH):
        for key, value in level:
            _check_one(key, value, limits)
        level = [inner for key, value in level for inner in _list_inner(key, value)]
    if level:
        raise ValueError(f"more than {MOST_DEPTH} tables and lists within one another under {level[0][0]!r}")


def _list_inner(key: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((key, each) for each in value)


def _check_one(key: str, value: object, limits: Limits) -> None:
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        raise ValueError(
            f"{len(value):,} characters under {key[:99]!r}; at most {MOST_CHARACTERS:,} are read"
        )
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        digits = f"{round(value.bit_length() * math.log10(2)):,} digits under {key[:99]!r}"
        raise ValueError(f"a whole number of about {digits}; at most {MOST_DIGITS:,} are read")
    if isinstance(value, dict) and any(len(name) > MOST_CHARACTERS for name in value):
        raise ValueError(f"a key of more than {MOST_CHARACTERS:,} characters")
    if not isinstance(value, list) or len(value) <= limits.tables:
        return
    tables = sum(isinstance(each, dict) for each in value)
    if tables > limits.tables:
        merge = "write equal ones once, with their steps added up, or split the file"
        raise ValueError(f"{tables:,} tables under {key!r}; at most {limits.tables:,} are read: {merge}")


def write_whole(path: Path, content: bytes, *, what: str) -> None:
    """Write beside the file, then rename: a crash leaves the old file or the new one, never half of it.

    `what` says in a refusal what could not be written.
    """
    part: Path | None = None
    try:
        target = path.resolve()  # a link goes on pointing to the file
        mode = _mode(target)
        part = target.with_name(f".tightrope-{secrets.token_hex(8)}.part")
        with part.open("xb") as file:
            if mode is not None:
                os.chmod(part, mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except (OSError, ValueError) as problem:
        remedy = "What was there is unchanged; choose another place."
        why = f"could not be written: {_explain(problem)}"
        raise UnusableFile(f"{what} {str(path)!r}", why, remedy) from problem
    finally:
        if part is not None:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _mode(target: Path) -> int | None:
    """The permissions of the file to be replaced, which must be a file that may be written."""
    if not target.exists():
        return None
    if not target.is_file():
        raise ValueError("it exists and is no file")
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return stat.S_IMODE(target.stat().st_mode)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _explain(problem: OSError | ValueError) -> str:
    """The reason without the path, which the refusal names. A path with a zero byte is a ValueError."""
    return getattr(problem, "strerror", None) or str(problem)
