"""What it costs a training loop to ask for epsilon after every step, with Tightrope and its peers.

Gaussian noise, Poisson sampling, ADD_OR_REMOVE, delta 1e-6. Tightrope runs all rounds. The peers would take
an hour, so they run the first few, and fresh accountants of theirs are asked at some lengths. CPU seconds on
one thread, without imports, each measurement in a process of its own after a warm-up on another question.
Only ratios within one run are worth quoting, and nothing here is a test.
"""

import argparse
import importlib.util
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

import tightrope as tr
from measuring import aligned, forget, in_own_process, milliseconds, on_one_thread, progress, versions

DELTA = 1e-6
ROUNDS = 10_000
SHOWN = (10, 100, 1000, 10_000)  # the rounds whose time is shown
CHECKED = sorted({round(float(k)) for k in np.geomspace(1, ROUNDS, 24)})  # the rounds whose answer is checked
REPEATS = 3
OPACUS = {"Opacus PRV": "prv", "Opacus RDP": "rdp"}  # what Opacus calls them
T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """The step that is taken again and again."""

    noise: float
    rate: float

    def __str__(self) -> str:
        return f"noise {self.noise:g}, rate {self.rate:g}"


SETTINGS = (Setting(0.8, 1e-3), Setting(1.0, 1e-2))


@dataclass(frozen=True)
class Loop:
    """Seconds of ROUNDS rounds, all run or inferred, of the rounds SHOWN and of the slowest one seen."""

    in_all: float
    shown: list[float]
    slowest: float


@dataclass(frozen=True)
class Checked:
    """In how many of the rounds looked at the ledger's bracket is the one-shot bracket, bit for bit."""

    same: int
    rounds: int


# What is timed. Each function runs in its own process.


