"""An epoch of shuffled batches of any size: theorem 3 of theorems/proofs/shuffles.md.

The weights of displaced records may depend on each other in any way. Each is sent to one of a few levels, and
a linear bound in the counts of levels needs only how often each is taken.
"""

import math

import numpy as np

from tightrope.engines.shuffles.counts import CountsProblem
from tightrope.engines.shuffles.walks import ROUGH, Walks
from tightrope.engines.shuffles.weights import (
    find_cut,
    first_excess,
    spread_weight,
    weight_excess,
    weight_shortfall,
)
from tightrope.engines.shuffles.worst_difference import WorstDifference

ROUNDED_UP = 1 + 2.0**-40  # more than a few products and sums of floats
FINE = 0.3  # the step of the lattice, in deviations of one difference
LEAST_CUT = 1e-3  # how far the outer levels are from 1 at least: they must differ


def bound_any_batches(batches: int, worst: WorstDifference, levels: int, allowed: float) -> float:
    """An upper bound on H; each part that is cut off may cost about `allowed`."""
    others = batches - 1
    above, below = worst.positive_part, worst.negative_part
    first = find_cut(lambda beta: first_excess(worst, beta) <= allowed * batches)
    over = find_cut(lambda over: weight_excess(worst, 1 + over) * above <= allowed)
    under = find_cut(lambda under: weight_shortfall(worst, 1 / (1 + under)) * below <= allowed)
    highest, lowest = 1 + max(over, LEAST_CUT), 1 / (1 + max(under, LEAST_CUT))
    atoms = worst.spread(allowed)
    placed = np.geomspace(lowest, highest, levels)
    shares = spread_weight(worst, placed.tolist())
    spacing = FINE * worst.deviation
    walks = Walks(atoms, placed.tolist(), spacing=spacing, count=others, precision=ROUGH)
    growth = (float(worst.order - 1) + atoms.beyond) * ROUNDED_UP
    problem = CountsProblem(walks, math.ceil(first / spacing * ROUNDED_UP), growth)
    found = problem.bound(shares)
    cut = weight_excess(worst, highest) * above + weight_shortfall(worst, lowest) * below
    cut += atoms.beyond * float(shares @ placed)
    return (found + others * cut + first_excess(worst, first)) / batches * ROUNDED_UP
