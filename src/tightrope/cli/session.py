"""One command, in whatever environment it is run: from its words to its exit code."""

import os
import signal
import sys

from tightrope import __version__
from tightrope.cli.process.exits import ExitCode
from tightrope.cli.process.signals import heed_signals
from tightrope.cli.process.streams import rescue, safe_streams
from tightrope.errors import Infeasible, NotPreciseEnough, RefutedClaim, TightropeError, UnwrittenFile
from tightrope.extras import MissingExtra, install_command

_NEEDS = ("cyclopts", "rich")
_ENDS: dict[int, tuple[str, ExitCode]] = {
    signal.SIGINT: ("interrupted.", ExitCode.INTERRUPTED),
    signal.SIGTERM: ("terminated.", ExitCode.TERMINATED),
}


def run_words(words: list[str]) -> int:
    """Run the command that the words name, and return its exit code. Nothing is raised but an interrupt.

    What standard output does not take goes to standard error. Then the code is `ENVIRONMENT`, unless it
    already says something else about the answer.
    """
    with safe_streams() as (out, err):
        code = _end(words)
        out.flush()
        if out.problem is None or out.is_left:
            return code
        err.write(f"tightrope: {rescue(out)}")
        return ExitCode.ENVIRONMENT if code == ExitCode.FINE else code


def _end(words: list[str]) -> int:
    with heed_signals(*_ENDS, leave=_leave) as heard:
        try:
            return _answer(words)
        except (KeyboardInterrupt, Exception) as problem:
            # an interrupt inside an import may come out of it as any other exception
            if heard or isinstance(problem, KeyboardInterrupt):
                return _say(*_ENDS[heard[-1] if heard else signal.SIGINT])
            return _explain(problem)


def _leave(number: int) -> None:
    """End the process now: whatever was computed has been printed, for nothing is while a library loads."""
    code = _say(*_ENDS[number])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _answer(words: list[str]) -> int:
    if words == ["--version"]:  # answered before any library is loaded
        print(__version__)
        return ExitCode.FINE
    try:
        from tightrope.cli import app  # may need a library that is missing
        from tightrope.cli.printed import refusals
    except ModuleNotFoundError as missing:
        library = (missing.name or "").partition(".")[0]
        if library not in _NEEDS:
            raise
        lacks = f"the command line needs {library}, which is not installed"
        return _say(f"{lacks}. Install it with: {install_command('cli')}", ExitCode.REFUSED)
    try:
        return app.run(words)
    except TightropeError as refusal:
        return _say(refusal.in_words(refusals.words_of("".join(words[:1]))), _code_of(refusal))


def _code_of(refusal: TightropeError) -> ExitCode:
    codes = {
        NotPreciseEnough: ExitCode.NOT_KNOWN,
        RefutedClaim: ExitCode.NOT_MET,
        Infeasible: ExitCode.NOT_MET,
        UnwrittenFile: ExitCode.ENVIRONMENT,
    }
    return next((code for kind, code in codes.items() if isinstance(refusal, kind)), ExitCode.REFUSED)


def _explain(problem: Exception) -> int:
    """Say what went wrong, and whose bug it is."""
    told = " ".join(f"{problem}".split())
    cause: BaseException | None = problem
    while cause is not None and not isinstance(cause, MissingExtra):
        cause = cause.__cause__
    if cause is not None:
        return _say(f"{cause}", ExitCode.REFUSED)
    if isinstance(problem, ImportError) and not (problem.name or "tightrope").startswith("tightrope"):
        remedy = f"Install it anew with: {install_command('cli')}"
        return _say(f"a library could not be loaded: {told}. {remedy}", ExitCode.ENVIRONMENT)
    if isinstance(problem, MemoryError):
        return _say("there is not enough memory for this.", ExitCode.ENVIRONMENT)
    if isinstance(problem, OSError):
        return _say(f"the system failed: {told}.", ExitCode.ENVIRONMENT)
    advice = "this is a bug in tightrope, please report it with the command you ran"
    return _say(f"internal error ({type(problem).__name__}: {told}); {advice}.", ExitCode.INTERNAL)


def _say(sentence: str, code: ExitCode) -> ExitCode:
    print(f"tightrope: {sentence}", file=sys.stderr)
    return code
