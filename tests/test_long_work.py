"""Long work: announced before it begins, answered quickly meanwhile, ended by Ctrl-C with what is known."""

import json
import math
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tightrope as tr
from shell import Shell
from test_cli import MAIN
from tightrope.cli.commands import sweep
from tightrope.cli.process import long_work
from tightrope.cli.process.forecast import Forecast
from tightrope.curve.digits import ends
from tightrope.engines.game.layout import COVER_SECONDS
from tightrope.engines.game.substitution import GameQuestion, _play_above, _play_below
from tightrope.engines.watching import Rehearsal, Workload

STEP = tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=50, population=1000))
LONG = STEP * 10_000
TIGHT = tr.Certified(effort=tr.TIGHT)
BATCHES = "--sampling without-replacement --batch 50 --population 1000 --steps 10000"
TRAINING = "--noise 0.8 --sampling poisson --rate 0.001 --steps 10000 --relation add-or-remove"
# games are kept: no other file plays these
OTHER = "--noise 4.5 --sampling without-replacement --batch 1 --population 21 --relation substitute"
SMALL = f"{OTHER} --steps 5"
FEW = tr.Step(tr.Gaussian(noise_multiplier=4.5), tr.WithoutReplacement(batch=1, population=21)) * 5


def quick(delta: float = 1e-5) -> tr.Bracket:
    return tr.epsilon(LONG, delta=delta, relation=tr.SUBSTITUTE)


# Ctrl-C, in a process of its own


def interrupt(words: str, after: str) -> tuple[str, list[str]]:
    """Standard output, and lines on standard error, of a command that is interrupted once it says `after`."""
    command = [sys.executable, "-c", MAIN, *shlex.split(words)]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        said = []
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stderr:
                said.append(line.rstrip("\n"))
                if after in line:
                    process.send_signal(signal.SIGINT)
            out = process.stdout.read()
            assert process.wait() == 130, said
        finally:
            process.kill()
    assert said[-1] == "tightrope: interrupted."
    assert not any("Traceback" in line for line in said)
    return out, said


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_game_leaves_the_quick_bracket_and_says_so() -> None:
    out, said = interrupt(
        f"epsilon --noise 4 {BATCHES} --relation substitute --delta 1e-5 --effort tight", "meanwhile"
    )
    assert "10,000 rounds of the substitution game. --effort quick answers at once" in said[0]
    assert said[1] == "tightrope: meanwhile: epsilon is between 14.3839 and 17.2657 at delta 1e-05 (quick)."
    assert " ".join(out.split()).startswith(
        "Interrupted. Known so far: epsilon is at most 17.27 and at least 14.38 at delta 1e-05"
    )
    assert "the work on them was interrupted" in " ".join(out.split())


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_game_is_marked_in_json_and_its_bracket_is_certified() -> None:
    out, _ = interrupt(
        f"epsilon --noise 4 {BATCHES} --relation substitute --delta 1e-5 1e-6 --effort tight --json",
        "meanwhile",
    )
    answer = json.loads(out)
    assert answer["interrupted"] is True
    for row in answer["brackets"]:
        known = quick(row["delta"])
        assert row["epsilon"] == {"lower": known.lower, "upper": known.upper, "interrupted": True}
        assert "interrupted" in row["gap"]


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_game_leaves_a_safe_number_in_brief() -> None:
    out, _ = interrupt(
        f"epsilon --noise 4 {BATCHES} --relation substitute --delta 1e-5 --effort tight --brief", "meanwhile"
    )
    assert out == "17.2657\n"
    assert float(out) >= quick().upper


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_calibration_leaves_a_value_that_is_safe() -> None:
    out, said = interrupt(
        f"noise {BATCHES} --relation substitute --epsilon 4 --delta 1e-5 --effort tight --json", "meanwhile"
    )
    answer = json.loads(out)
    assert answer["interrupted"] is True
    assert f"--noise {answer['rounded']:.4f} is safe" in said[1]
    kept = tr.Step(tr.Gaussian(noise_multiplier=answer["rounded"]), STEP.sampling) * 10_000
    assert tr.epsilon(kept, delta=1e-5, relation=tr.SUBSTITUTE).upper <= 4
    assert answer["at_rounded"]["epsilon"]["upper"] <= 4


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_contrast_has_all_its_rows() -> None:
    out, said = interrupt(f"contrast --noise 4 {BATCHES} --delta 1e-5 --effort tight --json", "meanwhile")
    assert said[1].startswith(
        "tightrope: meanwhile: without-replacement, substitute: epsilon is between 14.3839"
    )
    answer = json.loads(out)
    assert answer["interrupted"] is True
    assert len(answer["rows"]) == 19
    marked = [row for row in answer["rows"] if row["brackets"][0]["epsilon"].get("interrupted")]
    assert [(row["sampling"], row["relation"]) for row in marked] == [("without-replacement", "substitute")]
    assert marked[0]["brackets"][0]["epsilon"]["upper"] == quick().upper


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_simulation_is_announced_by_its_first_draws_and_leaves_an_estimate() -> None:
    out, said = interrupt(
        "delta --noise 2 --sampling poisson --rate 0.1 --steps 10 --relation remove --epsilon 0.5 "
        "--accountant monte-carlo --draws 1e11 --json",
        "this will take about",
    )
    assert "100,000,000,000 draws. --draws 1" in said[0]
    assert json.loads(out)["interrupted"] is True
    answer = json.loads(out)["answers"][0]["delta"]
    assert answer["interrupted"] is True
    run = tr.Step(tr.Gaussian(noise_multiplier=2), tr.Poisson(rate=0.1)) * 10
    assert answer["lower"] <= tr.delta(run, epsilon=0.5, relation=tr.REMOVE).lower <= answer["upper"]


