"""Tightrope and PLD_accounting side by side on balls in bins: time and width, all within one run.

One batch out of T for each record in every epoch, Gaussian noise, ADD_OR_REMOVE. Both give a lower and an
upper end of epsilon. Each measurement has a process of its own on one thread and counts CPU seconds, after a
warm-up on another question and without imports. Times depend on the machine: only ratios within one run are
worth quoting, and nothing here is a test.

With --reach Tightrope answers alone, random questions of the whole range that it is meant for.
"""

import argparse
import importlib.util
import json
import math
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product

import tightrope as tr
from measuring import aligned, forget, in_own_process, milliseconds, on_one_thread, progress, versions

DELTA = 1e-6
NOISES, BATCHES, EPOCHS = (0.6, 0.8, 1.0, 2.0), (100, 1000, 10_000), (1, 10, 100)
AS_IT_COMES = -1.0  # the peer's default: it stops once upper / lower <= 1.1
NARROWER, FASTER = 20, 5  # the aims
RANGE = {"noise": (0.3, 10.0), "batches": (2, 1e5), "epochs": (1, 1000), "delta": (1e-15, 0.1)}
MEDIAN_AIM, WORST_AIM, WIDTH_AIM = 1.0, 10.0, 1e-3  # CPU seconds, and epsilon
NAN = math.nan


@dataclass(frozen=True)
class Allocation:
    """In each of `epochs` passes every record takes one of `batches` batches."""

    noise: float
    batches: int
    epochs: int
    delta: float = DELTA

    def __str__(self) -> str:
        plural = "s" * (self.epochs != 1)
        asked = f"noise {self.noise:g}, {self.batches:,} batches, {self.epochs} epoch{plural}"
        return asked if self.delta == DELTA else f"{asked}, delta {self.delta:g}"


WARM_UP = Allocation(1.5, 20, 2)


@dataclass(frozen=True)
class Ends:
    """Both ends of epsilon and the CPU seconds they took; or why there are none."""

    lower: float = NAN
    upper: float = NAN
    seconds: float = NAN
    refusal: str = ""

    @property
    def width(self) -> float:
        """Between the ends, in epsilon."""
        return self.upper - self.lower

    @property
    def relative_width(self) -> float:
        """The same relative to epsilon, which may be 0 for certain."""
        return self.width / self.upper if self.upper else 0.0


@dataclass(frozen=True)
class Line:
    """One question, answered by both."""

    asked: Allocation
    tightrope: Ends
    peer: Ends

    @property
    def time_ratio(self) -> float:
        """How many times longer the peer took; nan where one of the two gave no answer."""
        return self.peer.seconds / self.tightrope.seconds

    @property
    def width_ratio(self) -> float:
        """How many times wider the peer's ends are apart; nan where one of the two gave no answer."""
        return self.peer.width / self.tightrope.width

    @property
    def contradicts(self) -> bool:
        """Whether no epsilon lies between the ends of both."""
        ours, theirs = self.tightrope, self.peer
        return theirs.upper < ours.lower or ours.upper < theirs.lower


# What is timed. Each function runs in its own process.


def ask_tightrope(asked: Allocation, repeats: int, relation: str = tr.ADD_OR_REMOVE.name) -> Ends:
    """A fresh run, curve and bracket each time: nothing is kept between repeats."""

    def ask(asked: Allocation) -> Ends:
        forget()
        start = time.process_time()
        step = tr.Step(tr.Gaussian(noise_multiplier=asked.noise), tr.BallsInBins(batches=asked.batches))
        run = step * (asked.batches * asked.epochs)
        found = tr.epsilon(run, delta=asked.delta, relation=relation)
        return Ends(found.lower, found.upper, time.process_time() - start)

    return _median(ask, asked, repeats)


def ask_peer(asked: Allocation, accuracy: float, repeats: int) -> Ends:
    """The adaptive range of PLD_accounting: geometric convolutions, refined until they are close enough."""
    warnings.simplefilter("ignore")  # where it does not converge, the width shows it
    from PLD_accounting import gaussian_allocation_epsilon_range

    def ask(asked: Allocation) -> Ends:
        start = time.process_time()
        upper, lower = gaussian_allocation_epsilon_range(
            delta=asked.delta,
            sigma=asked.noise,
            num_steps=asked.batches,
            num_epochs=asked.epochs,
            epsilon_accuracy=accuracy,
        )
        return Ends(lower, upper, time.process_time() - start)

    return _median(ask, asked, repeats)


