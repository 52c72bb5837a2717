"""How the time of one epsilon grows with steps, rate and delta: Tightrope and its peers in one run.

Gaussian noise, Poisson sampling, ADD_OR_REMOVE. Each measurement has a process of its own on one thread and
counts CPU seconds, after a warm-up on another question and without imports; the contestants take turns at
each point. Only ratios within one run are worth quoting, and nothing here is a test.
"""

import argparse
import csv
import importlib.util
import io
import logging
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median

import tightrope as tr
from measuring import aligned, forget, in_own_process, milliseconds, on_one_thread, progress, versions
from scaling_picture import draw_picture
from tightrope.files import write_whole

ENOUGH_SECONDS = 2.0  # stop repeating a slow question
FIGURES = Path("docs/figures")


@dataclass(frozen=True)
class Point:
    """Epsilon at `delta` after `steps` Gaussian steps with Poisson sampling."""

    noise: float
    rate: float
    steps: int
    delta: float

    def __str__(self) -> str:
        return f"noise {self.noise:g}, rate {self.rate:g}, {self.steps:,} steps, delta {self.delta:g}"


CENTRE = Point(noise=0.8, rate=1e-3, steps=10_000, delta=1e-6)
WARM_UP = Point(noise=5.0, rate=0.5, steps=20, delta=1e-3)
ALONG: dict[str, tuple[float, ...]] = {
    "steps": (100, 1000, 10_000, 100_000, 1_000_000),
    "rate": (1e-4, 1e-3, 1e-2, 1e-1, 0.5),
    "delta": (1e-4, 1e-6, 1e-8, 1e-10, 1e-12),
}
QUICK_ALONG: dict[str, tuple[float, ...]] = {
    "steps": (100, 10_000, 1_000_000),
    "rate": (1e-3, 1e-2),
    "delta": (1e-6, 1e-12),
}


@dataclass(frozen=True)
class Answer:
    """CPU seconds of one epsilon and its ends, equal where only an upper one is given; or why there is none.

    `why` is in the words that are printed: a timeout, too much memory, or the error that was raised.
    """

    seconds: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    why: str = ""


@dataclass(frozen=True)
class Measured:
    """What one accountant did at one point."""

    accountant: str
    point: Point
    answer: Answer


# What is timed. Each function runs in its own process.


def ask_tightrope(point: Point, repeats: int) -> Answer:
    """A certified two-sided bracket at the default accuracy, from nothing."""

    def ask(point: Point) -> tuple[float, float]:
        run = tr.Step(tr.Gaussian(noise_multiplier=point.noise), tr.Poisson(rate=point.rate)) * point.steps
        found = tr.epsilon(run, delta=point.delta, relation=tr.ADD_OR_REMOVE)
        return found.lower, found.upper

    return _timed(ask, point, repeats)


def ask_pld(point: Point, repeats: int) -> Answer:
    """dp_accounting's pessimistic connect-the-dots at its default discretisation."""
    from dp_accounting.pld import PLDAccountant

    return _ask_dp_accounting(PLDAccountant, point, repeats)


def ask_rdp(point: Point, repeats: int) -> Answer:
    """dp_accounting's Renyi accountant at its default orders."""
    from dp_accounting.rdp import RdpAccountant

    return _ask_dp_accounting(RdpAccountant, point, repeats)


def _ask_dp_accounting(accountant: Callable[[], object], point: Point, repeats: int) -> Answer:
    import dp_accounting as peer

    logging.getLogger("absl").setLevel(logging.ERROR)  # one warning per order that does not converge

    def ask(point: Point) -> tuple[float, float]:
        step = peer.PoissonSampledDpEvent(point.rate, peer.GaussianDpEvent(point.noise))
        spent = accountant()
        spent.compose(peer.SelfComposedDpEvent(step, point.steps))  # type: ignore[attr-defined]
        epsilon = float(spent.get_epsilon(point.delta))  # type: ignore[attr-defined]
        return epsilon, epsilon

    return _timed(ask, point, repeats)


def ask_opacus_prv(point: Point, repeats: int) -> Answer:
    """Opacus's PRV accountant at its default errors: 0.01 in epsilon, a thousandth of delta."""
    return _ask_opacus("prv", point, repeats)


def ask_opacus_rdp(point: Point, repeats: int) -> Answer:
    """Opacus's Renyi accountant at its default orders."""
    return _ask_opacus("rdp", point, repeats)


def _ask_opacus(name: str, point: Point, repeats: int) -> Answer:
    warnings.simplefilter("ignore")  # that the best order is the largest or smallest one
    from opacus.accountants import create_accountant

    def ask(point: Point) -> tuple[float, float]:
        spent = create_accountant(name)
        spent.history = [(point.noise, point.rate, point.steps)]
        epsilon = float(spent.get_epsilon(delta=point.delta))
        return epsilon, epsilon

    return _timed(ask, point, repeats)


