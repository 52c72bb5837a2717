"""The look of the paper's figures, and files that appear whole: the same numbers give the same bytes."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tightrope.files import write_whole
from tightrope.report.canvas import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours: people who confuse colours can tell them apart
BLUE, VERMILION, GREEN, PURPLE, ORANGE = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"
INK, GREY = "#2b333a", "#5f6b76"
DOTTED, DASHED, DASH_DOT = (0, (1, 1.4)), (0, (5, 1.6)), (0, (5, 1.6, 1, 1.6))


def save_picture(
    draw: "Callable[[Figure], None]", folder: Path, name: str, *, inches: tuple[float, float]
) -> tuple[Path, Path]:
    """Draw once, write name.png and name.pdf; nothing in the files tells when they were made."""
    import matplotlib
    from matplotlib.figure import Figure

    written = []
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=inches, layout="constrained")
        draw(figure)
        for kind, undated in (("png", {}), ("pdf", {"CreationDate": None})):
            content = io.BytesIO()
            figure.savefig(content, format=kind, dpi=200, metadata=undated)
            written.append(folder / f"{name}.{kind}")
            write_whole(written[-1], content.getvalue(), what="the picture")
    return written[0], written[1]


def clear_frame(axes: "Axes") -> None:
    """A light grid behind, and spines left and below only."""
    axes.grid(color="#e3e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", color=GREY, labelcolor=INK)


def head(axes: "Axes", heading: str, setting: str) -> None:
    """A bold heading that says what the picture shows, over a small line for the setting."""
    axes.set_title(heading, loc="left", fontsize=11, fontweight="bold", color=INK, pad=22)
    axes.text(0, 1.02, setting, transform=axes.transAxes, fontsize=8.5, color=GREY, va="bottom")


def bold(colour: str, **more: Any) -> dict[str, Any]:
    """The style of the words that name a line."""
    return {"color": colour, "fontsize": 9, "fontweight": "bold", **more}


def leader(colour: str = GREY, **more: Any) -> dict[str, Any]:
    """The style of the line from some words to what they name."""
    return {"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkB": 4, **more}
