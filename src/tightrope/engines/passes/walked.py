"""One pass in which a record is exchanged, from above, as a walk on one lattice: quick unless noise is small.

As in `exchanged`, H_t = E(sum D_i + unseen (1 - t))_+ / batches, D = X - t X'. D is cut at both ends and
spread between values, the mean kept; what is cut off on the right is charged.
"""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from flint import arb, ctx

from tightrope.engines.passes.exchanged import KEPT_VALUES, Difference
from tightrope.engines.shuffles.walks import MOST_WALKED_BATCHES, expect
from tightrope.engines.shuffles.worst_difference import CALL_BITS, Atoms
from tightrope.numerics.balls import ball, ceil_float
from tightrope.numerics.floats import UNIT_ROUNDOFF, ceil_fraction
from tightrope.pairs.allocation import Allocation

VALUES_APART = 1 / 48  # of the deviation of D: what is between two values, at least
VALUES_APART_FAR = 1 / 64  # the same of their distance from the mean
# A product with a count, a sum, a quotient and the product that raises it: each rounds once, 4 units in all.
QUOTIENT_REL_ERROR = 16 * UNIT_ROUNDOFF
LATTICE_STEP = 1 / 64  # of the lattice, in deviations of D
CUT_SHARE = 1e-4  # of the divergence, that what is cut off may cost
MOST_CUTS = 5  # how often that is tried
MOST_WALKED = Fraction(6, 5)  # normals from the middle: beyond, D spreads over too many points


@lru_cache(maxsize=KEPT_VALUES)
def walk_divergence(pair: Allocation, order: Fraction) -> float:
    """Not below H_order, order >= 1."""
    separation = pair.step.exact_gaussian_separation
    assert separation is not None
    difference = Difference(separation, order, weights=False)
    offset = ceil_fraction((pair.batches - pair.released) * (1 - order))
    found = 1.0
    for _ in range(MOST_CUTS):
        atoms = spread_difference(difference, CUT_SHARE * found)
        value = expect(atoms, (1.0,), (pair.released,), offset, step=LATTICE_STEP)
        beyond = pair.released * atoms.beyond
        found = min(found, (value + beyond) / pair.batches * (1 + QUOTIENT_REL_ERROR))
        if beyond <= 2 * CUT_SHARE * value:
            break
    return found


def can_walk(pair: Allocation) -> bool:
    """Whether one lattice holds the differences of a pass."""
    separation = pair.step.exact_gaussian_separation
    return separation is not None and separation <= MOST_WALKED and pair.released <= MOST_WALKED_BATCHES


def spread_difference(difference: Difference, allowed: float) -> Atoms:
    """D between values so far out that no more than `allowed` is cut off on either side."""
    with ctx.workprec(CALL_BITS):
        mean = float(1 - difference.order)
        scale = _deviation(difference)
        right = _places(difference, mean, scale, allowed, 1)
        left = _places(difference, mean, scale, allowed, -1)
        places = [*reversed(left[1:]), *right]
        tails = [difference.tails(ball(place))[0] for place in places]
        weights = [arb(0)] * len(places)
        weights[0] += 1 - tails[0][0]
        for i, ((low, mean_low), (high, mean_high)) in enumerate(pairwise(tails)):
            mass = low - high
            up = (mean_low - mean_high - mass * ball(places[i])) / (ball(places[i + 1]) - ball(places[i]))
            weights[i], weights[i + 1] = weights[i] + mass - up, weights[i + 1] + up
        weights[-1] += tails[-1][0]
        return Atoms(
            values=np.array(places),
            weights=np.array([ceil_float(weight) for weight in weights]),
            beyond=ceil_float(difference.excess(ball(places[-1]))),
            below=ceil_float(_shortfall(difference, places[0])),
        )


def _deviation(difference: Difference) -> float:
    a, t = float(difference.separation), float(difference.order)
    return math.sqrt((1 + t * t) * math.expm1(a * a) - 2 * t * math.expm1(-a * a))


def _shortfall(difference: Difference, place: float) -> arb:
    """E(place - D)_+ = E(D - place)_+ - E D + place."""
    return difference.excess(ball(place)) - (1 - ball(difference.order)) + ball(place)


def _places(difference: Difference, mean: float, scale: float, allowed: float, side: int) -> list[float]:
    """Values on one side of the mean, ever further apart."""
    places = [mean]
    while True:
        last = places[-1]
        rest = difference.excess(ball(last)) if side > 0 else _shortfall(difference, last)
        if len(places) > 1 and ceil_float(rest) <= allowed:
            return places
        places.append(last + side * max(VALUES_APART * scale, VALUES_APART_FAR * abs(last - mean)))
