"""The counterexample in exact fractions: randomized response, two steps, and then any number of steps."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tightrope as tr
from reproduction.paper.exact_lines import ExactCurve, crossings, ever_exceeds, repeated
from reproduction.paper.figure_axes import headed, plain
from reproduction.paper.item import AGREES, CORRECTED, Claim, Item, Made, Making, markdown_table
from reproduction.paper.number_files import save_rows
from reproduction.paper.pictures import BLUE, GREY, INK, VERMILION, save_picture
from tightrope.pairs.finite_pair import FinitePair
from tightrope.theorems.worst_pairs import step_laws

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRUTH, RATE = 0.75, 0.5
# H_t(P || Q) as printed: direction, order t, divergence
PRINTED = (
    (tr.ADD, Fraction(4, 3), Fraction(11, 48)),
    (tr.REMOVE, Fraction(4, 3), Fraction(1, 6)),
    (tr.ADD, Fraction(2), Fraction(1, 16)),
    (tr.REMOVE, Fraction(2), Fraction(1, 8)),
)
MOST_STEPS, FEW_STEPS = 60, 15
INCHES = (7.2, 4.4)


def exact_curve(relation: tr.Relation, steps: int) -> ExactCurve:
    """One direction of so many steps."""
    laws = step_laws(tr.RandomizedResponse(truth_probability=TRUTH), tr.Poisson(rate=RATE), relation)
    pair = laws.add() if relation is tr.ADD else laws.remove()
    assert isinstance(pair, FinitePair)
    first, second = pair.levels
    return ExactCurve(repeated((first, second), steps))


def printed_claim(relation: tr.Relation, order: Fraction, printed: Fraction) -> Claim:
    """One of the four fractions of the proof."""
    found = exact_curve(relation, 2).delta(order)
    pair = "(P, Q)" if relation is tr.ADD else "(Q, P)"
    return Claim(
        "Sec. 5, proof of Prop. 11",
        f"the divergence of {pair} at e^ε = {order} ({relation.name.lower()}) is {printed}",
        f"{found}, exactly",
        AGREES if found == printed else CORRECTED,
    )


def crossing_claim(where: Sequence[Fraction]) -> Claim:
    """The two directions change places."""
    said = ", ".join(f"e^ε = {t} (ε = {math.log(t):.10f})" for t in where)
    add, remove = (exact_curve(relation, 2) for relation in (tr.ADD, tr.REMOVE))
    both = ever_exceeds(add, remove) and ever_exceeds(remove, add)
    return Claim(
        "Sec. 5, proof of Prop. 11",
        "for two steps neither direction dominates the other",
        f"add is larger before and remove after {said}, exactly, and nowhere else do they change places"
        if where
        else "no crossing",
        AGREES if both and where else CORRECTED,
    )


def dominated(most: int, making: Making) -> list[int]:
    """The numbers of steps, of 1 to `most`, at which remove is at least as large as add at every e^ε >= 1."""
    found = []
    for steps in range(1, most + 1):
        making.progress("exact curves", steps - 1, most)
        if not ever_exceeds(exact_curve(tr.ADD, steps), exact_curve(tr.REMOVE, steps)):
            found.append(steps)
    making.progress("exact curves", most, most)
    return found


def one_step_claim(without_lead: Sequence[int]) -> Claim:
    """What the counterexample starts from."""
    return Claim(
        "Sec. 5, proof of Prop. 11",
        "for one step remove dominates add at every e^ε ≥ 1",
        "so it does, in exact fractions" if 1 in without_lead else "it does not",
        AGREES if 1 in without_lead else CORRECTED,
    )


def every_k_claim(without_lead: Sequence[int], most: int) -> Claim:
    """The proposition, read for every single k, against its example."""
    beyond = [steps for steps in without_lead if steps > 1]
    return Claim(
        "Prop. 11",
        "no pair of datasets realizes the curve of k steps, for all k > 1",
        f"of k = 2 to {most}, remove is at least add at every e^ε ≥ 1 for k = {', '.join(map(str, beyond))}, "
        "and only for these"
        if beyond
        else f"add exceeds remove somewhere for every k = 2 to {most}",
        CORRECTED if beyond else AGREES,
        "The proof shows k = 2. At the k listed the pair that removes the record realizes the whole curve "
        "of add or remove, so that this example does not prove the proposition for them. At all others it "
        "does: add is larger somewhere, and remove, whose largest loss is larger, at the end. The curves "
        "are linear between their kinks, so exact fractions there decide.",
    )


def piece_rows() -> list[list[str]]:
    """Both curves of two steps, for the page."""
    rows = [["direction", "from e^ε", "to e^ε", "δ"]]
    for relation in (tr.ADD, tr.REMOVE):
        for piece in exact_curve(relation, 2).pieces():
            line = f"{piece.constant} - {piece.fall} e^ε" if piece.fall else "0"
            rows.append(
                [
                    relation.name.lower(),
                    str(piece.low),
                    "infinity" if piece.high is None else str(piece.high),
                    line,
                ]
            )
    return rows


def table(folder: Path) -> Path:
    """The pieces as fractions."""
    rows = [
        [relation.name.lower(), piece.low, piece.high, piece.constant, piece.fall]
        for relation in (tr.ADD, tr.REMOVE)
        for piece in exact_curve(relation, 2).pieces()
    ]
    return save_rows(
        folder / "randomized-response.csv", ["direction", "from_order", "to_order", "constant", "fall"], rows
    )


def drawing(where: Sequence[Fraction]) -> "Callable[[Figure], None]":
    """Both curves of two steps against t, the crossing and the paper's four values."""

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for relation, colour, name in ((tr.ADD, VERMILION, (1.56, 0.192)), (tr.REMOVE, BLUE, (2.7, 0.098))):
            _line(axes, exact_curve(relation, 2), colour)
            axes.text(*name, relation.name.lower(), color=colour, fontsize=10.5, fontweight="bold")
        for relation, order, printed in PRINTED:
            _printed(axes, VERMILION if relation is tr.ADD else BLUE, order, printed)
        for t in where:
            _crossing(axes, t)
        plain(axes)
        axes.set(xlim=(1, 4.25), ylim=(0, 0.345), xlabel=r"$e^\varepsilon$", ylabel="δ")
        headed(
            axes,
            "Two steps of randomized response: neither direction dominates",
            "Truth with probability 3/4, sampling rate 1/2; exact",
        )

    return draw


