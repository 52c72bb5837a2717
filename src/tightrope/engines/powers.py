"""Powers of computed spectra, and how far they are off, frequency by frequency.

With c the exact and c~ the computed spectrum, |c~ - c| <= a and C = |c~| + a: a polynomial with coefficients
that are not negative, F(c), is off by at most the sum of its derivatives at C times a, and |F(c)| <= F(C).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats

VERY_RARE = -90.0  # ln of a jump's rarity per step, from where on two in one run are charged and not computed
MOST_GROWTH = 300.0  # ln of how much jumps may multiply a mass
# `_log1p` and `_expm1` of one jump's spectrum, relative to its size: see there
JUMP_REL_ERROR = 224 * UNIT_ROUNDOFF

Complexes = NDArray[np.complex128]


@dataclass(frozen=True)
class Spectrum:
    """The transform of a law, and how far each of its coefficients can be off."""

    values: Complexes
    abs_error: float | Floats

    def sizes_above(self) -> Floats:
        """Upper bounds on the moduli, computed or exact."""
        return np.abs(self.values) * (1 + 16 * UNIT_ROUNDOFF) + self.abs_error

    @cached_property
    def log_sizes(self) -> Floats:
        """ln of the moduli; -inf where one is 0."""
        with np.errstate(divide="ignore"):
            return np.log(np.abs(self.values))

    @cached_property
    def phases(self) -> Floats:
        """The angles."""
        return np.asarray(np.angle(self.values))

    @cached_property
    def log_most(self) -> Floats:
        """ln of the upper bounds on the moduli."""
        return np.log(self.sizes_above())

    def plus(self, other: "Spectrum") -> "Spectrum":
        """The transform of both laws together; the sum is rounded."""
        values = self.values + other.values
        rounding = UNIT_ROUNDOFF * float(np.abs(values).max())
        return Spectrum(values, (self.abs_error + other.abs_error + rounding) * (1 + 8 * UNIT_ROUNDOFF))


class Power:
    """The product of spectra, each raised to a power: e^(log_sizes + i phases).

    Its error is prod C^k times the sum of k a / C, and what rounding does to k ln|c~| and to k arg c~: a
    modulus is off by 8u, a logarithm and an angle by 8u of themselves, and two more roundings follow. Where
    |c~| < C, |c~|^k |ln |c~|| <= C^k (|ln C| + 0.4).
    """

    def __init__(self, half: int) -> None:
        self.count = 0
        self.log_sizes, self.phases = np.zeros(half), np.zeros(half)
        self.log_most = np.zeros(half)  # sum of k ln C
        self.rel_errors, self.roundings = np.zeros(half), np.zeros(half)

    def multiply(self, spectrum: Spectrum, wild: Spectrum | None, times: int) -> None:
        """Take in one step, `times` over; `wild` is for JumpPower."""
        self.count += 1
        most, log_most, phases = spectrum.sizes_above(), spectrum.log_most, spectrum.phases
        self.log_sizes += times * spectrum.log_sizes  # ln 0 = -inf: the power is 0
        self.phases += times * phases
        self.log_most += times * log_most
        self.rel_errors += times * (spectrum.abs_error / most)
        self.roundings += times * UNIT_ROUNDOFF * (16 + 12 * np.abs(log_most) + 12 * np.abs(phases))

    @property
    def values(self) -> Complexes:
        """The product."""
        return np.asarray(np.exp(self.log_sizes) * (np.cos(self.phases) + 1j * np.sin(self.phases)))

    @property
    def most(self) -> Floats:
        """prod C^k, from above."""
        return np.exp(self.log_most + 2 * self.exponents_abs_error) * (1 + 32 * UNIT_ROUNDOFF)

    @property
    def exponents_abs_error(self) -> Floats:
        """Of the sums of k ln|c~| and of k arg c~, which are rounded once more with every step taken in."""
        return self.roundings * (1 + self.count / 12)

    @property
    def total_rel_errors(self) -> Floats:
        """Of the product, relative to prod C^k; exponential, sine, cosine and their products add 20u."""
        return self.rel_errors + 2 * self.exponents_abs_error + 24 * UNIT_ROUNDOFF

    def result(self) -> tuple[Complexes, Floats]:
        """The product and its errors."""
        return self.values, self.most * self.total_rel_errors


class JumpPower(Power):
    """prod (c + w)^k - prod c^k, the transform of runs with at least one jump, c calm and w wild.

    Where |w| < |c| / 2 it is prod c^k (e^odds - 1), odds = sum of k ln(1 + w/c), whose errors are relative to
    how rare jumps are; elsewhere it is the difference. Very rare jumps' weights are scaled by e^-rarity to
    avoid underflow; then it is prod c^k sum k w/c, and two jumps in one run are charged.
    """

    def __init__(self, half: int, rarity: float) -> None:
        super().__init__(half)
        self.rarity = rarity
        self.all = Power(half)
        self.odds = np.zeros(half, dtype=complex)
        self.log_growth = np.zeros(half)  # sum of k ln(1 + W/C)
        self.wild_errors = np.zeros(half)  # sum of k (error of w) / (C + W)
        self.expected = np.zeros(half)  # sum of k W / C
        self.is_near = np.ones(half, dtype=bool)

    def multiply(self, spectrum: Spectrum, wild: Spectrum | None, times: int) -> None:
        """Take in one step and its jumps, `times` over."""
        super().multiply(spectrum, None, times)
        if wild is None:
            if not self.rarity:
                self.all.multiply(spectrum, None, times)
            return
        calm_most, wild_most = spectrum.sizes_above(), wild.sizes_above()
        calm_sizes, wild_sizes = np.abs(spectrum.values), np.abs(wild.values)
        is_near = calm_sizes > 1e-100  # so that squares do not underflow
        if not self.rarity:
            is_near &= wild_sizes < calm_sizes / 2
        quotient: Complexes = np.where(is_near, wild.values, 0j) * np.conj(spectrum.values)
        quotient /= np.where(is_near, calm_sizes**2, 1.0)
        self.is_near &= is_near
        self.odds += times * (quotient if self.rarity else _log1p(quotient))
        self.wild_errors += (
            times
            * (wild.abs_error + JUMP_REL_ERROR * wild_sizes)
            / (calm_most if self.rarity else calm_most + wild_most)
        )
        self.log_growth += times * np.log1p(wild_most / calm_most)
        self.expected += times * wild_most / calm_most
        if not self.rarity:
            self.all.multiply(spectrum.plus(wild), None, times)

    def result(self) -> tuple[Complexes, Floats]:
        """The transform of runs with a jump, and its errors.

        By the derivatives of the polynomial: prod (C+W)^k times (1 - e^-growth) sum k a_c / C for the calm
        part, and times sum k a_w / (C + W) for the wild part.
        """
        calm_errors = self.total_rel_errors
        # the odds are rounded once more with every step taken in
        wild_errors = self.wild_errors + 4 * self.count * UNIT_ROUNDOFF * self.expected
        if self.rarity:
            second = 2 * math.exp(max(self.rarity, -700.0)) * self.expected**2
            if not self.is_near.all() or float(self.expected.max()) > math.exp(min(-self.rarity / 2, 700.0)):
                raise NotPreciseEnough("Jumps are not as rare as they should be.")
            # the second derivatives double the first term, and a second jump is at most the last
            return self.values * self.odds, self.most * (
                2 * self.expected * calm_errors + wild_errors + second
            ) * (1 + 64 * UNIT_ROUNDOFF)
        if float(self.all.log_most.max()) > MOST_GROWTH:
            raise NotPreciseEnough("Jumps are not rare.")
        near = self.values * _expm1(self.odds)
        growth = self.log_growth * (1 + (64 + self.count) * UNIT_ROUNDOFF)
        both_most = self.all.most * (1 + 64 * UNIT_ROUNDOFF)
        near_errors = both_most * (-np.expm1(-growth) * calm_errors + wild_errors)
        if self.is_near.all():
            return near, near_errors
        everything, all_errors = self.all.result()
        calm, errors = super().result()
        difference = everything - calm
        far_errors = all_errors + errors + UNIT_ROUNDOFF * np.abs(difference)
        return np.where(self.is_near, near, difference), np.where(self.is_near, near_errors, far_errors)


def _log1p(z: Complexes) -> Complexes:
    """ln(1 + z) for |z| <= 1/2, accurate for small z where numpy's complex log1p is not.

    |1 + z|^2 - 1 is off by 8.5u |z|, ln(1 + it) by 4 times that and log1p's own: 28u |z| in the real part,
    11u |z| in the imaginary part. An error of 6u in z = w/c counts twice.
    """
    square = z.real * (2 + z.real) + z.imag**2
    return np.asarray(0.5 * np.log1p(square) + 1j * np.arctan2(z.imag, 1 + z.real))


def _expm1(z: Complexes) -> Complexes:
    """e^z - 1, to 60u |z| e^max(Re z, 0).

    With |sum of k ln(1 + w/c)| <= 1.4 sum of k |w/c|, off by 54u of it in turn, and |1 + w/c| <= 1.5, both
    make (54 + 1.4 * 60) 1.5 u <= 224u of the jumps' sizes.
    """
    real = np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2
    return np.asarray(real + 1j * np.exp(z.real) * np.sin(z.imag))
