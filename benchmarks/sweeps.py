"""A grid in one process and in two: what it costs, and how much faster two free cores would be.

Three grids of Gaussian noise, Poisson sampling and ADD_OR_REMOVE: epsilon at ten deltas of each run, epsilon
of as many runs, and the noise that each of as many runs needs. Cores are shared with other work, so CPU
seconds are compared: with two workers, those of all processes together. What cells have in common is computed
in both, and handing over takes time; two free cores are as much faster as the quotient says. Start-up of the
workers counts, and is measured by itself. Nothing here is a test.
"""

import argparse
import resource
import sys
import time
from collections.abc import Sequence

import tightrope as tr
from measuring import in_own_process, on_one_thread, versions
from tightrope.helpers import end_helpers
from tightrope.parallel import in_parallel
from tightrope.sweeps.answer import answer_several

TEN_DELTAS = [10.0**-i for i in range(3, 13)]
TEN_NOISES = [0.6 + 0.2 * i for i in range(10)]
TEN_RATES = [0.001 * 1.6**i for i in range(10)]
SHARED = {"relation": "add-or-remove", "mechanism": "gaussian", "sampling": "poisson"}
GRIDS = ("deltas", "runs", "noises")


def make_grid(kind: str, cells: int) -> dict[str, object]:
    """About so many cells, of as many lengths of a run as that takes."""
    lengths = [100 + 37 * i for i in range(max(cells // (50 if kind == "deltas" else 100), 1))]
    if kind == "deltas":
        noises = [0.7, 0.8, 1.0, 1.5, 2.0]
        run = {"ask": "epsilon", "noise_multiplier": noises, "rate": 0.01, "delta": TEN_DELTAS}
    elif kind == "runs":
        run = {"ask": "epsilon", "noise_multiplier": TEN_NOISES, "rate": TEN_RATES, "delta": 1e-6}
    else:
        run = {"ask": "noise", "epsilon": [float(i) for i in range(1, 11)], "rate": TEN_RATES, "delta": 1e-6}
    return {**SHARED, **run, "steps": lengths}


def answer_all(kind: str, cells: int, workers: int) -> tuple[int, float, float]:
    """How many rows there are, the CPU seconds of this process and of its workers, and those of the clock."""
    begun, started = _spend(), time.perf_counter()
    rows = tr.sweep(make_grid(kind, cells), workers=workers)
    waited = time.perf_counter() - started
    if workers > 1:
        _end_workers()
    return sum(row["error"] is None for row in rows), _spend() - begun, waited


def start_workers() -> float:
    """What it takes to start two workers that have loaded all they need, and to end them."""
    begun = _spend()
    list(in_parallel(answer_several, [[]] * 4, workers=2))
    _end_workers()
    return _spend() - begun


def _end_workers() -> None:
    from joblib.externals.loky import get_reusable_executor

    end_helpers()  # a process counts once it has ended
    get_reusable_executor().shutdown(wait=True)


def _spend() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=10_000, metavar="N")
    parser.add_argument("--grids", nargs="+", choices=GRIDS, default=GRIDS)
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for one measurement")
    options = parser.parse_args(arguments)
    on_one_thread()
    print(", ".join(f"{name} {version}" for name, version in versions("tightrope", "joblib").items()))
    start_workers()  # once, so that what joblib loads in this process does not count below
    print(f"two workers start and end: {start_workers():.2f} s of CPU")
    for kind in options.grids:
        alone = in_own_process(answer_all, kind, options.cells, 1, seconds=options.timeout)
        if isinstance(alone, str):
            raise SystemExit(f"{kind}, one worker: {alone}")
        # here, because joblib starts no workers from a process that another has started
        rows, shared, waited = answer_all(kind, options.cells, 2)
        assert rows == alone[0]
        print(f"{kind}: {rows:,} answers, {alone[1]:.2f} s of CPU with one worker, {shared:.2f} s with two:")
        print(f"  two free cores would be {2 * alone[1] / shared:.2f} times as fast as one")
        print(
            f"  by the clock {alone[2]:.2f} s and {waited:.2f} s, {alone[2] / waited:.2f} times", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
