"""Laws of additive noise: the noise itself, and mixtures of it and one shift of it."""

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy import special

from tightrope.numerics.floats import (
    UNIT_ROUNDOFF,
    Floats,
    exact_log_ratio,
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
    """(1 - rate) noise(0) + rate noise(shift), both given exactly; shifts are in noise scales.

    `rate`, `rest` = 1 - rate and `shift` are the nearest floats. Each is right to a unit roundoff, so that
    a density with these weights is, too, at every output: nothing cancels at rates near 0 or 1.
    """

    noise: Noise
    exact_rate: Fraction = Fraction(0)
    exact_shift: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        rate, shift = Fraction(self.exact_rate), Fraction(self.exact_shift)
        if rate == 0 or shift == 0:  # one spelling for the plain noise
            rate = shift = Fraction(0)
        object.__setattr__(self, "exact_rate", rate)
        object.__setattr__(self, "exact_shift", shift)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept, as fractions take long to hash; of numbers alone, so that it is the same in every process."""
        return hash((self.noise is Noise.NORMAL, self.exact_rate, self.exact_shift))

    @cached_property
    def rate(self) -> float:
        """The weight of the shifted noise."""
        return float(self.exact_rate)

    @cached_property
    def rest(self) -> float:
        """The weight of the noise at 0."""
        return float(1 - self.exact_rate)

    @cached_property
    def shift(self) -> float:
        """How far the shifted noise is from 0."""
        return float(self.exact_shift)

    @cached_property
    def log_rate(self) -> float:
        """ln of the rate, to LOG_REL_ERROR; -inf for the plain noise."""
        return exact_log_ratio(self.exact_rate, Fraction(1)) if self.exact_rate else -math.inf

    @cached_property
    def log_rest(self) -> float:
        """ln(1 - rate), to LOG_REL_ERROR; -inf for noise that is always shifted."""
        return exact_log_ratio(1 - self.exact_rate, Fraction(1)) if self.exact_rate < 1 else -math.inf

    @property
    def mirrored(self) -> "Mixture":
        """The same law reflected at 0."""
        return Mixture(self.noise, self.exact_rate, -self.exact_shift)

    @property
    def sort_key(self) -> tuple[float | Fraction, ...]:
        """Orders mixtures of one noise by rate and shift; floats, which are quick, decide nearly always."""
        return self.rate, self.exact_rate, self.shift, self.exact_shift

    @cached_property
    def is_plain(self) -> bool:
        """Whether this is the noise at 0."""
        return not self.exact_rate

    @cached_property
    def is_moved(self) -> bool:
        """Whether this is the shifted noise alone."""
        return self.exact_rate == 1

    @cached_property
    def is_pure(self) -> bool:
        """Whether this is a single shift of the noise."""
        return self.is_plain or self.is_moved

    def log_ratio(self, x: Floats) -> Floats:
        """ln of this density over the plain noise's, with relative accuracy where it is tiny."""
        return self.log_mixed(self.noise.log_shift_ratio(x, self.shift))

    def log_mixed(self, log_ratio: Floats) -> Floats:
        """ln(1 - rate + rate e^log_ratio)."""
        if self.is_pure:
            return log_ratio * self.rate
        # log1p keeps relative accuracy where the ratio is near 1; the other form where it is near its lower
        # end, or huge, which is rare
        far = log_ratio > 30
        if self.rate > 0.5:
            far |= log_ratio < -1
        direct = np.log1p(self.rate * np.expm1(np.where(far, 0.0, log_ratio)))
        if not np.any(far):
            return direct
        return np.where(far, np.logaddexp(self.log_rest, self.log_rate + log_ratio), direct)

    def log_mixed_abs_error(self, log_ratio: Floats, log_ratio_abs_error: Floats, mixed: Floats) -> Floats:
        """How far `log_mixed` can be off where its argument is, to first order (certificates, lemma 0)."""
        moved = self.shifted_share(log_ratio) * log_ratio_abs_error
        if self.is_pure:
            return moved
        far = 32 + 8 * (abs(self.log_rate) + np.abs(log_ratio))
        rel_error = np.where(log_ratio > 30, far, 88.0 if self.rate > 0.5 else 36.0)
        return UNIT_ROUNDOFF * rel_error * np.abs(mixed) + moved + np.finfo(float).tiny

    def shifted_share(self, log_ratio: Floats) -> Floats:
        """The shifted part's share of the density: g e^x / (1 - g + g e^x), x = ln(shifted / plain)."""
        if self.is_pure:
            return np.full_like(log_ratio, self.rate)
        return np.asarray(special.expit(log_ratio + (self.log_rate - self.log_rest)))

    def log_needed_ratio(self, loss: Floats) -> Floats:
        """The ln y for which 1 - rate + rate y = e^loss; -inf where there is none."""
        loss = np.asarray(loss, dtype=float)
        # y = 1 + (e^loss - 1) / rate is (e^loss - rest) / rate: the first keeps its digits where y is near 1,
        # the second where it is near 0
        near = np.maximum(np.expm1(np.minimum(loss, 1)) / self.rate, -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            fallen = log_of_difference(loss, np.full_like(loss, self.log_rest)) - self.log_rate
            small = np.where(near < -0.5, fallen, np.log1p(near))
        large = loss - self.log_rate + np.log1p(-self.rest * np.exp(-np.maximum(loss, 1)))
        return np.where(loss < 1, small, large)

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
        if self.is_plain:
            return plain
        if self.is_moved:
            return moved
        return log_of_sum(self.log_rest + plain, self.log_rate + moved)
