"""Privacy curves as pictures: one bracketed curve, several, or what every accountant says about one run."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.curve.curve import Curve
from tightrope.curve.pictures import GREY, INK, ends_of, sort_epsilons, thin_out, write_label
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import InvalidSetting
from tightrope.numerics.floats import Floats
from tightrope.report.canvas import check_target, write_picture
from tightrope.setting.tables import place_refusals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHORT = 2.5  # decades: on a shorter axis, 2 and 5 times the powers are marked too

_ORANGE = "#e07b00"
# Okabe and Ito's colours without yellow, which is lost on white: people who confuse colours can tell them
# apart
_PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_LONG, _DOTTED, _MIXED = (0, (6, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2))
_DASHES: tuple[Any, ...] = ("-", _LONG, _DOTTED, _MIXED)  # one for each round through the palette
_ACCOUNTANTS: dict[str, tuple[str, Any, str]] = {
    "certified": ("#0072b2", "-", "certified bracket"),
    "exact": ("#cc79a7", "", "exact integers: brackets"),
    "renyi": ("#d55e00", _LONG, "Rényi: an upper bound"),
    "gaussian-limit": ("#009e73", _DOTTED, "Gaussian limit: an approximation"),
    "monte-carlo": ("#000000", "", "Monte Carlo: intervals"),
}
_DEEPEST = -10.0  # log10 delta: curves may leave the picture below this
_ROWS_INSIDE = 8  # a longer legend stands beside the curves, in a wider picture
_WIDE, _HIGH = 9.6, 4.3  # inches


def draw_curve(
    curve: PrivacyCurve,
    *,
    epsilons: Sequence[float],
    to: str | Path,
    title: str | None = None,
    assumed: str = "",
) -> Path:
    """Draw delta over `epsilons` with the band between both ends, into a png, pdf or svg file.

    Where delta is 0 the curve ends, and a thick line on the lower edge says so. The file appears whole or not
    at all, and the same curve gives the same pdf and svg bytes. `title` and the smaller line `assumed` should
    state sampling and relation; without a title the curve's question is the title.
    """
    target, at = check_target(to), sort_epsilons(epsilons)
    deltas = _LogDeltas.of(curve, at)

    def draw(axes: "Axes", bottom: float) -> None:
        if deltas.shown.any():
            _draw_band(axes, at, deltas, bottom, INK)
            _draw_line(axes, at, deltas.upper, color=INK, linewidth=2.2, label="upper end: guaranteed")
            lower = "lower end: reached by real datasets"
            _draw_line(
                axes, at, deltas.lower, color=_ORANGE, linewidth=1.5, linestyle=(0, (4, 3)), label=lower
            )
        _draw_zero(axes, at, deltas, bottom, GREY, label=r"$\delta = 0$")

    return _draw_picture(draw, target, at, [deltas], title=title or curve.question, assumed=assumed)


def draw_curves(
    curves: Iterable[tuple[str, PrivacyCurve]], *, epsilons: Sequence[float], to: str | Path, title: str = ""
) -> Path:
    """Draw several named curves over `epsilons`, each with the band between both of its ends.

    The scale reaches as deep as the curve that falls slowest, or to 1e-10; others leave the picture through
    its lower edge. Where a delta is 0, a thick line of the curve's colour lies on that edge. A curve that
    cannot be certified is refused by its name. The file appears whole or not at all, and the same curves give
    the same pdf and svg bytes.
    """
    target, at = check_target(to), sort_epsilons(epsilons)
    found: list[tuple[str, _LogDeltas]] = []
    for name, curve in curves:
        with place_refusals(f"{name}: "):
            found.append((name, _LogDeltas.of(curve, at)))
    if not found:
        raise InvalidSetting("curves", [], "hold at least one curve", "Pass pairs of a name and a curve.")

    def draw(axes: "Axes", bottom: float) -> None:
        for i, (name, deltas) in enumerate(found):
            colour = _PALETTE[i % len(_PALETTE)]
            dashes = _DASHES[i // len(_PALETTE) % len(_DASHES)]
            _draw_band(axes, at, deltas, bottom, colour)
            _draw_line(
                axes, at, deltas.upper, color=colour, linewidth=2, linestyle=dashes, label=write_label(name)
            )
            _draw_zero(axes, at, deltas, bottom, colour)

    return _draw_picture(draw, target, at, [deltas for _, deltas in found], title=title)


def draw_accountants(
    curves: Mapping[str, Curve[Any]],
    *,
    epsilons: Sequence[float],
    to: str | Path,
    title: str = "",
    assumed: str = "",
) -> Path:
    """Draw delta by each accountant, given by its name: a band, lines, and intervals at some epsilons.

    The file appears whole or not at all, and the same curves give the same pdf and svg bytes.
    """
    target, at = check_target(to), sort_epsilons(epsilons)
    some = thin_out(at)
    places = {name: at if _ACCOUNTANTS[name][1] else some for name in curves}
    found = {name: _LogDeltas.of(curve, places[name]) for name, curve in curves.items()}

    def draw(axes: "Axes", bottom: float) -> None:
        for name, deltas in found.items():
            colour, dashes, label = _ACCOUNTANTS[name]
            if not dashes:  # no line: each point takes seconds
                _draw_intervals(axes, some, deltas, bottom, ecolor=colour, label=label)
                continue
            if name == "certified":
                _draw_band(axes, at, deltas, bottom, colour)
            _draw_line(axes, at, deltas.upper, color=colour, linewidth=2, linestyle=dashes, label=label)

    certified = [found["certified"]] if "certified" in found else []
    drawn = list(found.values())
    return _draw_picture(draw, target, at, drawn, certified, title=title, assumed=assumed)


@dataclass(frozen=True)
class _LogDeltas:
    """log10 of both ends of delta; -inf is where delta is 0. Answers of one number have it twice."""

    lower: Floats
    upper: Floats

    @staticmethod
    def of(curve: Curve[Any], at: Floats) -> "_LogDeltas":
        answers = [ends_of(answer) for answer in curve.log_delta(at.tolist())]
        lower, upper = np.array(answers, dtype=np.float64).T / math.log(10)
        return _LogDeltas(lower, upper)

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Where there is something to draw."""
        return np.isfinite(self.upper)

    @property
    def lowest(self) -> float:
        """The lowest number drawn."""
        seen = np.concatenate([self.lower, self.upper])
        return float(np.min(seen[np.isfinite(seen)], initial=0.0))

    @property
    def highest(self) -> float:
        """The highest number drawn."""
        return float(np.max(self.upper[self.shown], initial=-np.inf))

    @property
    def widest(self) -> float:
        """The largest distance between both ends, relative to the upper one."""
        gaps = -np.expm1((self.lower[self.shown] - self.upper[self.shown]) * math.log(10))
        return float(np.max(gaps, initial=0.0))