def _timed(ask: Callable[[Point], tuple[float, float]], point: Point, repeats: int) -> Answer:
    """The answer with the median time; a slow question is repeated less often."""
    ask(WARM_UP)
    answers: list[Answer] = []
    while len(answers) < repeats and sum(each.seconds for each in answers) < ENOUGH_SECONDS:
        forget()
        start = time.process_time()
        try:
            lower, upper = ask(point)
        except MemoryError:
            raise  # measuring.py says how much was allowed
        except Exception as error:
            return Answer(why=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
        answers.append(Answer(time.process_time() - start, lower, upper))
    return sorted(answers, key=lambda each: each.seconds)[(len(answers) - 1) // 2]


OURS = "Tightrope"
ACCOUNTANTS: dict[str, Callable[[Point, int], Answer]] = {
    OURS: ask_tightrope,
    "PLD": ask_pld,
    "Opacus PRV": ask_opacus_prv,
    "RDP": ask_rdp,
    "Opacus RDP": ask_opacus_rdp,
}
PACKAGES = {
    "PLD": "dp_accounting",
    "RDP": "dp_accounting",
    "Opacus PRV": "opacus",
    "Opacus RDP": "opacus",
}


# Running and showing it.


def points_along(along: dict[str, tuple[float, ...]], centre: Point) -> list[Point]:
    """Every point of the three lines through the centre, once."""
    moved = [
        replace(centre, **{axis: type(getattr(centre, axis))(value)})
        for axis, values in along.items()
        for value in values
    ]
    return list(dict.fromkeys(moved))


def measure(points: Sequence[Point], names: Sequence[str], repeats: int, seconds: float) -> list[Measured]:
    """All points, each answered by everyone in turn."""
    measured = []
    for done, point in enumerate(points):
        for name in names:
            progress(done, len(points), f"{point}: {name}")
            answer = in_own_process(ACCOUNTANTS[name], point, repeats, seconds=seconds)
            measured.append(Measured(name, point, Answer(why=answer) if isinstance(answer, str) else answer))
    progress(len(points), len(points), "")
    return measured


def times(measured: Sequence[Measured]) -> list[list[str]]:
    """One line per point: everyone's time, and how many times Tightrope's it is."""
    names = list(dict.fromkeys(each.accountant for each in measured))
    ratios = [word for name in names[1:] for word in (name, "/ Tightrope")]
    rows = [["noise", "rate", "steps", "delta", *names[:1], *ratios]]
    for point, found in _by_point(measured):
        row = [*_name(point), _write_time(found[OURS])]
        for name in names[1:]:
            answer = found[name]
            row += [_write_time(answer), "-" if answer.why else f"{_ratio(found, name):.1f}"]
        rows.append(row)
    return rows


def errors(measured: Sequence[Measured]) -> list[list[str]]:
    """One line per point: Tightrope's bracket, and how far each peer certainly lies outside of it."""
    names = list(dict.fromkeys(each.accountant for each in measured))
    rows = [["noise", "rate", "steps", "delta", "Tightrope", "width", *names[1:]]]
    for point, found in _by_point(measured):
        ours = found[OURS]
        row = [*_name(point), f"{ours.upper:.6g}", f"{ours.upper - ours.lower:.0e}"]
        rows.append([*row, *(_write_error(ours, found[name]) for name in names[1:])])
    return rows


def summary(measured: Sequence[Measured]) -> list[str]:
    """Ratios of each peer, and why answers are missing."""
    said = []
    for name in dict.fromkeys(each.accountant for each in measured if each.accountant != OURS):
        both = [(_ratio(found, name), point) for point, found in _by_point(measured) if not found[name].why]
        both = [(ratio, point) for ratio, point in both if not math.isnan(ratio)]
        if both:
            (least, where), ratios = min(both, key=lambda each: each[0]), [ratio for ratio, _ in both]
            said.append(
                f"{name} time / Tightrope time: median {median(ratios):.1f}, smallest {least:.2f} ({where}), "
                f"largest {max(ratios):,.0f}; Tightrope is slower in {sum(each < 1 for each in ratios)} of "
                f"{len(both)}."
            )
    said += [
        f"{each.accountant} gave no answer ({each.point}): {each.answer.why}."
        for each in measured
        if each.answer.why
    ]
    return said


def _by_point(measured: Iterable[Measured]) -> list[tuple[Point, dict[str, Answer]]]:
    found: dict[Point, dict[str, Answer]] = {}
    for each in measured:
        found.setdefault(each.point, {})[each.accountant] = each.answer
    return list(found.items())


def _name(point: Point) -> list[str]:
    return [f"{point.noise:g}", f"{point.rate:g}", f"{point.steps:,}", f"{point.delta:g}"]


def _ratio(found: dict[str, Answer], name: str) -> float:
    return found[name].seconds / found[OURS].seconds


def _write_time(answer: Answer) -> str:
    if not answer.why:
        return milliseconds(answer.seconds)
    return next((word for word in ("timeout", "memory") if word in answer.why), "none")


def _write_error(ours: Answer, peer: Answer) -> str:
    """Above the bracket, below it (so no valid guarantee), or within."""
    if peer.why or ours.why:
        return "-"
    if math.isinf(peer.upper):
        return "infinite"
    if peer.upper > ours.upper:
        return f"{peer.upper - ours.upper:+.1e}"
    return f"{peer.upper - ours.lower:+.1e}" if peer.upper < ours.lower else "within"


# The numbers as a file, from which the picture can be drawn again.


def write_csv(measured: Sequence[Measured], to: Path) -> None:
    text = io.StringIO()
    columns = ["accountant", *(each.name for part in (Point, Answer) for each in fields(part))]
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for each in measured:
        writer.writerow({"accountant": each.accountant, **asdict(each.point), **asdict(each.answer)})
    write_whole(to, text.getvalue().encode(), what="the times")


def read_csv(path: Path) -> list[Measured]:
    with path.open(newline="", encoding="utf-8") as lines:
        return [
            Measured(
                row["accountant"],
                Point(float(row["noise"]), float(row["rate"]), int(row["steps"]), float(row["delta"])),
                Answer(float(row["seconds"]), float(row["lower"]), float(row["upper"]), row["why"]),
            )
            for row in csv.DictReader(lines)
        ]


def plot(measured: Sequence[Measured], folder: Path) -> None:
    """Write scaling.png and scaling.pdf."""
    lines = {
        (axis, name): [
            (float(getattr(each.point, axis)), each.answer.seconds, each.answer.why)
            for each in sorted(measured, key=lambda each: float(getattr(each.point, axis)))
            if each.accountant == name and replace(each.point, **{axis: getattr(CENTRE, axis)}) == CENTRE
        ]
        for axis in ALONG
        for name in dict.fromkeys(each.accountant for each in measured)
    }
    draw_picture(lines, centre=asdict(CENTRE), folder=folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then print; draw if asked."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], epilog="example: make scaling"
    )
    parser.add_argument("--quick", action="store_true", help="five points instead of thirteen")
    parser.add_argument("--repeats", type=int, default=3, help="how often each is timed (default 3)")
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        help="seconds of the clock after which one measurement is given up (default 60)",
    )
    parser.add_argument("--noise", type=float, default=CENTRE.noise, help="of every point (default 0.8)")
    parser.add_argument(
        "--rate", type=float, default=CENTRE.rate, help="of the points along steps and delta (default 0.001)"
    )
    parser.add_argument("--plot", action="store_true", help=f"write scaling.png, .pdf and .csv to {FIGURES}")
    parser.add_argument("--redraw", action="store_true", help="draw from the csv; nothing is measured")
    options = parser.parse_args(arguments)
    centre = replace(CENTRE, noise=options.noise, rate=options.rate)
    if options.repeats < 1 or not options.timeout > 0:
        parser.error("--repeats and --timeout must be positive")
    if options.plot and (options.quick or centre != CENTRE):
        parser.error("--plot is for the whole default run: leave out --quick, --noise and --rate")
    if options.redraw:
        plot(read_csv(FIGURES / "scaling.csv"), FIGURES)
        return 0
    on_one_thread()
    absent = {package for package in PACKAGES.values() if importlib.util.find_spec(package) is None}
    names = [name for name in ACCOUNTANTS if PACKAGES.get(name) not in absent]
    points = points_along(QUICK_ALONG if options.quick else ALONG, centre)
    measured = measure(points, names, options.repeats, options.timeout)
    present = [
        package.replace("_", "-") for package in dict.fromkeys(PACKAGES.values()) if package not in absent
    ]
    said = versions("tightrope", *present, "numpy", "scipy")
    print(", ".join(f"{name} {version}" for name, version in said.items()) + "; CPU time on one thread")
    print("Gaussian, Poisson sampling, ADD_OR_REMOVE: one epsilon from nothing")
    print("\n" + aligned(times(measured)))
    print("\nEpsilon, the width of the bracket, and how far the peers certainly lie outside of it")
    print(aligned(errors(measured)) + "\n")
    print("\n".join(summary(measured)))
    for package in sorted(absent):
        print(f"{package} is not installed, so its accountants are left out.")
    if options.plot:
        write_csv(measured, FIGURES / "scaling.csv")
        plot(measured, FIGURES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
