"""Processes that help this one, kept from one sweep to the next.

They are our own: joblib adds to its executor what it needs itself, so that neither can use the other's.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import BrokenExecutor, Future
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

_IDLE = 300.0  # seconds until a helper that gets no work ends, as joblib's workers do
_LOOK = 1.0  # seconds between two looks at whether the process that is helped lives
_HANDED_OUT = 2.0  # seconds in which work that was asked for is certainly handed out
_SHORT = 0.001  # seconds between two looks at whether it is
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # of a helper: one
_waiting: dict[int, tuple[int, Any]] = {}  # by whose they are: a fork cannot use those of its parent


def take_helpers(count: int) -> Any:
    """An executor of so many processes, of those that wait if it can; nobody else has it meanwhile."""
    from joblib.externals.loky import ProcessPoolExecutor  # which may not be installed

    kept, helpers = _waiting.pop(os.getpid(), (0, None))
    if kept == count:
        with suppress(BrokenExecutor):  # they may have been killed
            helpers.submit(bool)
            return helpers
    elif helpers is not None:
        helpers.shutdown(wait=False)
    one_thread = dict.fromkeys(_THREADS, "1")
    return ProcessPoolExecutor(count, timeout=_IDLE, env=one_thread, initializer=_begin_helping)


def make_limit() -> Callable[[], AbstractContextManager[object]]:
    """Makes contexts in which this process keeps to one thread, as its helpers do.

    Its matrices are small: more threads wait for each other, and do so on the cores that the helpers need.
    """
    try:
        import threadpoolctl
    except ModuleNotFoundError:  # whoever installed joblib for something else loses time and nothing more
        return nullcontext
    libraries = threadpoolctl.ThreadpoolController()
    return lambda: libraries.limit(limits=1)


def _begin_helping() -> None:
    """A helper leaves Ctrl-C to the process that it helps, and hands out nothing itself."""
    import joblib  # which may not be installed where this module is loaded

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    joblib.parallel_config("sequential", n_jobs=1)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """A parent that is killed cannot end its helpers. Windows keeps its number: there they end when idle."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os._exit(1)


def keep_helpers(count: int, helpers: Any) -> None:
    """Let them wait for whoever asks for as many, instead of those that wait already."""
    end_helpers(wait=False)
    _waiting[os.getpid()] = count, helpers


def kill_helpers(helpers: Any, asked: Collection[Future[Any]]) -> None:
    """End them in the middle of what they are asked for.

    loky's thread fails over work that it has not begun to hand out when the helpers are killed, and prints a
    traceback. It hands out this little at once, but is given no longer than it may need on a busy machine.
    """
    until = time.monotonic() + _HANDED_OUT
    while not all(each.running() or each.done() for each in asked) and time.monotonic() < until:
        time.sleep(_SHORT)
    helpers.shutdown(kill_workers=True)


def end_helpers(*, wait: bool = True) -> None:
    """End those that wait; they also end when this process does, and after some minutes."""
    _, helpers = _waiting.pop(os.getpid(), (0, None))
    if helpers is not None:
        helpers.shutdown(wait=wait)
