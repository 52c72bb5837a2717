"""From the words of a command line to an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from tightrope import __version__
from tightrope.errors import NotPreciseEnough, TightropeError

FINE, INTERNAL, USAGE, NOT_CERTIFIED, INTERRUPTED = 0, 1, 2, 4, 130
_NEEDS = ("cyclopts", "rich")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit.

    0 fine, 1 internal error, 2 bad input, no theorem or no such value, 3 a claim is not met, 4 not certified.

    Results go to standard output; whatever else there is to say is one sentence on standard error.
    """
    raise SystemExit(_exit_code(list(sys.argv[1:] if argv is None else argv)))


def _exit_code(words: list[str]) -> int:
    if words == ["--version"]:  # told before any library is loaded
        print(__version__)
        return FINE
    try:
        from cyclopts import CycloptsError

        from tightrope.cli import app, refusals
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _NEEDS:
            raise
        lacks = f"the command line needs {missing.name}, which is not installed"
        return _say(f"{lacks}; install tightrope[cli].", USAGE)
    try:
        code = app.run(words)
        sys.stdout.flush()
    except CycloptsError as wrong:
        return _say(refusals.in_one_line(wrong), USAGE)
    except TightropeError as refusal:
        code = NOT_CERTIFIED if isinstance(refusal, NotPreciseEnough) else USAGE
        return _say(refusal.in_words(refusals.words_of("".join(words[:1]))), code)
    except KeyboardInterrupt:
        return _say("interrupted.", INTERRUPTED)
    except BrokenPipeError:
        # the reader has seen enough; keep the interpreter from complaining when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except ImportError as missing:  # an extra that a command needs; its message says which
        return _say(f"{missing.__cause__ or missing}.", USAGE)
    except Exception as problem:
        what = " ".join(f"{type(problem).__name__}: {problem}".split())
        advice = "this is a bug in tightrope, please report it with the command you ran"
        return _say(f"internal error ({what}); {advice}.", INTERNAL)
    return code


def _say(sentence: str, code: int) -> int:
    print(f"tightrope: {sentence}", file=sys.stderr)
    return code
