"""From a target to the noise, by Tightrope and its peers: time, and noise beyond the certified optimum.

The points lie on Fig. 2 of the paper: Gaussian noise, Poisson sampling, ADD_OR_REMOVE, 10,000 steps,
delta 1e-6. Each measurement has a process of its own on one thread and counts CPU seconds, after a warm-up on
another target and without imports; the contestants take turns at each point. Only ratios within one run are
worth quoting, and nothing here is a test.
"""

import argparse
import importlib.util
import logging
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, median_low
from typing import TypeVar

import numpy as np

import tightrope as tr
from measuring import aligned, forget, in_own_process, milliseconds, on_one_thread, progress, versions

STEPS, DELTA = 10_000, 1e-6
EPSILONS = (1.0, 2.0, 5.0, 10.0)
CLOSE = 1e-4  # what Tightrope promises of the optimum; dp_accounting is asked for the same
ENOUGH_SECONDS = 3.0  # stop repeating a slow calibration
PLD, PRV, RDP = "PLD", "Opacus PRV", "Opacus RDP"
AIMS = {PLD: 50.0, PRV: 50.0, RDP: 1.0}  # how many times longer the peers should take
T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """An epsilon at DELTA after STEPS steps, to be reached by noise at a sampling rate."""

    rate: float
    epsilon: float

    def __str__(self) -> str:
        return f"rate {self.rate:.2g}, epsilon {self.epsilon:g}"


WARM_UP = Target(rate=0.3, epsilon=8.0)


@dataclass(frozen=True)
class Answer:
    """The noise and the seconds it took; from Tightrope also a noise that certainly misses the target."""

    noise: float
    seconds: float
    misses_below: float = 0.0


@dataclass(frozen=True)
class Line:
    """One target, answered by everyone who could; a sentence says why somebody could not."""

    target: Target
    tightrope: Answer
    peers: dict[str, Answer | str]

    def time_ratio(self, peer: Answer) -> float:
        """How many times longer the peer took."""
        return peer.seconds / self.tightrope.seconds

    @property
    def gap(self) -> float:
        """How far above the optimum, relative to it, Tightrope's noise may be."""
        return self.tightrope.noise / self.tightrope.misses_below - 1

    def excess(self, peer: Answer) -> float:
        """The peer's noise beyond Tightrope's, relative to it; within the certified gap it says nothing."""
        return peer.noise / self.tightrope.noise - 1

    def is_unsafe(self, peer: Answer) -> bool:
        """Whether the peer's noise certainly misses the target."""
        return peer.noise <= self.tightrope.misses_below


# What is timed. Each function runs in its own process.


def ask_tightrope(target: Target, repeats: int) -> Answer:
    """The smallest noise that is certainly safe; nothing is kept between repeats."""

    def ask(target: Target) -> tuple[float, float]:
        sampling = tr.Poisson(rate=target.rate)
        found = tr.smallest_noise(
            sampling, steps=STEPS, epsilon=target.epsilon, delta=DELTA, relation=tr.ADD_OR_REMOVE
        )
        return found.value, found.beyond or 0.0

    (noise, misses_below), seconds = _timed(ask, target, repeats)
    return Answer(noise, seconds, misses_below)


def ask_pld(target: Target, noise_about: float) -> Answer:
    """dp_accounting's calibration: its PLD accountant, default discretisation and interval; timed once."""
    import dp_accounting as peer
    from dp_accounting.pld import PLDAccountant

    logging.getLogger("absl").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # overflows at noises far too small

    def ask(target: Target) -> float:
        def run(noise: float) -> object:
            return peer.SelfComposedDpEvent(
                peer.PoissonSampledDpEvent(target.rate, peer.GaussianDpEvent(noise)), STEPS
            )

        return float(
            peer.calibrate_dp_mechanism(PLDAccountant, run, target.epsilon, DELTA, tol=CLOSE * noise_about)
        )

    return Answer(*_timed(ask, target, repeats=1))


def ask_opacus(accountant: str, target: Target, repeats: int) -> Answer:
    """Opacus's calibration by one of its accountants, with its default tolerance of 0.01 in epsilon."""
    warnings.simplefilter("ignore")  # that the best order is the largest or smallest one
    from opacus.accountants.utils import get_noise_multiplier

    def ask(target: Target) -> float:
        return float(
            get_noise_multiplier(
                target_epsilon=target.epsilon,
                target_delta=DELTA,
                sample_rate=target.rate,
                steps=STEPS,
                accountant=accountant,
            )
        )

    return Answer(*_timed(ask, target, repeats))


def _timed(ask: Callable[[Target], T], target: Target, repeats: int) -> tuple[T, float]:
    """What is answered, and the median time; a slow question is repeated less often."""
    ask(WARM_UP)
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < ENOUGH_SECONDS:
        forget()
        start = time.process_time()
        answer = ask(target)
        seconds.append(time.process_time() - start)
    return answer, median_low(seconds)


# Running and showing it.