def _draw_picture(
    draw: Callable[["Axes", float], None],
    target: Path,
    at: Floats,
    drawn: Sequence[_LogDeltas],
    bracketed: Sequence[_LogDeltas] | None = None,
    *,
    title: str,
    assumed: str = "",
) -> Path:
    """Draw into a new figure with axes, grid and legend, and write it whole or not at all."""
    bottom, top = _find_limits(drawn)

    def draw_all(axes: "Axes") -> None:
        draw(axes, bottom)
        axes.set_yticks(*power_ticks(bottom, top) if any(ends.shown.any() for ends in drawn) else ([], []))
        _draw_frame(axes, at, bottom, top, drawn if bracketed is None else bracketed)
        if (rows := _legend_rows(axes)) > _ROWS_INSIDE:
            figure = axes.get_figure(root=True)
            assert figure is not None
            figure.set_size_inches(_WIDE, max(_HIGH, 0.9 + 0.19 * rows))  # inches for a row of small print

    return write_picture(draw_all, target, title=title, assumed=assumed)


def _draw_band(axes: "Axes", at: Floats, deltas: _LogDeltas, bottom: float, colour: str) -> None:
    style: dict[str, Any] = {"where": deltas.shown, "color": colour, "alpha": 0.18, "linewidth": 0}
    axes.fill_between(at, np.maximum(deltas.lower, bottom), deltas.upper, **style)


def _draw_line(axes: "Axes", at: Floats, values: Floats, **style: Any) -> None:
    """A line with gaps where there is nothing to draw, or a point where there is one."""
    shown = np.isfinite(values)
    axes.plot(at, np.where(shown, values, np.nan), marker="o" if shown.sum() == 1 else "", **style)


def _draw_zero(
    axes: "Axes", at: Floats, deltas: _LogDeltas, bottom: float, colour: str, label: str | None = None
) -> None:
    """Lay a thick line on the lower edge where delta is 0."""
    zero = at[~deltas.shown]
    if zero.size:
        above_longer_ones = 5 - zero.size / at.size
        style: dict[str, Any] = {"linewidth": 4, "solid_capstyle": "butt", "clip_on": False}
        style |= {"marker": "o" if zero.size == 1 else "", "zorder": above_longer_ones}
        axes.plot([zero.min(), zero.max()], [bottom, bottom], color=colour, label=label, **style)


