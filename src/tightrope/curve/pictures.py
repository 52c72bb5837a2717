"""Curves and trade-offs on the axes of matplotlib, where people can draw more of their own."""

import math
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidSetting, NotPreciseEnough
from tightrope.extras import MissingExtra
from tightrope.numerics.floats import Floats
from tightrope.numerics.text import round_outwards

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from tightrope.curve.curve import Curve
    from tightrope.curve.trade_off import TradeOff

MOST_INTERVALS = 12  # each may need draws of its own
NAME_WIDTH = 44
INK, SHADE, GREY = "#1f4e79", "#8fa5b8", "#5f6b76"  # dark, light and in between on paper without colours, too
_POINTS = 101
_FAR_ENOUGH = 1e-10  # the delta to which a curve is drawn unless epsilons are given
_RAREST = 1e-5  # the false positive rate from which attacks are drawn
_ATTACKS = 21  # straight between them on axes of powers; where theory leaves a gap, each takes long
_MARKS = ((8, range(1, 10)), (1000, (1, 2, 5)), (math.inf, (1,)))  # on shorter axes more digits
_BLIND = "blind guess"


def draw_deltas(
    curve: "Curve[Any]", epsilons: Sequence[float] | None, axes: "Axes | None", label: str | None
) -> "Axes":
    """Draw delta over epsilon; new axes where there are none. Nothing is drawn if the curve refuses."""
    check_axes(axes)
    at = sort_epsilons(_find_epsilons(curve) if epsilons is None else epsilons)
    if not curve.drawn_as:
        at = thin_out(at)
    lower, upper = np.array([ends_of(answer) for answer in curve.delta(at.tolist())], dtype=np.float64).T
    on = make_axes() if axes is None else axes
    shown, name = upper > 0, write_label(label or curve.question)
    least = np.min(np.concatenate([lower[lower > 0], upper[shown]]), initial=1.0)
    lower = np.where(lower > 0, lower, least / 10)  # an axis of powers of 10 has no 0
    marker = "_" if not curve.drawn_as else "o" if shown.sum() == 1 else ""
    over = np.where(shown, upper, np.nan)
    (line,) = on.plot(at, over, linestyle=curve.drawn_as or "none", marker=marker, label=name)
    colour: Any = line.get_color()
    if curve.drawn_as:
        on.fill_between(at, lower, upper, where=shown, color=colour, alpha=0.2, linewidth=0)
    else:
        whiskers = [upper[shown] - lower[shown], np.zeros(shown.sum())]
        on.errorbar(at[shown], upper[shown], yerr=whiskers, fmt="none", capsize=3, ecolor=colour)
    _draw_zero(on, at[~shown], colour)
    on.set_yscale("log")
    name_axes(on, r"privacy loss $\varepsilon$", r"failure probability $\delta$")
    return on


def draw_rates(trade_off: "TradeOff", count: int, axes: "Axes | None", label: str | None) -> "Axes":
    """Draw the false negative rate over the false positive rate, beside that of a blind guess."""
    check_axes(axes)
    rates, found = trade_off.points(count)
    lower, upper = np.array([ends_of(answer) for answer in found], dtype=np.float64).T
    on = make_axes() if axes is None else axes
    if _BLIND not in on.get_legend_handles_labels()[1]:
        on.plot([0, 1], [1, 0], color="0.5", linewidth=0.8, linestyle="--", label=_BLIND)
    (line,) = on.plot(rates, lower, label=write_label(label or trade_off.curve.question))
    on.fill_between(rates, lower, upper, color=line.get_color(), alpha=0.2, linewidth=0)
    name_axes(on, "false positive rate", "false negative rate")
    return on


def draw_attacks(
    trade_off: "TradeOff", marked: Sequence[float], axes: "Axes | None", label: str | None
) -> "Axes":
    """Draw the true positive rate over the false positive rate, both in powers of 10; marks at some rates.

    Attacks are judged where false alarms are rare, which axes from 0 to 1 do not show.
    """
    check_axes(axes)
    least = min([_RAREST, *marked])
    rates = np.unique([*np.geomspace(least, 1, _ATTACKS), *marked])
    found = [ends_of(answer) for answer in trade_off.true_positive_rate(rates)]
    lower, upper = np.array(found, dtype=np.float64).T
    on = make_axes() if axes is None else axes
    on.set_xscale("log")
    on.set_yscale("log")
    on.plot([least, 1], [least, 1], color="0.5", linewidth=0.8, linestyle="--", label=_BLIND)
    on.fill_between(rates, lower, upper, color=INK, alpha=0.2, linewidth=0)
    on.plot(rates, upper, color=INK, label=write_label(label or trade_off.curve.question))
    at = np.isin(rates, marked)
    on.plot(rates[at], upper[at], "o", color=INK, markersize=5)
    for rate, rightly in zip(rates[at], upper[at], strict=True):
        said = round_outwards(float(rightly), 3, up=True)
        on.annotate(said, (rate, rightly), (-4, 6), textcoords="offset points", ha="right", fontsize="small")
    on.set_xlim(least, 1)
    on.set_ylim(least, 1.5)
    name_axes(on, "false positive rate", "true positive rate")
    return on


