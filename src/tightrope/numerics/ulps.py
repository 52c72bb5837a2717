"""How far the functions of numpy, math and SciPy can be off: every such bound that a charge rests on.

Each holds for arguments that are taken as exact; an error of the argument is the caller's to charge. A result
below the smallest normal number may also be off by `UNDERFLOW_ABS_ERROR`. Where no theorem exists (SciPy's
special functions) the form of the bound follows the algorithm and tests/test_ulps.py checks it against ball
arithmetic, near zeros, branches and the ends of the range of floats.
"""

import math

import numpy as np

from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats

# exp, expm1, log, log1p, log2, log10, sin, cos, tan, arctan2, hypot, cbrt, math.erf: numpy's vector code
# promises 4 ulp and libm less than 1 or 2; an ulp is at most 2u of the value. Sine and cosine keep this at
# their zeros. Square roots are rounded correctly (IEEE 754), as + - * / are.
ELEMENTARY_REL_ERROR = 8 * UNIT_ROUNDOFF
# expit is 1 / (1 + e^-x): two roundings and e^-x. Below -709.78 it is 0, which UNDERFLOW_ABS_ERROR covers.
EXPIT_REL_ERROR = 12 * UNIT_ROUNDOFF
# Also where a value in the range of subnormal numbers is taken for 0.
UNDERFLOW_ABS_ERROR = 2.0**-1022
# A larger error of an exponent, a weight or a moment is refused: charges are of first order. Up to this, all
# further orders add less than 8 times as much, relative to the charge.
LARGEST_ERROR = 2.0**-12
SECOND_ORDER = 1 + 8 * LARGEST_ERROR


def logaddexp_abs_error(result: Floats | float) -> Floats:
    """Of numpy's logaddexp(a, b) = max + log1p(e^-d), d = |a - b|.

    e^-d is off by (8 + d) u relative, log1p of it by (16 + d) u log1p(e^-d) <= (16 ln 2 + 0.4) u <= 12 u, and
    the sum is rounded once.
    """
    return UNIT_ROUNDOFF * (12 + np.abs(result))


def ndtr_rel_error(x: Floats | float) -> Floats:
    """Of SciPy's ndtr, relative. It squares a rounded x / sqrt 2: 3 units of x^2/2 in the exponent."""
    return UNIT_ROUNDOFF * (32 + 3 * np.square(np.minimum(x, 0.0)))


def log_ndtr_rel_error(x: Floats | float) -> Floats:
    """Of SciPy's log_ndtr, relative: accurate below 1; beyond, ndtr(-x) is what the result consists of."""
    return UNIT_ROUNDOFF * np.where(np.asarray(x) <= 1, 16.0, 32 + 3 * np.square(x))


def gammaln_abs_error(result: Floats | float) -> Floats:
    """Of SciPy's gammaln at x > 0; only absolute near its zeros 1 and 2, at which it is exact."""
    return 16 * UNIT_ROUNDOFF * (1 + np.abs(result))


def pairwise_roundings(count: int) -> int:
    """How many roundings any term passes when numpy's `sum` adds `count` of them along a contiguous axis.

    Blocks of at most 128: eight sums of 16, which three additions join, and up to seven left over. Blocks are
    added in pairs (split at multiples of 8, so one level more), and to the first term.
    """
    return 27 + math.ceil(math.log2(max(count / 128, 1.0)))
