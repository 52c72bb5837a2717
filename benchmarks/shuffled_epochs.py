"""How long shuffled batches take: the first answer and the next one, QUICK and TIGHT.

Gaussian noise, one record exchanged. Each measurement has a process of its own on one thread and counts CPU
seconds, after a warm-up on another question and without imports. Times depend on the machine, and nothing
here is a test.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product

import tightrope as tr
from measuring import aligned, forget, in_own_process, milliseconds, on_one_thread, progress, versions
from tightrope.setting.effort import as_effort

DELTA, BATCH = 1e-6, 1000
NOISES, BATCHES, EPOCHS = (2.0, 4.0, 8.0), (100, 1000, 10_000), (1, 10)
AIMS = {"quick": 3, "tight": 60}  # seconds of a first answer
KINDS = {"any size": (None, 0), "of 1,000": (BATCH, 0), "spare place": (BATCH, 1)}


@dataclass(frozen=True)
class Shuffles:
    """So many epochs of so many batches."""

    kind: str
    effort: str
    noise: float
    batches: int
    epochs: int

    @property
    def run(self) -> tr.Run:
        """As it is asked about."""
        batch, left_over = KINDS[self.kind]
        sampling = tr.Shuffled(batches=self.batches, batch=batch, left_over=left_over)
        step = tr.Step(tr.Gaussian(noise_multiplier=self.noise), sampling)
        return step * (self.batches * self.epochs)

    def __str__(self) -> str:
        size = f"noise {self.noise:g}, {self.batches:,} batches ({self.kind}), epochs: {self.epochs}"
        return f"{size}, {self.effort.upper()}"


@dataclass(frozen=True)
class Answer:
    """Both ends of epsilon, and the CPU seconds of a first answer and of the same question asked again."""

    lower: float
    upper: float
    first: float
    again: float


WARM_UP = Shuffles("spare place", "quick", 3.0, 20, 2)


def ask(asked: Shuffles) -> Answer:
    """From nothing, then again; this runs in a process of its own."""
    _ask_once(WARM_UP)
    forget()
    found, first = _ask_once(asked)
    _, again = _ask_once(asked)
    return Answer(found.lower, found.upper, first, again)


def _ask_once(asked: Shuffles) -> tuple[tr.Bracket, float]:
    start = time.process_time()
    by = tr.Certified(effort=as_effort(asked.effort))
    found = tr.epsilon(asked.run, delta=DELTA, relation=tr.SUBSTITUTE, by=by)
    return found, time.process_time() - start


def table(lines: Sequence[tuple[Shuffles, Answer | str]]) -> list[list[str]]:
    """One row for each question."""
    rows = [["batches", "effort", "noise", "T", "epochs", "lower", "upper", "first answer", "again"]]
    for asked, found in lines:
        head = [asked.kind, asked.effort, f"{asked.noise:g}", f"{asked.batches:,}", str(asked.epochs)]
        if isinstance(found, str):
            rows.append([*head, "-", "-", found, "-"])
        else:
            ends = f"{found.lower:.4g}", f"{found.upper:.4g}"
            rows.append([*head, *ends, milliseconds(found.first), milliseconds(found.again)])
    return rows


def summary(lines: Sequence[tuple[Shuffles, Answer | str]]) -> list[str]:
    """The slowest of each effort beside its aim."""
    said = []
    for effort, aim in AIMS.items():
        answered = [(found.first, asked) for asked, found in lines if isinstance(found, Answer)]
        times = [(seconds, asked) for seconds, asked in answered if asked.effort == effort]
        if times:
            slowest, asked = max(times, key=lambda each: each[0])
            late = sum(seconds > aim for seconds, _ in times)
            said.append(
                f"{effort.upper()}: slowest first answer {slowest:.1f} s ({asked}); aim {aim} s, "
                f"missed in {late} of {len(times)}."
            )
    return said


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then print."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="example: python benchmarks/shuffled_epochs.py --quick",
    )
    parser.add_argument("--quick", action="store_true", help="noise 4 and 1,000 batches only")
    parser.add_argument("--noises", type=float, nargs="+", default=NOISES)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="batches in one epoch")
    parser.add_argument("--epochs", type=int, nargs="+", default=EPOCHS)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one measurement")
    parser.add_argument("--json", action="store_true", help="print everything measured as JSON")
    options = parser.parse_args(arguments)
    if options.quick:
        options.noises, options.batches = (4.0,), (1000,)
    if not options.timeout > 0:
        parser.error("--timeout must be positive")
    on_one_thread()
    grid = [
        Shuffles(kind, effort, *size)
        for (kind, effort), size in product(
            [*product(KINDS, ["quick"]), ("any size", "tight")],  # elsewhere TIGHT adds little
            product(options.noises, options.batches, options.epochs),
        )
    ]
    lines = []
    for done, asked in enumerate(grid):
        progress(done, len(grid), str(asked))
        lines.append((asked, in_own_process(ask, asked, seconds=options.timeout)))
    progress(len(grid), len(grid), "")
    of = versions("tightrope", "numpy", "scipy")
    if options.json:
        rows = [
            {**asdict(asked), **({"refusal": found} if isinstance(found, str) else asdict(found))}
            for asked, found in lines
        ]
        print(json.dumps({"versions": of, "delta": DELTA, "lines": rows}, indent=1))
        return 0
    print(", ".join(f"{name} {version}" for name, version in of.items()) + "; CPU time on one thread")
    print(f"Gaussian, shuffled batches, SUBSTITUTE: epsilon at delta {DELTA:g}\n")
    print(aligned(table(lines)) + "\n")
    print("\n".join(summary(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
