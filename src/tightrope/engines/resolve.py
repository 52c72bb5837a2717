"""Schedules with passes or shuffled epochs, which are known only between finite pairs."""

from fractions import Fraction
from math import isqrt

from tightrope.engines.face import ABOVE, BELOW, Side
from tightrope.engines.passes.mesh import USUAL, Mesh
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.group_pass import GroupPass
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.pairs.shuffled_epoch import ShuffledEpoch

ROOT_SCALE = 1 << 80  # of how many parts of a numerator the square root of 2 is a whole number


def find_single_pass(schedule: Schedule) -> Allocation | ShuffledEpoch | None:
    """The pass with normal noise, or the epoch, that is all of the schedule: its curve is told directly."""
    if schedule.steps != 1:
        return None
    ((pair, _),) = schedule
    if isinstance(pair, Allocation) and (pair.chosen > 1 or pair.step.exact_gaussian_separation is None):
        return None
    return pair if isinstance(pair, Allocation | ShuffledEpoch) else None


def resolve(schedule: Schedule, side: Side, mesh: Mesh = USUAL) -> Schedule:
    """The schedule with every pass as a finite pair on this side of it, which depends on nothing else."""
    schedule = settle_two_batches(schedule, side)
    if not schedule.has_passes:
        return schedule
    return Schedule((_resolve_pair(pair, side, mesh), times) for pair, times in schedule)


def _resolve_pair(pair: Pair, side: Side, mesh: Mesh) -> Pair:
    # passes load flint: only they need it
    if isinstance(pair, Allocation):
        from tightrope.engines.passes.pass_pair import bound_pass  # loads flint

        return bound_pass(pair, side, mesh)
    if isinstance(pair, GroupPass):
        from tightrope.engines.passes.group_labels import reach_group  # loads flint

        assert side is BELOW  # from above it is split
        return reach_group(pair)
    if isinstance(pair, ShuffledEpoch):
        from tightrope.engines.shuffles.epoch_pair import bound_epoch  # loads flint

        assert side is ABOVE  # what it reaches is an allocation
        return bound_epoch(pair)
    return pair


def settle_two_batches(schedule: Schedule, side: Side) -> Schedule:
    """With passes of two batches in which a record is exchanged as what they are: releases of normal noise.

    With outputs (x, y) in noise scales, and d the distance that either record moves a sum, the ratio is
    (e^{dx} + e^{dy}) / (e^{-dx} + e^{-dy}) = e^{d (x + y)}, and x + y is normal with variance 2 and mean d or
    -d: two normals, sqrt(2) d apart. Only the root has a side. theorems/proofs/balls_in_bins.md, Two batches.
    """
    if not schedule.has_passes:
        return schedule
    return Schedule((_settle(pair, side), times) for pair, times in schedule)


def _settle(pair: Pair, side: Side) -> Pair:
    if not (isinstance(pair, Allocation) and pair.is_exchanged and pair.batches == pair.released == 2):
        return pair
    distance = pair.step.exact_gaussian_separation
    assert distance is not None  # only normal noise has a theorem for exchanged records
    root = isqrt(2 * (distance.numerator * ROOT_SCALE) ** 2)
    return ShiftPair.of_normals(Fraction(root + (side is ABOVE), distance.denominator * ROOT_SCALE))
