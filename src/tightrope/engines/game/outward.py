"""Exponentials, logarithms and cell masses that err to a stated side, or by a stated amount."""

import math

import numpy as np
from scipy import special

from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR, UNDERFLOW_ABS_ERROR, ndtr_rel_error
from tightrope.pairs.mixture import Mixture, Noise

DEEPEST = 38.6  # P(X < -38.6) is no float any more, X standard normal
LOG_LARGEST = 700.0  # a larger exponential is taken for infinite: floats end at e^709.7


def exp_above(exponents: Floats, abs_errors: Floats | float) -> Floats:
    """Above e^x for every x within `abs_errors` (at most 0.01) of the exponents, and so are four products.

    e^a <= 1 + 1.01 a; 16 u are numpy's exponential and up to eight roundings after it.
    """
    factors = 1 + (1.01 * abs_errors + (ELEMENTARY_REL_ERROR + 8 * UNIT_ROUNDOFF))
    return np.asarray(np.exp(exponents) * factors + UNDERFLOW_ABS_ERROR)


def exp_of_sum_above(*terms: float) -> float:
    """Above e^(sum of the terms), each right to 15 u relative; infinity where that is no float."""
    exponent = math.fsum(terms)
    exponent += 16 * UNIT_ROUNDOFF * math.fsum(abs(term) for term in terms)
    return math.exp(exponent) * (1 + 16 * UNIT_ROUNDOFF) if exponent < LOG_LARGEST else math.inf


def log_above(x: Floats) -> Floats:
    """Above ln x, x >= 0; of the smallest normal number where x is below it."""
    logs = np.log(np.maximum(x, UNDERFLOW_ABS_ERROR))
    return np.asarray(logs + 2 * ELEMENTARY_REL_ERROR * np.abs(logs))


def excess_below(indices: Floats, spacing: float) -> Floats:
    """Just below e^(index * spacing) - 1, for indices >= 0; exactly 0 at 0.

    expm1 of the rounded product is off by 8 u, and by (1 + r) u because r = index * spacing is rounded.
    """
    r = indices * spacing
    return np.asarray(np.expm1(r) * (1 - ELEMENTARY_REL_ERROR - UNIT_ROUNDOFF * (6 + 2 * r)))


def cell_masses(noise: Noise, ends: Floats, ends_abs_errors: Floats | float = 0.0) -> tuple[Floats, Floats]:
    """The noise's masses between consecutive ends, and how far off each can be.

    Each mass is a difference of tails on the side of 0 where they are small. An end that is off by d moves a
    mass by at most d times the density around the end, which is below exp(-x^2/2) / 2 or exp(-|x|) / 1.9.
    """
    low, high = ends[:-1], ends[1:]
    if noise is Noise.NORMAL:
        right = -low < high
        inner, outer = np.where(right, -low, high), np.where(right, -high, low)
        near, far = special.ndtr(inner), special.ndtr(outer)
        masses = near - far
        density = np.exp(-(ends**2) / 2) / 2
        # beyond -DEEPEST there is no tail to be wrong about
        abs_errors = ndtr_rel_error(np.maximum(inner, -DEEPEST)) * near
        abs_errors += ndtr_rel_error(np.maximum(outer, -DEEPEST)) * far
    else:
        masses = _laplace_between(low, high)
        density = np.exp(-np.abs(ends)) / 1.9
        abs_errors = (2 * ELEMENTARY_REL_ERROR + 8 * UNIT_ROUNDOFF) * masses
    moved = np.where(np.isfinite(ends), density * ends_abs_errors, 0.0)
    return masses, abs_errors + moved[:-1] + moved[1:] + 2 * UNIT_ROUNDOFF * np.abs(
        masses
    ) + UNDERFLOW_ABS_ERROR


def _laplace_between(low: Floats, high: Floats) -> Floats:
    """Sums and products of positive numbers only: the halves on both sides of 0, or a tail times a share."""
    inner = np.maximum(np.maximum(low, -high), 0.0)
    both_sides = -(np.expm1(np.minimum(low, 0.0)) + np.expm1(np.minimum(-high, 0.0)))
    is_empty = low == high  # also where both ends are at one infinity
    width = np.where(is_empty, 0.0, high) - np.where(is_empty, 0.0, low)
    one_side = np.exp(-inner) * -np.expm1(-width)
    return np.asarray(np.where((low < 0) & (high > 0), both_sides, one_side) / 2)


def mixture_masses(law: Mixture, ends: Floats) -> tuple[Floats, Floats]:
    """A mixture's masses between consecutive ends, and how far off each can be."""
    if law.is_plain:
        return cell_masses(law.noise, ends)
    apart = ends - law.shift
    rounding = 2 * UNIT_ROUNDOFF * (np.abs(apart) + abs(law.shift))
    plain, plain_abs_errors = cell_masses(law.noise, ends)
    moved, moved_abs_errors = cell_masses(law.noise, apart, np.where(np.isfinite(apart), rounding, 0.0))
    masses = law.rest * plain + law.rate * moved
    abs_errors = law.rest * plain_abs_errors + law.rate * moved_abs_errors
    return masses, abs_errors * (1 + 8 * UNIT_ROUNDOFF) + 4 * UNIT_ROUNDOFF * np.abs(masses)