def mark_powers(axis: "Axis") -> None:
    """Mark an axis of powers of 10 in plain numbers, at more than the powers where it is short."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = axis.get_view_interval()
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = next(many for most, many in _MARKS if high / low < most)
    places = [digit * 10.0**power for power in powers for digit in digits]
    axis.set_major_locator(FixedLocator([at for at in places if low <= at <= high]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:,.12g}" if 1e-4 <= at < 1e7 else f"{at:.0e}"))


def sort_epsilons(epsilons: Sequence[float] | Floats) -> Floats:
    """The epsilons in order, each once; none at all are refused."""
    at = np.unique(np.asarray(epsilons, dtype=np.float64))
    if not at.size:
        remedy = "Pass for example numpy.linspace(0, 2, 101)."
        raise InvalidSetting("epsilons", [], "hold at least one value", remedy)
    return at


def thin_out(at: Floats) -> Floats:
    """As many of these as can be asked one by one."""
    places = np.linspace(0, at.size - 1, min(at.size, MOST_INTERVALS)).round().astype(np.intp)
    return at[np.unique(places)].astype(np.float64)


def ends_of(answer: Any) -> tuple[float, float]:
    """Both ends of an answer of any kind; an answer of one number has it twice."""
    upper = answer.upper if hasattr(answer, "upper") else answer.value
    return getattr(answer, "lower", upper), upper


def write_label(name: str) -> str:
    """The name without mathematics between dollars; a leading underscore would hide it from the legend."""
    wrapped = textwrap.fill(name.replace("$", r"\$"), NAME_WIDTH)
    return f" {wrapped}" if name.startswith("_") else wrapped


def _find_epsilons(curve: "Curve[Any]") -> Floats:
    """From 0 to where delta is negligible, or to 1 if that is not known."""
    last = 0.0
    with suppress(NotPreciseEnough):
        _, last = ends_of(curve.epsilon(_FAR_ENOUGH))
    return np.linspace(0, last if 0 < last < math.inf else 1.0, _POINTS)


def check_axes(axes: object) -> None:
    """Refuse what is drawn on if it is given and no axes; without matplotlib, say how to install it."""
    try:
        from matplotlib.axes import Axes
    except ModuleNotFoundError as missing:
        raise MissingExtra("a picture", "matplotlib", "plot") from missing
    if axes is not None and not isinstance(axes, Axes):
        remedy = "Pass what matplotlib.pyplot.subplots() gives, or leave it out."
        raise InvalidSetting("ax", axes, "be axes of matplotlib", remedy)


def make_axes(size: tuple[float, float] | None = None) -> "Axes":
    """Axes of a figure that notebooks show and `matplotlib.pyplot.show` knows."""
    from matplotlib import pyplot

    _, axes = pyplot.subplots(layout="constrained", figsize=size)
    return axes


def _draw_zero(axes: "Axes", zero: NDArray[np.float64], colour: Any) -> None:
    """Lay a thick line on the lower edge where delta is 0, which no axis of powers of 10 has."""
    if zero.size:
        edge: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False}
        marker = "o" if zero.size == 1 else ""
        style: dict[str, Any] = {"linewidth": 4, "solid_capstyle": "butt", "marker": marker}
        axes.plot([zero.min(), zero.max()], [0, 0], color=colour, label=r"$\delta = 0$", **style, **edge)


def name_axes(axes: "Axes", across: str, upwards: str) -> None:
    """Name the axes that have no name yet, and the curves."""
    axes.set_xlabel(axes.get_xlabel() or across)
    axes.set_ylabel(axes.get_ylabel() or upwards)
    axes.grid(visible=True, alpha=0.3, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize="small", framealpha=0.95, edgecolor="none")
