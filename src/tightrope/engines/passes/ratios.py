"""The likelihood ratio of one step on a batch that holds the record, and its law on a ladder of lattices.

It is the V of theorems/proofs/balls_in_bins.md, which derives its masses on a lattice (One V).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import arb, ctx, fmpz_poly
from scipy.special import ndtri

from tightrope.engines.passes.ladder import RUNG_BITS, Ladder, Part, Reach
from tightrope.engines.passes.smooth import LEAST_HALF, MOST_HALF, Number, SmoothLaws, spread_block
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.balls import ball
from tightrope.pairs.finite_pair import FinitePair

FURTHEST_NOISE = 10.0  # standard deviations at which normal noise is cut: beyond lies less than 1e-23
GUARD_BITS = 64  # that balls carry beyond those of masses, some of which cancel

TRY_ANOTHER = "Ask for a slightly different {noise_multiplier}."

# of each law that is made, what lies above a point: its mass there and its mean there
Tails = tuple[tuple[arb, arb], ...]


class Tailed(ABC):
    """Laws of a number, by what they have above each place."""

    @abstractmethod
    def tails(self, place: arb) -> Tails:
        """What each law has from this place on, which is not 0."""

    @property
    @abstractmethod
    def totals(self) -> Tails:
        """What each law has from 0 on."""


class StepRatio(Tailed):
    """V = dP/dQ of one step. Under Q its law is the first of two, the second is the first weighted by V."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """About where V is cut."""

    @property
    @abstractmethod
    def deviation(self) -> float:
        """About E|V - 1|."""

    @abstractmethod
    def quantile(self, mass: float) -> float:
        """About the place below which V lies with this probability."""

    @abstractmethod
    def weighted_quantile(self, mass: float) -> float:
        """The same in the weighted law; positive."""


@dataclass(frozen=True)
class NormalRatio(StepRatio, SmoothLaws):
    """V = exp(a z - a^2 / 2), z standard normal, for normal noise that the record moves by `separation`."""

    separation: Fraction

    @property
    def largest(self) -> float:
        """Where even the weighted law has next to nothing beyond."""
        a = float(self.separation)
        return math.exp(a * a / 2 + FURTHEST_NOISE * a)

    @property
    def deviation(self) -> float:
        """Twice the total variation."""
        return 2 * math.erf(float(self.separation) / math.sqrt(8))

    def quantile(self, mass: float) -> float:
        """In closed form."""
        a = float(self.separation)
        return math.exp(a * float(ndtri(mass)) - a * a / 2)

    def weighted_quantile(self, mass: float) -> float:
        """Weighting moves z by a."""
        a = float(self.separation)
        return math.exp(a * float(ndtri(mass)) + a * a / 2)

    def tails(self, place: arb) -> Tails:
        """E[V^j; V >= place] = e^{a^2 j (j-1) / 2} P(z >= d - j a)."""
        a = ball(self.separation)
        d = place.log() / a + a / 2
        zero, one, two = (((d - j * a) / arb(2).sqrt()).erfc() / 2 for j in range(3))
        return (zero, one), (one, (a * a).exp() * two)

    @property
    def totals(self) -> Tails:
        """1, 1 and e^{a^2}."""
        return (arb(1), arb(1)), (arb(1), (ball(self.separation) ** 2).exp())

    def densities(self, place: Number) -> tuple[Number, ...]:
        """e^{-z^2 / 2} / (sqrt(2 pi) a v) at v = e^{a z - a^2 / 2}, and v times that."""
        a = ball(self.separation)
        z = place.log() / a + a / 2
        weighted = (-z * z / 2).exp() / (a * (2 * arb.pi()).sqrt())
        return weighted / place, weighted

    def radius(self, place: float) -> float:
        """Clear of 0, and so that z moves by about 1 at most."""
        return place * min(0.5, float(self.separation))


@dataclass(frozen=True)
class LaplaceRatio(StepRatio):
    """V for Laplace noise that the record moves by `separation` scales: e^{2x - a} for x in [0, a]."""

    separation: Fraction

    @property
    def largest(self) -> float:
        """e^a, reached with positive probability."""
        return math.exp(float(self.separation))

    @property
    def deviation(self) -> float:
        """Twice the total variation."""
        return -2 * math.expm1(-float(self.separation) / 2)

    def quantile(self, mass: float) -> float:
        """Half of the mass lies at the lowest place."""
        x = min(max(-math.log(2 * (1 - mass)) if mass > 0.5 else 0.0, 0.0), float(self.separation))
        return math.exp(2 * x - float(self.separation))

    def weighted_quantile(self, mass: float) -> float:
        """P has less at low places: the ends will do."""
        return self.quantile(0.0) if mass < 0.5 else self.largest

    def tails(self, place: arb) -> Tails:
        """Integrals of e^{-x} / 2 times powers of V, and what lies at the ends."""
        a = ball(self.separation)
        if place < (-a).exp():
            return self.totals
        if place > a.exp():
            return (arb(0), arb(0)), (arb(0), arb(0))
        if not (-a).exp() < place < a.exp():  # no point is an end, but the ball does not tell
            raise NotPreciseEnough("a point of a lattice is too close to an end of the losses", TRY_ANOTHER)
        x = (place.log() + a) / 2
        zero, one = (-x).exp() / 2, 1 - (x - a).exp() / 2
        two = (a.exp() - (3 * x - 2 * a).exp()) / 6 + a.exp() / 2
        return (zero, one), (one, two)

    @property
    def totals(self) -> Tails:
        """With the half of the mass that lies at e^-a."""
        a = ball(self.separation)
        two = (a.exp() - (-2 * a).exp()) / 6 + a.exp() / 2 + (-2 * a).exp() / 2
        return (arb(1), arb(1)), (arb(1), two)


@dataclass(frozen=True)
class FiniteRatio(StepRatio):
    """V for a step with finitely many outputs; outputs that Q cannot produce are in no law."""

    pair: FinitePair

    @property
    def _ratios(self) -> list[tuple[Fraction, Fraction, Fraction]]:
        return [(p / q, p, q) for p, q in self.pair.levels]

    @property
    def largest(self) -> float:
        """The largest one."""
        return float(max((ratio for ratio, _, _ in self._ratios), default=Fraction(1)))

    @property
    def deviation(self) -> float:
        """Twice the total variation."""
        return 2 * self.pair.total_variation

    def quantile(self, mass: float) -> float:
        """The lowest place with so much at or below it."""
        below = 1 - sum((q for _, _, q in self._ratios), Fraction(0))  # where V is 0
        if below >= mass:
            return 0.0
        for ratio, _, q in self._ratios:
            below += q
            if below >= mass:
                return float(ratio)
        return self.largest

    def weighted_quantile(self, mass: float) -> float:
        """The lowest place with so much of P at or below it."""
        below, wanted = Fraction(0), Fraction(mass) * (1 - self.pair.infinite_mass)
        for ratio, p, _ in self._ratios:
            below += p
            if below >= wanted and ratio:
                return float(ratio)
        return self.largest

    def tails(self, place: arb) -> Tails:
        """Finite sums; a ball that may or may not reach an output counts it to both ends."""
        found = [arb(0)] * 3
        for ratio, p, q in self._ratios:
            at = ball(ratio)
            reached = arb(1) if at >= place else arb(0) if at < place else arb(0).union(arb(1))
            found = [
                total + reached * ball(mass) for total, mass in zip(found, (q, p, p * ratio), strict=True)
            ]
        return (found[0], found[1]), (found[1], found[2])

    @property
    def totals(self) -> Tails:
        """Q has mass 1, also where V is 0."""
        p = sum((p for _, p, _ in self._ratios), Fraction(0))
        square = sum((p * ratio for ratio, p, _ in self._ratios), Fraction(0))
        return (arb(1), ball(p)), (ball(p), ball(square))


def make_laws(ratio: StepRatio, exponent: int, bits: int, window: Reach) -> tuple[Ladder, ...]:
    """The laws of V on a ladder whose lowest step is 2^exponent.

    What is cut off above lies at the last point, what is cut off below is left out.
    """
    first = _round_down(ratio.quantile(2.0**-bits) / 2.0**exponent)
    ends = [_round_down(first + window.ahead(0))]
    while ends[-1] * 2.0 ** (exponent + RUNG_BITS * (len(ends) - 1)) < ratio.largest:
        coarser = RUNG_BITS * len(ends)
        ends.append(_round_down((first >> coarser) + window.ahead(coarser)))
    exponents = [exponent + RUNG_BITS * rung for rung in range(len(ends))]
    parts: list[list[Part]] = []
    with ctx.workprec(bits + GUARD_BITS + first.bit_length()):  # what is divided by the step cancels
        start = first
        for of_rung, last in zip(exponents, ends, strict=True):
            spreading = Spreading(ratio, of_rung, range(start, last + 1), bits)
            if of_rung == exponents[-1]:
                spreading.add(last, (mass for mass, _ in ratio.tails(arb(2) ** of_rung * last)))
            parts.append(spreading.parts())
            start = last >> RUNG_BITS
    return tuple(Ladder(tuple(exponents), tuple(rungs), bits) for rungs in zip(*parts, strict=True))


def _round_down(steps: float) -> int:
    """To a point that the next rung has too."""
    return math.floor(steps) >> RUNG_BITS << RUNG_BITS


class Spreading:
    """Each law between the first and the last of some points, spread onto the points, the mean kept.

    In blocks of series where it has a density, else by what it has above each point. Masses are rounded down.
    """

    def __init__(self, laws: "Tailed", exponent: int, points: range, bits: int) -> None:
        self.laws, self.exponent, self.bits, self.start = laws, exponent, bits, points.start
        self.masses = [[0] * len(points) for _ in laws.totals]
        done, last = points.start, points[-1]
        for block, found in self._find_blocks(points):
            self._compare_tails(range(done, block.start + 1))
            for i, masses in zip(block, zip(*found, strict=True), strict=True):
                self.add(i, masses)
            done = block[-1]
        self._compare_tails(range(done, last + 1))

    def _find_blocks(self, points: range) -> Iterator[tuple[range, list[list[arb]]]]:
        """Blocks of points in order, with what the laws have there; the largest that a series is good for."""
        if not isinstance(self.laws, SmoothLaws):
            return
        width = 2 * MOST_HALF
        waiting = [range(i - width, i + 1) for i in range(points[-1], points.start + width - 1, -width)]
        while waiting:
            block = waiting.pop()
            found = spread_block(self.laws, self.exponent, block, self.bits)
            if found is not None:
                yield block, found
            elif len(block) // 4 >= LEAST_HALF:
                middle = len(block) // 2
                waiting += [block[middle:], block[: middle + 1]]

    def add(self, point: int, masses: Iterable[arb]) -> None:
        """A mass of each law at a point, rounded down."""
        for law, mass in zip(self.masses, masses, strict=True):
            law[point - self.start] += floor_mass(mass, self.bits)

    def parts(self) -> list[Part]:
        """What each law has."""
        return [Part(self.start, fmpz_poly(masses)).trim() for masses in self.masses]

    def _compare_tails(self, points: range) -> None:
        """P(V >= point) as the chord of E(V - .)_+ before it sees it, less as the chord after it does."""
        if len(points) < 2:
            return
        step = arb(2) ** self.exponent
        above = [self.laws.tails(step * i) if i else self.laws.totals for i in points]
        by_law = []
        for tails in zip(*above, strict=True):
            calls = [mean - step * i * mass for (mass, mean), i in zip(tails, points, strict=True)]
            slopes = [(here - after) / step for here, after in pairwise(calls)]
            seen = pairwise([tails[0][0], *slopes, tails[-1][0]])
            by_law.append([before - after for before, after in seen])
        for i, masses in zip(points, zip(*by_law, strict=True), strict=True):
            self.add(i, masses)


def floor_mass(mass: arb, bits: int) -> int:
    """The largest number of units of 2^-bits that is certainly not above the mass."""
    mantissa, exponent = mass.lower().man_exp()
    shift = int(exponent) + bits
    return max(int(mantissa) << shift if shift >= 0 else int(mantissa) >> -shift, 0)
