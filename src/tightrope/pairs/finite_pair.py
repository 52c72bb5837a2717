"""Two distributions on finitely many outputs, exactly, and the privacy loss between them."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tightrope.pairs.distribution import FiniteSupport


@dataclass(frozen=True)
class FinitePair:
    """P = `observed`, Q = `alternative` on finitely many outputs, exactly."""

    observed: FiniteSupport
    alternative: FiniteSupport

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""
        return "finite", self.observed.masses, self.alternative.masses

    @property
    def reverse(self) -> "FinitePair":
        """(Q, P)."""
        return FinitePair(self.alternative, self.observed)

    @property
    def is_trivial(self) -> bool:
        """Whether P = Q, so that nothing is lost."""
        return self.observed == self.alternative

    @property
    def is_symmetric(self) -> bool:
        """Whether exchanging P and Q changes no divergence: the law of the likelihood ratio is its own mirror."""
        forth: dict[Fraction | None, list[Fraction]] = {}
        back: dict[Fraction | None, list[Fraction]] = {}
        for p, q in self._outcomes:
            for table, a, b in ((forth, p, q), (back, q, p)):
                if a or b:
                    total = table.setdefault(a / b if b else None, [Fraction(0), Fraction(0)])
                    total[0] += a
                    total[1] += b
        return forth == back

    @cached_property
    def infinite_mass(self) -> Fraction:
        """P-probability of outputs that Q cannot produce."""
        return sum((p for p, q in self._outcomes if q == 0), Fraction(0))

    @cached_property
    def levels(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """(P, Q) masses of outputs with a finite loss, those of equal likelihood ratio merged, in increasing order."""
        merged: dict[Fraction, list[Fraction]] = {}
        for p, q in self._outcomes:
            if p > 0 and q > 0:
                total = merged.setdefault(p / q, [Fraction(0), Fraction(0)])
                total[0] += p
                total[1] += q
        return tuple((p, q) for _, (p, q) in sorted(merged.items()))

    @cached_property
    def losses(self) -> tuple[float, ...]:
        """ln(P/Q) of each level, to relative accuracy."""
        return tuple(exact_log_ratio(p, q) for p, q in self.levels)

    @cached_property
    def loss_range(self) -> tuple[float, float]:
        """Smallest and largest loss of positive P-probability."""
        high = math.inf if self.infinite_mass else self.losses[-1]
        return self.losses[0] if self.losses else math.inf, high

    @property
    def _outcomes(self) -> tuple[tuple[Fraction, Fraction], ...]:
        return tuple(zip(self.observed.masses, self.alternative.masses, strict=True))


def exact_log_ratio(p: Fraction, q: Fraction) -> float:
    """ln(p/q), accurate also where p and q nearly agree or differ beyond the range of floats."""
    ratio = p / q
    if Fraction(1, 2) < ratio < 2:
        return math.log1p(float(ratio - 1))
    if Fraction(1, 10**300) < ratio < 10**300:
        return math.log(float(ratio))  # the logarithms of huge numerators and denominators would cancel
    return math.log(ratio.numerator) - math.log(ratio.denominator)
