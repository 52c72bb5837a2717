"""The weight that a displaced record has after the first output: a mean-one lognormal, cut and spread."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from flint import arb, ctx

from tightrope.engines.shuffles.worst_difference import CALL_BITS, WorstDifference, call, normal_above
from tightrope.numerics.balls import ball, ceil_float
from tightrope.numerics.floats import Floats

LOWEST_WEIGHT = 8.0  # deviations of the logarithm below its middle
FIRST_CUT, CUTS_GROW = 1e-9, 32.0  # where a search for a cut begins, and how fast it goes on
SPREAD = 1.05  # how closely a cut is found


def weight_excess(worst: WorstDifference, place: float) -> float:
    """E(a - place)_+, rounded up."""
    with ctx.workprec(CALL_BITS):
        return ceil_float(call(ball(worst.separation) / 2, ball(place)))


def weight_shortfall(worst: WorstDifference, place: float) -> float:
    """E(place - a)_+, rounded up."""
    with ctx.workprec(CALL_BITS):
        return ceil_float(ball(place) * call(ball(worst.separation) / 2, 1 / ball(place))) if place else 0.0


def first_excess(worst: WorstDifference, beta: float) -> float:
    """What the first step's own difference has above beta, rounded up: F of lemma 2."""
    with ctx.workprec(CALL_BITS):
        m, t, b = ball(worst.separation) / 2, ball(worst.order), ball(beta)
        w = b * (m * m / 2).exp()
        z = ((w + (w * w + 4 * t).sqrt()) / 2).log() / m
        return ceil_float(normal_above(z - m) - t * normal_above(z + m) - b * normal_above(z))


def find_cut(is_enough: Callable[[float], bool]) -> float:
    """About the smallest number that is enough; any would be true."""
    high = FIRST_CUT
    if is_enough(0.0):
        return 0.0
    while not is_enough(high):
        high *= CUTS_GROW
        if high > 1e9:
            raise ArithmeticError("nothing far out is small enough")
    low = high / CUTS_GROW
    while high > SPREAD * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def list_levels(worst: WorstDifference, highest: float, number: int) -> list[float]:
    """0, and geometrically from where next to no weight is smaller up to the highest."""
    lowest = math.exp(-LOWEST_WEIGHT * float(worst.separation) / 2)
    return [0.0, *np.geomspace(lowest, highest, number - 1).tolist()]


def spread_weight(worst: WorstDifference, levels: Sequence[float]) -> Floats:
    """How often the weight, clipped to the levels and sent to its neighbours, the mean kept, takes each."""
    with ctx.workprec(CALL_BITS):
        m = ball(worst.separation) / 2
        tails = []
        for level in levels:
            d = ball(level).log() / m + m / 2 if level else None
            tails.append((normal_above(d), normal_above(d - m)) if d is not None else (arb(1), arb(1)))
        found = [arb(0)] * len(levels)
        found[0] += 1 - tails[0][0]
        for i, ((low, mean_low), (high, mean_high)) in enumerate(pairwise(tails)):
            mass, mean = low - high, mean_low - mean_high
            up = (mean - mass * ball(levels[i])) / (ball(levels[i + 1]) - ball(levels[i]))
            found[i], found[i + 1] = found[i] + mass - up, found[i + 1] + up
        found[-1] += tails[-1][0]
        return np.array([max(ceil_float(share), 0.0) for share in found])
