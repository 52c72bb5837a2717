"""Which fixed adversary is worst depends on epsilon: Fig. 3 of Lebeda, Regehr, Kamath and Steinke (2024), with its crossings.

Laplace noise of scale 2, one record out of two, two steps under SUBSTITUTE. P is the output of a step with the differing
record, Q without it; up to translation and scale, Q is Laplace noise and P = (Q + Q moved by 1) / 2.
"""

import argparse
import csv
import io
import math
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import tightrope as tr
from tightrope.compose.engine import Composition  # a fixed split is no run of the public interface
from tightrope.numerics.files import write_whole
from tightrope.pairs.schedule import Schedule
from tightrope.report.plot import checked_target
from tightrope.theorems.worst_pairs import step_laws

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

MECHANISM, SAMPLING, STEPS = tr.Laplace(noise_multiplier=2), tr.WithoutReplacement(batch=1, population=2), 2
LEAST, MOST = (1 + math.exp(-1)) / 2, (1 + math.e) / 2  # the likelihood ratio P / Q of a step lies between them
END = 2 * math.log(MOST)  # of the curve that ends last
SETTLED = math.log(MOST)  # from here on a second step never starts beyond epsilon, and playing REMOVE twice is best of all
ROUNDING = 1e-13  # more than the terms of a sum below and the sum itself can be off: some 16 units of roundoff of 1 + t each
CELLS = (1 << 8, 1 << 12, 1 << 16)  # coarse ones tell most curves apart
FINEST = 1e-11  # steps between epsilons
NEAR_0 = 0.01  # below, the pure directions are told apart by their slopes

# Okabe and Ito's colours: apart for people who confuse colours
INK, GREY = "#2b333a", "#5f6b76"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.0,
    "axes.edgecolor": "#3b444c",
    "axes.linewidth": 0.8,
    "mathtext.fontset": "dejavusans",
}

DOTTED, DASHED = (0, (1, 1.4)), (0, (5, 1.6))


def remove_step(p: Floats, q: Floats, t: float) -> Floats:
    """p H_{tq/p}(P||Q): what a last step (P, Q) gains where the outputs so far have masses p and q."""
    inside = (p - np.sqrt(np.maximum((2 * t * q - p) * p, 0) / math.e)) / 2
    return np.where(t * q <= LEAST * p, p - t * q, np.where(t * q >= MOST * p, 0.0, inside))


def add_step(p: Floats, q: Floats, t: float) -> Floats:
    """p H_{tq/p}(Q||P): the same for a last step (Q, P)."""
    inside = p - t * q / 2 - np.sqrt(np.maximum((2 * p - t * q) * t * q, 0) / math.e) / 2
    return np.where(MOST * t * q <= p, p - t * q, np.where(LEAST * t * q >= p, 0.0, inside))


@cache
def first_step(cells: int) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Masses (under P, under Q) of the first output: merged within cells, and spread onto the cells' ends.

    The ratio P / Q is LEAST below 0, MOST above 1 and grows in between. Merging is a post-processing, and spreading a
    mean-preserving spread of the ratio, so that their divergences enclose the true one.
    """
    width = 1 / cells
    left = np.arange(cells) * width  # exact: a power of 2
    q = np.exp(-left) * -math.expm1(-width) / 2
    p = (q + np.exp(left - 1) * math.expm1(width) / 2) / 2
    tails_q = np.array([0.5, math.exp(-1) / 2])
    tails_p = tails_q * [LEAST, MOST]
    ratio = (1 + np.exp(2 * np.arange(cells + 1) * width - 1)) / 2
    high = (p - ratio[:-1] * q) / np.diff(ratio)
    spread_q = np.concatenate([q - high, high, tails_q])
    spread_p = np.concatenate([(q - high) * ratio[:-1], high * ratio[1:], tails_p])
    return (np.concatenate([p, tails_p]), np.concatenate([q, tails_q])), (spread_p, spread_q)


@dataclass(frozen=True)
class Split:
    """Which direction is played in which step: a curve."""

    name: str
    mathematics: str
    removes: int
    colour: str

    @property
    def label(self) -> str:
        """How the legend calls it."""
        return f"{self.mathematics}: {self.name}"

    @property
    def end(self) -> float:
        """The largest loss: delta is 0 from there on."""
        return self.removes * math.log(MOST) - (STEPS - self.removes) * math.log(LEAST)

    def delta(self, epsilon: float, cells: int = CELLS[-1]) -> tr.Bracket:
        """Both ends of delta at any real epsilon, about 1e-11 apart with the most cells."""
        return _delta(self.removes, epsilon, cells)

    def exceeds(self, other: "Split", here: float, there: float) -> bool:
        """Whether delta at `here` is certainly larger than the other's at `there`."""
        for cells in CELLS:
            mine, others = self.delta(here, cells), other.delta(there, cells)
            if mine.lower > others.upper:
                return True
            if mine.upper <= others.lower:
                break
        return False

    def composition(self) -> Composition:
        """The same split as the package's engines compose it."""
        laws = step_laws(MECHANISM, SAMPLING, tr.SUBSTITUTE)
        return Composition(Schedule([(laws.remove(), self.removes), (laws.add(), STEPS - self.removes)]))