def _draw_intervals(axes: "Axes", at: Floats, deltas: _LogDeltas, bottom: float, **style: Any) -> None:
    """Vertical bars with caps; one that reaches below the picture goes to its edge."""
    lower, upper = np.maximum(deltas.lower[deltas.shown], bottom), deltas.upper[deltas.shown]
    style |= {"fmt": "none", "elinewidth": 1.4, "capsize": 3, "zorder": 6}
    axes.errorbar(at[deltas.shown], (lower + upper) / 2, yerr=np.maximum(upper - lower, 0) / 2, **style)


def _draw_frame(axes: "Axes", at: Floats, bottom: float, top: float, bracketed: Sequence[_LogDeltas]) -> None:
    margin = 0.0 if at.size > 1 else 1.0
    axes.set_xlim(at[0] - margin, at[-1] + margin)
    axes.set_ylim(bottom, top)
    axes.locator_params(axis="x", nbins=7)
    axes.set_xlabel(r"privacy loss $\varepsilon$")
    axes.set_ylabel(r"failure probability $\delta$")
    axes.grid(color="#e3e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    place = beside if _legend_rows(axes) > _ROWS_INSIDE else {"loc": "best"}
    place |= {"framealpha": 0.95, "edgecolor": "none", "fontsize": 9, "alignment": "left"}
    legend = axes.legend(**place, title=_width_in_words(bracketed))
    legend.get_title().set(fontsize=9, color=GREY)


def _legend_rows(axes: "Axes") -> int:
    return sum(1 + label.count("\n") for label in axes.get_legend_handles_labels()[1])


def _find_limits(drawn: Sequence[_LogDeltas]) -> tuple[float, float]:
    """The log10 range that holds the ends, with some air; delta is never above 1."""
    visible = [deltas for deltas in drawn if deltas.shown.any()]
    if not visible:
        return -1.0, 0.0
    depths = [deltas.lowest for deltas in visible]
    lowest, highest = max(min(depths), min(max(depths), _DEEPEST)), max(deltas.highest for deltas in visible)
    air = max(0.04 * (highest - lowest), 0.05)
    bottom, top = lowest - air, min(highest + air, 0.0)
    return bottom, float(np.ceil(top)) if top - bottom > SHORT else top


def power_ticks(bottom: float, top: float) -> tuple[list[float], list[str]]:
    """Positions (log10) and labels between two log10 ends, which may lie far below the smallest float.

    >>> power_ticks(-4.2, 0)[1]
    ['$10^{-4}$', '$10^{-3}$', '$10^{-2}$', '$10^{-1}$', '$10^{0}$']
    >>> power_ticks(-1.1, -0.2)[1]
    ['0.1', '0.2', '0.5']
    """
    from matplotlib.ticker import LogLocator, MaxNLocator

    if top - bottom > SHORT:
        whole = MaxNLocator(nbins=9, integer=True, steps=[1, 2, 5, 10]).tick_values(bottom, top)
        found = [float(power) for power in whole if bottom <= power <= top]
        return found, [f"$10^{{{power:.0f}}}$" for power in found]
    base = math.floor(bottom)  # which keeps the numbers near 1
    values = LogLocator(subs=(1.0, 2.0, 5.0)).tick_values(10 ** (bottom - base), 10 ** (top - base))
    found = [at for value in values if bottom <= (at := base + math.log10(value)) <= top]
    return found, [_multiple(at) for at in found]


def _multiple(log10: float) -> str:
    power = math.floor(log10 + 1e-9)
    digit = round(10 ** (log10 - power))
    if -3 <= power <= 0:
        return f"{digit * 10.0**power:g}"
    return rf"$10^{{{power}}}$" if digit == 1 else rf"${digit} \cdot 10^{{{power}}}$"


def _width_in_words(bracketed: Sequence[_LogDeltas]) -> str:
    """How far apart the ends are, which the eye often cannot tell; nothing where there are no brackets."""
    if not bracketed:
        return ""
    if not any(deltas.shown.any() for deltas in bracketed):
        return "nothing is lost"
    widest = max(deltas.widest for deltas in bracketed)
    if not widest:
        return "the ends agree"
    rounded = Context(prec=2, rounding=ROUND_CEILING).create_decimal_from_float(widest)
    if rounded >= Decimal("0.01"):
        return rf"the ends differ by at most {float(100 * rounded):g} % of $\delta$"
    digits, power = f"{rounded:.1e}".split("e")
    return rf"the ends differ by at most ${digits} \times 10^{{{int(power)}}}\,\delta$"
