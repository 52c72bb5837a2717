"""Random questions from the range that people train in: how long they take, what is refused, what is wide.

    python benchmarks/reach.py --n 1000 --seed 1 --jobs 2
    python benchmarks/reach.py --found               # settings that were once refused, slow or wide

Noise .3 to 30, rate 1e-6 to .9, 1 to 10^7 steps, delta 1e-15 to .1, all of them spread evenly over the
logarithms; Gaussian and Laplace noise; Poisson sampling and batches without replacement; every relation that
has a theorem; both epsilon(delta) and delta(epsilon), the latter at about the epsilon of the drawn delta.
Time is CPU time of one question from nothing, in a worker process that is ended when it takes too long.
"""

import argparse
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random

from measuring import forget, on_one_thread, progress

POPULATIONS = (1_000, 60_000, 10**6, 10**9)
RELATIONS = ("ADD", "REMOVE", "ADD_OR_REMOVE", "SUBSTITUTE")
LIMIT = 60.0  # seconds of CPU for one question
PATIENCE = 4  # times the limit, by the clock on the wall, until its process is ended
SHOWN = 8  # the slowest and the widest so many are printed

# Found by earlier draws: refused, slow or wide. A delta question is asked at the epsilon in its last place.
FOUND = (
    ("refused", "Laplace", 0.45, (58, 1_000), 3, "ADD", "delta", 3e-15),
    ("refused", "Laplace", 0.36, (6_442_206, 10**9), 3, "ADD", "delta", 1e-14),
    ("refused", "Laplace", 0.45, (83, 60_000), 17, "ADD_OR_REMOVE", "delta", 3.7e-8),
    ("refused", "Laplace", 0.32, (65_736, 10**9), 9, "ADD_OR_REMOVE", "delta", 5.8e-10),
    ("refused", "Gaussian", 29.0, (1, 10**6), 51_807, "ADD_OR_REMOVE", "delta", 1.2e-9),
    ("refused", "Gaussian", 10.0, 1e-5, 10**6, "ADD_OR_REMOVE", "epsilon", 0.0116),
    ("refused", "Gaussian", 0.1, 1e-3, 10**6, "ADD", "delta", 1e-6),
    ("slow", "Gaussian", 2.05, (2, 10**6), 2_600_000, "SUBSTITUTE", "delta", 1.3e-13),
    ("slow", "Gaussian", 1.37, (3_060, 10**9), 169_211, "SUBSTITUTE", "delta", 1.3e-11),
    ("slow", "Laplace", 0.39, (1, 1_000), 6_000_000, "SUBSTITUTE", "delta", 1.1e-8),
    ("slow", "Gaussian", 2.1, 2.5e-6, 3_900_000, "SUBSTITUTE", "delta", 6.7e-11),
    ("slow", "Gaussian", 0.51, 6e-6, 12_795, "ADD_OR_REMOVE", "delta", 5e-14),
    ("wide", "Gaussian", 4.9, 5.9e-6, 63, "SUBSTITUTE", "delta", 6.8e-6),
    ("slow", "Gaussian", 0.732, 2.64e-6, 4_670_000, "REMOVE", "delta", 4.46e-11),
    ("slow", "Gaussian", 1.75, (20, 10**6), 955_000, "SUBSTITUTE", "epsilon", 0.224),
    ("slow", "Gaussian", 1.76, (1, 60_000), 6_170_000, "REMOVE", "delta", 9.3e-15),
    ("slow", "Laplace", 0.36, 1.6e-6, 2, "ADD", "epsilon", 3e-6),
    ("refused", "Gaussian", 0.437, (2, 10**6), 32, "ADD", "epsilon", 6.4e-5),
    ("wide", "Gaussian", 0.452, (2_424, 60_000), 9_600, "ADD", "delta", 4.09e-9),
)


@dataclass(frozen=True)
class Question:
    """One question in plain values; `given` says whether `value` is the delta or the epsilon."""

    noise: str
    noise_multiplier: float
    sampling: float | tuple[int, int]  # a rate, or a batch and its population
    steps: int
    relation: str
    given: str
    value: float

    def line(self) -> str:
        """A line of Python that asks it again."""
        sampling = (
            "tr.WithoutReplacement(batch={}, population={})".format(*self.sampling)
            if isinstance(self.sampling, tuple)
            else f"tr.Poisson(rate={self.sampling!r})"
        )
        asked = {"delta": "epsilon", "epsilon": "delta"}[self.given]
        return (
            f"tr.{asked}(tr.Step(tr.{self.noise}(noise_multiplier={self.noise_multiplier!r}), {sampling}) * "
            f"{self.steps}, relation=tr.{self.relation}, {self.given}={self.value!r})"
        )


