"""The unit roundoff, and logarithms of sums, differences and tails, accurate at 1e-300 and beyond."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
UNIT_ROUNDOFF = 2.0**-53  # of double precision: a rounded result is off by at most this, relative to itself
SMALLEST = 2.0**-1074  # the smallest float above 0: an underflow rounds by at most half of it
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def gamma(count: int) -> float:
    """What n roundings in a row can do, relative: n u / (1 - n u), rounded up (Higham 2002, lemma 3.1)."""
    if count >= 2**51:
        raise ArithmeticError(f"{count} roundings in a row leave no digit")
    # the product is exact; the difference and the quotient are rounded once each
    return next_up(next_up(count * UNIT_ROUNDOFF / (1 - count * UNIT_ROUNDOFF)))


def next_up(x: float) -> float:
    """The next float above."""
    return math.nextafter(x, math.inf)


def log_ends(x: float) -> tuple[float, float]:
    """Bounds on ln x, x > 0: math.log is right to an ulp (ulps.py)."""
    log = math.log(x)
    return next_down(next_down(log)), next_up(next_up(log))


def next_down(x: float) -> float:
    """The next float below."""
    return math.nextafter(x, -math.inf)


def floor_fraction(exact: Fraction) -> float:
    """The largest float that is at most `exact`."""
    nearest = float(exact)
    return nearest if nearest <= exact else next_down(nearest)


def ceil_fraction(exact: Fraction) -> float:
    """The smallest float that is at least `exact`."""
    nearest = float(exact) + 0.0  # no -0.0
    return nearest if nearest >= exact else next_up(nearest)


def floor_root(square: Fraction) -> float:
    """The largest float, or one before it, that is at most the root of `square`."""
    nearest = math.sqrt(square)
    while Fraction(nearest) ** 2 > square:
        nearest = next_down(nearest)
    return nearest


def log_of_difference(larger: Floats, smaller: Floats) -> Floats:
    """ln(e^larger - e^smaller) for larger >= smaller."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = smaller - larger
        result = larger + np.where(gap > -0.69, np.log(-np.expm1(gap)), np.log1p(-np.exp(gap)))
    return np.where(np.isneginf(larger) | (gap >= 0), -np.inf, result)


def log_complement(log_probability: float) -> float:
    """ln(1 - e^x) for x <= 0."""
    if log_probability == 0:
        return -math.inf
    if log_probability < -1:
        return math.log1p(-math.exp(log_probability))
    return math.log(-math.expm1(log_probability))


def log_of_sum(*terms: Floats | float) -> Floats:
    """ln(sum of e^term), elementwise."""
    total = np.asarray(terms[0], dtype=float)
    for term in terms[1:]:
        total = np.logaddexp(total, term)
    return total


def log_sum(terms: Floats) -> float:
    """ln of the sum of e^term over an array; -inf for an empty one."""
    top = float(terms.max(initial=-np.inf))
    return top + float(np.log(np.exp(terms - top).sum())) if np.isfinite(top) else top


def normal_log_upper(x: Floats) -> Floats:
    """ln P(X > x), X standard normal."""
    return np.asarray(special.log_ndtr(-np.asarray(x, dtype=float)))


def laplace_log_upper(x: Floats) -> Floats:
    """ln P(X > x), X Laplace of scale 1."""
    x = np.asarray(x, dtype=float)
    return np.where(x > 0, -np.abs(x) - np.log(2), np.log1p(-0.5 * np.exp(-np.abs(x))))


# Of exact_log_ratio: rounding the ratio costs at most 1.5 units (|x / ((1 + x) ln(1 + x))| <= 1.45 for
# x >= -1/2, and 1 / ln 2 beyond), math.log and math.log1p 2 (ulps.py), a huge power two roundings more.
LOG_REL_ERROR = 6 * UNIT_ROUNDOFF


def exact_log_ratio(p: Fraction, q: Fraction) -> float:
    """ln(p/q) to LOG_REL_ERROR, also where p and q nearly agree, or differ beyond floats' range.

    Where they agree to all but 1e-300 of themselves it is right to SMALLEST only.
    """
    return log_quotient(p.numerator * q.denominator, p.denominator * q.numerator)


def log_quotient(numerator: int, denominator: int) -> float:
    """The same of two whole numbers, which need not be in lowest terms: their quotient is rounded once."""
    if denominator < 2 * numerator < 4 * denominator:
        return math.log1p((numerator - denominator) / denominator)
    # Take out a power of 2: the logarithms of huge numerators and denominators would cancel.
    power = numerator.bit_length() - denominator.bit_length()
    if abs(power) < 1000:
        return math.log(numerator / denominator)
    shifted = (numerator, denominator << power) if power > 0 else (numerator << -power, denominator)
    return math.log(shifted[0] / shifted[1]) + power * math.log(2)


def share_denominator(numbers: Sequence[Fraction]) -> tuple[list[int], int]:
    """Their numerators over the least denominator that they share, and that; whole numbers add up faster."""
    whole = math.lcm(*(number.denominator for number in numbers))
    return [number.numerator * (whole // number.denominator) for number in numbers], whole


def sum_fractions(numbers: Sequence[Fraction]) -> Fraction:
    """The exact sum."""
    numerators, whole = share_denominator(numbers)
    return Fraction(sum(numerators), whole)


def short(x: float) -> float:
    """x, rounded down to 30 bits: its first 2^23 multiples are floats, so nodes j * step are exact."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(math.ldexp(mantissa, 30)), exponent - 30)
