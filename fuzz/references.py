"""The curve of one step, of full-batch Gaussian runs and of finite runs, in balls and from exact inputs.

Nothing here is shared with the numerics of the library, only the table of worst pairs. A curve is a function
of the odds w = e^epsilon: delta = E_P[(1 - w dQ/dP)_+]. Each is given by pieces, formulas that hold from one
threshold of w to the next; where a ball of w touches two of them, the answer is the ball around both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from math import comb
from typing import Any

from flint import arb

from fuzz.balls import exact, normal_below

NORMAL, LAPLACE = "normal", "laplace"
REMOVE, ADD, OPPOSITE, ENVELOPE = "remove", "add", "opposite", "envelope"
Formula = Callable[[Any], Any]
MOST_OUTCOMES, MOST_BESIDES = 20_000, 400  # alone, and where each needs a curve of its own


def plain_log(x: Any) -> Any:
    """The logarithm of a real ball."""
    return x.log()


@dataclass(frozen=True)
class Piece:
    """From the odds `start` on the curve is `formula`; it takes balls of odds, real or complex."""

    start: arb
    formula: Formula


class Curve(ABC):
    """delta as a function of the odds e^epsilon, for one pair of distributions."""

    @abstractmethod
    def pieces(self, log: Formula = plain_log, sqrt: Formula = arb.sqrt) -> list[Piece]:
        """The curve by odds in increasing order, from 0 on, with these branches of logarithm and root."""

    def infinite_mass(self) -> arb:
        """The P-mass of outputs that Q cannot produce."""
        return arb(0)

    def delta(self, odds: arb) -> arb:
        """The ball of delta at a real ball of odds > 0."""
        pieces = self.pieces()
        ends = [piece.start for piece in pieces[1:]] + [arb.pos_inf()]
        found = [p.formula(odds) for p, end in zip(pieces, ends, strict=True) if _touches(odds, p.start, end)]
        hull: arb = reduce(arb.union, found)
        return hull


def _touches(odds: arb, start: arb, end: arb) -> bool:
    return not (odds < start or odds > end)


def nothing(odds: Any) -> Any:
    """delta beyond every loss."""
    return odds * 0


def everything(odds: Any) -> Any:
    """delta below every loss: 1 - w."""
    return 1 - odds


@dataclass(frozen=True)
class NormalRun(Curve):
    """Full-batch Gaussian steps: N(mu, 1) against N(0, 1), given mu^2 = the sum of (distance / noise)^2."""

    mu_squared: Fraction

    def pieces(self, log: Formula = plain_log, sqrt: Formula = arb.sqrt) -> list[Piece]:
        """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
        mu = exact(self.mu_squared).sqrt()

        def formula(odds: Any) -> Any:
            middle = -log(odds) / mu
            return normal_below(middle + mu / 2) - odds * normal_below(middle - mu / 2)

        return [Piece(arb(0), formula)]


