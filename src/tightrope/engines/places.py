"""Where a question was solved, and what that says about questions that are close."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tightrope.engines.face import LocalBounds
from tightrope.numerics.floats import Floats
from tightrope.pairs.schedule import COUNT_BITS, FEW_BITS, Schedule

Recount = Callable[[Schedule], LocalBounds]
Real = TypeVar("Real", float, Floats)

MOST_FOLLOWED = 4  # kinds of steps: with more, counts are not rounded
LOOK_AROUND = 0.01  # how far to look for derivatives, relative to epsilon


@dataclass(frozen=True)
class LocalShape:
    """ln delta near an epsilon, with its first two derivatives there, about; or how they change."""

    level: float
    slope: float
    bend: float

    def less(self, other: "LocalShape", over: int) -> "LocalShape":
        """The difference of two, divided by a number."""
        level, slope, bend = self.level - other.level, self.slope - other.slope, self.bend - other.bend
        return LocalShape(level / over, slope / over, bend / over)


def round_delta(delta: float) -> float:
    """To the nearest even power of e, so that close deltas share a place."""
    return math.exp(min(2 * round(math.log(delta) / 2), -1))


def look_around(local: LocalBounds, epsilon: float) -> LocalShape:
    """The shape of the upper end there."""
    step = LOOK_AROUND * epsilon
    below, here, above = (local.bounds(epsilon + move).upper for move in (-step, 0.0, step))
    return LocalShape(here, (above - below) / (2 * step), ((above - here) - (here - below)) / step**2)


@dataclass(frozen=True)
class Place:
    """Where a schedule was solved for epsilon, and how to bound others of the same pairs from there."""

    schedule: Schedule
    epsilon: float
    shape: LocalShape
    gains: list[LocalShape]  # by one more of each step, about
    local: LocalBounds
    recount: Recount

    @classmethod
    def of(cls, schedule: Schedule, epsilon: float, local: LocalBounds, recount: Recount) -> "Place":
        """With how the curve changes by one more of each step that rounding may leave out."""
        shape = look_around(local, epsilon)
        counts = [times for _, times in schedule]
        gains = [LocalShape(0.0, 0.0, 0.0)] * len(counts)
        for index, times in enumerate(counts if len(counts) <= MOST_FOLLOWED else ()):
            fewer = times - max(times >> COUNT_BITS + 2, 1)  # it stands for twice as many on either side
            if times >> FEW_BITS:
                others = schedule.recount([*counts[:index], fewer, *counts[index + 1 :]])
                gains[index] = shape.less(look_around(recount(others), epsilon), times - fewer)
        return cls(schedule, epsilon, shape, gains, local, recount)

    def guess(self, schedule: Schedule, log_delta: Real) -> tuple[Real, Real]:
        """About the epsilon of the same steps with other counts, and the slope of ln delta there."""
        level, slope, bend = self.shape.level - log_delta, self.shape.slope, self.shape.bend
        for (_, now), (_, then), gain in zip(schedule, self.schedule, self.gains, strict=True):
            level += (now - then) * gain.level
            slope += (now - then) * gain.slope
            bend += (now - then) * gain.bend
        moved = -level / slope
        for _ in range(3):  # towards the root of a quadratic
            moved -= (level + moved * (slope + moved * bend / 2)) / (slope + moved * bend)
        return self.epsilon + moved, slope + moved * bend
