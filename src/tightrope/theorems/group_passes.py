"""Groups whose records each take one batch of a pass: split into passes that one shared batch takes part in.

In the order in which they are drawn, a record joins a batch that holds earlier ones, or takes a batch of its
own. The batches that were taken first come to lie in disjoint blocks of all batches, which may be told. How
many records join each is bounded by independent draws (proofs/group_passes.md).
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from tightrope.pairs.allocation import MOST_SEPARATION, Allocation
from tightrope.pairs.counted import CountedPair, CountMixture, binomial_counts
from tightrope.pairs.group_pass import GroupPass, SharedBatch
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.theorems.evidence import PROVED, Evidence
from tightrope.theorems.table import StepBounds, Steps

MOST_KINDS = 4  # of blocks: neighbours are bounded by the same draws
LEAST_WEIGHT = Fraction(1, 10**24)  # of numbers of records that are followed
MOST_REACH = Fraction(8)  # noise scales that the largest of those moves a sum by, unless it is one record

SHARED_BLOCKS = Evidence(
    "group_shares_blocks",
    "Records of a group that each take one batch of a pass lose no more than passes of blocks of its "
    "batches, one for each record: a batch of block i holds record i and as many later ones as independent "
    "draws say.",
    PROVED,
    "proof note",
    "proofs/group_passes.md",
)
ALL_IN_ONE = Evidence(
    "group_all_in_one_batch",
    "Records of a group that each take one batch of a pass lose no more than one batch that all of them are "
    "in; of a pass that was only begun, than one batch that each of them joins with probability r / T.",
    PROVED,
    "proof note",
    "proofs/group_passes.md",
)


def bound_group_passes(one: GroupPass, times: int) -> StepBounds:
    """So many steps: whole passes, and the first batches of one more."""
    whole, rest = divmod(times, one.batches)
    begun = replace(one, released=rest)
    revealed: Steps = ((_reveal(one), whole), *_reveal_part(begun))
    reached: Steps = ((one, whole), (begun, 1))
    if one.batches < one.group or one.exact_shift > MOST_SEPARATION:
        return StepBounds(revealed, revealed, reached)
    parts = [(pair, number * whole) for pair, number in _split(one)]
    above = (*parts, *(_reveal_part(begun) if rest < one.group else _split(begun)))
    return StepBounds(above, revealed, reached)


def why_shared(one: GroupPass, times: int) -> tuple[Evidence, ...]:
    """On what the bound of so many steps rests where blocks are told and batches are not."""
    whole, rest = divmod(times, one.batches)
    is_split, is_short = whole or rest >= one.group, 0 < rest < one.group
    return (SHARED_BLOCKS,) * bool(is_split) + (ALL_IN_ONE,) * is_short


def _reveal(one: GroupPass) -> Pair:
    pair = ShiftPair.of_normals(one.furthest)
    return pair.reverse if one.is_reversed else pair


def _reveal_part(one: GroupPass) -> Steps:
    """The first batches of a pass as one that each record joins as often as it is in some of them."""
    if not one.released:
        return ()
    law = CountMixture(binomial_counts(one.group, Fraction(one.released, one.batches)), one.exact_shift)
    pair = CountedPair(law)
    return ((pair.reverse if one.is_reversed else pair, 1),)


def _split(one: GroupPass) -> Iterator[tuple[Pair, int]]:
    """Passes of one block each, and how many are alike."""
    if not one.released:
        return
    short, longer = divmod(one.released, one.group)
    first = 0
    for last in sorted({*_ends_of_kinds(one.group), longer} - {0}):
        size = short + (first < longer)
        # a block in which a record is at least as often as it is in one of those seen
        batches = size * one.batches // one.released
        # nobody joins the last record's batch
        chance = Fraction(1, one.batches - min(last, one.group - 1) + 1)
        step = _shared_batch(one, joining=one.group - 1 - first, chance=chance)
        pair = Allocation(step, batches, size)
        yield (pair.reverse if one.is_reversed else pair), last - first
        first = last


def _ends_of_kinds(group: int) -> set[int]:
    kinds = min(group, MOST_KINDS)
    return {group * i // kinds for i in range(1, kinds + 1)}


def _shared_batch(one: GroupPass, *, joining: int, chance: Fraction) -> Pair:
    """The batch of a record that so many later ones join, each with this chance."""
    if not joining:
        return ShiftPair.of_normals(one.exact_shift)
    weights = binomial_counts(joining, chance)
    followed = [
        j
        for j, weight in enumerate(weights)
        if weight >= LEAST_WEIGHT and (not j or (j + 1) * one.exact_shift <= MOST_REACH)
    ]
    return SharedBatch(weights[: followed[-1] + 1], one.exact_shift)
