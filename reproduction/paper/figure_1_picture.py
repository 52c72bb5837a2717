"""Figure 1 as a picture: the two curves for several numbers of steps, and below them their difference."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.paper.figure_1_curves import RATE, SCALE, SHOWN_TO, Curve, Panel, clearest_break
from reproduction.paper.numbers import at_least, certain_digits
from reproduction.paper.pictures import BLUE, GREY, INK, VERMILION, bold, clear_frame, leader
from tightrope.curve.bracket import Bracket

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INCHES = (12.4, 6.6)
ADD, REMOVE = VERMILION, BLUE
# where the names of add and remove stand: epsilon, delta
NAMES = {
    2: ((0.45, 0.03), (0.66, 0.104)),
    5: ((0.33, 0.15), (0.98, 0.17)),
    10: ((0.42, 0.22), (1.25, 0.29)),
    20: ((0.62, 0.35), (1.6, 0.43)),
}
BREAK_NAMED = {2}
CROSSING_NAMED = {2: (0.5, 0.185), 5: (0.55, 0.335)}
LEADS_NAMED = {2: (0.45, 0.0125), 5: (0.42, 0.0058)}
LEAD_SHOWN_TO = {5: 0.0105}
RING: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 6.5,
    "markerfacecolor": "white",
    "markeredgecolor": INK,
    "zorder": 6,
}
BARS: dict[str, Any] = {"fmt": "o", "elinewidth": 0.7, "capsize": 1.6, "capthick": 0.7, "zorder": 4}
DOTS: dict[str, Any] = {"markersize": 2.6, "markeredgecolor": "white", "markeredgewidth": 0.35}


def draw(figure: "Figure", found: Sequence[Panel], crossings: Mapping[int, Bracket]) -> None:
    """One column for each number of steps."""
    rows = figure.subplots(2, len(found), sharex="col", height_ratios=(3, 2))
    for panel, curves, differences in zip(found, rows[0], rows[1], strict=True):
        crossing = crossings.get(panel.steps)
        _curves(curves, panel, crossing)
        _difference(differences, panel, crossing)
        for axes in (curves, differences):
            clear_frame(axes)
            axes.set_xlim(0, SHOWN_TO[panel.steps])
        differences.set_xlabel("ε")
    rows[0][0].set_ylabel("δ")
    rows[1][0].set_ylabel("δ of add minus δ of remove")
    mechanism = f"Laplace noise of scale {SCALE:g}, rate {RATE:g}"
    heading = f"{mechanism}: removing a record is not always worse than adding one"
    figure.suptitle(heading, x=0.008, ha="left", fontsize=12, fontweight="bold", color=INK)
    draws = found[0].add.estimates[0].draws
    reading = (
        f"Lines: certified, both ends drawn, too close to be told apart. Points: simulation with {draws:,} "
        "draws; its bars hold at 99 % for all points of a curve at once, and add up in the difference."
    )
    figure.supxlabel(reading, x=0.008, ha="left", fontsize=9, color=GREY)


def _curves(axes: "Axes", panel: Panel, crossing: Bracket | None) -> None:
    for (name, curve), colour, place in zip(panel.curves, (ADD, REMOVE), NAMES[panel.steps], strict=True):
        for end in ("lower", "upper"):
            values = [getattr(each, end) for each in curve.brackets]
            axes.plot(curve.epsilons, values, color=colour, linewidth=1.3, zorder=3)
        ends = [(each.lower, each.value, each.upper) for each in curve.estimates]
        _points(axes, curve.simulated_at, ends, colour)
        axes.text(*place, name, color=colour, fontsize=10.5, fontweight="bold")
    axes.set_ylim(0, 1.08 * panel.add.brackets[0].upper)
    axes.set_title(f"k = {panel.steps} steps", loc="left", fontsize=10.5, color=INK)
    if crossing is not None:
        where = (crossing.lower, _height(panel.remove, crossing.lower))
        axes.plot(*([each] for each in where), **RING)
        words = f"they cross at\nε = {certain_digits(crossing)}…"
        _name(axes, words, where, CROSSING_NAMED[panel.steps], INK)
    if panel.steps in BREAK_NAMED:
        clear = clearest_break(panel.steps)
        where = (clear.epsilon, _height(panel.remove, clear.epsilon))
        _name(axes, f"break at\nε = {clear.epsilon:.4f}", where, (0.04, 0.068), REMOVE)


def _points(
    axes: "Axes", at: Sequence[float], ends: Sequence[tuple[float, float, float]], colour: str
) -> None:
    """Simulated values with their bars."""
    low, values, high = np.array(ends).T
    axes.errorbar(at, values, yerr=np.array([values - low, high - values]), color=colour, **BARS, **DOTS)


def _name(axes: "Axes", words: str, at: tuple[float, float], place: tuple[float, float], colour: str) -> None:
    axes.annotate(words, at, xytext=place, fontsize=9, color=colour, arrowprops=leader())


def _height(curve: Curve, epsilon: float) -> float:
    return float(np.interp(epsilon, curve.epsilons, [each.upper for each in curve.brackets]))


def _difference(axes: "Axes", panel: Panel, crossing: Bracket | None) -> None:
    """The lines' difference on the epsilons both have, and the simulated one with the bars of both."""
    add, remove = (dict(zip(curve.epsilons, curve.brackets, strict=True)) for _, curve in panel.curves)
    shared = sorted(add.keys() & remove.keys())
    low = np.array([add[at].lower - remove[at].upper for at in shared])
    high = np.array([add[at].upper - remove[at].lower for at in shared])
    axes.axhline(0, color=INK, linewidth=0.8, zorder=2)
    axes.fill_between(shared, 0, high, where=high > 0, color=ADD, alpha=0.22, linewidth=0)
    axes.fill_between(shared, 0, low, where=low < 0, color=REMOVE, alpha=0.16, linewidth=0)
    for end in (low, high):
        axes.plot(shared, end, color=INK, linewidth=1.2, zorder=3)
    pairs = zip(panel.add.estimates, panel.remove.estimates, strict=True)
    ends = [
        (one.lower - other.upper, one.value - other.value, one.upper - other.lower) for one, other in pairs
    ]
    _points(axes, panel.add.simulated_at, ends, INK)
    if crossing is not None:
        axes.plot([crossing.lower], [0], **RING)
        top = int(np.argmax(low))
        words, place = f"add is ahead\nby up to {at_least(float(low[top]), 3)}", LEADS_NAMED[panel.steps]
        style = bold(ADD, va="center", arrowprops=leader())
        axes.annotate(words, (shared[top], low[top]), xytext=place, **style)
    axes.set_ylim(top=LEAD_SHOWN_TO.get(panel.steps))
    deepest = int(np.argmin(high))
    place = (min(shared[deepest], 0.75 * shared[-1]), high[deepest] * 0.45)
    axes.text(*place, "remove\nis ahead", **bold(REMOVE, va="center", ha="center"))