def _median(ask: Callable[[Allocation], Ends], asked: Allocation, repeats: int) -> Ends:
    """The answer with the median time, after a warm-up; what was raised is the reason that there is none."""
    try:
        ask(WARM_UP)
        answers = [ask(asked) for _ in range(repeats)]
    except (tr.NotPreciseEnough, RuntimeError, ValueError) as refusal:
        return Ends(refusal=str(refusal))
    return sorted(answers, key=lambda ends: ends.seconds)[(repeats - 1) // 2]


# Running it.


def measure(options: argparse.Namespace) -> list[Line]:
    grid = [Allocation(*each) for each in product(options.noises, options.batches, options.epochs)]
    lines = []
    for done, asked in enumerate(grid):
        progress(done, len(grid), str(asked))
        ours = in_own_process(ask_tightrope, asked, options.repeats, seconds=options.timeout)
        ends = Ends(refusal=ours) if isinstance(ours, str) else ours
        accuracy = options.relative * ends.upper if options.relative else AS_IT_COMES
        if math.isnan(accuracy):  # there is no epsilon to be relative to
            accuracy = AS_IT_COMES
        theirs = in_own_process(ask_peer, asked, accuracy, options.repeats, seconds=options.timeout)
        lines.append(Line(asked, ends, Ends(refusal=theirs) if isinstance(theirs, str) else theirs))
        if options.follow:
            print(*_row(lines[-1]), sep="  ", file=sys.stderr, flush=True)
    progress(len(grid), len(grid), "")
    return lines


def draw(count: int, seed: int) -> list[Allocation]:
    """Random questions: every quantity uniform on a logarithmic scale."""
    source = random.Random(seed)
    drawn = []
    for _ in range(count):
        noise, batches, epochs, delta = (
            math.exp(source.uniform(math.log(low), math.log(high))) for low, high in RANGE.values()
        )
        drawn.append(Allocation(float(f"{noise:.3g}"), round(batches), round(epochs), float(f"{delta:.2g}")))
    return drawn


def reach(options: argparse.Namespace) -> list[tuple[Allocation, Ends]]:
    """The answers to random questions."""
    found = []
    questions = draw(options.reach, options.seed)
    for done, asked in enumerate(questions):
        progress(done, len(questions), str(asked))
        ends = in_own_process(
            ask_tightrope, asked, options.repeats, options.relation, seconds=options.timeout
        )
        found.append((asked, Ends(refusal=ends) if isinstance(ends, str) else ends))
        if options.follow:
            print(asked, *_ends(found[-1][1]), sep="  ", file=sys.stderr, flush=True)
    progress(len(questions), len(questions), "")
    return found


# Showing it.


def reached(answers: Sequence[tuple[Allocation, Ends]]) -> list[str]:
    """How long the answers took and how wide they are, the worst of each by name."""
    known = [(asked, ends) for asked, ends in answers if not ends.refusal]
    if not known:
        return ["No question was answered."]
    times = sorted(ends.seconds for _, ends in known)
    slowest, widest = max(known, key=lambda each: each[1].seconds), max(known, key=lambda each: each[1].width)
    wide = [each for each in known if each[1].width > WIDTH_AIM]
    relative = max(ends.relative_width for _, ends in wide) if wide else 0.0
    least = min((ends.upper for _, ends in wide), default=0.0)
    late = times[min(math.ceil(0.99 * len(times)), len(times)) - 1]
    return [
        f"{len(known)} of {len(answers)} questions answered.",
        f"CPU time: median {statistics.median(times):.2f} s (aim {MEDIAN_AIM:g}), 99 % within {late:.2f} s, "
        f"slowest {times[-1]:.2f} s (aim {WORST_AIM:g}; {slowest[0]}).",
        f"Width in epsilon: median {statistics.median(ends.width for _, ends in known):.1e}, widest "
        f"{widest[1].width:.1e} (aim {WIDTH_AIM:g}) at epsilon {widest[1].upper:.4g} ({widest[0]}).",
        f"Wider than {WIDTH_AIM:g}: {len(wide)} of {len(known)}"
        + (f", at most {relative:.1e} of epsilon, which is {least:.4g} or more." if wide else "."),
        *(f"No answer ({asked}): {ends.refusal}" for asked, ends in answers if ends.refusal),
    ]


def table(lines: Sequence[Line]) -> list[list[str]]:
    heading = ["noise", "batches", "epochs", "Tightrope", "width", "time", "PLD_accounting", "width", "time"]
    rows = [[*heading, "width ratio", "time ratio"]]
    return [*rows, *map(_row, lines)]


def _row(line: Line) -> list[str]:
    head = [f"{line.asked.noise:g}", f"{line.asked.batches:,}", f"{line.asked.epochs}"]
    ratios = [_number(line.width_ratio, ",.0f"), _number(line.time_ratio, ".2f")]
    return [*head, *_ends(line.tightrope), *_ends(line.peer), *ratios]


def _ends(ends: Ends) -> list[str]:
    if ends.refusal:
        return [ends.refusal if len(ends.refusal) < 25 else "no answer", "-", "-"]
    between = str(tr.Bracket(ends.lower, ends.upper)) if ends.lower <= ends.upper else "ends cross"
    return [between, f"{ends.relative_width:.1e}", milliseconds(ends.seconds)]


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def summary(lines: Sequence[Line]) -> list[str]:
    """What the table comes to."""
    both = [line for line in lines if not math.isnan(line.time_ratio)]
    if not both:
        return ["No question was answered by both."]
    said = []
    aims: tuple[tuple[str, int, Callable[[Line], float]], ...] = (
        ("width", NARROWER, lambda line: line.width_ratio),
        ("time", FASTER, lambda line: line.time_ratio),
    )
    for name, aim, of in aims:
        ratios = [of(line) for line in both]
        least = min(both, key=of)
        said.append(
            f"PLD_accounting's {name} / Tightrope's: median {statistics.median(ratios):,.1f} (aim {aim}), "
            f"smallest {of(least):,.2f} ({least.asked}), largest {max(ratios):,.0f}; at least {aim} in "
            f"{sum(ratio >= aim for ratio in ratios)}, below 1 in {sum(ratio < 1 for ratio in ratios)} "
            f"of {len(ratios)}."
        )
    ours, theirs = (sum(line.tightrope.seconds for line in both), sum(line.peer.seconds for line in both))
    said.append(f"Time of all {len(both)} together: {ours:.0f} s and {theirs:.0f} s.")
    said.append(f"Ends that contradict each other: {sum(line.contradicts for line in both)} of {len(both)}.")
    for line in lines:
        for name, ends in (("Tightrope", line.tightrope), ("PLD_accounting", line.peer)):
            if ends.refusal:
                said.append(f"{name} gave no answer ({line.asked}): {ends.refusal}")
    return said


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then print."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], epilog="example: python benchmarks/allocation.py --quick"
    )
    parser.add_argument("--quick", action="store_true", help="noise 0.8 and 2, 100 and 1,000 batches, once")
    parser.add_argument("--noises", type=float, nargs="+", default=NOISES)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="batches in one epoch")
    parser.add_argument("--epochs", type=int, nargs="+", default=EPOCHS)
    parser.add_argument(
        "--relative",
        type=float,
        help="ask the peer for this width relative to epsilon (by default its own: 0.1)",
    )
    parser.add_argument(
        "--reach",
        type=int,
        metavar="N",
        help="answer N random questions of the whole range, without the peer",
    )
    parser.add_argument(
        "--relation", default=tr.ADD_OR_REMOVE.name, help="of --reach (default ADD_OR_REMOVE)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the questions of --reach (default 1)")
    parser.add_argument("--repeats", type=int, default=1, help="the median counts (default 1)")
    parser.add_argument(
        "--timeout", type=float, default=120.0, help="seconds for one measurement (default 120)"
    )
    parser.add_argument("--follow", action="store_true", help="show each line as soon as it is known")
    parser.add_argument("--json", action="store_true", help="print everything measured as JSON")
    options = parser.parse_args(arguments)
    if options.quick:
        options.noises, options.batches = (0.8, 2.0), (100, 1000)
    if options.repeats < 1 or not options.timeout > 0:
        parser.error("--repeats and --timeout must be positive")
    if options.reach is not None:
        if options.reach < 1:
            parser.error("--reach must be positive")
        on_one_thread()
        answers = reach(options)
        print(
            f"tightrope {versions('tightrope')['tightrope']}; {options.relation}; CPU time on one thread; "
            f"seed {options.seed}"
        )
        print("\n".join(reached(answers)))
        return 0
    if importlib.util.find_spec("PLD_accounting") is None:
        parser.error("PLD_accounting is not installed; run make bench, or pip install -e '.[bench]'")
    on_one_thread()
    lines = measure(options)
    of = versions("tightrope", "PLD_accounting", "numpy", "scipy")
    if importlib.util.find_spec("numba") is not None:  # which the peer uses where it is there
        of |= versions("numba")
    if options.json:
        rows = [
            {**asdict(line.asked), "tightrope": asdict(line.tightrope), "peer": asdict(line.peer)}
            for line in lines
        ]
        plain = json.dumps({"versions": of, "delta": DELTA, "lines": rows}).replace("NaN", "null")
        print(json.dumps(json.loads(plain), indent=1, allow_nan=False))
        return 0
    print(", ".join(f"{name} {version}" for name, version in of.items()) + "; CPU time on one thread")
    print(f"Gaussian, balls in bins, ADD_OR_REMOVE: epsilon at delta {DELTA:g}, width relative to it\n")
    print(aligned(table(lines)) + "\n")
    print("\n".join(summary(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
