"""Boxes of triangles, each dominated by one Gram matrix: the whole family of exchanges as a finite list.

A step of an exchange is a triangle (x, a, a') in the unit ball; only the Gram matrix [[U, C], [C, W]] of (a -
x, a' - x) matters. Every triple is dominated by an inscribed triangle without an obtuse angle, which two
angles name: e >= 0, how far the angle at x is from a right one, and D, which runs from remove (pi/2) to add
(-pi/2), with |D| + e <= pi/2:

    U = 2 + 2 sin(e + D),   W = 2 + 2 sin(e - D),   C = 2 sin(e)^2 + 2 cos(D) sin(e).

(U', W', C') dominates (U, W, C) if U' >= U, W' >= W and C' <= C + sqrt((U' - U)(W' - W)):
proofs/substitution_triangles.md.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats

RIGHT = math.pi / 2
FINER = 12  # sub-cells to a side when the best C of a box is sought
# Of the entries of a dominator. Sums of angles are off by 4u, which also covers pi/2 as a float and slivers
# between boxes, and sines by 8u: U and W are off by 48u and C, of gradient at most 6, by 128u with its root.
MARGIN = 256 * UNIT_ROUNDOFF


@dataclass(frozen=True)
class Gram:
    """The Gram matrix of (a - x, a' - x)."""

    u: float
    w: float
    c: float

    @property
    def exchanged(self) -> "Gram":
        """The same triangle with a and a' exchanged."""
        return Gram(self.w, self.u, self.c)


REMOVE_GRAM = Gram(4.0, 0.0, 0.0)


@dataclass(frozen=True)
class Box:
    """Triangles with D in [d0, d1] and e in [e0, e1], on remove's half of the family: d0 >= 0."""

    d0: float
    d1: float
    e0: float
    e1: float

    @property
    def is_empty(self) -> bool:
        """Whether no triangle lies inside."""
        return self.d0 + self.e0 >= RIGHT

    @property
    def middle(self) -> Gram:
        """A triangle near the middle of the box."""
        d = (self.d0 + self.d1) / 2
        return triangle(d, min((self.e0 + self.e1) / 2, RIGHT - d))

    @cached_property
    def dominator(self) -> Gram:
        """A Gram matrix that dominates every triangle of the box."""
        u, w = _u(self.e1, self.d1), _w(self.e1, self.d0)
        d, e = np.linspace(self.d0, self.d1, FINER + 1), np.linspace(self.e0, self.e1, FINER + 1)
        d0, d1, e0, e1 = d[:-1, None], d[1:, None], e[None, :-1], e[None, 1:]
        smallest = 2 * np.sin(e0) ** 2 + 2 * np.cos(d1) * np.sin(e0)
        room = np.sqrt(np.maximum(u - _u(e1, d1), 0) * np.maximum(w - _w(e1, d0), 0))
        inside = d0 + e0 <= RIGHT
        c = float(np.min((smallest + room)[inside])) - MARGIN
        u, w = u + MARGIN, w + MARGIN  # after the root, which is steep at 0
        return Gram(float(u), float(w), min(max(c, 0.0), float(u), float(w)))

    def halves(self) -> "tuple[tuple[Box, Box], tuple[Box, Box]]":
        """The box cut in two along D, and along e; each without what lies outside the family."""
        d, e = (self.d0 + self.d1) / 2, (self.e0 + self.e1) / 2
        along_d = _box(self.d0, d, self.e0, self.e1), _box(d, self.d1, self.e0, self.e1)
        along_e = _box(self.d0, self.d1, self.e0, e), _box(self.d0, self.d1, e, self.e1)
        return along_d, along_e


HALF_OF_ALL = Box(0.0, RIGHT, 0.0, RIGHT)


def triangle(d: float, e: float) -> Gram:
    """The inscribed triangle of the two angles."""
    return Gram(float(_u(e, d)), float(_w(e, d)), 2 * math.sin(e) ** 2 + 2 * math.cos(d) * math.sin(e))


def log_variance(gram: Gram, inverse_variance: float) -> float:
    """ln of the variance of X - Y, about what a step of low rate loses; `inverse_variance`: 1 / noise^2."""
    u, w, c = (entry * inverse_variance for entry in (gram.u, gram.w, gram.c))
    top = max(u, w)
    parts = np.exp(u - top) + np.exp(w - top) - 2 * np.exp(c - top)
    return top + math.log(max(float(parts), 1e-300))


def _box(d0: float, d1: float, e0: float, e1: float) -> Box:
    return Box(d0, d1, e0, min(e1, RIGHT - d0))


def _u(e: Floats | float, d: Floats | float) -> Floats:
    return 2 + 2 * np.sin(np.minimum(np.add(e, d), RIGHT))


def _w(e: Floats | float, d: Floats | float) -> Floats:
    return 2 + 2 * np.sin(np.minimum(np.subtract(e, d), RIGHT))
