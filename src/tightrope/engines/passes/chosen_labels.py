"""A pass in which the record takes several batches, from below: what a sum of labels of the batches tells."""

import math
from collections.abc import Sequence

from flint import arb, ctx

from tightrope.engines.passes.cells import as_pair, collect, order_cells
from tightrope.engines.passes.labels import LABEL_BITS, RAREST_LABELLED, law_of_labels
from tightrope.engines.passes.ladder import Ladder
from tightrope.engines.passes.ratios import GUARD_BITS, StepRatio
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.finite_pair import FinitePair

LABELS_IN_MEAN = 8  # in the mean size of one


def reach_chosen(pair: Allocation, ratio: StepRatio) -> FinitePair:
    """The label of a batch is about ln(1 - g + g V), g the rate at which it holds the record, rounded.

    Under Q all batches are Q's; under P `chosen` of them are P's, whichever they are, and the sum is the
    same. Of a pass that ends early nothing is taken to be seen, because the number of visits in it varies.
    """
    if pair.released < pair.batches:
        return as_pair([1], 1, [1], 1)
    plain, weighted = _label(pair, ratio)
    others = pair.batches - pair.chosen
    p, q = _power(weighted, pair.chosen), _power(plain, pair.chosen)
    if others:
        rest = _power(plain, others)
        p, q = p * rest, q * rest
    p_masses, q_masses = collect(p.atoms()), collect(q.atoms())
    places, whole = sorted({*p_masses, *q_masses}), 1 << LABEL_BITS
    by_place = ([of.get(at, 0) for at in places] for of in (p_masses, q_masses))
    finite = math.ceil(whole * (1 - pair.step.infinite_mass) ** pair.chosen)  # what Q can produce too
    p_cells, q_cells = zip(*order_cells(next(by_place), next(by_place), finite, whole), strict=True)
    return as_pair([*p_cells, whole - finite], whole, [*q_cells, 0], whole)


def _label(pair: Allocation, ratio: StepRatio) -> tuple[Ladder, Ladder]:
    """The laws of the label of one batch under Q and under P."""
    rate = pair.chosen / pair.batches
    step = rate * ratio.deviation / LABELS_IN_MEAN
    last = math.ceil(
        math.log1p(rate * (min(ratio.weighted_quantile(1 - RAREST_LABELLED), ratio.largest) - 1)) / step
    )
    first = math.floor(math.log1p(-rate) / step) if rate < 1 else last - 1
    # ratios at which labels change: any are true, and these tell most
    edges = [1 + math.expm1((label - 0.5) * step) / rate for label in range(first + 1, last + 1)]
    with ctx.workprec(LABEL_BITS + GUARD_BITS):
        tails = [ratio.tails(arb(edge)) if edge > 0 else ratio.totals for edge in edges]
        return _cells(tails, ratio, 0, first), _cells(tails, ratio, 1, first)


def _cells(tails: Sequence[tuple[tuple[arb, arb], ...]], ratio: StepRatio, law: int, first: int) -> Ladder:
    above = [ratio.totals[law][0], *(tail[law][0] for tail in tails)]
    return law_of_labels(above, first)


def _power(law: Ladder, count: int) -> Ladder:
    found = law
    for digit in bin(count)[3:]:
        found = found.square()
        if digit == "1":
            found = found * law
    return found
