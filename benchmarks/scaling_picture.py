"""The picture of benchmarks/scaling.py: time against steps, rate and delta, for everyone."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tightrope.curve.pictures import GREY, INK
from tightrope.files import write_whole
from tightrope.report.canvas import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INCHES = (11.0, 4.4)
SECONDS = (1e-3, 100.0)
FAILED = {"Opacus PRV": 70.0, "PLD": 35.0}  # at which height it is marked that there was no answer
# Okabe and Ito's colours: people who confuse colours can tell them apart, and lines differ without colours
LOOKS: dict[str, dict[str, Any]] = {
    "Tightrope": {"color": INK, "marker": "o", "linestyle": "-", "linewidth": 2.6, "markersize": 6.5},
    "PLD": {"color": "#d55e00", "marker": "s", "linestyle": (0, (5, 1.6))},
    "Opacus PRV": {"color": "#cc79a7", "marker": "^", "linestyle": (0, (5, 1.6, 1, 1.6))},
    "RDP": {"color": "#009e73", "marker": "D", "linestyle": (0, (1, 1.4))},
    "Opacus RDP": {"color": "#000000", "marker": "x", "linestyle": (0, (3, 1.4, 1, 1.4, 1, 1.4))},
}
LABELS = {
    "Tightrope": "Tightrope: both ends",
    "PLD": "dp_accounting PLD",
    "Opacus PRV": "Opacus PRV",
    "RDP": "dp_accounting RDP",
    "Opacus RDP": "Opacus RDP",
}
AXES = {"steps": "steps k", "rate": "sampling rate", "delta": "failure probability δ"}
Line = Sequence[tuple[float, float, str]]  # place, seconds, and why there are none


def draw_picture(lines: Mapping[tuple[str, str], Line], *, centre: Mapping[str, float], folder: Path) -> None:
    """Write scaling.png and scaling.pdf; nothing in the files tells when they were made."""
    import matplotlib
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=INCHES, layout="constrained")
        panels = figure.subplots(1, len(AXES), sharey=True)
        for axes, along in zip(panels, AXES, strict=True):
            _draw_panel(axes, along, {name: line for (axis, name), line in lines.items() if axis == along})
            axes.set_title(_hold(along, centre), loc="left", fontsize=9.5, color=GREY, pad=8)
        panels[0].set_ylabel("CPU time of one ε")
        _name_lines(panels[-1], {name: line for (axis, name), line in lines.items() if axis == "delta"})
        for kind, undated in (("png", {}), ("pdf", {"CreationDate": None})):
            content = io.BytesIO()
            figure.savefig(content, format=kind, dpi=200, metadata=undated)
            write_whole(folder / f"scaling.{kind}", content.getvalue(), what="the picture")


def _draw_panel(axes: "Axes", along: str, lines: Mapping[str, Line]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(*SECONDS)
    for name, line in lines.items():
        style = {"linewidth": 1.5, "markersize": 5, **LOOKS[name]}
        known = [(at, seconds) for at, seconds, why in line if not why]
        axes.plot([at for at, _ in known], [seconds for _, seconds in known], **style)
        _mark_failures(axes, line, FAILED.get(name, SECONDS[1]), style)
    if along == "delta":
        axes.invert_xaxis()
    axes.set_xlabel(AXES[along])
    axes.yaxis.set_major_locator(FixedLocator([1e-3, 1e-2, 1e-1, 1, 10]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_write_seconds))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(visible=True, alpha=0.3, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _write_seconds(at: float, _: object) -> str:
    return f"{at:g} s" if at >= 1 else f"{1e3 * at:g} ms"


def _mark_failures(axes: "Axes", line: Line, height: float, style: Mapping[str, Any]) -> None:
    """A thin line to hollow marks above everything, with a word: no answer within what was allowed."""
    known, failed = [each for each in line if not each[2]], [each for each in line if each[2]]
    if not failed:
        return
    colour, places = style["color"], [at for at, _, _ in failed]
    begin = [each for each in known if each[0] < places[0]][-1:]
    over = [at for at, _, _ in begin] + places
    high = [seconds for _, seconds, _ in begin] + [height] * len(places)
    axes.plot(over, high, color=colour, linewidth=0.9, linestyle=style["linestyle"])
    hollow = {"markerfacecolor": "white", "markeredgecolor": colour, "markersize": 7}
    axes.plot(places, [height] * len(places), marker=style["marker"], linestyle="none", **hollow)
    words = {"memory": "out of memory", "timeout": "timeout"}
    reasons = [next((words[word] for word in words if word in why), "no answer") for _, _, why in failed]
    said = ", ".join(dict.fromkeys(reasons))
    beside: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "center"}
    axes.annotate(said, (places[0], height), (-9, 0), fontsize=8.5, color=colour, **beside)


def _name_lines(axes: "Axes", lines: Mapping[str, Line]) -> None:
    """Each name beside the end of its line, moved apart where lines end close together."""
    ends = sorted(
        (seconds, at, name)
        for name, line in lines.items()
        for at, seconds, why in list(line)[:1]
        if not why  # the smallest delta is at the right
    )
    apart, last = 1.75, 0.0
    for seconds, at, name in ends:
        last = max(seconds, last * apart)
        axes.annotate(
            LABELS[name],
            (at, last),
            (12, 0),
            textcoords="offset points",
            va="center",
            fontsize=10,
            color=LOOKS[name]["color"],
            fontweight="bold" if name == "Tightrope" else "normal",
            annotation_clip=False,
        )


def _hold(along: str, centre: Mapping[str, float]) -> str:
    """What does not change in a panel."""
    said = {
        "noise": f"noise {centre['noise']:g}",
        "rate": f"rate {centre['rate']:g}",
        "steps": f"{centre['steps']:,.0f} steps",
        "delta": f"δ = {centre['delta']:g}",
    }
    return ", ".join(words for name, words in said.items() if name != along)
