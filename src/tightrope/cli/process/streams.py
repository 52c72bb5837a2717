"""Standard output and standard error that take every text, whatever becomes of what is behind them."""

import errno
import io
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import TextIO

MOST_KEPT = (
    100_000  # characters that are still there when standard output has failed: most answers are shorter
)
_FIRST_LINES = 40  # of a longer one

_TABLE = (
    "αalpha γgamma δdelta εepsilon ϵepsilon λlambda μmu ρrho σsigma τtau "  # noqa: RUF001
    "≤<= ≥>= ≠!= ≈~ ×x ·* ±+- ∞infinity √sqrt →-> ←<- "  # noqa: RUF001
    "−- ‐- ‑- ‒- –- —- ‘' ’' “\" ”\" …... •* "  # noqa: RUF001
)
_SPELLINGS = {entry[0]: entry[1:] for entry in _TABLE.split()}


def spell_for(encoding: str, text: str) -> str:
    r"""The text with every character that the encoding lacks spelled in ASCII: readable, and never as "?".

    Letters lose their accents, and signs become words. What has no spelling is written as Python escapes it,
    so that a number can never turn into another one.

    >>> spell_for("ascii", "Rényi: ε ≤ 10⁻⁶")  # noqa: RUF002
    'Renyi: epsilon <= 10\\u207b\\u2076'
    >>> spell_for("latin-1", "Rényi: ε ≤ 1")  # noqa: RUF002
    'Rényi: epsilon <= 1'
    """
    if _can_write(encoding, text):
        return text
    return "".join(sign if _can_write(encoding, sign) else _spell(sign) for sign in text)


def _can_write(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _spell(sign: str) -> str:
    if sign in _SPELLINGS:
        return _SPELLINGS[sign]
    parts = unicodedata.normalize("NFD", sign)
    if len(parts) > 1 and parts[0].isascii() and parts[0].isalpha():  # not =, which a stroke turns around
        return parts[0]
    if "\udc80" <= sign <= "\udcff":  # a byte of a file name that is no text
        return f"\\x{ord(sign) - 0xDC00:02x}"
    return sign.encode("ascii", "backslashreplace").decode()


class SafeStream(io.TextIOBase):
    """A stream in front of another one, which may be closed, full, or without a reader.

    It never raises. `problem` is why the other one takes nothing more; what was written is still `kept`.
    """

    def __init__(self, behind: TextIO | None) -> None:
        self._behind = behind
        self.problem: OSError | None = None
        self.kept = ""
        self.lines = 0

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the stream behind."""
        return getattr(self._behind, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether somebody is watching."""
        return self._behind is not None and self._behind.isatty()

    def fileno(self) -> int:
        """The descriptor of the stream behind."""
        if self._behind is None:
            raise io.UnsupportedOperation("fileno")
        return self._behind.fileno()

    def writable(self) -> bool:
        """It always is."""
        return True

    def write(self, text: str) -> int:
        """Hand the text on while that works, in letters that the stream behind has."""
        self.kept += text[: MOST_KEPT - len(self.kept)]
        self.lines += text.count("\n")
        if self.problem is None:
            try:
                if self._behind is None:
                    raise OSError(errno.EBADF, "it is closed")
                self._behind.write(spell_for(self.encoding, text))
            except OSError as problem:
                self._give_up(problem)
        return len(text)

    def flush(self) -> None:
        """Hand on what waits in the stream behind."""
        if self.problem is None and self._behind is not None:
            try:
                self._behind.flush()
            except OSError as problem:
                self._give_up(problem)

    @property
    def is_left(self) -> bool:
        """Whether whoever read this has gone away, as `head` does, and misses nothing."""
        return isinstance(self.problem, BrokenPipeError)

    def _give_up(self, problem: OSError) -> None:
        self.problem = problem
        with suppress(OSError):  # else the interpreter would try again when it ends, and complain
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)


@contextmanager
def safe_streams() -> Iterator[tuple[SafeStream, SafeStream]]:
    """Put safe streams in the place of standard output and standard error until the block ends."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _occupy_descriptors()
    out, err = SafeStream(sys.stdout), SafeStream(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):
        try:
            yield out, err
        finally:
            out.flush()
            err.flush()


def _occupy_descriptors() -> None:
    """Open what is closed of 0, 1 and 2, lest a file that a command opens gets what others print."""
    while (taken := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(taken)


def rescue(out: SafeStream) -> str:
    """What to say when standard output has failed: why, and the answer if it is not too long."""
    said = f"standard output could not be written: {out.problem.strerror if out.problem else ''}."
    if len(out.kept) < MOST_KEPT:
        return f"{said} What belongs there follows.\n{out.kept}"
    first = out.kept.splitlines(keepends=True)[:_FIRST_LINES]
    return f"{said} The first {_FIRST_LINES} of its {out.lines:,} lines follow.\n{''.join(first)}"
