"""A composition on a lattice of losses: tilted, wrapped, raised to powers by FFT, and read off.

Places are label * spacing exactly, for a spacing of few bits. Weights are rounded to the side of their law
before the FFT, whose own errors `powers.py` bounds. docs/certificates.md has the proofs (lemmas 10 to 14).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.engines.face import BELOW, Side
from tightrope.engines.one_step.atoms import LossAtoms
from tightrope.engines.one_step.enclosures import log_sum_above
from tightrope.engines.powers import MOST_GROWTH, VERY_RARE, JumpPower, Power, Spectrum
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma, log_sum
from tightrope.numerics.fourier import fft_rel_error
from tightrope.numerics.ulps import UNDERFLOW_ABS_ERROR

if TYPE_CHECKING:
    pass

T = TypeVar("T")
SPACING_BITS = 16  # of a spacing's mantissa: labels up to 2^37 times it are exact
FARTHEST = 2.0**36  # spacings; the lattice does not resolve an epsilon beyond, which gets Chernoff's bound
SUMMED = 64  # numpy sums in pairs: fewer roundings than this in a row, with the products, for 2^40 terms


def few_bits(spacing: float) -> float:
    """The spacing rounded down to so few bits that its multiples are exact."""
    mantissa, exponent = math.frexp(spacing)
    return math.ldexp(math.floor(math.ldexp(mantissa, SPACING_BITS)), exponent - SPACING_BITS)


def _place_abs_error(spacing: float, largest: float) -> float:
    """How far a multiple of the spacing is off: nothing, for a spacing of few bits."""
    return 0.0 if few_bits(spacing) == spacing else UNIT_ROUNDOFF * largest


@dataclass(frozen=True)
class LatticeStep:
    """One step's law on the lattice, `times` over. The label j stands for the loss j * spacing.

    `jump` marks the atoms above the loss at which runs are told apart (jumps.py); None where they are not.
    `rest` is how far each atom's own loss lies above its label's (zero ABOVE); `offset` is its tilted mean in
    spacings, to know where to look.
    """

    labels: NDArray[np.int64]
    log_masses: Floats
    times: int
    spacing: float
    side: Side
    rest: Floats
    offset: float
    jump: NDArray[np.bool_] | None
    log_infinite: float = -math.inf  # ln of a bound on the probability of an infinite loss, ABOVE
    # what does not depend on `times`, for runs that are about as long
    kept: dict[tuple[object, ...], object] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def above(
        atoms: LossAtoms, times: int, spacing: float, jump: NDArray[np.bool_] | None = None
    ) -> "LatticeStep":
        """Atoms ABOVE sit on the lattice already."""
        labels = np.rint(atoms.losses / spacing).astype(np.int64)
        rest = np.zeros(len(labels))
        infinite = atoms.log_infinite
        return LatticeStep(labels, atoms.log_masses, times, spacing, atoms.side, rest, 0.0, jump, infinite)

    @staticmethod
    def below(
        atoms: LossAtoms, times: int, spacing: float, tilt: float, jump: NDArray[np.bool_] | None = None
    ) -> "LatticeStep":
        """Atoms BELOW are labelled by the lattice interval they lie in; any label would do.

        The test accuses where the labels sum to enough. What a label stands for on average says how much is
        enough; half an interval would be wrong where almost every step loses almost nothing.
        """
        labels = np.floor(atoms.losses / spacing)
        labels -= labels * spacing > atoms.losses  # the quotient may be rounded up to a label
        exponents = atoms.log_masses + tilt * atoms.losses
        weights = np.exp(exponents - exponents.max(initial=-np.inf))
        offset = float(weights @ (atoms.losses / spacing - labels) / weights.sum()) if len(labels) else 0.5
        rest = atoms.losses - labels * spacing
        return LatticeStep(
            labels.astype(np.int64), atoms.log_masses, times, spacing, atoms.side, rest, offset, jump
        )

    def exponents(self, tilt: float, origin: int = 0) -> tuple[Floats, Floats]:
        """ln of the masses tilted by e^{tilt (label - origin) spacing}, and how far each is off.

        Two roundings of the tilt's share, one more.
        """
        tilted = tilt * ((self.labels - origin) * self.spacing)
        total = self.log_masses + tilted
        return total, UNIT_ROUNDOFF * (2 * np.abs(tilted) + np.abs(total))

    def _keep(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]  # type: ignore[return-value]  # what was made under this key

    def origin(self, tilt: float) -> int:
        """The label from which the tilt counts, so that the tilted mass is about 1.

        Just below the largest loss tilts are huge, and P's masses exceed Q's by less than the rounding of
        ln of the tilted mass, were it counted from loss 0.
        """
        return self._keep(("origin", tilt), lambda: self._origin(tilt))

    def _origin(self, tilt: float) -> int:
        exponents, _ = self.exponents(tilt)
        log_moment = log_sum(exponents[self.is_calm])
        if not math.isfinite(log_moment):
            raise NotPreciseEnough("Nothing is certain of a step.")
        return round(log_moment / tilt / self.spacing)

    @property
    def is_calm(self) -> NDArray[np.bool_]:
        """Which atoms do not belong to a jump."""
        return np.ones(len(self.labels), dtype=bool) if self.jump is None else ~self.jump

    def log_moments_above(self, tilt: float) -> tuple[float, float]:
        """Upper bounds on ln of the tilted mass without and with a jump."""
        return self._keep(("moments", tilt), lambda: self._log_moments_above(tilt))

    def _log_moments_above(self, tilt: float) -> tuple[float, float]:
        exponents, abs_errors = self.exponents(tilt)
        exponents, calm = exponents + 2 * abs_errors, self.is_calm
        return log_sum_above(exponents[calm]), log_sum_above(exponents[~calm])

    def spectra(
        self, tilt: float, size: int, *, dual: bool, rarity: float
    ) -> tuple[Spectrum, Spectrum | None, float]:
        """The transforms of the calm and the wild part, tilted from `origin`, over e^log_scale; that scale.

        `dual` gives Q's masses times e^label instead of P's. Whatever rounding can have done to a weight is
        added to it, or taken from it where P's masses are wanted BELOW.
        """
        return self._keep(
            ("spectra", tilt, size, dual, rarity), lambda: self._spectra(tilt, size, dual, rarity)
        )

    def _spectra(
        self, tilt: float, size: int, dual: bool, rarity: float
    ) -> tuple[Spectrum, Spectrum | None, float]:
        exponents, abs_errors = self.exponents(tilt, self.origin(tilt))
        if dual:
            exponents = exponents - self.rest
            abs_errors = abs_errors + UNIT_ROUNDOFF * (np.abs(self.rest) + np.abs(exponents))
        is_calm = self.is_calm
        log_scale = log_sum(exponents[is_calm])
        towards = -1 if self.side is BELOW and not dual else 1
        parts = []
        for chosen, shift in ((is_calm, log_scale), (~is_calm, log_scale + rarity)):
            placed = _place(self.labels[chosen], exponents[chosen], abs_errors[chosen], shift, size, towards)
            parts.append(_spectrum(placed.add_up(placed.weights, size)))
        return parts[0], parts[1] if not is_calm.all() else None, log_scale

    def rest_spectra(self, tilt: float, size: int) -> tuple[Spectrum, Spectrum]:
        """The transforms of Q's masses times e^label and of what P's exceed them by, BELOW, without jumps.

        Both are those of P' and Q', where P' has the masses whose transform `spectra` gives, at most P's, and
        Q' is P' times e^-loss or more: with the losses of a bin, P' (1 - e^-rest) is rounded down, and what
        is left of P' is rounded once.
        """
        return self._keep(("rests", tilt, size), lambda: self._rest_spectra(tilt, size))

    def _rest_spectra(self, tilt: float, size: int) -> tuple[Spectrum, Spectrum]:
        exponents, abs_errors = self.exponents(tilt, self.origin(tilt))
        placed = _place(self.labels, exponents, abs_errors, log_sum(exponents), size, -1)
        both = placed.add_up(placed.weights, size)
        # of the rest, its function and two products, and of the sums in a bin, that of `both` among them
        room = 1 - gamma(2 * placed.most + 32)
        excess = placed.weights * -np.expm1(-self.rest) * room - UNDERFLOW_ABS_ERROR
        more = placed.add_up(np.maximum(excess, 0.0), size)
        calm, rounding = _spectrum(both - more), 2 * UNIT_ROUNDOFF * float(both.sum())
        return replace(calm, abs_error=calm.abs_error + rounding), _spectrum(more)


@dataclass(frozen=True)
class _Placed:
    """Weights on a period, and how many share a bin at most."""

    places: NDArray[np.int64]
    weights: Floats
    most: int

    def add_up(self, weights: Floats, size: int) -> Floats:
        """Such weights, bin by bin."""
        return np.asarray(np.bincount(self.places, weights=weights, minlength=size), dtype=float)


def _place(
    labels: NDArray[np.int64], exponents: Floats, abs_errors: Floats, shift: float, size: int, towards: int
) -> _Placed:
    """e^(exponents - shift) at labels, each moved by its error `towards` a side.

    A bin's weights are added up one by one: one rounding for each.
    """
    places, log_weights = labels % size, exponents - shift
    most = int(np.bincount(places).max(initial=0))
    errors = abs_errors + UNIT_ROUNDOFF * (10 + 3 * np.abs(log_weights) + abs(shift))
    weights = np.exp(log_weights + towards * (errors + gamma(most + 2)))
    return _Placed(places, np.maximum(weights + towards * UNDERFLOW_ABS_ERROR, 0.0), most)


def _spectrum(masses: Floats) -> Spectrum:
    """The FFT of masses."""
    total = float(masses.sum()) * (1 + gamma(SUMMED))
    return Spectrum(np.asarray(fft.rfft(masses)), fft_rel_error(len(masses)) * total)


def log_moment_above(steps: list[LatticeStep], tilt: float) -> float:
    """An upper bound on ln of the tilted mass of the run; where jumps are marked, of runs with at least one.

    It is ln(prod C^k (e^odds - 1)), odds = sum of k ln(1 + W/C), which grows with C and W.
    """
    calm, odds, rel_error, size = 0.0, [], 0.0, 0.0
    for step in steps:
        log_calm, log_wild = step.log_moments_above(tilt)
        if log_calm == -math.inf:
            raise NotPreciseEnough("Nothing is certain of a step.")
        calm += step.times * log_calm
        size += step.times * abs(log_calm)
        if log_wild > -math.inf:
            rarity = log_wild - log_calm
            if rarity > 700:
                return math.inf
            # ln(1 + x) <= x, and equal to all digits where e^rarity may underflow
            log_each = math.log(math.log1p(math.exp(rarity))) if rarity > VERY_RARE else rarity
            odds.append(math.log(step.times) + log_each)
            # of ln of the odds: three functions, and roundings of logarithms
            rel_error = max(
                rel_error, UNIT_ROUNDOFF * (40 + 2 * (abs(log_calm) + abs(log_wild) + abs(odds[-1])))
            )
    # a product and a sum for each step
    calm += gamma(len(steps) + 2) * size
    if all(step.jump is None for step in steps):
        return calm
    log_odds = log_sum_above(np.array(odds)) + rel_error
    if log_odds < VERY_RARE:  # e^x - 1 <= x (1 + x) there
        return calm + log_odds + UNIT_ROUNDOFF * (4 + 2 * abs(log_odds) + abs(calm))
    if log_odds > 700:
        return math.inf
    total = math.exp(log_odds) * (1 + 16 * UNIT_ROUNDOFF)
    more = total if total > 30 else math.log(math.expm1(total))
    return calm + more + UNIT_ROUNDOFF * (16 + 10 * abs(more) + 2 * abs(calm))


@dataclass(frozen=True)
class LatticeSide:
    """The composed law of one side, tilted and wrapped: masses at labels modulo the size, over e^log_scale.

    A mass at a label is tilted by e^{tilt (label - origin) spacing}. Rounding moves each mass by at most
    `mass_abs_error`, and the scale by `scale_abs_error`. `offset` says about how far, in spacings, the losses
    of a run lie above its label.
    """

    masses: Floats
    origin: int
    log_scale: float
    scale_abs_error: float
    mass_abs_error: float
    offset: float

    @staticmethod
    def of(steps: list[LatticeStep], tilt: float, size: int, *, dual: bool = False) -> "LatticeSide":
        """Raise each step to its power. `dual` gives Q's masses times e^label instead of P's."""
        half = size // 2 + 1
        has_jumps = any(step.jump is not None for step in steps)
        rarity = _rarity(steps, tilt) if has_jumps else 0.0
        power = JumpPower(half, rarity) if has_jumps else Power(half)
        log_scale, scale_size = rarity, abs(rarity)
        for step in steps:
            calm, wild, log_calm = step.spectra(tilt, size, dual=dual, rarity=rarity)
            power.multiply(calm, wild, step.times)
            log_scale += step.times * log_calm
            scale_size += step.times * abs(log_calm)
        masses, mass_abs_error = _invert(power, size)
        return LatticeSide(
            masses=masses,
            origin=sum(step.times * step.origin(tilt) for step in steps),
            log_scale=log_scale,
            scale_abs_error=gamma(len(steps) + 2) * scale_size,
            mass_abs_error=mass_abs_error,
            offset=sum(step.times * step.offset for step in steps),
        )

    def excess(self, steps: list[LatticeStep], tilt: float) -> "LatticeSide":
        """What these masses of P' exceed Q' times e^label by, relative to how little that is.

        It is the transform of runs with at least one "jump", the excess of one step.
        """
        size = len(self.masses)
        power = JumpPower(size // 2 + 1, 0.0)
        for step in steps:
            power.multiply(*step.rest_spectra(tilt, size), step.times)
        masses, mass_abs_error = _invert(power, size)
        return replace(self, masses=masses, mass_abs_error=mass_abs_error)

    def window(self, start: int) -> Floats:
        """The masses at `start`, `start` + 1, ... for one whole period."""
        first = start % len(self.masses)
        return self._twice[first : first + len(self.masses)]

    @cached_property
    def _twice(self) -> Floats:
        return np.concatenate([self.masses, self.masses])

    def divergence_above(self, epsilon: float, tilt: float, spacing: float) -> tuple[float, float]:
        """ln of a bound on the divergence of finite losses ABOVE, and of the rounding error charged in it.

        A mass at the place y was tilted by e^{c y}, up to a constant, and is wrapped to y - m period. What it
        is worth, g(y - epsilon) with g(x) = e^{-cx} (1 - e^{-x}) e^{-c epsilon}, has to be at most what it
        counts there. g rises up to x* = ln(1 + 1/c) and falls beyond, so this holds for m < 0 (worth 0), and
        for m > 0 where it counts at x >= x*. Nearer to epsilon, or at the one place below it, every mass
        counts at least as much as one a period less a spacing above epsilon, or at x* if that is further
        (lemma 12).
        """
        # the quotient may be rounded up to a label, not beyond: no place above epsilon is before the start
        start = math.floor(epsilon / spacing)
        places = (start + np.arange(len(self.masses))) * spacing
        slip = _place_abs_error(spacing, max(abs(float(places[0])), abs(float(places[-1]))))
        excess = np.maximum(places - epsilon, 0)
        gain = np.exp(-tilt * np.maximum(excess - slip, 0)) * -np.expm1(-(excess + slip))
        period, top = len(self.masses) * spacing, math.log1p(1 / tilt)
        beyond = max(period - spacing, top * (1 - 8 * UNIT_ROUNDOFF))
        near = int(np.searchsorted(excess, top * (1 + 16 * UNIT_ROUNDOFF), side="right"))
        gain[:near] = np.maximum(gain[:near], math.exp(-tilt * beyond) * -math.expm1(-beyond))
        # two functions, two products and two roundings of the exponent
        gain = gain * (1 + UNIT_ROUNDOFF * (20 + 3 * tilt * max(period, beyond))) + UNDERFLOW_ABS_ERROR
        error = self.mass_abs_error * float(gain.sum()) * (1 + gamma(SUMMED))
        value = float((self.window(start) * gain).sum())
        # masses are not negative, so the sizes of computed ones sum to at most value + 2 error
        value += error + gamma(SUMMED) * (abs(value) + 3 * error)
        origin = self.origin * spacing
        log_scale = self.log_scale - tilt * (epsilon - origin)
        sizes = abs(log_scale) + tilt * (abs(epsilon) + abs(origin))
        rounding = self.scale_abs_error + UNIT_ROUNDOFF * (4 + 4 * sizes)
        total = log_scale + log_or_inf(value) * (1 + math.copysign(12 * UNIT_ROUNDOFF, value - 1))
        return total + rounding, log_scale + log_or_inf(error)


def _invert(power: Power, size: int) -> tuple[Floats, float]:
    """The masses of a spectrum of this size, and how far each is off."""
    product, errors = power.result()
    # both halves of the spectrum; the inverse transform also divides by the size
    inverse_rel_error = fft_rel_error(size) + 2 * UNIT_ROUNDOFF
    total = float((errors + inverse_rel_error * np.abs(product)).sum())
    return np.asarray(fft.irfft(product, size)), 2 / size * total * (1 + gamma(SUMMED))


def _rarity(steps: list[LatticeStep], tilt: float) -> float:
    """ln of how rare jumps are per step, where that would underflow; else 0."""
    moments = [step.log_moments_above(tilt) for step in steps]
    if any(log_calm == -math.inf for log_calm, _ in moments):
        raise NotPreciseEnough("Nothing is certain of a step.")
    rarest = max(log_wild - log_calm for log_calm, log_wild in moments)
    if rarest > MOST_GROWTH:
        raise NotPreciseEnough("Jumps are not rare.")
    return rarest if -math.inf < rarest < VERY_RARE else 0.0


def log_or_inf(x: float) -> float:
    """ln x, or -inf where x is not positive; what is no number bounds nothing."""
    if math.isnan(x):
        raise ArithmeticError("masses on a lattice that are no numbers")
    return math.log(x) if x > 0 else -math.inf
