"""The closing conjecture as a map: the adversary's gain above, the envelope's excess below."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reproduction.paper.closing_map import AT_DELTA, MapCell, percent
from reproduction.paper.pictures import BLUE, GREY, INK, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

Value = Callable[[MapCell], float | None]

_DARK = 0.75  # of the scale, from where on white digits are easier to read
_HEADINGS = (
    f"Epsilon at delta {AT_DELTA}: an adaptive adversary is certainly above REMOVE, by at least",
    f"Epsilon at delta {AT_DELTA}: the paper's envelope is above the certified upper end, by",
)


def inches(cells: Sequence[MapCell]) -> tuple[float, float]:
    """The size of the picture: as wide as its tiles need, and wide enough for the headings."""
    rates, noises, steps = (len(side) for side in _sides(cells))
    return max(0.8 + 0.82 * rates * steps + 0.25 * rates, 7.4), 1.6 + 2 * 0.52 * noises


def _sides(cells: Sequence[MapCell]) -> tuple[list[float], list[float], list[int]]:
    """The rates, noises and steps that occur."""
    sides = ({cell.rate for cell in cells}, {cell.noise for cell in cells}, {cell.steps for cell in cells})
    return sorted(sides[0]), sorted(sides[1]), sorted(sides[2])


def draw(figure: "Figure", cells: Sequence[MapCell]) -> None:
    """Draw every cell that is given; places without one stay empty."""
    rates, _, _ = _sides(cells)
    values: tuple[Value, Value] = (lambda cell: cell.gain if cell.is_certain else None, lambda cell: cell.gap)
    panels = figure.subfigures(2, 1, squeeze=False)[:, 0]
    for panel, heading, value, colour in zip(panels, _HEADINGS, values, (BLUE, VERMILION), strict=True):
        row = panel.subplots(1, len(rates), squeeze=False)[0]
        panel.suptitle(heading, color=INK, fontsize=10.5, weight="bold")
        _heat(row, cells, value, colour)
        for axes, rate in zip(row, rates, strict=True):
            axes.set_title(f"rate {rate:g}", color=INK, fontsize=10)
            axes.set_xlabel("steps", color=INK)
        row[0].set_ylabel("noise", color=INK)


def _heat(row: "Sequence[Axes]", cells: Sequence[MapCell], value: Value, colour: str) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("shades", ["#ffffff", colour])
    rates, noises, steps = _sides(cells)
    # square roots, so that small percentages can be told apart too
    depths = {cell: math.sqrt(max(value(cell) or 0.0, 0.0)) for cell in cells}
    deepest = max(depths.values()) or 1.0
    for cell in cells:
        place = steps.index(cell.steps), noises.index(cell.noise)
        _tile(row[rates.index(cell.rate)], place, value(cell), shades, depths[cell] / deepest)
    for number, axes in enumerate(row):
        axes.set_xlim(-0.5, len(steps) - 0.5)
        axes.set_ylim(-0.5, len(noises) - 0.5)
        names = [f"{noise:g}" if number == 0 else "" for noise in noises]
        axes.set_xticks(range(len(steps)), [f"{count:,}" for count in steps], color=INK)
        axes.set_yticks(range(len(noises)), names, color=INK)
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)


def _tile(
    axes: "Axes", place: tuple[int, int], found: float | None, shades: "Colormap", depth: float
) -> None:
    from matplotlib.patches import Rectangle

    x, y = place
    text, ink = "not\ncertain", GREY
    style: dict[str, Any] = {"facecolor": "#f3f4f5", "edgecolor": "#d5dade", "linewidth": 0.6}
    if found is not None:
        text, ink = percent(found), "white" if depth > _DARK else INK
        style["facecolor"] = shades(depth)
    axes.add_patch(Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, **style))
    axes.text(x, y, text, ha="center", va="center", fontsize=9, color=ink, linespacing=1.0)
