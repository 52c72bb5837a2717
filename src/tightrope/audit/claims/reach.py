"""What real neighbours reach if batches are shuffled: lower ends, and the theorem that each rests on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tightrope.accountants.certified import BY_DEFAULT
from tightrope.audit.claims.drawn import DrawnClaim
from tightrope.engines.choose import compose, compose_side
from tightrope.engines.face import BELOW
from tightrope.engines.resolve import resolve
from tightrope.errors import NotPreciseEnough
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.setting.relation import ADD, REMOVE, SUBSTITUTE, Relation
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.other_batchings import (
    ALLOCATION_AT_HALF_NOISE,
    LARGEST_SUM,
    AllocatedExchange,
    LargestSum,
)


@dataclass(frozen=True)
class ReachedEpsilon:
    """A lower end, and what it rests on; 0 and nothing where no neighbours are known."""

    epsilon: float = 0.0
    because: tuple[Evidence, ...] = ()


def reach_shuffle(claim: DrawnClaim) -> ReachedEpsilon:
    """The larger of what the largest sum of each epoch tells and, under SUBSTITUTE, all batches of it."""
    full = _count_full_batches(claim)
    if not full:
        return ReachedEpsilon()
    largest = reach_by_largest_sum(claim, _largest_of(claim, full))
    if claim.relation is not SUBSTITUTE:
        return largest
    allocated = _reach_by_every_batch(claim, _allocate(claim, full), largest.epsilon)
    return max(largest, allocated, key=lambda reached: reached.epsilon)


def reach_by_largest_sum(claim: DrawnClaim, witness: LargestSum) -> ReachedEpsilon:
    """The epsilon that the largest sum reaches, from either side where the relation allows both."""
    sides = (ADD, REMOVE) if claim.relation is SUBSTITUTE else claim.relation.branches
    lower = bound_below(witness, delta=claim.delta, directions=sides)
    return ReachedEpsilon(lower, (LARGEST_SUM,) * bool(lower))


def bound_below(witness: LargestSum, *, delta: float, directions: Sequence[Relation]) -> float:
    """The epsilon that a witness reaches in one of these directions: a lower bound."""
    reached = [0.0]
    for direction in directions if witness.epochs and witness.batches else ():
        rounded = witness.rounded(direction)
        if not (wanted := rounded.delta_above(delta)) < 1:
            continue
        try:
            lower = BY_DEFAULT.curve(rounded.run, direction).epsilon(wanted).lower
        except NotPreciseEnough:
            continue  # then less is known; what is said stays true
        reached.append(rounded.epsilon_below(lower) if math.isfinite(lower) else 0.0)
    return max(reached)


def _reach_by_every_batch(
    claim: DrawnClaim, witnesses: Sequence[AllocatedExchange], known: float
) -> ReachedEpsilon:
    """The epsilon that all batches reach, unless it cannot be larger than what is known.

    If it were told which batches hold the record, they would tell no less: that takes milliseconds, and
    batches that are not told take seconds.
    """
    delta, accuracy = claim.delta, claim.by.accuracy
    told = Schedule((witness.visit, witness.epochs) for witness in witnesses)
    try:
        if known >= compose(told).epsilon_bounds(delta, accuracy)[1] * (1 - accuracy / 10):
            return ReachedEpsilon()
        reached = Schedule((_reach_epoch(witness), witness.epochs) for witness in witnesses)
        lower, _ = compose_side(reached, BELOW, accuracy).epsilon_bounds(delta, accuracy)
    except NotPreciseEnough:
        return ReachedEpsilon()  # then less is known; what is said stays true
    return ReachedEpsilon(lower, (ALLOCATION_AT_HALF_NOISE,) * bool(lower))


def _reach_epoch(witness: AllocatedExchange) -> Pair:
    """A pair that the outputs of one epoch reach: the pass itself, if the record is surely in it."""
    if witness.weight == 1:
        return witness.one_pass
    ((below, _),) = resolve(Schedule(((witness.one_pass, 1),)), BELOW)
    return witness.dilute(below)


def _count_full_batches(claim: DrawnClaim) -> int:
    """How many batches at the start of an epoch are full on both sides; 0 if that is not known."""
    finding = claim.finding
    records, batch, epoch, full = finding.records, finding.batch, finding.epoch, finding.full
    if not (records and batch and epoch and full and claim.largest_noise) or finding.times != 1:
        return 0
    if full * batch > records or full > epoch:
        return 0  # no dataset has these numbers, which can only have been declared
    # without the record the first batches are still full, but perhaps not the last of them
    missing = 0 if claim.relation is SUBSTITUTE else claim.copies
    return min(full, max(records - missing, 0) // batch)


def _largest_of(claim: DrawnClaim, full: int) -> LargestSum:
    """The largest sum of the full batches of each whole epoch, or of the part that there is of one."""
    seen, epochs = full, claim.whole_epochs
    if not epochs and claim.rest:
        seen, epochs = min(full, claim.rest), 1
    weight, noise = _weigh(claim, seen), claim.largest_noise
    return LargestSum(epochs=epochs, batches=seen, weight=weight, with_record=2.0, without=0.0, noise=noise)


def _allocate(claim: DrawnClaim, full: int) -> list[AllocatedExchange]:
    """All full batches of each whole epoch, and of the part that there is of one more."""
    parts = [(full, claim.whole_epochs), (min(full, claim.rest), 1)]
    return [
        AllocatedExchange(epochs=epochs, batches=seen, weight=_weigh(claim, seen), noise=claim.largest_noise)
        for seen, epochs in parts
        if seen and epochs
    ]


def _weigh(claim: DrawnClaim, seen: int) -> Fraction:
    """How likely the record is in one of so many full batches."""
    assert claim.finding.batch is not None
    return Fraction(seen * claim.finding.batch, claim.finding.records)
