"""One pass in which a record is exchanged for its opposite: the curve at one order t, above and below.

With y = the outputs, base N(0), X = dN(1)/dN(0) and X' = dN(-1)/dN(0) of a batch, the pass has
batches (P - t Q) = sum D_i + unseen (1 - t), D = X - t X', which grows with the noise of the batch. So
H_t = E(sum D_i + unseen (1 - t))_+ / batches. From above D is spread; from below the same spread is a label,
whose masses under P and under Q are those of the base weighted by the sums of X and of X'.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import acb, arb, ctx

from tightrope.engines.face import ABOVE, Side
from tightrope.engines.passes.ladder import RUNG_BITS, Ladder, Part, Reach
from tightrope.engines.passes.pass_laws import SumLaws, add_up, count_bits
from tightrope.engines.passes.ratios import FURTHEST_NOISE, GUARD_BITS, Spreading, Tailed, Tails
from tightrope.engines.passes.smooth import Number, SmoothLaws
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import share_denominator
from tightrope.pairs.allocation import Allocation

SPARE_CHARGED_BITS = 48  # of masses, beyond the usual: what rounding takes is charged at the largest number
INNER_REACH, OUTER_REACH = 26, 8  # from the mean, of the lowest rung and of others, in mean deviations
KEPT_VALUES = 4096  # of curves, each at an order


@dataclass(frozen=True)
class Difference(Tailed, SmoothLaws):
    """D = X - t X', X = exp(a z - a^2 / 2), X' = exp(-a z - a^2 / 2), z standard normal."""

    separation: Fraction
    order: Fraction
    weights: bool

    @property
    def largest(self) -> float:
        """Where D is cut, on both sides."""
        a = float(self.separation)
        return float(self.order) * math.exp(a * a / 2 + FURTHEST_NOISE * a)

    def tails(self, place: arb) -> Tails:
        """E[X^i X'^j; D >= place] = e^{((i-j)^2 - i - j) a^2 / 2} P(z >= d - (i - j) a)."""
        a, t = ball(self.separation), ball(self.order)
        product = (-a * a).exp()  # X X'
        root = (place * place + 4 * t * product).sqrt()
        x = (place + root) / 2 if place >= 0 else 2 * t * product / (root - place)
        d = x.log() / a + a / 2

        def beyond(moved: int) -> arb:
            return ((d - moved * a) / arb(2).sqrt()).erfc() / 2

        zero, one, other = beyond(0), beyond(1), beyond(-1)
        plain = (zero, one - t * other)
        if not self.weights:
            return (plain,)
        square = (a * a).exp()
        by_x = (one, square * beyond(2) - t * product * zero)
        by_other = (other, product * zero - t * square * beyond(-2))
        return plain, by_x, by_other

    @property
    def totals(self) -> Tails:
        """0 is a place like any other."""
        return self.tails(arb(0))

    def densities(self, place: Number) -> tuple[Number, ...]:
        """e^{-z^2 / 2} / (sqrt(2 pi) a (x + t x')) at x - t x' = place, times 1, x and x' = e^{-a^2} / x."""
        a, t = ball(self.separation), ball(self.order)
        product = (-a * a).exp()
        root = (place * place + 4 * t * product).sqrt()
        is_negative = (place.real if isinstance(place, acb) else place[0]) < 0
        x = 2 * t * product / (root - place) if is_negative else (place + root) / 2
        z = x.log() / a + a / 2
        plain = (-z * z / 2).exp() / (root * a * (2 * arb.pi()).sqrt())
        return (plain, plain * x, plain * product / x) if self.weights else (plain,)

    def radius(self, place: float) -> float:
        """Clear of the two places in the plane where x + t x' is 0, and so that z moves by 1 or so."""
        a, t = float(self.separation), float(self.order)
        return min(0.6, a) * math.hypot(place, 2 * math.sqrt(t) * math.exp(-a * a / 2))

    def excess(self, place: arb) -> arb:
        """E(D - place)_+."""
        mass, mean = self.tails(place)[0]
        return mean - place * mass


def make_laws(difference: Difference, exponent: int, bits: int, reach: int) -> tuple[Ladder, ...]:
    """The laws of D, cut to the last points on both sides, on a ladder around 0 whose rungs reach so far."""
    ends = [reach]
    while ends[-1] * 2.0 ** (exponent + RUNG_BITS * (len(ends) - 1)) < difference.largest:
        ends.append(reach)
    parts: list[list[Part]] = []
    with ctx.workprec(bits + GUARD_BITS):
        for rung, last in enumerate(ends):
            of_rung, is_top = exponent + RUNG_BITS * rung, rung == len(ends) - 1
            inner = ends[rung - 1] >> RUNG_BITS if rung else 0
            sides = [range(-last, -inner + 1), range(inner, last + 1)] if rung else [range(-last, last + 1)]
            found = [_spread(difference, of_rung, points, bits, last if is_top else None) for points in sides]
            parts.append([sum(both[1:], both[0]) for both in zip(*found, strict=True)])
    exponents = tuple(exponent + RUNG_BITS * rung for rung in range(len(ends)))
    return tuple(Ladder(exponents, tuple(rungs), bits) for rungs in zip(*parts, strict=True))


def _spread(difference: Difference, exponent: int, points: range, bits: int, end: int | None) -> list[Part]:
    """The laws between the first and the last point; what lies beyond an end of the ladder is moved to it."""
    spreading = Spreading(difference, exponent, points, bits)
    for point in (points[0], points[-1]):
        if end == abs(point):
            above = [mass for mass, _ in difference.tails(arb(2) ** exponent * point)]  # of laws of mass 1
            spreading.add(point, above if point > 0 else [1 - mass for mass in above])
    return spreading.parts()


@lru_cache(maxsize=KEPT_VALUES)
def bound_divergence(pair: Allocation, order: Fraction, side: Side, fine: int) -> arb:
    """A ball whose upper end is not below H_order, or whose lower end is not above it; order >= 1."""
    separation = pair.step.exact_gaussian_separation
    assert separation is not None
    difference = Difference(separation, order, weights=side is not ABOVE)
    if side is not ABOVE:
        return _below(label_outputs(pair, order, fine), pair, difference)
    one = _one_batch(difference, fine, pair.released)
    laws = _add_up(one, pair, fine)
    with ctx.workprec(one.plain.bits + GUARD_BITS):
        return _above(laws, pair, difference, one.highest)


def label_outputs(pair: Allocation, order: Fraction, fine: int) -> SumLaws:
    """The laws of sum D_i as a label of the outputs: under the base, weighted by X, weighted by X'."""
    separation = pair.step.exact_gaussian_separation
    assert separation is not None
    return _add_up(_one_batch(Difference(separation, order, weights=True), fine, pair.released), pair, fine)


def _one_batch(difference: Difference, fine: int, count: int) -> SumLaws:
    a, t = float(difference.separation), float(difference.order)
    deviation = (1 + t) * 2 * math.erf(a / math.sqrt(8))  # about E|D - 1 + t|
    exponent = math.floor(math.log2(deviation / fine))
    plain, *weighted = make_laws(
        difference, exponent, count_bits(difference.largest * count) + SPARE_CHARGED_BITS, OUTER_REACH * fine
    )
    window = Reach(INNER_REACH * fine, OUTER_REACH * fine, is_two_sided=True)
    last = OUTER_REACH * fine * Fraction(2) ** plain.exponents[-1]
    return SumLaws(1, plain, tuple(weighted), window, middle=1 - difference.order, highest=last)


def _add_up(one: SumLaws, pair: Allocation, fine: int) -> SumLaws:
    return add_up(one, pair.released, lambda laws: laws.plain.deviation(laws.centre) >= 2 * fine)


def _above(laws: SumLaws, pair: Allocation, difference: Difference, last: Fraction) -> arb:
    """The mean of what is positive, what rounding took at its furthest, and what lies beyond the cut."""
    step, unit = Fraction(2) ** laws.plain.exponents[0], Fraction(1, 1 << laws.plain.bits)
    unseen = (pair.batches - pair.released) * (1 - difference.order)
    (up, more), whole = share_denominator([step, unseen])
    total = kept = 0
    for place, mass in laws.plain.atoms():
        kept += mass
        total += mass * max(place * up + more, 0)
    furthest = max(laws.highest + unseen, Fraction(0))
    found = ball(Fraction(total, whole) * unit + (1 - kept * unit) * furthest)
    return (found + pair.released * difference.excess(ball(last))) / pair.batches


def _below(laws: SumLaws, pair: Allocation, difference: Difference) -> arb:
    """What the labels reach that P has more of, less what rounding may have taken from Q."""
    t, unseen = difference.order, pair.batches - pair.released
    gains: dict[int, Fraction] = {}
    weights = (unseen * (1 - t), Fraction(1), -t)
    missing = Fraction(0)
    for law, weight in zip((laws.plain, *laws.weighted), weights, strict=True):
        kept = 0
        for place, mass in law.atoms():
            kept += mass
            gains[place] = gains.get(place, Fraction(0)) + weight * mass
        whole = (1 if law is laws.plain else pair.released) << law.bits
        missing += max(-weight, Fraction(0)) * (whole - kept)
    reached = sum((gain for gain in gains.values() if gain > 0), Fraction(0)) - missing
    with ctx.workprec(laws.plain.bits + GUARD_BITS):
        return ball(reached / (pair.batches << laws.plain.bits)).max(0)