@dataclass(frozen=True)
class Outcome:
    """How a question fared; widths are absolute for epsilon and relative for delta."""

    question: Question
    seconds: float
    lower: float = math.nan
    upper: float = math.nan
    refusal: str = ""
    why_wide: str = ""

    @property
    def width(self) -> float:
        """Of epsilon, absolute; of delta, relative to its upper end."""
        if self.refusal or self.upper == self.lower:
            return 0.0
        return self.upper - self.lower if self.question.given == "delta" else 1 - self.lower / self.upper

    @property
    def theory_keeps_apart(self) -> bool:
        """Whether no theorem is tight here, so that the width says nothing about arithmetic."""
        return self.question.relation == "SUBSTITUTE" and isinstance(self.question.sampling, tuple)


def spread(rng: Random, low: float, high: float) -> float:
    """A number whose logarithm is uniform, to three digits."""
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")


def draw(seed: int, index: int) -> Question:
    """The question with this index; the same for the same seed."""
    rng = Random(f"reach {seed} {index}")
    noise, scheme = rng.choice(("Gaussian", "Laplace")), rng.choice(("Poisson", "without replacement"))
    relations = RELATIONS if (noise, scheme) != ("Laplace", "Poisson") else RELATIONS[:3]  # no theorem
    relation, rate = rng.choice(relations), spread(rng, 1e-6, 0.9)
    sampling: float | tuple[int, int] = rate
    if scheme == "without replacement":
        population = rng.choice(POPULATIONS)
        sampling = max(round(rate * population), 1), population
    steps = max(round(spread(rng, 1, 1e7)), 1)
    given = rng.choice(("delta", "epsilon"))
    return Question(noise, spread(rng, 0.3, 30), sampling, steps, relation, given, spread(rng, 1e-15, 0.1))


def place(question: Question) -> Question:
    """A drawn delta question at about the epsilon of its delta; where that is none, the epsilon question."""
    import tightrope as tr

    if question.given == "delta":
        return question
    asked = Question(**{**asdict(question), "given": "delta"})
    try:
        found = eval(asked.line(), {"tr": tr})
    except tr.TightropeError:
        return asked
    epsilon = float(f"{found.upper:.3g}")
    if not 0 < epsilon < math.inf:
        return asked
    return Question(**{**asdict(question), "value": epsilon})


def ask(question: Question) -> Outcome:
    """Ask from nothing."""
    import tightrope as tr
    from tightrope.errors import PYTHON

    forget()
    start = time.process_time()
    try:
        found = eval(question.line(), {"tr": tr})
    except tr.TightropeError as refusal:
        return Outcome(question, time.process_time() - start, refusal=f"{type(refusal).__name__}: {refusal}")
    except Exception as crash:
        return Outcome(question, time.process_time() - start, refusal=f"CRASH {crash!r}")
    seconds = time.process_time() - start
    why = "" if found.gap is None else PYTHON.fill(found.gap.why)
    return Outcome(question, seconds, found.lower, found.upper, why_wide=why)


def _serve(line: Connection) -> None:
    """Answer what comes in; the first question loads everything and is not counted."""
    ask(Question("Gaussian", 1.0, 0.01, 100, "ADD_OR_REMOVE", "delta", 1e-6))
    ask(Question("Laplace", 0.4, 1e-4, 3, "ADD", "delta", 1e-9))
    while True:
        try:
            question, is_drawn = line.recv()
        except (EOFError, KeyboardInterrupt):
            return
        question = place(question) if is_drawn else question
        line.send(question)  # from here on it is timed
        line.send(ask(question))


class _Worker:
    """A process, what it works on, and the CPU time it had used when it began."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.question: Question | None = None
        self.began_at = 0.0

    def give(self, question: Question, *, is_drawn: bool) -> None:
        self.question = question
        self.began_at = self.seconds()
        self.line.send((question, is_drawn))

    def seconds(self) -> float:
        """CPU seconds used so far, where the system tells."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / 100
        except (OSError, IndexError):
            return time.monotonic() / PATIENCE

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.line.close()


