"""A pass in which the record takes several batches, from below: the sum of the batches' ratios as a label."""

import math
from fractions import Fraction

from tightrope.engines.passes.cells import as_pair, collect, order_cells
from tightrope.engines.passes.ladder import Ladder, Window
from tightrope.engines.passes.pass_laws import count_bits
from tightrope.engines.passes.ratios import StepRatio, make_laws
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.finite_pair import FinitePair

FINE = 20  # steps of the lattice in the mean deviation of one ratio
MOST_STEPS = 2048  # of the lattice: larger ratios get the last label


def reach_several(pair: Allocation, ratio: StepRatio) -> FinitePair:
    """Under Q all ratios are Q's, under P `chosen` of them are P's, whichever: one lattice, so sums are alike.

    Of a pass that ends early, the batches that are seen hold at most so many of the record's visits, and its
    number there varies: such a pass is left out, as if nothing of it were seen.
    """
    if pair.released < pair.batches:
        nothing = [Fraction(1)]
        return as_pair(nothing, nothing)
    exponent = math.floor(math.log2(ratio.deviation / FINE))
    bits = count_bits(MOST_STEPS * 2.0**exponent)
    cut = Window(MOST_STEPS, MOST_STEPS)
    plain, weighted = (_cut(law) for law in make_laws(ratio, exponent, bits, cut))
    others = pair.batches - pair.chosen
    rest = _power(plain, others) if others else None
    chosen, same = _power(weighted, pair.chosen), _power(plain, pair.chosen)
    p, q = (law * rest if rest else law for law in (chosen, same))
    p_masses, q_masses = collect(p.atoms()), collect(q.atoms())
    places = sorted({*p_masses, *q_masses})
    whole = 1 << bits
    cells = order_cells(
        [p_masses.get(at, 0) for at in places], [q_masses.get(at, 0) for at in places], whole, whole
    )
    return as_pair([Fraction(mass, whole) for mass, _ in cells], [Fraction(mass, whole) for _, mass in cells])


def _cut(law: Ladder) -> Ladder:
    """The lowest rung alone: what lies on others is left out."""
    return Ladder(law.exponents[:1], law.parts[:1], law.bits)


def _power(law: Ladder, count: int) -> Ladder:
    found = law
    for digit in bin(count)[3:]:
        found = found.square()
        if digit == "1":
            found = found * law
    return found
