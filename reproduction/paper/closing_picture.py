"""The map of the closing conjecture: a column of tiles per rate, the adversary's gain above, the envelope's excess below."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reproduction.paper.pictures import BLUE, GREY, INK, VERMILION
from reproduction.paper.substitution_map import AT_DELTA, Cell, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

Value = Callable[[Cell], float | None]

_DARK = 0.75  # of the scale, from where on white digits are easier to read
_HEADINGS = (
    f"Epsilon at delta {AT_DELTA}: an adaptive adversary is certainly above REMOVE, by at least",
    f"Epsilon at delta {AT_DELTA}: the paper's envelope is above the certified upper end, by",
)


def inches(cells: Sequence[Cell]) -> tuple[float, float]:
    """The size of the picture: as wide as its tiles need, and wide enough for the headings."""
    rates, noises, steps = (
        len({getattr(cell, name) for cell in cells}) for name in ("rate", "noise", "steps")
    )
    return max(0.8 + 0.82 * rates * steps + 0.25 * rates, 7.4), 1.6 + 2 * 0.52 * noises


def drawn(figure: "Figure", cells: Sequence[Cell]) -> None:
    """Draw every cell that is given; places without one stay empty."""
    rates = sorted({cell.rate for cell in cells})
    values: tuple[Value, Value] = (lambda cell: cell.gain if cell.certain else None, lambda cell: cell.gap)
    panels = figure.subfigures(2, 1, squeeze=False)[:, 0]
    for panel, heading, value, colour in zip(panels, _HEADINGS, values, (BLUE, VERMILION), strict=True):
        row = panel.subplots(1, len(rates), squeeze=False)[0]
        panel.suptitle(heading, color=INK, fontsize=10.5, weight="bold")
        _heat(row, cells, value, colour)
        for axes, rate in zip(row, rates, strict=True):
            axes.set_title(f"rate {rate:g}", color=INK, fontsize=10)
        row[0].set_ylabel("noise", color=INK)
        for axes in row:
            axes.set_xlabel("steps", color=INK)


def _heat(row: "Sequence[Axes]", cells: Sequence[Cell], value: Value, colour: str) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("shades", ["#ffffff", colour])
    rates, noises, steps = (
        sorted({getattr(cell, name) for cell in cells}) for name in ("rate", "noise", "steps")
    )
    # square roots, so that small percentages can be told apart too
    depths = {cell: math.sqrt(max(value(cell) or 0.0, 0.0)) for cell in cells}
    deepest = max(depths.values()) or 1.0
    for cell in cells:
        place = steps.index(cell.steps), noises.index(cell.noise)
        _tile(row[rates.index(cell.rate)], place, value(cell), shades, depths[cell] / deepest)
    for number, axes in enumerate(row):
        axes.set_xlim(-0.5, len(steps) - 0.5)
        axes.set_ylim(-0.5, len(noises) - 0.5)
        axes.set_xticks(range(len(steps)), [f"{count:,}" for count in steps], color=INK)
        axes.set_yticks(
            range(len(noises)), [f"{noise:g}" if number == 0 else "" for noise in noises], color=INK
        )
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)


def _tile(
    axes: "Axes", place: tuple[int, int], found: float | None, shades: "Colormap", depth: float
) -> None:
    from matplotlib.patches import Rectangle

    x, y = place
    style: dict[str, Any] = {"facecolor": shades(depth), "edgecolor": "#d5dade", "linewidth": 0.6}
    text, ink = percent(found) if found is not None else "not\ncertain", "white" if depth > _DARK else INK
    if found is None:
        style, ink = {**style, "facecolor": "#f3f4f5"}, GREY
    axes.add_patch(Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, **style))
    axes.text(x, y, text, ha="center", va="center", fontsize=9, color=ink, linespacing=1.0)
