"""A grid in one process and in two: what it costs, and how much faster two free cores would be.

Gaussian noise, Poisson sampling, ADD_OR_REMOVE, epsilon at several deltas of each run. Cores are shared with
other work, so CPU seconds are compared: with two workers, those of the workers and of the process that hands
out cells together. What cells have in common is computed in both, and handing over takes time; two free cores
are as much faster as the quotient says. Start-up of the workers counts. Nothing here is a test.
"""

import argparse
import resource
import sys
from collections.abc import Sequence

import tightrope as tr
from measuring import in_own_process, on_one_thread, versions


def make_grid(cells: int) -> dict[str, object]:
    """Five noises, ten deltas, and as many numbers of steps as it takes."""
    lengths = [100 + 37 * i for i in range(max(cells // 50, 1))]
    return {
        "ask": "epsilon",
        "relation": "add-or-remove",
        "mechanism": "gaussian",
        "noise_multiplier": [0.7, 0.8, 1.0, 1.5, 2.0],
        "sampling": "poisson",
        "rate": 0.01,
        "steps": lengths,
        "delta": [10.0**-i for i in range(3, 13)],
    }


def answer_all(cells: int, workers: int) -> tuple[int, float]:
    """How many rows there are, and the CPU seconds of this process and of its workers."""
    begun = _spend()
    rows = tr.sweep(make_grid(cells), workers=workers)
    if workers > 1:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)  # a process counts once it has ended
    return sum(row["error"] is None for row in rows), _spend() - begun


def _spend() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=10_000, metavar="N")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one measurement")
    options = parser.parse_args(arguments)
    on_one_thread()
    print(", ".join(f"{name} {version}" for name, version in versions("tightrope", "joblib").items()))
    alone = in_own_process(answer_all, options.cells, 1, seconds=options.timeout)
    if isinstance(alone, str):
        raise SystemExit(f"one worker: {alone}")
    # here, because joblib starts no workers from a process that another has started
    found = [alone, answer_all(options.cells, 2)]
    for workers, (rows, seconds) in zip(("one worker", "two workers"), found, strict=True):
        print(f"{workers}: {rows:,} answers, {seconds:.2f} s of CPU")
    print(f"two free cores would be {2 * found[0][1] / found[1][1]:.2f} times as fast as one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
