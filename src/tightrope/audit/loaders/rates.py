"""The probability that a random float lies below a rate, exactly: torch draws floats from a grid."""

import math
import sys

import numpy as np

from tightrope.numerics import check


def float32_rate(rate: float) -> float:
    """The exact probability that `torch.rand(...) < rate` holds when torch draws float32 numbers.

    They are the multiples of 2^-24 below 1, all equally likely, and torch rounds `rate` to the nearest
    float32 r before it compares: ceil(r 2^24) of the 2^24 numbers lie below r.

    >>> float32_rate(0.25)
    0.25
    >>> float32_rate(1e-3)
    0.001000046730041504
    >>> float32_rate(1e-7) / 1e-7
    1.19...
    """
    rounded = float(np.float32(check.probability(rate=rate)))
    return math.ceil(rounded * 2.0**24) / 2**24


def float64_rate(rate: float) -> float:
    """The same when torch draws float64 numbers: multiples of 2^-53, compared without rounding.

    >>> float64_rate(1e-3)
    0.0010000000000000009
    """
    return math.ceil(check.probability(rate=rate) * 2.0**53) / 2**53


def rate_torch_runs(rate: float) -> float | None:
    """The exact probability of `torch.rand(...) < rate` under torch's defaults; None on an unknown grid."""
    torch = sys.modules["torch"]
    if torch.get_default_device().type != "cpu":  # other devices have other grids
        return None
    exact = {torch.float32: float32_rate, torch.float64: float64_rate}.get(torch.get_default_dtype())
    return exact(rate) if exact else None
