"""Simulating the privacy loss: Tightrope against numpy on the paper's Fig. 1, and deltas beyond plain draws.

Fig. 1: Laplace noise of scale 1, Poisson sampling of rate 1/2, ADD and REMOVE, 40 epsilons at once, as many
draws as Hoeffding's inequality asks for an error of 0.001 with confidence 0.99. Then delta = 1e-12 by tilted
draws. CPU seconds on one thread, without imports, each measurement in its own process. Only ratios within
one run are worth quoting, and nothing here is a test.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import tightrope as tr
from measuring import aligned, in_own_process, on_one_thread, progress, versions
from tightrope.engines.draws.tilts import PLAIN
from tightrope.numerics.confidence import HOEFFDING, draws_needed

STEPS = (2, 5, 10, 20)
POINTS, ALPHA, BETA, RATE = 40, 0.001, 0.01, 0.5
ROWS = 100_000  # of the naive version at once, so that its arrays of draws x epsilons fit into memory
RELATIONS = {"add": tr.ADD, "remove": tr.REMOVE}
SMALL_DELTA = 1e-12
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """Seconds and the largest distance of an estimate from the certified delta."""

    seconds: float
    off: float


@dataclass(frozen=True)
class Rare:
    """A run whose delta is about SMALL_DELTA at the epsilon asked, and how often to draw."""

    noise: float
    rate: float
    steps: int
    draws: int


RARE = (
    Rare(1.0, 0.01, 1000, 100_000),
    Rare(1.0, 0.01, 1000, 200_000),
    Rare(4.0, 0.05, 1000, 100_000),
    Rare(0.8, 0.001, 1000, 100_000),
)


@dataclass(frozen=True)
class Reached:
    """Certified delta and estimate with its limits, and the seconds it took."""

    certified: float
    value: float
    lower: float
    upper: float
    seconds: float


def laplace_run(steps: int) -> tr.Run:
    return tr.Step(tr.Laplace(noise_multiplier=1), tr.Poisson(rate=RATE)) * steps


def epsilons_of(steps: int) -> Floats:
    return np.linspace(0, 0.4 * steps, POINTS)


def off(steps: int, relation: str, values: Sequence[float]) -> float:
    certified = tr.privacy_curve(laplace_run(steps), relation=RELATIONS[relation]).delta(epsilons_of(steps))
    return max(abs(value - float(bracket.upper)) for value, bracket in zip(values, certified, strict=True))


# What is timed. Each function runs in its own process.


def ours(steps: int, relation: str, draws: int) -> Measured:
    simulation = tr.MonteCarlo(draws=draws, drawing=PLAIN, interval=HOEFFDING, confidence=1 - BETA)
    curve = tr.privacy_curve(laplace_run(steps), relation=RELATIONS[relation], by=simulation)
    tr.privacy_curve(laplace_run(1), relation=tr.ADD, by=tr.MonteCarlo(draws=1000)).delta(0.1)  # warm-up
    begun = time.process_time()
    found = curve.delta(epsilons_of(steps))
    seconds = time.process_time() - begun
    return Measured(seconds, off(steps, relation, [each.value for each in found]))


def naive(steps: int, relation: str, draws: int) -> Measured:
    """Every loss by its formula, every draw against every epsilon."""
    rng, epsilons = np.random.default_rng(0), epsilons_of(steps)
    begun = time.process_time()
    total = np.zeros(POINTS)
    for start in range(0, draws, ROWS):
        shape = min(ROWS, draws - start), steps
        x = rng.laplace(size=shape)
        if relation == "remove":
            x += rng.random(shape) < RATE
        losses = np.log(1 - RATE + RATE * np.exp(np.abs(x) - np.abs(x - 1)))
        summed = losses.sum(axis=1) * (1 if relation == "remove" else -1)
        total += np.maximum(1 - np.exp(epsilons - summed[:, None]), 0).sum(axis=0)
    seconds = time.process_time() - begun
    return Measured(seconds, off(steps, relation, list(total / draws)))


def reach(rare: Rare) -> Reached:
    run = tr.Step(tr.Gaussian(noise_multiplier=rare.noise), tr.Poisson(rate=rare.rate)) * rare.steps
    certified = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE)
    epsilon = certified.epsilon(SMALL_DELTA).upper
    curve = tr.privacy_curve(
        run, relation=tr.ADD_OR_REMOVE, by=tr.MonteCarlo(draws=rare.draws, confidence=1 - BETA)
    )
    begun = time.process_time()
    found = curve.delta(epsilon)
    seconds = time.process_time() - begun
    return Reached(certified.delta(epsilon).upper, found.value, found.lower, found.upper, seconds)


def figure(draws: int, seconds: float) -> tuple[list[list[str]], list[tuple[float, float]]]:
    rows = [["steps", "relation", "Tightrope", "numpy", "/ Tightrope", "off", "numpy off"]]
    both: list[tuple[float, float]] = []
    for done, (steps, relation) in enumerate((steps, relation) for steps in STEPS for relation in RELATIONS):
        progress(done, 2 * len(STEPS), f"{steps} steps, {relation}")
        mine, theirs = (
            in_own_process(work, steps, relation, draws, seconds=seconds) for work in (ours, naive)
        )
        if isinstance(mine, str) or isinstance(theirs, str):
            raise SystemExit(f"no answer for {steps} steps: {mine}, {theirs}")
        both.append((mine.seconds, theirs.seconds))
        times = [f"{mine.seconds:.2f} s", f"{theirs.seconds:.2f} s", f"{theirs.seconds / mine.seconds:.1f}"]
        rows.append([str(steps), relation, *times, f"{mine.off:.1e}", f"{theirs.off:.1e}"])
    progress(0, 0, "")
    return rows, both


def small_deltas(seconds: float) -> list[list[str]]:
    rows = [
        [
            "noise",
            "rate",
            "steps",
            "draws",
            "certified",
            "estimate",
            "limits",
            "seconds",
            "plain draws for as much",
        ]
    ]
    for rare in RARE:
        said = [f"{rare.noise:g}", f"{rare.rate:g}", f"{rare.steps:,}", f"{rare.draws:,}"]
        found = in_own_process(reach, rare, seconds=seconds)
        if isinstance(found, str):
            rows.append([*said, found, "", "", "", ""])
            continue
        relative = (found.upper - found.lower) / 2 / found.value
        plain = 2 * np.log(2 / BETA) / (found.value * relative**2)  # variance delta (1 - delta), at most
        limits = f"{found.lower / found.value - 1:+.1%} {found.upper / found.value - 1:+.1%}"
        numbers = [
            f"{found.certified:.4e}",
            f"{found.value:.4e}",
            limits,
            f"{found.seconds:.2f} s",
            f"{plain:.0e}",
        ]
        rows.append([*said, *numbers])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then print."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], epilog="example: make bench"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        help="seconds after which one simulation is given up (default 300)",
    )
    options = parser.parse_args(arguments)
    if not options.timeout > 0:
        parser.error("--timeout must be positive")
    on_one_thread()
    draws = draws_needed(alpha=ALPHA, beta=BETA, points=POINTS)
    rows, both = figure(draws, options.timeout)
    said = ", ".join(f"{name} {version}" for name, version in versions("tightrope", "numpy", "scipy").items())
    print(f"{said}; CPU time on one thread")
    sure = f"confidence {1 - BETA:g}"
    print(
        f"Laplace noise 1, Poisson rate {RATE:g}, {POINTS} epsilons: {draws:,} draws, error {ALPHA:g}, {sure}"
    )
    print("\n" + aligned(rows) + "\n")
    mine, theirs = (sum(times) for times in zip(*both, strict=True))
    print(f"In all {mine:.1f} s; numpy {theirs:.1f} s, {theirs / mine:.1f} times as long.")
    print("\nGaussian noise, Poisson sampling, ADD_OR_REMOVE:")
    print(f"tilted draws where delta is {SMALL_DELTA:g}, {sure}")
    print("\n" + aligned(small_deltas(options.timeout)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
