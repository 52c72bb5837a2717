"""Schedules with passes of random allocation, which are known only between finite pairs."""

from tightrope.engines.face import Side
from tightrope.engines.passes.mesh import USUAL, Mesh
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.schedule import Schedule


def has_passes(schedule: Schedule) -> bool:
    """Whether its curve is known only between two."""
    return any(isinstance(pair, Allocation) for pair, _ in schedule)


def find_single_exchange(schedule: Schedule) -> Allocation | None:
    """The pass with an exchanged record that is all of the schedule, whose curve can be told directly."""
    if schedule.steps != 1:
        return None
    ((pair, _),) = schedule
    return pair if isinstance(pair, Allocation) and pair.is_exchanged else None


def resolve(schedule: Schedule, side: Side, mesh: Mesh = USUAL) -> Schedule:
    """The schedule with every pass as a finite pair on this side of it, which depends on nothing else."""
    if not has_passes(schedule):
        return schedule
    from tightrope.engines.passes.one_pass import bound_pass  # it loads flint: only passes need it

    return Schedule(
        (bound_pass(pair, side, mesh) if isinstance(pair, Allocation) else pair, times)
        for pair, times in schedule
    )
