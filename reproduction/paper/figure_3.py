"""Figure 3: which fixed adversary is worst depends on epsilon, and adaptive ones are worse than all three."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import pairwise
from pathlib import Path

import tightrope as tr
from reproduction.markdown import markdown_table
from reproduction.paper import figure_3_splits as splits
from reproduction.paper.figure_3_picture import INCHES, draw
from reproduction.paper.figure_3_splits import ADD, MIXED, REMOVE, SETTLED, SPLITS, LeadInterval, SplitPoint
from reproduction.paper.item import AGREES, CORRECTED, SHARPENED, Item, Made, Making, PaperClaim
from reproduction.paper.numbers import at_least, at_most, flatten, name_ends, save_rows, show
from reproduction.paper.pictures import save_picture

POINTS, FEW_POINTS = 250, 125
BETWEEN = 0.4  # an epsilon at which one step of each direction is the worst split
ENGINES_AT = (0.05, 0.25, 0.4, 0.6, 0.9)
LARGE = 1e-3  # deltas below are no part of a ratio


def write_decimal(value: float, rounding: str, places: int = 12) -> str:
    """A decimal on the safe side."""
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-places), rounding=rounding):f}"


def list_intervals(largest: Sequence[LeadInterval]) -> list[list[str]]:
    """Where each split is certainly the largest, rounded inwards."""
    rows = [["the largest split", "certainly for"]]
    for each in largest:
        low, high = write_decimal(each.low, ROUND_CEILING), write_decimal(each.high, ROUND_FLOOR)
        rows.append([each.split.name, f"{low} < ε < {high}"])
    return rows


def list_crossings(largest: Sequence[LeadInterval]) -> list[tr.Bracket]:
    """Between neighbouring intervals."""
    return [tr.Bracket(left.high, right.low) for left, right in pairwise(largest)]


def claim_all_three(largest: Sequence[LeadInterval]) -> PaperClaim:
    """Each is the maximum somewhere."""
    places = " and ".join(show(each, 12) for each in list_crossings(largest))
    each_has_one = {each.split for each in largest} == set(SPLITS) and all(
        each.low < each.high for each in largest
    )
    return PaperClaim(
        "Fig. 3",
        "each of the three divergences is the largest on some interval of ε",
        f"{', '.join(each.split.name for each in largest)}, in this order; the order changes at ε in "
        f"{places}",
        SHARPENED if each_has_one else CORRECTED,
        "The intervals are certified with both ends: beyond each crossing's interval the order is certain "
        "at every epsilon.",
    )


def claim_mixed_is_needed() -> PaperClaim:
    """The two pure directions do not suffice."""
    mixed = MIXED.delta(BETWEEN)
    pure = max((ADD.delta(BETWEEN), REMOVE.delta(BETWEEN)), key=lambda found: found.upper)
    return PaperClaim(
        "Sec. 7",
        "the larger of the two pure directions is no upper bound",
        f"at ε = {BETWEEN:g} one step of each reaches {show(mixed, 9)}, the larger pure direction "
        f"{show(pure, 9)}",
        AGREES if mixed.lower > pure.upper else CORRECTED,
    )


def claim_no_split_is_the_worst(found: Sequence[SplitPoint]) -> PaperClaim:
    """An adversary who looks at the first output reaches more."""
    before = [point for point in found if point.epsilon < SETTLED]
    beaten = [point for point in before if point.beats_every_split]
    best = max((point for point in found if point.game.upper > LARGE), key=lambda point: point.gain)
    return PaperClaim(
        "Sec. 7",
        "no proof that one of the k + 1 splits is the worst case for every ε",
        "under adaptive queries none is: an adversary who looks first reaches more than all three at "
        f"{len(beaten)} of {len(before)} epsilons below ln((1 + e)/2) = {SETTLED:.4f}, at least "
        f"{at_least(100 * (best.gain - 1), 3)} % more at ε = {best.epsilon:.3f} "
        f"({at_least(best.game.lower, 6)} against {at_most(best.largest_split.upper, 6)})",
        SHARPENED if beaten else AGREES,
        "The record may be chosen anew before each step from what was seen: after a first output with a "
        "large loss, what is left to exceed is an order below 1, where the other direction loses more. From "
        "ln((1 + e)/2) on, removing twice is the worst. For records that are fixed in advance this decides "
        "nothing."
        if beaten
        else "",
    )


def claim_envelope(found: Sequence[SplitPoint]) -> PaperClaim:
    """The dominating pair of the paper's next section, for this mechanism."""
    inner = [point for point in found if point.adaptive.lower > LARGE]
    loosest = max(point.game.upper / point.adaptive.lower for point in inner)
    valid = all(point.game.upper >= max(point.adaptive.lower, point.largest_split.lower) for point in found)
    return PaperClaim(
        "Sec. 7, 8",
        "a dominating pair bounds every case from above",
        f"{'at all' if valid else 'not at all'} {len(found)} epsilons; at most {at_most(loosest, 5)} times "
        "what adaptive choices of direction reach",
        AGREES if valid else CORRECTED,
    )


def save_table(found: Sequence[SplitPoint], folder: Path) -> Path:
    """Both ends of all curves."""
    names = [*(split.name.replace(" ", "_") for split in SPLITS), "best_second_step", "every_adversary"]
    rows = [
        [p.epsilon, *flatten([*(p.splits[split] for split in SPLITS), p.adaptive, p.game])] for p in found
    ]
    return save_rows(folder / "figure-3.csv", ["epsilon", *name_ends(names)], rows)


def write_passage(found: Sequence[SplitPoint], largest: Sequence[LeadInterval]) -> str:
    """The intervals, and how the numbers agree among themselves."""
    agreed, asked = splits.count_agreeing(ENGINES_AT)
    played = min(p.game.lower / p.adaptive.upper for p in found if p.adaptive.lower > LARGE)
    return (
        f"{markdown_table(list_intervals(largest))}\n\nThe splits are computed on {splits.CELLS[-1]:,} cells "
        f"of the first output, from both sides; the engines agree with {agreed} of {asked} of these "
        "brackets. The adaptive curve is the policy that the package's game plays, at least "
        f"{at_least(played, 4)} of the best choice of the second step."
    )


def make(making: Making) -> Made:
    """Picture, table and claims."""
    making.progress("crossings", 0, 1)
    largest = splits.find_intervals()
    found = splits.compute_points(FEW_POINTS if making.quick else POINTS, making)
    pictures = save_picture(
        lambda figure: draw(figure, found, largest), making.folder, "figure-3", inches=INCHES
    )
    claims = (
        claim_all_three(largest),
        claim_mixed_is_needed(),
        claim_no_split_is_the_worst(found),
        claim_envelope(found),
    )
    caption = (
        "Above: the three fixed splits of the paper, an adaptive adversary (certified from below) and the "
        "envelope. Below: the same, relative to the largest split."
    )
    files = (*pictures, save_table(found, making.folder))
    return Made(claims, files, (caption,), write_passage(found, largest))


ITEM = Item("figure-3", "Fig. 3: Laplace noise, one record exchanged", make)
