"""Laws of sums on a ladder of lattices: fine where the mass is, coarse far out, in exact integers.

Every rounding of a position sends mass to the two neighbouring points and keeps the mean. So a law that
comes out is that of the sum plus noise of mean zero: above it in convex order, and a label that the outputs
could carry. Masses are whole multiples of 2^-bits, rounded down: none is too large.
theorems/proofs/balls_in_bins.md has the proof.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flint import fmpz_poly

from tightrope.numerics.floats import Floats

RUNG_BITS = 2  # a rung is so many powers of 2 coarser than the one below
STRIDE = 8  # of all masses, one in so many tells how wide a law is


@dataclass(frozen=True)
class Part:
    """Masses of consecutive points of one lattice, the first of them at `start`."""

    start: int = 0
    masses: fmpz_poly = field(default_factory=fmpz_poly)

    def __bool__(self) -> bool:
        return bool(self.masses)

    def __add__(self, other: "Part") -> "Part":
        if not self or not other:
            return self or other
        low, high = sorted((self, other), key=lambda part: part.start)
        return Part(low.start, low.masses + high.masses.left_shift(high.start - low.start))

    def __mul__(self, other: "Part") -> "Part":
        if not self or not other:
            return Part()
        return Part(self.start + other.start, self.masses * other.masses)

    def scale(self, factor: int) -> "Part":
        """Every mass times a whole number."""
        return Part(self.start, self.masses * factor) if self else self

    def floor(self, bits: int) -> "Part":
        """Every mass over 2^bits, rounded down."""
        return Part(self.start, self.masses // (1 << bits)).trim() if self else self

    def trim(self) -> "Part":
        """Without the zeros at the low end."""
        masses, zeros = self.masses, 0
        if not masses:
            return Part()
        while not masses[zeros]:
            zeros += 1
        return Part(self.start + zeros, masses.right_shift(zeros)) if zeros else self

    def coarsen(self, bits: int) -> "Part":
        """On the lattice of every 2^bits-th point: each mass goes to its two neighbours, the mean kept."""
        if not self or not bits:
            return self
        ratio = 1 << bits
        tent = fmpz_poly([ratio - abs(d) for d in range(1 - ratio, ratio)])
        first = self.start - ratio + 1  # of the product
        start = -(-first // ratio)
        spread = (self.masses * tent).coeffs()[start * ratio - first :: ratio]
        return Part(start, fmpz_poly([mass >> bits for mass in spread]))

    def split(self, at: int) -> "tuple[Part, Part]":
        """What lies before a point, and the rest."""
        count = at - self.start
        if not self or count <= 0:
            return Part(), self
        if count >= self.masses.length():
            return self, Part()
        return Part(self.start, self.masses.truncate(count)), Part(at, self.masses.right_shift(count))


@dataclass(frozen=True)
class Reach:
    """How many steps a rung reaches ahead of its anchor: the lowest one, and at least every other.

    Behind the anchor it reaches as far where laws have two long tails, and all the way where they do not.
    """

    lowest: int
    others: int
    is_two_sided: bool = False

    def ahead(self, coarser: int) -> int:
        """How far a rung reaches that is so many powers of 2 coarser than the lowest, and never less far."""
        return max(self.others, self.lowest >> coarser) if coarser else self.lowest


@dataclass(frozen=True)
class Ladder:
    """A law: part i lies on the lattice of step 2^exponents[i]; exponents grow."""

    exponents: tuple[int, ...]
    parts: tuple[Part, ...]
    bits: int

    @cached_property
    def running(self) -> tuple[tuple[Part, Part], ...]:
        """For each rung all that lies on finer ones, brought to its lattice, and its own part."""
        found, below, before = [], Part(), self.exponents[0]
        for exponent, part in zip(self.exponents, self.parts, strict=True):
            below = below.coarsen(exponent - before)
            found.append((below, part))
            below, before = below + part, exponent
        return tuple(found)

    @property
    def lowest(self) -> int:
        """The lowest position of any mass, in steps of the lowest rung."""
        first = self.exponents[0]
        found = [p.start << (e - first) for e, p in zip(self.exponents, self.parts, strict=True) if p]
        return min(found, default=0)

    def atoms(self) -> Iterator[tuple[int, int]]:
        """Every position, in steps of the lowest rung, with its mass; rungs may share positions."""
        for exponent, part in zip(self.exponents, self.parts, strict=True):
            step = 1 << (exponent - self.exponents[0])
            for i, mass in enumerate(part.masses.coeffs() if part else ()):
                if mass:
                    yield (part.start + i) * step, int(mass)

    def sketch(self, centre: int) -> tuple[Floats, Floats]:
        """Some of the positions, less `centre`, in steps of the lowest rung, and their masses in any unit."""
        places, masses = [], []
        for exponent, part in zip(self.exponents, self.parts, strict=True):
            if part:
                step = 1 << (exponent - self.exponents[0])
                some = (part.masses[i] for i in range(0, part.masses.length(), STRIDE))
                masses.append(np.array([float(mass >> 24) for mass in some]))
                start, apart = float(part.start * step - centre), float(STRIDE * step)
                places.append(start + apart * np.arange(len(masses[-1])))
        return np.concatenate(places), np.concatenate(masses)

    def deviation(self, centre: int) -> float:
        """About the mean distance from `centre`, in steps of the lowest rung."""
        places, masses = self.sketch(centre)
        return float(masses @ np.abs(places)) / max(float(masses.sum()), 1.0)

    def quantile(self, share: float) -> float:
        """About below which position so much of the mass lies, in steps of the lowest rung."""
        places, masses = self.sketch(0)
        order = np.argsort(places)
        below = np.cumsum(masses[order])
        return float(places[order][np.searchsorted(below, share * below[-1])])

    def square(self) -> "Ladder":
        """The law of the sum of two."""
        return self._with(own * (below.scale(2) + own) for below, own in self.running)

    def __mul__(self, other: "Ladder") -> "Ladder":
        """The law of the sum of one of each."""
        both = zip(self.running, other.running, strict=True)
        return self._with(own * (under + its) + below * its for (below, own), (under, its) in both)

    def _with(self, products: Iterator[Part]) -> "Ladder":
        return Ladder(self.exponents, tuple(product.floor(self.bits) for product in products), self.bits)

    def __add__(self, other: "Ladder") -> "Ladder":
        sums = tuple(a + b for a, b in zip(self.parts, other.parts, strict=True))
        return Ladder(self.exponents, sums, self.bits)

    def scale(self, factor: int) -> "Ladder":
        """Every mass times a whole number."""
        return Ladder(self.exponents, tuple(part.scale(factor) for part in self.parts), self.bits)

    def settle(self, anchor: int, window: Reach) -> "Ladder":
        """With all that a rung cannot reach from the anchor moved up, except from the last rung."""
        first, parts, moved = self.exponents[0], [], Part()
        for rung, (exponent, part) in enumerate(zip(self.exponents, self.parts, strict=True)):
            here = part + moved
            if rung + 1 < len(self.exponents):
                coarser = exponent - first
                at, ahead, up = anchor >> coarser, window.ahead(coarser), self.exponents[rung + 1] - exponent
                here, beyond = here.split(at + ahead)
                moved = beyond.coarsen(up)
                if window.is_two_sided:
                    behind, here = here.split(at - ahead)
                    moved += behind.coarsen(up)
            parts.append(here.trim())
        return Ladder(self.exponents, tuple(parts), self.bits)

    def coarsen(self) -> "Ladder":
        """The lowest rung twice as coarse; it joins the next one if it is then alike."""
        (exponent, *others), (part, *rest) = self.exponents, self.parts
        exponent, part = exponent + 1, part.coarsen(1)
        if others and others[0] == exponent:
            return Ladder(tuple(others), (part + rest[0], *rest[1:]), self.bits)
        return Ladder((exponent, *others), (part, *rest), self.bits)
