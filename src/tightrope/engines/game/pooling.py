"""A few one-step curves above those of every triangle: boxes are cut where it pays and pooled elsewhere.

Nothing here can make an upper bound too small: every box is dominated, and a group's curve is the larger of
its members' at every order. Moments, which tell what a run of many steps would choose, decide how finely to
cut and what to pool.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tightrope.engines.game.exchange_curve import both_orders
from tightrope.engines.game.triangles import HALF_OF_ALL, REMOVE_GRAM, Box, Gram, log_variance
from tightrope.numerics.floats import Floats
from tightrope.pairs.exchange import Exchange

# The moments that are compared (below -1/2 P and Q are exchanged), and how many times more each may exceed
# the worst triangle's: a negative tilt belongs to a remaining epsilon near 0, where few runs spend time.
TILTS = (-0.5, -0.25, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
FREEDOM = (30.0, 20.0, 10.0, 3.0, 1.0, 1.0, 1.0, 1.0)
BETWEEN = 0.5  # the share of what the best triangle in between gains over remove that a box may add
NEAR, FAR = 64, 28  # grid points up to three standard deviations of the loss, and beyond
LITTLE_NOISE = 1.0  # below, the tail decides, and half as many points are enough near 0
SMALLEST = 1e-4  # of an angle: boxes are not cut further
MOST_BOXES = 150  # nor when there are so many
KEPT_COVERS = 32


@dataclass(frozen=True)
class Quality:
    """By how much a box's moments may exceed the worst triangle's, and a group's, in units of the box's."""

    box: float
    group: float
    usual_size: int  # about how many curves such a cover has

    @property
    def coarseness(self) -> float:
        """The share of the variance that discretising a curve may add."""
        return self.box / 2


@dataclass(frozen=True)
class Curves:
    """Curves of several steps: at losses x >= 0, H_{e^x}(P || Q) and H_{e^x}(Q || P), one row per step."""

    forth: Floats
    back: Floats

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.forth)

    @property
    def exchanged(self) -> "Curves":
        """P and Q exchanged."""
        return Curves(self.back, self.forth)

    def rows(self, chosen: Iterable[int]) -> "Curves":
        """Some of the steps."""
        rows = list(chosen)
        return Curves(self.forth[rows], self.back[rows])

    def each(self, change: Callable[[Floats], Floats]) -> "Curves":
        """Every row changed, in both orders."""
        return Curves(*(np.array([change(row) for row in rows]) for rows in (self.forth, self.back)))

    def largest(self) -> "Curves":
        """The larger curve at each order, as one row."""
        return Curves(self.forth.max(axis=0, keepdims=True), self.back.max(axis=0, keepdims=True))

    def below(self, ceiling: Floats) -> "Curves":
        """Capped at what no triangle exceeds in either order: remove's curve."""
        return Curves(np.minimum(self.forth, ceiling), np.minimum(self.back, ceiling))

    @staticmethod
    def stack(parts: "Iterable[Curves]") -> "Curves":
        """All rows of several."""
        parts = list(parts)
        return Curves(np.concatenate([p.forth for p in parts]), np.concatenate([p.back for p in parts]))


@dataclass(frozen=True, kw_only=True)
class TriangleCover:
    """Groups of triangles at orders 1 + `excess`; the first holds remove, and has its Gram matrices too.

    `groups` cover remove's half of the family. `others` cover the other half more roughly, because nobody
    gains by choosing there while the remaining epsilon is >= 0. `best_between` is the triangle that gains
    most where epsilon is near 0, if one beats remove.
    """

    exchange: Exchange
    quality: Quality
    excess: Floats
    groups: Curves
    others: Curves
    first: tuple[Gram, ...]
    best_between: Gram | None

    @property
    def size(self) -> int:
        """How many curves there are."""
        return self.groups.count + self.others.count


