"""Work for other processes to import in tests, some of which ends badly; clusters and journals to look at."""

import json
import logging
import os
import shutil
import signal
import sqlite3
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np


def cluster_of(workers: int) -> Any:
    """A Dask cluster of so many processes of one thread each, which are started again when they die."""
    import distributed

    # port 0: two tests at once would quarrel about the usual one, and warnings are errors
    quietly = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    return distributed.LocalCluster(n_workers=workers, processes=True, threads_per_worker=1, **quietly)


def doubled(piece: int) -> int:
    if piece < 0:
        raise ValueError(f"{piece} is negative")
    return 2 * piece


def threads_of_libraries(piece: int) -> tuple[int, int]:
    """Whose work this is, and the most threads that a library of arrays would take in it."""
    import threadpoolctl

    np.ones((2, 2)) @ np.ones((2, 2))
    time.sleep(0.02)
    return os.getpid(), max(library["num_threads"] for library in threadpoolctl.threadpool_info())


class Unpicklable(Exception):
    def __init__(self, message: str, *, limit: float) -> None:
        super().__init__(f"{message} {limit}")


def refusing(piece: int) -> int:
    raise Unpicklable("no way home", limit=piece)


def deadly_at_three(piece: int) -> int:
    if piece == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.005)
    return 2 * piece


def deadly_at_three_once(piece: tuple[int, Path]) -> int:
    """The mark is left by the first to die."""
    number, mark = piece
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.005)
    return 2 * number


def deadly_elsewhere_once(piece: tuple[int, int, Path]) -> int:
    """In every process but the named one; the mark is left by the first to die."""
    number, home, mark = piece
    if os.getpid() != home and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return 2 * number


def pausing(piece: int) -> int:
    time.sleep(0.02)
    return 2 * piece


def endless_from_five(piece: int) -> int:
    while piece >= 5:
        time.sleep(0.1)
    return 2 * piece


def my_process(_: int) -> int:
    time.sleep(0.02)
    return os.getpid()


def processes_within(_: int) -> tuple[int, set[object]]:
    """This process, and those that do what it hands out."""
    from tightrope.parallel import in_parallel

    return os.getpid(), {pid for _, pid in in_parallel(my_process, range(3), workers=None)}


def safe_rows(out: Path) -> list[dict[str, Any]]:
    """The rows that a sweep killed now would leave in its journal, read from a copy as the sweep locks it."""
    with tempfile.TemporaryDirectory() as folder:
        for path in out.parent.glob(f"{out.name}.journal*"):
            with suppress(FileNotFoundError):
                shutil.copy(path, folder)
        with closing(sqlite3.connect(Path(folder) / f"{out.name}.journal")) as journal:
            try:
                return [
                    json.loads(text) for (text,) in journal.execute("SELECT row FROM rows ORDER BY rowid")
                ]
            except sqlite3.OperationalError:  # nothing is in it yet
                return []


def deadly_elsewhere_at_one(piece: tuple[int, int]) -> int:
    """In every process but the named one."""
    number, home = piece
    if number == 1 and os.getpid() != home:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return 2 * number
