"""--effort on every command, the bar that shows a long game, and Ctrl-C while it is played."""

import math
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest

import tightrope as tr
from shell import Shell
from test_cli import HEADLINE, MAIN, answered, last_row, loaded
from tightrope.cli.process import long_work

EXCHANGED = "--noise 4 --sampling without-replacement --batch 1 --population 20 --relation substitute"
TARGET = "--relation substitute --epsilon 0.35 --delta 1e-5"
QUICKLY = "effort     quick (what theory gives at once)"
TIGHTLY = "effort     tight (besides, the substitution game, or a closer look at a shuffle)"
QUESTIONS = (
    f"epsilon {EXCHANGED} --steps 5 --delta 1e-5",
    f"delta {EXCHANGED} --steps 5 --epsilon 0.2",
    f"curve {EXCHANGED} --steps 5 --epsilons 0.2",
    f"risk {EXCHANGED} --steps 5 --fpr 0.01",
    f"noise --sampling without-replacement --batch 1 --population 20 --steps 5 {TARGET}",
    f"steps --noise 4 --sampling without-replacement --batch 1 --population 20 {TARGET}",
    f"rate --noise 4 --sampling without-replacement --population 20 --steps 5 {TARGET}",
)


@pytest.mark.parametrize("words", QUESTIONS, ids=[words.split()[0] for words in QUESTIONS])
def test_every_command_is_quick_by_default_and_tells_the_effort_where_it_matters(
    shell: Shell, words: str
) -> None:
    assert QUICKLY in answered(shell, f"{words} --why")
    assert "; answered with --effort quick.\n" in answered(shell, words)
    assert loaded(shell, words)["question"]["effort"] == "quick"


@pytest.mark.parametrize("words", QUESTIONS[:2], ids=["epsilon", "delta"])
def test_a_tight_answer_says_so(shell: Shell, words: str) -> None:
    assert TIGHTLY in answered(shell, f"{words} --effort tight --why")
    assert "; answered with --effort tight.\n" in answered(shell, f"{words} --effort tight")
    assert loaded(shell, f"{words} --effort tight")["question"]["effort"] == "tight"


def test_elsewhere_the_effort_changes_nothing_and_is_not_shown(shell: Shell) -> None:
    words = f"epsilon {HEADLINE} --relation substitute --delta 1e-6"
    quick, tight = (answered(shell, f"{words} --effort {effort}") for effort in ("quick", "tight"))
    assert quick == tight
    assert "effort" not in quick
    assert loaded(shell, f"{words} --effort quick")["question"]["effort"] == "quick"


def test_tight_narrows_what_quick_leaves_open(shell: Shell) -> None:
    words = f"epsilon {EXCHANGED} --steps 5 --delta 1e-5"
    (_, *quick), (_, *tight) = (
        last_row(answered(shell, f"{words} --effort {effort} --why")) for effort in ("quick", "tight")
    )
    assert float(quick[0]) <= float(tight[0]) <= float(tight[1]) < float(quick[1])


def test_runs_from_a_file_are_quick_unless_told(shell: Shell, tmp_path: object) -> None:
    file = f"{tmp_path}/runs.toml"
    with open(file, "w") as out:
        out.write(
            'relation = "substitute"\nepsilons = [0.2]\n'
            '[[run]]\nname = "fixed"\nmechanism = "gaussian"\nnoise_multiplier = 4\n'
            'sampling = "without-replacement"\nbatch = 1\npopulation = 20\nsteps = 5\n'
        )
    assert "quick (what theory gives at once), for fixed" in answered(shell, f"curve --runs {file} --why")
    quick, tight = (loaded(shell, f"curve --runs {file} --effort {effort}") for effort in ("quick", "tight"))
    assert (quick["effort"], tight["effort"]) == ("quick", "tight")
    assert (
        tight["runs"][0]["brackets"][0]["delta"]["upper"] < quick["runs"][0]["brackets"][0]["delta"]["upper"]
    )


# the bar


