"""Processes that write one ledger and are killed at it, started by tests as a script: ACT PATH."""

import errno
import fcntl
import itertools
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledgers import STEP
from tightrope.answers.ledger import Ledger

ROUNDS = 30  # of two writers each
# Each call that saving makes, as who has it, its name, and which of several calls is meant.
CALLS: tuple[tuple[Any, str, int], ...] = (
    (os, "open", 1),
    (fcntl, "flock", 1),
    (os, "ftruncate", 1),
    (os, "write", 1),
    (os, "fsync", 1),
    (os, "replace", 1),
    (os, "open", 2),  # of the folder
    (os, "fsync", 2),
)


def load_step_save(path: Path, times: int = 100) -> None:
    for _ in range(times):
        ledger = Ledger.load(path)
        ledger.record(STEP)
        ledger.save(path)


def open_and_step(path: Path, times: int = 100) -> None:
    ledger = Ledger.open(path, relation="add-or-remove")
    for _ in range(times):
        ledger.record(STEP)


def step_without_locks(path: Path) -> None:
    """As on a file system that refuses them, each time with another error."""
    errors = itertools.cycle([errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS])

    def refuse(*_: Any) -> None:
        raise OSError(next(errors), "no locks here")

    setattr(fcntl, "flock", refuse)  # noqa: B010  # mypy knows the true one
    open_and_step(path)


def fork(act: Callable[[], object]) -> int:
    """The number of a process that does this and ends."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    return child


def kill_writers(path: Path) -> None:
    """Kill two writers at a time; tell for each round what they had been told and what is in the file."""
    choose = random.Random(17)
    told = []
    for _ in range(ROUNDS):
        ours, theirs = os.pipe()

        def keep_on(tell: int = theirs) -> None:
            ledger = Ledger.open(path, relation="add-or-remove")
            while True:
                ledger.record(STEP)
                os.write(tell, b".")  # only what returned counts

        writers = [fork(keep_on), fork(keep_on)]
        os.close(theirs)
        with open(ours, "rb", buffering=0) as acknowledged:
            steps = sum(len(acknowledged.read(1)) for _ in range(choose.randrange(8)))
            time.sleep(choose.uniform(0, 0.01))
            for writer in writers:
                os.kill(writer, signal.SIGKILL)
                os.waitpid(writer, 0)
            told.append(
                {
                    "acknowledged": steps + len(acknowledged.read()),
                    "in the file": Ledger.load(path).steps,
                    "parts": len(list(path.parent.iterdir())) - 1,
                }
            )
    print(json.dumps(told))


def kill_at_every_call(path: Path) -> None:
    """Kill a writer before and after each of its calls; tell how many steps each left in the file."""
    told = {}
    for owner, name, number in CALLS:
        for when in ("before", "after"):
            before = Ledger.load(path).steps

            def die(owner: Any = owner, name: str = name, number: int = number, when: str = when) -> None:
                ledger = Ledger.load(path)
                ledger.record(STEP)
                setattr(owner, name, deadly(getattr(owner, name), number, when))
                ledger.save(path)

            _, status = os.waitpid(fork(die), 0)
            assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, (name, number, when)
            told[f"{when} {name} {number}"] = Ledger.load(path).steps - before
    print(json.dumps(told))


def deadly(call: Callable[..., Any], number: int, when: str) -> Callable[..., Any]:
    """The call, which kills this process before or after it is made for the nth time."""
    calls = 0

    def made(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = call(*args, **options)
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    return made


if __name__ == "__main__":
    acts: tuple[Callable[[Path], None], ...] = (
        load_step_save,
        open_and_step,
        step_without_locks,
        kill_writers,
        kill_at_every_call,
    )
    {act.__name__: act for act in acts}[sys.argv[1]](Path(sys.argv[2]))
