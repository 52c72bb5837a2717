"""A linear bound on E(first + sum)_+ over all counts of levels: found by a program, certified by boxes.

Any coefficients that bound it will do, so those of a linear program on some counts are taken, a little
larger, and then every count is checked, in boxes. Of a box one of two things is shown. With counts as high as
they go and the drift of those that are as low the value is still below the smallest linear one. Or the value
and its slopes at one point, and what is left beyond them, are. theorems/proofs/shuffles.md, Computing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import NDArray

from tightrope.engines.shuffles.contours import ROUNDED_UP
from tightrope.engines.shuffles.covers import least_cover
from tightrope.engines.shuffles.walks import Walks
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma

FAR_ABOVE = 16.0  # times a linear function: halves of such boxes are hardly ever settled
NEAR_ABOVE = 8.0  # likewise: higher ones are hardly ever settled by an expansion
# Of a margin, in units, relative to the sizes of what it consists of: a sum of products over at most five
# levels has 6 roundings, its factors have one or two, and three such sums are added up. Fewer than 64.
MARGIN_REL_ERROR = 64 * UNIT_ROUNDOFF
FIRST_BOXES = 64  # larger ones are never settled
MOST_ROUNDS = 20
NEW_CUTS = 24
NEARLY = 0.003  # of a program's bound: so much more may be had without checking every box anew
LEAST_VALUE = 1e-4  # of the mean: smaller ones do not matter
EVERYWHERE = 0.005  # of the mean, that every count may have
FRACTIONS = tuple(np.geomspace(1e-5, 0.5, 32).tolist())  # of a level beside another
FEW = (1, 2, 3, 4, 6, 8, 11)
PAIRED = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.25, 0.5)  # of two beside a third
PAIRED_FEW = (1, 2, 5)
LEAST_COUNTED = 12  # in a level: fewer are among FEW
LEAST_FLOAT = 1e-300
LEAST_PROGRAM_SHARE = 1e-12  # a share in a program: its coefficient would be too large for one
KEPT_LISTS = 16  # lists of counts


@dataclass(frozen=True)
class CountsProblem:
    """E(first + sum)_+ for all counts of levels that add up to `walks.count`.

    `growth` is how much less the mean of one difference is than 0, from above; `first` is in lattice steps.
    """

    walks: Walks
    first: float
    growth: float

    @cached_property
    def _listed(self) -> tuple[Floats, Floats]:
        tried = _list_counts(self.walks.count, len(self.walks.levels))
        return tried, self._evaluate(tried)

    def estimate(self, shares: Floats) -> float:
        """About what the bound will be, if no more counts matter; infinite if there is none."""
        coefficients = _solve(*self._listed, shares)
        return math.inf if coefficients is None else float(coefficients @ shares) * self.walks.count

    def bound(self, shares: Floats, slacks: Sequence[float], most_boxes: int) -> float:
        """An upper bound on the mean over counts whose means are `shares` of them; infinite if none is found.

        `slacks` are by how much coefficients are larger than those of the program: then boxes are fewer.
        Shares may be too large, since no coefficient is negative.
        """
        tried, values = self._listed
        coefficients, boxes, left = _solve(tried, values, shares), self._all_boxes, slacks
        for _ in range(MOST_ROUNDS):
            if coefficients is None:
                break
            boxes, left, cuts = self._check(boxes, coefficients, left, most_boxes)
            if not boxes.size:
                found = float((coefficients * (1 + left[0])) @ shares)
                return found * self.walks.count * (1 + gamma(len(shares) + 4))
            if not len(cuts):
                break
            tried, values = np.concatenate([tried, cuts]), np.concatenate([values, self._evaluate(cuts)])
            last, coefficients = coefficients, _solve(tried, values, shares)
            if coefficients is not None and _is_nearly(np.maximum(last, coefficients), coefficients, shares):
                coefficients = np.maximum(last, coefficients)  # what was below stays below
            else:
                boxes, left = self._all_boxes, slacks
        return math.inf

    def _evaluate(self, counts: Floats) -> Floats:
        return self.walks.evaluate(counts, np.full(len(counts), self.first))

    @cached_property
    def _all_boxes(self) -> "Boxes":
        count, levels = self.walks.count, len(self.walks.levels)
        boxes = Boxes(np.zeros((1, levels)), np.full((1, levels), float(count)), count)
        while boxes.size < FIRST_BOXES and not boxes.is_single.any():
            boxes = boxes.split(np.ones(levels))
        return boxes

    def _check(
        self, boxes: "Boxes", coefficients: Floats, slacks: Sequence[float], most_boxes: int
    ) -> tuple["Boxes", Sequence[float], Floats]:
        """Which boxes are left, coefficients being larger by the first of the slacks that are left.

        And counts at which they are too small. If so many boxes do not tell, the next slack is for those that
        are left: what was below stays below.
        """
        for at, slack in enumerate(slacks):
            most = most_boxes // 4 if at else most_boxes
            boxes, cuts = self._settle(boxes, coefficients * (1 + slack), most)
            if not boxes.size or len(cuts):
                return boxes, slacks[at:], cuts
        return boxes, slacks[-1:], np.zeros((0, len(coefficients)))

    def _settle(self, boxes: "Boxes", coefficients: Floats, most_boxes: int) -> tuple["Boxes", Floats]:
        """What is left of boxes after looking at about so many, and counts at which it is too small."""
        none, seen = np.zeros((0, len(coefficients))), 0
        while boxes.size and seen <= most_boxes:
            seen += boxes.size
            highest, least = self._compare_by_drift(boxes, coefficients)
            is_above = ~(highest <= least)
            boxes, highest, least = boxes.keep(is_above), highest[is_above], least[is_above]
            is_open, is_far = np.ones(boxes.size, dtype=bool), highest > FAR_ABOVE * least
            slopes = self.walks.guess_slopes(boxes.middle, self.first)
            near = np.flatnonzero(highest <= NEAR_ABOVE * least)
            if len(near):
                is_below, is_far[near], excess, slopes[near] = self._expand(boxes.keep(near), coefficients)
                cuts = self._find_cuts(boxes.middle[near[excess > 0]], coefficients)
                if len(cuts):
                    return boxes, cuts
                is_open[near] = ~is_below
            matters = _weigh(slopes, boxes.middle) + _weigh(coefficients[None, :], boxes.middle)
            boxes = boxes.keep(is_open)
            if boxes.is_single.any():
                return boxes, self._find_cuts(boxes.lowest[boxes.is_single], coefficients)
            boxes = boxes.split(matters[is_open], is_far[is_open])
        return boxes, none

    def _find_cuts(self, places: Floats, coefficients: Floats) -> Floats:
        """Of the counts next to these places those that are furthest above the linear function."""
        counts = np.unique(_round_counts(places, self.walks.count), axis=0)
        excess = self._evaluate(counts) / np.maximum(counts @ coefficients, LEAST_FLOAT) - 1
        return np.asarray(counts[np.argsort(-excess)[: min(NEW_CUTS, int((excess > 0).sum()))]])

    def _compare_by_drift(self, boxes: "Boxes", coefficients: Floats) -> tuple[Floats, Floats]:
        """The value of counts as high as they go with the drift of those as low, and the least linear one."""
        levels = range(len(coefficients))
        high, low = boxes.fill(reversed(levels)), boxes.fill(levels)
        # as many products as levels, their sum, and what is taken off
        rel_error = gamma(len(coefficients) + 2)
        least = (boxes.fill(np.argsort(coefficients)) @ coefficients) * (1 - rel_error)
        # counts are whole numbers, exactly; products and sums of levels cancel
        apart = high - low
        moved = apart @ self.walks.levels + 2 * rel_error * (np.abs(apart) @ self.walks.levels)
        offsets = self.first + np.ceil(self.growth * moved / self.walks.spacing * ROUNDED_UP)
        return self.walks.evaluate(high, offsets), least

    def _expand(
        self, boxes: "Boxes", coefficients: Floats
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Floats, Floats]:
        """Whether value, slopes and remainder are below it, and whether not even those of a half will be.

        And by how much the value is not in the middle, and the slopes.
        """
        middle = boxes.middle
        radii = np.maximum(boxes.highest - middle, middle - boxes.lowest)
        values, slopes, remainders = self.walks.expand(middle, radii, np.full(boxes.size, self.first))
        linear, over = middle @ coefficients, coefficients - slopes
        # the counts keep their sum
        moves = Boxes(boxes.lowest - middle, boxes.highest - middle, 0)
        least = moves.least(over)
        margin = linear - values - remainders + least
        is_far = linear - values - remainders / 4 + least / 2 < 0
        # where the margin is positive the remainder is below the others
        rounding = linear + np.abs(values) + np.einsum("ij,ij->i", radii, np.abs(over))
        return margin > MARGIN_REL_ERROR * rounding, is_far, values - linear, slopes


def _weigh(slopes: Floats, counts: Floats) -> Floats:
    """How much each count matters to a linear function, about, where they keep their sum."""
    weights = counts / counts.sum(axis=1, keepdims=True)
    return np.asarray(np.abs(slopes - (slopes * weights).sum(axis=1, keepdims=True)))


@dataclass(frozen=True)
class Boxes:
    """Counts between `lowest` and `highest` of each level that add up to `total`."""

    lowest: Floats
    highest: Floats
    total: float

    @property
    def size(self) -> int:
        """How many boxes there are."""
        return len(self.lowest)

    @property
    def is_single(self) -> NDArray[np.bool_]:
        """Which of them hold a single count."""
        return np.asarray((self.highest == self.lowest).all(axis=1))

    @cached_property
    def middle(self) -> Floats:
        """Of each the point between its highest and its lowest counts, which need not be whole."""
        levels = range(self.lowest.shape[1])
        return (self.fill(reversed(levels)) + self.fill(levels)) / 2

    def keep(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> "Boxes":
        """Those of them."""
        return Boxes(self.lowest[which], self.highest[which], self.total)

    def fill(self, order: Iterable[int]) -> Floats:
        """Of each box the counts that are largest in levels of this order, one after the other."""
        found = self.lowest.copy()
        left = self.total - found.sum(axis=1)
        for level in order:
            more = np.minimum(self.highest[:, level] - self.lowest[:, level], left)
            found[:, level] += more
            left = left - more
        return found

    def least(self, slopes: Floats) -> Floats:
        """The least of linear functions, one for each box, over the counts in it."""
        order = np.argsort(slopes, axis=1)
        rows = np.arange(self.size)
        left = self.total - self.lowest.sum(axis=1)
        found = (self.lowest * slopes).sum(axis=1)
        for level in order.T:
            more = np.minimum((self.highest - self.lowest)[rows, level], left)
            found += more * slopes[rows, level]
            left = left - more
        return np.asarray(found)

    def split(self, weights: Floats, is_far: NDArray[np.bool_] | None = None) -> "Boxes":
        """Each cut in two along its widest side, those that are far in four."""
        halves, parents = self._halve(weights)
        if is_far is None or not is_far.any():
            return halves
        again = is_far[parents]
        quarters, _ = halves.keep(again)._halve(weights[parents[again]])
        halves = halves.keep(~again)
        return Boxes(
            np.concatenate([halves.lowest, quarters.lowest]),
            np.concatenate([halves.highest, quarters.highest]),
            self.total,
        )

    def _halve(self, weights: Floats) -> tuple["Boxes", NDArray[np.intp]]:
        """And of which box each is a half; without what cannot add up to the total."""
        others = self.lowest.sum(axis=1, keepdims=True) - self.lowest
        highest = np.minimum(self.highest, self.total - others)
        others = highest.sum(axis=1, keepdims=True) - highest
        lowest = np.maximum(self.lowest, self.total - others)
        rows = np.arange(self.size)
        at = ((highest - lowest) * weights).argmax(axis=1)
        half = np.floor((lowest[rows, at] + highest[rows, at]) / 2)
        below, above = highest.copy(), lowest.copy()
        below[rows, at], above[rows, at] = half, half + 1
        found = Boxes(np.concatenate([lowest, above]), np.concatenate([below, highest]), self.total)
        fits = (found.lowest.sum(axis=1) <= self.total) & (found.highest.sum(axis=1) >= self.total)
        fits &= (found.lowest <= found.highest).all(axis=1)
        return found.keep(fits), np.concatenate([rows, rows])[fits]


def _is_nearly(raised: Floats, coefficients: Floats, shares: Floats) -> bool:
    return bool(raised @ shares <= (1 + NEARLY) * (coefficients @ shares))


def _solve(counts: Floats, values: Floats, shares: Floats) -> Floats | None:
    """Coefficients that bound the values, and whose mean over `shares` is least; only tried, not certified.

    Unknowns are what each level adds to the mean, and every row is told relative to its value: values of all
    sizes matter alike.
    """
    total, scale = float(counts[0].sum()), float(values.max())
    if not 0 < scale < math.inf:
        return None
    shares = np.maximum(shares, LEAST_PROGRAM_SHARE)
    shares_of_rows = counts / total / shares
    unit = float((values / shares_of_rows.max(axis=1)).max())  # no mean is smaller
    rows = shares_of_rows / (np.maximum(values, LEAST_VALUE * unit) / unit)[:, None]
    found = least_cover(rows)
    if found is None:
        return None
    mean = float(found.sum()) * unit
    return (found * unit / shares + EVERYWHERE * mean) / total


@lru_cache(maxsize=KEPT_LISTS)
def _list_counts(count: int, levels: int) -> Floats:
    """Counts of one level, of two and of three together; few of a level as well as many."""
    amounts, paired = (
        {max(1, math.floor(share * count)) for share in shares if share * count >= LEAST_COUNTED}
        | {few for few in wholes if few < count}
        for shares, wholes in ((FRACTIONS, FEW), (PAIRED, PAIRED_FEW))
    )
    found = [{level: count} for level in range(levels)]
    for one, other in permutations(range(levels), 2):
        found += [{one: count - n, other: n} for n in sorted(amounts) if 2 * n <= count]
    for one, other, third in combinations(range(levels), 3):
        amounts_of_two = product(sorted(paired), repeat=2)
        found += [{one: count - n - m, other: n, third: m} for n, m in amounts_of_two if n + m < count]
    counts = np.zeros((len(found), levels))
    for row, amounts_of_levels in zip(counts, found, strict=True):
        row[list(amounts_of_levels)] = list(amounts_of_levels.values())
    return np.unique(counts, axis=0)


def _round_counts(places: Floats, total: int) -> Floats:
    """Whole numbers next to them that add up to the total."""
    found = np.floor(places)
    order = np.argsort(found - places, axis=1, kind="stable")
    missing = np.rint(total - found.sum(axis=1))
    ranks = np.argsort(order, axis=1, kind="stable")
    return np.asarray(found + (ranks < missing[:, None]))
