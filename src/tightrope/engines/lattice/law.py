"""A composition on a lattice of losses: tilted, wrapped, raised to powers by FFT, and read off."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.engines.atoms import LossAtoms
from tightrope.engines.face import Errors, LogBounds
from tightrope.engines.saddle import Placement, geometric_tail, log_chernoff_factor
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, log_sum

VERY_RARE = -90.0  # ln of a jump's rarity per step where two in one run change no digit, however many steps
MOST_GROWTH = 300.0  # ln of how much jumps may multiply a mass
FARTHEST = 1e12  # spacings; the lattice does not resolve an epsilon beyond, which gets Chernoff's bound

Complexes = NDArray[np.complex128]


@dataclass(frozen=True)
class LatticeStep:
    """One step's law on the lattice, `times` over. The label j stands for the loss (j + offset) * spacing.

    `jump` marks the atoms above the loss at which runs are told apart (jumps.py); None where they are not.
    `rest` is how far each atom's own loss lies above its label's (zero ABOVE).
    """

    labels: NDArray[np.int64]
    log_masses: Floats
    times: int
    spacing: float
    offset: float
    rest: Floats
    jump: NDArray[np.bool_] | None

    @staticmethod
    def above(
        atoms: LossAtoms, times: int, spacing: float, jump: NDArray[np.bool_] | None = None
    ) -> "LatticeStep":
        """Atoms ABOVE sit on the lattice already."""
        labels = np.rint(atoms.losses / spacing).astype(np.int64)
        return LatticeStep(labels, atoms.log_masses, times, spacing, 0.0, np.zeros(len(labels)), jump)

    @staticmethod
    def below(
        atoms: LossAtoms, times: int, spacing: float, tilt: float, jump: NDArray[np.bool_] | None = None
    ) -> "LatticeStep":
        """Atoms BELOW are labelled by the lattice interval they lie in.

        A label stands for the place in its interval where tilted atoms lie on average. Half an interval would
        be wrong where almost every step loses almost nothing: over all steps it would exceed everything that
        is lost.
        """
        labels = np.floor(atoms.losses / spacing).astype(np.int64)
        exponents = atoms.log_masses + tilt * atoms.losses
        weights = np.exp(exponents - exponents.max(initial=-np.inf))
        offset = float(weights @ (atoms.losses / spacing - labels) / weights.sum()) if len(labels) else 0.5
        rest = atoms.losses - (labels + offset) * spacing
        return LatticeStep(labels, atoms.log_masses, times, spacing, offset, rest, jump)

    def exponents(self, tilt: float) -> Floats:
        """ln of the tilted masses."""
        return self.log_masses + tilt * (self.labels + self.offset) * self.spacing

    def log_moments(self, tilt: float) -> tuple[float, float]:
        """ln of the tilted mass without and with a jump."""
        exponents = self.exponents(tilt)
        if self.jump is None:
            return log_sum(exponents), -math.inf
        return log_sum(exponents[~self.jump]), log_sum(exponents[self.jump])


def compose_log_moment(steps: list[LatticeStep], tilt: float) -> float:
    """ln of the tilted mass of the run; where jumps are marked, of the runs with at least one."""
    calm, log_odds = 0.0, -math.inf
    for step in steps:
        log_calm, log_wild = step.log_moments(tilt)
        calm += step.times * log_calm
        rarity = log_wild - log_calm
        # ln ln(1 + x) is ln x to all digits where x is so small that e^rarity may underflow
        log_each = math.log(math.log1p(math.exp(min(rarity, 700.0)))) if rarity > VERY_RARE else rarity
        log_odds = float(np.logaddexp(log_odds, math.log(step.times) + log_each))
    if all(step.jump is None for step in steps):
        return calm
    if log_odds < VERY_RARE:
        return calm + log_odds
    odds = math.exp(min(log_odds, 700.0))
    return calm + (odds if odds > 30 else math.log(math.expm1(odds)))


@dataclass(frozen=True)
class LatticeSide:
    """The composed law of one side, tilted and wrapped: masses at labels modulo the size, over e^log_scale.

    Rounding moves each mass by at most `mass_abs_error`. The label 0 stands for the loss offset * spacing.
    """

    masses: Floats
    log_scale: float
    mass_abs_error: float
    offset: float

    @staticmethod
    def of(steps: list[LatticeStep], tilt: float, size: int, *, dual: bool = False) -> "LatticeSide":
        """Raise each step to its power. `dual` gives Q's masses times e^label instead of P's."""
        half = size // 2 + 1
        unit = 4 * UNIT_ROUNDOFF * (4 + math.log2(size))
        jumps = _Jumps.of(steps, tilt, half) if any(step.jump is not None for step in steps) else None
        log_product, rel_errors = np.zeros(half, dtype=complex), np.zeros(half)
        log_scale = 0.0
        for step in steps:
            log_calm, _ = step.log_moments(tilt)
            log_weights = step.exponents(tilt) - log_calm - (step.rest if dual else 0)
            is_calm = np.ones(len(step.labels), dtype=bool) if step.jump is None else ~step.jump
            calm = _transform(step.labels[is_calm], np.exp(log_weights[is_calm]), size)
            step_rel_errors = step.times / (np.abs(calm) + unit)
            calm = np.where(calm == 0, unit, calm)
            log_scale += step.times * log_calm
            log_product += step.times * np.log(calm)
            rel_errors += step_rel_errors
            if jumps is not None and not is_calm.all():
                jumps.add(step, np.exp(log_weights[~is_calm] - jumps.rarity), calm, step_rel_errors, size)
        product = np.exp(log_product)
        errors = np.abs(product) * rel_errors
        if jumps is not None:
            product, errors = jumps.apply(product, rel_errors)
            log_scale += jumps.rarity
        mass_abs_error = 2 * unit * float(np.mean(np.abs(product) + errors))
        offset = sum(step.times * step.offset for step in steps)
        return LatticeSide(np.asarray(fft.irfft(product, size)), log_scale, mass_abs_error, offset)

    def window(self, start: int) -> Floats:
        """The masses at `start`, `start` + 1, ... for one whole period."""
        return np.roll(self.masses, -(start % len(self.masses)))

    def divergence_above(self, epsilon: float, tilt: float, spacing: float) -> tuple[float, float]:
        """ln of the divergence of finite losses ABOVE, and of the rounding error charged in it."""
        start = math.floor(epsilon / spacing) + 1
        excess = np.maximum((start + np.arange(len(self.masses))) * spacing - epsilon, 0)
        gain = np.exp(-tilt * excess) * -np.expm1(-excess)
        error = self.mass_abs_error * float(gain.sum())
        value = float(np.maximum(self.window(start), 0) @ gain)
        log_scale = self.log_scale - tilt * epsilon
        return log_scale + _log(value + error), log_scale + _log(error)


@dataclass
class _Jumps:
    """What turns the transform of calm runs into that of runs with at least one jump, gathered step by step.

    Where jumps are very rare, their weights are scaled by e^-rarity to avoid underflow; the caller's log
    scale carries the factor.
    """

    rarity: float
    odds: Complexes  # sum of times * ln(1 + wild / calm)
    expected: Floats  # sum of times * |wild / calm|
    log_growth: Floats  # of moduli by jumps
    rel_errors: Floats  # of the wild part, relative to the calm product

    @staticmethod
    def of(steps: list[LatticeStep], tilt: float, half: int) -> "_Jumps":
        moments = [step.log_moments(tilt) for step in steps]
        rarest = max(log_wild - log_calm for log_calm, log_wild in moments)
        if rarest > MOST_GROWTH:
            raise NotPreciseEnough("Jumps are not rare.")
        rarity = rarest if -math.inf < rarest < VERY_RARE else 0.0
        return _Jumps(rarity, np.zeros(half, dtype=complex), *(np.zeros(half) for _ in range(3)))

    def add(self, step: LatticeStep, weights: Floats, calm: Complexes, rel_errors: Floats, size: int) -> None:
        """Take in one step's jumps, given the transform of its calm part."""
        assert step.jump is not None
        ratio = _transform(step.labels[step.jump], weights, size) / calm
        if self.rarity:  # so rare, two jumps change no digit and nothing grows
            self.odds += step.times * ratio
        else:
            log_more = step.times * _log1p(ratio)
            self.odds += log_more
            self.log_growth += np.maximum(log_more.real, 0)
        self.expected += step.times * np.abs(ratio)
        self.rel_errors += rel_errors * float(weights.sum())

    def apply(self, product: Complexes, rel_errors: Floats) -> tuple[Complexes, Floats]:
        """The transform of runs with a jump, and its errors in units of one FFT's.

        An error in the wild part counts once, one in the calm part only together with a jump. Both are
        relative to how rare jumps are, which is the point of telling them apart.
        """
        if float(self.log_growth.max()) > MOST_GROWTH:
            raise NotPreciseEnough("Jumps are not rare.")
        errors = np.abs(product) * np.exp(self.log_growth) * (self.rel_errors + rel_errors * self.expected)
        return product * (self.odds if self.rarity else _expm1(self.odds)), errors


