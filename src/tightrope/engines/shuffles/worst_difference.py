"""How different an exchanged record can make one batch: a law above all others in convex order.

Of a batch whose sum holds one of the records x, x' and c, let X and Y be the likelihood ratios of N(x) and
N(x') to N(c). For order >= 1 no law of D = X - order Y is above that of D* in convex order, which is
L - order where that is positive, 1 - order L where that is negative, and else 0, L being the mean-one
lognormal of two opposite records: theorems/proofs/shuffles.md, lemma 1 there.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
from flint import arb, ctx

from tightrope.numerics.balls import ball, ceil_float
from tightrope.numerics.floats import Floats

BITS = 192  # carried: calls far out cancel
NEAR, FAR = 0.08, 0.06  # between atoms: of the deviation of D*, and of their distance from 0


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
        with ctx.workprec(BITS):
            return ceil_float(call(ball(self.separation), ball(self.order)) + ball(self.order - 1))

    def _excess(self, place: float) -> float:
        """E(D* - place)_+ for a place that is not negative, rounded up."""
        with ctx.workprec(BITS):
            return ceil_float(call(ball(self.separation), ball(self.order) + ball(place)))

    def _shortfall(self, place: float) -> float:
        """E(-place - D*)_+ for a place that is not negative, rounded up."""
        with ctx.workprec(BITS):
            t = ball(self.order)
            return ceil_float(t * call(ball(self.separation), (1 + ball(place)) / t))

    def spread(self, allowed: float) -> Atoms:
        """Between atoms that lie so far out that no more than `allowed` is cut off on either side."""
        with ctx.workprec(BITS):
            right = self._places(lambda place: self._excess(place) <= allowed)
            left = self._places(lambda place: self._shortfall(place) <= allowed)
            above, more = self._weigh(right, self.order, Fraction(1))
            below, less = self._weigh(left, Fraction(1), self.order)
            weights = [*reversed(below[1:]), below[0] + above[0] + (1 - more - less), *above[1:]]
            return Atoms(
                values=np.array([-place for place in reversed(left[1:])] + right),
                weights=np.array(list(map(ceil_float, weights))),
                beyond=self._excess(right[-1]),
                below=self._shortfall(left[-1]),
            )

    def _places(self, is_last: Callable[[float], bool]) -> list[float]:
        """Up to the first of them that is the last: a search by halves, as calls take time."""
        places = [0.0]

        def reaches(index: int) -> bool:
            while len(places) <= index:
                places.append(places[-1] + max(NEAR * self.deviation, FAR * places[-1]))
            return is_last(places[index])

        low, high = -1, 0
        while not reaches(high):
            low, high = high, 2 * high + 16
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if reaches(middle) else (middle, high)
        return places[: high + 1]

    def _tail(self, less: Fraction, scale: Fraction, place: float) -> tuple[arb, arb]:
        """Of V = scale L - less what lies above a place: mass and mean."""
        m = ball(self.separation)
        d = ((ball(place) + ball(less)) / ball(scale)).log() / m + m / 2
        mass = normal_above(d)
        return mass, ball(scale) * normal_above(d - m) - ball(less) * mass

    def _weigh(self, places: Sequence[float], less: Fraction, scale: Fraction) -> tuple[list[arb], arb]:
        """The part of V = scale L - less that is positive, at these places; and its mass."""
        tails = [self._tail(less, scale, place) for place in places]
        found = [arb(0)] * len(places)
        for i, ((low, mean_low), (high, mean_high)) in enumerate(pairwise(tails)):
            mass, mean = low - high, mean_low - mean_high
            up = (mean - mass * ball(places[i])) / (ball(places[i + 1]) - ball(places[i]))
            found[i], found[i + 1] = found[i] + mass - up, found[i + 1] + up
        found[-1] += tails[-1][0]
        return found, tails[0][0]
