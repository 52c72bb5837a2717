"""The picture of docs/findings/batching.md: epsilon, and how far it lies from that of Poisson sampling."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tightrope.files import write_whole
from tightrope.report.canvas import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INCHES = (11.0, 7.2)
INK, GREY = "#2b333a", "#5f6b76"
# Okabe and Ito's colours: people who confuse colours can tell them apart
LOOKS: dict[str, dict[str, Any]] = {
    "every-record": {"color": "#000000", "marker": "s", "linestyle": (0, (1, 1.4))},
    "shuffle": {"color": "#d55e00", "marker": "", "linestyle": "-"},
    "without-replacement": {"color": "#cc79a7", "marker": "^", "linestyle": (0, (5, 1.6, 1, 1.6))},
    "truncated-poisson": {"color": "#e69f00", "marker": "x", "linestyle": ""},
    "poisson": {"color": "#0072b2", "marker": "o", "linestyle": "-"},
    "balls-in-bins": {"color": "#009e73", "marker": "D", "linestyle": (0, (5, 1.6))},
}
Lines = Mapping[tuple[str, float, int], tuple[float, float]]


def draw_picture(
    lines: Lines,
    *,
    names: Mapping[str, str],
    noises: Sequence[float],
    epochs: Sequence[int],
    folder: Path,
) -> None:
    """Write batching.png and batching.pdf; nothing in the files tells when they were made."""
    import matplotlib
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=INCHES, layout="constrained")
        rows = figure.subplots(2, len(noises), height_ratios=(3, 1.5), sharex=True, sharey="row")
        for above, below, noise in zip(*rows, noises, strict=True):
            _draw_epsilons(above, lines, names, noise, epochs)
            _draw_differences(below, lines, noise, epochs)
            above.set_title(f"noise {noise:g}", loc="left", fontsize=11, fontweight="bold", color=INK)
            for axes in (above, below):
                _clear_frame(axes)
            below.set_xticks(epochs, [str(count) for count in epochs])
            below.set_xlabel("epochs")
        rows[0][0].set_ylabel("ε at δ = 1e-6")
        rows[1][0].set_ylabel("ε beside\nPoisson's")
        handles, labels = rows[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False, fontsize=9.5)
        for kind, undated in (("png", {}), ("pdf", {"CreationDate": None})):
            content = io.BytesIO()
            figure.savefig(content, format=kind, dpi=200, metadata=undated)
            write_whole(folder / f"batching.{kind}", content.getvalue(), what="the picture")


def _draw_epsilons(
    axes: "Axes", lines: Lines, names: Mapping[str, str], noise: float, epochs: Sequence[int]
) -> None:
    """One line for each way to make batches; for shuffles the band between both ends."""
    for sampling, look in LOOKS.items():
        lower, upper = zip(*(lines[sampling, noise, count] for count in epochs), strict=True)
        if sampling == "shuffle":
            style: dict[str, Any] = {"color": look["color"], "alpha": 0.25, "linewidth": 0}
            axes.fill_between(epochs, lower, upper, label=f"{names[sampling]}: proved ends", **style)
            for end in (lower, upper):
                axes.plot(epochs, end, color=look["color"], linewidth=1.2)
        else:
            style = {"markersize": 5.5, "linewidth": 1.7, "fillstyle": "none", "markeredgewidth": 1.4}
            axes.plot(epochs, upper, label=names[sampling], **style, **look)
    axes.set(xscale="log", yscale="log", xlim=(epochs[0] / 1.4, epochs[-1] * 1.4))


def _draw_differences(axes: "Axes", lines: Lines, noise: float, epochs: Sequence[int]) -> None:
    """Both ends over Poisson's upper end, less 1, in percent."""
    axes.margins(y=0.12)
    axes.axhline(0, color=LOOKS["poisson"]["color"], linewidth=1.7)
    for sampling in ("balls-in-bins", "truncated-poisson"):
        shares = [
            [100 * (end / lines["poisson", noise, count][1] - 1) for end in lines[sampling, noise, count]]
            for count in epochs
        ]
        lower, upper = zip(*shares, strict=True)
        look = LOOKS[sampling]
        axes.vlines(epochs, lower, upper, color=look["color"], linewidth=3)
        axes.plot(epochs, upper, markersize=5.5, linewidth=1.4, fillstyle="none", markeredgewidth=1.4, **look)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:+g} %" if share else "0 %")


def _clear_frame(axes: "Axes") -> None:
    """A light grid behind, and spines left and below only."""
    axes.grid(color="#e3e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", color=GREY, labelcolor=INK)
    axes.minorticks_off()
