"""Where a question was solved, and what that says about questions that are close."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from tightrope.engines.face import BoundsOfMany, EngineDeclines, LocalBounds
from tightrope.numerics.floats import Floats
from tightrope.pairs.schedule import COUNT_BITS, FEW, FEW_BITS, Schedule

Recount = Callable[[Schedule], LocalBounds]
Real = TypeVar("Real", float, Floats)

MOST_FOLLOWED = 4  # kinds of steps: with more, counts are not rounded
PLACES_APART = 6.0, 2.0  # in ln delta: far apart where bounds serve so many, or else close by
MANY_LOOKS, FEW_LOOKS = 9, 4  # at epsilons around a place, where many are told at once and where not
AROUND = 0.6  # of what is between places: how far to look
LEAST_LOOKED, MOST_LOOKED = 0.25, 2.0  # times epsilon
NEWTON_STEPS, FARTHEST = 3, 1.5  # from the middle, over the radius


def round_delta(delta: float, apart: float) -> float:
    """To the nearest power of e^apart, so that close deltas share a place."""
    return math.exp(min(apart * round(math.log(delta) / apart), -1))


@lru_cache(maxsize=2)
def _chebyshev(count: int) -> tuple[Floats, Floats]:
    """Where to look in [-1, 1], and what makes the coefficients of a polynomial of what is seen there."""
    nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    return nodes, np.linalg.inv(np.vander(nodes, increasing=True))


@dataclass(frozen=True)
class Outlook:
    """Which epsilons are looked at around a place: [middle - radius, middle + radius]."""

    middle: float
    radius: float
    looks: int

    @classmethod
    def around(cls, local: LocalBounds, epsilon: float, slope: float, apart: float) -> "Outlook":
        """As far as the nearest place is halfway to others, about, and a little further."""
        far = AROUND * apart / -slope
        low, high = max(epsilon - far, LEAST_LOOKED * epsilon), min(epsilon + far, MOST_LOOKED * epsilon)
        looks = MANY_LOOKS if isinstance(local, BoundsOfMany) else FEW_LOOKS
        return cls((low + high) / 2, (high - low) / 2, looks)

    def fit(self, local: LocalBounds) -> Floats:
        """The coefficients of ln delta, its upper end, as a polynomial on [-1, 1]."""
        nodes, to_coefficients = _chebyshev(self.looks)
        epsilons = self.middle + self.radius * nodes
        if isinstance(local, BoundsOfMany):
            _, logs = local.bound_all(epsilons)
        else:
            logs = np.array([local.bounds(epsilon).upper for epsilon in epsilons.tolist()])
        coefficients: Floats = to_coefficients @ logs
        return coefficients


@dataclass(frozen=True)
class Place:
    """Where a schedule was solved, and how to bound others of the same pairs from there.

    `shape` are the coefficients of ln delta around it, of its upper end, about; `gains` how they change with
    the count of each step: so much times one more, and so much times its square.
    """

    schedule: Schedule
    outlook: Outlook
    shape: list[float]
    gains: list[tuple[list[float], list[float]]]
    local: LocalBounds
    recount: Recount

    @classmethod
    def of(cls, schedule: Schedule, outlook: Outlook, local: LocalBounds, recount: Recount) -> "Place":
        """With how the curve changes with the count of each step, as far as rounding may move it."""
        shape = outlook.fit(local)
        counts = [times for _, times in schedule]
        gains = []

        def look(index: int, more: int) -> Floats:
            others = schedule.recount([*counts[:index], counts[index] + more, *counts[index + 1 :]])
            change: Floats = outlook.fit(recount(others)) - shape
            return change

        for index, times in enumerate(counts):
            first = second = np.zeros_like(shape)
            reach = times >> (FEW_BITS if times < FEW else COUNT_BITS)
            if reach and len(counts) <= MOST_FOLLOWED:
                fewer = look(index, -reach)
                first = -fewer / reach
                if isinstance(local, BoundsOfMany):  # which is quick
                    more = look(index, reach)
                    first, second = (more - fewer) / (2 * reach), (more + fewer) / (2 * reach**2)
            gains.append((first.tolist(), second.tolist()))
        if not np.isfinite([shape.tolist(), *(each for gain in gains for each in gain)]).all():
            raise EngineDeclines("nothing is certain around this place")
        return cls(schedule, outlook, shape.tolist(), gains, local, recount)

    def guess(self, schedule: Schedule, log_delta: Real) -> tuple[Real, Real]:
        """About the epsilon of the same steps with other counts, and the slope of ln delta there."""
        shape = self.shape
        for (_, now), (_, then), gain in zip(schedule, self.schedule, self.gains, strict=True):
            if more := now - then:
                shape = [a + more * (b + more * c) for a, b, c in zip(shape, *gain, strict=True)]
        x = (log_delta - shape[0]) / shape[1]
        for _ in range(NEWTON_STEPS):
            x = _keep_close(x)
            value, slope = _evaluate(shape, x)
            x = x - (value - log_delta) / slope
        _, slope = _evaluate(shape, x)
        return self.outlook.middle + self.outlook.radius * x, slope / self.outlook.radius


def _evaluate(coefficients: list[float], x: Real) -> tuple[Real, Real]:
    """A polynomial and its derivative."""
    value, slope = coefficients[-1] + 0 * x, 0 * x
    for coefficient in coefficients[-2::-1]:
        slope = slope * x + value
        value = value * x + coefficient
    return value, slope


def _keep_close(x: Real) -> Real:
    """Within half as much again as was looked at: further out, a polynomial says nothing."""
    if isinstance(x, float):
        return min(max(x, -FARTHEST), FARTHEST)
    return np.minimum(np.maximum(x, -FARTHEST), FARTHEST)
