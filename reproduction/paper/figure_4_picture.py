"""Figure 4 as a picture: one step at the left, a thousand at the right; below, what is too close above."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reproduction.paper.figure_4_curves import DELTA, NOISE, RATE, STEPS, AccountantLine, OneStep
from reproduction.paper.numbers import at_least, at_most
from reproduction.paper.pictures import (
    BLUE,
    DASH_DOT,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    bold,
    clear_frame,
    head,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INCHES = (11.0, 7.0)
STYLES: dict[str, dict[str, Any]] = {
    "REMOVE": {"color": BLUE, "linewidth": 2.2},
    "envelope": {"color": ORANGE, "linewidth": 2.2},
    "Rényi, REMOVE": {"color": BLUE, "linewidth": 1.4, "linestyle": DOTTED},
    "Rényi, envelope": {"color": ORANGE, "linewidth": 1.4, "linestyle": DOTTED},
    "Rényi, Wang et al. Thm 27": {"color": PURPLE, "linewidth": 1.6, "linestyle": DASHED},
    "Rényi, Wang et al. Thm 9": {"color": PURPLE, "linewidth": 1.2, "linestyle": DASH_DOT},
}
DARK_ORANGE = "#a86f00"  # for words: ORANGE is too light on white
LEAST_EXCESS = 3e-3  # the lower edge of the panel of excesses


def draw(
    figure: "Figure",
    one: Sequence[OneStep],
    removing: AccountantLine,
    others: Sequence[AccountantLine],
    certified: AccountantLine,
) -> None:
    """Four panels; `others` begin with the envelope."""
    (step, composed), (beyond, excess) = figure.subplots(
        2, 2, height_ratios=(3, 2), width_ratios=(5, 6), sharex="col"
    )
    _one_step(step, one)
    _beyond_trivial(beyond, one)
    _composed(composed, [removing, *others], certified)
    _excess(excess, removing, others[0], certified)
    for axes in (step, composed, beyond, excess):
        clear_frame(axes)
    head(step, "One step", f"noise {NOISE:g}, rate {RATE:g} without replacement, one record exchanged")
    head(composed, f"{STEPS:,} steps", "the same, composed")


def _three(axes: "Axes", one: Sequence[OneStep], *, less: bool) -> None:
    """Upper ends of the three curves, perhaps less what every pair has."""
    at = [each.epsilon for each in one]
    styles: dict[str, dict[str, Any]] = {
        "envelope": {"color": ORANGE, "linewidth": 6, "alpha": 0.45, "solid_capstyle": "butt"},
        "remove": {"color": BLUE, "linewidth": 1.8},
        "add": {"color": GREEN, "linewidth": 1.8, "linestyle": DASHED},
    }
    for name, style in styles.items():
        axes.plot(at, [getattr(each, name).upper - less * each.trivial for each in one], **style)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xlim(at[0], at[-1])


def _one_step(axes: "Axes", one: Sequence[OneStep]) -> None:
    """The divergences themselves."""
    _three(axes, one, less=False)
    names = (
        ("envelope: the larger one", DARK_ORANGE),
        (r"REMOVE: $(1-\gamma)Q+\gamma P\,\Vert\,Q$", BLUE),
        (r"ADD: $Q\,\Vert\,(1-\gamma)Q+\gamma P$", GREEN),
    )
    for height, (name, colour) in zip((0.86, 0.78, 0.70), names, strict=True):
        axes.text(0.52, height, name, **bold(colour, transform=axes.transAxes))
    axes.set_ylabel(r"divergence $H_{e^\varepsilon}$")
    axes.set_ylim(0, None)


def _beyond_trivial(axes: "Axes", one: Sequence[OneStep]) -> None:
    """What is left above (1 - e^epsilon)_+."""
    _three(axes, one, less=True)
    axes.text(0.03, 0.72, "ADD is the\nlarger one", **bold(GREEN, transform=axes.transAxes))
    axes.text(0.66, 0.72, "REMOVE is the\nlarger one", **bold(BLUE, transform=axes.transAxes))
    axes.set(xlabel="ε", ylabel=r"$H_{e^\varepsilon}$ beyond $(1-e^\varepsilon)_+$")
    axes.set_ylim(0, None)


def _composed(axes: "Axes", lines: Sequence[AccountantLine], certified: AccountantLine) -> None:
    """Delta by every accountant; the legend gives the epsilons at DELTA."""
    for line in lines:
        deltas, most = [found.upper for found in line.deltas], at_most(line.epsilon.upper, 5)
        axes.plot(line.epsilons, deltas, label=f"{most}  {line.name}", **STYLES[line.name])
    ends = [found.lower for found in certified.deltas], [found.upper for found in certified.deltas]
    axes.vlines(certified.epsilons, *ends, color=INK, linewidth=1.5, zorder=5)
    label = f"{at_least(certified.epsilon.lower, 5)} to {at_most(certified.epsilon.upper, 5)}  certified"
    marks: dict[str, Any] = {"linestyle": "", "color": INK, "markersize": 4.5, "zorder": 5}
    axes.plot(certified.epsilons, ends[1], "D", label=label, **marks)
    axes.axhline(DELTA, color=GREY, linewidth=0.8, linestyle=DOTTED)
    axes.set(yscale="log", ylim=(1e-12, 2), ylabel="δ", xlim=(-0.08, lines[0].epsilons[-1] + 0.08))
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: float(labels[i].split()[0]))
    legend = axes.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        title="ε at δ = 1e-5",
        title_fontsize=9,
        loc="lower left",
        frameon=False,
        fontsize=8.5,
        alignment="left",
        handlelength=2.6,
    )
    legend.get_title().set(color=INK, fontweight="bold")


def _excess(
    axes: "Axes", removing: AccountantLine, envelope: AccountantLine, certified: AccountantLine
) -> None:
    """How far delta lies above REMOVE's, relative to it."""
    base = dict(zip(removing.epsilons, removing.deltas, strict=True))
    over = zip(envelope.epsilons, envelope.deltas, strict=True)
    above = [found.upper / base[at].upper - 1 for at, found in over]
    axes.plot(envelope.epsilons, above, **STYLES["envelope"])
    pairs = [(base[at], found) for at, found in zip(certified.epsilons, certified.deltas, strict=True)]
    low = [max(found.lower / under.upper - 1, LEAST_EXCESS) for under, found in pairs]
    high = [found.upper / under.lower - 1 for under, found in pairs]
    axes.vlines(certified.epsilons, low, high, color=INK, linewidth=4)
    axes.set(yscale="log", ylim=(LEAST_EXCESS, 300), xlabel="ε", ylabel="δ above REMOVE's,\nrelative to it")
    axes.set_yticks([0.01, 0.1, 1, 10, 100], ["1 %", "10 %", "100 %", "10 times", "100 times"])
    axes.text(0.05, 0.62, "the envelope", **bold(DARK_ORANGE, transform=axes.transAxes))
    white: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 2}
    words = "certified: the bars hold what\nthe worst adversary reaches"
    axes.text(0.42, 0.37, words, bbox=white, **bold(INK, transform=axes.transAxes))
