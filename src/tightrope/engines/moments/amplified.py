"""Moments of a sampled step from those of the unsampled one, at whole orders and by convexity between them.

Batches of a fixed size, one record exchanged; with e(j) the Rényi divergence of order j of the unsampled step, g the rate,

    e^{(a-1) RDP(a)} <= 1 + g^2 C(a,2) min{4 (e^{e(2)} - 1), e^{e(2)} m_2} + sum_{j=3}^a g^j C(a,j) e^{(j-1) e(j)} m_j ,

m_j = min{2, (e^{e(infinity)} - 1)^j}. For Gaussian noise the j-th summand is also at most
g^j C(a,j) 4 sqrt(B(2 floor(j/2)) B(2 ceil(j/2))) with B(l) = E_Q[(dP/dQ - 1)^l].
"""

import math
from decimal import Context, Decimal, localcontext
from functools import lru_cache

import numpy as np
from scipy import special

from tightrope.engines.moments.step import KEPT_MOMENTS, largest_loss, log1p_exp, log_expm1, log_moment_above
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.tails import Floats, log_sum
from tightrope.pairs.amplified import GAUSSIAN_NOISE, Amplified
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import ShiftPair

MOST_ORDER = 1024  # beyond, no order was seen to be the best one
MOST_CENTRAL = 256  # central moments of higher order are not worked out: the plain ones do


def amplified_log_moment_above(step: Amplified, c: float) -> float:
    """An upper bound of ln E_P[e^{c loss}]: ln of the moment is convex in c, so a chord between whole numbers is above it."""
    if c > MOST_ORDER - 1 or (isinstance(step.base, FinitePair) and step.base.infinite_mass):
        return math.inf
    below = math.floor(c)
    share = c - below
    left = _at_whole_order(step, below + 1) if below else 0.0
    return left if share == 0 else (1 - share) * left + share * _at_whole_order(step, below + 2)


@lru_cache(maxsize=KEPT_MOMENTS)
def _at_whole_order(step: Amplified, order: int) -> float:
    j = np.arange(2, order + 1, dtype=float)
    log_plain = np.array([log_moment_above(step.base, float(i) - 1) for i in j])
    with np.errstate(over="ignore"):
        log_m = np.minimum(math.log(2), j * log_expm1(largest_loss(step.base)))
    log_each = log_plain + log_m
    log_each[0] = min(log_each[0], math.log(4) + log_expm1(log_plain[0]))
    if step.by is GAUSSIAN_NOISE:
        few = min(order, MOST_CENTRAL) - 1
        log_each[1:few] = np.minimum(log_each[1:few], math.log(4) + _log_central(step.base, few + 1)[1:])
    log_terms = _log_choose(order, j) + j * math.log(step.rate) + log_each
    rounded = (
        16
        * UNIT_ROUNDOFF
        * (32 + special.gammaln(order + 1) + np.abs(j * math.log(step.rate)) + np.abs(log_each))
    )
    return log1p_exp(log_sum(log_terms + rounded)) * (1 + 8 * UNIT_ROUNDOFF)


def _log_choose(n: int, j: Floats) -> Floats:
    """ln of n over j."""
    return np.asarray(special.gammaln(n + 1) - special.gammaln(j + 1) - special.gammaln(n - j + 1))


def _log_central(base: Pair, most: int) -> Floats:
    """ln sqrt(B(2 floor(j/2)) B(2 ceil(j/2))) for j = 2, ..., most."""
    assert isinstance(base, ShiftPair)
    assert base.pure_separation is not None
    return np.array(
        [
            (_log_b(base.pure_separation, j - j % 2) + _log_b(base.pure_separation, j + j % 2)) / 2
            for j in range(2, most + 1)
        ]
    )


@lru_cache(maxsize=KEPT_MOMENTS)
def _log_b(separation: float, power: int) -> float:
    """ln E_Q[(dP/dQ - 1)^power] of two normals, for an even power.

    It is sum_i (-1)^i C(l, i) e^{(l-i)(l-i-1) s^2/2}, whose terms cancel: as many digits are carried as they can lose. By
    Minkowski's and Jensen's inequalities the result is at least (e^{(l-1) s^2/2} - 1)^l and (e^{s^2} - 1)^{l/2}.
    """
    square = separation**2
    log_largest = power * (power - 1) * square / 2 + power * math.log(2)
    log_least = max(power * log_expm1((power - 1) * square / 2), power / 2 * log_expm1(square))
    digits = 30 + math.ceil((log_largest - log_least) / math.log(10))
    with localcontext(Context(prec=digits, Emax=10**15, Emin=-(10**15))):
        ratio = (Decimal(separation) ** 2).exp()  # e^{j s^2} is its j-th power
        moment, factor, choose, total = Decimal(1), Decimal(1), 1, Decimal(0)
        for i in range(power + 1):  # e^{i (i-1) s^2/2} by i - 1 factors e^{j s^2}
            if i > 1:
                factor *= ratio
                moment *= factor
            total += (-1) ** (power - i) * choose * moment
            choose = choose * (power - i) // (i + 1)
        return float(total.ln(Context(prec=30)))
