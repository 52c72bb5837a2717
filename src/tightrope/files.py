"""Files that are read and written whole, or refused."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tightrope.errors import InvalidSetting, UnusableFile


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


def read_text(path: Path) -> str:
    """The whole file, which must be UTF-8 without a byte order mark."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, ValueError) as problem:
        why = "it is not UTF-8 text" if isinstance(problem, UnicodeDecodeError) else _explain(problem)
        remedy = "Pass a text file in UTF-8 that exists and may be read."
        raise UnusableFile(path, f"could not be read: {why}", remedy) from None
    if text.startswith("\N{BOM}"):
        raise UnusableFile(path, "opens with a byte order mark", "Save it as UTF-8 without one.")
    return text


def read_toml(path: Path, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The tables of a TOML file."""
    import tomllib  # most questions come without a file

    text = read_text(path)
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except (ValueError, RecursionError) as problem:
        raise UnusableFile(path, f"must be a TOML file, got: {problem}", "Correct it there.") from None


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
