"""Work for other processes, which must be able to import it; some ends badly. And a cluster to do it."""

import logging
import os
import signal
import time
from pathlib import Path
from typing import Any


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


def pausing(piece: int) -> int:
    time.sleep(0.02)
    return 2 * piece


def my_process(_: int) -> int:
    time.sleep(0.02)
    return os.getpid()
