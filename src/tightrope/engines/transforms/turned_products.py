"""Products of two small numbers, in the mean over a turned normal: in balls, where floats do not do.

theorems/proofs/turned_curve.md, number 3.
"""

import math
from collections.abc import Iterable

from flint import acb, arb, arb_mat, ctx

SPARE_BITS = 48  # of balls, beyond those that cancel
MATRIX_SPEED = 12  # times as many products in the same time, where they are those of matrices
PRODUCTS_TOGETHER = 32  # that are made at once where they are not
PER_POINT = 0.006  # how long a point of z takes, in terms of the sums that need its products


def count_bits(needed: float) -> int:
    """Of balls for what may be off by e^-needed."""
    return SPARE_BITS + math.ceil(needed / math.log(2))


class CloseProducts:
    """E[(1 - e^{i r X}) (1 - e^{-i r t X'})] in balls, at points of the lattice, to about t r^2 e^-needed."""

    def __init__(self, a: arb, base: arb, needed: float, first: int, last: int) -> None:
        far = math.sqrt(2 * needed) + 2
        self.base, self.bits = base, count_bits(needed)
        self.apart = max(math.floor(math.pi**2 / needed / float(base)), 1)
        theta, unit = arb.pi() / (2 * a), self.apart * base / a
        self.reach = math.ceil(far / float(unit))
        places = [unit * j for j in range(-self.reach, self.reach + 1)]
        scale = unit * (theta * theta / 2).exp() / (2 * arb.pi()).sqrt()
        masses = [scale * (-z * z / 2).exp() for z in places]
        turns = [(z * theta).sin_cos() for z in places]
        self.weights = [
            (mass * cosine, -mass * sine) for mass, (sine, cosine) in zip(masses, turns, strict=True)
        ]
        self.first = first - self.apart * self.reach
        indices = range(self.first, last + self.apart * self.reach + 1)
        self.kernel = [-(-(base * i).exp()).expm1() for i in indices]
        between = ((2 * theta * theta).exp() + 1) / ((2 * arb.pi() * theta / unit).exp() - 1)
        beyond = (theta * theta / 2).exp() * (places[-1] / arb(2).sqrt()).erfc()
        self.missed = (between + beyond).upper()

    @property
    def terms(self) -> float:
        """How long one takes, in terms of a sum."""
        return PER_POINT * len(self.weights)

    def tell(self, pairs: Iterable[tuple[int, int]], period: int) -> dict[tuple[int, int], acb]:
        """At r and t r, each so many points along the lattice; pairs whose r are alike share a product."""
        groups: dict[int, list[tuple[int, int]]] = {}
        for own, other in pairs:
            groups.setdefault(own % period, []).append((own, other))
        found, alone = {}, []
        with ctx.workprec(self.bits):
            for group in groups.values():
                owns, others = (sorted(set(each)) for each in zip(*group, strict=True))
                if len(group) * (1 + 2 / MATRIX_SPEED) <= 2 * len(owns) * (1 + len(others) / MATRIX_SPEED):
                    alone += group
                    continue
                sums = self._multiply(owns, others)
                at, row_of = {own: 2 * i for i, own in enumerate(owns)}, dict(zip(others, sums, strict=True))
                for own, other in group:
                    row, column = row_of[other], at[own]
                    found[own, other] = self._enlarge(own, other, row[column : column + 2])
            for start in range(0, len(alone), PRODUCTS_TOGETHER):
                some = alone[start : start + PRODUCTS_TOGETHER]
                for (own, other), sums_of in zip(some, self._multiply_alone(some), strict=True):
                    found[own, other] = self._enlarge(own, other, sums_of)
        return found

    def _enlarge(self, own: int, other: int, sums: list[arb]) -> acb:
        """By what the rule in z misses."""
        error = arb(0, 1) * (self.missed * (self.base * (own + other)).exp()).upper()
        return acb(sums[0] + error, sums[1] + error)

    def _list_kernel(self, place: int) -> list[arb]:
        """1 - e^-e^x at the points of z there."""
        width = self.apart * self.reach
        start = place - self.first - width
        return self.kernel[start : start + 2 * width + 1 : self.apart]

    def _multiply(self, owns: list[int], others: list[int]) -> list[list[arb]]:
        """Sums over z: a row for each t r, two columns for each r."""
        ones = [self._list_kernel(own) for own in owns]
        columns = [
            [one * part for one in each for part in both]
            for *each, both in zip(*ones, self.weights, strict=True)
        ]
        rows = [self._list_kernel(other)[::-1] for other in others]
        return (arb_mat(rows) * arb_mat(columns)).tolist()

    def _multiply_alone(self, pairs: list[tuple[int, int]]) -> list[list[arb]]:
        """The same for some of all pairs, a row for each: few of what a product of all would tell."""
        both = ((self._list_kernel(own), self._list_kernel(other)[::-1]) for own, other in pairs)
        rows = [[one * two for one, two in zip(*each, strict=True)] for each in both]
        return (arb_mat(rows) * arb_mat(self.weights)).tolist()