def run_ledger(setting: Setting) -> tuple[Loop, Checked]:
    """Every round: record one step, ask for epsilon. Then compare the answers with those of one-shot runs."""
    other = tr.Step(tr.Gaussian(noise_multiplier=2 * setting.noise), tr.Poisson(rate=setting.rate))
    for steps in (1, 2, 100):  # which load what few and many steps need
        tr.epsilon(other * steps, delta=DELTA, relation=tr.ADD_OR_REMOVE)
    ledger, sampling = tr.Ledger(relation=tr.ADD_OR_REMOVE), tr.Poisson(rate=setting.rate)
    seconds, answers = [], []
    for _ in range(ROUNDS):
        start = time.process_time()
        ledger.step(noise_multiplier=setting.noise, sampling=sampling)
        answers.append(ledger.epsilon(DELTA))
        seconds.append(time.process_time() - start)
    same = 0
    for k in CHECKED:
        forget()  # what the loop left behind must not matter
        run = tr.Step(tr.Gaussian(noise_multiplier=setting.noise), sampling) * k
        same += answers[k - 1] == tr.epsilon(run, delta=DELTA, relation=tr.ADD_OR_REMOVE)
    # the mean of the rounds around k: most are answered ahead, by one that takes longer
    shown = [statistics.mean(seconds[k - 1 - min(k // 2, 64) : k + min(k // 2, 64)]) for k in SHOWN]
    return Loop(sum(seconds), shown, max(seconds)), Checked(same, len(CHECKED))


def run_peer(name: str, setting: Setting, rounds: int) -> Loop:
    """The first rounds with one accountant, whose mean stands for all; then fresh ones after k steps each."""
    import dp_accounting as peer
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    logging.getLogger("absl").setLevel(logging.ERROR)  # one warning per order that does not converge
    make = {"PLD": PLDAccountant, "RDP": RdpAccountant}[name]
    step = peer.PoissonSampledDpEvent(setting.rate, peer.GaussianDpEvent(setting.noise))

    def seconds_of(accountant: PLDAccountant | RdpAccountant, steps: int) -> float:
        start = time.process_time()
        accountant.compose(step, steps)
        accountant.get_epsilon(DELTA)
        return time.process_time() - start

    return _time_rounds(make, seconds_of, rounds)


def run_opacus(name: str, setting: Setting, rounds: int) -> Loop:
    """The same with an accountant of Opacus, which is stepped as its optimiser steps it."""
    warnings.simplefilter("ignore")  # that the best order is the largest or smallest one
    from opacus.accountants import IAccountant, create_accountant

    def seconds_of(accountant: IAccountant, steps: int) -> float:
        start = time.process_time()
        if steps == 1:
            accountant.step(noise_multiplier=setting.noise, sample_rate=setting.rate)
        else:
            accountant.history = [(setting.noise, setting.rate, steps)]
        accountant.get_epsilon(delta=DELTA)
        return time.process_time() - start

    return _time_rounds(partial(create_accountant, name), seconds_of, rounds)


def _time_rounds(make: Callable[[], T], seconds_of: Callable[[T, int], float], rounds: int) -> Loop:
    seconds_of(make(), 7)  # warm up
    kept = make()
    seconds = [seconds_of(kept, 1) for _ in range(rounds)]
    shown = [statistics.median(seconds_of(make(), k) for _ in range(REPEATS)) for k in SHOWN]
    return Loop(ROUNDS * statistics.mean(seconds), shown, max(seconds))


# Running and showing it.


def measure(
    rounds: int, seconds: float, peers: Sequence[str]
) -> tuple[dict[Setting, dict[str, Loop]], dict[Setting, Checked]]:
    """Every setting, by Tightrope and then by the peers."""
    loops: dict[Setting, dict[str, Loop]] = {}
    checks: dict[Setting, Checked] = {}
    for done, setting in enumerate(SETTINGS):
        progress(done, len(SETTINGS), f"{setting}: Tightrope")
        ours = in_own_process(run_ledger, setting, seconds=seconds)
        if isinstance(ours, str):
            raise SystemExit(f"Tightrope gave no answer at {setting}: {ours}")
        loops[setting], checks[setting] = {"Tightrope": ours[0]}, ours[1]
        for name in peers:
            progress(done, len(SETTINGS), f"{setting}: {name}")
            run = OPACUS.get(name)
            work = partial(run_opacus, run) if run else partial(run_peer, name)
            loop = in_own_process(work, setting, rounds, seconds=seconds)
            if isinstance(loop, str):
                print(f"{name} gave no answer at {setting}: {loop}")
            else:
                loops[setting][name] = loop
    progress(len(SETTINGS), len(SETTINGS), "")
    return loops, checks


def table(loops: dict[Setting, dict[str, Loop]]) -> list[list[str]]:
    rows = [
        ["noise", "rate", "", f"{ROUNDS:,} rounds", "/ Tightrope", *(f"k = {k:,}" for k in SHOWN), "slowest"]
    ]
    for setting, by_name in loops.items():
        ours = by_name["Tightrope"].in_all
        for name, loop in by_name.items():
            times = [milliseconds(seconds) for seconds in (*loop.shown, loop.slowest)]
            in_all = f"{'' if loop is by_name['Tightrope'] else 'about '}{loop.in_all:,.1f} s"
            rows.append(
                [f"{setting.noise:g}", f"{setting.rate:g}", name, in_all, f"{loop.in_all / ours:.1f}", *times]
            )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then print."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], epilog="example: make bench"
    )
    parser.add_argument(
        "--peer-rounds", type=int, default=50, metavar="N", help="rounds the peers really run (default 50)"
    )
    parser.add_argument(
        "--timeout", type=float, default=300.0, help="seconds after which one loop is given up (default 300)"
    )
    parser.add_argument("--alone", action="store_true", help="measure Tightrope only")
    options = parser.parse_args(arguments)
    if options.peer_rounds < 1 or not options.timeout > 0:
        parser.error("--peer-rounds and --timeout must be positive")
    if not options.alone and importlib.util.find_spec("dp_accounting") is None:
        parser.error("dp_accounting is not installed; run make bench, or pip install -e '.[bench]'")
    on_one_thread()
    with_opacus = importlib.util.find_spec("opacus") is not None
    peers = [] if options.alone else ["PLD", "RDP", *list(OPACUS) * with_opacus]
    loops, checks = measure(options.peer_rounds, options.timeout, peers)
    said = ", ".join(
        f"{name} {version}"
        for name, version in versions(
            "tightrope", "dp-accounting", *["opacus"] * with_opacus, "numpy", "scipy"
        ).items()
    )
    print(f"{said}; CPU time on one thread")
    print(f"{ROUNDS:,} rounds of one step and its epsilon at delta {DELTA:g}; then one round after k steps")
    print("\n" + aligned(table(loops)) + "\n")
    if peers:
        print(f"'about' is inferred: {ROUNDS:,} times the mean of the first {options.peer_rounds} rounds.")
        print("Tightrope ran every round.")
        if not with_opacus:
            print("Opacus is not installed, so its accountants are left out.")
    for setting, found in checks.items():
        same = f"after {found.same} of {found.rounds} step counts"
        print(f"{setting}: the ledger's bracket is the one-shot run's bit for bit {same}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
