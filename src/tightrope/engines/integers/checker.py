"""Bounds on the curve of a composed schedule, in exact integers and balls: no floating point decides.

Losses are whole multiples of a rational spacing, masses of 2^-bits, and each rounding has a side: H_t of one
step in a ball, the step on the lattice, k steps as products of polynomials, delta(epsilon) as a suffix sum.
theorems/proofs/exact_integers.md proves it in the order of this file. Callers choose spacing, bits, cuts,
labels and windows: a bad choice makes a bound loose, never wrong.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from operator import attrgetter

from flint import arb, ctx, fmpq, fmpz, fmpz_poly

from tightrope.engines.face import ABOVE, BELOW, Side
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.mixture import Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair

GUARD = 64  # bits that balls carry beyond the masses: only the width of a bound depends on it
ROOT_BITS = 1024  # of a rounded root: likewise

LabelledOutputs = tuple[int, arb, arb]  # the label, the P-mass and the Q-mass of some outputs


@dataclass(frozen=True)
class Lattice:
    """Losses are counted in units of `spacing`, masses in units of 2^-bits."""

    spacing: Fraction
    bits: int

    def loss(self, index: int | Fraction) -> arb:
        """index * spacing."""
        return real(index) * real(self.spacing)

    def round_up(self, mass: arb) -> int:
        """The smallest whole number of units that is certainly not below the mass."""
        return -self.round_down(-mass)

    def round_down(self, mass: arb) -> int:
        """The largest whole number of units that is certainly not above the mass."""
        mantissa, exponent = mass.lower().man_exp()
        shift = int(exponent) + self.bits
        return int(mantissa) << shift if shift >= 0 else int(mantissa) >> -shift


def real(value: Fraction | int) -> arb:
    """The number in a ball of the working precision."""
    return arb(fmpq(value.numerator, value.denominator))


@dataclass(frozen=True)
class OutputCut:
    """P(X > x), Q(X > x) and dP/dQ(x) at one output x, where dP/dQ grows with the output."""

    x: arb
    p: arb
    q: arb
    ratio: arb

    def divergence(self, t: arb) -> arb:
        """H_t, wherever the cut is: the event X > x errs only between x and the output with dP/dQ = t."""
        reached = self.p - t * self.q
        missed = (1 - t / self.ratio).max(0) * (1 - self.p) + (t - self.ratio).max(0) * self.q
        return reached.union(reached + missed)


def cut(pair: ShiftPair, outputs: Iterable[arb]) -> list[OutputCut]:
    """The pair cut at each output."""
    mixtures = pair.observed, pair.alternative
    # plain noise has {0: 1}
    weights = [{m.exact_shift: m.exact_rate, Fraction(0): 1 - m.exact_rate} for m in mixtures]
    places = sorted({*weights[0], *weights[1]})
    centres = [real(at) for at in places]
    laws = [[(places.index(at), real(weight)) for at, weight in law.items()] for law in weights]
    found = []
    for x in (output.mid() for output in outputs):
        tails = [_tail(pair.noise, x - centre) for centre in centres]
        ratios = [_shift_ratio(pair.noise, x, centre) for centre in centres]
        p, q, r, s = (sum((w * of[i] for i, w in law), arb(0)) for of in (tails, ratios) for law in laws)
        found.append(OutputCut(x, p, q, r / s))
    return found


def _tail(noise: Noise, x: arb) -> arb:
    """P(noise > x)."""
    if noise is Noise.NORMAL:
        return (x / arb(2).sqrt()).erfc() / 2
    return (-x.max(0)).exp() / 2 + (1 - x.min(0).exp()) / 2


def _shift_ratio(noise: Noise, x: arb, at: arb) -> arb:
    """The density at x of noise around `at`, over that of noise around 0."""
    return (at * (x - at / 2)).exp() if noise is Noise.NORMAL else (abs(x) - abs(x - at)).exp()


def divergence(pair: Pair, t: arb, cut: OutputCut | None) -> arb:
    """H_t of a pair of additive noise from a cut, of an envelope from one of `remove`, of a finite pair."""
    if isinstance(pair, FinitePair):
        outputs = zip(pair.observed.masses, pair.alternative.masses, strict=True)
        return sum(((real(p) - t * real(q)).max(0) for p, q in outputs), arb(0))
    assert cut is not None
    if isinstance(pair, Envelope) and t < 1:  # where it is that of the reverse of `remove`
        return 1 - t + t * cut.divergence(1 / t)
    assert isinstance(pair, ShiftPair) or t >= 1
    return cut.divergence(t)


def largest_ratio(pair: Pair) -> arb:
    """The supremum of dP/dQ over the outputs of Q; infinite for normal noise that moves P, or all of Q."""
    if isinstance(pair, FinitePair):
        return max((real(p / q) for p, q in pair.levels), default=arb(0))
    noisy = pair.remove if isinstance(pair, Envelope) else pair
    assert isinstance(noisy, ShiftPair)
    if noisy.noise is Noise.LAPLACE:  # constant beyond every centre
        return cut(noisy, [real(noisy.observed.exact_shift)])[0].ratio
    rest = 1 - noisy.alternative.exact_rate
    return 1 / real(rest) if noisy.observed.is_plain and rest else arb.pos_inf()


def join_normals(schedule: Schedule, side: Side) -> Schedule:
    """All steps between two single normals as one: their squared separations add up; the root is rounded."""
    rest, square = [], Fraction(0)
    for pair, times in schedule:
        apart = pair.exact_gaussian_separation
        square += times * (apart or 0) ** 2
        rest += [] if apart else [(pair, times)]
    root = math.isqrt(square.numerator * square.denominator << 2 * ROOT_BITS) + (side is ABOVE)
    joined = ShiftPair.of_normals(Fraction(root, square.denominator << ROOT_BITS))
    return Schedule([*rest, (joined, 1)]) if square else schedule


@dataclass(frozen=True)
class Law:
    """Coefficient i of `p` and of `q` belongs to the loss (start + i + offset) * spacing.

    ABOVE: a step with P-masses p at these losses and `infinite` at +infinity dominates; `q` is `p`.
    BELOW: outputs carry labels. Under P label i has at least mass p_i, under Q at most q_i e^-loss, and
    `infinite` is at most the P-mass of outputs that Q cannot produce, which carry none.
    """

    side: Side
    start: int
    offset: Fraction
    p: fmpz_poly
    q: fmpz_poly
    infinite: int


def dominate(divergences: Sequence[arb], start: int, lattice: Lattice) -> Law:
    """ABOVE, from H_t at t = e^loss for consecutive losses: the chords of t -> H_t, rounded up."""
    e = lattice.loss(1).exp()
    d = [1 - (1 - divergences[0]) / e, *divergences, divergences[-1]]  # H_0 = 1; flat after the last
    masses = [(d[i + 1] - d[i] - e * (d[i] - d[i - 1])) / (e - 1) for i in range(1, len(d) - 1)]
    p = fmpz_poly([lattice.round_up(mass) for mass in masses])
    return Law(ABOVE, start, Fraction(0), p, p, lattice.round_up(divergences[-1]))


def split(cuts: Iterable[OutputCut], first: int) -> Iterator[LabelledOutputs]:
    """All outputs, between cuts in any order: labelled `first` before the lowest cut, then first + 1, ..."""
    ordered = ((one.p, one.q) for one in sorted(cuts, key=attrgetter("x")))
    tails = [(arb(1), arb(1)), *ordered, (arb(0), arb(0))]
    for label, ((p, q), (p_next, q_next)) in enumerate(pairwise(tails), first):
        yield label, p - p_next, q - q_next


def merge(outputs: Sequence[LabelledOutputs], infinite: Fraction, offset: Fraction, lattice: Lattice) -> Law:
    """BELOW, from disjoint sets of outputs, each with its label and its P- and Q-mass."""
    start, last = min(label for label, _, _ in outputs), max(label for label, _, _ in outputs)
    p, q = [0] * (last + 1 - start), [0] * (last + 1 - start)
    for label, p_mass, q_mass in outputs:
        p[label - start] += max(lattice.round_down(p_mass), 0)
        q[label - start] += lattice.round_up(q_mass * lattice.loss(label + offset).exp())
    return Law(BELOW, start, offset, fmpz_poly(p), fmpz_poly(q), lattice.round_down(real(infinite)))


def compose(one: Law, other: Law, bits: int, first: Fraction, last: Fraction) -> Law:
    """Both laws in a row, between the losses `first` and `last` (in spacings).

    ABOVE: what lies below moves up to the first loss kept, what lies beyond becomes infinite. BELOW: both
    are left out of every event.
    """
    above, offset, start = one.side is ABOVE, one.offset + other.offset, one.start + other.start
    low = max(math.ceil(first - offset) - start, 0)
    high = max(math.floor(last - offset) + 1 - start, low)

    def keep(a: fmpz_poly, b: fmpz_poly, up: bool) -> tuple[fmpz_poly, int]:
        c = (a * b).coeffs()
        kept = [-(-x >> bits) if up else x >> bits for x in c[low:high]] or [fmpz(0)]
        kept[0] += -(-sum(c[:low]) >> bits) if above else 0
        return fmpz_poly(kept), int(-(-sum(c[high:]) >> bits))

    p, beyond = keep(one.p, other.p, above)
    q = p if above else keep(one.q, other.q, True)[0]
    i, j = one.infinite, other.infinite
    if above:
        infinite = beyond - (-(i * (int(other.p(1)) + j) + int(one.p(1)) * j) >> bits)
    else:
        infinite = i + j + (-i * j >> bits)  # 1 - (1-i)(1-j), rounded down
    return Law(one.side, start + low, offset, p, q, infinite)


def power(law: Law, times: int, bits: int, window: Callable[[int], tuple[Fraction, Fraction]]) -> Law:
    """`times` steps of a law, by squaring; `window(n)` holds the losses kept after n steps."""
    found, count = law, 1
    for digit in bin(times)[3:]:
        found, count = compose(found, found, bits, *window(2 * count)), 2 * count
        if digit == "1":
            found, count = compose(found, law, bits, *window(count + 1)), count + 1
    return found


class Bound:
    """sum over i >= j of p_i - e^(epsilon - loss_i) q_i, plus `infinite`, for any j: one side of delta."""

    def __init__(self, law: Law, lattice: Lattice) -> None:
        self.law, self.lattice = law, lattice
        self.p, self.q = ([int(x) for x in poly.coeffs()] for poly in (law.p, law.q))
        self.size = max(len(self.p), len(self.q))
        self._masses, self._weights = [law.infinite], [arb(0)]  # sums from an index on, the last first
        with ctx.workprec(lattice.bits + GUARD):
            ratio = (-lattice.loss(1)).exp()
            for i in reversed(range(self.size)):
                self._masses.append(self._masses[-1] + (self.p[i] if i < len(self.p) else 0))
                self._weights.append(self._weights[-1] * ratio + (self.q[i] if i < len(self.q) else 0))

    def at(self, epsilon: Fraction, j: int) -> arb:
        """The sum from j on, in a ball: its largest value is delta ABOVE, any one at most delta BELOW."""
        with ctx.workprec(self.lattice.bits + GUARD):
            exponent = real(epsilon) - self.lattice.loss(self.law.start + j + self.law.offset)
            total = self._masses[self.size - j] - exponent.exp() * self._weights[self.size - j]
            return total / arb(2) ** self.lattice.bits

    def above(self, epsilon: Fraction) -> arb:
        """ABOVE: a number that is not below delta(epsilon): the sum over the losses above epsilon."""
        j = math.floor(epsilon / self.lattice.spacing - self.law.offset) + 1 - self.law.start
        return self.at(epsilon, min(max(j, 0), self.size)).upper()

    def below(self, epsilon: Fraction, j: int) -> arb:
        """BELOW: a number that is not above delta(epsilon): what the labels from j on reach."""
        return self.at(epsilon, j).lower()
