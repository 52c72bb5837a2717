"""M(c) = E_P[e^{c loss}; loss finite] of one step as a ball: the truth lies inside it.

Finite supports and single shifts have closed forms. Laplace noise and envelopes are integrated by arb itself,
whose quadrature encloses the integral. Mixtures of normals, M(c) = integral of

    f(u) = density(u) R_P(u)^{1+c} R_Q(u)^{-c},    R(u) = 1 - g + g e^{shift u - shift^2/2},

are summed at the nodes of a trapezoidal rule, each term a ball; what the rule misses, what lies outside the
nodes and what is left out between them is bounded in balls, too (docs/certificates.md, moments). Everything
is asked at flint's working precision and gets as narrow as that allows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch

import numpy as np
from flint import acb, arb, ctx

from tightrope.engines.face import EngineDeclines
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair

MOST_TERMS = 8000  # nodes of a sum in balls, each some 6 microseconds
MOST_GRID = 200_000  # nodes that floats look at to find those that matter
MOST_EVALUATIONS = 20_000  # of an integrand by arb
SPARE = 8.0  # nats: what is left out or missed is that much smaller than the last digit carried


@singledispatch
def moment(pair: Pair, c: Fraction) -> arb:
    """M(c), c > 0. Raises EngineDeclines where that takes too many nodes."""
    raise TypeError(f"nobody knows the moments of {pair!r}")


@moment.register
def _(pair: FinitePair, c: Fraction) -> arb:
    tilt = ball(c)
    return sum((ball(p) * (tilt * ball(p / q).log()).exp() for p, q in pair.levels), arb(0))


@moment.register
def _(pair: ShiftPair, c: Fraction) -> arb:
    separation = pair.exact_separation
    if not pair.has_normal_noise:
        law, power = (pair.alternative, -c) if pair.observed.is_plain else (pair.observed, 1 + c)
        return _laplace_moment(law, power)
    if separation is not None:
        return ball(separation**2 * c * (1 + c) / 2).exp()
    return NormalSum(pair, c).moment()


@moment.register
def _(pair: LabelledPair, c: Fraction) -> arb:
    return sum((ball(weight) * moment(part, c) for weight, part in pair.parts), arb(0))


@moment.register
def _(pair: Envelope, c: Fraction) -> arb:
    """The atom at loss 0, R^{1+c} and R^{-c} beyond the middle of the centres, where R >= 1."""
    law = pair.remove.observed
    middle = ball(law.exact_shift / 2)
    if law.noise is Noise.NORMAL:
        atom = ball(1 - law.exact_rate) * (middle / arb(2).sqrt()).erf()
        return atom + _normal_halves(law, c)
    atom = ball(1 - law.exact_rate) * -(-middle).expm1()
    return atom + sum((_laplace_beyond(law, power, Fraction(0)) for power in (1 + c, -c)), arb(0))


# Laplace noise


def _laplace_moment(law: Mixture, power: Fraction) -> arb:
    """The integral of density R^power over the line; R is constant on either side of the two centres."""
    shift = ball(abs(law.exact_shift))
    left = (ball(1 - law.exact_rate) + ball(law.exact_rate) * (-shift).exp()).log()
    below = (ball(power) * left).exp() / 2
    if law.is_moved:  # R = e^{2v}: the integral over e^{(2 power - 1) v} is a closed form
        steep = ball(2 * power - 1)
        between = (-shift / 2).exp() * (steep * shift / 2).sinh() / steep
        return below + between + _laplace_last(law, power)
    return below + _laplace_beyond(law, power, -abs(law.exact_shift) / 2)


def _laplace_beyond(law: Mixture, power: Fraction, start: Fraction) -> arb:
    """The integral of density R^power beyond the middle of the centres plus `start`."""
    rate, rest, exponent = ball(law.exact_rate), ball(1 - law.exact_rate), ball(power)

    middle = ball(abs(law.exact_shift) / 2)
    # the exponent is convex in v for a positive power, and falls for a negative one: an end is its peak
    ends = [exponent * (rest + rate * (2 * v).exp()).log() - v for v in (ball(start), middle)]
    peak = ends[0].max(ends[1]).mid()

    def integrand(v: acb, analytic: bool) -> acb:
        return (exponent * (rest + rate * (2 * v).exp()).log(analytic=analytic) - peak - v).exp()

    between = _integrate(integrand, ball(start), middle)
    return (peak - middle).exp() / 2 * between + _laplace_last(law, power)


def _laplace_last(law: Mixture, power: Fraction) -> arb:
    """What lies beyond the second centre, where R is constant."""
    shift = ball(abs(law.exact_shift))
    right = (ball(1 - law.exact_rate) + ball(law.exact_rate) * shift.exp()).log()
    return (ball(power) * right - shift).exp() / 2


def _integrate(integrand: Callable[[acb, bool], acb], low: arb, high: arb) -> arb:
    """By arb, whose quadrature encloses the integral; the integrand is to be of size 1 at its peak."""
    found = acb.integral(integrand, low, high, eval_limit=MOST_EVALUATIONS).real
    if not found.is_finite():
        raise EngineDeclines("the integrand is too steep")
    return found


# Normal noise


def _normal_halves(law: Mixture, c: Fraction) -> arb:
    """The integral of density (R^{1+c} + R^{-c}) beyond the middle of the centres.

    Its first half is M(c) of the remove pair less what lies below the middle. There R <= 1, and beyond it
    R^{-c} <= 1, so both integrands are at most the density.
    """
    plan = NormalSum(ShiftPair(law, Mixture(law.noise)), c)
    rate, rest, shift = ball(law.exact_rate), ball(1 - law.exact_rate), ball(law.exact_shift)
    half, reach = shift * shift / 2, ball(math.sqrt(2 * plan.kept))

    def integrate(power: arb, low: arb, high: arb) -> arb:
        def integrand(u: acb, analytic: bool) -> acb:
            log_ratio = (rest + rate * (shift * u - half).exp()).log(analytic=analytic)
            return (power * log_ratio - u * u / 2).exp()

        return _integrate(integrand, low, high)

    middle = shift / 2
    below = integrate(ball(1 + c), -reach, middle)
    beyond = integrate(ball(-c), middle, middle + reach)
    outside = arb(0, _upper_tail(reach).upper())  # of the first; the second has less, of the other sign
    return plan.moment() + (beyond - below) / (2 * arb.pi()).sqrt() + outside


def _upper_tail(x: arb) -> arb:
    """P(X > x), X standard normal."""
    return (x / arb(2).sqrt()).erfc() / 2


def _up_to(most: arb) -> arb:
    """A ball that holds 0, `most` and all between."""
    half = most.upper() / 2
    return arb(half, half)


@dataclass(frozen=True)
class _Rule:
    """A trapezoidal rule: its step, and the height y of the lines that bound what it misses.

    `is_relative`: the bound is a multiple of M(c), else of (1 - g')^{-c}.
    """

    step: float
    height: float
    is_relative: bool


class NormalSum:
    """M(c) of one pair of mixtures of normals, P moving right by a and Q left by b, at least one of them.

    The plan is made in floats and may be anything; what it misses is bounded in balls.
    """

    def __init__(self, pair: ShiftPair, c: Fraction) -> None:
        self.p, self.q, self.exact_c = pair.observed, pair.alternative, c
        if self.q.is_moved:
            raise EngineDeclines("Q has no plain part to divide by")
        self.c, self.a, self.b = float(c), self.p.shift, -self.q.shift
        self.kept = ctx.prec * math.log(2) + SPARE
        self.log_room = self.c * -self.q.log_rest  # ln of the largest R_Q^{-c}
        kept = self.kept + self.log_room
        self.low = -max(math.sqrt(2 * kept), self.b / 2)
        self.high = math.sqrt(2 * kept)
        if self.a:
            # as `tail_above` bounds it: by the shifted part and the plain one, or by e^{a u} alone
            drift = (1 + self.c) * self.a
            by_parts = max(drift + math.sqrt(2 * kept), math.sqrt(2 * (kept + self.c * math.log1p(self.c))))
            self.high = min(by_parts, drift + math.sqrt(2 * kept + drift**2)) + 1

    def moment(self) -> arb:
        """The sum over the nodes, with all that it can be off by."""
        rule = self._rule()
        first, last = math.floor(self.low / rule.step), math.ceil(self.high / rule.step)
        if last - first > MOST_GRID:
            raise EngineDeclines("the integrand oscillates too fast")
        places = np.arange(first, last + 1)
        log_f = self._log_f(places.astype(float) * rule.step)
        cut = float(log_f.max()) - self.kept - math.log(len(places))
        live = places[log_f >= cut]
        if len(live) > MOST_TERMS:
            raise EngineDeclines("too many nodes matter")
        step = ball(rule.step)
        # `_log_f` is right to within 1
        left_out = (len(places) - len(live)) * (ball(cut) + 1).exp()
        total = (self._sum(step, live.tolist()) + _up_to(left_out)) * step / (2 * arb.pi()).sqrt()
        total += _up_to(self._tails(step * first, step * last))
        return self._add_aliases(total, rule)

    def _sum(self, step: arb, places: list[int]) -> arb:
        """The sum of e^{-u^2/2} R_P^{1+c} R_Q^{-c} over the nodes."""
        above, below = ball(1 + self.exact_c), ball(self.exact_c)
        log_p, log_q = _log_ratio(self.p), _log_ratio(self.q)
        total = arb(0)
        for place in places:
            u = step * place
            exponent = -u * u / 2
            if log_p is not None:
                exponent += above * log_p(u)
            if log_q is not None:
                exponent -= below * log_q(u)
            total += exponent.exp()
        return total

    def _add_aliases(self, total: arb, rule: _Rule) -> arb:
        """M from the rule's sum over all nodes: off by (I_+ + I_-) / (e^{2 pi y / step} - 1).

        The integral I of |f| over a line at height y is at most e^{y^2/2 + 2 c tan^2(b y/2)} M(c), and where
        b y <= 1.2 and P is plain also at most e^{y^2/2} (1 - g')^{-c} (lemmas 2 and 3).
        """
        y, tilt = ball(rule.height), ball(self.exact_c)
        share = 2 * (y * y / 2).exp() / (2 * arb.pi() * y / ball(rule.step)).expm1()
        if not rule.is_relative:
            missed = share * (-tilt * ball(1 - self.q.exact_rate).log()).exp()
            return total + arb(0, missed.upper())
        if self.b:
            share *= (2 * tilt * (ball(-self.q.exact_shift) * y / 2).tan() ** 2).exp()
        if not share < arb(0.5):
            raise EngineDeclines("the integrand oscillates too fast")
        return total / (1 + arb(0, share.upper()))

    def _rule(self) -> _Rule:
        """The widest step whose aliases are below the last digit carried."""
        tallest = min([20.0] + [0.95 * math.pi / shift for shift in (self.a, self.b) if shift])
        y: Floats = tallest * np.geomspace(1e-6, 1.0, 200)
        wanted = self.kept + y**2 / 2
        steps = 2 * math.pi * y / (wanted + (2 * self.c * np.tan(self.b * y / 2) ** 2 if self.b else 0.0))
        best = _Rule(_shorten(float(steps.max())), float(y[steps.argmax()]), True)
        if self.p.is_plain:
            low = y * self.b <= 1.19
            steps = 2 * math.pi * y[low] / (wanted[low] + self.log_room)
            if steps.max() > best.step:
                best = _Rule(_shorten(float(steps.max())), float(y[low][steps.argmax()]), False)
        return best

    def _log_f(self, u: Floats) -> Floats:
        """ln of the terms, right to within 1, which is checked: only to see which of them matter."""
        log_f = -(u**2) / 2
        sizes = u**2
        for law, power in ((self.p, 1 + self.c), (self.q, -self.c)):
            if not law.is_plain:
                exponents = law.shift * (u - law.shift / 2)
                log_f += power * np.logaddexp(law.log_rest, law.log_rate + exponents)
                sizes += abs(power) * (abs(law.shift) * (np.abs(u) + abs(law.shift)) - law.log_rate + 16)
                sizes -= 0 if law.is_moved else abs(power) * law.log_rest
        # some ten roundings and functions, each right to 8 u of these sizes
        if not 128 * UNIT_ROUNDOFF * float(sizes.max()) < 1:
            raise EngineDeclines("the losses are too large for floats to sort")
        return log_f

    def _tails(self, low: arb, high: arb) -> arb:
        """At most this much of f lies outside [low, high], low <= -b/2, high >= (1 + c) a (lemma 3)."""
        room = (-ball(self.exact_c) * ball(1 - self.q.exact_rate).log()).exp()
        return room * (_upper_tail(-low) + self.tail_above(high))

    def tail_above(self, high: arb) -> arb:
        """A bound on the integral of density R_P^{1+c} above `high` >= (1 + c) a; it holds for sums, too.

        For x, y > 0 and 0 < s < 1, (x + y)^{1+c} <= s^{-c} x^{1+c} + (1-s)^{-c} y^{1+c}; also R_P <= e^{au}.
        """
        if self.p.is_plain:
            return _upper_tail(high)
        c, rate, shift = ball(self.exact_c), ball(self.p.exact_rate), ball(self.p.exact_shift)
        drift = (1 + c) * shift
        moved = _upper_tail(high - drift)
        best = (drift * drift / 2).exp() * moved
        for share in (1 / (2 + self.exact_c), 1 - self.p.exact_rate):
            if 0 < share < 1:
                plain = ((1 + c) * ball(1 - self.p.exact_rate).log() - c * ball(share).log()).exp()
                far = (1 + c) * rate.log() + c * drift * shift / 2 - c * ball(1 - share).log()
                best = best.min(plain * _upper_tail(high) + far.exp() * moved)
        return best


def _log_ratio(law: Mixture) -> Callable[[arb], arb] | None:
    """u -> ln R(u); None where R is 1."""
    if law.is_plain:
        return None
    rate, rest, shift = ball(law.exact_rate), ball(1 - law.exact_rate), ball(law.exact_shift)
    half = shift * shift / 2
    return lambda u: (rest + rate * (shift * u - half).exp()).log()


def _shorten(step: float) -> float:
    """Down to 10 bits, so that nodes are exact numbers."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(mantissa * 1024), exponent - 10)