def test_no_bar_where_standard_error_is_no_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_work, "PATIENCE", 0.0)
    monkeypatch.setattr(long_work, "ANNOUNCED_FROM", math.inf)  # on a slow machine it would be
    assert TIGHTLY in answered(
        shell, f"epsilon {EXCHANGED} --steps 5 --delta 1e-5 --effort tight --why"
    )  # nothing on standard error


def at_a_terminal(words: str, setup: str = "", interrupt_at: bytes | None = None) -> tuple[int, str, str]:
    """Exit code, standard output (a pipe) and standard error (a terminal), interrupted once it shows that."""
    terminal, end = pty.openpty()
    command = [sys.executable, "-c", f"{setup}\n{MAIN}", *shlex.split(words)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=end, env=environment)
        )
        stack.callback(process.kill)  # if a check fails or time is up, nobody waits for it
        os.close(end)
        shown, started = b"", time.monotonic()
        while time.monotonic() - started < 120:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    read = os.read(terminal, 65536)
                except OSError:  # the other end is closed
                    break
                if not read:
                    break
                shown += read
            if interrupt_at is not None and interrupt_at in shown:
                process.send_signal(signal.SIGINT)
                interrupt_at = None
        out = process.stdout.read() if process.stdout else b""
        code = process.wait(timeout=60)
    os.close(terminal)
    return code, out.decode(), shown.decode()


SOON = "import tightrope.cli.process.long_work as p; p.PATIENCE = p.REDRAWN_AFTER = 0.0"
PATIENTLY = "import tightrope.cli.process.long_work as p; p.PATIENCE = 60.0"  # however busy the machine is


def test_a_long_game_shows_a_bar_that_is_gone_afterwards() -> None:
    code, out, shown = at_a_terminal(f"epsilon {EXCHANGED} --steps 20 --delta 1e-5 --effort tight", SOON)
    assert code == 0
    assert "answered with --effort tight" in out
    assert "\x1b" not in out
    assert "Preparing" in shown
    assert "20 rounds of the substitution game" in shown
    assert "s left" in shown
    assert shown.endswith("\x1b[2K")  # the line is erased


def test_a_quick_answer_shows_no_bar() -> None:
    code, _, shown = at_a_terminal(f"epsilon {EXCHANGED} --steps 5 --delta 1e-5", PATIENTLY)
    assert (code, shown) == (0, "")


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_during_the_game_takes_the_bar_away() -> None:
    long = "--noise 4 --sampling without-replacement --batch 50 --population 1000 --steps 10000"
    code, out, shown = at_a_terminal(
        f"epsilon {long} --relation substitute --delta 1e-5 --effort tight", SOON, interrupt_at=b"meanwhile"
    )
    assert code == 130
    assert out.startswith("Interrupted. Known so far: epsilon is")
    assert "this will take about" in shown
    assert shown.endswith("tightrope: interrupted.\r\n")
    assert "Traceback" not in shown
    assert "\x1b[?25h" in shown  # the cursor is back


def test_a_bar_that_never_came_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    before = threading.active_count()
    with long_work.long_work() as work:
        assert threading.active_count() == before + 1
        assert work.finish(lambda: 7) == 7
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    assert threading.active_count() == before


# the library's own callback


def test_every_round_counts_from_one_to_the_number_of_steps() -> None:
    calls: list[tuple[int, int]] = []
    step = tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=1, population=20))
    tight = tr.Certified(effort=tr.TIGHT)

    def count(done: int, steps: int) -> None:
        calls.append((done, steps))

    tr.epsilon(step * 3, delta=1e-5, relation=tr.SUBSTITUTE, by=tight, progress=count)
    assert calls[:3] == [(1, 3), (2, 3), (3, 3)]
    assert len(calls) % 3 == 0
    calls.clear()
    tr.delta(step * 4, epsilon=0.1, relation=tr.SUBSTITUTE, by=tight, progress=count)
    assert calls[:2] == [(1, 4), (2, 4)]
    calls.clear()
    tr.epsilon(step * 6, delta=1e-5, relation=tr.SUBSTITUTE, progress=count)
    assert not calls