def measure(rates: int, repeats: int, seconds: float, names: Sequence[str]) -> list[Line]:
    """All targets, each answered by everyone in turn."""
    targets = [Target(float(rate), epsilon) for rate in np.geomspace(1e-4, 1, rates) for epsilon in EPSILONS]
    lines = []
    for done, target in enumerate(targets):
        progress(done, len(targets), str(target))
        ours = in_own_process(ask_tightrope, target, repeats, seconds=seconds)
        if isinstance(ours, str):
            raise SystemExit(f"Tightrope gave no answer at {target}: {ours}")
        peers: dict[str, Answer | str] = {}
        if PLD in names:
            peers[PLD] = in_own_process(ask_pld, target, ours.noise, seconds=seconds)
        if PRV in names:
            peers[PRV] = in_own_process(ask_opacus, "prv", target, 1, seconds=seconds)
        if RDP in names:
            peers[RDP] = in_own_process(ask_opacus, "rdp", target, repeats, seconds=seconds)
        lines.append(Line(target, ours, peers))
    progress(len(targets), len(targets), "")
    return lines


def table(lines: Sequence[Line]) -> list[list[str]]:
    names = list(lines[0].peers)
    heading = ["rate", "epsilon", "noise", "gap", "Tightrope"]
    rows = [[*heading, *(word for name in names for word in (name, "/ Tightrope", "noise beyond"))]]
    for line in lines:
        target, ours = line.target, line.tightrope
        row = [
            f"{target.rate:.2g}",
            f"{target.epsilon:g}",
            f"{ours.noise:.6g}",
            f"{line.gap:.0e}",
            milliseconds(ours.seconds),
        ]
        for peer in line.peers.values():
            if isinstance(peer, str):
                row += ["-", "-", "-"]
            else:
                beyond = "unsafe" if line.is_unsafe(peer) else f"{100 * line.excess(peer):+.4f} %"
                row += [milliseconds(peer.seconds), f"{line.time_ratio(peer):.1f}", beyond]
        rows.append(row)
    return rows


def summary(lines: Sequence[Line]) -> list[str]:
    """What the table comes to."""
    in_all = sum(line.tightrope.seconds for line in lines)
    widest = max(line.gap for line in lines)
    said = [
        f"Tightrope: {len(lines)} calibrations in {in_all:.2f} s, {len(lines) / in_all:.0f} a second, "
        f"each certainly safe and at most {widest:.1e} above the optimum."
    ]
    for name in lines[0].peers:
        said += [
            f"{name} gave no answer ({line.target}): {why}."
            for line in lines
            if isinstance(why := line.peers[name], str)
        ]
        both = [(line, peer) for line in lines if isinstance(peer := line.peers[name], Answer)]
        if both:
            said += compared(name, both)
    return said


def compared(name: str, both: Sequence[tuple[Line, Answer]]) -> list[str]:
    """Time and noise of one peer, where it answered."""
    ratios = [line.time_ratio(peer) for line, peer in both]
    excesses = [100 * line.excess(peer) for line, peer in both]
    unsafe = sum(line.is_unsafe(peer) for line, peer in both)
    in_all = sum(peer.seconds for _, peer in both) / sum(line.tightrope.seconds for line, _ in both)
    least, where = min((line.time_ratio(peer), str(line.target)) for line, peer in both)
    return [
        f"{name} time / Tightrope time: {in_all:.1f} in all; per target median {median(ratios):.1f} "
        f"(aim {AIMS[name]:g}), smallest {least:.2f} ({where}), largest {max(ratios):.0f}; "
        f"Tightrope is slower in {sum(ratio < 1 for ratio in ratios)} of {len(both)}.",
        f"{name} noise beyond Tightrope's: median {median(excesses):+.4f} %, "
        f"smallest {min(excesses):+.4f} %, largest {max(excesses):+.4f} %; "
        f"certainly too little in {unsafe} of {len(both)}.",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then print."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], epilog="example: make bench"
    )
    parser.add_argument(
        "--rates",
        type=int,
        default=6,
        metavar="N",
        help="rates from 1e-4 to 1; 30 is all of Fig. 2 (default 6)",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=5,
        help="how often Tightrope and RDP are timed (default 5)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        help="seconds after which one measurement is given up (default 120)",
    )
    parser.add_argument("--alone", action="store_true", help="measure Tightrope only")
    options = parser.parse_args(arguments)
    if options.rates < 2 or options.repeats < 1 or not options.timeout > 0:
        parser.error("--rates must be at least 2, --repeats and --timeout positive")
    if not options.alone and importlib.util.find_spec("dp_accounting") is None:
        parser.error("dp_accounting is not installed; run make bench, or pip install -e '.[bench]'")
    with_opacus = importlib.util.find_spec("opacus") is not None
    on_one_thread()
    names = [] if options.alone else [PLD, *[PRV, RDP] * with_opacus]
    lines = measure(options.rates, options.repeats, options.timeout, names)
    peers = [] if options.alone else ["dp-accounting", *["opacus"] * with_opacus]
    packages = ["tightrope", *peers, "numpy", "scipy"]
    print(
        ", ".join(f"{name} {version}" for name, version in versions(*packages).items())
        + "; CPU time on one thread"
    )
    run = f"Gaussian, Poisson sampling, ADD_OR_REMOVE, {STEPS:,} steps, delta {DELTA:g}"
    print(f"{run}: the smallest noise for an epsilon")
    print("\n" + aligned(table(lines)) + "\n")
    print("\n".join(summary(lines)))
    if not with_opacus and not options.alone:
        print("Opacus is not installed: to compare with it, pip install opacus (it brings PyTorch).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
