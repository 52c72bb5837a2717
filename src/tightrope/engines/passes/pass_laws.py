"""The laws of the sum of the ratios of one pass, doubled up from those of one step."""

import math
from dataclasses import dataclass

from tightrope.engines.passes.ladder import Ladder, Window
from tightrope.engines.passes.ratios import StepRatio, make_laws

FINE = 150  # steps of the lowest rung, at least, in the mean deviation of a sum
SMALLEST = 256  # steps of the lowest rung, at least, before the lowest sum that is told apart
LEAST_MASS = 1e-20  # of the sums that are not, where small ones count
WINDOW = Window(back=(0, 0), ahead=(8192, 2048))  # sums of ratios have no long tail below
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
        centre = self.count * 2.0 ** -self.plain.exponents[0]
        return self.plain.deviation(centre) >= 2 * FINE


def sum_ratios(ratio: StepRatio, count: int, *, keeps_small: bool) -> SumLaws:
    """The laws of the sum of `count` ratios; `keeps_small` tells small sums apart too, where each is rare."""
    step = ratio.deviation / FINE
    if keeps_small:
        step = min(step, ratio.quantile(LEAST_MASS ** (1 / count)) / SMALLEST or step)
    exponent = math.floor(math.log2(step))
    bits = 16 * math.ceil((SPARE_BITS + math.log2(max(ratio.largest, 1))) / 16)
    plain, weighted = make_laws(ratio, exponent, bits, WINDOW)
    one = found = SumLaws(1, plain, weighted)
    for digit in bin(count)[3:]:
        found = found.join(found)
        if digit == "1":
            found = found.join(one)
        while found.is_fine(keeps_small=keeps_small):
            found, one = found.coarsen(), one.coarsen()
    return found
