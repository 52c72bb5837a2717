"""Contrasts and calibrations on the axes of matplotlib, where people can draw more of their own."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ONE_NUMBER, ends
from tightrope.curve.pictures import GREY, INK, SHADE, check_axes, make_axes, mark_powers, name_axes
from tightrope.errors import InvalidSetting, NotPreciseEnough
from tightrope.numerics.text import round_outwards, write_number
from tightrope.setting.relation import ADD, ADD_OR_REMOVE, RELATIONS, REMOVE, SUBSTITUTE
from tightrope.setting.sampling import EveryRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tightrope.answers.calibrate import Calibration
    from tightrope.answers.contrast import Contrast, ContrastRow

_POINTS, _LEAST, _MOST = 21, 0.6, 2.5  # values around a calibrated one, relative to it
_ROOM = 1.45  # for the words beside the longest bar
WIDE = 6.4  # inches, of a picture of bars
_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # under words that a line would cross
_BETWEEN = "between the two proved ends"
_EPSILON = r"privacy loss $\varepsilon$"


def pick_rows(table: "Contrast", rows: Sequence["ContrastRow"]) -> list["ContrastRow"]:
    """The rows that people compare: what is claimed, and every other way to draw batches at this rate.

    Add and remove by themselves matter to who claims one of them.
    """
    sampling, relation = table.claimed or (None, None)
    one = relation and relation.single
    usual = RELATIONS.values() if one in (ADD, REMOVE) else (ADD_OR_REMOVE, SUBSTITUTE)
    return [
        row
        for row in rows
        if row.relation.single in usual and (row.sampling is not EveryRecord or sampling is EveryRecord)
    ]


def draw_bars(table: "Contrast", rows: Sequence["ContrastRow"], axes: "Axes | None") -> "Axes":
    """Draw epsilon at the first delta as bars: full to the end that is reached, hatched to the guarantee.

    The claimed row is dark, and a line leads from its end through the others. A row that was refused says so.
    """
    check_axes(axes)
    on = make_axes(size=(WIDE, find_height(len(rows)))) if axes is None else axes
    known = [row.epsilons[0].upper for row in rows if row.epsilons]
    longest = max((upper for upper in known if math.isfinite(upper)), default=1.0) or 1.0
    for place, row in enumerate(rows):
        claimed = (row.sampling, row.relation) == table.claimed
        weight = "bold" if claimed else "normal"
        on.text(0, place - 0.3, _name(row), va="bottom", fontsize="small", fontweight=weight, bbox=_PAPER)
        said, length = f"refused: {row.why_not}", 0.0
        if row.epsilons:
            length = min(row.epsilons[0].upper, longest * _ROOM)
            _draw_bar(on, place, row.epsilons[0], length, INK if claimed else SHADE)
            said = f"{_say(row.epsilons[0])}{_compare(table, row)}"
        style: dict[str, Any] = {"va": "center", "fontsize": "small", "fontweight": weight}
        style["color"] = "black" if row.epsilons else GREY
        on.annotate(said, (length, place), (5, 0), textcoords="offset points", **style)
        if claimed and row.epsilons:
            on.axvline(length, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0.5)
    on.set_yticks([])
    on.set_ylim(len(rows) - 0.6, -0.8)  # from top to bottom
    on.set_xlim(0, longest * _ROOM)
    on.set_xlabel(rf"{_EPSILON} at $\delta$ = {write_number(table.deltas[0])}")
    on.spines[["top", "right", "left"]].set_visible(False)
    on.grid(visible=True, axis="x", alpha=0.3, linewidth=0.6)
    on.set_axisbelow(True)
    if on.get_legend_handles_labels()[1]:
        on.legend(loc="upper right", fontsize="small", framealpha=0.95, edgecolor="none")
    return on


def find_height(rows: int) -> float:
    """How high a picture of so many bars is, in inches."""
    return 1.2 + 0.5 * rows


def _draw_bar(axes: "Axes", place: int, epsilon: Bracket, length: float, colour: str) -> None:
    """A bar to the lower end, and from there hatched to the upper one where they differ."""
    reached = min(epsilon.lower, length)
    axes.barh(place, reached, height=0.5, color=colour, edgecolor=colour, linewidth=1)
    if epsilon.relative_width > ONE_NUMBER:
        labelled = "_" if _BETWEEN in axes.get_legend_handles_labels()[1] else _BETWEEN
        style: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "hatch": "/////", "linewidth": 1}
        axes.barh(place, length - reached, left=reached, height=0.5, label=labelled, **style)


def _name(row: "ContrastRow") -> str:
    return f"{row.sampling.spelling.replace('-', ' ')}, {row.relation}"


def _compare(table: "Contrast", row: "ContrastRow") -> str:
    """How many times the claimed epsilon it is at most; nothing where nothing is claimed."""
    return re.sub(r"\(\S+x to ", "(up to ", table.ratios_in_words(row)[0])


def _say(epsilon: Bracket) -> str:
    """The upper end, or both where they differ."""
    if not math.isfinite(epsilon.upper):
        return f"at least {ends(epsilon, 4)[0]}"
    if epsilon.relative_width <= ONE_NUMBER:
        return round_outwards(epsilon.upper, 4, up=True)
    return " to ".join(ends(epsilon, 4))


def draw_values(found: "Calibration[Any]", axes: "Axes | None") -> "Axes":
    """Draw what other values of the calibrated parameter spend, as a band, and mark the one found.

    Other values are judged without games: where the band is wide, effort=TIGHT would narrow it.
    """
    check_axes(axes)
    spent = list(_ask_around(found))
    on = make_axes() if axes is None else axes
    values, lower, upper = np.array([(value, e.lower, e.upper) for value, e in spent], dtype=np.float64).T
    on.set_xscale("log")
    on.set_yscale("log")
    on.fill_betweenx(values, lower, upper, color=INK, alpha=0.2, linewidth=0)
    on.plot(upper, values, color=INK, label="certified to be enough")
    if np.any(lower < (1 - ONE_NUMBER) * upper):
        on.plot(
            lower,
            values,
            color=INK,
            linewidth=0.8,
            linestyle="--",
            label="certified not to be enough, left of it",
        )
    target, named = found.target, found.parameter.replace("_", " ")
    on.set_xlim(max(lower.min(), target.epsilon / 8), min(upper.max(), target.epsilon * 8))
    on.set_ylim(values.min(), values.max())
    guide: dict[str, Any] = {"color": GREY, "linewidth": 0.8, "linestyle": (0, (1, 2))}
    on.plot(
        [target.epsilon, target.epsilon, on.get_xlim()[0]], [on.get_ylim()[0], *[found.value] * 2], **guide
    )
    value = (
        found.value if isinstance(found.value, int) else round_outwards(found.value, 4, up=found.rounds_up)
    )
    meets = rf"{named} {value} meets $\varepsilon$ = {write_number(target.epsilon)}"
    on.plot([target.epsilon], [found.value], "o", color=INK, markersize=7, label=meets)
    mark_powers(on.xaxis)
    mark_powers(on.yaxis)
    name_axes(on, rf"{_EPSILON} at $\delta$ = {write_number(target.delta)}", named)
    return on


def _ask_around(found: "Calibration[Any]") -> Iterator[tuple[float, Bracket]]:
    """Values on both sides with what they spend; those that cannot be set or certified are left out."""
    if found.run_at is None or not found.value:
        remedy = "Draw the curve instead: found.curve.plot()."
        raise InvalidSetting("value", found.value, "be one with others beside it", remedy)
    whole = isinstance(found.value, int)
    around = found.value * np.geomspace(_LEAST, _MOST, _POINTS)
    for value in sorted({max(round(each), 1) if whole else float(each) for each in [*around, found.value]}):
        try:
            epsilon = found.target.quick.curve(found.run_at(value)).epsilon(found.target.delta)
        except (InvalidSetting, NotPreciseEnough):
            continue
        if epsilon.lower > 0 and math.isfinite(epsilon.upper):
            yield value, epsilon
