"""Schedules with passes or shuffled epochs, which are known only between finite pairs."""

from tightrope.engines.face import ABOVE, BELOW, Side
from tightrope.engines.passes.mesh import USUAL, Mesh
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.group_pass import GroupPass
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shuffled_epoch import ShuffledEpoch


def has_passes(schedule: Schedule) -> bool:
    """Whether its curve is known only between two."""
    return schedule.has_passes


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
    if not has_passes(schedule):
        return schedule
    return Schedule((_resolve_pair(pair, side, mesh), times) for pair, times in schedule)


def _resolve_pair(pair: Pair, side: Side, mesh: Mesh) -> Pair:
    # passes load flint: only they need it
    if isinstance(pair, Allocation):
        from tightrope.engines.passes.one_pass import bound_pass

        return bound_pass(pair, side, mesh)
    if isinstance(pair, GroupPass):
        from tightrope.engines.passes.group_labels import reach_group

        assert side is BELOW  # from above it is split
        return reach_group(pair)
    if isinstance(pair, ShuffledEpoch):
        from tightrope.engines.shuffles.epoch_pair import bound_epoch

        assert side is ABOVE  # what it reaches is an allocation
        return bound_epoch(pair)
    return pair
