"""One bracketed privacy curve as a picture."""

import os
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import InvalidSetting
from tightrope.report.ticks import SHORT, power_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = {".png": "png", ".pdf": "pdf", ".svg": "svg"}

_BLUE, _ORANGE, _GREY = "#1f4e79", "#e07b00", "#5f6b76"
_STYLE: dict[Any, Any] = {
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
        raise InvalidSetting(f"the picture's folder must exist, got {str(target)!r}. Create {str(target.parent)!r} first.")
    if target.is_dir():
        raise InvalidSetting(f"the picture must be a file, got the folder {str(target)!r}. Name a file in it.")
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise InvalidSetting("pictures need matplotlib, which is not installed. Install tightrope[plot].") from None
    return target


def draw_curve(
    curve: PrivacyCurve, *, epsilons: Sequence[float], to: str | Path, title: str | None = None, assumed: str = ""
) -> Path:
    """Draw delta over `epsilons` on a logarithmic scale, with the band between both ends, into a png, pdf or svg file.

    Where delta is 0 the curve ends and a thick line on the lower edge says so. The file appears whole or not at all,
    and the same curve gives the same pdf and svg bytes. `title` and the smaller line `assumed` should state sampling
    and relation; without a title the curve's question is the title.
    """
    target = checked_target(path=to)
    import matplotlib
    from matplotlib.figure import Figure

    at = np.unique(np.asarray(epsilons, dtype=np.float64))
    if not at.size:
        raise InvalidSetting("epsilons must hold at least one value, got none. Pass for example numpy.linspace(0, 2, 101).")
    logs = [curve.log_delta(float(epsilon)) for epsilon in at]
    lower, upper = (np.array([getattr(b, end) for b in logs]) / np.log(10) for end in ("lower", "upper"))
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 4.3), layout="constrained")
        axes = figure.add_subplot()
        _draw(axes, at, lower, upper)
        axes.set_title(title or curve.question, loc="left", fontsize=11, fontweight="bold", wrap=True, pad=22 if assumed else 8)
        if assumed:
            axes.text(0, 1.02, assumed, transform=axes.transAxes, fontsize=9, color=_GREY, va="bottom")
        kind = FORMATS[target.suffix.lower()]
        _write_whole(target, lambda name: figure.savefig(name, format=kind, dpi=200, metadata=_UNDATED[kind]))
    return target


def _draw(axes: "Axes", at: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]) -> None:
    """Draw log10 of both ends; -inf is where delta is 0."""
    bottom, top = _limits(lower, upper)
    shown = np.isfinite(upper)
    if shown.any():
        axes.fill_between(at, np.maximum(lower, bottom), upper, where=shown, color=_BLUE, alpha=0.18, linewidth=0)
        marker = "o" if shown.sum() == 1 else ""
        axes.plot(at, _gaps(upper), color=_BLUE, linewidth=2.2, marker=marker, label="upper end: guaranteed")
        axes.plot(
            at,
            _gaps(lower),
            color=_ORANGE,
            linewidth=1.5,
            linestyle=(0, (4, 3)),
            marker=marker,
            label="lower end: reached by real datasets",
        )
        axes.set_yticks(*power_ticks(bottom, top))
    else:
        axes.set_yticks([])
    if not shown.all():
        zero = at[~shown]
        style: dict[str, Any] = {"linewidth": 4, "solid_capstyle": "butt", "clip_on": False, "zorder": 5}
        axes.plot(
            [zero.min(), zero.max()],
            [bottom, bottom],
            color=_GREY,
            marker="o" if zero.size == 1 else "",
            label=r"$\delta = 0$",
            **style,
        )
    margin = 0.0 if at.size > 1 else 1.0
    axes.set_xlim(at[0] - margin, at[-1] + margin)
    axes.set_ylim(bottom, top)
    axes.locator_params(axis="x", nbins=7)
    axes.set_xlabel(r"privacy loss $\varepsilon$")
    axes.set_ylabel(r"failure probability $\delta$")
    axes.grid(color="#e3e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    legend = axes.legend(loc="best", framealpha=0.95, edgecolor="none", title=_width(lower, upper), fontsize=9, alignment="left")
    legend.get_title().set(fontsize=9, color=_GREY)


def _gaps(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Leave a gap in a line where there is nothing to draw."""
    return np.where(np.isfinite(values), values, np.nan)


def _limits(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> tuple[float, float]:
    """Find the log10 range that holds both ends, with some air; delta is never above 1."""
    seen = np.concatenate([lower, upper])
    seen = seen[np.isfinite(seen)]
    if not seen.size:
        return -1.0, 0.0
    air = max(0.04 * float(np.ptp(seen)), 0.05)
    bottom, top = float(seen.min()) - air, min(float(seen.max()) + air, 0.0)
    return bottom, float(np.ceil(top)) if top - bottom > SHORT else top


def _width(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> str:
    """Say how far apart the ends are, which the eye often cannot tell."""
    shown = np.isfinite(upper)
    if not shown.any():
        return "nothing is lost"
    widest = float(np.max(-np.expm1((lower[shown] - upper[shown]) * np.log(10))))
    if not widest:
        return "the ends agree"
    rounded = Context(prec=2, rounding=ROUND_CEILING).create_decimal_from_float(widest)
    if rounded >= Decimal("0.01"):
        return rf"the ends differ by at most {float(100 * rounded):g} % of $\delta$"
    digits, power = f"{rounded:.1e}".split("e")
    return rf"the ends differ by at most ${digits} \times 10^{{{int(power)}}}\,\delta$"


def _write_whole(target: Path, save: Callable[[str], None]) -> None:
    """Save beside the target, then rename: a reader sees the old file or the new one, never half of it."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        save(str(part))
        os.replace(part, target)
    except OSError as problem:
        raise InvalidSetting(
            f"the picture {str(target)!r} could not be written: {problem.strerror}. Choose another place."
        ) from problem
    finally:
        part.unlink(missing_ok=True)
