"""Bracketed privacy curves as a picture."""

import io
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import InvalidSetting
from tightrope.files import write_whole
from tightrope.report.ticks import SHORT, power_ticks
from tightrope.setting.tables import placed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = {".png": "png", ".pdf": "pdf", ".svg": "svg"}

_BLUE, _ORANGE, _GREY = "#1f4e79", "#e07b00", "#5f6b76"
# Okabe and Ito's colours without yellow, which is lost on white: people who confuse colours can tell them apart
_PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (1, 1.5)),
    (0, (6, 2, 1, 2)),
)  # one for each round through the palette
_DEEPEST = -10.0  # log10 delta: below, what leaves the picture is no loss
_NAME_WIDTH = 44
_ROWS_INSIDE = 8  # a longer legend stands beside the curves, in a wider picture
_NARROW, _WIDE, _HIGH = 6.4, 9.6, 4.3
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.0,
    "axes.edgecolor": "#3b444c",
    "axes.linewidth": 0.8,
    "axes.unicode_minus": False,
    "pdf.fonttype": 42,  # embed outlines that editors and journals accept
    "svg.hashsalt": "tightrope",  # the same picture is the same bytes
    "svg.fonttype": "path",
}
# nothing in the file tells when it was made
_UNDATED: dict[str, dict[str, str | None]] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


def checked_target(path: str | Path) -> Path:
    """Return the path if a picture can be drawn there: known suffix, existing folder, matplotlib installed."""
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise InvalidSetting(
            f"the picture's name must end in {', '.join(FORMATS)}, got {str(target)!r}. Name it for example curve.png."
        )
    if not target.parent.is_dir():
        raise InvalidSetting(
            f"the picture's folder must exist, got {str(target)!r}. Create {str(target.parent)!r} first."
        )
    if target.is_dir():
        raise InvalidSetting(
            f"the picture must be a file, got the folder {str(target)!r}. Name a file in it."
        )
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise InvalidSetting(
            "pictures need matplotlib, which is not installed. Install tightrope[plot]."
        ) from None
    return target


def draw_curve(
    curve: PrivacyCurve,
    *,
    epsilons: Sequence[float],
    to: str | Path,
    title: str | None = None,
    assumed: str = "",
) -> Path:
    """Draw delta over `epsilons` on a logarithmic scale, with the band between both ends, into a png, pdf or svg file.

    Where delta is 0 the curve ends and a thick line on the lower edge says so. The file appears whole or not at all,
    and the same curve gives the same pdf and svg bytes. `title` and the smaller line `assumed` should state sampling
    and relation; without a title the curve's question is the title.
    """
    target, at = checked_target(path=to), asked(epsilons)
    ends = Ends.of(curve, at)

    def draw(axes: "Axes") -> None:
        bottom, top = limits([ends])
        if ends.shown.any():
            band(axes, at, ends, bottom, _BLUE)
            marker = "o" if ends.shown.sum() == 1 else ""
            axes.plot(
                at, gaps(ends.upper), color=_BLUE, linewidth=2.2, marker=marker, label="upper end: guaranteed"
            )
            dashed: dict[str, Any] = {
                "linestyle": (0, (4, 3)),
                "marker": marker,
                "label": "lower end: reached by real datasets",
            }
            axes.plot(at, gaps(ends.lower), color=_ORANGE, linewidth=1.5, **dashed)
        _draw_zero(axes, at, ends, bottom, _GREY, label=r"$\delta = 0$")
        framed(axes, at, bottom, top, [ends])
        headed(axes, title or curve.question, assumed)

    return picture(draw, target)