@cache
def _delta(removes: int, epsilon: float, cells: int) -> tr.Bracket:
    t, last = math.exp(epsilon), add_step if removes < STEPS else remove_step
    ends = [float(last(*(law if removes else law[::-1]), t).sum()) for law in first_step(cells)]
    return tr.Bracket(max(ends[0] - ROUNDING, 0.0), ends[1] + ROUNDING)


def adaptive(epsilon: float, cells: int) -> tr.Bracket:
    """Both ends of what the best adversary reaches who plays one direction first, and then the better one for the output."""
    t, ends = math.exp(epsilon), []
    for p, q in first_step(cells):
        second = [np.maximum(remove_step(*law, t), add_step(*law, t)) for law in ((p, q), (q, p))]
        ends.append(max(float(gains.sum()) for gains in second))
    return tr.Bracket(max(ends[0] - ROUNDING, 0.0), ends[1] + ROUNDING)


REMOVE = Split("remove twice", r"$P{\times}P\,\Vert\,Q{\times}Q$", 2, "#0072b2")
ADD = Split("add twice", r"$Q{\times}Q\,\Vert\,P{\times}P$", 0, "#009e73")
MIXED = Split("one of each", r"$P{\times}Q\,\Vert\,Q{\times}P$", 1, "#d55e00")
SPLITS = (ADD, MIXED, REMOVE)


def reach(leader: Split, others: Sequence[Split], start: float, goal: float) -> float:
    """How far from `start` towards `goal` the leader is certainly larger than the others, at every epsilon on the way.

    All curves fall. So where the leader's lower end at the right of a stretch exceeds the others' upper ends at its left, the
    leader is the largest on all of it.
    """
    at, step = start, (goal - start) / 8
    while at != goal and abs(step) > FINEST:
        there = goal if abs(goal - at) <= abs(step) else at + step
        left, right = min(at, there), max(at, there)
        if all(leader.exceeds(other, right, left) for other in others):
            at = there
        else:
            step /= 2
    return at


def add_leads_from_0() -> bool:
    """Whether the curve of ADD exceeds that of REMOVE on 0 < epsilon <= NEAR_0, both being the total variation distance at 0.

    Both are convex in t = e^epsilon. Right of 1, ADD falls no faster than left of it, and REMOVE lies below its chord.
    """
    t = math.exp(NEAR_0)
    fall_of_add = (ADD.delta(-NEAR_0).upper - ADD.delta(0.0).lower) / (1 - 1 / t)
    fall_of_remove = (REMOVE.delta(0.0).lower - REMOVE.delta(NEAR_0).upper) / (t - 1)
    return fall_of_add * (1 + 1e-12) < fall_of_remove * (1 - 1e-12)


@dataclass(frozen=True)
class Interval:
    """Where one split is certainly the largest: between `low` and `high`."""

    split: Split
    low: float
    high: float


def intervals() -> tuple[Interval, ...]:
    """Where each split is certainly the largest, from left to right; ADD's begins after 0, where REMOVE is as large.

    From epsilon = 1 = ln(MOST / LEAST) on only REMOVE can still lose more, with positive probability up to END.
    """
    certain = [
        reach(ADD, (MIXED, REMOVE), 0.1, NEAR_0) == NEAR_0 and add_leads_from_0(),
        reach(ADD, (MIXED,), NEAR_0, 0.0) == 0,
        reach(REMOVE, (ADD, MIXED), 0.8, 1.0) == 1,
    ]
    if not all(certain):
        raise tr.NotPreciseEnough("The outer ends of the intervals could not be certified.")
    return (
        Interval(ADD, 0.0, reach(ADD, (MIXED, REMOVE), 0.1, 1.0)),
        Interval(MIXED, reach(MIXED, (ADD, REMOVE), 0.4, 0.0), reach(MIXED, (ADD, REMOVE), 0.4, 1.0)),
        Interval(REMOVE, reach(REMOVE, (ADD, MIXED), 0.8, 0.0), END),
    )


