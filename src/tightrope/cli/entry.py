"""From the words of a command line to an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from tightrope import __version__
from tightrope.cli.exits import ExitCode

_NEEDS = ("cyclopts", "rich")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with an `ExitCode`.

    Results go to standard output, everything else as one sentence to standard error. What takes long to load
    is loaded in here, where an interrupt is such a sentence too.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _exit_code(words)
    except KeyboardInterrupt:
        code = _say("interrupted.", ExitCode.INTERRUPTED)
    raise SystemExit(code)


def _exit_code(words: list[str]) -> int:
    from tightrope.errors import NotPreciseEnough, RefutedClaim, TightropeError

    if words == ["--version"]:  # answered before any library is loaded
        print(__version__)
        return ExitCode.FINE
    try:
        from cyclopts import CycloptsError

        from tightrope.cli import app, refusals
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _NEEDS:
            raise
        lacks = f"the command line needs {missing.name}, which is not installed"
        return _say(f"{lacks}; install tightrope[cli].", ExitCode.REFUSED)
    try:
        code = app.run(words)
        sys.stdout.flush()
    except CycloptsError as wrong:
        return _say(refusals.in_one_line(wrong), ExitCode.REFUSED)
    except TightropeError as refusal:
        code = ExitCode.NOT_KNOWN if isinstance(refusal, NotPreciseEnough) else ExitCode.REFUSED
        code = ExitCode.NOT_MET if isinstance(refusal, RefutedClaim) else code
        return _say(refusal.in_words(refusals.words_of("".join(words[:1]))), code)
    except BrokenPipeError:
        # the reader closed the pipe; keep the interpreter from complaining when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FINE
    except ImportError as missing:  # a command lacks its extra; the message says which
        return _say(f"{missing.__cause__ or missing}.", ExitCode.REFUSED)
    except Exception as problem:
        what = " ".join(f"{type(problem).__name__}: {problem}".split())
        advice = "this is a bug in tightrope, please report it with the command you ran"
        return _say(f"internal error ({what}); {advice}.", ExitCode.INTERNAL)
    return code


def _say(sentence: str, code: int) -> int:
    print(f"tightrope: {sentence}", file=sys.stderr)
    return code
