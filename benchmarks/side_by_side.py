"""Tightrope and dp_accounting side by side: time, epsilon and error on one grid, all within one run.

Each measurement has a process of its own on one thread and counts CPU seconds, after a warm-up on another
question and without imports. Times depend on the machine: only ratios within one run are worth quoting, and
nothing here is a test.
"""

import argparse
import importlib.util
import json
import logging
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import tightrope as tr
from measuring import aligned, forget, in_own_process, milliseconds, on_one_thread, progress, versions

ACCURACY = 1e-3  # relative width in delta
PLD_DELTAS = (1e-6, 1e-12)  # below about 1e-13 its answer is infinite: asked once, at the headline case
ENOUGH_SECONDS = 3.0  # stop repeating a slow question


@dataclass(frozen=True)
class Case:
    """`steps` Gaussian steps with Poisson sampling under ADD_OR_REMOVE."""

    noise: float
    rate: float
    steps: int

    def __str__(self) -> str:
        return f"noise {self.noise:g}, rate {self.rate:g}, {self.steps:,} steps"


HEADLINE = Case(0.8, 1e-3, 10_000)
GRID = (
    Case(1, 0.01, 1000),
    Case(0.6, 1e-3, 100_000),
    Case(4, 0.05, 1000),
    Case(10, 0.5, 100),
    Case(0.5, 1e-4, 10_000),
    Case(1, 0.01, 1_000_000),
    Case(2, 1, 100),
    HEADLINE,
    Case(0.4, 1e-3, 10_000),
)
DELTAS = (1e-6, 1e-12, 1e-20, 1e-50)
GROWING = tuple(
    Case(noise, rate, 10**power) for noise, rate in ((0.8, 1e-3), (1, 0.01)) for power in range(2, 7)
)
QUICK_GRID = (GRID[0], GRID[2], HEADLINE)
QUICK_DELTAS = (1e-6, 1e-20)


@dataclass(frozen=True)
class Answer:
    """One epsilon: upper end, lower end if there is one, seconds it took; or why there is none."""

    seconds: float = math.nan
    upper: float = math.nan
    lower: float | None = None
    refusal: str = ""


@dataclass(frozen=True)
class Line:
    """One case at one delta, answered by everyone."""

    case: Case
    delta: float
    tightrope: Answer
    pld: Answer
    rdp: Answer

    def time_ratio(self, peer: Answer) -> float:
        """How many times longer the peer took; nan where one of the two gave no answer."""
        return math.nan if peer.refusal or self.tightrope.refusal else peer.seconds / self.tightrope.seconds

    def error(self, peer: Answer) -> float:
        """How far the peer's epsilon is certainly off: above the bracket, or below it (negative, unsafe)."""
        if peer.refusal or self.tightrope.refusal:
            return math.nan
        lower, upper = self.tightrope.lower or 0.0, self.tightrope.upper
        return peer.upper - upper if peer.upper > upper else min(peer.upper - lower, 0.0)

    def error_ratio(self, peer: Answer) -> float:
        """The peer's error over the width of the bracket."""
        width = self.tightrope.upper - (self.tightrope.lower or 0.0)
        return abs(self.error(peer)) / width if width else math.inf


@dataclass(frozen=True)
class Queries:
    """Seconds of one delta(epsilon) on a curve that has answered before: close by, and elsewhere."""

    nearby: float = math.nan
    elsewhere: float = math.nan
    slowest: float = math.nan
    refusal: str = ""


# What is timed. Each function runs in its own process.


def ask_tightrope(case: Case, deltas: Sequence[float], repeats: int) -> list[Answer]:
    """A fresh run, curve and bracket each time: nothing is kept between repeats."""

    def ask(case: Case, delta: float) -> Answer:
        forget()
        start = time.process_time()
        try:
            bracket = _curve(case).epsilon(delta)
        except tr.NotPreciseEnough as refusal:
            return Answer(time.process_time() - start, refusal=str(refusal))
        return Answer(time.process_time() - start, bracket.upper, bracket.lower)

    ask(Case(5, 0.5, 20), 1e-3)
    return [_median(partial(ask, case, delta), repeats) for delta in deltas]


