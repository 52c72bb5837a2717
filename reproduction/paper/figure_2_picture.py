"""Figure 2 as a picture: noise against rate, and below what a run of the wrong sampling spends."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reproduction.paper.figure_2_noise import (
    DELTA,
    FIXED_10,
    LINES,
    POISSON_1,
    STEPS,
    Line,
    Mistaken,
    Point,
    Transition,
)
from reproduction.paper.figure_axes import headed, plain
from reproduction.paper.pictures import GREY, INK, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# from light to dark with epsilon: apart in grey as well
COLOURS = dict(zip(LINES, ("#5ba3d0", "#2b7bba", "#0b559f", "#08264f", VERMILION), strict=True))
INCHES = (7.4, 6.8)
SETTING = f"{STEPS:,} steps, δ = {DELTA:.0e}, add or remove one record".replace("e-06", "e-6")


def drawing(
    points: Sequence[Point], transitions: Sequence[Transition], runs: Sequence[Mistaken]
) -> "Callable[[Figure], None]":
    """Both panels."""

    def draw(figure: "Figure") -> None:
        noises, spent = figure.subplots(2, 1, sharex=True, height_ratios=(5, 2))
        for line in LINES:
            _line(noises, line, [point for point in points if point.line is line])
        _transitions(noises, transitions)
        _spent(spent, runs)
        for axes in (noises, spent):
            axes.set_xscale("log")
            plain(axes)
        noises.set(xlim=(1e-4, 1), yscale="log", ylabel=r"smallest noise multiplier $\sigma$")
        noises.yaxis.set_major_formatter("{x:g}")
        headed(noises, "Noise that a privacy target needs", SETTING)

    return draw


def _line(axes: "Axes", line: Line, points: Sequence[Point]) -> None:
    """One line with its name at an end where it has room."""
    rates, noises = [point.rate for point in points], [point.noise.upper for point in points]
    fixed, colour = line is FIXED_10, COLOURS[line]
    axes.plot(
        rates,
        noises,
        color=colour,
        linewidth=2,
        linestyle=(0, (5, 1.6)) if fixed else "-",
        zorder=3 if fixed else 2,
    )
    text: dict[str, Any] = {"color": colour, "fontsize": 9, "fontweight": "bold", "annotation_clip": False}
    if not fixed:
        axes.annotate(
            line.name, (rates[-1], noises[-1]), xytext=(7, 0), textcoords="offset points", va="center", **text
        )
        return
    # its right end lies on another line, the upper left is empty
    at = len(points) // 8
    leader: dict[str, Any] = {
        "arrowstyle": "-",
        "color": colour,
        "linewidth": 0.8,
        "relpos": (0.1, 0.0),
        "shrinkB": 3,
    }
    place: dict[str, Any] = {
        "xytext": (-14, 46),
        "textcoords": "offset points",
        "arrowprops": leader,
        "va": "bottom",
    }
    axes.annotate(
        f"{line.name}:\nexactly twice the noise\nof Poisson sampling",
        (rates[at], noises[at]),
        **place,
        **text,
    )


def _transitions(axes: "Axes", found: Sequence[Transition]) -> None:
    """A ring on each line where its slope passes one half, and the noises there in the empty lower right."""
    for each in found:
        colour = COLOURS[each.left.line]
        axes.plot(
            *each.middle,
            "o",
            markersize=7,
            color="white",
            markeredgecolor=colour,
            markeredgewidth=1.8,
            zorder=4,
        )
    text: dict[str, Any] = {"transform": axes.transAxes, "fontsize": 8.5, "va": "center"}
    left, top, apart = 0.665, 0.235, 0.041
    ring: dict[str, Any] = {
        "transform": axes.transAxes,
        "markersize": 6,
        "color": "white",
        "markeredgecolor": INK,
    }
    axes.plot([left - 0.02], [top], "o", markeredgewidth=1.5, **ring)
    axes.text(left, top, "the slope passes 1/2 at", color=INK, **text)
    for i, each in enumerate(found, start=1):
        line = each.left.line
        whose = "without replacement" if line is FIXED_10 else line.name
        words = rf"$\sigma$ = {each.middle[1]:.2f},  {whose}"
        axes.text(left, top - i * apart, words, color=COLOURS[line], **text)


def _spent(axes: "Axes", runs: Sequence[Mistaken]) -> None:
    """Epsilon in truth."""
    rates, truth = [run.meant.rate for run in runs], [run.epsilon.upper for run in runs]
    worst = max(runs, key=lambda run: run.epsilon.lower)
    axes.plot(rates, truth, color=VERMILION, linewidth=2, linestyle=(0, (5, 1.6)))
    axes.axhline(POISSON_1.epsilon, color=COLOURS[POISSON_1], linewidth=2)
    axes.plot(
        [worst.meant.rate], [worst.epsilon.upper], "o", color=VERMILION, markersize=5, clip_on=False, zorder=4
    )
    bold: dict[str, Any] = {"fontsize": 9, "fontweight": "bold"}
    axes.text(
        0.0021,
        12.2,
        "what it spends if batches are\ndrawn without replacement",
        color=VERMILION,
        va="center",
        **bold,
    )
    words, at = (
        f"ε = {worst.epsilon.upper:.1f} at rate {worst.meant.rate:g}",
        (worst.meant.rate, worst.epsilon.upper),
    )
    axes.annotate(words, at, xytext=(8, 3), textcoords="offset points", color=VERMILION, va="bottom", **bold)
    aside: dict[str, Any] = {
        "xytext": (7, 0),
        "textcoords": "offset points",
        "va": "center",
        "annotation_clip": False,
    }
    axes.annotate("intended: ε = 1", (1, POISSON_1.epsilon), color=COLOURS[POISSON_1], **aside, **bold)
    axes.set(ylim=(0, 23), yticks=(0, 5, 10, 15, 20), xlabel="sampling rate")
    axes.set_ylabel("ε of the run with the\nnoise of Poisson, ε = 1", color=INK)
    axes.axhline(10, color=GREY, linewidth=0.8, linestyle=(0, (1, 1.5)))