def curves_of(grams: Iterable[Gram], exchange: Exchange, excess: Floats, coarseness: float) -> Curves:
    """Upper bounds on the curves of Gram matrices at orders 1 + excess, excess >= 0."""
    found = [both_orders(gram, exchange, excess, coarseness) for gram in grams]
    return Curves(np.array([forth for forth, _ in found]), np.array([back for _, back in found]))


@lru_cache(maxsize=KEPT_COVERS)
def cover_triangles(exchange: Exchange, quality: Quality) -> TriangleCover:
    """The cover for one rate and noise; it takes seconds, and every question about a run needs it."""
    return _Pooling(exchange, quality).cover()


def largest_loss(rate: float, inverse_variance: float, deviations: float) -> float:
    """The loss of remove at an output so many standard deviations out."""
    exponent = 2 * math.sqrt(inverse_variance) * deviations + 2 * inverse_variance
    return math.log1p(rate * math.expm1(exponent)) if exponent < 700 else math.log(rate) + exponent


def _grid(rate: float, inverse_variance: float) -> Floats:
    top = largest_loss(rate, inverse_variance, 13.0)
    deviation = rate * math.sqrt(math.expm1(min(4 * inverse_variance, 700.0)))
    count = NEAR if inverse_variance * LITTLE_NOISE**2 <= 1 else NEAR // 2
    near = 3 * min(deviation, top / 8) * np.arange(count + 1) / count
    return np.concatenate([near, np.geomspace(near[-1], top, FAR)[1:]])


