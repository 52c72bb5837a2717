"""Products of two small numbers, in the mean over a turned normal: in balls, where floats do not do.

theorems/proofs/turned_curve.md, number 3.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from flint import acb, arb, arb_mat, ctx

SPARE_BITS = 48  # of balls, beyond those that cancel
PER_POINT = 0.01  # how long a point of z takes, in terms of the sums that need its products


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

    def tell(self, pairs: Iterable[tuple[int, int]]) -> dict[tuple[int, int], acb]:
        """At r and t r, each so many points along the lattice."""
        with ctx.workprec(self.bits):
            return {(own, other): self._enlarge(own, other, *sums) for own, other, *sums in self._sum(pairs)}

    def _enlarge(self, own: int, other: int, real: arb, imaginary: arb) -> acb:
        """By what the rule in z misses."""
        error = arb(0, 1) * (self.missed * (self.base * (own + other)).exp()).upper()
        return acb(real + error, imaginary + error)

    def _list_kernel(self, place: int) -> list[arb]:
        """1 - e^-e^x at the points of z there."""
        width = self.apart * self.reach
        start = place - self.first - width
        return self.kernel[start : start + 2 * width + 1 : self.apart]

    def _weigh(self, own: int) -> arb_mat:
        """Both parts of the kernel at r, with the weights of the points: a row each."""
        kernel = self._list_kernel(own)
        rows = zip(*self.weights, strict=True)
        return arb_mat([[one * part for one, part in zip(kernel, parts, strict=True)] for parts in rows])

    def _sum(self, pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, arb, arb]]:
        """Sums over z.

        A matrix takes ten times as long to make as a product: those of t r are kept while they are needed.
        """
        ordered = sorted(pairs)
        needed, columns = Counter(other for _, other in ordered), dict[int, arb_mat]()
        for own, group in groupby(ordered, itemgetter(0)):
            rows = self._weigh(own)
            for _, other in group:
                if other not in columns:
                    columns[other] = arb_mat([[one] for one in self._list_kernel(other)[::-1]])
                sums = rows * columns[other]
                yield own, other, sums[0, 0], sums[1, 0]
                needed[other] -= 1
                if not needed[other]:
                    del columns[other]
