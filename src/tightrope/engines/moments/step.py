"""ln E_P[e^{c loss}] of one step: never too small. It is c times the Rényi divergence of order 1 + c.

Of a step on a batch of fixed size in which one record is exchanged, only the moments of the unsampled step
may be known. With e(j) its Rényi divergence of order j and g the rate,

    e^{(a-1) RDP(a)} <= 1 + g^2 C(a,2) min{4 (e^{e(2)} - 1), e^{e(2)} m_2}
                          + sum_{j=3}^a g^j C(a,j) e^{(j-1) e(j)} m_j ,

m_j = min{2, (e^{e(infinity)} - 1)^j}. For Gaussian noise the j-th summand is also at most
g^j C(a,j) 4 sqrt(B(2 floor(j/2)) B(2 ceil(j/2))) with B(l) = E_Q[(dP/dQ - 1)^l].
"""

import math
from fractions import Fraction
from functools import lru_cache

from flint import arb, ctx

from tightrope.engines.face import EngineDeclines
from tightrope.engines.moments.enclosures import moment
from tightrope.engines.transforms.make import kept_transform
from tightrope.numerics.balls import ball, ceil_float, enclose, float_ends
from tightrope.numerics.floats import next_down, next_up
from tightrope.pairs.amplified import GAUSSIAN_NOISE, Amplification, Amplified
from tightrope.pairs.counted import CountedPair
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair

KEPT_MOMENTS = 4096
ENOUGH_BITS = 44  # of ln M, relative to itself: no bound needs more
FIRST_BITS, MOST_BITS = 96, 2048  # carried; many are needed where hardly anything is lost
MOST_ORDER = 1024  # no higher order was ever seen to be the best
MOST_CENTRAL = 256  # beyond this order the plain moments do as well as the central ones


def log_moment_above(pair: Pair, c: float) -> float:
    """An upper bound of ln E_P[e^{c loss}; loss finite], c > 0.

    >>> log_moment_above(ShiftPair.of_normals(0.5), 2.0)
    0.75
    """
    return log_moment_ends(pair, c)[1]


@lru_cache(maxsize=KEPT_MOMENTS)
def log_moment_ends(pair: Pair, c: float) -> tuple[float, float]:
    """Floats below and above ln E_P[e^{c loss}; loss finite], c > 0.

    The lower is -inf where no quadrature resolves the losses: then a closed form bounds them from above.
    """
    if pair.is_trivial:
        return 0.0, 0.0
    if pair.is_finite and not pair.levels:
        return -math.inf, -math.inf
    tilt = Fraction(c)
    if isinstance(pair, CountedPair):
        return _counted_ends(pair, c)
    if isinstance(pair, ShiftPair) and pair.has_normal_noise and pair.exact_separation is not None:
        with ctx.workprec(FIRST_BITS):
            return float_ends(ball(pair.exact_separation**2 * tilt * (1 + tilt) / 2))
    bits, value = FIRST_BITS, arb("nan")
    try:
        while bits <= MOST_BITS:
            with ctx.workprec(bits):
                value = moment(pair, tilt).log()
                if value.rel_accuracy_bits() >= ENOUGH_BITS:
                    break
            bits *= 2
    except EngineDeclines:
        pass  # a wider ball than wanted is as true, if there is one
    if value.is_finite():
        return float_ends(value)
    with ctx.workprec(FIRST_BITS):
        return -math.inf, ceil_float(log_moment_bound(pair, tilt))


def log_moment_bound(pair: Pair, c: Fraction) -> arb:
    """A closed form above ln M(c) of additive noise (theorems/proofs/renyi.md, number 5).

    It is the least of ln(1 - g + g M_0), M_0 the moment of the unsampled step; of (1 + c) ln(1 - g + g
    e^{c s^2/2}), s the shift, where only P is a mixture of normals; and of c times the largest loss. The
    lower half of an envelope and its atom add at most 1 to the moment of the remove pair. Moments of labelled
    parts add up.
    """
    if isinstance(pair, CountedPair):
        return _counted_bound(pair, c)
    if isinstance(pair, LabelledPair):
        each = (ball(weight) * log_moment_bound(part, c).exp() for weight, part in pair.parts)
        return sum(each, arb(0)).log()
    laws = pair.one_step
    assert isinstance(laws, ShiftPair)
    tilt = ball(c)
    ceiling = pair.loss_ceiling[1]
    bounds = [tilt * ball(ceiling)] if ceiling < math.inf else []
    if laws.has_normal_noise:
        rate = max(laws.observed.exact_rate, laws.alternative.exact_rate)
        square = ball((laws.observed.exact_shift - laws.alternative.exact_shift) ** 2)
        bounds.append((ball(1 - rate) + ball(rate) * (tilt * (1 + tilt) * square / 2).exp()).log())
        if laws.alternative.is_plain:
            by_norm = (1 + tilt) * (ball(1 - rate) + ball(rate) * (tilt * square / 2).exp()).log()
            bounds.append((1 + by_norm.exp()).log() if isinstance(pair, Envelope) else by_norm)
    best = bounds[0]
    for bound in bounds[1:]:
        best = best.min(bound)
    return best


