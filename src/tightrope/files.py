"""Files that are read and written whole, or refused."""

import contextlib
import errno
import io
import json
import math
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.errors import InvalidSetting, UnusableFile, UnwrittenFile

try:
    import fcntl
except ModuleNotFoundError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

PATIENCE = 60.0  # seconds to wait for another writer, who needs milliseconds
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02  # seconds between two looks at the part file
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # as some network file systems say
_LONGEST_NAME = 60  # characters of a name in that of its part file: names have 255 bytes at most


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
    if len(text) <= 32 and 1e-300 < abs(value) < 1e300:
        return value
    if not math.isfinite(value):
        raise ValueError(f"{text}, which is not a finite number")
    return float(_check_number(text))


def _check_tree(whole: object, limits: Limits) -> None:
    """Refuse what is nested too deeply, listed too often or written too long, by the key it stands under."""
    level: list[tuple[str, object]] = [("", whole)]
    for _ in range(MOST_DEPTH):
        for key, value in level:
            _check_one(key, value, limits)
        inner = (entry for key, value in level for entry in _list_inner(key, value))
        level = [entry for entry in inner if type(entry[1]) is not float and not _is_short(entry[1])]
    if level:
        raise ValueError(f"more than {MOST_DEPTH} tables and lists within one another under {level[0][0]!r}")


def _is_short(value: object) -> bool:
    """Whether it is a short text or a small number, as is most of what programs keep besides floats."""
    if type(value) is str:
        return len(value) <= MOST_CHARACTERS
    return type(value) is int and -(2**63) < value < 2**63


def _list_inner(key: str, value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, dict):
        return value.items()
    return [(key, each) for each in value] if isinstance(value, list) else ()


def _check_one(key: str, value: object, limits: Limits) -> None:
    if isinstance(value, dict) and max(map(len, value), default=0) > MOST_CHARACTERS:
        raise ValueError(f"a key of more than {MOST_CHARACTERS:,} characters")
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        raise ValueError(
            f"{len(value):,} characters under {key[:99]!r}; at most {MOST_CHARACTERS:,} are read"
        )
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        digits = f"{round(value.bit_length() * math.log10(2)):,} digits under {key[:99]!r}"
        raise ValueError(f"a whole number of about {digits}; at most {MOST_DIGITS:,} are read")
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
    with write_alone(path, what=what, reads=False) as draft:
        draft.put_in_place(content)


@contextlib.contextmanager
def write_alone(path: Path, *, what: str, reads: bool = True) -> "Iterator[Draft]":
    """Be the only writer of the file until the block ends or the draft is put in its place.

    Writers meet at one part file beside the target, which is both the lock and the draft. Whoever holds it
    renames or removes it, so that nothing is left behind, and those who waited open a new one. A writer that
    is killed leaves its part file without a lock, and the next one takes it over.

    Some file systems have no locks. There a part file belongs to the writer that made it, and one that was
    left behind must be removed by hand, since nobody can tell that its writer is dead. Who replaces the file
    without having read it (`reads=False`) takes a part file of its own instead.
    """
    named = f"{what} {str(path)!r}"
    draft = Draft(path, named)
    try:
        with _refuse_what_fails(named):
            draft.take(reads=reads)
        yield draft
    finally:
        draft.discard()


class Draft:
    """The part file of a target, whose place it can take; made before the lock, so that it can give it up."""

    def __init__(self, target: Path, named: str) -> None:
        self.target = target
        self._named, self._part = named, target
        self._held: io.FileIO | None = None
        self._file: os.stat_result | None = None
        self._is_renaming = False

    def take(self, *, reads: bool) -> None:
        """Open the part file, once no other writer has it."""
        self.target = self.target.resolve()  # a link goes on pointing to the file
        _mode(self.target)  # refuses what is no file before one is made beside it
        name = self.target.name[:_LONGEST_NAME]
        part, end = self.target.with_name(f".{name}.part"), time.monotonic() + PATIENCE
        pause = _SHORTEST_PAUSE
        while not (tried := self._try(part))[0]:
            _, has_locks = tried
            if not (has_locks or reads):
                part = self.target.with_name(f".{name}.{os.urandom(4).hex()}.part")
            elif time.monotonic() > end:
                dead = "" if has_locks else f" or has died at it; if none is writing, remove {str(part)!r}"
                raise TimeoutError(f"another process has been writing it for {PATIENCE:g} s{dead}")
            else:
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _try(self, part: Path) -> tuple[bool, bool]:
        """Whether the part file is ours now, and whether locks tell whose it is."""
        is_made = True
        try:
            self._held = io.FileIO(part, "x+", opener=_open)
        except FileExistsError:
            if fcntl is None:
                return False, False
            is_made = False
            try:
                self._held = io.FileIO(part, "r+", opener=_open)
            except FileNotFoundError:  # the other writer is done
                return False, True
        is_locked = _try_lock(self._held.fileno())
        file = os.fstat(self._held.fileno())
        is_mine = (is_made if is_locked is None else is_locked) and _is_at(
            part, file
        )  # not renamed meanwhile
        if is_mine:
            self._part, self._file = part, file
        else:
            self.close()
        return is_mine, is_locked is not None

    def put_in_place(self, content: bytes) -> None:
        """Replace the target by this content; when this returns, it is on disk."""
        with _refuse_what_fails(self._named):
            mode = _mode(self.target)
            if mode is not None:
                os.chmod(self._part, mode)
            assert self._held is not None
            descriptor = self._held.fileno()
            os.ftruncate(descriptor, 0)  # a writer that was killed may have left something
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
            if fcntl is None:
                self.close()  # Windows renames no open file
            self._is_renaming = True
            try:
                os.replace(self._part, self.target)
            except OSError:
                self._is_renaming = False
                raise
        _sync_folder(self.target.parent)

    @property
    def is_in_place(self) -> bool:
        """Whether the draft has become the target, also if an interrupt came right before or after."""
        return self._is_renaming and not self._is_part()

    def discard(self) -> None:
        """Remove what did not take the target's place, and let the next writer go on."""
        if fcntl is None:
            self.close()  # Windows removes no open file, and nobody else takes one that is there
        try:
            with contextlib.suppress(OSError):
                if self._is_part():  # else a part file of that name is the next writer's
                    self._part.unlink()
        finally:
            self.close()

    def close(self) -> None:
        """Close the file, which gives up the lock."""
        if self._held is not None:
            self._held.close()

    def _is_part(self) -> bool:
        return self._file is not None and _is_at(self._part, self._file)


def _open(part: str, how: int) -> int:
    return os.open(part, how | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _try_lock(descriptor: int) -> bool | None:
    """Whether the lock on a file is ours now; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as problem:
        if problem.errno in _NO_LOCKS:
            return None
        raise
    return True


@contextlib.contextmanager
def _refuse_what_fails(named: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as problem:
        remedy = "What was there is unchanged; choose another place."
        kind = UnwrittenFile if isinstance(problem, OSError) else UnusableFile
        raise kind(named, f"could not be written: {_explain(problem)}", remedy) from problem


def _is_at(path: Path, file: os.stat_result) -> bool:
    """Whether the file has that name now."""
    try:
        return os.path.samestat(os.lstat(path), file)
    except FileNotFoundError:
        return False


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