def _transform(labels: NDArray[np.int64], weights: Floats, size: int) -> Complexes:
    return np.asarray(fft.rfft(np.bincount(labels % size, weights=weights, minlength=size)))


def _log1p(z: Complexes) -> Complexes:
    """ln(1 + z), accurate for small z where numpy's complex log1p is not."""
    square = z.real * (2 + z.real) + z.imag**2
    return np.asarray(0.5 * np.log1p(np.maximum(square, -1 + 1e-16)) + 1j * np.arctan2(z.imag, 1 + z.real))


def _expm1(z: Complexes) -> Complexes:
    """e^z - 1, accurate for small z."""
    real = np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2
    return np.asarray(real + 1j * np.exp(z.real) * np.sin(z.imag))


@dataclass(frozen=True, kw_only=True)
class LatticeLaws:
    """Both sides on one lattice: certified bounds at any epsilon, tight near the one they were made for."""

    spot: Placement
    spacing: float
    size: int
    above: LatticeSide
    below: LatticeSide
    below_dual: LatticeSide
    log_infinite: float  # ln of the probability of an infinite loss, ABOVE
    below_infinite: float  # the same BELOW
    log_mass: float  # ln of the probability, under P, of all runs that are counted
    log_moment_beyond: float
    log_moment_above: float
    cells_rel_error: float  # of the composed masses, from rounding in the cells

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        tilt = self.spot.tilt
        if abs(epsilon) > FARTHEST * self.spacing:
            far = self.log_moment_above - tilt * epsilon + log_chernoff_factor(tilt) + self.cells_rel_error
            return LogBounds(-math.inf, min(float(np.logaddexp(far + 1e-6, self.log_infinite)), 0.0))
        rel_error = self.cells_rel_error
        rel_error += 64 * UNIT_ROUNDOFF * (1 + abs(self.above.log_scale) + tilt * abs(epsilon))
        # of where label 0 lies
        rel_error += 8 * UNIT_ROUNDOFF * (1 + tilt) * abs(self.below.offset) * self.spacing
        finite, error_above = self.above.divergence_above(epsilon, tilt, self.spacing)
        upper = min(float(np.logaddexp(finite, self.log_infinite)) + rel_error, 0.0)
        lower, aliasing, error_below = self._below(epsilon, rel_error)
        lower = min(float(np.logaddexp(lower, self.below_infinite)), upper)
        tails = max(math.exp(self.log_infinite - upper) - math.exp(self.below_infinite - upper), 0.0)
        wrapped, *rounded = (math.exp(min(x - upper, 0.0)) for x in (aliasing, error_above, error_below))
        rounding = 2 * rel_error + sum(rounded)
        cells = max(-math.expm1(lower - upper) - tails - wrapped - rounding, 0.0)
        return LogBounds(lower, upper, Errors(cells, tails, wrapped, 0.0, rounding))

    def _below(self, epsilon: float, rel_error: float) -> tuple[float, float, float]:
        """ln of the best test's advantage BELOW, of the aliasing and of the rounding charged in it."""
        c, offset = self.spot.tilt, self.below.offset * self.spacing
        lead = min(self.size // 8, math.ceil(0.5 / ((1 + c) * self.spacing)))
        start = math.floor((epsilon - offset) / self.spacing) - lead
        excess = (start + np.arange(self.size)) * self.spacing + offset - epsilon
        decay, dual = np.exp(-c * excess), np.exp(-excess)
        advantages = (self.below.window(start) - dual * self.below_dual.window(start)) * decay
        errors = (self.below.mass_abs_error + dual * self.below_dual.mass_abs_error) * decay
        # "reject above a threshold", for each threshold
        gains, costs = np.cumsum(advantages[::-1]), np.cumsum(errors[::-1])
        chosen = int(np.argmax(gains - costs))
        best, error = float(gains[chosen]), float(costs[chosen])
        log_scale = self.below.log_scale - c * epsilon
        beyond, period = self.spot.tilt_beyond, self.spot.period
        first = epsilon - (lead + 1) * self.spacing
        aliasing = geometric_tail(-c * period, self.log_mass - log_scale) + geometric_tail(
            -(beyond - c) * period, self.log_moment_beyond - beyond * first - log_scale
        )
        value = best * (1 - rel_error) - error - aliasing
        return log_scale + _log(value), log_scale + _log(aliasing), log_scale + _log(error)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
