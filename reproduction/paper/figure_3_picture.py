"""Figure 3 as a picture: the curves of all adversaries, and below the same relative to the largest split."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.paper.figure_3_splits import (
    ADD,
    END,
    MIXED,
    REMOVE,
    SETTLED,
    SPLITS,
    LeadInterval,
    SplitPoint,
)
from reproduction.paper.numbers import at_least
from reproduction.paper.pictures import (
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    INK,
    VERMILION,
    bold,
    clear_frame,
    head,
    leader,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INCHES = (7.2, 6.8)
COLOURS = {ADD: GREEN, MIXED: VERMILION, REMOVE: BLUE}
PAIRS = {
    ADD: r"$Q{\times}Q\,\Vert\,P{\times}P$",
    MIXED: r"$P{\times}Q\,\Vert\,Q{\times}P$",
    REMOVE: r"$P{\times}P\,\Vert\,Q{\times}Q$",
}
ABOVE: dict[str, Any] = {"color": INK, "linewidth": 1.2, "linestyle": DOTTED}
PLAYED: dict[str, Any] = {"color": INK, "linewidth": 1.2, "linestyle": DASHED}
TOP = 0.29


def draw(figure: "Figure", found: Sequence[SplitPoint], largest: Sequence[LeadInterval]) -> None:
    """Both panels."""
    curves, ratios = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _curves(curves, found)
    _ratios(ratios, found)
    for axes in (curves, ratios):
        _shade(axes, largest)
        clear_frame(axes)
        axes.set_xlim(0, END)
    style: dict[str, Any] = {"loc": "upper right", "frameon": False, "fontsize": 9, "handlelength": 2.6}
    curves.legend(bbox_to_anchor=(1.0, 0.9), **style)
    _name_intervals(curves, largest)
    _name_ratios(ratios, found)
    curves.set_ylabel("δ")
    ratios.set(xlabel="ε", ylabel="relative to the largest\nof the three splits")
    mechanism = "Laplace noise of scale 2, one of two records without replacement"
    heading = f"Below ε = {SETTLED:.2f}, an adaptive adversary beats every fixed split"
    head(curves, heading, f"{mechanism}, 2 steps, one record exchanged")


def _curves(axes: "Axes", found: Sequence[SplitPoint]) -> None:
    """Delta against epsilon; a split's curve ends where it is 0."""
    at = [point.epsilon for point in found]
    above, reached = [point.game.upper for point in found], [point.game.lower for point in found]
    axes.plot(at, above, label="envelope: no adversary exceeds it", **ABOVE)
    axes.plot(at, reached, label="adaptive: chooses after seeing outputs", **PLAYED)
    for split in SPLITS:
        lost = [(point.epsilon, point.splits[split].upper) for point in found if point.epsilon < split.end]
        x, y = zip(*lost, (split.end, 0.0), strict=True)
        label = f"{PAIRS[split]}: {split.name}"
        axes.plot(x, y, clip_on=False, color=COLOURS[split], linewidth=2, label=label)
    axes.set_ylim(0, TOP)


def _ratios(axes: "Axes", found: Sequence[SplitPoint]) -> None:
    """The same curves divided by the largest split."""
    inner = [point for point in found if point.epsilon < END - 1e-3]
    at = [point.epsilon for point in inner]
    top = np.array([point.largest_split.upper for point in inner])
    axes.plot(at, [point.game.upper for point in inner] / top, **ABOVE)
    # from SETTLED on the policy adds nothing but its rounding
    chosen = [point for point in inner if point.epsilon < SETTLED]
    axes.plot([point.epsilon for point in chosen], [point.gain for point in chosen], **PLAYED)
    for split in SPLITS:
        axes.plot(at, [point.splits[split].upper for point in inner] / top, color=COLOURS[split], linewidth=2)
    axes.set_ylim(0.8, 1.22)


def _shade(axes: "Axes", largest: Sequence[LeadInterval]) -> None:
    """Colour each interval by who is the largest there."""
    for interval in largest:
        axes.axvspan(interval.low, interval.high, color=COLOURS[interval.split], alpha=0.1, linewidth=0)
    for interval in largest[1:]:
        axes.axvline(interval.low, color=GREY, linewidth=0.8)


def _name_intervals(axes: "Axes", largest: Sequence[LeadInterval]) -> None:
    """Say above the curves which split is the largest, and below them where that changes."""
    for interval in largest:
        words, middle = f"{interval.split.name}\nis the largest", (interval.low + interval.high) / 2
        axes.text(middle, TOP - 0.004, words, **bold(COLOURS[interval.split], ha="center", va="top"))
    corner: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 8.5, "color": INK}
    for interval in largest[1:]:
        axes.text(interval.low - 0.01, 0.006, f"ε = {interval.low:.6f}", **corner)


def _name_ratios(axes: "Axes", found: Sequence[SplitPoint]) -> None:
    """Mark the adaptive gain, and from where on there is none."""
    pointer = leader(INK, relpos=(0.0, 0.5), shrinkB=3)
    text: dict[str, Any] = {"fontsize": 8.5, "color": INK, "arrowprops": pointer, "va": "center"}
    words = f"from ε = ln((1 + e)/2) = {SETTLED:.4f} on,\nremove twice is the worst of all"
    axes.plot([SETTLED], [1.0], "o", color=BLUE, markersize=5, zorder=4)
    axes.annotate(words, (SETTLED, 1.0), xytext=(0.72, 1.075), **text)
    best = max(found, key=lambda point: point.gain if point.epsilon < SETTLED else 0.0)
    words = f"adaptive choices reach {at_least(100 * (best.gain - 1), 2)} % more\nthan the best fixed split"
    axes.annotate(words, (best.epsilon, best.gain), xytext=(0.72, 1.16), **text)
