"""python -m fuzz: ask many random questions, and write down every answer that something contradicts."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import TextIO

from fuzz.ask import KINDS, LIMIT, Result, judge
from fuzz.summary import Summary
from fuzz.verdict import CRASHED, DISAGREES, TOO_SLOW
from fuzz.workers import ask_all

TOLD = (DISAGREES, CRASHED, TOO_SLOW)  # what a line is written for
EVERY = 5.0  # seconds between two lines of progress


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if nothing disagrees, else 1."""
    options = _read(arguments)
    if options.replay is not None:
        return replay(options.replay, options.limit)
    with options.out.open("a") if options.out else nullcontext(sys.stdout) as lines:
        return fuzz(options, lines)


def fuzz(options: argparse.Namespace, lines: TextIO) -> int:
    """Ask, write a line for every disagreement, and print the counts; 1 if there are any."""
    summary, start = Summary(), time.monotonic()
    until = start + options.hours * 3600 if options.hours else float("inf")
    shown = start
    asked = _indices(options.start, options.n, until)
    kinds = tuple(options.kind or KINDS)
    try:
        for result in ask_all(options.seed, asked, kinds, options.workers, options.limit):
            summary.count(result)
            if result.verdict.status in TOLD:
                print(json.dumps(result.plain()), file=lines, flush=True)
            if time.monotonic() - shown > EVERY:
                shown = time.monotonic()
                print(summary.in_one_line(shown - start), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    print(summary.table(time.monotonic() - start))
    return int(summary.disagrees)


def _indices(start: int, questions: int | None, until: float) -> Iterator[int]:
    for index in count(start):
        if (questions is not None and index >= start + questions) or time.monotonic() > until:
            return
        yield index


def replay(what: str, limit: float) -> int:
    """Ask again the questions of a file, or of one line, and say how they fare now."""
    text = what if what.lstrip().startswith("{") else Path(what).read_text()
    disagree = 0
    for line in filter(str.strip, text.splitlines()):
        told = json.loads(line)
        start = time.process_time()
        verdict = judge(told["kind"], told["question"], limit)
        seconds = time.process_time() - start
        result = Result(told["seed"], told["index"], told["kind"], told["question"], verdict, seconds)
        print(json.dumps({**result.plain(), "before": told["status"]}))
        disagree += verdict.status in (DISAGREES, CRASHED)
    return int(disagree > 0)


def _read(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--n", type=int, default=None, help="how many (2000 unless --hours is given)")
    parser.add_argument("--seed", type=int, default=0, help="which questions")
    parser.add_argument("--hours", type=float, default=None, help="stop after so long instead")
    parser.add_argument("--start", type=int, default=0, help="the index of the first question")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="these kinds only")
    parser.add_argument("--out", type=Path, default=None, help="a file for disagreements, appended to")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of CPU for one question")
    parser.add_argument("--replay", metavar="FILE|LINE", help="ask the questions of a report again")
    options = parser.parse_args(arguments)
    if options.n is None and options.hours is None:
        options.n = 2000
    return options


if __name__ == "__main__":
    sys.exit(main())
