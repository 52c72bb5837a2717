"""The look of the paper's figures, and files that appear whole: the same numbers give the same bytes."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tightrope.files import write_whole
from tightrope.report.plot import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours: people who confuse colours can tell them apart
BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, BLACK = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#000000",
)
INK, GREY = "#2b333a", "#5f6b76"


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
            target = folder / f"{name}.{kind}"
            write_whole(target, content.getvalue(), what="the picture")
            written.append(target)
    return written[0], written[1]