@dataclass(frozen=True)
class SampledStep(Curve):
    """One step of additive noise in units of its scale, sampled at `rate`, which moves the sum by `shift`.

    REMOVE is (mix, plain), ADD its reverse, OPPOSITE (mix, mirrored mix), for normal noise only, and ENVELOPE
    the worse of REMOVE and ADD: the first from epsilon 0 on, the second below.
    """

    noise: str
    direction: str
    rate: Fraction
    shift: Fraction

    def pieces(self, log: Formula = plain_log, sqrt: Formula = arb.sqrt) -> list[Piece]:
        """The formulas of this direction."""
        if self.direction == OPPOSITE:
            return self._opposite(log, sqrt)
        if self.direction != ENVELOPE:
            return self._one_way(self.direction, log)
        above = [p for p in self._one_way(REMOVE, log) if not p.start < 1]
        below = [p for p in self._one_way(ADD, log) if p.start < 1]
        first = [p for p in self._one_way(REMOVE, log) if p.start < 1][-1]
        return [*below, Piece(arb(1), first.formula), *above]

    def _one_way(self, direction: str, log: Formula) -> list[Piece]:
        ways = {
            (NORMAL, REMOVE): self._normal_remove,
            (NORMAL, ADD): self._normal_add,
            (LAPLACE, REMOVE): self._laplace_remove,
            (LAPLACE, ADD): self._laplace_add,
        }
        return ways[self.noise, direction](log)

    @property
    def numbers(self) -> tuple[arb, arb, arb]:
        """Rate, 1 - rate and shift."""
        return exact(self.rate), exact(1 - self.rate), exact(self.shift)

    def _normal_remove(self, log: Formula) -> list[Piece]:
        """The loss exceeds eps beyond the x with 1-g + g e^{a x - a^2/2} = w."""
        g, rest, a = self.numbers

        def formula(odds: Any) -> Any:
            x = log((odds - rest) / g) / a + a / 2
            return (rest - odds) * normal_below(-x) + g * normal_below(a - x)

        return [Piece(arb(0), everything), Piece(rest, formula)]

    def _normal_add(self, log: Formula) -> list[Piece]:
        """The loss exceeds eps below the x with 1-g + g e^{a x - a^2/2} = 1/w."""
        g, rest, a = self.numbers

        def formula(odds: Any) -> Any:
            x = log((1 / odds - rest) / g) / a + a / 2
            return (1 - odds * rest) * normal_below(x) - odds * g * normal_below(x - a)

        return [Piece(arb(0), formula), *([Piece(1 / rest, nothing)] if self.rate < 1 else [])]

    def _opposite(self, log: Formula, sqrt: Formula) -> list[Piece]:
        """y = e^{a x} solves g v y^2 - (1-g)(w-1) y - w g v = 0, v = e^{-a^2/2}; below w = 1 by symmetry."""
        g, rest, a = self.numbers
        v = (-a * a / 2).exp()

        def above(odds: Any) -> Any:
            b = rest * (odds - 1)
            y = (b + sqrt(b * b + 4 * odds * (g * v) ** 2)) / (2 * g * v)
            x = log(y) / a
            moved = g * (normal_below(a - x) - odds * normal_below(-a - x))
            return rest * (1 - odds) * normal_below(-x) + moved

        return [Piece(arb(0), lambda odds: 1 - odds + odds * above(1 / odds)), Piece(arb(1), above)]

    def _laplace_remove(self, log: Formula) -> list[Piece]:
        """The ratio 1-g + g e^{2x - a} runs from x = 0 to x = a between its two constants."""
        g, rest, a = self.numbers

        def formula(odds: Any) -> Any:
            x = (log((odds - rest) / g) + a) / 2
            return (rest - odds) * (-x).exp() / 2 + g * (1 - (x - a).exp() / 2)

        bottom, top = rest + g * (-a).exp(), rest + g * a.exp()
        return [Piece(arb(0), everything), Piece(bottom, formula), Piece(top, nothing)]

    def _laplace_add(self, log: Formula) -> list[Piece]:
        g, rest, a = self.numbers

        def formula(odds: Any) -> Any:
            x = (log((1 / odds - rest) / g) + a) / 2
            below = (-x).exp() / 2
            return 1 - below - odds * (1 - rest * below - g * (1 - (x - a).exp() / 2))

        bottom, top = rest + g * (-a).exp(), rest + g * a.exp()
        return [Piece(arb(0), everything), Piece(1 / top, formula), Piece(1 / bottom, nothing)]


