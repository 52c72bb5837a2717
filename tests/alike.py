"""Two noisy sums of a shuffle whose other records are all alike: the exact curve, by one quadrature."""

import math
from fractions import Fraction
from itertools import pairwise

from scipy.integrate import quad
from scipy.special import ndtr


def delta_of_alike(epsilon: float, *, noise: float, first: Fraction, second: Fraction) -> float:
    """H of P, where a record moves the first sum by 2, or the second, with these chances, and Q, where not.

    Given the first output y, dP/dQ = A + second V with V = exp((2 z - 2) / noise^2), z the second output, so
    that z must exceed a place of its own.
    """
    t, square = math.exp(epsilon), noise * noise
    stays, moves, other = float(1 - first - second), float(first), float(second)

    def at(y: float) -> float:
        missing = t - stays - moves * math.exp((2 * y - 2) / square)
        normal = math.exp(-y * y / (2 * square)) / (noise * math.sqrt(2 * math.pi))
        if missing <= 0:
            return normal * (other - missing)
        place = square / 2 * math.log(missing / other) + 1
        return normal * float(other * ndtr((2 - place) / noise) - missing * ndtr(-place / noise))

    breaks = 1 + square / 2 * math.log((t - stays) / moves)  # from there on every second output counts
    low, high = -12 * noise, 2 + 12 * noise
    ends = (low, min(max(breaks, low), high), high)
    return sum(quad(at, a, b, epsabs=0, epsrel=1e-12, limit=400)[0] for a, b in pairwise(ends))
