"""Sampled Laplace steps on a lattice of likelihood ratios: ADD and REMOVE to about 1e-12, certified.

Let R be the likelihood ratio of a run, output with the record over output without it, and let outputs be
drawn without it. At order t = e^epsilon, removing the record loses E(R - t)+ and adding it loses E(1 - tR)+.
One step has R = `least` with probability 1/2, R = `most` with probability e^{-shift}/2, and a density in
between.

The density is spread onto the points least * e^{jh}, each cell onto its two ends so that mass and mean stay.
Both curves are convex in R, so that they rise, and by little: a kink falls into one cell, in which the chord
exceeds it by at most (density) * width^2 / 8 on average. With (ratio) * (density) at most D that is D h^2 / 8
for each step, times t for remove. The two atoms lie on the lattice and stay as they are.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import fft

from tightrope.curve.bracket import Bracket
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats


@dataclass(frozen=True)
class LaplaceStep:
    """Laplace noise of scale 1 / `shift` on a sum that one record moves by 1, Poisson sampling at `rate`."""

    shift: float
    rate: float

    @property
    def least(self) -> float:
        """The smallest likelihood ratio, of every output below 0."""
        return 1 - self.rate + self.rate * math.exp(-self.shift)

    @property
    def most(self) -> float:
        """The largest likelihood ratio, of every output above 1."""
        return 1 - self.rate + self.rate * math.exp(self.shift)

    @property
    def atoms(self) -> tuple[float, float]:
        """The probabilities, without the record, of the smallest and the largest ratio."""
        return 0.5, math.exp(-self.shift) / 2

    @property
    def span(self) -> float:
        """ln(most / least)."""
        return math.log(self.most) - math.log(self.least)

    def spread(self, cells: int) -> Floats:
        """The mass between the atoms on the points least * e^{jh}, h = span / cells, with its mean."""
        ends = self.least * np.exp(np.arange(cells + 1) * (self.span / cells))
        widths = ends[:-1] * math.expm1(self.span / cells)
        # x: the outputs at the ends of the cells, where the ratio is 1 - rate + rate e^{2x - shift}
        inner = ends[:-1] - (1 - self.rate)
        x = (np.log(inner / self.rate) + self.shift) / 2
        step = np.log1p(widths / inner) / 2
        without = np.exp(-x) * -np.expm1(-step) / 2
        shifted = np.exp(x - self.shift) * np.expm1(step) / 2
        excess = (1 - self.rate - ends[:-1]) * without + self.rate * shifted
        upper = np.clip(excess / widths, 0, without)
        masses = np.zeros(cells + 1)
        masses[:-1] += without - upper
        masses[1:] += upper
        return masses

    @property
    def steepest(self) -> float:
        """The largest (ratio) * (density of the ratio): it falls, and begins with density 1/2 at output 0."""
        return self.least / 2 / (2 * self.rate * math.exp(-self.shift))


@dataclass(frozen=True)
class Lattice:
    """`steps` equal steps, each on `cells` cells between its atoms; brackets are about 1 / cells^2 wide."""

    step: LaplaceStep
    steps: int
    cells: int

    @cached_property
    def masses(self) -> Floats:
        """The probability, without the record, of each ratio in `ratios`."""
        continuous = self.step.spread(self.cells)
        size = fft.next_fast_len(self.steps * self.cells + 1, real=True)
        transform, power = fft.rfft(continuous, size), np.ones(size // 2 + 1, dtype=complex)
        total = np.zeros(self.steps * self.cells + 1)
        low, high = self.step.atoms
        for between in range(self.steps + 1):
            part = fft.irfft(power, size)[: between * self.cells + 1] if between else np.ones(1)
            rest = self.steps - between
            for highest in range(rest + 1):
                ways = math.comb(self.steps, between) * math.comb(rest, highest)
                weight = ways * low ** (rest - highest) * high**highest
                total[highest * self.cells :][: len(part)] += weight * part
            power = power * transform
        return total

    @cached_property
    def ratios(self) -> Floats:
        """The points of the lattice, least^steps * e^{jh}."""
        offsets = np.arange(self.steps * self.cells + 1) * (self.step.span / self.cells)
        return np.asarray(np.exp(self.steps * math.log(self.step.least) + offsets))

    @cached_property
    def mass_abs_error(self) -> float:
        """More than the Euclidean length of what rounding did to `masses`.

        A Fourier transform of length N is off by at most 8 u log2(N) of its length (Higham, Accuracy and
        Stability, 24.1). The atoms never pass through one: with them the bound would be a thousand times
        larger.
        """
        continuous = self.step.spread(self.cells)
        length, mass = float(np.linalg.norm(continuous)), float(continuous.sum())
        per_transform = 8 * UNIT_ROUNDOFF * math.log2(2 * self.steps * self.cells + 2)
        atoms = sum(self.step.atoms)
        return per_transform * sum(
            math.comb(self.steps, m) * atoms ** (self.steps - m) * (m + 2) * mass ** (m - 1) * length
            for m in range(1, self.steps + 1)
        )

    def remove(self, epsilon: float) -> Bracket:
        """delta of removing the record: E(R - t)+ = 1 - t + E(t - R)+, whose gains are at most t."""
        t = math.exp(epsilon)
        below = int(np.searchsorted(self.ratios, t))
        gains = t - self.ratios[:below]
        return self._bracket(1 - t + float(np.sum(self.masses[:below] * gains)), gains, t, t)

    def add(self, epsilon: float) -> Bracket:
        """delta of adding the record: E(1 - tR)+."""
        t = math.exp(epsilon)
        below = int(np.searchsorted(self.ratios, 1 / t))
        gains = 1 - t * self.ratios[:below]
        return self._bracket(float(np.sum(self.masses[:below] * gains)), gains, 1.0, t)

    def lead_of_add(self, epsilon: float) -> Bracket:
        """delta of adding minus delta of removing."""
        add, remove = self.add(epsilon), self.remove(epsilon)
        return Bracket(add.lower - remove.upper, add.upper - remove.lower)

    def spread_abs_error(self, scale: float) -> float:
        """More than spreading raised a curve: `scale` is t for remove, 1 for add."""
        width = math.expm1(self.step.span / self.cells)
        return self.steps * scale * self.step.steepest * width**2 / 8 * (1 + 1e-9)

    def _bracket(self, value: float, gains: Floats, scale: float, t: float) -> Bracket:
        # np.linalg.norm starts threads, which wait for each other on a busy machine
        length = math.sqrt(np.sum(np.square(gains)))
        # a unit or two for each exponential, logarithm and product, of numbers that are at most 1 + t in all
        rounding = self.mass_abs_error * length + 64 * UNIT_ROUNDOFF * self.steps * (1 + t)
        upper = value + rounding
        return Bracket(max(min(value - rounding - self.spread_abs_error(scale), upper), 0.0), max(upper, 0.0))
