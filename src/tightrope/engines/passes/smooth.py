"""Laws with analytic densities on a lattice, in blocks of Taylor series: a series for many error functions.

What a law f has between the first and the last point of a block is spread onto the points of the block, the
mean kept: a point gets the integral of f times its hat, which is 1 there and 0 at its neighbours. Blocks that
share a point add up. Within a block f is its Taylor polynomial, up to what Cauchy's estimate on a circle
around the block's middle leaves, which widens the ball of each mass.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from flint import acb, arb, arb_mat, arb_series, ctx

from tightrope.numerics.balls import ball

HALF = 16  # steps from the middle of a block to its ends
BLOCK = 2 * HALF  # steps from its first point to its last
LEAST_RADIUS = 4 * HALF  # steps of the circle around the middle
MOST_TERMS = 64
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


def spread_block(laws: SmoothLaws, exponent: int, first: int, bits: int) -> list[list[arb]] | None:
    """The masses, law by law, of the 2 HALF + 1 points of a block; None where the series is no shortcut."""
    step, middle = arb(2) ** exponent, first + HALF
    place = step * middle
    steps = math.floor(laws.radius(float(place)) / 2.0**exponent)  # of the circle
    if steps < LEAST_RADIUS:
        return None
    # a square that holds the circle: no density is larger on it than `most`
    side = arb(0, 1) * (step * steps)
    most = [abs(density).upper() for density in laws.densities(acb(place + side, side))]
    sizes = [float(size * step) for size in most]
    if not all(0 <= size < math.inf for size in sizes):
        return None
    wanted = bits + SPARE_TERM_BITS + math.log2(max(*sizes, 2.0**-bits))
    terms = math.ceil(max(wanted, 1.0) / math.log2(steps / HALF))
    if terms > MOST_TERMS:
        return None
    with _terms(terms):
        series = laws.densities(arb_series([place, step * HALF]))
        rows = [[density[k] for k in range(terms)] for density in series]
    shrinks = arb(HALF) / steps
    for row, size in zip(rows, most, strict=True):
        row[0] += arb(0, 1) * (size * shrinks**terms / (1 - shrinks))
    found = arb_mat(rows) * _hats(terms, ctx.prec) * step
    return [[found[law, at] for at in range(BLOCK + 1)] for law in range(len(rows))]


@contextmanager
def _terms(count: int) -> Iterator[None]:
    """Series with so many terms."""
    before = ctx.cap
    ctx.cap = count
    try:
        yield
    finally:
        ctx.cap = before


@lru_cache(maxsize=2 * MOST_TERMS)
def _hats(terms: int, precision: int) -> arb_mat:
    """The integrals of (v / HALF)^k, k < terms, times the hat of each v in -HALF, ..., HALF, cut to those."""
    rows = []
    for k in range(terms):
        # differences of slopes of v^{k+2}, whose second derivative is (k+1) (k+2) v^k; tangents at the ends
        powers = [v ** (k + 2) for v in range(-HALF, HALF + 1)]
        chords = [after - before for before, after in pairwise(powers)]
        slopes = [(k + 2) * (-HALF) ** (k + 1), *chords, (k + 2) * HALF ** (k + 1)]
        whole = (k + 1) * (k + 2) * HALF**k
        rows.append([ball(Fraction(after - before, whole)) for before, after in pairwise(slopes)])
    return arb_mat(rows)