def _counted_ends(pair: CountedPair, c: float) -> tuple[float, float]:
    """The same of a group, from the certified nodes of its transform."""
    try:
        nodes = kept_transform(pair).nodes(c)
    except (EngineDeclines, ArithmeticError):
        with ctx.workprec(FIRST_BITS):
            return -math.inf, ceil_float(_counted_bound(pair, Fraction(c)))
    error = nodes.moment_rel_error * 1.01  # of M itself, and below 0.01: ln(1 - e) >= -1.01 e
    return next_down(nodes.log_moment - error), next_up(nodes.log_moment + error)


def _counted_bound(pair: CountedPair, c: Fraction) -> arb:
    """By joint convexity, with one draw of the count for both sides: the mean of the unsampled moments."""
    p, q, tilt = pair.observed, pair.alternative, ball(c)
    weights = q.exact_weights if p.is_plain else p.exact_weights
    apart = p.exact_shift - q.exact_shift
    if not (p.is_plain or q.is_plain) and p.exact_weights != q.exact_weights:
        weights, apart = (Fraction(0), Fraction(1)), p.most * p.exact_shift - q.most * q.exact_shift
    squares = (ball((j * apart) ** 2) for j in range(len(weights)))
    each = (ball(w) * (tilt * (1 + tilt) * d2 / 2).exp() for w, d2 in zip(weights, squares, strict=True))
    return sum(each, arb(0)).log()


def estimate_log_moment(pair: Pair, c: float) -> float:
    """About ln M(c), to find a good order with."""
    if pair.is_trivial:
        return 0.0
    if pair.infinite_mass == 1:
        return math.inf
    if pair.gaussian_separation is not None:
        return pair.gaussian_separation**2 * c * (1 + c) / 2
    try:
        return kept_transform(pair).cumulants(c)[0]
    except (EngineDeclines, ArithmeticError):
        return log_moment_above(pair, c)


def amplified_log_moment_above(step: Amplified, c: float) -> float:
    """The same for a sampled step; ln M is convex, so a chord between whole orders is above it."""
    if c > MOST_ORDER - 1 or step.base.infinite_mass:
        return math.inf
    below = math.floor(c)
    share = Fraction(c) - below
    left = Fraction(_at_whole_order(step, below + 1)) if below else Fraction(0)
    if share == 0:
        return float(left)
    return ceil_float(ball((1 - share) * left + share * Fraction(_at_whole_order(step, below + 2))))


@lru_cache(maxsize=KEPT_MOMENTS)
def _at_whole_order(step: Amplified, order: int) -> float:
    return ceil_float(enclose(lambda: _sum_of_orders(step, order).log(), bits=ENOUGH_BITS))


def _sum_of_orders(step: Amplified, order: int) -> arb:
    """The right-hand side at a whole order."""
    rate, total = ball(step.exact_rate), arb(1)
    weight = rate * order  # g^j C(order, j)
    for j in range(2, order + 1):
        weight *= rate * (order - j + 1) / j
        total += weight * _summand(step.base, step.by, j)
    return total


@lru_cache(maxsize=KEPT_MOMENTS)
def _summand(base: Pair, by: Amplification, j: int) -> arb:
    """What multiplies g^j C(a, j)."""

    def find_least() -> arb:
        plain = moment(base, Fraction(j - 1))
        most = ball(base.loss_ceiling[1])  # e(infinity)
        each = plain * (arb(2).min(most.expm1() ** j) if most.is_finite() else 2)
        if j == 2:
            return each.min(4 * (plain - 1))
        return each.min(4 * _central(base, j)) if by is GAUSSIAN_NOISE and j <= MOST_CENTRAL else each

    return enclose(find_least)


def _central(base: Pair, j: int) -> arb:
    """sqrt(B(2 floor(j/2)) B(2 ceil(j/2)))."""
    assert isinstance(base, ShiftPair)
    assert base.exact_separation is not None
    below, above = (central_moment(base.exact_separation, i) for i in (j - j % 2, j + j % 2))
    return (below * above).sqrt()


@lru_cache(maxsize=KEPT_MOMENTS)
def central_moment(separation: Fraction, power: int) -> arb:
    """E_Q[(dP/dQ - 1)^power] of two normals, for an even power.

    It is sum_i (-1)^i C(l, i) e^{(l-i)(l-i-1) s^2/2}, whose terms cancel: as many digits are carried as they
    lose.
    """

    def add_up() -> arb:
        ratio = ball(separation**2).exp()  # e^{j s^2} is its j-th power
        value, factor, choices, total = arb(1), arb(1), 1, arb(0)
        for i in range(power + 1):  # e^{i (i-1) s^2/2} by i - 1 factors e^{j s^2}
            if i > 1:
                factor *= ratio
                value *= factor
            total += (-1) ** (power - i) * choices * value
            choices = choices * (power - i) // (i + 1)
        return total

    return enclose(add_up)
