"""How different an exchanged record can make one batch: a law above all others in convex order.

Of a batch whose sum holds one of the records x, x' and c, let X and Y be the likelihood ratios of N(x) and
N(x') to N(c). For order >= 1 no law of D = X - order Y is above that of D* in convex order, which is
L - order where that is positive, 1 - order L where that is negative, and else 0, L being the mean-one
lognormal of two opposite records: theorems/proofs/shuffles.md, lemma 1 there.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from operator import neg

import numpy as np
from flint import arb, ctx

from tightrope.numerics.balls import ball, ceil_float
from tightrope.numerics.floats import Floats

CALL_BITS = 192  # carried: calls far out cancel
KEPT_DIFFERENCES = 256  # differences, of which several bounds at one order have the same
VALUES_APART = 0.08  # of the deviation of D*: what is between two atoms, at least
VALUES_APART_FAR = 0.06  # the same of their distance from 0


def normal_above(x: arb) -> arb:
    """P(N > x), N standard normal."""
    return (x / arb(2).sqrt()).erfc() / 2


def call(separation: arb, strike: arb) -> arb:
    """E(L - strike)_+, L = exp(m N - m^2 / 2) for the separation m: the divergence of two normals."""
    d = strike.log() / separation + separation / 2
    return normal_above(d - separation) - strike * normal_above(d)


@dataclass(frozen=True)
class Atoms:
    """D* cut at the first and the last value, and spread between values, the mean kept; weights from above.

    Above min(D*, last) in increasing convex order, and mirrored above min(-D*, -first): what is cut off is
    `beyond` = E(D* - last)_+ and `below` = E(first - D*)_+.
    """

    values: Floats
    weights: Floats
    beyond: float
    below: float


@dataclass(frozen=True)
class WorstDifference:
    """D* at one order >= 1, for normals that opposite records move apart by `separation`."""

    separation: Fraction
    order: Fraction

    @property
    def deviation(self) -> float:
        """About that of L."""
        return math.sqrt(math.expm1(float(self.separation) ** 2))

    @cached_property
    def positive_part(self) -> float:
        """E(D*)_+, rounded up."""
        return self._excess(0.0)

    @cached_property
    def negative_part(self) -> float:
        """E(D*)_- = E(D*)_+ + order - 1, rounded up."""
        with ctx.workprec(CALL_BITS):
            return ceil_float(call(ball(self.separation), ball(self.order)) + ball(self.order - 1))

    def _excess(self, place: float) -> float:
        """E(D* - place)_+ for a place that is not negative, rounded up."""
        with ctx.workprec(CALL_BITS):
            return ceil_float(call(ball(self.separation), ball(self.order) + ball(place)))

    def _shortfall(self, place: float) -> float:
        """E(-place - D*)_+ for a place that is not negative, rounded up."""
        with ctx.workprec(CALL_BITS):
            t = ball(self.order)
            return ceil_float(t * call(ball(self.separation), (1 + ball(place)) / t))

    def spread(self, allowed: float) -> Atoms:
        """Between atoms that lie so far out that no more than `allowed` is cut off on either side."""
        right, left = self._right.cut(allowed), self._left.cut(allowed)
        with ctx.workprec(CALL_BITS):
            middle = left.weights[0] + right.weights[0] + (1 - right.mass - left.mass)
            weights = [*reversed(left.weights[1:]), middle, *right.weights[1:]]
            return Atoms(
                values=np.array([-place for place in reversed(left.places[1:])] + right.places),
                weights=np.array([ceil_float(weight) for weight in weights]),
                beyond=right.beyond,
                below=left.beyond,
            )

    @cached_property
    def _right(self) -> "LognormalSide":
        """L - order, where it is positive."""
        return LognormalSide(self, scale=Fraction(1), less=self.order)

    @cached_property
    def _left(self) -> "LognormalSide":
        """order L - 1, where it is positive: -D* there."""
        return LognormalSide(self, scale=self.order, less=Fraction(1))


@lru_cache(maxsize=KEPT_DIFFERENCES)
def find_worst(separation: Fraction, order: Fraction) -> WorstDifference:
    """D*, with the places that were computed before, which are the same whenever they are."""
    return WorstDifference(separation, order)


@dataclass(frozen=True)
class SpreadSide:
    """One side of D*, spread on places from 0 on: weights of all of them, `mass` is what they add up to.

    `beyond` is what lies above the last place, rounded up.
    """

    places: list[float]
    weights: list[arb]
    mass: arb
    beyond: float


class LognormalSide:
    """V = scale L - less where it is positive, at places ever further apart; each is computed once."""

    def __init__(self, worst: WorstDifference, *, scale: Fraction, less: Fraction) -> None:
        self._nearest = VALUES_APART * worst.deviation
        with ctx.workprec(CALL_BITS):
            self._separation, self._scale, self._less = map(ball, (worst.separation, scale, less))
        self._places: list[float] = []
        self._tails: list[tuple[arb, arb]] = []  # mass and mean of V above a place
        self._beyond: list[float] = []  # E(V - place)_+, rounded up
        self._cells: list[tuple[arb, arb]] = []  # what two neighbours have of the mass between them

    def cut(self, allowed: float) -> SpreadSide:
        """Up to the first place above which no more than `allowed` lies."""
        with ctx.workprec(CALL_BITS):
            last = self._find_last(allowed)
            while len(self._cells) < last:
                self._cells.append(self._split_cell(len(self._cells)))
            weights = [arb(0)] * (last + 1)
            for i, (low, high) in enumerate(self._cells[:last]):
                weights[i] += low
                weights[i + 1] += high
            weights[last] += self._tails[last][0]
            return SpreadSide(self._places[: last + 1], weights, self._tails[0][0], self._beyond[last])

    def _find_last(self, allowed: float) -> int:
        while not self._beyond or self._beyond[-1] > allowed:
            self._add_place()
        return bisect_left(self._beyond, -allowed, key=neg)

    def _add_place(self) -> None:
        last = self._places[-1] if self._places else None
        place = 0.0 if last is None else last + max(self._nearest, VALUES_APART_FAR * last)
        m = self._separation
        d = ((ball(place) + self._less) / self._scale).log() / m + m / 2
        mass = normal_above(d)
        mean = self._scale * normal_above(d - m) - self._less * mass
        self._places.append(place)
        self._tails.append((mass, mean))
        self._beyond.append(ceil_float(mean - mass * ball(place)))

    def _split_cell(self, index: int) -> tuple[arb, arb]:
        """The mass between two places, sent to both, the mean kept."""
        (low, mean_low), (high, mean_high) = self._tails[index : index + 2]
        place, following = map(ball, self._places[index : index + 2])
        mass = low - high
        up = (mean_low - mean_high - mass * place) / (following - place)
        return mass - up, up
