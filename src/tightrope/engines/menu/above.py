"""The menu game from above: the worst choice, after each output, among entries that still fit.

An entry is a schedule of pairs, played in a row, and costs whole units. With B units left

    V_B(r) = max over entries that cost at most B of  E V_{B - cost}(r - loss),

(1 - e^r)_+ if there is none,

at every remaining epsilon r of a lattice. Each pair is spread onto the lattice, which lies above it: a step
is one product of spectra. To the left of the window V lies below its chord to V = 1 at order 0, to the right
below its last value and below Chernoff's bound. Values are tilted by e^{tilt r}. Proof, also of what rounding
is charged: proofs/chosen_on_the_way.md.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.engines.game.above import FIFTEEN_ROUNDINGS, Profile, Window, wrapped_spectra
from tightrope.engines.game.outward import exp_above, exp_of_sum_above, log_above
from tightrope.engines.one_step.atoms import spread
from tightrope.engines.one_step.cells import cut
from tightrope.engines.saddle import log_chernoff_factor
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma, next_down
from tightrope.numerics.fourier import convolution_rel_error, two_norm
from tightrope.numerics.ulps import UNDERFLOW_ABS_ERROR
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule

Complexes = NDArray[np.complex128]


@dataclass(frozen=True)
class Kernel:
    """One pair, spread onto the lattice: its tilted masses' spectrum, and sums from above.

    `tilted_sum` is the sum of the tilted masses, `total` that of the masses themselves, at least 1, and
    `infinite` the mass at infinite loss.
    """

    spectrum: Complexes
    tilted_sum: float
    total: float
    infinite: float

    @staticmethod
    def of(pair: Pair, window: Window) -> "Kernel":
        """The pair on the window's losses; what is beyond them counts as infinite, or as the smallest one."""
        atoms = spread(cut(pair, window.losses))
        labels = np.rint(atoms.losses / window.spacing).astype(np.int64) + window.reach
        if not np.array_equal(window.losses[labels], atoms.losses):
            raise ArithmeticError("an atom lies between the points of the lattice")
        count = len(labels)
        masses = _add_up(labels, exp_above(atoms.log_masses, 0.0), window)
        drift = window.tilt * atoms.losses
        # a product and a sum, each rounded once
        abs_errors = 2 * UNIT_ROUNDOFF * (np.abs(atoms.log_masses) + 2 * np.abs(drift))
        tilted = _add_up(labels, exp_above(atoms.log_masses + drift, abs_errors), window)
        summed = 1 + gamma(count)
        infinite = exp_of_sum_above(atoms.log_infinite) if atoms.log_infinite > -math.inf else 0.0
        return Kernel(
            spectrum=wrapped_spectra(tilted[None], window.size)[0],
            tilted_sum=float(tilted.sum()) * summed,
            total=max(float(masses.sum()) * summed + infinite, 1.0),
            infinite=infinite,
        )


def _add_up(labels: NDArray[np.int64], weights: Floats, window: Window) -> Floats:
    """The weights at each label, from above: as many roundings as there are weights at most."""
    sums = np.bincount(labels, weights=weights, minlength=2 * window.reach + 1)
    return np.asarray(sums * (1 + gamma(len(weights))))


@dataclass(frozen=True)
class Level:
    """Upper bounds on the tilted V on the window: values + abs_error. Chernoff's bound beyond it.

    V(r) <= chernoff factor * e^{log_moment - tilt r} + infinite.
    """

    values: Floats
    abs_error: float
    log_moment: float
    infinite: float


