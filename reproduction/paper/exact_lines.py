"""Privacy curves of composed coins in exact fractions: convex and piecewise linear in t = e^epsilon."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

Outcome = tuple[Fraction, Fraction]  # its probability under P and under Q


def repeat(coin: tuple[Outcome, Outcome], steps: int) -> tuple[Outcome, ...]:
    """The outcomes of so many equal steps, up to order."""
    (p, q), (other_p, other_q) = coin
    return tuple(
        (
            math.comb(steps, n) * p**n * other_p ** (steps - n),
            math.comb(steps, n) * q**n * other_q ** (steps - n),
        )
        for n in range(steps + 1)
    )


@dataclass(frozen=True)
class LinearPiece:
    """delta = `constant` - `fall` * t for `low` <= t <= `high`; the last piece has no end and is 0."""

    low: Fraction
    high: Fraction | None
    constant: Fraction
    fall: Fraction

    def __str__(self) -> str:
        return f"{self.constant} - {self.fall} e^ε" if self.fall else "0"


@dataclass(frozen=True)
class ExactCurve:
    """H_t(P || Q) = sum of (p - t q)+ over the outcomes, all of which Q can produce, for t >= 1."""

    outcomes: tuple[Outcome, ...]

    def delta(self, t: Fraction) -> Fraction:
        """The divergence at order t."""
        return sum((max(p - t * q, Fraction(0)) for p, q in self.outcomes), Fraction(0))

    @cached_property
    def kinks(self) -> tuple[Fraction, ...]:
        """Where the curve bends, beyond 1."""
        return tuple(sorted({p / q for p, q in self.outcomes if p > q}))

    def pieces(self) -> list[LinearPiece]:
        """The curve from t = 1 on."""
        ends = [Fraction(1), *self.kinks]
        return [self._piece(low, high) for low, high in pairwise(ends)] + [self._piece(ends[-1], None)]

    def _piece(self, low: Fraction, high: Fraction | None) -> LinearPiece:
        counted = [(p, q) for p, q in self.outcomes if p > low * q]
        return LinearPiece(
            low, high, sum((p for p, _ in counted), Fraction(0)), sum((q for _, q in counted), Fraction(0))
        )


def find_crossings(first: ExactCurve, second: ExactCurve) -> tuple[Fraction, ...]:
    """Every t > 1 at which one curve stops being the larger and the other begins; all of them, exactly.

    Between neighbouring kinks of either the difference is linear, so that it changes sign at most once, where
    it is 0.
    """
    ends = merge_kinks((first, second))
    found, last = [], (ends[0], Fraction(0))
    for t in ends:
        lead = first.delta(t) - second.delta(t)
        if lead * last[1] < 0:
            before, lead_before = last
            found.append(_zero(first, second, before, t, lead_before))
        if lead:
            last = (t, lead)
    return tuple(found)


def _zero(
    first: ExactCurve, second: ExactCurve, low: Fraction, high: Fraction, lead_at_low: Fraction
) -> Fraction:
    """The sign change between two orders; a stretch on which the difference is 0 counts by its left end."""
    for left, right in pairwise([t for t in merge_kinks((first, second)) if low <= t <= high]):
        here, there = (first.delta(t) - second.delta(t) for t in (left, right))
        if there * lead_at_low <= 0:
            return left + (right - left) * here / (here - there)
    raise ArithmeticError("the difference does not change its sign")


def merge_kinks(curves: Iterable[ExactCurve]) -> list[Fraction]:
    """1 and the kinks of all curves, in increasing order."""
    return sorted({Fraction(1), *(t for curve in curves for t in curve.kinks)})


def exceeds_somewhere(first: ExactCurve, second: ExactCurve) -> bool:
    """Whether the first is larger at some t >= 1: if anywhere, at a kink; beyond all kinks both are 0."""
    return any(first.delta(t) > second.delta(t) for t in merge_kinks((first, second)))