def ask_pld(case: Case, deltas: Sequence[float], repeats: int) -> list[Answer]:
    """dp_accounting's pessimistic connect-the-dots, default discretisation, a fresh accountant each time."""
    from dp_accounting.pld import PLDAccountant

    return _ask_peer(PLDAccountant, case, deltas, repeats)


def ask_rdp(case: Case, deltas: Sequence[float], repeats: int) -> list[Answer]:
    """dp_accounting's Renyi accountant at its default orders, a fresh accountant each time."""
    from dp_accounting.rdp import RdpAccountant

    return _ask_peer(RdpAccountant, case, deltas, repeats)


def _ask_peer(
    accountant: Callable[..., Any], case: Case, deltas: Sequence[float], repeats: int
) -> list[Answer]:
    import dp_accounting as peer

    logging.getLogger("absl").setLevel(logging.ERROR)  # one warning per order that does not converge

    def ask(case: Case, delta: float) -> Answer:
        start = time.process_time()
        step = peer.PoissonSampledDpEvent(case.rate, peer.GaussianDpEvent(case.noise))
        spent = accountant(neighboring_relation=peer.NeighboringRelation.ADD_OR_REMOVE_ONE)
        spent.compose(peer.SelfComposedDpEvent(step, case.steps))
        epsilon = float(spent.get_epsilon(delta))
        return Answer(time.process_time() - start, epsilon)

    ask(Case(5, 0.5, 20), 1e-3)
    return [_median(partial(ask, case, delta), repeats) for delta in deltas]


def query_curve(case: Case, repeats: int) -> Queries:
    """One curve, first asked at delta 1e-6, then close by and at epsilons of deltas from 1e-2 to 1e-12."""
    try:
        goals = [_curve(case).epsilon(10.0**-power).upper for power in (2, 4, 8, 10, 12)]
        forget()  # the curve below has answered one question, not these
        curve = _curve(case)
        centre = curve.epsilon(1e-6).upper
        nearby = [_seconds(partial(curve.delta, at)) for at in _around(centre, repeats)]
        elsewhere = [_seconds(partial(curve.delta, at)) for at in goals]
    except tr.NotPreciseEnough as refusal:
        return Queries(refusal=str(refusal))
    return Queries(statistics.median(nearby), statistics.median(elsewhere), max(elsewhere))


def _around(centre: float, count: int) -> list[float]:
    """Distinct epsilons within a thousandth of `centre`."""
    return [centre * (1 + 1e-3 * (i + 1) / count) for i in range(count)]


