"""The laws of the sum of the ratios of one pass, doubled up from those of one step.

They are those of the blocks in theorems/proofs/balls_in_bins.md: plain under Q, weighted under P.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from tightrope.engines.passes.ladder import Ladder, Reach
from tightrope.engines.passes.mesh import Mesh
from tightrope.engines.passes.ratios import StepRatio, make_laws

STEPS_PER_DEVIATION = 80  # of the lowest rung, at least, in the mean deviation of a sum
FEW_BITS = 7  # of how many numbers are added up; rounding as often as more have takes finer steps
TAILED, LIGHTEST = 0.75, 1.5  # the deviation of a ratio below which steps are finer, up to so many times
RARE_SUMS = 0.01  # the mass, under P, of the smallest sums, which may be told less closely
STEPS_BELOW_RARE = 32  # of the lowest rung, at least, in what is below the others
RAREST_SUMS, STEPS_BELOW_RAREST = 1e-20, 256  # likewise under Q, where small sums are what tells most
USUAL_SUMS = 51  # deviations that the lowest rung holds of a sum, from its least value on
FIRST_STEPS = 768  # of a rung of one ratio, whose larger values a coarser rung tells well enough
OTHER_STEPS = 768  # of the higher rungs of a sum
SPARE_MASS_BITS = 88  # of a mass, beyond those of the largest ratio or of the count


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


def sum_ratios(ratio: StepRatio, count: int, mesh: Mesh, *, keeps_small: bool) -> SumLaws:
    """The laws of the sum of `count` ratios; `keeps_small` tells small sums apart too, however rare."""
    fine, small, smallest = (
        _fine(ratio, count, mesh),
        mesh.scale(STEPS_BELOW_RARE),
        mesh.scale(STEPS_BELOW_RAREST),
    )
    step = _usual_step(ratio, count, mesh)
    if keeps_small:
        step = min(step, _smallest_sum(ratio, count) / smallest or step)
    exponent = math.floor(math.log2(step))
    first = mesh.scale(FIRST_STEPS)
    # what rounding takes of one number it takes of the sum, whose mean is the count
    bits = count_bits(max(ratio.largest, count))
    plain, *weighted = make_laws(ratio, exponent, bits, Reach(first, first))

    def is_fine(laws: SumLaws) -> bool:
        if keeps_small and laws.plain.lowest < 2 * smallest:
            return False
        if laws.weighted[0].quantile(RARE_SUMS) * math.sqrt(count / laws.count) < 2 * small:
            return False
        return laws.plain.deviation(laws.centre) >= 2 * fine

    window = Reach(USUAL_SUMS * fine, mesh.scale(OTHER_STEPS))
    return add_up(SumLaws(1, plain, tuple(weighted), window), count, is_fine)


def counts_small(ratio: StepRatio, count: int, mesh: Mesh) -> bool:
    """Whether small sums, where they tell most, need finer lattices than others do."""
    return _smallest_sum(ratio, count) < mesh.scale(STEPS_BELOW_RAREST) * _usual_step(ratio, count, mesh)


def _fine(ratio: StepRatio, count: int, mesh: Mesh) -> int:
    """Steps in a deviation. What doublings round adds up; light tails, with few rungs, are quick to add."""
    light = min(max(math.sqrt(TAILED / ratio.deviation), 1.0), LIGHTEST)
    return mesh.scale(STEPS_PER_DEVIATION * light * math.sqrt(max(count.bit_length() / FEW_BITS, 1)))


def _usual_step(ratio: StepRatio, count: int, mesh: Mesh) -> float:
    """Of the first lattice. What `count` of its roundings move a sum by grows with the root of the count."""
    small = ratio.weighted_quantile(RARE_SUMS) * math.sqrt(count) / mesh.scale(STEPS_BELOW_RARE)
    return min(ratio.deviation / _fine(ratio, count, mesh), small or ratio.deviation)


def _smallest_sum(ratio: StepRatio, count: int) -> float:
    """About below which place all of the numbers, and so none of the sums, hardly ever lie."""
    return ratio.quantile(RAREST_SUMS ** (1 / count))


def count_bits(furthest: float) -> int:
    """How many bits masses need where what is lost of one is lost of a number as large as this."""
    return 8 * math.ceil((SPARE_MASS_BITS + math.log2(max(furthest, 1))) / 8)
