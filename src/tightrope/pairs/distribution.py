"""Output distributions of one step: unit-scale noise, mixtures of two shifts of it, and finite supports."""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np

from tightrope.numerics.tails import (
    Floats,
    laplace_log_upper,
    log_of_difference,
    log_of_sum,
    normal_log_upper,
)


class Noise(Enum):
    """Symmetric noise of unit scale, centred at 0."""

    NORMAL = "normal"
    LAPLACE = "laplace"

    def log_upper(self, x: Floats) -> Floats:
        """ln P(noise > x)."""
        return normal_log_upper(x) if self is Noise.NORMAL else laplace_log_upper(x)

    def log_between(self, low: Floats, high: Floats) -> Floats:
        """ln P(low < noise <= high), computed on the side of 0 where nothing cancels."""
        with np.errstate(invalid="ignore"):  # the whole line: either side does
            right = low + high > 0
        inner = np.where(right, low, -high)
        outer = np.where(right, high, -low)
        return log_of_difference(self.log_upper(inner), self.log_upper(outer))

    def log_shift_ratio(self, x: Floats, shift: float) -> Floats:
        """ln of density(x - shift) / density(x)."""
        if self is Noise.NORMAL:
            return shift * (x - shift / 2)
        # |x| - |x - shift| without subtracting large numbers
        return np.asarray(np.clip(2 * x - shift, -abs(shift), abs(shift)) * np.sign(shift))


@dataclass(frozen=True)
class Mixture:
    """(1 - rate) noise(0) + rate noise(shift); `shift` is in noise scales."""

    noise: Noise
    rate: float = 0.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        if self.rate == 0 or self.shift == 0:  # one spelling for the plain noise
            object.__setattr__(self, "rate", 0.0)
            object.__setattr__(self, "shift", 0.0)

    @property
    def mirrored(self) -> "Mixture":
        """The same law reflected at 0."""
        return Mixture(self.noise, self.rate, -self.shift)

    @property
    def is_pure(self) -> bool:
        """Whether this is a single shift of the noise."""
        return self.rate in (0.0, 1.0)

    def log_ratio(self, x: Floats) -> Floats:
        """ln of this density over the plain noise's, with relative accuracy where it is tiny."""
        shifted = self.noise.log_shift_ratio(x, self.shift)
        if self.rate in (0.0, 1.0):
            return shifted * self.rate
        return log_mixed_ratio(self.rate, shifted)

    def log_upper(self, x: Floats) -> Floats:
        """ln P(X > x)."""
        plain, moved = self.noise.log_upper(x), self.noise.log_upper(x - self.shift)
        return self._log_mix(plain, moved)

    def log_lower(self, x: Floats) -> Floats:
        """ln P(X <= x)."""
        return self.mirrored.log_upper(-x)

    def log_between(self, low: Floats, high: Floats) -> Floats:
        """ln P(low < X <= high)."""
        plain = self.noise.log_between(low, high)
        return self._log_mix(plain, self.noise.log_between(low - self.shift, high - self.shift))

    def _log_mix(self, plain: Floats, moved: Floats) -> Floats:
        if self.rate == 0:
            return plain
        if self.rate == 1:
            return moved
        return log_of_sum(np.log1p(-self.rate) + plain, np.log(self.rate) + moved)


def log_mixed_ratio(rate: float, log_ratio: Floats) -> Floats:
    """ln(1 - rate + rate e^log_ratio), 0 < rate < 1."""
    with np.errstate(over="ignore"):
        direct = np.log1p(rate * np.expm1(np.minimum(log_ratio, 30)))
    summed = np.logaddexp(np.log1p(-rate), np.log(rate) + log_ratio)
    # log1p keeps relative accuracy where the ratio is near 1; the other form where it is near its lower
    # end, or huge
    return np.where((log_ratio > 30) | ((rate > 0.5) & (log_ratio < -1)), summed, direct)


@dataclass(frozen=True)
class FiniteSupport:
    """Exact probabilities of finitely many outputs."""

    masses: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        total = sum(self.masses)
        if total != 1:  # the nearest floats to a distribution rarely sum to exactly 1
            object.__setattr__(self, "masses", tuple(mass / total for mass in self.masses))

    def mixed_with(self, other: "FiniteSupport", rate: Fraction) -> "FiniteSupport":
        """(1 - rate) self + rate other."""
        return FiniteSupport(
            tuple((1 - rate) * a + rate * b for a, b in zip(self.masses, other.masses, strict=True))
        )
