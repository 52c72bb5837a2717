"""How much noise a privacy target needs, against the sampling rate: Fig. 2 of Lebeda, Regehr, Kamath and Steinke (2024)."""

import argparse
import csv
import io
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import tightrope as tr
from tightrope.cli.progress import watched
from tightrope.numerics.files import write_whole
from tightrope.report.plot import checked_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RELATION = tr.ADD_OR_REMOVE
POISSON, WITHOUT_REPLACEMENT = "poisson", "without-replacement"
LINES = ((POISSON, 1.0), (POISSON, 2.0), (POISSON, 5.0), (POISSON, 10.0), (WITHOUT_REPLACEMENT, 10.0))
POPULATION = 1_000_000
COLUMNS = ("sampling", "epsilon", "rate", "noise", "misses_below", "gap")

# from light to dark with epsilon, and Okabe and Ito's vermilion: apart for people who confuse colours, and in grey
COLOURS = dict(zip(LINES, ("#5ba3d0", "#2b7bba", "#0b559f", "#08264f", "#d55e00"), strict=True))
INK, GREY = "#2b333a", "#5f6b76"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.0,
    "axes.edgecolor": "#3b444c",
    "axes.linewidth": 0.8,
}


@dataclass(frozen=True)
class Point:
    """The smallest noise for one epsilon at one rate, certified on both sides."""

    sampling: str
    epsilon: float
    rate: float
    found: tr.Calibration[float]


def batches(count: int) -> list[int]:
    """Batches out of POPULATION whose rates run geometrically from 1e-4 to 1.

    Under add or remove a batch of fixed size must leave out a record, so the last one holds all but one. Poisson sampling
    is asked at the same rate, batch / POPULATION, so that the two can be compared to the last bit.
    """
    return [min(round(float(rate) * POPULATION), POPULATION - 1) for rate in np.geomspace(1e-4, 1, count)]


def drawn(sampling: str, batch: int) -> tr.Poisson | tr.WithoutReplacement:
    """The sampling of a line of the figure at one batch."""
    if sampling == POISSON:
        return tr.Poisson(rate=batch / POPULATION)
    return tr.WithoutReplacement(batch=batch, population=POPULATION)


def calibrated(count: int, steps: int, delta: float) -> list[Point]:
    """Every point of the figure, line by line."""
    work = [(sampling, epsilon, batch) for sampling, epsilon in LINES for batch in batches(count)]
    if not sys.stderr.isatty():
        print(f"{len(work)} calibrations, some seconds", file=sys.stderr)
    points = []
    for sampling, epsilon, batch in watched(work, "Calibrating"):
        found = tr.smallest_noise(drawn(sampling, batch), steps=steps, epsilon=epsilon, delta=delta, relation=RELATION)
        points.append(Point(sampling, epsilon, batch / POPULATION, found))
    return points