def agreeing(epsilons: Iterable[float]) -> tuple[int, int]:
    """How many of the brackets here overlap those of the package's engines, and how many were compared."""
    agreed = asked = 0
    for split in SPLITS:
        composed = split.composition()
        for epsilon in epsilons:
            here, bounds = split.delta(epsilon), composed.log_bounds(epsilon, 1e-6)
            agreed += math.exp(bounds.lower) <= here.upper and here.lower <= math.exp(bounds.upper)
            asked += 1
    return agreed, asked


@dataclass(frozen=True)
class Point:
    """All curves at one epsilon: the splits, the best adaptive choice, and the package's bracket of every adversary's delta."""

    epsilon: float
    splits: dict[Split, tr.Bracket]
    adaptive: tr.Bracket
    certified: tr.Bracket


def points(count: int) -> list[Point]:
    """The curves at equally spaced epsilons from 0 to END."""
    run = tr.Step(MECHANISM, SAMPLING) * STEPS
    curve, cells = tr.privacy_curve(run, relation=tr.SUBSTITUTE, effort=tr.TIGHT), CELLS[1]
    return [
        Point(epsilon, {split: split.delta(epsilon, cells) for split in SPLITS}, adaptive(epsilon, cells), curve.delta(epsilon))
        for epsilon in map(float, np.linspace(0, END, count))
    ]


def compared(found: Iterable[Point]) -> str:
    """How the package's bracket lies around what adaptive choices reach."""
    inner = [point for point in found if point.adaptive.lower > 1e-3]
    low = min(point.certified.lower / point.adaptive.upper for point in inner)
    high = max(point.certified.upper / point.adaptive.lower for point in inner)
    return (
        f"The package's bracket of every adversary's delta runs from {low:.4f} (the game's policy) to {high:.4f} (the envelope) "
        "times what adaptive choices of the two directions reach, or closer."
    )


def digits(value: float, rounding: str, places: int = 12) -> str:
    """A decimal on the safe side."""
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-places), rounding=rounding):f}"


def said(found: Sequence[Interval]) -> str:
    """The intervals and the crossings between them, rounded outwards, in words."""
    lines = ["The largest of the three fixed splits:"]
    lines += [
        f"  {interval.split.name:<13}{digits(interval.low, ROUND_CEILING)} < epsilon < {digits(interval.high, ROUND_FLOOR)}"
        for interval in found
    ]
    lines.append("Each crossing lies in an interval at whose ends, and beyond, the order is certified:")
    for left, right in pairwise(found):
        ends = f"[{digits(left.high, ROUND_FLOOR)}, {digits(right.low, ROUND_CEILING)}]"
        lines.append(f"  {left.split.name} = {right.split.name}: {ends}, width {right.low - left.high:.1e}")
    return "\n".join(lines)


def table(found: Iterable[Point]) -> bytes:
    """Both ends of all curves as CSV; floats are written so that they are read back exactly."""
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    names = [*(split.name.replace(" ", "_") for split in SPLITS), "adaptive", "certified"]
    rows.writerow(["epsilon", *(f"{name}_{end}" for name in names for end in ("lower", "upper"))])
    for point in found:
        brackets = [*(point.splits[split] for split in SPLITS), point.adaptive, point.certified]
        rows.writerow([point.epsilon, *(end for bracket in brackets for end in (bracket.lower, bracket.upper))])
    return text.getvalue().encode()


def picture(found: Sequence[Point], largest: Sequence[Interval]) -> bytes:
    """The figure as PNG: the curves, and below them the curves relative to the largest of the three."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 6.4), layout="constrained")
        curves, ratios = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        draw_curves(curves, found)
        draw_ratios(ratios, found)
        for axes in (curves, ratios):
            shade(axes, largest)
            frame(axes)
        curves.legend(loc="upper right", frameon=False, fontsize=9, handlelength=2.6, bbox_to_anchor=(1.0, 0.9))
        name_intervals(curves, largest)
        curves.set_ylabel(r"$\delta$")
        ratios.set_ylabel("relative to the largest\nof the three splits")
        ratios.set_xlabel(r"$\varepsilon$")
        name_end(ratios)
        title = "No fixed split of the two directions is the worst at every ε"
        curves.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=22)
        setting = "Laplace noise of scale 2, one of two records without replacement, 2 steps, one record exchanged"
        curves.text(0, 1.02, setting, transform=curves.transAxes, fontsize=8.5, color=GREY, va="bottom")
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=200)
    return image.getvalue()


def draw_curves(axes: "Axes", found: Sequence[Point]) -> None:
    """Delta against epsilon; a split's curve ends where it is 0."""
    at = [point.epsilon for point in found]
    above, reached = [point.certified.upper for point in found], [point.adaptive.lower for point in found]
    axes.plot(at, above, color=INK, linewidth=1.2, linestyle=DOTTED, label="envelope: no adversary exceeds it")
    axes.plot(at, reached, color=INK, linewidth=1.2, linestyle=DASHED, label="second step chosen after seeing the first")
    for split in SPLITS:
        lost = [(point.epsilon, point.splits[split].upper) for point in found if point.epsilon < split.end]
        axes.plot(*zip(*lost, (split.end, 0.0), strict=True), color=split.colour, linewidth=2, label=split.label, clip_on=False)
    axes.set_ylim(0, 0.29)