class _Pooling:
    def __init__(self, exchange: Exchange, quality: Quality) -> None:
        self.exchange, self.quality = exchange, quality
        self.inverse_variance = exchange.inverse_variance
        self.grid = _grid(exchange.rate, self.inverse_variance)
        self.excess = np.expm1(self.grid)
        self.ceiling = curves_of([REMOVE_GRAM], exchange, self.excess, quality.coarseness).forth
        self.remove = self._curves([REMOVE_GRAM])
        tilts, width = np.array(TILTS)[:, None], np.gradient(self.grid)
        self.forth_weights = np.exp(np.minimum(tilts * self.grid, 600.0)) * width
        self.back_weights = np.exp(-(1 + tilts) * self.grid) * width
        self.best = self.removes = self._moments(self.remove)[0]
        self.best_between: Gram | None = None

    def cover(self) -> TriangleCover:
        """Cut boxes, pool them, and pool the triangles with a and a' exchanged more roughly."""
        boxes, curves = self._boxes()
        grams = [box.dominator for box in boxes]
        order = sorted(range(len(boxes)), key=lambda i: -(boxes[i].d0 + boxes[i].d1))
        groups = self._pool(curves, order, first_limit=1.0)
        others = self._pool(curves.exchanged, order[::-1], first_limit=self.quality.group)
        return TriangleCover(
            exchange=self.exchange,
            quality=self.quality,
            excess=self.excess,
            groups=Curves.stack(curves.rows(members).largest() for members in groups),
            others=Curves.stack(curves.exchanged.rows(members).largest() for members in others),
            first=tuple(grams[i] for i in groups[0]),
            best_between=self.best_between,
        )

    def _curves(self, grams: Iterable[Gram], coarser: float = 1.0) -> Curves:
        """The curves of Gram matrices on the grid, capped at remove's, which no triangle exceeds."""
        coarseness = coarser * self.quality.coarseness
        return curves_of(grams, self.exchange, self.excess, coarseness).below(self.ceiling)

    def _moments(self, curves: Curves) -> Floats:
        """About E_P[(e^{c loss} - 1) / (c (c + 1))]: the integral of each curve over e^{c x} dx."""
        return np.asarray(curves.forth @ self.forth_weights.T + curves.back @ self.back_weights.T)

    def _excess(self, curves: Curves) -> Floats:
        """By how much each row's moments exceed the worst triangle's, in units of what a box may."""
        allowed = self.quality.box * np.array(FREEDOM) + BETWEEN * (self.best / self.removes - 1)
        return np.asarray(((self._moments(curves) / self.best - 1) / allowed).max(axis=1))

    def _boxes(self) -> tuple[list[Box], Curves]:
        """Boxes whose dominators exceed the worst triangle by little, and the dominators' curves."""
        done: list[Box] = []
        kept: list[Curves] = []
        open_boxes = self._cut_by_variance()
        self._learn([box.middle for box in open_boxes])
        while open_boxes:
            curves = self._curves([box.dominator for box in open_boxes])
            enough = len(done) + len(open_boxes) > MOST_BOXES
            cut: list[Box] = []
            for i, (box, more) in enumerate(zip(open_boxes, self._excess(curves), strict=True)):
                if more <= 1 or enough or max(box.d1 - box.d0, box.e1 - box.e0) < SMALLEST:
                    done.append(box)
                    kept.append(curves.rows([i]))
                else:
                    cut += self._halve(box)
            open_boxes = cut
            if self.best_between is not None:  # else remove is the worst triangle, as at most noises
                self._learn([box.middle for box in open_boxes])
        return done, Curves.stack(kept)

    def _learn(self, triangles: list[Gram]) -> None:
        """Keep the largest moments seen among triangles."""
        if self.best_between is None:  # most noises: few come near, as values from rougher nodes tell sooner
            rough = self._moments(self._curves(triangles, coarser=6.0))
            near = (rough > self.best).any(axis=1)
            triangles = [gram for gram, held in zip(triangles, near, strict=True) if held]
        if not triangles:
            return
        moments = self._moments(self._curves(triangles, coarser=1.5))
        if float(moments[:, 0].max()) > max(1.002 * self.removes[0], self.best[0]):
            self.best_between = triangles[int(moments[:, 0].argmax())]
        self.best = np.maximum(self.best, moments.max(axis=0))

    def _cut_by_variance(self) -> list[Box]:
        """Boxes cut by the variance alone, for which there is a formula, to a few times what is allowed."""
        limit = log_variance(REMOVE_GRAM, self.inverse_variance) + math.log1p(4 * self.quality.box)
        done, open_boxes = [], [HALF_OF_ALL]
        while open_boxes:
            box = open_boxes.pop()
            if log_variance(box.dominator, self.inverse_variance) <= limit or box.d1 - box.d0 < SMALLEST:
                done.append(box)
            else:
                open_boxes += self._halve(box)
        return done

    def _halve(self, box: Box) -> list[Box]:
        """The two halves along the angle that lowers the variance more, or |a - a'|, which decides near 0."""
        limit = log_variance(REMOVE_GRAM, self.inverse_variance) + self.quality.box / 2

        def left(halves: tuple[Box, Box]) -> tuple[float, float]:
            grams = [half.dominator for half in halves if not half.is_empty]
            variance = sum(max(log_variance(gram, self.inverse_variance) - limit, 0.0) for gram in grams)
            return variance, sum(gram.u + gram.w - 2 * gram.c for gram in grams) / len(grams)

        best = min(box.halves(), key=left)
        return [half for half in best if not half.is_empty]

    def _pool(self, curves: Curves, order: list[int], first_limit: float) -> list[list[int]]:
        """Groups of rows: each takes, in order, whatever leaves its moments within the limit."""
        groups: list[list[int]] = []
        left = list(order)
        while left:
            members = [left.pop(0)]
            pool = curves.rows(members)
            limit = max(self.quality.group if groups else first_limit, 1.1 * float(self._excess(pool)[0]))
            remaining = []
            for i in left:
                larger = Curves.stack([pool, curves.rows([i])]).largest()
                if float(self._excess(larger)[0]) <= limit:
                    pool = larger
                    members.append(i)
                else:
                    remaining.append(i)
            left = remaining
            groups.append(members)
        return groups
