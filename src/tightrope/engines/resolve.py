"""Schedules with passes of random allocation, which are known only between finite pairs."""

from tightrope.engines.face import Side
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule


def has_passes(schedule: Schedule) -> bool:
    """Whether its curve is known only between two."""
    return any(isinstance(pair, Allocation) for pair, _ in schedule)


def resolve(schedule: Schedule, side: Side) -> Schedule:
    """The schedule with every pass as a finite pair on this side of it."""
    if not has_passes(schedule):
        return schedule
    return Schedule((_resolve(pair, times, side), times) for pair, times in schedule)


def _resolve(pair: Pair, times: int, side: Side) -> Pair:
    if not isinstance(pair, Allocation):
        return pair
    from tightrope.engines.passes.one_pass import bound_passes  # it loads flint: only passes need it

    return bound_passes(pair, times, side)