def draw_curves(
    curves: Iterable[tuple[str, PrivacyCurve]], *, epsilons: Sequence[float], to: str | Path, title: str = ""
) -> Path:
    """Draw several named curves over `epsilons` into one picture, each with the band between both of its ends.

    The scale reaches as deep as the curve that falls slowest, or to 1e-10; others leave the picture through its lower edge.
    Where a delta is 0, a thick line of the curve's colour lies on that edge. A curve that cannot be certified is refused by
    its name. The file appears whole or not at all, and the same curves give the same pdf and svg bytes.
    """
    target, at = checked_target(path=to), asked(epsilons)
    found: list[tuple[str, Ends]] = []
    for name, curve in curves:
        with placed(f"{name}: "):
            found.append((name, Ends.of(curve, at)))
    if not found:
        raise InvalidSetting(
            "curves must hold at least one curve, got none. Pass pairs of a name and a curve."
        )

    def draw(axes: "Axes") -> None:
        bottom, top = limits([ends for _, ends in found])
        for i, (name, ends) in enumerate(found):
            colour = _PALETTE[i % len(_PALETTE)]
            dashes = _DASHES[i // len(_PALETTE) % len(_DASHES)]
            marker = "o" if ends.shown.sum() == 1 else ""
            band(axes, at, ends, bottom, colour)
            axes.plot(
                at,
                gaps(ends.upper),
                color=colour,
                linewidth=2,
                linestyle=dashes,
                marker=marker,
                label=_label(name),
            )
            _draw_zero(axes, at, ends, bottom, colour)
        framed(axes, at, bottom, top, [ends for _, ends in found])
        headed(axes, title)

    return picture(draw, target)


@dataclass(frozen=True)
class Ends:
    """log10 of both ends of delta; -inf is where delta is 0."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @staticmethod
    def of(curve: PrivacyCurve, at: NDArray[np.float64]) -> "Ends":
        """Ask a certified curve."""
        logs = [curve.log_delta(float(epsilon)) for epsilon in at]
        lower, upper = (
            np.array([getattr(bracket, end) for bracket in logs]) / np.log(10) for end in ("lower", "upper")
        )
        return Ends(lower, upper)

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
        gaps = -np.expm1((self.lower[self.shown] - self.upper[self.shown]) * np.log(10))
        return float(np.max(gaps, initial=0.0))


def asked(epsilons: Sequence[float]) -> NDArray[np.float64]:
    """Sort the epsilons; at least one."""
    at = np.unique(np.asarray(epsilons, dtype=np.float64))
    if not at.size:
        raise InvalidSetting(
            "epsilons must hold at least one value, got none. Pass for example numpy.linspace(0, 2, 101)."
        )
    return at


def picture(draw: Callable[["Axes"], None], target: Path) -> Path:
    """Draw into a new figure and write it, whole or not at all."""
    import matplotlib
    from matplotlib.figure import Figure

    kind, drawn = FORMATS[target.suffix.lower()], io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(_NARROW, _HIGH), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        if (rows := _legend_rows(axes)) > _ROWS_INSIDE:
            figure.set_size_inches(_WIDE, max(_HIGH, 0.9 + 0.19 * rows))  # inches for a row of small print
        figure.savefig(drawn, format=kind, dpi=200, metadata=_UNDATED[kind])
    write_whole(target, drawn.getvalue(), what="the picture")
    return target


def band(axes: "Axes", at: NDArray[np.float64], ends: Ends, bottom: float, colour: str) -> None:
    """Fill what lies between the two ends."""
    axes.fill_between(
        at,
        np.maximum(ends.lower, bottom),
        ends.upper,
        where=ends.shown,
        color=colour,
        alpha=0.18,
        linewidth=0,
    )


def _draw_zero(
    axes: "Axes", at: NDArray[np.float64], ends: Ends, bottom: float, colour: str, label: str | None = None
) -> None:
    """Lay a thick line on the lower edge where delta is 0."""
    zero = at[~ends.shown]
    if zero.size:
        on_top = 5 - zero.size / at.size  # of longer ones
        style: dict[str, Any] = {"linewidth": 4, "solid_capstyle": "butt", "clip_on": False, "zorder": on_top}
        marker = "o" if zero.size == 1 else ""
        axes.plot(
            [zero.min(), zero.max()], [bottom, bottom], color=colour, marker=marker, label=label, **style
        )


def framed(axes: "Axes", at: NDArray[np.float64], bottom: float, top: float, drawn: Sequence[Ends]) -> None:
    """Axes, grid and legend around what is drawn."""
    axes.set_yticks(*power_ticks(bottom, top) if any(ends.shown.any() for ends in drawn) else ([], []))
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
    legend = axes.legend(
        **place, framealpha=0.95, edgecolor="none", title=_width(drawn), fontsize=9, alignment="left"
    )
    legend.get_title().set(fontsize=9, color=_GREY)


def _legend_rows(axes: "Axes") -> int:
    return sum(1 + label.count("\n") for label in axes.get_legend_handles_labels()[1])


def headed(axes: "Axes", title: str, assumed: str = "") -> None:
    """Put a title above, and what was assumed in smaller print."""
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", wrap=True, pad=22 if assumed else 8)
    if assumed:
        axes.text(0, 1.02, assumed, transform=axes.transAxes, fontsize=9, color=_GREY, va="bottom")


def _label(name: str) -> str:
    """A name as it is, not as mathematics between dollars; a leading underscore would hide it from the legend."""
    return textwrap.fill(name.replace("$", r"\$"), _NAME_WIDTH).replace(
        "_", " _", 1 if name.startswith("_") else 0
    )


def gaps(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Leave a gap in a line where there is nothing to draw."""
    return np.where(np.isfinite(values), values, np.nan)


def limits(drawn: Sequence[Ends]) -> tuple[float, float]:
    """Find the log10 range that holds the ends, with some air; delta is never above 1."""
    visible = [ends for ends in drawn if ends.shown.any()]
    if not visible:
        return -1.0, 0.0
    lowest = max(min(ends.lowest for ends in visible), min(max(ends.lowest for ends in visible), _DEEPEST))
    highest = max(ends.highest for ends in visible)
    air = max(0.04 * (highest - lowest), 0.05)
    bottom, top = lowest - air, min(highest + air, 0.0)
    return bottom, float(np.ceil(top)) if top - bottom > SHORT else top


def _width(drawn: Sequence[Ends]) -> str:
    """Say how far apart the ends are, which the eye often cannot tell."""
    if not any(ends.shown.any() for ends in drawn):
        return "nothing is lost"
    widest = max(ends.widest for ends in drawn)
    if not widest:
        return "the ends agree"
    rounded = Context(prec=2, rounding=ROUND_CEILING).create_decimal_from_float(widest)
    if rounded >= Decimal("0.01"):
        return rf"the ends differ by at most {float(100 * rounded):g} % of $\delta$"
    digits, power = f"{rounded:.1e}".split("e")
    return rf"the ends differ by at most ${digits} \times 10^{{{int(power)}}}\,\delta$"
