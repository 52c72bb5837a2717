"""The laws of the sum of the ratios of one pass, doubled up from those of one step."""

import math
from dataclasses import dataclass

from tightrope.engines.passes.ladder import Ladder, Window
from tightrope.engines.passes.ratios import StepRatio, make_laws

FINE = 120  # steps of the lowest rung, at least, in the mean deviation of a sum
RARE = 0.01  # the mass of those sums, under P, that may be told less closely than
SMALL = 32  # steps of the lowest rung
RAREST, SMALLEST = 1e-20, 256  # likewise under Q, where small sums are what tells most
WINDOW = Window(6144, 2048)  # of a sum: the lowest rung holds what is usual, from its least value on
FIRST_WINDOW = Window(2048, 2048)  # of one ratio, whose larger values a coarser rung tells well enough
SPARE_BITS = 80  # of a mass, beyond those of the largest ratio


@dataclass(frozen=True)
class SumLaws:
    """Of the sum of `count` ratios: its law under Q, and `count` times its law under P, one ratio being P's.

    Both carry the same label, whose lattice both were sent to by the same roundings.
    """

    count: int
    plain: Ladder
    weighted: Ladder

    def join(self, other: "SumLaws") -> "SumLaws":
        """The laws of the sum of both."""
        plain = self.plain.square() if other is self else self.plain * other.plain
        weighted = (self.weighted * self.plain).scale(2)
        if other is not self:
            weighted = self.weighted * other.plain + self.plain * other.weighted
        anchor = plain.lowest
        settled = (law.settle(anchor, WINDOW) for law in (plain, weighted))
        return SumLaws(self.count + other.count, *settled)

    def coarsen(self) -> "SumLaws":
        """On the next coarser lattice."""
        return SumLaws(self.count, self.plain.coarsen(), self.weighted.coarsen())

    def is_fine(self, *, keeps_small: bool) -> bool:
        """Whether half as many points would do."""
        if keeps_small and self.plain.lowest < 2 * SMALLEST:
            return False
        if self.weighted.quantile(RARE) < 2 * SMALL:
            return False
        exponent = self.plain.exponents[0]
        centre = self.count << -exponent if exponent < 0 else self.count >> exponent
        return self.plain.deviation(centre) >= 2 * FINE


def sum_ratios(ratio: StepRatio, count: int, *, keeps_small: bool) -> SumLaws:
    """The laws of the sum of `count` ratios; `keeps_small` tells small sums apart too, however rare."""
    step = min(ratio.deviation / FINE, ratio.weighted_quantile(RARE) / SMALL)
    if keeps_small:
        step = min(step, ratio.quantile(RAREST ** (1 / count)) / SMALLEST or step)
    exponent = math.floor(math.log2(step))
    bits = 16 * math.ceil((SPARE_BITS + math.log2(max(ratio.largest, 1))) / 16)
    plain, weighted = make_laws(ratio, exponent, bits, FIRST_WINDOW)
    one = found = SumLaws(1, plain, weighted)
    for digit in bin(count)[3:]:
        found = found.join(found)
        if digit == "1":
            found = found.join(one)
        while found.is_fine(keeps_small=keeps_small):
            found, one = found.coarsen(), one.coarsen()
    return found
