"""Laws with analytic densities on a lattice, in blocks of Taylor series: a series for many error functions.

What a law f has between the first and the last point of a block is spread onto the points of the block, the
mean kept: a point gets the integral of f times its hat, which is 1 there and 0 at its neighbours. Blocks that
share a point add up. Within a block f is its Taylor polynomial, up to what Cauchy's estimate on a circle
around the block's middle leaves, which widens the ball of each mass.
theorems/proofs/balls_in_bins.md, In series, has the proof.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from flint import acb, arb, arb_mat, arb_series, ctx

MOST_HALF, LEAST_HALF = 16, 8  # steps from the middle of a block to its ends
LEAST_TURNS = 4  # how many times as far from the middle, at least, the circle is
MOST_TERMS = 72
ARCS, ARC_ROOM = 8, 0.2  # pi / 16 is less
SHARED_TERMS = 4  # numbers of terms are multiples of this, so that blocks share what does not depend on f
SPARE_TERM_BITS = 16  # by which the terms left out are below a unit of mass

Number = TypeVar("Number", arb_series, acb)


class SmoothLaws(ABC):
    """Laws that have densities on some part of the line."""

    @abstractmethod
    def densities(self, place: Number) -> Sequence[Number]:
        """The density of each law, at a series in a step or at a ball in the plane."""

    @abstractmethod
    def radius(self, place: float) -> float:
        """Of a circle around a place inside of which the densities are analytic, and not much larger."""


def spread_block(laws: SmoothLaws, exponent: int, points: range, bits: int) -> list[list[arb]] | None:
    """The masses, law by law, of an odd number of points; None where the series is no shortcut."""
    half = len(points) // 2
    step = arb(2) ** exponent
    place = step * points[half]
    steps = math.floor(laws.radius(float(place)) / 2.0**exponent)  # of the circle
    if steps < LEAST_TURNS * half:
        return None
    most = _bound_densities(laws, place, step * steps)
    if most is None:
        return None
    sizes = [float(size * step) for size in most]
    if math.inf in sizes:
        return None
    wanted = bits + SPARE_TERM_BITS + math.log2(max(*sizes, 2.0**-bits))
    terms = SHARED_TERMS * math.ceil(max(wanted, 1.0) / math.log2(steps / half) / SHARED_TERMS)
    if terms > MOST_TERMS:
        return None
    with _terms(terms):
        series = laws.densities(arb_series([place, step * half]))
        rows = [[density[k] for k in range(terms)] for density in series]
    shrinks = arb(half) / steps
    for row, size in zip(rows, most, strict=True):
        row[0] += arb(0, 1) * (size * shrinks**terms / (1 - shrinks))
    found = (arb_mat(rows) * _hats(terms, half, ctx.prec) * step).entries()
    return [found[i : i + len(points)] for i in range(0, len(found), len(points))]


def _bound_densities(laws: SmoothLaws, place: arb, radius: arb) -> list[arb] | None:
    """What each density is at most in size inside a circle: what it is on it; None where that is no number.

    What it is below the line mirrors what it is above.
    """
    on_arcs = [laws.densities(acb(place) + radius * arc) for arc in _arcs()]
    if not all(density.is_finite() for densities in on_arcs for density in densities):
        return None  # an arc may touch where a density ends, and no comparison would tell
    return [max(abs(density).upper() for density in densities) for densities in zip(*on_arcs, strict=True)]


@lru_cache(maxsize=1)
def _arcs() -> tuple[acb, ...]:
    """Squares that cover the upper half of the circle around 0 of radius 1: arcs are no longer."""
    angles = [(i + 0.5) * math.pi / ARCS for i in range(ARCS)]
    return tuple(acb(arb(math.cos(at), ARC_ROOM), arb(math.sin(at), ARC_ROOM)) for at in angles)


@contextmanager
def _terms(count: int) -> Iterator[None]:
    """Series with so many terms."""
    before = ctx.cap
    ctx.cap = count
    try:
        yield
    finally:
        ctx.cap = before


@lru_cache(maxsize=4 * MOST_TERMS // SHARED_TERMS)
def _hats(terms: int, half: int, precision: int) -> arb_mat:
    """The integrals of (v / half)^k, k < terms, times the hat of each v in -half, ..., half, cut to those."""
    rows = []
    for k in range(terms):
        # differences of slopes of v^{k+2}, whose second derivative is (k+1) (k+2) v^k; tangents at the ends
        powers = [v ** (k + 2) for v in range(-half, half + 1)]
        chords = [after - before for before, after in pairwise(powers)]
        slopes = [(k + 2) * (-half) ** (k + 1), *chords, (k + 2) * half ** (k + 1)]
        whole = arb((k + 1) * (k + 2) * half**k)
        rows.append([arb(after - before) / whole for before, after in pairwise(slopes)])
    return arb_mat(rows)