@pytest.mark.usefixtures("interruptible")
def test_exact_integers_that_are_interrupted_at_once_leave_the_certified_brackets(tmp_path: Path) -> None:
    target = tmp_path / "curve.png"
    words = f"curve {TRAINING} --epsilons 0.5 1 --accountant exact --width 1e-6 --json --plot {target}"
    out, said = interrupt(words, "meanwhile")
    assert "products of polynomials in exact integers. --accountant certified answers at once" in said[0]
    assert said[1].endswith("(certified).")
    answer = json.loads(out)
    assert answer["interrupted"] is True
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    for row in answer["brackets"]:
        certified = tr.delta(run, epsilon=row["epsilon"], relation=tr.ADD_OR_REMOVE)
        assert row["delta"]["lower"] <= certified.upper
        assert certified.lower <= row["delta"]["upper"] < 1
    assert not target.exists()
    assert f"tightrope: interrupted before {target} was drawn" in said


# Announcing


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that takes more than a second is long."""
    monkeypatch.setattr(long_work, "ANNOUNCED_FROM", 1.0)
    monkeypatch.setattr(sweep, "ANNOUNCED_FROM", 1.0)


@pytest.mark.usefixtures("soon")
def test_an_estimate_and_the_quick_bracket_come_first_where_standard_error_is_a_file(shell: Shell) -> None:
    code, out, err = shell(f"epsilon {SMALL} --delta 1e-5 --effort tight")
    assert code == 0
    first, second = err.splitlines()[:2]
    assert first == (
        "tightrope: this will take about 2 s: 5 rounds of the substitution game. "
        "--effort quick answers at once and Ctrl-C leaves what is known by then."
    )
    known = ends(tr.epsilon(FEW, delta=1e-5, relation=tr.SUBSTITUTE))
    assert second == f"tightrope: meanwhile: epsilon is between {' and '.join(known)} at delta 1e-05 (quick)."
    assert "Interrupted" not in out


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"risk {OTHER} --steps 4 --fpr 0.01 --effort tight", "An attacker who sees everything"),
        (
            f"compare {OTHER} --steps 3 --delta 1e-5 --effort tight",
            r"epsilon is between 0\.\d+ and 0\.\d+ at delta 1e-05 \(quick\)\.",
        ),
        (
            f"steps {OTHER} --epsilon 0.35 --delta 1e-5 --effort tight",
            r"--steps \d+ is safe, and \d+ misses the target \(quick\)\.",
        ),
    ],
)
def test_every_command_tells_what_it_knows_meanwhile(shell: Shell, words: str, said: str) -> None:
    code, _, err = shell(words)
    assert code == 0
    announced, meanwhile, *_ = err.splitlines()
    assert announced.startswith("tightrope: this will take about")
    assert re.match(f"tightrope: meanwhile: {said}", meanwhile)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("how", ["", "--accountant renyi", "--accountant exact --width 0.1"])
def test_quick_work_is_not_announced(shell: Shell, how: str) -> None:
    assert shell(f"epsilon {TRAINING} --delta 1e-6 {how}")[::2] == (0, "")


@pytest.mark.usefixtures("soon")
def test_a_sweep_with_games_is_announced(shell: Shell, tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'ask = "epsilon"\nrelation = "substitute"\nmechanism = "gaussian"\nnoise_multiplier = [4, 5]\n'
        'sampling = "without-replacement"\nbatch = 1\npopulation = 22\nsteps = 2\ndelta = 1e-5\n'
        'effort = "tight"\n'
    )
    code, _, err = shell(f"sweep {grid} --out {tmp_path / 'rows.csv'} --workers 1")
    assert code == 0
    assert (
        "this will take about 4 s: 2 cells, each with work such as 2 rounds of the substitution game" in err
    )
    quickly = grid.read_text().replace("tight", "quick")
    grid.write_text(quickly)
    assert "take about" not in shell(f"sweep {grid} --out {tmp_path / 'quick.csv'} --workers 1")[2]


def work_of(seconds: float | None, **more: Any) -> Workload:
    return Workload(piece=more.pop("piece", 1), what="digging", seconds=seconds, **more)


def answer_after(works: list[Workload], counts: int = 8) -> tuple[long_work.LongWork, Callable[[], int]]:
    """A watcher, and an answer that takes these works."""
    watcher = long_work.LongWork()

    def answer() -> int:
        for work in works:
            watcher.begin(work)
            for done in range(1, counts + 1):
                watcher(done, counts)
        return 7

    return watcher, answer


def test_an_estimate_that_was_wrong_is_corrected(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_work, "measure_slowness", lambda: 2.0)
    monkeypatch.setattr(long_work, "PATIENCE", 0.0)
    watcher, answer = answer_after([work_of(1000.0, instead="{effort=QUICK} is enough")])
    assert watcher.finish(answer) == 7
    said = capsys.readouterr().err.splitlines()
    assert "this will take about 33 min: digging. --effort quick is enough and Ctrl-C" in said[0]
    assert said[1] == "tightrope: this will rather take about 1 s in all."


def test_from_time_to_time_a_file_hears_how_far_the_work_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("PATIENCE", 0.0), ("REPORTED_EVERY", 0.0), ("OFF_BY", math.inf)):
        monkeypatch.setattr(long_work, name, value)
    watcher, answer = answer_after([work_of(1000.0)])
    watcher.finish(answer)
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "tightrope: 100% done, about 1 s left."


def test_what_takes_a_year_or_more_memory_than_there_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_work, "measure_slowness", lambda: 1.0)
    watcher, answer = answer_after([work_of(1e9, instead="{draws=10} is enough")])
    with pytest.raises(tr.NotPreciseEnough, match=r"about 32 years: digging\. --draws 10 is enough\.$"):
        watcher.finish(answer)
    watcher, answer = answer_after([work_of(1.0, memory=1e18, instead="A spade is enough")])
    with pytest.raises(tr.NotPreciseEnough, match=r"about 1e\+09 GB of memory, more than is free\. A spade"):
        watcher.finish(answer)


def test_endless_draws_are_refused_after_the_first_of_them(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_work, "TOO_LONG", 10.0)
    monkeypatch.setattr(long_work, "PATIENCE", 1.0)
    words = f"epsilon {TRAINING} --delta 1e-6 --accountant monte-carlo --draws 1e12"
    code, out, err = shell(words)
    assert (code, out) == (4, "")
    assert "this would take about" in err
    assert ": 1,000,000,000,000 draws. --draws 1" in err


def test_half_as_many_draws_take_half_as_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_work, "measure_slowness", lambda: 1.0)
    watcher, answer = answer_after([work_of(6000.0, scales_with=("draws", 123_456))])
    watcher.finish(answer)
    assert "--draws 1000 takes about 49 s" in capsys.readouterr().err


def test_what_is_asked_after_an_answer_that_took_no_work_is_worked_for() -> None:
    """A picture has more points than the table."""
    watcher, draw = answer_after([work_of(1.0)])
    assert watcher.finish(lambda: "at once") == "at once"
    watcher.draw(Path("curve.png"), draw)
    assert not watcher.interrupted


def test_a_picture_is_left_out_after_an_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    work, drawn = long_work.LongWork(), []

    def interrupt_at_once() -> None:
        raise KeyboardInterrupt

    work.draw(Path("first.png"), interrupt_at_once)
    work.draw(Path("second.png"), lambda: drawn.append(1))
    assert not drawn
    assert work.mark == {"interrupted": True}
    assert capsys.readouterr().err.splitlines() == [
        "tightrope: interrupted before first.png was drawn",
        "tightrope: interrupted before second.png was drawn",
    ]


@pytest.mark.parametrize(
    "words",
    [
        f"curve {TRAINING} --epsilons 0.5 1",
        f"compare {TRAINING} --delta 1e-5 --draws 3000",
        "curve --runs RUNS --epsilons 0.5 1",
    ],
)
def test_an_interrupt_while_a_picture_is_drawn_loses_no_number(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    runs, target = tmp_path / "runs.toml", tmp_path / "curve.png"
    runs.write_text(
        'relation = "remove"\n[[run]]\nname = "ours"\nmechanism = "gaussian"\nnoise_multiplier = 1\n'
        'sampling = "poisson"\nrate = 0.1\nsteps = 10\n'
    )
    asked = words.replace("RUNS", str(runs))
    _, whole, _ = shell(asked)

    def interrupt_at_once(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for name in ("draw_curve", "draw_curves", "draw_accountants"):
        monkeypatch.setattr(f"tightrope.report.plot.{name}", interrupt_at_once)
    code, out, err = shell(f"{asked} --plot {target}")
    assert (code, out) == (130, whole)
    assert err.endswith(f"tightrope: interrupted before {target} was drawn\ntightrope: interrupted.\n")


# Interrupts in this process, between the two ends


def stop_below(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(question: GameQuestion) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(GameQuestion, "below", stop)


def test_an_end_that_was_finished_before_the_interrupt_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    run = FEW * 2
    stop_below(monkeypatch)
    asked: Any = {"delta": 3e-5, "relation": tr.SUBSTITUTE}
    work = long_work.LongWork()
    found = work.finish(lambda: tr.epsilon(run, by=TIGHT, progress=work, **asked))
    known = tr.epsilon(run, **asked)
    assert work.interrupted
    assert found.interrupted
    assert known.lower == found.lower <= found.upper < known.upper


def test_a_second_interrupt_leaves_the_rehearsed_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_below(monkeypatch)
    work, asked = long_work.LongWork(), 0

    def answer() -> tr.Bracket:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise KeyboardInterrupt
        return tr.epsilon(FEW * 3, delta=3e-5, relation=tr.SUBSTITUTE, by=TIGHT, progress=work)

    assert work.finish(answer) == tr.epsilon(FEW * 3, delta=3e-5, relation=tr.SUBSTITUTE)
    with pytest.raises(KeyboardInterrupt):
        work.end()


def test_an_interrupt_before_anything_is_known_is_an_interrupt() -> None:
    work = long_work.LongWork()

    def answer() -> None:
        work.begin(work_of(0.0))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.finish(answer)


# The library


def give_up(done: int, of: int) -> None:
    raise tr.StopWork


def test_an_interrupt_in_python_stays_an_interrupt() -> None:
    def interrupt_at_once(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tr.epsilon(FEW * 7, delta=1e-5, relation=tr.SUBSTITUTE, by=TIGHT, progress=interrupt_at_once)


def test_who_stops_the_work_gets_what_is_known() -> None:
    asked: Any = {"relation": tr.SUBSTITUTE, "progress": give_up}
    found = tr.epsilon(FEW * 7, delta=1e-5, by=TIGHT, **asked)
    assert (found.interrupted, found) == (True, tr.epsilon(FEW * 7, delta=1e-5, relation=tr.SUBSTITUTE))
    curve = tr.privacy_curve(FEW * 7, by=TIGHT, **asked)
    assert [bracket.interrupted for bracket in curve.delta([0.1, 0.2])] == [True, True]
    assert curve.delta(-0.1).interrupted
    exact = tr.privacy_curve(FEW * 7, relation=tr.REMOVE, by=tr.Exact(), progress=give_up).epsilon(1e-5)
    assert (exact.lower, exact.upper, exact.interrupted) == (0.0, math.inf, True)
    with pytest.raises(tr.StopWork, match="before anything was known"):
        tr.epsilon(FEW, delta=1e-5, by=tr.MonteCarlo(draws=1000), **asked)


@pytest.mark.parametrize("games", [0, 1, 2, 3, 4, 5])
def test_a_calibration_that_is_stopped_has_a_safe_value(games: int) -> None:
    """Whichever game is the last that is played, and at which it was stopped."""
    begun = Rehearsal()

    class Impatient(Rehearsal):
        def begin(self, work: Workload) -> None:
            if len(begun.noted) >= games:
                raise tr.StopWork
            begun.noted[work.piece] = work

        def __call__(self, done: int, of: int) -> None:
            pass

    for play in (_play_above, _play_below):
        play.cache_clear()  # so that nothing was played before; the covers, which take longest, are kept
    target: Any = {"epsilon": 0.6, "delta": 1e-5, "relation": tr.SUBSTITUTE}
    sampling = tr.WithoutReplacement(batch=1, population=30)
    found = tr.smallest_noise(sampling, steps=5, by=TIGHT, progress=Impatient(), **target)
    quickly = tr.smallest_noise(sampling, steps=5, **target)
    assert found.interrupted or games  # few are enough where the first trial happens to decide
    assert found.epsilon.upper <= 0.6
    assert found.beyond is not None
    assert found.beyond < found.value <= quickly.value
    assert games or (found.value, found.beyond) == (quickly.value, quickly.beyond)


def test_a_ledger_does_not_keep_an_answer_that_was_interrupted() -> None:
    ledger = tr.Ledger(relation=tr.SUBSTITUTE, by=TIGHT)
    ledger.record(FEW * 11)
    assert ledger.epsilon(1e-4, give_up).interrupted
    assert not ledger.epsilon(1e-4).interrupted


def test_a_rehearsal_tells_each_piece_of_work_once_and_makes_no_cover(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a cover takes seconds")

    monkeypatch.setattr("tightrope.engines.game.pooling.both_orders", refuse)
    rehearsal = Rehearsal()
    curve = tr.privacy_curve(LONG, relation=tr.SUBSTITUTE, by=TIGHT, progress=rehearsal)
    curve.epsilon([1e-5, 1.1e-5, 1e-5])  # on one rung
    above, below = rehearsal.noted.values()
    assert above.seconds is not None
    assert below.seconds is not None
    assert above.seconds - COVER_SECONDS > below.seconds > 1
    assert 0 < above.memory < 1e9


# How much time is left


def test_time_left_follows_the_latest_speed_and_counts_rounds_by_what_was_foreseen() -> None:
    now = [0.0]
    forecast = Forecast([100.0], clock=lambda: now[0])
    forecast.begin(100.0)
    for now[0], done in ((10.0, 1), (20.0, 2), (21.0, 4), (23.0, 8), (27.0, 16)):
        forecast.count(done, 32)
    assert forecast.left == 8.0  # half a second each, whatever the first two took
    forecast = Forecast([100.0], clock=lambda: now[0])
    forecast.begin(100.0, rounds=True)
    now[0] += 30
    for done in (1, 2, 4, 1, 2, 4):
        forecast.count(done, 4)
    assert (forecast.left, forecast.is_measured) == (70.0, False)