def ask_all(questions: Iterator[Question], jobs: int, limit: float, *, are_drawn: bool) -> Iterator[Outcome]:
    """The outcomes, as they come."""
    workers = [_Worker() for _ in range(jobs)]
    idle, busy = list(workers), []
    try:
        while True:
            while idle and (question := next(questions, None)) is not None:
                worker = idle.pop()
                worker.give(question, is_drawn=are_drawn)
                busy.append(worker)
            if not busy:
                return
            ready = set(wait([worker.line for worker in busy], timeout=1.0))
            for worker in list(busy):
                if worker.line in ready:
                    found = worker.line.recv()
                    if isinstance(found, Question):
                        worker.question, worker.began_at = found, worker.seconds()
                        continue
                    yield found
                elif worker.seconds() - worker.began_at > limit:
                    assert worker.question is not None
                    yield Outcome(worker.question, limit, refusal=f"TIME-OUT after {limit:g} s")
                    worker.end()
                    workers.remove(worker)
                    busy.remove(worker)
                    worker = _Worker()
                    workers.append(worker)
                    idle.append(worker)
                    continue
                else:
                    continue
                busy.remove(worker)
                idle.append(worker)
    finally:
        for worker in workers:
            worker.end()


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def report(outcomes: Sequence[Outcome]) -> str:
    """The distribution, the refusals, and the slowest and widest as lines of Python."""
    seconds = [outcome.seconds for outcome in outcomes]
    refused = [outcome for outcome in outcomes if outcome.refusal]
    times = ", ".join(
        f"{name} {quantile(seconds, share):.3g}"
        for name, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("worst", 1.0))
    )
    lines = [f"{len(outcomes)} questions, CPU seconds: {times}", f"{len(refused)} refused"]
    lines += [f"  {outcome.refusal}\n    {outcome.question.line()}" for outcome in refused]
    lines.append("slowest")
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds)[:SHOWN]:
        lines.append(f"  {outcome.seconds:.2f} s  {outcome.question.line()}")
    for given, what in (("delta", "epsilon"), ("epsilon", "delta, relative")):
        asked = [o for o in outcomes if o.question.given == given and not o.refusal]
        tight = [o for o in asked if not o.theory_keeps_apart]
        if tight:
            widths = [o.width for o in tight]
            lines.append(
                f"width in {what}, where theory is tight: median {quantile(widths, 0.5):.1e}, "
                f"p99 {quantile(widths, 0.99):.1e}; "
                f"{sum(w > 1.001e-3 for w in widths)} of {len(tight)} above 1e-3"
            )
            for o in sorted(tight, key=lambda o: -o.width)[:SHOWN]:
                lines.append(f"  {o.width:.1e} [{o.lower:.6g}, {o.upper:.6g}] {o.why_wide}")
                lines.append(f"    {o.question.line()}")
    return "\n".join(lines)


def main() -> int:
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("--n", type=int, default=200, help="how many questions")
    parser.add_argument("--seed", type=int, default=0, help="which questions")
    parser.add_argument("--start", type=int, default=0, help="the index of the first question")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--limit", type=float, default=LIMIT, help="CPU seconds for one question")
    parser.add_argument("--found", action="store_true", help="ask what was once refused, slow or wide")
    parser.add_argument("--out", type=Path, help="a file for all outcomes, a line of JSON each")
    options = parser.parse_args()
    on_one_thread()
    outcomes = []
    if options.found:
        questions = iter(Question(*row[1:]) for row in FOUND)
        count = len(FOUND)
    else:
        questions = (draw(options.seed, options.start + index) for index in range(options.n))
        count = options.n
    for outcome in ask_all(questions, options.jobs, options.limit, are_drawn=not options.found):
        outcomes.append(outcome)
        progress(len(outcomes), count, f"{outcome.seconds:.2f} s")
        if options.found:
            said = outcome.refusal or f"[{outcome.lower:.8g}, {outcome.upper:.8g}]"
            print(f"{outcome.seconds:7.2f} s  {said}\n    {outcome.question.line()}", flush=True)
        if options.out:
            with options.out.open("a") as lines:
                row = {**asdict(outcome), "line": outcome.question.line(), "width": outcome.width}
                lines.write(json.dumps(row) + "\n")
    progress(0, 0, "")
    print(report(outcomes))
    return int(any(outcome.refusal for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
