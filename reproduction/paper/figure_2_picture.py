"""Figure 2 as a picture: noise against rate, and below what a run of the wrong sampling spends."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reproduction.paper.figure_2_noise import (
    DELTA,
    FIXED_10,
    LINES,
    POISSON_1,
    STEPS,
    Line,
    MistakenRun,
    NoisePoint,
    Transition,
)
from reproduction.paper.numbers import at_most
from reproduction.paper.pictures import DASHED, GREY, INK, VERMILION, bold, clear_frame, head, leader

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# from light to dark with epsilon: apart in grey as well
COLOURS = dict(zip(LINES, ("#5ba3d0", "#2b7bba", "#0b559f", "#08264f", VERMILION), strict=True))
INCHES = (7.4, 6.8)
SETTING = f"{STEPS:,} steps, δ = {DELTA:.0e}, add or remove one record".replace("e-06", "e-6")
BESIDE: dict[str, Any] = {"xytext": (7, 0), "textcoords": "offset points", "va": "center"}


def draw(
    figure: "Figure",
    points: Mapping[Line, Sequence[NoisePoint]],
    transitions: Sequence[Transition],
    runs: Sequence[MistakenRun],
) -> None:
    """Both panels."""
    noises, spent = figure.subplots(2, 1, sharex=True, height_ratios=(5, 2))
    for line in LINES:
        _line(noises, line, points[line])
    _transitions(noises, transitions)
    _spent(spent, runs)
    for axes in (noises, spent):
        axes.set_xscale("log")
        clear_frame(axes)
    noises.set(xlim=(1e-4, 1), yscale="log", ylabel=r"smallest noise multiplier $\sigma$")
    noises.yaxis.set_major_formatter("{x:g}")
    head(noises, "Noise that a privacy target needs", SETTING)


def _line(axes: "Axes", line: Line, points: Sequence[NoisePoint]) -> None:
    """One line with its name at an end where it has room."""
    rates, noises = [point.rate for point in points], [point.noise.upper for point in points]
    colour = COLOURS[line]
    words = bold(colour, annotation_clip=False)
    if line is not FIXED_10:
        axes.plot(rates, noises, color=colour, linewidth=2, zorder=2)
        axes.annotate(line.name, (rates[-1], noises[-1]), **BESIDE, **words)
        return
    axes.plot(rates, noises, color=colour, linewidth=2, linestyle=DASHED, zorder=3)
    # its right end lies on another line, the upper left is empty
    at = len(points) // 8
    pointer = leader(colour, relpos=(0.1, 0.0), shrinkB=3)
    place: dict[str, Any] = {"xytext": (-14, 46), "textcoords": "offset points", "va": "bottom"}
    name = f"{line.name}:\nexactly twice the noise\nof Poisson sampling"
    axes.annotate(name, (rates[at], noises[at]), arrowprops=pointer, **place, **words)


def _transitions(axes: "Axes", found: Sequence[Transition]) -> None:
    """A ring on each line where its slope passes one half, and the noises there in the empty lower right."""
    ring: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": "white"}
    for each in found:
        colour = COLOURS[each.left.line]
        rate, noise = each.middle
        axes.plot(
            [rate], [noise], markersize=7, markeredgecolor=colour, markeredgewidth=1.8, zorder=4, **ring
        )
    text: dict[str, Any] = {"transform": axes.transAxes, "fontsize": 8.5, "va": "center"}
    left, top, apart = 0.665, 0.235, 0.041
    edge: dict[str, Any] = {"markersize": 6, "markeredgecolor": INK, "markeredgewidth": 1.5}
    axes.plot([left - 0.02], [top], transform=axes.transAxes, **edge, **ring)
    axes.text(left, top, "the slope passes 1/2 at", color=INK, **text)
    for i, each in enumerate(found, start=1):
        line = each.left.line
        whose = line.sampling if line is FIXED_10 else line.name
        words = rf"$\sigma$ = {each.middle[1]:.2f},  {whose}"
        axes.text(left, top - i * apart, words, color=COLOURS[line], **text)


def _spent(axes: "Axes", runs: Sequence[MistakenRun]) -> None:
    """Epsilon in truth."""
    worst = max(runs, key=lambda run: run.epsilon.lower)
    at, meant = (worst.meant.rate, worst.epsilon.upper), POISSON_1.epsilon
    rates, truth = [run.meant.rate for run in runs], [run.epsilon.upper for run in runs]
    axes.plot(rates, truth, color=VERMILION, linewidth=2, linestyle=DASHED)
    axes.axhline(meant, color=COLOURS[POISSON_1], linewidth=2)
    axes.plot(*([each] for each in at), "o", color=VERMILION, markersize=5, clip_on=False, zorder=4)
    words = "what it spends if batches are\ndrawn without replacement"
    axes.text(0.0021, 12.2, words, **bold(VERMILION, va="center"))
    place: dict[str, Any] = {"xytext": (8, 3), "textcoords": "offset points", "va": "bottom"}
    axes.annotate(f"ε = {at_most(at[1], 3)} at rate {at[0]:g}", at, **place, **bold(VERMILION))
    axes.annotate("intended: ε = 1", (1, meant), **BESIDE, **bold(COLOURS[POISSON_1], annotation_clip=False))
    axes.set(ylim=(0, 23), yticks=(0, 5, 10, 15, 20), xlabel="sampling rate")
    axes.set_ylabel("ε of the run with the\nnoise of Poisson, ε = 1", color=INK)
    axes.axhline(10, color=GREY, linewidth=0.8, linestyle=(0, (1, 1.5)))
