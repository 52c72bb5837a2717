"""From bounds on a divergence at finitely many orders to a pair whose curve is above it everywhere."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from tightrope.engines.passes.cells import as_pair
from tightrope.numerics.floats import share_denominator, sum_fractions
from tightrope.pairs.finite_pair import FinitePair

Dot = tuple[Fraction, Fraction]  # an order, and a bound on the divergence there


def connect_dots(dots: Sequence[Dot]) -> FinitePair:
    """Chords between orders >= 1, the first of them 1, and between their mirror images; flat after the last.

    For a curve that is that of P and Q both ways: H_{1/t} = 1 - 1/t + H_t / t.
    """
    mirrored = [(1 / t, 1 - 1 / t + h / t) for t, h in reversed(dots[1:])]
    return _hull([(Fraction(0), Fraction(1)), *mirrored, *dots])


def _hull(dots: Sequence[Dot]) -> FinitePair:
    """The pair whose curve is the largest convex one below the dots."""
    hull: list[Dot] = []
    for t, h in dots:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], (t, h)):
            hull.pop()
        hull.append((t, h))
    slopes = [Fraction(-1), *(_slope(a, b) for a, b in pairwise(hull)), Fraction(0)]
    q = [after - before for before, after in pairwise(slopes)]
    p = [mass * t for mass, (t, _) in zip(q, hull, strict=True)]
    p_parts, whole_p = share_denominator([*p, 1 - sum_fractions(p)])
    q_parts, whole_q = share_denominator([*q, Fraction(0)])
    return as_pair(p_parts, whole_p, q_parts, whole_q)


def _slope(one: Dot, other: Dot) -> Fraction:
    return (other[1] - one[1]) / (other[0] - one[0])
