"""One side of a composition on a lattice of losses: tilted, wrapped, raised to powers by FFT, and read off."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.engines.atoms import LossAtoms
from tightrope.engines.face import Errors, LogBounds
from tightrope.engines.saddle import Placement, geometric_tail, log_chernoff_factor
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.tails import Floats, log_sum

VERY_RARE = (
    -90.0
)  # ln of how rare jumps are, per step, where two in one run change no digit however many steps there are
FARTHEST = 1e12  # spacings; beyond, an epsilon is not resolved by the lattice and gets Chernoff's bound

Complexes = NDArray[np.complex128]


@dataclass(frozen=True)
class LatticeStep:
    """One step's law on the lattice, `times` over. The label j stands for the loss (j + offset) * spacing.

    `jump` marks atoms above the loss at which runs are told apart (see big_jump); None where they are not. `rest` is the
    distance from the label's loss to the atom's own (BELOW only; zero ABOVE).
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
        atoms: LossAtoms, times: int, spacing: float, tilt: float, jump: NDArray[np.bool_] | None
    ) -> "LatticeStep":
        """Atoms ABOVE sit on the lattice already."""
        labels = np.rint(atoms.losses / spacing).astype(np.int64)
        return LatticeStep(labels, atoms.log_masses, times, spacing, 0.0, np.zeros(len(labels)), jump)

    @staticmethod
    def below(
        atoms: LossAtoms, times: int, spacing: float, tilt: float, jump: NDArray[np.bool_] | None
    ) -> "LatticeStep":
        """Atoms BELOW are labelled by the lattice interval they lie in.

        A label stands for the place in its interval where tilted atoms lie on average: where almost every step loses
        almost nothing, half an interval for each would add up to more than all that is lost.
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
        calm, wild = exponents[~self.jump], exponents[self.jump]
        return log_sum(calm), log_sum(wild)


def composed_log_moment(steps: list[LatticeStep], tilt: float) -> float:
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
    """The composed, tilted and wrapped law of one side: masses at labels modulo the size, relative to e^log_scale."""

    masses: Floats
    log_scale: float
    fuzz: float  # bounds the rounding error of each mass
    offset: float  # the label 0 stands for the loss offset * spacing

    @staticmethod
    def of(steps: list[LatticeStep], tilt: float, size: int, *, dual: bool = False) -> "LatticeSide":
        """Raise each step to its power. `dual` gives Q's masses times e^label instead of P's."""
        half = size // 2 + 1
        calm = np.zeros(half, dtype=complex)  # ln of the product over calm atoms
        odds = np.zeros(half, dtype=complex)  # sum of times * ln(1 + wild / calm)
        doubt, jumps, growth, wild_doubt = np.zeros(half), np.zeros(half), np.zeros(half), np.zeros(half)
        log_scale = 0.0
        unit = 4 * UNIT_ROUNDOFF * (4 + math.log2(size))
        # Jumps this rare are counted in units of how rare they are: as plain numbers they would underflow.
        rarest = max((wild - calm for calm, wild in (step.log_moments(tilt) for step in steps)), default=0.0)
        rarity = rarest if -math.inf < rarest < VERY_RARE else 0.0
        for step in steps:
            log_calm, log_wild = step.log_moments(tilt)
            if log_wild - log_calm > 300:
                raise NotPreciseEnough("Jumps are not rare.")
            wild = np.zeros(len(step.labels), dtype=bool) if step.jump is None else step.jump
            exponents = step.exponents(tilt) - log_calm - (step.rest if dual else 0)
            weights = np.exp(exponents - np.where(wild, rarity, 0.0))
            first = _transform(step.labels[~wild], weights[~wild], size)
            log_scale += step.times * log_calm
            relative = step.times / (np.abs(first) + unit)
            doubt += relative
            first = np.where(first == 0, unit, first)
            calm += step.times * np.log(first)
            if wild.any():
                ratio = _transform(step.labels[wild], weights[wild], size) / first
                log_more = step.times * (ratio if rarity else _log1p(ratio))
                odds += log_more
                jumps += step.times * np.abs(ratio)
                growth += 0.0 if rarity else np.maximum(log_more.real, 0)  # so rare, jumps let nothing grow
                wild_doubt += relative * float(weights[wild].sum())
        product = np.exp(calm)
        if any(step.jump is not None for step in steps):
            # Runs with a jump. An error in the wild part counts once, one in the calm part only together with a jump:
            # both are relative to how rare jumps are, which is the point of telling them apart.
            if float(growth.max()) > 300:
                raise NotPreciseEnough("Jumps are not rare.")
            errors = np.abs(product) * np.exp(growth) * (wild_doubt + doubt * jumps)
            product = product * (odds if rarity else _expm1(odds))
            log_scale += rarity
            fuzz = 2 * unit * float(np.mean(errors + np.abs(product)))
        else:
            fuzz = 2 * unit * float(np.mean(np.abs(product) * (1 + doubt)))
        masses = np.asarray(fft.irfft(product, size))
        return LatticeSide(masses, log_scale, fuzz, sum(step.times * step.offset for step in steps))

    def window(self, start: int) -> Floats:
        """The masses at `start`, `start` + 1, ... for one whole period."""
        return np.roll(self.masses, -(start % len(self.masses)))

    def divergence_above(self, epsilon: float, tilt: float, spacing: float) -> tuple[float, float]:
        """ln of the divergence of atoms ABOVE, finite losses only, and ln of what rounding may have hidden in it."""
        start = math.floor(epsilon / spacing) + 1
        excess = np.maximum((start + np.arange(len(self.masses))) * spacing - epsilon, 0)
        gain = np.exp(-tilt * excess) * -np.expm1(-excess)
        fuzz = self.fuzz * float(gain.sum())
        value = float(np.maximum(self.window(start), 0) @ gain)
        log_scale = self.log_scale - tilt * epsilon
        return log_scale + _log(value + fuzz), log_scale + _log(fuzz)


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


@dataclass(frozen=True)
class LatticeLaws:
    """Both sides on one lattice: certified bounds at any epsilon, tight near the one they were made for."""

    spot: Placement
    spacing: float
    size: int
    above: LatticeSide
    below: LatticeSide
    below_dual: LatticeSide
    log_infinite: float
    below_infinite: float
    log_mass: float  # ln of the probability, under P, of all runs that are counted
    log_moment_beyond: float
    log_moment_above: float
    blur: float

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        if abs(epsilon) > FARTHEST * self.spacing:
            far = (
                self.log_moment_above
                - self.spot.tilt * epsilon
                + log_chernoff_factor(self.spot.tilt)
                + self.blur
            )
            return LogBounds(-math.inf, min(float(np.logaddexp(far + 1e-6, self.log_infinite)), 0.0))
        rounding = self.blur + 64 * UNIT_ROUNDOFF * (
            1 + abs(self.above.log_scale) + self.spot.tilt * abs(epsilon)
        )
        rounding += (
            8 * UNIT_ROUNDOFF * (1 + self.spot.tilt) * abs(self.below.offset) * self.spacing
        )  # of where label 0 lies
        finite, fuzz_above = self.above.divergence_above(epsilon, self.spot.tilt, self.spacing)
        upper = float(np.logaddexp(finite + rounding, self.log_infinite))
        lower, aliasing, fuzz_below = self._below(epsilon, rounding)
        lower = min(float(np.logaddexp(lower, self.below_infinite)), upper)
        tails = max(math.exp(self.log_infinite - upper) - math.exp(self.below_infinite - upper), 0.0)
        wrapped, above, below = (math.exp(min(x - upper, 0.0)) for x in (aliasing, fuzz_above, fuzz_below))
        rounding = 2 * rounding + above + below
        cells = max(-math.expm1(lower - upper) - tails - wrapped - rounding, 0.0)
        return LogBounds(lower, upper, Errors(cells, tails, wrapped, 0.0, rounding))

    def _below(self, epsilon: float, rounding: float) -> tuple[float, float, float]:
        """ln of the best test's advantage under the laws BELOW, of the aliasing charged, and of the rounding charged."""
        c, offset = self.spot.tilt, self.below.offset * self.spacing
        lead = min(self.size // 8, math.ceil(0.5 / ((1 + c) * self.spacing)))
        start = math.floor((epsilon - offset) / self.spacing) - lead
        excess = (start + np.arange(self.size)) * self.spacing + offset - epsilon
        decay = np.exp(-c * excess)
        dual = np.exp(-excess)
        advantage = (self.below.window(start) - dual * self.below_dual.window(start)) * decay
        doubts = (self.below.fuzz + dual * self.below_dual.fuzz) * decay
        gains, costs = (
            np.cumsum(advantage[::-1]),
            np.cumsum(doubts[::-1]),
        )  # "reject above a threshold", for each threshold
        chosen = int(np.argmax(gains - costs))
        best, fuzz = float(gains[chosen]), float(costs[chosen])
        log_scale = self.below.log_scale - c * epsilon
        beyond, period = self.spot.tilt_beyond, self.spot.period
        first = epsilon - (lead + 1) * self.spacing
        aliasing = geometric_tail(-c * period, self.log_mass - log_scale) + geometric_tail(
            -(beyond - c) * period, self.log_moment_beyond - beyond * first - log_scale
        )
        value = best * (1 - rounding) - fuzz - aliasing
        return log_scale + _log(value), log_scale + _log(aliasing), log_scale + _log(fuzz)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
