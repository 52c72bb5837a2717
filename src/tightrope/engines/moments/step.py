"""ln E_P[e^{c loss}] of one step: never too small, and to relative accuracy however close to 0 it is.

It is c times the Rényi divergence of order 1 + c. With psi(loss) = e^{c loss} - 1 + c (e^{-loss} - 1), which
is never negative,

    M(c) = P(finite) + E_P[psi] - c (Q(finite) - P(finite)),    finite: outputs that both P and Q produce,

so where all outputs are finite, M(c) - 1 is an integral of positive terms and nothing cancels.

Of a step on a batch of fixed size in which one record is exchanged, only the moments of the unsampled step
may be known. With e(j) its Rényi divergence of order j and g the rate,

    e^{(a-1) RDP(a)} <= 1 + g^2 C(a,2) min{4 (e^{e(2)} - 1), e^{e(2)} m_2}
                          + sum_{j=3}^a g^j C(a,j) e^{(j-1) e(j)} m_j ,

m_j = min{2, (e^{e(infinity)} - 1)^j}. For Gaussian noise the j-th summand is also at most
g^j C(a,j) 4 sqrt(B(2 floor(j/2)) B(2 ceil(j/2))) with B(l) = E_Q[(dP/dQ - 1)^l].
"""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy import special

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.make import kept_transform
from tightrope.engines.transforms.transform import GainNodes
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, exact_log_ratio, log_sum
from tightrope.pairs.amplified import GAUSSIAN_NOISE, Amplified
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import ShiftPair

KEPT_MOMENTS = 4096
QUADRATURE_REL_ERROR = 1e-14  # of M(c) - 1: what a quadrature should miss at most
FIRST_TARGET = 1e-22  # of M(c): fine enough at once unless hardly anything is lost
MODERATE = 600.0  # a logarithm whose exponential a float holds
NARROWEST, WIDENING = 1e-3, 1.3  # the first cell in units of 1 / c, and how much wider each next one is
MOST_ORDER = 1024  # no higher order was ever seen to be the best
MOST_CENTRAL = 256  # beyond this order the plain moments do as well as the central ones
SERIES = [1 / math.factorial(n) for n in range(2, 20)]


