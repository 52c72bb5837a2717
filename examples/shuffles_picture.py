"""The picture of docs/findings/shuffles.md: what is proved about shuffles, and what else there is."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tightrope.files import write_whole
from tightrope.report.canvas import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INCHES = (11.0, 6.6)
INK, GREY, BAND = "#2b333a", "#5f6b76", "#d55e00"
# Okabe and Ito's colours: people who confuse colours can tell them apart, and lines differ without colours
LOOKS: dict[str, dict[str, Any]] = {
    "told": {"color": "#000000", "marker": "s", "linestyle": (0, (1, 1.4))},
    "clones": {"color": "#cc79a7", "marker": "^", "linestyle": (0, (5, 1.6, 1, 1.6))},
    "any-size": {"color": BAND, "marker": "v", "linestyle": (0, (5, 1.6))},
    "thousand": {"color": BAND, "marker": "", "linestyle": "-"},
    "spare-place": {"color": BAND, "marker": "x", "linestyle": ""},
    "poisson": {"color": "#0072b2", "marker": "o", "linestyle": "-"},
}
LABELS = {
    "told": "no amplification",
    "clones": "clones (one epoch)",
    "any-size": "shuffle, any batch size: upper end",
    "thousand": "shuffle, batches of 1,000: proved ends",
    "spare-place": "shuffle, a spare place: upper end",
    "poisson": "Poisson",
}
Line = Mapping[float, float]  # from noise to epsilon
Lines = Mapping[
    tuple[str, int, int], Line
]  # by batching, number of batches and epochs; "lower" is the lower end


def draw_picture(lines: Lines, *, batches: Sequence[int], epochs: Sequence[int], folder: Path) -> None:
    """Write shuffles.png and shuffles.pdf; nothing in the files tells when they were made."""
    import matplotlib
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=INCHES, layout="constrained")
        panels = figure.subplots(len(epochs), len(batches), sharex=True, sharey=True, squeeze=False)
        for row, times in zip(panels, epochs, strict=True):
            for axes, count in zip(row, batches, strict=True):
                _draw_panel(axes, lines, count, times)
            row[0].set_ylabel(f"ε at δ = 1e-6, {times} epoch{'s' * (times > 1)}")
        for axes, count in zip(panels[0], batches, strict=True):
            axes.set_title(f"{count:,} batches", loc="left", fontsize=11, fontweight="bold", color=INK)
        for axes in panels[-1]:
            axes.set_xlabel("noise")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9.5)
        for kind, undated in (("png", {}), ("pdf", {"CreationDate": None})):
            content = io.BytesIO()
            figure.savefig(content, format=kind, dpi=200, metadata=undated)
            write_whole(folder / f"shuffles.{kind}", content.getvalue(), what="the picture")


def _draw_panel(axes: "Axes", lines: Lines, batches: int, epochs: int) -> None:
    """Epsilon by noise: a band between what is reached and what is proved, and a line for everything else."""
    noises = sorted(lines["lower", batches, epochs])
    for batching, look in LOOKS.items():
        line = lines[batching, batches, epochs]
        if batching == "thousand":
            low, high = (
                [lines[end, batches, epochs][noise] for noise in noises] for end in ("lower", batching)
            )
            axes.fill_between(noises, low, high, label=LABELS[batching], color=BAND, alpha=0.25, linewidth=0)
            for end in (low, high):
                axes.plot(noises, end, color=BAND, linewidth=1.3)
            continue
        style: dict[str, Any] = {
            "markersize": 5,
            "linewidth": 1.5,
            "fillstyle": "none",
            "markeredgewidth": 1.3,
        }
        axes.plot(list(line), list(line.values()), label=LABELS[batching], **style, **look)
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(noises, [f"{noise:g}" for noise in noises])
    axes.grid(color="#e3e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", color=GREY, labelcolor=INK)
    axes.minorticks_off()