def _line(axes: "Axes", curve: ExactCurve, colour: str) -> None:
    orders = [Fraction(1), *curve.kinks, Fraction(5)]
    axes.plot([float(t) for t in orders], [float(curve.delta(t)) for t in orders], color=colour, linewidth=2)


def _printed(axes: "Axes", colour: str, order: Fraction, value: Fraction) -> None:
    axes.plot([float(order)], [float(value)], "o", color=colour, markersize=5)
    above = value > Fraction(1, 5) or value == Fraction(1, 8)
    place: dict[str, Any] = {
        "xytext": (6, 5) if above else (-6, -6),
        "textcoords": "offset points",
        "ha": "left" if above else "right",
    }
    axes.annotate(
        str(value),
        (float(order), float(value)),
        **place,
        va="bottom" if above else "top",
        fontsize=9,
        color=colour,
    )


def _crossing(axes: "Axes", t: Fraction) -> None:
    height = float(exact_curve(tr.ADD, 2).delta(t))
    axes.plot([float(t)], [height], "o", markersize=7, markerfacecolor="white", markeredgecolor=INK)
    leader: dict[str, Any] = {"arrowstyle": "-", "color": GREY, "linewidth": 0.8, "shrinkB": 4}
    words = f"they cross at $e^\\varepsilon$ = {t},\nδ = {exact_curve(tr.ADD, 2).delta(t)}"
    axes.annotate(words, (float(t), height), xytext=(2.3, 0.2), fontsize=9, color=INK, arrowprops=leader)


def make(making: Making) -> Made:
    """Picture, pieces and claims."""
    most = FEW_STEPS if making.quick else MOST_STEPS
    where = crossings(exact_curve(tr.ADD, 2), exact_curve(tr.REMOVE, 2))
    without_lead = dominated(most, making)
    pictures = save_picture(drawing(where), making.folder, "randomized-response", inches=INCHES)
    claims = (
        one_step_claim(without_lead),
        *(printed_claim(*each) for each in PRINTED),
        crossing_claim(where),
        every_k_claim(without_lead, most),
    )
    passage = (
        "Truth with probability 3/4, sampling rate 1/2. The curves of finitely many outcomes are piecewise "
        f"linear in e^ε, and all of the following is exact.\n\n{markdown_table(piece_rows())}"
    )
    caption = "Both curves of two steps; filled points are the four values of the paper's proof."
    return Made(claims, (*pictures, table(making.folder)), (caption,), passage)


ITEM = Item("randomized-response", "Prop. 11: randomized response, exactly", make)