def _curve(case: Case) -> tr.PrivacyCurve:
    run = tr.Step(tr.Gaussian(noise_multiplier=case.noise), tr.Poisson(rate=case.rate)) * case.steps
    return tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE, by=tr.Certified(accuracy=ACCURACY))


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _median(ask: Callable[[], Answer], repeats: int) -> Answer:
    """The answer with the median time; a slow question is repeated less often."""
    answers: list[Answer] = []
    while len(answers) < repeats and sum(answer.seconds for answer in answers) < ENOUGH_SECONDS:
        answers.append(ask())
    return sorted(answers, key=lambda answer: answer.seconds)[(len(answers) - 1) // 2]


# Running it.


def measure(
    options: argparse.Namespace,
) -> tuple[list[Line], dict[Case, Queries], dict[Case, Answer], Answer]:
    """The grid, queries on existing curves, growth with the number of steps, and the peer below its floor."""
    grid, deltas = (QUICK_GRID, QUICK_DELTAS) if options.quick else (GRID, DELTAS)
    growing = [case for case in GROWING if not options.quick or case.steps in (100, 10_000, 1_000_000)]
    work = len(grid) + len(growing)

    def answers(
        ask: Callable[..., list[Answer]], case: Case, deltas: Sequence[float], repeats: int
    ) -> dict[float, Answer]:
        if not deltas:
            return {}
        found = in_own_process(ask, case, deltas, repeats, seconds=options.timeout)
        return {
            delta: Answer(refusal=found) if isinstance(found, str) else found[i]
            for i, delta in enumerate(deltas)
        }

    lines, queries = [], {}
    for done, case in enumerate(grid):
        progress(done, work, str(case))
        ours = answers(ask_tightrope, case, deltas, options.repeats)
        pld = answers(ask_pld, case, [delta for delta in deltas if delta in PLD_DELTAS], 1)
        rdp = answers(ask_rdp, case, deltas, options.repeats)
        not_asked = Answer(refusal="not asked")
        lines += [Line(case, delta, ours[delta], pld.get(delta, not_asked), rdp[delta]) for delta in deltas]
        found = in_own_process(query_curve, case, options.repeats, seconds=options.timeout)
        queries[case] = Queries(refusal=found) if isinstance(found, str) else found
    growth = {}
    for done, case in enumerate(growing, start=len(grid)):
        progress(done, work, str(case))
        growth[case] = answers(ask_tightrope, case, [1e-6], options.repeats)[1e-6]
    progress(work, work, "dp_accounting below its floor")
    floor = answers(ask_pld, HEADLINE, [1e-20], 1)[1e-20]
    progress(work, work, "")
    return lines, queries, growth, floor


# Showing it.


def times_table(lines: Iterable[Line]) -> list[list[str]]:
    rows = [
        ["noise", "rate", "steps", "delta", "Tightrope", "PLD", "RDP", "PLD / Tightrope", "RDP / Tightrope"]
    ]
    for line in lines:
        times = [_time(answer) for answer in (line.tightrope, line.pld, line.rdp)]
        rows.append(
            [*_head(line), *times, *(_number(line.time_ratio(peer), ".1f") for peer in (line.pld, line.rdp))]
        )
    return rows


def errors_table(lines: Iterable[Line]) -> list[list[str]]:
    heading = [
        "noise",
        "rate",
        "steps",
        "delta",
        "epsilon (Tightrope)",
        "width",
        "PLD error",
        "/ width",
        "RDP error",
        "/ width",
    ]
    rows = [heading]
    for line in lines:
        ours = line.tightrope
        bracket = None if ours.refusal else tr.Bracket(ours.lower or 0.0, ours.upper)
        row = [
            *_head(line),
            str(bracket) if bracket else "refused",
            f"{bracket.relative_width:.0e}" if bracket else "-",
        ]
        for peer in (line.pld, line.rdp):
            error = line.error(peer)
            row += (
                ["inside", "-"]
                if error == 0
                else [_number(error, "+.1e"), _number(line.error_ratio(peer), ".2g")]
            )
        rows.append(row)
    return rows


def queries_table(queries: dict[Case, Queries]) -> list[list[str]]:
    rows = [["noise", "rate", "steps", "nearby", "elsewhere", "slowest"]]
    for case, found in queries.items():
        times = [found.nearby, found.elsewhere, found.slowest]
        shown = ["refused"] * 3 if found.refusal else [milliseconds(seconds) for seconds in times]
        rows.append([f"{case.noise:g}", f"{case.rate:g}", f"{case.steps:,}", *shown])
    return rows


def growth_table(growth: dict[Case, Answer]) -> list[list[str]]:
    settings = list(dict.fromkeys((case.noise, case.rate) for case in growth))
    steps = list(dict.fromkeys(case.steps for case in growth))
    rows = [["noise", "rate", *(f"{count:,} steps" for count in steps)]]
    for noise, rate in settings:
        rows.append(
            [f"{noise:g}", f"{rate:g}", *(_time(growth[Case(noise, rate, count)]) for count in steps)]
        )
    return rows


def summary(lines: Sequence[Line], floor: Answer) -> list[str]:
    """What the tables come to."""
    said = []
    for name, side in (("PLD", "pld"), ("RDP", "rdp")):
        ratios = [(line.time_ratio(getattr(line, side)), line) for line in lines]
        ratios = [(ratio, line) for ratio, line in ratios if not math.isnan(ratio)]
        if not ratios:
            said.append(f"{name}: no case was answered by both.")
            continue
        least, where = min(ratios, key=lambda pair: pair[0])
        slower = sum(ratio < 1 for ratio, _ in ratios)
        middle = statistics.median(ratio for ratio, _ in ratios)
        said.append(
            f"{name} time / Tightrope time: median {middle:.1f}, "
            f"smallest {least:.2f} ({where.case}, delta {where.delta:g}); "
            f"Tightrope is slower in {slower} of {len(ratios)}."
        )
        errors = [line.error(getattr(line, side)) for line in lines]
        below, answered = sum(error < 0 for error in errors), sum(not math.isnan(error) for error in errors)
        excess = statistics.median(error for error in errors if not math.isnan(error))
        said.append(
            f"{name} epsilon: median error {excess:+.1e}; "
            f"below the certified lower end in {below} of {answered}."
        )
    below_floor = floor.refusal or f"{floor.upper:g}"
    said.append(
        f"PLD at delta 1e-20 ({HEADLINE}): epsilon {below_floor}; so it is asked at 1e-6 and 1e-12 only."
    )
    for line in lines:
        for name, answer in (("Tightrope", line.tightrope), ("PLD", line.pld), ("RDP", line.rdp)):
            if answer.refusal and answer.refusal != "not asked":
                after = "" if math.isnan(answer.seconds) else f" after {milliseconds(answer.seconds)}"
                said.append(
                    f"{name} gave no answer{after} ({line.case}, delta {line.delta:g}): {answer.refusal}"
                )
    return said


def _head(line: Line) -> list[str]:
    return [f"{line.case.noise:g}", f"{line.case.rate:g}", f"{line.case.steps:,}", f"{line.delta:g}"]


def _time(answer: Answer) -> str:
    if answer.refusal:
        return (
            "-"
            if answer.refusal == "not asked"
            else answer.refusal
            if len(answer.refusal) < 20
            else "refused"
        )
    return milliseconds(answer.seconds)


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then print."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], epilog="example: make bench"
    )
    parser.add_argument("--quick", action="store_true", help="three cases, two deltas, three repeats")
    parser.add_argument(
        "--json", action="store_true", help="print everything measured as JSON instead of tables"
    )
    parser.add_argument(
        "--repeats", type=int, help="how often Tightrope and RDP are timed; the median counts (default 7)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        help="seconds after which one measurement is given up (default 120)",
    )
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or (3 if options.quick else 7)
    if options.repeats < 1 or not options.timeout > 0:
        parser.error("--repeats and --timeout must be positive")
    if importlib.util.find_spec("dp_accounting") is None:
        parser.error("dp_accounting is not installed; run make bench, or pip install -e '.[bench]'")
    on_one_thread()
    lines, queries, growth, floor = measure(options)
    if options.json:
        record = {
            "versions": versions("tightrope", "dp-accounting", "numpy", "scipy"),
            "accuracy": ACCURACY,
            "lines": [asdict(line) for line in lines],
            "queries": [{**asdict(case), **asdict(found)} for case, found in queries.items()],
            "growth": [{**asdict(case), **asdict(answer)} for case, answer in growth.items()],
            "pld_at_1e-20": asdict(floor),
        }
        print(json.dumps(_plain(record), indent=1, allow_nan=False))
        return 0
    print(
        ", ".join(
            f"{name} {version}"
            for name, version in versions("tightrope", "dp-accounting", "numpy", "scipy").items()
        )
        + "; CPU time on one thread"
    )
    worth = f"Tightrope: two-sided, accuracy {ACCURACY:g}; peers: upper end only"
    print(f"Gaussian, Poisson sampling, ADD_OR_REMOVE. {worth}.")
    print("\nTime of one epsilon from nothing\n" + aligned(times_table(lines)))
    print(
        "\nEpsilon, width relative to epsilon, and how far the peers' epsilons lie outside the bracket\n"
        + aligned(errors_table(lines))
    )
    print("\nTime of one delta on a curve that has answered before\n" + aligned(queries_table(queries)))
    print(
        "\nTime of one epsilon at delta 1e-6 against the number of steps\n"
        + aligned(growth_table(growth))
        + "\n"
    )
    print("\n".join(summary(lines, floor)))
    return 0


def _plain(value: Any) -> Any:
    """JSON has no infinity and no nan: the first as a string, the second as null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


if __name__ == "__main__":
    sys.exit(main())
