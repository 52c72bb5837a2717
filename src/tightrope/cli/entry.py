"""The door of the command line: open before anything is loaded, so that Ctrl-C is answered from the start."""

import sys

TYPE_CHECKING = False  # typing has one, and takes milliseconds in which Ctrl-C would be a traceback
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

_INTERRUPTED = 130  # ExitCode.INTERRUPTED, which may not be loaded yet


def main(argv: "Sequence[str] | None" = None) -> "NoReturn":
    """Run one command and exit with an `ExitCode`.

    Results go to standard output, everything else as one sentence to standard error. What takes long to load
    is loaded in here, where an interrupt is such a sentence too.
    """
    lost: list[Any] = []
    report, sys.unraisablehook = sys.unraisablehook, lost.append
    try:
        from tightrope.cli.session import run_words  # may need a library that is missing

        sys.unraisablehook = report
        if any(isinstance(each.exc_value, KeyboardInterrupt) for each in lost):
            raise KeyboardInterrupt  # which came while an import was cleaning up, where Python only prints it
        code = run_words(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # before the session could answer it
        if sys.stderr is not None:
            print("tightrope: interrupted.", file=sys.stderr)
        code = _INTERRUPTED
    raise SystemExit(code)
