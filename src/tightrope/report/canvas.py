"""Where pictures are drawn: one style for all of them, and files that appear whole or not at all."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tightrope.curve.pictures import GREY
from tightrope.errors import UnusableFile
from tightrope.extras import advise_install
from tightrope.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = {".png": "png", ".pdf": "pdf", ".svg": "svg"}
SIZE = (6.4, 4.3)  # inches
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
# no file tells when it was made
_UNDATED: dict[str, dict[str, str | None]] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


def check_target(path: str | Path) -> Path:
    """The path, if a picture can be drawn there: known suffix, existing folder, matplotlib installed."""
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        known = ", ".join(FORMATS)
        raise UnusableFile(target, f"must end in {known} to hold a picture", "Name it for example curve.png.")
    if not target.parent.is_dir():
        folder = str(target.parent)
        raise UnusableFile(target, "is in a folder that does not exist", f"Create {folder!r} first.")
    if target.is_dir():
        raise UnusableFile(target, "must be a file, and is a folder", "Name a file in it.")
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        needs = "needs matplotlib to be drawn, which is not installed"
        raise UnusableFile(target, needs, advise_install("plot")) from None
    return target


def write_picture(
    draw: Callable[["Axes"], object],
    target: Path,
    *,
    title: str,
    assumed: str = "",
    size: tuple[float, float] = SIZE,
) -> Path:
    """Draw on the axes of a new figure and write it whole or not at all.

    `title` stands above the picture and `assumed`, smaller, between them. The same picture is the same
    pdf and svg bytes.
    """
    import matplotlib
    from matplotlib.figure import Figure

    kind, written = FORMATS[target.suffix.lower()], io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", wrap=True, pad=22 if assumed else 8)
        if assumed:
            axes.text(0, 1.02, assumed, transform=axes.transAxes, fontsize=9, color=GREY, va="bottom")
        figure.savefig(written, format=kind, dpi=200, metadata=_UNDATED[kind])
    write_whole(target, written.getvalue(), what="the picture")
    return target
