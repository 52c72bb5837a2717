"""Many kinds of steps in one run, many entries in a file, many points of a curve: how long they take.

Gaussian noise, Poisson sampling, ADD_OR_REMOVE, delta 1e-6. CPU seconds on one thread, without imports, each
measurement in a process of its own after a warm-up on another question. Nothing here is a test.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

import tightrope as tr
from measuring import aligned, in_own_process, milliseconds, on_one_thread, progress, versions

DELTA = 1e-6
POINTS = 1000
ENTRIES = 100_000
STEP = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3))
CURVES = {"noise 0.8, rate 0.001, 10,000 steps": STEP * 10_000, "the same, 1,000 steps": STEP * 1000}
T = TypeVar("T")


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


# Schedules: the i-th of `kinds` steps.


def falling_noise(i: int, kinds: int) -> tr.Step:
    """Noise that falls from 2 to 1."""
    return tr.Step(tr.Gaussian(noise_multiplier=2 * 0.5 ** (i / kinds)), tr.Poisson(rate=0.01))


def growing_batches(i: int, kinds: int) -> tr.Step:
    """Batches that double while the noise grows by half."""
    share = i / kinds
    return tr.Step(tr.Gaussian(noise_multiplier=1 + share / 2), tr.Poisson(rate=0.01 * (1 + share)))


def no_order(i: int, kinds: int) -> tr.Step:
    """Noise from 0.8 to 3 and rates from 1e-4 to 1e-2 at random."""
    random = np.random.default_rng(i)
    noise, rate = float(random.uniform(0.8, 3)), float(10 ** random.uniform(-4, -2))
    return tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate))


SCHEDULES = (falling_noise, growing_batches, no_order)


# What is timed. Each function runs in its own process.


def ask_kinds(name: str, kinds: int) -> tuple[float, tr.Bracket]:
    """Epsilon of a ledger of so many different steps."""
    make = next(one for one in SCHEDULES if one.__name__ == name)
    ledger = tr.Ledger(relation=tr.ADD_OR_REMOVE, schedule="fixed in advance")
    tr.epsilon(STEP * 77, delta=DELTA, relation=tr.ADD_OR_REMOVE)
    for i in range(kinds):
        ledger.record(make(i, kinds))
    return _timed(lambda: ledger.epsilon(DELTA))


def keep_entries() -> tuple[float, float]:
    """Saving a ledger of many different steps, and loading it."""
    ledger = tr.Ledger(relation=tr.ADD_OR_REMOVE)
    for i in range(ENTRIES):
        ledger.record(falling_noise(i, ENTRIES))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.json"
        saving, _ = _timed(lambda: ledger.save(path))
        loading, loaded = _timed(lambda: tr.Ledger.load(path))
        if loaded != ledger:
            raise SystemExit("what was loaded is not what was saved")
    return saving, loading


def ask_points(name: str) -> list[float]:
    """Seconds for one delta, for many, for one epsilon and for many, each on a curve of its own."""
    run = CURVES[name]
    tr.epsilon(STEP * 77, delta=DELTA, relation=tr.ADD_OR_REMOVE)
    tr.privacy_curve(STEP * 77, relation=tr.ADD_OR_REMOVE).delta([0.1, 0.2])
    deltas = np.geomspace(1e-2, 1e-9, POINTS)
    first, last = (tr.epsilon(run, delta=float(d), relation=tr.ADD_OR_REMOVE).upper for d in deltas[[0, -1]])
    epsilons = np.linspace(first, last, POINTS)

    def curve() -> tr.PrivacyCurve:
        return tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE)

    questions = (
        lambda: curve().delta(float(epsilons[POINTS // 2])),
        lambda: curve().delta(epsilons),
        lambda: curve().epsilon(DELTA),
        lambda: curve().epsilon(deltas),
    )
    return [_timed(question)[0] for question in questions]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", type=int, nargs="+", default=[1000, 20_000], metavar="N")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one measurement")
    options = parser.parse_args(arguments)
    on_one_thread()
    rows = [["kinds", "schedule", "seconds", "epsilon", "relative width"]]
    for kinds in options.kinds:
        for schedule in SCHEDULES if kinds <= 1000 else SCHEDULES[:1]:
            progress(len(rows), 9, f"{kinds} kinds")
            found = in_own_process(ask_kinds, schedule.__name__, kinds, seconds=options.timeout)
            words = schedule.__name__.replace("_", " ")
            if isinstance(found, str):
                rows.append([f"{kinds:,}", words, found, "-", "-"])
            else:
                seconds, bracket = found
                width = f"{bracket.relative_width:.0e}"
                rows.append([f"{kinds:,}", words, f"{seconds:.2f}", f"{bracket.upper:.5f}", width])
    kept = in_own_process(keep_entries, seconds=options.timeout)
    points = [["curve", "one delta", f"{POINTS:,}", "one epsilon", f"{POINTS:,}"]]
    for name in CURVES:
        asked = in_own_process(ask_points, name, seconds=options.timeout)
        points.append([name, *(["-"] * 4 if isinstance(asked, str) else map(milliseconds, asked))])
    progress(9, 9, "")
    said = ", ".join(f"{name} {version}" for name, version in versions("tightrope", "numpy", "scipy").items())
    print(f"{said}; CPU time on one thread\n")
    print(aligned(rows) + "\n\n" + aligned(points) + "\n")
    if isinstance(kept, str):
        print(f"{ENTRIES:,} entries: {kept}")
    else:
        print(f"{ENTRIES:,} entries: saved in {kept[0]:.2f} s, loaded in {kept[1]:.2f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
