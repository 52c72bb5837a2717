"""From bounds on a divergence at finitely many orders to pairs whose curves are above or below it."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

from tightrope.engines.passes.cells import as_pair, order_cells
from tightrope.pairs.finite_pair import FinitePair

BITS = 256  # of masses: what rounding takes is put where it loses most, or least
WHOLE = 1 << BITS

Dot = tuple[Fraction, Fraction]  # an order, and a bound on the divergence there
TwoSidedDot = tuple[Fraction, Fraction, Fraction]  # an order, and bounds on it from below and from above
DotLine = tuple[Fraction, Fraction, Fraction]  # an order, the height there, the slope


def connect_dots(dots: Sequence[Dot]) -> FinitePair:
    """Chords between orders >= 1, the first of them 1, and between their mirror images; flat after the last.

    For a curve that is that of P and Q both ways: H_{1/t} = 1 - 1/t + H_t / t.
    """
    # a curve falls with the order, whatever its bounds do
    dots = list(zip((t for t, _ in dots), accumulate((h for _, h in dots), min), strict=True))
    mirrored = [(1 / t, 1 - 1 / t + h / t) for t, h in reversed(dots[1:])]
    p, q = _floor_masses(_hull([(Fraction(0), Fraction(1)), *mirrored, *dots]))
    # what rounding took is put where it loses most: of Q at order 0, of P at no order
    return as_pair([*p, WHOLE - sum(p)], WHOLE, [q[0] + WHOLE - sum(q), *q[1:], 0], WHOLE)


def stay_below(dots: Sequence[TwoSidedDot]) -> FinitePair:
    """A pair whose curve is below that of P and Q, which is the same both ways; orders as in `connect_dots`.

    Outside of two orders a convex curve is above the line through its values there. So between neighbours it
    is above two lines, one through the values before and one through those after, and the largest convex
    curve below the corners where these meet is below it.
    """
    mirrored = [(1 / t, 1 - 1 / t + low / t, 1 - 1 / t + high / t) for t, low, high in reversed(dots[1:])]
    known = [*mirrored, *dots]
    # 1 - t and 0 are below every curve
    before = [(Fraction(0), Fraction(1), Fraction(-1))]
    before += [(t, low, (low - high) / (t - last)) for (last, _, high), (t, low, _) in pairwise(known)]
    after = [(t, low, (high - low) / (further - t)) for (t, low, _), (further, _, high) in pairwise(known)]
    after += [(known[-1][0], Fraction(0), Fraction(0))]
    orders = [t for t, _, _ in known]
    corners = [_meet(before[0], after[0], Fraction(0), orders[0])]
    between = zip(before[:-1], after[1:], pairwise(orders), strict=True)
    corners += [_meet(one, other, start, end) for one, other, (start, end) in between]
    corners.append(_meet(before[-1], after[-1], orders[-1], None))
    p, q = _floor_masses(_clip(_hull(corners)))
    cells = order_cells(p, q, WHOLE, WHOLE)
    return as_pair([p for p, _ in cells], WHOLE, [q for _, q in cells], WHOLE)


def _meet(one: DotLine, other: DotLine, start: Fraction, end: Fraction | None) -> Dot:
    """Where a falling line and one that falls less meet, or the lower of both at the end that is nearer."""
    (t, h, slope), (at, height, rise) = one, other
    place = start if slope >= rise else (height - h + slope * t - rise * at) / (slope - rise)
    place = max(place, start) if end is None else min(max(place, start), end)
    return place, min(h + slope * (place - t), height + rise * (place - at))


def _clip(hull: Sequence[Dot]) -> list[Dot]:
    """The larger of a convex curve and (1 - t)_+, which is convex too."""
    inside = [i for i, (t, h) in enumerate(hull) if h > 0 and h > 1 - t]
    if not inside or inside[0] == 0 or inside[-1] + 1 == len(hull):
        return [(Fraction(0), Fraction(1)), (Fraction(1), Fraction(0))]
    fall, height = _line_through(*hull[inside[0] - 1 : inside[0] + 1])
    entry = (1 - height) / (1 + fall)
    fall, height = _line_through(*hull[inside[-1] : inside[-1] + 2])
    ends = (entry, 1 - entry), (-height / fall, Fraction(0))
    return [(Fraction(0), Fraction(1)), ends[0], *(hull[i] for i in inside), ends[1]]


def _line_through(one: Dot, other: Dot) -> tuple[Fraction, Fraction]:
    """Its slope, and its height at order 0."""
    slope = _slope(one, other)
    return slope, one[1] - slope * one[0]


def _hull(dots: Sequence[Dot]) -> list[Dot]:
    """The corners of the largest convex curve below the dots."""
    hull: list[Dot] = []
    for t, height in dots:
        is_same = bool(hull) and hull[-1][0] == t
        dot = t, min(height, hull.pop()[1]) if is_same else height
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], dot):
            hull.pop()
        hull.append(dot)
    return hull


def _floor_masses(hull: Sequence[Dot]) -> tuple[list[int], list[int]]:
    """Those of P and of Q at the corners of their curve, from order 0 on, in 2^-BITS, rounded down."""
    slopes = [Fraction(-1), *(_slope(a, b) for a, b in pairwise(hull)), Fraction(0)]
    q = [after - before for before, after in pairwise(slopes)]
    p = [mass * t for mass, (t, _) in zip(q, hull, strict=True)]
    return [math.floor(mass * WHOLE) for mass in p], [math.floor(mass * WHOLE) for mass in q]


def _slope(one: Dot, other: Dot) -> Fraction:
    return (other[1] - one[1]) / (other[0] - one[0])
