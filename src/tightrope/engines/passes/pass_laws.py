"""The laws of the sum of the ratios of one pass, doubled up from those of one step."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from tightrope.engines.passes.ladder import Ladder, Reach
from tightrope.engines.passes.ratios import StepRatio, make_laws

FINE = 120  # steps of the lowest rung, at least, in the mean deviation of a sum
RARE = 0.01  # the mass of those sums, under P, that may be told less closely than
SMALL = 32  # steps of the lowest rung
RAREST, SMALLEST = 1e-20, 256  # likewise under Q, where small sums are what tells most
WINDOW = Reach(6144, 2048)  # of a sum: the lowest rung holds what is usual, from its least value on
FIRST_WINDOW = Reach(2048, 2048)  # of one ratio, whose larger values a coarser rung tells well enough
SPARE_BITS = 80  # of a mass, beyond those of the largest ratio


@dataclass(frozen=True)
class SumLaws:
    """Of the sum of `count` numbers: its law, and for each weight `count` times its law, one being weighted.

    All carry the same label, whose lattice they were sent to by the same roundings. The windows of rungs
    begin at the lowest sum, or lie around the mean, where one number has the mean `middle`. No place that a
    law was ever sent to is above `highest`, where that is asked.
    """

    count: int
    plain: Ladder
    weighted: tuple[Ladder, ...]
    window: Reach
    middle: Fraction | None = None
    highest: Fraction = Fraction(0)

    @property
    def _step(self) -> Fraction:
        """The coarsest one."""
        return Fraction(2) ** self.plain.exponents[-1]

    @property
    def centre(self) -> int:
        """The mean, in steps of the lowest rung."""
        mean = self.count * (1 if self.middle is None else self.middle)
        return math.floor(mean / Fraction(2) ** self.plain.exponents[0])

    def join(self, other: "SumLaws") -> "SumLaws":
        """The laws of the sum of both."""
        if other is self:
            plain = self.plain.square()
            weighted = tuple((law * self.plain).scale(2) for law in self.weighted)
        else:
            plain = self.plain * other.plain
            both = zip(self.weighted, other.weighted, strict=True)
            weighted = tuple(mine * other.plain + self.plain * its for mine, its in both)
        # both go to the lattice of a rung, and their sum perhaps to the next: each by less than a step
        highest = self.highest + other.highest + 3 * self._step
        found = replace(self, count=self.count + other.count, plain=plain, weighted=weighted, highest=highest)
        anchor = found.plain.lowest if self.middle is None else found.centre
        return found._map(lambda law: law.settle(anchor, self.window))

    def coarsen(self) -> "SumLaws":
        """On the next coarser lattice."""
        found = self._map(lambda law: law.coarsen())
        return replace(found, highest=self.highest + found._step)

    def _map(self, change: Callable[[Ladder], Ladder]) -> "SumLaws":
        return replace(self, plain=change(self.plain), weighted=tuple(map(change, self.weighted)))


def add_up(one: SumLaws, count: int, is_fine: Callable[[SumLaws], bool]) -> SumLaws:
    """The laws of the sum of `count` numbers, ever coarser where `is_fine` says that half the points do."""
    found = one
    for digit in bin(count)[3:]:
        found = found.join(found)
        if digit == "1":
            found = found.join(one)
        while is_fine(found):
            found, one = found.coarsen(), one.coarsen()
    return found


def sum_ratios(ratio: StepRatio, count: int, *, keeps_small: bool) -> SumLaws:
    """The laws of the sum of `count` ratios; `keeps_small` tells small sums apart too, however rare."""
    step = _usual_step(ratio)
    if keeps_small:
        step = min(step, _smallest_sum(ratio, count) / SMALLEST or step)
    exponent = math.floor(math.log2(step))
    plain, *weighted = make_laws(ratio, exponent, count_bits(ratio.largest, count), FIRST_WINDOW)

    def is_fine(laws: SumLaws) -> bool:
        if keeps_small and laws.plain.lowest < 2 * SMALLEST:
            return False
        if laws.weighted[0].quantile(RARE) < 2 * SMALL:
            return False
        return laws.plain.deviation(laws.centre) >= 2 * FINE

    return add_up(SumLaws(1, plain, tuple(weighted), WINDOW), count, is_fine)


def counts_small(ratio: StepRatio, count: int) -> bool:
    """Whether small sums, where they tell most, need finer lattices than others do."""
    return _smallest_sum(ratio, count) < SMALLEST * _usual_step(ratio)


def _usual_step(ratio: StepRatio) -> float:
    return min(ratio.deviation / FINE, ratio.weighted_quantile(RARE) / SMALL or ratio.deviation)


def _smallest_sum(ratio: StepRatio, count: int) -> float:
    """About below which place all of the numbers, and so none of the sums, hardly ever lie."""
    return ratio.quantile(RAREST ** (1 / count))


def count_bits(largest: float, count: int) -> int:
    """How many bits masses need where numbers are so large, and so many of them are added up."""
    return 16 * math.ceil((SPARE_BITS + math.log2(max(largest, 1)) + math.log2(count)) / 16)