@lru_cache(maxsize=KEPT_MOMENTS)
def log_moment_above(pair: Pair, c: float) -> float:
    """A certified upper bound of ln E_P[e^{c loss}; loss finite], c > 0, too large by about 1e-13 of itself.

    >>> from tightrope.pairs.mixture import Mixture, Noise
    >>> shifted = ShiftPair(Mixture(Noise.NORMAL, Fraction(1), Fraction(1, 2)), Mixture(Noise.NORMAL))
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
        return bound_by_cells(pair, c) if pair.largest_finite_loss < math.inf else bound_unsampled(pair, c)
    if pair.infinite_mass or pair.reverse.infinite_mass:
        return _partly_finite_above(pair, c, log_gain)
    return log1p_exp(log_gain) * (1 + 4 * UNIT_ROUNDOFF)


def _log_gain_above(pair: Pair, c: float) -> float:
    """ln of an upper bound of E_P[psi]."""
    transform = kept_transform(pair)
    target = FIRST_TARGET
    for _ in range(2):
        log_gain, log_missed = _log_sum_above(transform.gain_nodes(c, target), c)
        if log_missed <= math.log(100 * QUADRATURE_REL_ERROR) + log_gain:
            break
        target *= math.exp(max(min(log_gain, -7.0), -150.0))
    return float(np.logaddexp(log_gain, log_missed))


def _log_sum_above(nodes: GainNodes, c: float) -> tuple[float, float]:
    """ln of the sum over the nodes with its rounding errors added, and ln of what they miss."""
    log_terms = nodes.log_masses + log_psi(c, nodes.losses)
    # |psi'| = c |e^{c loss} - e^{-loss}| <= c (e^{c loss} + e^{-loss}) min(1, (1 + c) |loss|)
    with np.errstate(divide="ignore"):
        slope = math.log(c) + np.logaddexp(c * nodes.losses, -nodes.losses)
        slope += np.minimum(0.0, math.log1p(c) + np.log(np.abs(nodes.losses)))
        log_loss_errors = nodes.log_masses + slope + np.log(nodes.loss_abs_errors)
    exponents = np.abs(nodes.log_masses) + (1 + c) * np.abs(nodes.losses)
    log_rounding = log_terms + np.log(8 * UNIT_ROUNDOFF * (32 + exponents) + nodes.loss_abs_errors)
    return log_sum(np.concatenate([log_terms, log_loss_errors, log_rounding])), nodes.log_missed


def log_psi(c: float, losses: Floats) -> Floats:
    """ln(e^{c loss} - 1 + c (e^{-loss} - 1)) to relative accuracy; -inf at loss 0.

    >>> np.exp(log_psi(2.0, np.array([-1.0, 0.0, 1e-9, 1.0]))).round(30)
    array([2.57189894e+00, 0.00000000e+00, 3.00000000e-18, 5.12481498e+00])
    """
    size = np.abs(losses)
    small = (1 + c) * size <= 1
    inner = np.where(small, losses, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        far = c * losses + np.log1p(-np.exp(-c * size) * (1 - c * np.expm1(-size)))
        up = np.where(c * size < 1, np.log(np.expm1(c * losses) + c * np.expm1(-losses)), far)
        down = size + np.log(-c * np.expm1(-size) + np.exp(-size) * np.expm1(-c * size))
        # psi = c loss^2 (c E(c loss) + E(-loss)) with E(y) = (e^y - 1 - y) / y^2
        bend = np.log(c * _second_remainder(c * inner) + _second_remainder(-inner))
        near = math.log(c) + 2 * np.log(size) + bend
    return np.where(small, near, np.where(losses > 0, up, down))


def _second_remainder(y: Floats) -> Floats:
    """(e^y - 1 - y) / y^2 for |y| <= 1, by its power series."""
    total = np.full_like(y, SERIES[-1])
    for coefficient in SERIES[-2::-1]:
        total *= y
        total += coefficient
    return total


def _partly_finite_above(pair: Pair, c: float, log_gain: float) -> float:
    """The bound where P or Q have outputs of their own: the smaller of two sums.

    The sum over the levels keeps its digits where little mass is finite; 1 plus the gain less what is lost
    keeps them where nearly all of it is.
    """
    nodes = kept_transform(pair).gain_nodes(c, QUADRATURE_REL_ERROR)
    terms = nodes.log_masses + c * nodes.losses
    direct = log_sum(terms + 8 * UNIT_ROUNDOFF * (32 + np.abs(nodes.log_masses) + c * np.abs(nodes.losses)))
    lost = pair.infinite_mass * (1 + Fraction(c)) - pair.reverse.infinite_mass * Fraction(c)
    if not -MODERATE < log_gain < MODERATE or abs(lost) > math.exp(MODERATE):
        return direct
    excess = math.exp(log_gain) * (1 + 4 * UNIT_ROUNDOFF) - float(lost) + 8 * UNIT_ROUNDOFF * abs(float(lost))
    if excess <= -0.5:
        return direct
    return min(direct, math.log1p(excess) + 4 * UNIT_ROUNDOFF * abs(math.log1p(excess)))


def bound_unsampled(pair: Pair, c: float) -> float:
    """An upper bound by convexity where no quadrature resolves the losses.

    It is ln(1 + g (M - 1)) with M the moment of the unsampled step.
    """
    laws = pair.one_step
    assert isinstance(laws, ShiftPair)
    log_rate = max(laws.observed.log_rate, laws.alternative.log_rate)
    log_gain = log_expm1(laws.unsampled_separation**2 * c * (1 + c) / 2)
    return log1p_exp(log_rate + log_gain) * (1 + 8 * UNIT_ROUNDOFF)


def bound_by_cells(pair: Pair, c: float) -> float:
    """An upper bound for bounded losses and huge tilts: narrowing cells, each moved to its top."""
    laws = pair.one_step
    assert isinstance(laws, ShiftPair)  # a finite pair is its own set of nodes
    if laws is not pair:
        # the lower half of an envelope and its atom have no loss above 0, so they add at most 1
        return log1p_exp(bound_by_cells(laws, c))
    low, high = laws.loss_range
    span = min(high - low, high + 50 / c)  # what lies below counts as if it were there
    narrowest = min(NARROWEST / c, span)
    count = math.ceil(math.log(span / narrowest) / math.log(WIDENING)) + 1
    levels: Floats = (high - narrowest * WIDENING ** np.arange(count, dtype=float))[::-1]
    edges = laws.output_at(levels)
    log_masses, _ = laws.cells(edges)
    # the losses of the edges themselves: inverting the loss costs digits where nearly all is sampled
    inside, beyond = np.isfinite(edges), np.where(edges > 0, high, levels)
    tops = np.append(np.where(inside, laws.loss(np.where(inside, edges, 0.0)), beyond), high)
    return log_sum(log_masses + c * tops) + 8 * UNIT_ROUNDOFF * c * (high + span) + 1e-12


def amplified_log_moment_above(step: Amplified, c: float) -> float:
    """The same for a sampled step; ln M is convex, so a chord between whole orders is above it."""
    if c > MOST_ORDER - 1 or step.base.infinite_mass:
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
        log_m = np.minimum(math.log(2), j * log_expm1(step.base.largest_finite_loss))
    log_each = log_plain + log_m
    log_each[0] = min(log_each[0], math.log(4) + log_expm1(log_plain[0]))
    if step.by is GAUSSIAN_NOISE:
        few = min(order, MOST_CENTRAL) - 1
        log_each[1:few] = np.minimum(log_each[1:few], math.log(4) + _log_central(step.base, few + 1)[1:])
    log_choices = special.gammaln(order + 1) - special.gammaln(j + 1) - special.gammaln(order - j + 1)
    log_powers = j * exact_log_ratio(step.exact_rate, Fraction(1))
    sizes = 32 + special.gammaln(order + 1) + np.abs(log_powers) + np.abs(log_each)
    log_terms = log_choices + log_powers + log_each + 16 * UNIT_ROUNDOFF * sizes
    return log1p_exp(log_sum(log_terms)) * (1 + 8 * UNIT_ROUNDOFF)


def _log_central(base: Pair, most: int) -> Floats:
    """ln sqrt(B(2 floor(j/2)) B(2 ceil(j/2))) for j = 2, ..., most."""
    separation = base.gaussian_separation
    assert separation is not None
    pairs = ((j - j % 2, j + j % 2) for j in range(2, most + 1))
    return np.array(
        [(log_central_moment(separation, i) + log_central_moment(separation, j)) / 2 for i, j in pairs]
    )


@lru_cache(maxsize=KEPT_MOMENTS)
def log_central_moment(separation: float, power: int) -> float:
    """ln E_Q[(dP/dQ - 1)^power] of two normals, for an even power.

    It is sum_i (-1)^i C(l, i) e^{(l-i)(l-i-1) s^2/2}, whose terms cancel: as many digits are carried as they
    can lose. By Minkowski's and Jensen's inequalities the result is at least (e^{(l-1) s^2/2} - 1)^l and
    (e^{s^2} - 1)^{l/2}.
    """
    square = separation**2
    log_largest = power * (power - 1) * square / 2 + power * math.log(2)
    log_least = max(power * log_expm1((power - 1) * square / 2), power / 2 * log_expm1(square))
    digits = 30 + math.ceil((log_largest - log_least) / math.log(10))
    with localcontext(Context(prec=digits, Emax=10**15, Emin=-(10**15))):
        ratio = (Decimal(separation) ** 2).exp()  # e^{j s^2} is its j-th power
        moment, factor, choices, total = Decimal(1), Decimal(1), 1, Decimal(0)
        for i in range(power + 1):  # e^{i (i-1) s^2/2} by i - 1 factors e^{j s^2}
            if i > 1:
                factor *= ratio
                moment *= factor
            total += (-1) ** (power - i) * choices * moment
            choices = choices * (power - i) // (i + 1)
        return float(total.ln(Context(prec=30)))


def log1p_exp(x: float) -> float:
    """ln(1 + e^x), to relative accuracy also where it is tiny."""
    return math.log1p(math.exp(x)) if x < 30 else x + math.exp(-x)


def log_expm1(x: float) -> float:
    """ln(e^x - 1), x > 0."""
    return math.log(math.expm1(x)) if x < 30 else x
