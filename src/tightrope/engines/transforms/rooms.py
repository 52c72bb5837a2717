"""Room for the rounding of bounds that are not sharp: many times what it can be, at no cost.

A charge, or a bound on what a quadrature misses, is itself computed in floats. It is a sum of positive terms,
so its relative error is that of its terms and of adding them.
"""

import math
from typing import overload

import numpy as np

from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, log_sum

# Adding 2^20 positive terms, however it is done, and 2^10 operations on each are off by less than 2^-32.
LOG_ROOM = 2.0**-30
ROOM = 2.0**-20  # where shares of mixtures are factors: `share_rel_error` keeps their errors below 2^-26


@overload
def exp_or_inf(x: float) -> float: ...
@overload
def exp_or_inf(x: Floats) -> Floats: ...
def exp_or_inf(x: Floats | float) -> Floats | float:
    """e^x, infinite where it overflows: a bound that is infinite bounds nothing."""
    if isinstance(x, float):
        try:
            return math.exp(x)
        except OverflowError:
            return math.inf
    with np.errstate(over="ignore"):
        return np.exp(x)


def log_bound_of_sum(terms: Floats) -> float:
    """ln of the sum of up to 2^20 terms e^x, from above, for exact x.

    x less the largest, which is rounded once, is above -750 wherever it counts.
    """
    total = log_sum(terms)
    return total + LOG_ROOM + 4 * UNIT_ROUNDOFF * abs(total) if total > -math.inf else total


def log_bound_room(share_error: float, size: float) -> float:
    """Room in ln of a bound made of terms whose sizes sum to `size`, each good to 64 times `share_error`."""
    return 64 * share_error * size + LOG_ROOM
