"""Tightrope and dp_accounting's mixture of Gaussians side by side on groups of records, all within one run.

Gaussian noise, Poisson sampling, groups of m records that are added or removed. Tightrope gives both ends of
delta at a given epsilon, dp_accounting an upper end. Each measurement has a process of its own on one thread
and counts CPU seconds, after a warm-up on another question and without imports. Times depend on the machine:
only ratios within one run are worth quoting, and nothing here is a test.
"""

import argparse
import math
import statistics
import time
from dataclasses import dataclass

import tightrope as tr
from measuring import aligned, forget, in_own_process, milliseconds, on_one_thread, progress, versions

REPEATS = 5
FASTER, LONGEST, WIDTH = 20, 0.1, 1e-3  # the aims: a ratio, seconds, and relative to delta


@dataclass(frozen=True)
class Case:
    """A run, a group, and an epsilon to ask at."""

    noise: float
    rate: float
    steps: int
    group: int
    epsilon: float

    def __str__(self) -> str:
        run = f"noise {self.noise:g}, rate {self.rate:g}, {self.steps:,} steps"
        return f"{run}, groups of {self.group}, epsilon {self.epsilon:g}"


CASES = (
    Case(1.0, 1e-3, 10_000, 5, 3.0),
    Case(1.0, 1e-2, 100, 5, 3.0),
    Case(2.0, 1e-2, 1000, 3, 2.0),
    Case(0.8, 1e-3, 10_000, 2, 2.0),
)
WARM_UP = Case(1.5, 0.02, 50, 2, 1.0)


def ask_tightrope(case: Case) -> tuple[float, float, float]:
    """Both ends of delta, and the median of the CPU seconds from nothing."""

    def ask(asked: Case) -> tuple[float, float, float]:
        forget()
        began = time.process_time()
        run = tr.Step(tr.Gaussian(noise_multiplier=asked.noise), tr.Poisson(rate=asked.rate)) * asked.steps
        found = tr.delta(run, epsilon=asked.epsilon, relation=tr.ADD_OR_REMOVE.of(asked.group))
        return found.lower, found.upper, time.process_time() - began

    ask(WARM_UP)
    found = [ask(case) for _ in range(REPEATS)]
    return *found[0][:2], statistics.median(seconds for *_, seconds in found)


def ask_dp_accounting(case: Case, interval: float) -> tuple[float, float]:
    """The upper end of delta by the larger direction, and the CPU seconds."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    def ask(asked: Case, step: float) -> tuple[float, float]:
        began = time.process_time()
        counts = range(asked.group + 1)
        weights = [
            math.comb(asked.group, j) * asked.rate**j * (1 - asked.rate) ** (asked.group - j) for j in counts
        ]
        made = pld.from_mixture_gaussian_mechanism(
            asked.noise, list(counts), weights, value_discretization_interval=step
        )
        delta = made.self_compose(asked.steps).get_delta_for_epsilon(asked.epsilon)
        return delta, time.process_time() - began

    ask(WARM_UP, 0.1)
    return ask(case, interval)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first case only")
    parser.add_argument("--interval", type=float, default=1e-3, help="dp_accounting's discretisation")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one answer")
    args = parser.parse_args()
    on_one_thread()
    made = ", ".join(f"{name} {number}" for name, number in versions("tightrope", "dp-accounting").items())
    print(f"{made}; CPU time on one thread")
    print(f"dp_accounting: pessimistic, discretisation {args.interval:g}, the larger of both directions\n")
    rows = [["", "delta", "width", "Tightrope", "dp_accounting", "its delta", "ratio"]]
    cases = CASES[:1] if args.quick else CASES
    for done, case in enumerate(cases):
        progress(done, len(cases), str(case))
        ours = in_own_process(ask_tightrope, case, seconds=args.timeout)
        theirs = in_own_process(ask_dp_accounting, case, args.interval, seconds=args.timeout)
        if isinstance(ours, str):
            rows.append([str(case), ours, *[""] * 5])
            continue
        lower, upper, seconds = ours
        row = [str(case), f"{upper:.4e}", f"{(upper - lower) / upper:.1e}", milliseconds(seconds)]
        if isinstance(theirs, str):
            row += [theirs, "", ""]
        else:
            row += [milliseconds(theirs[1]), f"{theirs[0]:.4e}", f"{theirs[1] / seconds:,.0f}"]
        rows.append(row)
    progress(0, 0, "")
    print(aligned(rows))
    print(f"\nAims: {FASTER} times as fast, below {LONGEST * 1e3:.0f} ms, width at most {WIDTH:g} of delta.")


if __name__ == "__main__":
    main()
