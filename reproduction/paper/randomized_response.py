"""The counterexample in exact fractions: randomized response, two steps, and then any number of steps."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import tightrope as tr
from reproduction.markdown import markdown_table
from reproduction.paper.exact_lines import ExactCurve, exceeds_somewhere, find_crossings, repeat
from reproduction.paper.item import AGREES, CORRECTED, Item, Made, Making, PaperClaim
from reproduction.paper.numbers import save_rows
from reproduction.paper.pictures import BLUE, INK, VERMILION, clear_frame, head, leader, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRUTH, RATE = Fraction(3, 4), Fraction(1, 2)
# H_t(P || Q) as printed: direction, order t, divergence
PRINTED = (
    (tr.ADD, Fraction(4, 3), Fraction(11, 48)),
    (tr.REMOVE, Fraction(4, 3), Fraction(1, 6)),
    (tr.ADD, Fraction(2), Fraction(1, 16)),
    (tr.REMOVE, Fraction(2), Fraction(1, 8)),
)
COLOURS = {tr.ADD: VERMILION, tr.REMOVE: BLUE}
MOST_STEPS, FEW_STEPS = 60, 15
INCHES = (7.2, 4.4)


def exact_curve(
    relation: tr.Relation, steps: int, truth: Fraction = TRUTH, rate: Fraction = RATE
) -> ExactCurve:
    """One direction of so many steps.

    A record that is not in the batch answers 0 with probability `truth`, and one that is, 1.
    """
    without = (truth, 1 - truth)
    with_record = tuple((1 - rate) * p + rate * (1 - p) for p in without)
    pair = (without, with_record) if relation is tr.ADD else (with_record, without)
    first, second = zip(*pair, strict=True)
    return ExactCurve(repeat((first, second), steps))


def claim_printed(relation: tr.Relation, order: Fraction, printed: Fraction) -> PaperClaim:
    """One of the four fractions of the proof."""
    found = exact_curve(relation, 2).delta(order)
    pair = "(P, Q)" if relation is tr.ADD else "(Q, P)"
    return PaperClaim(
        "Sec. 5, proof of Prop. 11",
        f"the divergence of {pair} at e^ε = {order} ({relation.name.lower()}) is {printed}",
        f"{found}, exactly",
        AGREES if found == printed else CORRECTED,
    )


def claim_crossing(where: Sequence[Fraction]) -> PaperClaim:
    """The two directions change places."""
    said = ", ".join(f"e^ε = {t} (ε = {math.log(t):.10f})" for t in where)
    add, remove = (exact_curve(relation, 2) for relation in COLOURS)
    both = exceeds_somewhere(add, remove) and exceeds_somewhere(remove, add)
    return PaperClaim(
        "Sec. 5, proof of Prop. 11",
        "for two steps neither direction dominates the other",
        f"add is larger before and remove after {said}, exactly, and nowhere else do they change places"
        if where
        else "no crossing",
        AGREES if both and where else CORRECTED,
    )


def find_dominated(most: int, making: Making) -> list[int]:
    """The numbers of steps, of 1 to `most`, at which remove is at least as large as add at every e^ε >= 1."""
    return [
        steps
        for steps in making.each("exact curves", range(1, most + 1))
        if not exceeds_somewhere(exact_curve(tr.ADD, steps), exact_curve(tr.REMOVE, steps))
    ]


def claim_one_step(dominated: Sequence[int]) -> PaperClaim:
    """What the counterexample starts from."""
    return PaperClaim(
        "Sec. 5, proof of Prop. 11",
        "for one step remove dominates add at every e^ε ≥ 1",
        "so it does, in exact fractions" if 1 in dominated else "it does not",
        AGREES if 1 in dominated else CORRECTED,
    )


def claim_every_k(dominated: Sequence[int], most: int) -> PaperClaim:
    """The proposition, read for every single k, against its example."""
    beyond = [str(steps) for steps in dominated if steps > 1]
    return PaperClaim(
        "Prop. 11",
        "no pair of datasets realizes the curve of k steps for all k > 1, read as: for every single k",
        f"of k = 2 to {most}, remove is at least add at every e^ε ≥ 1 for k = {', '.join(beyond)}, and only "
        "for these"
        if beyond
        else f"add exceeds remove somewhere for every k = 2 to {most}",
        CORRECTED if beyond else AGREES,
        "The proof shows k = 2. At the k listed the pair that removes the record realizes the whole curve "
        "of add or remove, so that this example does not prove the proposition for them. At all others it "
        "does: add is larger somewhere, and remove, whose largest loss is larger, at the end. The curves "
        "are linear between their kinks, so exact fractions there decide. Read as the section opens, for "
        "some k > 1, or as one pair for all k, the proposition is right, and k = 2 proves it.",
    )


def draw(figure: "Figure", where: Sequence[Fraction]) -> None:
    """Both curves of two steps against t, the crossing and the paper's four values."""
    axes = figure.subplots()
    for (relation, colour), place in zip(COLOURS.items(), ((1.56, 0.192), (2.7, 0.098)), strict=True):
        curve = exact_curve(relation, 2)
        orders = [Fraction(1), *curve.kinks, Fraction(5)]
        deltas = [float(curve.delta(t)) for t in orders]
        axes.plot([float(t) for t in orders], deltas, color=colour, linewidth=2)
        axes.text(*place, relation.name.lower(), color=colour, fontsize=10.5, fontweight="bold")
    for relation, order, printed in PRINTED:
        _mark_printed(axes, COLOURS[relation], order, printed)
    for t in where:
        _mark_crossing(axes, t, exact_curve(tr.ADD, 2).delta(t))
    clear_frame(axes)
    axes.set(xlim=(1, 4.25), ylim=(0, 0.345), xlabel=r"$e^\varepsilon$", ylabel="δ")
    setting = "Truth with probability 3/4, sampling rate 1/2; exact"
    head(axes, "Two steps of randomized response: neither direction dominates", setting)


