"""Helpers of a joined sweep: kept for the next one, left alone by joblib, gone with the process they help."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import joblib
import pytest
import threadpoolctl

from pieces import deadly_elsewhere_at_one, my_process, pausing, processes_within, threads_of_libraries
from tightrope.helpers import _waiting, end_helpers
from tightrope.parallel import count_jobs, in_parallel
from tightrope.sweeps.sweep import WorkerDied

HERE = Path(__file__).parent
SOON = 60.0  # seconds in which everything below is over, also on a busy machine
BEGIN = f"""
import gc, os, sys
sys.path.insert(0, {str(HERE)!r})
from pieces import doubled, my_process, pausing
from tightrope.parallel import in_parallel

def joined(count=60, work=my_process):
    return [found for _, found in in_parallel(work, range(count), workers=2, joining=True)]

def through_joblib(count=6, work=my_process):
    return [found for _, found in in_parallel(work, range(count), workers=2)]
"""


def joined(work: Callable[[Any], Any], pieces: Iterable[Any], workers: int = 2) -> dict[int, Any]:
    return dict(in_parallel(work, pieces, workers=workers, joining=True))


def lives(pid: int) -> bool:
    """Whether there is such a process, unless it only waits to be counted as ended."""
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def ends_soon(pids: set[int]) -> bool:
    until = time.monotonic() + SOON
    while any(map(lives, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(lives, pids))


def said(script: str) -> str:
    """What a process of its own prints, which ends by itself and complains of nothing."""
    command = [sys.executable, "-W", "error", "-c", BEGIN + script]
    found = subprocess.run(command, capture_output=True, text=True, timeout=SOON)
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout.strip()


@pytest.mark.parametrize(
    "order", ["joined(); through_joblib(); joined()", "through_joblib(); joined(); through_joblib()"]
)
def test_joined_sweeps_and_those_through_joblib_leave_each_other_alone(order: str) -> None:
    assert said(f"{order}; print(joined(work=doubled)[:0], sorted(through_joblib(work=doubled)))") == (
        "[] [0, 2, 4, 6, 8, 10]"
    )


def test_helpers_are_kept_for_the_next_sweep_and_end_with_the_process() -> None:
    pids = said("print(os.getpid(), *({*joined()} | {*joined()} | {*joined()}))").split()
    home, *workers = map(int, pids)
    assert home in workers
    assert len(set(workers)) == 2  # the same one helped every time
    assert ends_soon({*workers})


def test_helpers_that_were_killed_while_they_waited_are_replaced() -> None:
    (helper,) = {*joined(my_process, range(60)).values()} - {os.getpid()}
    os.kill(helper, signal.SIGKILL)
    again = list(joined(my_process, range(60)).values())
    assert len(again) == 60
    assert helper not in again


def test_another_number_of_helpers_replaces_those_that_wait() -> None:
    for workers in (2, 3, 2):
        pids = {*joined(my_process, range(200), workers).values()}
        assert 2 <= len(pids) <= workers
        assert [count for count, _ in _waiting.values()] == [workers - 1]
    end_helpers()
    assert os.getpid() not in _waiting
    assert ends_soon(pids - {os.getpid()})


def test_sweeps_that_come_in_between_have_helpers_of_their_own() -> None:
    outer = in_parallel(pausing, range(40), workers=2, joining=True)
    first = next(outer)
    inner = sorted(in_parallel(pausing, range(40), workers=2, joining=True))
    assert inner == sorted([first, *outer]) == [(i, 2 * i) for i in range(40)]


def test_a_piece_that_kills_a_helper_every_time_loses_nothing_but_itself() -> None:
    pieces = [(29 - i, os.getpid()) for i in range(30)]  # helpers begin at the end
    outcomes = joined(deadly_elsewhere_at_one, pieces)
    assert isinstance(outcomes.pop(28), WorkerDied)
    assert outcomes == {i: 2 * (29 - i) for i in range(30) if i != 28}


def test_this_process_takes_the_first_pieces_and_helpers_the_last() -> None:
    joined(my_process, range(60))  # which starts them
    places = [place for place, pid in joined(my_process, range(60)).items() if pid == os.getpid()]
    assert places == list(range(len(places)))
    assert 10 < len(places) < 50


def test_a_helper_hands_out_nothing() -> None:
    found = joined(processes_within, range(30))
    elsewhere = [inner for outer, inner in found.values() if outer != os.getpid()]
    assert elsewhere
    assert all(inner == {outer} for outer, inner in found.values() if outer != os.getpid())


def test_joblib_says_how_many_help_where_nobody_else_does() -> None:
    with joblib.parallel_config(n_jobs=3):
        assert (count_jobs(None), count_jobs(2)) == (3, 2)
    assert count_jobs(None) == joblib.cpu_count()


def test_who_is_interrupted_by_the_keyboard_ends_with_its_helpers() -> None:
    script = "for pid in (pid for _, pid in in_parallel(my_process, range(10**5), workers=2, joining=True)):"
    script += "\n    print(pid, flush=True)"
    command = [sys.executable, "-u", "-c", BEGIN + script]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        pids: set[int] = set()
        while len(pids) < 2:
            pids.add(int(process.stdout.readline()))
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
        _, complaints = process.communicate(timeout=SOON)
    assert process.returncode in (-signal.SIGINT, 130, 1)
    assert complaints.count("Traceback") == complaints.count("KeyboardInterrupt") == 1
    assert ends_soon(pids)


def test_helpers_do_not_outlive_who_is_killed() -> None:
    script = "print(*{*joined()}, flush=True); import signal; os.kill(os.getpid(), signal.SIGKILL)"
    command = [sys.executable, "-c", BEGIN + script]
    found = subprocess.run(command, capture_output=True, text=True, timeout=SOON)
    assert ends_soon({int(pid) for pid in found.stdout.split()})


@pytest.mark.parametrize("dropped", ["del outcomes; gc.collect()", "pass"])
def test_who_listens_no_more_and_closes_nothing_hangs_nowhere(dropped: str) -> None:
    endless = "in_parallel(my_process, range(10**5), workers=2, joining=True)"
    script = f"outcomes = {endless}; pids = {{pid for pid, _ in zip(outcomes, range(100))}}; {dropped}\n"
    pids = said(
        script.replace("{pid for pid, _ in zip", "{pid for (_, pid), _ in zip") + "print(*pids)"
    ).split()
    assert len(pids) == 2
    assert ends_soon({int(pid) for pid in pids})


def test_who_stops_listening_to_helpers_hears_nothing_more_of_them() -> None:
    script = """
for heard in range(200):
    outcomes = in_parallel(abs, range(1000), workers=2, joining=True)
    for _ in range(1 + heard % 7):
        next(outcomes)
    outcomes.close()
print("closed")
"""
    assert said(script) == "closed"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_has_helpers_of_its_own() -> None:
    script = """
import warnings
warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
before = {*joined()}
if not (child := os.fork()):
    os._exit(len({*joined()} - before - {os.getpid()}))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), {*joined()} == before)
"""
    assert said(script) == "1 True"


def test_everyone_works_on_one_thread_while_they_share_the_cores() -> None:
    with threadpoolctl.threadpool_limits(2):
        before = {library["num_threads"] for library in threadpoolctl.threadpool_info()}
        found = joined(threads_of_libraries, range(200)).values()
        after = {library["num_threads"] for library in threadpoolctl.threadpool_info()}
    assert {threads for _, threads in found} == {1}
    assert os.getpid() in {process for process, _ in found}
    assert before == after == {2}
