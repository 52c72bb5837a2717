"""Orders of a pass far out, for tests of the lines that tell them."""

import math
from fractions import Fraction

from scipy.special import log_ndtr

from tightrope.engines.lines.plan import PassOrder
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.shift_pair import ShiftPair


def order_of(noise: float, batches: int, epsilon: float, seen: int | None = None) -> PassOrder:
    step = ShiftPair.of_normals(1 / Fraction(str(noise)))
    return PassOrder(Allocation(step, batches, seen or batches, is_exchanged=True), epsilon)


def log_alone(of: PassOrder) -> float:
    """About ln of the curve, where one batch alone decides."""
    a = float(of.separation)
    return float(log_ndtr(a / 2 - (of.epsilon + math.log(of.allocation.batches)) / a))
