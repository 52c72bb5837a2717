"""ln E_P[e^{c loss}] of one step: never too small, and to relative accuracy however close to 0 it is.

It is c times the Rényi divergence of order 1 + c. With psi(loss) = e^{c loss} - 1 + c (e^{-loss} - 1), which is never negative,

    M(c) = P(finite) + E_P[psi] - c (Q(finite) - P(finite)),    finite: outputs that both P and Q produce,

so that where all outputs are, M(c) - 1 is an integral of positive terms and nothing cancels.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tightrope.engines.contour.engine import kept_transform
from tightrope.engines.contour.transform import GainNodes
from tightrope.engines.face import EngineDeclines
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.tails import Floats, log_sum
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair

KEPT_MOMENTS = 4096
WANTED = 1e-14  # of M(c) - 1: what a quadrature should miss at most
FIRST_TARGET = 1e-22  # of M(c): fine enough in one go unless hardly anything is lost
MODERATE = 600.0  # logarithms of numbers that floats hold
NARROWEST, WIDENED = 1e-3, 1.3  # the first cell, over 1 / c, and how much wider the next is
COEFFICIENTS = [1 / math.factorial(n) for n in range(2, 20)]


@lru_cache(maxsize=KEPT_MOMENTS)
def log_moment_above(pair: Pair, c: float) -> float:
    """A certified upper bound of ln E_P[e^{c loss}; loss finite], c > 0; about 1e-13 above it, relative to it.

    >>> from tightrope.pairs.distribution import Mixture, Noise
    >>> shifted = ShiftPair(Mixture(Noise.NORMAL, 1.0, 0.5), Mixture(Noise.NORMAL))
    >>> log_moment_above(shifted, 2.0)
    0.75
    """
    if pair.is_trivial:
        return 0.0
    if pair.gaussian_separation is not None:
        return pair.gaussian_separation**2 * c * (1 + c) / 2
    try:
        log_gain = _log_gain_above(pair, c)
    except EngineDeclines:
        assert isinstance(pair, ShiftPair | Envelope)  # a finite pair is its own set of nodes
        return cells_above(pair, c) if largest_loss(pair) < math.inf else unsampled_above(pair, c)
    if isinstance(pair, FinitePair) and (pair.infinite_mass or pair.reverse.infinite_mass):
        return _partly_finite_above(pair, c, log_gain)
    return log1p_exp(log_gain) * (1 + 4 * UNIT_ROUNDOFF)


def _partly_finite_above(pair: FinitePair, c: float, log_gain: float) -> float:
    """Where P or Q have outputs of their own: the sum over the levels itself, or 1 and what is gained and lost, if less.

    The second keeps its digits where nearly all mass is finite, the first where little is.
    """
    nodes = kept_transform(pair).gain_nodes(c, WANTED)
    terms = nodes.log_masses + c * nodes.losses
    direct = log_sum(terms + 8 * UNIT_ROUNDOFF * (32 + np.abs(nodes.log_masses) + c * np.abs(nodes.losses)))
    lost = pair.infinite_mass * (1 + Fraction(c)) - pair.reverse.infinite_mass * Fraction(c)
    if not -MODERATE < log_gain < MODERATE or abs(lost) > math.exp(MODERATE):
        return direct
    moment = math.exp(log_gain) * (1 + 4 * UNIT_ROUNDOFF) - float(lost) + 8 * UNIT_ROUNDOFF * abs(float(lost))
    return (
        min(direct, math.log1p(moment) + 4 * UNIT_ROUNDOFF * abs(math.log1p(moment)))
        if moment > -0.5
        else direct
    )


def unsampled_above(pair: ShiftPair | Envelope, c: float) -> float:
    """An upper bound from convexity, for losses no quadrature resolves: ln(1 + g (M - 1)) with M that of the unsampled step."""
    laws = pair.one_step
    assert isinstance(laws, ShiftPair)
    shift = laws.observed.shift - laws.alternative.shift
    rate = max(laws.observed.rate, laws.alternative.rate)
    return log1p_exp(math.log(rate) + log_expm1(shift**2 * c * (1 + c) / 2)) * (1 + 8 * UNIT_ROUNDOFF)


def cells_above(pair: ShiftPair | Envelope, c: float) -> float:
    """An upper bound for bounded losses and huge tilts: cells that narrow towards the largest loss, each at its upper end.

    The lower half of an envelope, and its atom, have no loss above 0 and add at most 1.
    """
    if isinstance(pair, Envelope):
        return log1p_exp(cells_above(pair.remove, c))
    low, high = pair.loss_range
    span = min(high - low, high + 50 / c)  # what lies below counts as if it were there
    narrowest = min(NARROWEST / c, span)
    count = math.ceil(math.log(span / narrowest) / math.log(WIDENED)) + 1
    levels: Floats = (high - narrowest * WIDENED ** np.arange(count, dtype=float))[::-1]
    edges = pair.output_at(levels)
    log_masses, _ = pair.cells(edges)
    # the losses at the edges as they are, not as they were meant: inverting loses digits where nearly all is sampled
    inside, beyond = np.isfinite(edges), np.where(edges > 0, high, levels)
    ends = np.append(np.where(inside, pair.loss(np.where(inside, edges, 0.0)), beyond), high)
    return log_sum(log_masses + c * ends) + 8 * UNIT_ROUNDOFF * c * (high + span) + 1e-12


def largest_loss(pair: Pair) -> float:
    """The supremum of the finite losses."""
    if isinstance(pair, FinitePair):
        return pair.losses[-1] if pair.losses else -math.inf
    return pair.loss_range[1]


def _log_gain_above(pair: Pair, c: float) -> float:
    """ln of an upper bound of E_P[psi]."""
    transform = kept_transform(pair)
    target = FIRST_TARGET
    for _ in range(2):
        log_gain, log_missed = _summed(transform.gain_nodes(c, target), c)
        if log_missed <= math.log(100 * WANTED) + log_gain:
            break
        target *= math.exp(max(min(log_gain, -7.0), -150.0))
    return float(np.logaddexp(log_gain, log_missed))


def _summed(nodes: GainNodes, c: float) -> tuple[float, float]:
    """ln of the sum over the nodes with its rounding errors added, and ln of what they miss."""
    log_terms = nodes.log_masses + log_psi(c, nodes.losses)
    # |psi'| = c |e^{c loss} - e^{-loss}| <= c (e^{c loss} + e^{-loss}) min(1, (1 + c) |loss|)
    with np.errstate(divide="ignore"):
        slope = math.log(c) + np.logaddexp(c * nodes.losses, -nodes.losses)
        slope += np.minimum(0.0, math.log1p(c) + np.log(np.abs(nodes.losses)))
        log_shaken = nodes.log_masses + slope + np.log(nodes.loss_abs_errors)
    exponents = np.abs(nodes.log_masses) + (1 + c) * np.abs(nodes.losses)
    log_rounded = log_terms + np.log(8 * UNIT_ROUNDOFF * (32 + exponents) + nodes.loss_abs_errors)
    return log_sum(np.concatenate([log_terms, log_shaken, log_rounded])), nodes.log_missed


def log_psi(c: float, losses: Floats) -> Floats:
    """ln(e^{c loss} - 1 + c (e^{-loss} - 1)) to relative accuracy; -inf at loss 0.

    >>> np.exp(log_psi(2.0, np.array([-1.0, 0.0, 1e-9, 1.0]))).round(30)
    array([2.57189894e+00, 0.00000000e+00, 3.00000000e-18, 5.12481498e+00])
    """
    size = np.abs(losses)
    small = (1 + c) * size <= 1
    inner = np.where(
        small, losses, 0.0
    )  # psi = c loss^2 (c E(c loss) + E(-loss)) with E(y) = (e^y - 1 - y) / y^2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        far = c * losses + np.log1p(-np.exp(-c * size) * (1 - c * np.expm1(-size)))
        up = np.where(c * size < 1, np.log(np.expm1(c * losses) + c * np.expm1(-losses)), far)
        down = size + np.log(-c * np.expm1(-size) + np.exp(-size) * np.expm1(-c * size))
        near = (
            math.log(c)
            + 2 * np.log(size)
            + np.log(c * _second_remainder(c * inner) + _second_remainder(-inner))
        )
    return np.where(small, near, np.where(losses > 0, up, down))


def _second_remainder(y: Floats) -> Floats:
    """(e^y - 1 - y) / y^2 for |y| <= 1, by its power series."""
    total = np.full_like(y, COEFFICIENTS[-1])
    for coefficient in COEFFICIENTS[-2::-1]:
        total *= y
        total += coefficient
    return total


def log1p_exp(x: float) -> float:
    """ln(1 + e^x), to relative accuracy also where it is tiny."""
    return math.log1p(math.exp(x)) if x < 30 else x + math.exp(-x)


def log_expm1(x: float) -> float:
    """ln(e^x - 1), x > 0."""
    return math.log(math.expm1(x)) if x < 30 else x
