"""One measurement, one process, one thread: what the benchmarks share."""

import contextlib
import importlib.metadata
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import TypeVar

MEMORY_LIMIT = 6 << 30  # bytes of address space for one measurement
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
T = TypeVar("T")


def on_one_thread() -> None:
    """Let every measuring process compute on one thread."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))  # read when it imports numpy


def forget() -> None:
    """Empty the caches of tightrope's modules, so that the next question is answered from nothing."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "tightrope":
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def in_own_process(work: Callable[..., T], *arguments: object, seconds: float) -> T | str:
    """What `work` returns, or one word about why it did not."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(sender, work, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            return f"timeout after {seconds:g} s"
        return receiver.recv()  # type: ignore[no-any-return]
    except EOFError:
        return "process died"
    finally:
        process.kill()
        process.join()


def _report(sender: Connection, work: Callable[..., object], arguments: tuple[object, ...]) -> None:
    with contextlib.suppress(ImportError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    try:
        sender.send(work(*arguments))
    except MemoryError:
        sender.send(f"more than {MEMORY_LIMIT >> 30} GiB of memory")


def progress(done: int, work: int, what: str) -> None:
    """One line on a terminal, overwritten; nothing elsewhere."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + (f"[{done}/{work}] {what}" if what else ""))
        sys.stderr.flush()


def aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms" if seconds >= 0.1 else f"{1e3 * seconds:.2g} ms"


def versions(*packages: str) -> dict[str, str]:
    """What was measured."""
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python, **{package: importlib.metadata.version(package) for package in packages}}
