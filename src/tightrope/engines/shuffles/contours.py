"""Contours: transforms of the laws of all levels along a line, on which many sums of differences are told.

The sum over the nodes of a contour is that of a wrapped lattice, and every wrapped term is positive: it is
never below the exact value. So only rounding is charged, and the nodes that are left out.
theorems/proofs/shuffles.md, Computing.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma
from tightrope.numerics.fourier import fast_size, fft_rel_error
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR

Complexes = NDArray[np.complex128]
Law = tuple[NDArray[np.int64], Floats]
Laws = list[Law]

EXACT, ROUGHLY = 32.0, 16.0  # what is left out has about e^-32, or e^-16, of a sum; it is charged
WRAPPED = 13.0  # further, in units of 1 / tilt, lie those that are counted too
BESIDE = 3.0  # of the furthest single atom, of which a few together are tilted most
LONGEST, LONGEST_ROUGH = 1 << 21, 1 << 18  # transforms, alone and where many are made
LARGEST_EXPONENT = 500.0  # of a tilted mass and of a common factor
MOST_REL_ERROR = 1e-3  # of a term that is kept
# 2^-40 is 8,192 units, more than gamma(8000): what 8,000 roundings in a row can do. It stands for chains of
# sums and products of numbers that are not negative, of which none here has more than 200.
ROUNDED_UP = 1 + 2.0**-40
LESS = 1 - 2.0**-20  # of a ratio, where it is compared before it is rounded up: far more than ROUNDED_UP
MOST_OFFSET = 1 << 24  # in steps of the lattice: products with a frequency are rounded
# A frequency is at most pi and off by 2.4 units, its product with an offset and the sum of an exponent by one
# each, relative to themselves: 4.4 pi < 16.
OFFSET_REL_ERROR = 16 * UNIT_ROUNDOFF * MOST_OFFSET
FROM_LOG = 1.01  # e^x - 1 is at most so many times x for x <= 0.019, and errors are below that
# Of a payoff times an exponential, in units: 5 for the rounding of a node. 28 for a part of sinh(z/2): 20 for
# the real sinh or cosh (8 of expm1, which the quotient e^x - 1 over e^x has twice, and 4 roundings), 8 for a
# sine or cosine. Its square has twice that and 3, the quotient 10 more, the division by the size 1. Its
# modulus has 8, its angle, which is at most pi, 8 as well, and 2 where each summand takes its share of it.
# The exponential and the cosine have 8 each, their products 2. That is 5 + 59 + 11 + 8 + 10 pi + 18 < 133.
PAYOFF_REL_ERROR = 144 * UNIT_ROUNDOFF
# Of a sum of multiples of logarithms, in units, for each unit of count * (|log| + 1): 8 for a modulus, 8 for
# its logarithm and the angle, 1 for a share of the payoff's angle, 12 for products and sums over at most five
# levels.
LOGS_REL_ERROR = 32 * UNIT_ROUNDOFF
# Of the exponent of the common factor, likewise: 8 for a logarithm, 6 for multiples and their sum over at
# most five levels, one for an offset times the tilt, one for the last sum; and 8 for the exponential.
SCALE_REL_ERROR = 32 * UNIT_ROUNDOFF
# Transforms at the tilt itself are larger: then masses e^-500 times the largest, of which neither rounding
# nor underflow is charged, have less than e^-260 of it.
LEAST_TOP = 1e-100


@dataclass(frozen=True)
class Contour:
    """Transforms of all levels at the nodes of one tilt that count.

    `tops` are ln of the transforms at the tilt itself, `logs` those at the nodes relative to them, `decays`
    their real parts, and `slowest` the largest of these. `weights` are the sizes of the payoff's factors; of
    a factor's angle every summand has its share, and `angles` are those of logarithms with that. `rel_errors`
    of terms; `left_out` is what all other nodes can have, and `scale_rel_error` how far the common factor can
    be off, all for `count` summands.
    """

    tilt: float
    tops: Floats
    logs: Complexes
    decays: Floats
    slowest: Floats
    angles: Floats
    frequencies: Floats
    weights: Floats
    log_weights: Floats
    rel_errors: Floats
    left_out: float
    scale_rel_error: float


@dataclass(frozen=True)
class ContourPlan:
    """The contour of one tilt before it is made: laws with tilted masses, and what all of them have."""

    tilt: float
    size: int
    tilted: Laws
    tops: Floats
    rel_error: float  # of ratios


def plan_contour(laws: Laws, tilt: float, count: int, precision: float) -> ContourPlan | None:
    """None where it would be too long, or roundings too large."""
    furthest = max(int(places[-1]) for places, _ in laws)
    least = max((precision + WRAPPED) / tilt + 64, BESIDE * furthest)
    if least > (LONGEST if precision == EXACT else LONGEST_ROUGH):
        return None  # and another tilt will do
    size = fast_size(math.ceil(least))
    tilted = [(places, masses * np.exp(tilt * places)) for places, masses in laws]
    tops = np.array([float(masses.sum()) for _, masses in tilted])
    # A tilted mass is off by its exponent's rounding, the exponential's and that of their product, sums by
    # their roundings. So are the transform and the top by which it is divided.
    longest = max(len(places) for places, _ in laws)
    masses_rel_error = UNIT_ROUNDOFF * (LARGEST_EXPONENT + 8) + ELEMENTARY_REL_ERROR + 2 * gamma(longest)
    rel_error = fft_rel_error(size) + 2 * masses_rel_error
    if float(tops.min()) < LEAST_TOP or count * rel_error > MOST_REL_ERROR:
        return None
    return ContourPlan(tilt=tilt, size=size, tilted=tilted, tops=tops, rel_error=rel_error)


def transform(plan: ContourPlan, count: int, precision: float) -> Contour:
    """The contour at the nodes that count."""
    size, tilt, tops, rel_error = plan.size, plan.tilt, plan.tops, plan.rel_error
    # No payoff is more than twice the first one, so that no node further down is kept. Those of all nodes
    # together are coth(size tilt / 2) / (2 sinh(tilt)).
    depth = precision + 1
    left_out = math.exp(-depth) / (2 * math.sinh(tilt) * math.tanh(size * tilt / 2))
    # a real transform has e^{-iwk}; the contour has e^{+iwk}
    ratio = fft.rfft(_wrap(plan))
    near = _find_near(ratio, math.exp(-depth / count) - 2 * rel_error)
    ratio = np.conj(ratio[:, near])
    squares = ratio.real**2 + ratio.imag**2
    largest = np.sqrt(squares.max(axis=0)) * ROUNDED_UP + rel_error
    frequencies = 2 * math.pi / size * near
    # every node but the first and, if even, the last has a twin
    twins = np.where((near == 0) | (2 * near == size), 1.0, 2.0)
    # |4 sinh(z/2)^2| for z = tilt + i frequency
    payoffs = twins / (4 * (math.sinh(tilt / 2) ** 2 + np.sin(frequencies / 2) ** 2)) / size
    log_powers = count * np.log(largest)
    term_rel_errors = FROM_LOG * count * rel_error / np.sqrt(np.maximum(squares.min(axis=0), 1e-300))
    kept = log_powers + np.log(payoffs) > math.log(payoffs[0]) - precision
    kept &= term_rel_errors < MOST_REL_ERROR
    kept[0] = True
    left_out += float(payoffs[~kept] @ np.exp(np.minimum(log_powers[~kept], 0.0)))
    logs, frequencies = np.log(ratio[:, kept]), frequencies[kept]
    exponents = count * (np.abs(logs).max(axis=0) + 1)
    rel_errors = FROM_LOG * (term_rel_errors[kept] + LOGS_REL_ERROR * exponents + OFFSET_REL_ERROR)
    rel_errors += PAYOFF_REL_ERROR + 2 * gamma(int(kept.sum()) + 8)
    log_tops = np.log(tops)
    largest_exponent = count * (float(np.abs(log_tops).max()) + 1) + MOST_OFFSET * tilt + 8
    scale_rel_error = math.expm1(FROM_LOG * count * rel_error + SCALE_REL_ERROR * largest_exponent)
    # sum_{r >= 1} r e^{-zr} = 1 / (4 sinh(z/2)^2)
    weights = twins[kept] * 0.25 / half_sinh(tilt, frequencies) ** 2 / size
    return Contour(
        tilt=tilt,
        tops=log_tops,
        logs=logs,
        decays=logs.real.copy(),
        slowest=logs.real.max(axis=0),
        angles=logs.imag + np.angle(weights) / count,
        frequencies=frequencies,
        weights=np.abs(weights),
        log_weights=np.log(np.abs(weights)),
        rel_errors=rel_errors,
        left_out=FROM_LOG * left_out,
        scale_rel_error=scale_rel_error,
    )


def _wrap(plan: ContourPlan) -> Floats:
    """Tilted masses of every level, relative to all that it has. One by one: memory is what takes long."""
    found = np.empty((len(plan.tilted), plan.size))
    for row, (places, masses), top in zip(found, plan.tilted, plan.tops, strict=True):
        row[:] = np.bincount(places % plan.size, masses / top, plan.size)
    return found


def _find_near(ratios: Complexes, least: float) -> NDArray[np.intp]:
    """Nodes at which one is larger than that; at all others it is smaller by more than what roundings do."""
    is_near = np.zeros(ratios.shape[1], dtype=bool)
    for row in ratios:
        squares = np.square(row.real)
        squares += np.square(row.imag)
        is_near |= squares > (max(least, 0.0) * LESS) ** 2
    return np.flatnonzero(is_near)


def half_sinh(tilt: float, frequencies: Floats) -> Complexes:
    """sinh((tilt + i frequency) / 2); PAYOFF_REL_ERROR counts its roundings."""
    grown = math.expm1(tilt / 2)
    shrunk = grown / (1 + grown)  # 1 - e^(-tilt / 2)
    sinh, cosh = (grown + shrunk) / 2, 1 + (grown - shrunk) / 2
    return np.asarray(sinh * np.cos(frequencies / 2) + 1j * (cosh * np.sin(frequencies / 2)))