@dataclass(frozen=True)
class FiniteStep:
    """Exact (P, Q) masses of finitely many outputs."""

    masses: tuple[tuple[Fraction, Fraction], ...]

    @staticmethod
    def of(observed: Sequence[Fraction], alternative: Sequence[Fraction]) -> "FiniteStep":
        """The pair of two lists of masses, which need not sum to exactly 1."""
        p, q = sum(observed), sum(alternative)
        return FiniteStep(tuple((a / p, b / q) for a, b in zip(observed, alternative, strict=True)))

    @property
    def reverse(self) -> "FiniteStep":
        """(Q, P)."""
        return FiniteStep(tuple((q, p) for p, q in self.masses))

    @property
    def envelope(self) -> "FiniteStep":
        """The worse of this pair, which must be (mix, plain) of a mirrored one, and its reverse."""
        above = [(p, q) for p, q in self.masses if p > q]
        rest = 1 - sum((p + q for p, q in above), Fraction(0))
        return FiniteStep((*above, *((q, p) for p, q in above), (rest, rest)))

    @property
    def infinite_mass(self) -> Fraction:
        """The P-mass that Q cannot produce."""
        return sum((p for p, q in self.masses if not q), Fraction(0))

    @property
    def levels(self) -> list[tuple[Fraction, Fraction]]:
        """The masses of each finite likelihood ratio above 0."""
        merged: dict[Fraction, tuple[Fraction, Fraction]] = {}
        for p, q in self.masses:
            if p and q:
                more = merged.get(p / q, (Fraction(0), Fraction(0)))
                merged[p / q] = p + more[0], q + more[1]
        return list(merged.values())

    def count_outcomes(self, times: int) -> int:
        """How many distinct outcomes so many steps have at most."""
        levels = len(self.levels)
        return comb(times + levels - 1, levels - 1) if levels else 0

    def outcomes(self, times: int) -> Iterator[tuple[arb, arb]]:
        """(P, Q) masses of the outcomes with finite loss of so many steps."""
        yield from _outcomes([(exact(p), exact(q)) for p, q in self.levels], times)


def _outcomes(levels: list[tuple[arb, arb]], times: int) -> Iterator[tuple[arb, arb]]:
    """Multinomial masses, level after level."""
    if not levels:
        return
    (p, q), others = levels[0], levels[1:]
    if not others:
        yield p**times, q**times
        return
    weight_p, weight_q = arb(1), arb(1)
    for count in range(times + 1):
        for more_p, more_q in _outcomes(others, times - count):
            yield weight_p * more_p, weight_q * more_q
        weight_p *= p * (times - count) / (count + 1)
        weight_q *= q * (times - count) / (count + 1)


@dataclass(frozen=True)
class FiniteRun(Curve):
    """Finite steps with multiplicity, and besides them one more curve (nothing by default)."""

    steps: tuple[tuple[FiniteStep, int], ...]
    besides: Curve | None = None

    def pieces(self, log: Formula = plain_log, sqrt: Formula = arb.sqrt) -> list[Piece]:
        """A sum over outcomes has too many pieces to be integrated."""
        raise NotImplementedError

    @property
    def is_feasible(self) -> bool:
        """Whether there are few enough outcomes to list."""
        return self.count_outcomes() <= (MOST_OUTCOMES if self.besides is None else MOST_BESIDES)

    def count_outcomes(self) -> int:
        """How many outcomes have a finite loss."""
        total = 1
        for step, times in self.steps:
            total *= step.count_outcomes(times)
        return total

    def infinite_mass(self) -> arb:
        """1 - the product of the finite masses."""
        finite = arb(1)
        for step, times in self.steps:
            finite *= exact(1 - step.infinite_mass) ** times
        return 1 - finite

    def delta(self, odds: arb) -> arb:
        """The infinite mass, and the sum over outcomes of what is lost after each."""
        total = self.infinite_mass()
        for masses in product(*(list(step.outcomes(times)) for step, times in self.steps)):
            p = reduce(lambda a, b: a * b, (mass for mass, _ in masses), arb(1))
            q = reduce(lambda a, b: a * b, (mass for _, mass in masses), arb(1))
            if self.besides is None:
                total += (p - odds * q).max(arb(0))
            else:
                total += p * self.besides.delta(odds * q / p)
        return total
