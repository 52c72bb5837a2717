"""M(z) of one step, and delta of two, by certified integration in ball arithmetic."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from flint import acb, arb, ctx, fmpq

from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair

BITS = 140
Integrand = Callable[[acb, bool], acb]


def exact(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


def integrate(f: Integrand, cuts: Sequence[arb | float]) -> acb:
    total = acb(0)
    for low, high in pairwise(cuts):
        total += acb.integral(
            f, acb(low), acb(high), rel_tol=arb(2) ** -90, abs_tol=arb(0), eval_limit=4000, depth_limit=200
        )
    return total


def moment(pair: Pair, c: float, t: float, cap: float = math.inf) -> acb:
    """M(c + it); beyond 15 deviations of the normal laws, about e^-112 of it is left out.

    Of normal noise only outputs up to `cap`; of an envelope, losses above 0 only up to there.
    """
    with ctx.workprec(BITS):
        if isinstance(pair, LabelledPair):
            return sum((exact(weight) * moment(part, c, t) for weight, part in pair.parts), acb(0))
        if isinstance(pair, Envelope):
            return _of_envelope(pair, acb(c, t), cap)
        assert isinstance(pair, ShiftPair)
        return _of_normals(pair, c, t, cap) if pair.has_normal_noise else _of_laplace(pair, acb(c, t))


def _log_ratio(law: Mixture, u: acb, analytic: bool) -> acb:
    """ln R for normal noise, where it is analytic."""
    if law.is_plain:
        return acb(0)
    rate, shift = exact(law.exact_rate), exact(law.exact_shift)
    log_moved = shift * u - shift * shift / 2
    return log_moved if law.is_moved else ((1 - rate) + rate * log_moved.exp()).log(analytic=analytic)


def _of_normals(pair: ShiftPair, c: float, t: float, cap: float) -> acb:
    p, q, z = pair.observed, pair.alternative, acb(c, t)

    def f(u: acb, analytic: bool) -> acb:
        log_p, log_q = _log_ratio(p, u, analytic), _log_ratio(q, u, analytic)
        return (-u * u / 2 + (1 + z) * log_p - z * log_q).exp()

    room = 15 + math.sqrt(2 * c * -q.log_rest)
    low, high = -room + q.shift, (1 + c) * p.shift + room + math.sqrt(1.4 * c)
    cuts = {low, 0.0, p.shift, (1 + c) * p.shift / 2, (1 + c) * p.shift, high}
    if cap < math.inf:
        cuts = {cut for cut in cuts if cut < cap} | {cap}
    return integrate(f, sorted(cuts)) / (2 * arb.pi()).sqrt()


def _of_laplace(pair: ShiftPair, z: acb) -> acb:
    """In the distance v from the plain centre towards the other: e^-v / 2, R = 1 - g + g e^{2v - shift}."""
    law, power = (pair.alternative, -z) if pair.observed.is_plain else (pair.observed, 1 + z)
    rate, shift = exact(law.exact_rate), abs(exact(law.exact_shift))

    def raised(v: acb, analytic: bool) -> acb:
        return (power * ((1 - rate) + rate * (2 * v - shift).exp()).log(analytic=analytic)).exp()

    ends = (raised(acb(0), False) + raised(acb(shift), False) * (-shift).exp()) / 2
    inner = integrate(lambda v, analytic: (-v).exp() / 2 * raised(v, analytic), [arb(0), shift / 2, shift])
    return ends + inner


def _of_envelope(pair: Envelope, z: acb, cap: float) -> acb:
    law = pair.remove.observed
    rate, shift = exact(law.exact_rate), exact(law.exact_shift)
    middle, normal = shift / 2, pair.noise is Noise.NORMAL
    steep = shift if normal else arb(2)

    def density(v: acb) -> acb:
        u = middle + v
        return (-u * u / 2).exp() / (2 * arb.pi()).sqrt() if normal else (-u).exp() / 2

    def both(v: acb, analytic: bool) -> acb:
        log_r = ((1 - rate) + rate * (steep * v).exp()).log(analytic=analytic)
        return ((1 + z) * log_r).exp() + (-z * log_r).exp()

    def f(v: acb, analytic: bool) -> acb:
        return density(v) * both(v, analytic)

    if not normal:
        atoms = (1 - rate) * (1 - (-middle).exp()) + (-shift).exp() / 2 * both(acb(middle), False)
        return atoms + integrate(f, [arb(0), middle / 2, middle])
    if cap < math.inf:

        def capped(v: acb, analytic: bool) -> acb:
            log_r = ((1 - rate) + rate * (steep * v).exp()).log(analytic=analytic)
            return density(v) * ((1 + z) * log_r).exp()

        def below(v: acb, analytic: bool) -> acb:
            log_r = ((1 - rate) + rate * (steep * v).exp()).log(analytic=analytic)
            return density(v) * (-z * log_r).exp()

        end = arb(cap)  # a distance from the middle
        halves = integrate(capped, [arb(0), end / 2, end]) + integrate(below, [arb(0), end, end + 15])
        return (1 - rate) * (middle / arb(2).sqrt()).erf() + halves
    c, half = float(z.real), law.shift / 2
    peak = (1 + c) * law.shift
    cuts = {0.0, max(peak / 2 - half, 0.0), max(peak - half, 0.0), peak + 15 + math.sqrt(1.4 * c)}
    return (1 - rate) * (middle / arb(2).sqrt()).erf() + integrate(f, sorted(cuts))


def two_steps(pair: ShiftPair, epsilon: float) -> arb:
    """delta(epsilon) of two steps of (mixture, plain), normal noise: E_P[delta_1(epsilon - loss)].

    From the output on at which the other step must exceed -25 only, delta_1 is 1 - e^{epsilon - loss}, up to
    e^-300.
    """
    with ctx.workprec(BITS):
        rate, shift = exact(pair.observed.exact_rate), exact(pair.observed.exact_shift)
        factor, rest = arb(epsilon).exp(), 1 - rate

        def above(x: Any) -> Any:
            return (x / arb(2).sqrt()).erfc() / 2

        def f(u: acb, analytic: bool) -> acb:
            ratio = rest + rate * (shift * u - shift * shift / 2).exp()
            x = ((factor / ratio - rest) / rate).log(analytic=analytic) / shift + shift / 2
            gain = ratio * (rest * above(x) + rate * above(x - shift)) - factor * above(x)
            return acb((-u * u / 2).exp() / (2 * arb.pi()).sqrt() * gain)

        least = rest + rate * (-25 * shift - shift * shift / 2).exp()
        end = ((factor / least - rest) / rate).log() / shift + shift / 2
        assert -38 < end < 38
        cuts = [arb(-40.0), arb(-10.0), end - 1, end] if end > -9 else [arb(-40.0), end]
        beyond = rest * above(end) + rate * above(end - shift) - factor * above(end)
        return arb(integrate(f, cuts).real + beyond)
