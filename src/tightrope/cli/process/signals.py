"""Signals that ask a command to end, heard as KeyboardInterrupt at every moment."""

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_AGAIN = 0.01  # seconds until an interrupt that got lost comes again
_UNTOUCHED = (signal.default_int_handler, signal.SIG_DFL)


@contextmanager
def heed_signals(*numbers: int, leave: Callable[[int], object] = int) -> Iterator[list[int]]:
    """Yield what collects these signals as they come; each one raises KeyboardInterrupt, as Ctrl-C does.

    During an import `leave(number)` is called first, to end the process: libraries of C that are being loaded
    may swallow an exception, or go on for ever with what they have half set up.
    After the block, once one has come, the next one ends the process at once and in silence. A signal that
    somebody has already decided about, as nohup has, is left alone.
    """
    heard: list[int] = []
    again: list[threading.Timer] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        if is_importing(frame):
            leave(number)
        raise KeyboardInterrupt

    def hear_again(lost: Any) -> None:
        """Python only prints what is raised in a destructor or a callback, and goes on."""
        if not isinstance(lost.exc_value, KeyboardInterrupt) or not heard:
            report(lost)
            return
        again.append(threading.Timer(_AGAIN, _send_to_main_thread, [heard[-1]]))
        again[-1].daemon = True
        again[-1].start()

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
        untouched = [number for number in numbers if signal.getsignal(number) in _UNTOUCHED]
        before = {number: signal.signal(number, hear) for number in untouched}
    report, sys.unraisablehook = sys.unraisablehook, hear_again
    try:
        yield heard
    finally:
        for timer in again:
            timer.cancel()
        sys.unraisablehook = report
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if heard else handler)


def is_importing(frame: FrameType | None) -> bool:
    """Whether this frame, or one that called it, is part of an import."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _send_to_main_thread(number: int) -> None:
    if sys.platform == "win32":
        _thread.interrupt_main(number)
    else:  # which also ends what waits there
        signal.pthread_kill(threading.main_thread().ident or 0, number)
