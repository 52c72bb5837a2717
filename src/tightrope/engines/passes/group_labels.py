"""A pass that a group takes part in, from below: what a sum of labels of the batches tells.

The label of a batch is about the loss that it would have if records joined it rarely, each on its own, and
the labels add up. The laws of a sum are known for each number of records that are in its batches, and two
such sums are joined by sharing the records out.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from operator import add

import numpy as np
from flint import arb, ctx

from tightrope.engines.passes.cells import KEPT_PASSES, as_pair, collect, order_cells
from tightrope.engines.passes.labels import LABEL_BITS, RAREST_LABELLED, law_of_labels
from tightrope.engines.passes.ladder import Ladder
from tightrope.engines.passes.ratios import GUARD_BITS
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import Floats
from tightrope.pairs.counted import CountedPair, CountMixture, binomial_counts
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.group_pass import GroupPass

LABELS_IN_MEAN = 4  # in the mean size of one: twice as many tell a ten-thousandth more
SPARSER = 3  # times rarer than they do, records join in what a label tells: the best of 1, 3, 8 and 20
MOST_LABELS = 1 << 13
MOST_FOLLOWED = 16  # records; larger groups reach at least what so many do

# the laws of a sum of n labels for 0, 1, ... records in its batches, each times n^records
Sums = tuple[Ladder, ...]


@lru_cache(maxsize=KEPT_PASSES)
def reach_group(pair: GroupPass) -> FinitePair:
    """The sum of the labels of the batches that are seen, under P and under Q."""
    if pair.is_reversed:
        return reach_group(pair.reverse).reverse  # both directions are asked for, and made once
    group = min(pair.group, MOST_FOLLOWED)
    sums = _add_up(_label(pair, group), pair.released)
    unseen = pair.batches - pair.released
    p = _collect_counts(sums, group, unseen)
    whole_p, whole_q = pair.batches**group << LABEL_BITS, 1 << LABEL_BITS
    q = collect(sums[0].atoms())
    places = sorted({*p, *q})
    cells = order_cells([p.get(at, 0) for at in places], [q.get(at, 0) for at in places], whole_p, whole_q)
    return as_pair([cell[0] for cell in cells], whole_p, [cell[1] for cell in cells], whole_q)


def _collect_counts(sums: Sums, group: int, unseen: int) -> Mapping[int, int]:
    """The law under P: so many of the records are in batches that are seen, the others elsewhere."""
    found: dict[int, int] = {}
    for records, law in enumerate(sums):
        ways = math.comb(group, records) * unseen ** (group - records)
        if ways:
            for place, mass in law.atoms():
                found[place] = found.get(place, 0) + ways * mass
    return found


def _label(pair: GroupPass, group: int) -> Sums:
    """The laws of the label of one batch that holds 0, 1, ... records."""
    edges, first = _find_edges(pair, group)
    with ctx.workprec(LABEL_BITS + GUARD_BITS):
        a, root = ball(pair.exact_shift), arb(2).sqrt()
        found = []
        for records in range(group + 1):
            beyond = [((arb(edge) - records * a) / root).erfc() / 2 for edge in edges]
            found.append(law_of_labels([arb(1), *beyond], first))
    return tuple(found)


def _find_edges(pair: GroupPass, group: int) -> tuple[Sequence[float], int]:
    """Outputs at which labels change, and the first label. Any are true, and these tell most."""
    counted = CountedPair(
        CountMixture(binomial_counts(group, Fraction(1, SPARSER * pair.batches)), pair.exact_shift)
    )
    step, last = _space(counted)
    first = math.floor(counted.loss_range[0] / step)
    losses: Floats = step * np.arange(first + 0.5, last, dtype=np.float64)
    edges = counted.output_at(losses)
    seen = [edge for edge in edges.tolist() if edge > -math.inf]
    return seen, last - len(seen)


def _space(counted: CountedPair) -> tuple[float, int]:
    """The size of a label's unit, and the largest label."""
    most = counted.loss_quantile(math.log(RAREST_LABELLED))
    z = np.linspace(-6, 6, 241)
    mean = float(np.average(np.abs(counted.loss(z)), weights=np.exp(-z * z / 2)))
    step = max(mean / LABELS_IN_MEAN, most / MOST_LABELS)
    return step, math.ceil(most / step)


def _add_up(one: Sums, count: int) -> Sums:
    found = one
    for digit in bin(count)[3:]:
        found = _join(found, found)
        if digit == "1":
            found = _join(found, one)
    return found


def _join(some: Sums, others: Sums) -> Sums:
    """Records are shared out between both in all ways; j and the rest is the rest and j if both are alike."""
    found = []
    for records in range(len(some)):
        parts = []
        for j in range(records + 1 if some is not others else records // 2 + 1):
            ways = math.comb(records, j) * (2 if some is others and 2 * j < records else 1)
            parts.append((some[j] * others[records - j]).scale(ways))
        found.append(reduce(add, parts))
    return tuple(found)