def doubling(points: Sequence[Point], steps: int, delta: float) -> str:
    """How often fixed batches need, to the last bit, twice the noise of Poisson batches, and spend the same epsilon with it."""
    of = {(point.sampling, point.epsilon, point.rate): point.found.value for point in points}
    epsilon, sizes = LINES[-1][1], batches(len(points) // len(LINES))
    doubled = same = 0
    for batch in sizes:
        poisson, fixed = (of[sampling, epsilon, batch / POPULATION] for sampling in (POISSON, WITHOUT_REPLACEMENT))
        doubled += fixed == 2 * poisson
        spent = [
            tr.epsilon(
                tr.Step(tr.Gaussian(noise_multiplier=noise), drawn(sampling, batch)) * steps, delta=delta, relation=RELATION
            )
            for sampling, noise in ((POISSON, poisson), (WITHOUT_REPLACEMENT, 2 * poisson))
        ]
        same += spent[0] == spent[1]
    return (
        f"Without replacement needs exactly twice the noise of Poisson sampling: the calibrated noise is doubled to the last bit "
        f"at {doubled} of {len(sizes)} rates, and doubled noise costs the same epsilon to the last bit at {same} of {len(sizes)}."
    )


def worst_gap(points: Iterable[Point]) -> float:
    """By how much, relative to itself, some noise of the figure may lie above the optimum."""
    return max(point.found.gap for point in points)


def table(points: Iterable[Point]) -> bytes:
    """The points as CSV; floats are written so that they are read back exactly."""
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for point in points:
        beyond = "" if point.found.beyond is None else point.found.beyond
        rows.writerow([point.sampling, point.epsilon, point.rate, point.found.value, beyond, point.found.gap])
    return text.getvalue().encode()


def picture(points: Sequence[Point], steps: int, delta: float) -> bytes:
    """The figure as PNG."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 4.8), layout="constrained")
        axes = figure.add_subplot()
        for line in LINES:
            draw_line(axes, *line, [point for point in points if (point.sampling, point.epsilon) == line])
        setting = f"{steps:,} steps, δ = {Decimal(repr(delta)):e}, add or remove one record"
        frame(axes, f"{setting}; relative excess at most {at_most(worst_gap(points))}")
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=200)
    return image.getvalue()


def at_most(value: float) -> str:
    """Two digits, rounded up."""
    return f"{Context(prec=2, rounding=ROUND_CEILING).create_decimal_from_float(value):e}"


def draw_line(axes: "Axes", sampling: str, epsilon: float, points: Sequence[Point]) -> None:
    """One line with its name at an end where it has room."""
    rates, noises = [point.rate for point in points], [point.found.value for point in points]
    fixed, colour = sampling == WITHOUT_REPLACEMENT, COLOURS[sampling, epsilon]
    axes.plot(rates, noises, color=colour, linewidth=2, linestyle=(0, (5, 1.6)) if fixed else "-", zorder=3 if fixed else 2)
    if not fixed:
        words, at, place, align = f"Poisson, ε = {epsilon:g}", -1, (7.0, 0.0), "center"
    else:  # its right end lies on another line, the upper left is empty
        words = f"without replacement, ε = {epsilon:g}:\nexactly twice the noise\nof Poisson sampling"
        at, place, align = len(points) // 10, (-14.0, 52.0), "bottom"
    leader: dict[str, Any] = {"arrowstyle": "-", "color": colour, "linewidth": 0.8, "relpos": (0.1, 0.0), "shrinkB": 3}
    text: dict[str, Any] = {"color": colour, "fontsize": 9, "fontweight": "bold", "va": align, "annotation_clip": False}
    where: dict[str, Any] = {"xytext": place, "textcoords": "offset points", "arrowprops": leader if fixed else None}
    axes.annotate(words, (rates[at], noises[at]), **where, **text)


def frame(axes: "Axes", assumed: str) -> None:
    """Axes, grid and title."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1e-4, 1)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("sampling rate")
    axes.set_ylabel("smallest noise multiplier")
    axes.grid(color="#e3e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", color=GREY, labelcolor=INK)
    axes.set_title("Noise that a privacy target needs", loc="left", fontsize=11, fontweight="bold", pad=22)
    axes.text(0, 1.02, assumed, transform=axes.transAxes, fontsize=8.5, color=GREY, va="bottom")


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: make figure-2")
    parser.add_argument("--out", type=Path, default=Path("figures"), metavar="DIR", help="folder to write to (default figures)")
    parser.add_argument("--steps", type=int, default=10_000, help="number of steps (default 10000)")
    parser.add_argument("--delta", type=float, default=1e-6, help="failure probability (default 1e-6)")
    parser.add_argument("--rates", type=int, default=30, metavar="N", help="rates on each line, at least 2 (default 30)")
    asked = parser.parse_args(arguments)
    if asked.rates < 2:
        parser.error("--rates must be at least 2")
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Calibrate, say what was found, write the picture and the numbers."""
    asked = options(arguments)
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        image, numbers = checked_target(asked.out / "figure-2.png"), asked.out / "figure-2.csv"
        start = time.perf_counter()
        points = calibrated(asked.rates, asked.steps, asked.delta)
        print(f"{len(points)} calibrations in {time.perf_counter() - start:.1f} s.")
        print(f"Worst gap: less noise by {at_most(worst_gap(points))} of it certainly misses the target.")
        print(doubling(points, asked.steps, asked.delta))
        write_whole(numbers, table(points), what="the table")
        write_whole(image, picture(points, asked.steps, asked.delta), what="the picture")
    except (tr.TightropeError, OSError) as refusal:
        print(f"figure_2: {refusal}", file=sys.stderr)
        return 2
    print(f"Written: {image}, {numbers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