def draw_ratios(axes: "Axes", found: Sequence[Point]) -> None:
    """The same curves divided by the largest split."""
    shown = [point for point in found if point.epsilon < END - 1e-3]
    at = [point.epsilon for point in shown]
    top = np.array([max(bracket.upper for bracket in point.splits.values()) for point in shown])
    axes.plot(at, [point.certified.upper for point in shown] / top, color=INK, linewidth=1.2, linestyle=DOTTED)
    axes.plot(at, [point.adaptive.lower for point in shown] / top, color=INK, linewidth=1.2, linestyle=DASHED)
    for split in SPLITS:
        axes.plot(at, [point.splits[split].upper for point in shown] / top, color=split.colour, linewidth=2)
    axes.set_ylim(0.8, 1.22)


def shade(axes: "Axes", largest: Sequence[Interval]) -> None:
    """Colour each interval by who is the largest there."""
    for interval in largest:
        axes.axvspan(interval.low, interval.high, color=interval.split.colour, alpha=0.1, linewidth=0)
    for interval in largest[1:]:
        axes.axvline(interval.low, color=GREY, linewidth=0.8)


def name_intervals(axes: "Axes", largest: Sequence[Interval]) -> None:
    """Say above the curves who is the largest, and below them where that changes."""
    for interval in largest:
        style: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 9, "fontweight": "bold", "color": interval.split.colour}
        axes.text((interval.low + interval.high) / 2, 0.286, f"{interval.split.name}\nis the largest", **style)
    for interval in largest[1:]:
        axes.text(interval.low - 0.01, 0.006, f"ε = {interval.low:.6f}", ha="right", va="bottom", fontsize=8.5, color=INK)


def name_end(axes: "Axes") -> None:
    """Mark from where on nothing is larger than the largest split."""
    words = f"from ε = ln((1 + e)/2) = {SETTLED:.4f} on,\nremove twice is the worst of all"
    axes.plot([SETTLED], [1.0], "o", color=REMOVE.colour, markersize=5, zorder=4)
    leader: dict[str, Any] = {"arrowstyle": "-", "color": INK, "linewidth": 0.8, "relpos": (0.0, 0.0), "shrinkB": 3}
    axes.annotate(words, (SETTLED, 1.0), xytext=(0.7, 1.07), va="bottom", fontsize=8.5, color=INK, arrowprops=leader)


def frame(axes: "Axes") -> None:
    """Limits, grid and spines."""
    axes.set_xlim(0, END)
    axes.grid(color="#e3e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", color=GREY, labelcolor=INK)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], epilog="example: make figure-3")
    parser.add_argument("--out", type=Path, default=Path("figures"), metavar="DIR", help="folder to write to (default figures)")
    parser.add_argument("--points", type=int, default=250, metavar="N", help="epsilons on each curve, at least 2 (default 250)")
    asked = parser.parse_args(arguments)
    if asked.points < 2:
        parser.error("--points must be at least 2")
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Find the crossings, say where they are, write the picture and the numbers."""
    asked = options(arguments)
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        image, numbers = checked_target(asked.out / "figure-3.png"), asked.out / "figure-3.csv"
        start = time.perf_counter()
        largest, found = intervals(), points(asked.points)
        print(said(largest))
        print(compared(found))
        agreed, asked_engines = agreeing((0.05, 0.25, 0.4, 0.6, 0.9))
        spent = time.perf_counter() - start
        print(f"The package's engines agree with {agreed} of {asked_engines} brackets of the splits; {spent:.1f} s in all.")
        write_whole(numbers, table(found), what="the table")
        write_whole(image, picture(found, largest), what="the picture")
    except (tr.TightropeError, OSError) as refusal:
        print(f"figure_3: {refusal}", file=sys.stderr)
        return 2
    print(f"Written: {image}, {numbers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