class MenuAbove:
    """The game over one menu, on one window."""

    def __init__(self, entries: Sequence[Schedule], costs: Sequence[int], window: Window) -> None:
        self.window, self.costs = window, tuple(costs)
        kernels = {pair: Kernel.of(pair, window) for entry in entries for pair, _ in entry}
        self.entries = [[kernels[pair] for pair, times in entry for _ in range(times)] for entry in entries]
        c, r = window.tilt, window.remaining
        self.most = exp_above(c * r, 4 * UNIT_ROUNDOFF * np.abs(c * r))  # the tilted V of 1
        beyond = np.arange(1, window.reach + 1, dtype=float) * window.spacing
        self.grow = exp_above(c * beyond, 4 * UNIT_ROUNDOFF * c * beyond)
        left = -(window.below + np.arange(window.reach, 0, -1, dtype=float)) * window.spacing
        self.left_tilt = exp_above(c * left, 4 * UNIT_ROUNDOFF * np.abs(c * left))
        # e^{r - left edge}, rounded down
        steps = np.arange(window.reach, 0, -1, dtype=float) * window.spacing
        self.left_share = np.exp(-steps) * (1 - FIFTEEN_ROUNDINGS - 4 * UNIT_ROUNDOFF * steps)
        first = window.below * window.spacing
        self.untilt_first = float(exp_above(np.array([c * first]), 4 * UNIT_ROUNDOFF * c * first)[0])
        # of one convolution, per unit of the kernel's sum and of the values' 2-norm
        self.step_rel_error = convolution_rel_error(window.size) * (1 + gamma(window.size))

    def play(self) -> Iterator[Level]:
        """V_0, V_1, ... one after the other, without end."""
        start = self._start()
        levels = [start]
        spectra: dict[int, tuple[Complexes, float]] = {}
        while True:
            yield levels[-1]
            units = len(levels)
            reached = [
                self._enter(entry, units - cost, levels, spectra)
                for entry, cost in zip(self.entries, self.costs, strict=True)
                if cost <= units
            ]
            levels.append(_largest(reached) if reached else start)
            forgotten = units - max(self.costs)
            if forgotten >= 0:
                spectra.pop(forgotten, None)
                levels[forgotten] = start  # never needed again, and its memory is

    def log_upper(self, level: Level, epsilon: float) -> float:
        """An upper bound on ln V(epsilon), epsilon >= 0: the chord between its two lattice points."""
        w = self.window
        place = math.floor(Fraction(epsilon) / Fraction(w.spacing))
        near = w.below + place
        log_values = log_above((level.values[near : near + 2] + level.abs_error) * (1 + FIFTEEN_ROUNDINGS))
        # V falls, so that a place a little to the left bounds it
        rest = max(next_down(epsilon - place * w.spacing), 0.0)
        found, drift = Profile(w.spacing, w.tilt, log_values).log_upper(rest), w.tilt * (place * w.spacing)
        return found - drift + 4 * UNIT_ROUNDOFF * (abs(found) + drift)

    def _start(self) -> Level:
        r = np.minimum(self.window.remaining, 0.0)
        # 1 - e^r and a product
        values = -np.expm1(r) * self.most * (1 + FIFTEEN_ROUNDINGS)
        return Level(values, 0.0, 0.0, 0.0)

    def _enter(
        self,
        kernels: Sequence[Kernel],
        at: int,
        levels: Sequence[Level],
        spectra: dict[int, tuple[Complexes, float]],
    ) -> Level:
        """What one entry makes of the level at which it leaves the budget."""
        level = levels[at]
        if kernels and at not in spectra:
            spectra[at] = self._spectrum(level)
        for i, kernel in enumerate(kernels):
            spectrum, norm = spectra[at] if i == 0 else self._spectrum(level)
            level = self._step(kernel, level, spectrum, norm)
        return level

    def _step(self, kernel: Kernel, level: Level, spectrum: Complexes, norm: float) -> Level:
        w = self.window
        found = fft.irfft(kernel.spectrum * spectrum, w.size, overwrite_x=True)
        values = found[w.reach : w.reach + w.below + w.last + 1] + kernel.infinite * self.most
        values = np.minimum(np.maximum(values, 0.0), self.most)
        abs_error = kernel.tilted_sum * level.abs_error + self.step_rel_error * kernel.tilted_sum * norm
        # what is infinite is added with two roundings
        abs_error += 2 * UNIT_ROUNDOFF * float(values.max()) + UNDERFLOW_ABS_ERROR
        abs_error *= 1 + FIFTEEN_ROUNDINGS
        if not math.isfinite(abs_error):
            raise NotPreciseEnough("The tilted values of the game overflow")
        log_moment = level.log_moment + math.log(kernel.tilted_sum)
        log_moment += FIFTEEN_ROUNDINGS * (abs(level.log_moment) + abs(log_moment) + 1)
        infinite = (kernel.infinite + kernel.total * level.infinite) * (1 + FIFTEEN_ROUNDINGS)
        return Level(values, abs_error, log_moment, infinite)

    def _spectrum(self, level: Level) -> tuple[Complexes, float]:
        """Of the level's values, with what bounds them on both sides of the window; and their 2-norm."""
        w, c = self.window, self.window.tilt
        edge = float(level.values[-1]) + level.abs_error
        chernoff = exp_of_sum_above(log_chernoff_factor(c), level.log_moment)
        last = w.last * w.spacing
        never = exp_of_sum_above(c * last) * level.infinite
        right = np.minimum(edge * self.grow, (chernoff + never * self.grow) * (1 + FIFTEEN_ROUNDINGS)) * (
            1 + FIFTEEN_ROUNDINGS
        )
        first = min(
            (float(level.values[0]) + level.abs_error) * self.untilt_first * (1 + FIFTEEN_ROUNDINGS), 1.0
        )
        left = (1 - (1 - first) * self.left_share + FIFTEEN_ROUNDINGS) * self.left_tilt
        full = np.concatenate([left, level.values, right])
        return fft.rfft(full, w.size), two_norm(full)


def _largest(levels: Sequence[Level]) -> Level:
    """The largest of everything: each bounds the best choice's."""
    values = levels[0].values
    for level in levels[1:]:
        values = np.maximum(values, level.values)
    return Level(
        values,
        max(level.abs_error for level in levels),
        max(level.log_moment for level in levels),
        max(level.infinite for level in levels),
    )