def _mark_printed(axes: "Axes", colour: str, order: Fraction, value: Fraction) -> None:
    at = (float(order), float(value))
    axes.plot(*([each] for each in at), "o", color=colour, markersize=5)
    above = value > Fraction(1, 5) or value == Fraction(1, 8)
    place, side, edge = ((6, 5), "left", "bottom") if above else ((-6, -6), "right", "top")
    style: dict[str, Any] = {"fontsize": 9, "color": colour, "ha": side, "va": edge}
    axes.annotate(str(value), at, xytext=place, textcoords="offset points", **style)


def _mark_crossing(axes: "Axes", t: Fraction, delta: Fraction) -> None:
    at = (float(t), float(delta))
    axes.plot(*([each] for each in at), "o", markersize=7, markerfacecolor="white", markeredgecolor=INK)
    words = f"they cross at $e^\\varepsilon$ = {t},\nδ = {delta}"
    axes.annotate(words, at, xytext=(2.3, 0.2), fontsize=9, color=INK, arrowprops=leader())


def make(making: Making) -> Made:
    """Picture, pieces and claims."""
    most = FEW_STEPS if making.quick else MOST_STEPS
    curves = {relation.name.lower(): exact_curve(relation, 2) for relation in COLOURS}
    where = find_crossings(*curves.values())
    dominated = find_dominated(most, making)
    name = "randomized-response"
    pictures = save_picture(lambda figure: draw(figure, where), making.folder, name, inches=INCHES)
    pieces = [(name, piece) for name, curve in curves.items() for piece in curve.pieces()]
    table = save_rows(
        making.folder / f"{name}.csv",
        ("direction", "from_order", "to_order", "constant", "fall"),
        ((name, piece.low, piece.high, piece.constant, piece.fall) for name, piece in pieces),
    )
    rows = [["direction", "from e^ε", "to e^ε", "δ"]]
    rows += [[name, str(piece.low), str(piece.high or "infinity"), str(piece)] for name, piece in pieces]
    claims = (
        claim_one_step(dominated),
        *(claim_printed(*each) for each in PRINTED),
        claim_crossing(where),
        claim_every_k(dominated, most),
    )
    passage = (
        "Truth with probability 3/4, sampling rate 1/2. The curves of finitely many outcomes are piecewise "
        f"linear in e^ε, and all of the following is exact.\n\n{markdown_table(rows)}"
    )
    caption = "Both curves of two steps; filled points are the four values of the paper's proof."
    return Made(claims, (*pictures, table), (caption,), passage)


ITEM = Item("randomized-response", "Prop. 11: randomized response, exactly", make)
