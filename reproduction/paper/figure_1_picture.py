"""Figure 1 as a picture: the two curves for several numbers of steps, and below them their difference."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.paper.figure_1_curves import RATE, SCALE, SHOWN_TO, Curve, Panel, clearest_break
from reproduction.paper.figure_axes import plain
from reproduction.paper.number_files import at_least
from reproduction.paper.pictures import BLUE, GREY, INK, VERMILION
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
MARK: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 6.5,
    "markerfacecolor": "white",
    "markeredgecolor": INK,
    "zorder": 6,
}
LEADER: dict[str, Any] = {"arrowstyle": "-", "color": GREY, "linewidth": 0.8, "shrinkB": 4}


def drawing(found: Sequence[Panel], crossings: Mapping[int, Bracket]) -> "Callable[[Figure], None]":
    """One column for each number of steps."""

    def draw(figure: "Figure") -> None:
        rows = figure.subplots(2, len(found), sharex="col", height_ratios=(3, 2))
        for panel, curves, differences in zip(found, rows[0], rows[1], strict=True):
            crossing = crossings.get(panel.steps)
            _curves(curves, panel, crossing)
            _difference(differences, panel, crossing)
            for axes in (curves, differences):
                plain(axes)
                axes.set_xlim(0, SHOWN_TO[panel.steps])
            differences.set_xlabel("ε")
        rows[0][0].set_ylabel("δ")
        rows[1][0].set_ylabel("δ of add minus δ of remove")
        heading = f"Laplace noise of scale {SCALE:g}, rate {RATE:g}: removing a record is not always worse than adding one"
        figure.suptitle(heading, x=0.008, ha="left", fontsize=12, fontweight="bold", color=INK)
        draws = found[0].add.estimates[0].draws
        reading = (
            "Lines: certified, both ends drawn, too close to be told apart. Points: simulation with "
            f"{draws:,} draws; its bars hold at 99 % for all points of a curve at once, and add up in the "
            "difference."
        )
        figure.supxlabel(reading, x=0.008, ha="left", fontsize=9, color=GREY)

    return draw


def _curves(axes: "Axes", panel: Panel, crossing: Bracket | None) -> None:
    for name, curve, colour, place in zip(
        ("add", "remove"), (panel.add, panel.remove), (ADD, REMOVE), NAMES[panel.steps], strict=True
    ):
        for end in ("lower", "upper"):
            axes.plot(
                curve.epsilons,
                [getattr(each, end) for each in curve.brackets],
                color=colour,
                linewidth=1.3,
                zorder=3,
            )
        _points(axes, curve, colour)
        axes.text(*place, name, color=colour, fontsize=10.5, fontweight="bold")
    axes.set_ylim(0, 1.08 * panel.add.brackets[0].upper)
    axes.set_title(f"k = {panel.steps} steps", loc="left", fontsize=10.5, color=INK)
    if crossing is not None:
        _mark_crossing(axes, panel, crossing)
    if panel.steps in BREAK_NAMED:
        _mark_break(axes, panel)


def _points(axes: "Axes", curve: Curve, colour: str) -> None:
    values = [each.value for each in curve.estimates]
    bars = _bars(values, [each.lower for each in curve.estimates], [each.upper for each in curve.estimates])
    style: dict[str, Any] = {
        "fmt": "o",
        "markersize": 2.6,
        "elinewidth": 0.7,
        "capsize": 1.6,
        "capthick": 0.7,
        "zorder": 4,
    }
    axes.errorbar(
        curve.simulated_at,
        values,
        yerr=bars,
        color=colour,
        markeredgecolor="white",
        markeredgewidth=0.35,
        **style,
    )


def _bars(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> "np.ndarray[Any, Any]":
    return np.array([np.subtract(values, low), np.subtract(high, values)])


def _mark_crossing(axes: "Axes", panel: Panel, crossing: Bracket) -> None:
    where = (crossing.lower, _height(panel.remove, crossing.lower))
    axes.plot(*([each] for each in where), **MARK)
    words = f"they cross at\nε = {(crossing.lower + crossing.upper) / 2:.10f}"
    axes.annotate(words, where, xytext=CROSSING_NAMED[panel.steps], fontsize=9, color=INK, arrowprops=LEADER)


def _mark_break(axes: "Axes", panel: Panel) -> None:
    clear = clearest_break(panel.steps)
    where = (clear.epsilon, _height(panel.remove, clear.epsilon))
    words = f"break at\nε = {clear.epsilon:.4f}"
    axes.annotate(words, where, xytext=(0.04, 0.068), fontsize=9, color=REMOVE, arrowprops=LEADER)


def _height(curve: Curve, epsilon: float) -> float:
    return float(np.interp(epsilon, curve.epsilons, [each.upper for each in curve.brackets]))


def _difference(axes: "Axes", panel: Panel, crossing: Bracket | None) -> None:
    """The lines' difference on the epsilons both have, and the simulated one with the bars of both."""
    add, remove = (
        dict(zip(curve.epsilons, curve.brackets, strict=True)) for curve in (panel.add, panel.remove)
    )
    shared = sorted(add.keys() & remove.keys())
    low = np.array([add[at].lower - remove[at].upper for at in shared])
    high = np.array([add[at].upper - remove[at].lower for at in shared])
    axes.axhline(0, color=INK, linewidth=0.8, zorder=2)
    axes.fill_between(shared, 0, high, where=high > 0, color=ADD, alpha=0.22, linewidth=0)
    axes.fill_between(shared, 0, low, where=low < 0, color=REMOVE, alpha=0.16, linewidth=0)
    for end in (low, high):
        axes.plot(shared, end, color=INK, linewidth=1.2, zorder=3)
    pairs = list(zip(panel.add.estimates, panel.remove.estimates, strict=True))
    values = [one.value - other.value for one, other in pairs]
    bars = _bars(
        values,
        [one.lower - other.upper for one, other in pairs],
        [one.upper - other.lower for one, other in pairs],
    )
    style: dict[str, Any] = {
        "fmt": "o",
        "markersize": 2.6,
        "elinewidth": 0.7,
        "capsize": 1.6,
        "capthick": 0.7,
        "zorder": 4,
    }
    axes.errorbar(
        panel.add.simulated_at,
        values,
        yerr=bars,
        color=INK,
        markeredgecolor="white",
        markeredgewidth=0.35,
        **style,
    )
    if crossing is not None:
        axes.plot([crossing.lower], [0], **MARK)
        top = int(np.argmax(low))
        words = f"add is ahead\nby up to {at_least(float(low[top]), 3)}"
        axes.annotate(
            words, (shared[top], low[top]), xytext=LEADS_NAMED[panel.steps], **_named(ADD), arrowprops=LEADER
        )
    axes.set_ylim(top=LEAD_SHOWN_TO.get(panel.steps))
    deepest = int(np.argmin(high))
    axes.text(
        min(shared[deepest], 0.75 * shared[-1]),
        high[deepest] * 0.45,
        "remove\nis ahead",
        ha="center",
        **_named(REMOVE),
    )


def _named(colour: str) -> dict[str, Any]:
    return {"color": colour, "fontsize": 9, "fontweight": "bold", "va": "center"}
