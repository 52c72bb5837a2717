"""Axes of the figures: a light grid, no box, a bold heading over a small line that states the setting."""

from typing import TYPE_CHECKING

from reproduction.paper.pictures import GREY, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plain(axes: "Axes") -> None:
    """Grid behind, spines left and below."""
    axes.grid(color="#e3e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", color=GREY, labelcolor=INK)


def headed(axes: "Axes", heading: str, setting: str) -> None:
    """What the picture shows, and for which setting."""
    axes.set_title(heading, loc="left", fontsize=11, fontweight="bold", color=INK, pad=22)
    axes.text(0, 1.02, setting, transform=axes.transAxes, fontsize=8.5, color=GREY, va="bottom")
