"""The substitution game from above: the worst adaptive choice among finitely many one-step curves.

With W = V - (1 - e^eps)_+, the part of the curve that is not certain,

    W_{j+1}(r) = max over curves of  (one-step curve at r)  +  sum over losses l of mass(l) W_j(r - l)

at every remaining epsilon r on a lattice: one FFT for W_j and one back for each curve. Each curve is replaced
by its chords between lattice points, which is exact at them and lies above in between. The family is closed
under exchanging P and Q, so W(-r) = e^-r W(r) and only r >= 0 is kept. Beyond the last r the curve is at most
what it is there, and at most the envelope's Chernoff bound. Everything is tilted by e^{c r}, so that rounding
is relative to the rare losses that make delta. Proof: proofs/substitution_game.md.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.engines.atoms import ABOVE, LossAtoms
from tightrope.engines.face import Progress
from tightrope.engines.game.pooling import Curves, TriangleCover, curves_of
from tightrope.engines.game.triangles import REMOVE_GRAM
from tightrope.engines.saddle import log_chernoff_factor
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats

Complexes = NDArray[np.complex128]
AT_ONCE = 8  # curves: their FFTs fit the processor's cache
LARGEST = 1e100  # larger tilted values are scaled down
EXP_REL_ERROR = 1e-12  # of exponentials whose exponents, and those of the window's two ends, stay below 700


@dataclass(frozen=True, kw_only=True)
class Window:
    """Remaining epsilons from -below to last spacings; losses up to reach spacings either way; the tilt."""

    spacing: float
    below: int = 0
    last: int
    reach: int
    tilt: float

    @property
    def size(self) -> int:
        """The length of the FFTs."""
        return fft.next_fast_len(self.below + self.last + 1 + 2 * self.reach, real=True)

    @property
    def remaining(self) -> Floats:
        """Every remaining epsilon."""
        return np.arange(-self.below, self.last + 1, dtype=float) * self.spacing

    @cached_property
    def losses(self) -> Floats:
        """All losses, from -reach to reach."""
        return np.arange(-self.reach, self.reach + 1, dtype=float) * self.spacing


@dataclass(frozen=True)
class Profile:
    """Upper bounds on V at r = 0, spacing, ...: ln V = log_values - tilt r."""

    spacing: float
    tilt: float
    log_values: Floats

    def __post_init__(self) -> None:
        if np.isnan(self.log_values).any():
            raise ArithmeticError("a bound that is not a number bounds nothing")

    @cached_property
    def log_curve(self) -> Floats:
        """ln V at the lattice points, V made nonincreasing."""
        r = np.arange(len(self.log_values), dtype=float) * self.spacing
        return np.minimum.accumulate(self.log_values - self.tilt * r)

    def log_upper(self, epsilon: float) -> float:
        """An upper bound on ln V(epsilon), epsilon >= 0: the chord over e^epsilon between lattice points."""
        place = epsilon / self.spacing
        i = math.floor(place)
        if i + 1 >= len(self.log_values):
            return float(self.log_curve[-1])
        share = math.expm1((place - i) * self.spacing) / math.expm1(self.spacing)
        near, far = float(self.log_curve[i]), float(self.log_curve[i + 1])
        return near + math.log1p(-share * -math.expm1(far - near)) + 16 * UNIT_ROUNDOFF * (1 + abs(near))

    def epsilon_above(self, log_delta: float) -> float:
        """The smallest epsilon, up to a little, whose bound is at most delta; infinity if there is none."""
        i = int(np.searchsorted(-self.log_curve, -log_delta))
        if i >= len(self.log_curve):
            return math.inf
        if i == 0:
            return 0.0
        return bisect(self.log_upper, log_delta, (i - 1) * self.spacing, i * self.spacing, 1e-12)

    def atoms(self) -> LossAtoms:
        """A loss law that dominates: V read as the curve of one step."""
        values = np.exp(np.minimum(self.log_curve, 0.0))
        r = np.arange(len(values), dtype=float) * self.spacing
        table = np.concatenate([(values * np.exp(-r))[:0:-1], values])
        masses = lattice_masses(table[None], self.spacing)[0]
        held = masses > 0
        losses = np.arange(-(len(values) - 1), len(values)) * self.spacing
        return LossAtoms(losses[held], np.log(masses[held]), float(self.log_curve[-1]), ABOVE)


def bisect(
    log_upper: Callable[[float], float], log_delta: float, low: float, high: float, rel_error: float
) -> float:
    """The epsilon between a bound above delta at `low` and one that is not at `high`, from above."""
    while high - low > rel_error * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if log_upper(middle) > log_delta else (low, middle)
    return high


def lattice_masses(tables: Floats, spacing: float) -> Floats:
    """P-masses at the losses of each row: how much its chords turn at each lattice point.

    A row holds curve - (1 - t)_+ at t = e^loss, losses from -m to m spacings. What rounding may have taken
    from a mass is added to it; masses that came out negative, where a curve was capped, are lifted to 0,
    which only adds.
    """
    step = np.diff(tables, axis=1)
    rises, falls = step / math.expm1(spacing), step / -math.expm1(-spacing)
    # beyond the last loss the curve is constant; below the first it is a chord to t = 0
    right = np.concatenate([rises, np.zeros((len(tables), 1))], axis=1)
    left = np.concatenate([tables[:, :1], falls], axis=1)
    masses = right - left
    masses[:, tables.shape[1] // 2] += 1 + 4 * UNIT_ROUNDOFF  # the kink of (1 - t)_+
    near = np.pad(tables, ((0, 0), (1, 1)), mode="edge")
    nearby = near[:, :-2] + near[:, 1:-1] + near[:, 2:]
    masses_abs_error = 8 * UNIT_ROUNDOFF * nearby / -math.expm1(-spacing)
    return np.asarray(np.maximum(masses, 0) + masses_abs_error)


def wrapped_spectra(kernels: Floats, size: int) -> Complexes:
    """The Fourier transforms of kernels over losses of both signs, one per row, with loss 0 at place 0."""
    reach = kernels.shape[1] // 2
    wrapped = np.zeros((len(kernels), size))
    wrapped[:, : reach + 1] = kernels[:, reach:]
    wrapped[:, size - reach :] += kernels[:, :reach]
    return np.asarray(fft.rfft(wrapped, axis=1))


class GameAbove:
    """The game over a cover's curves, on one window."""

    def __init__(self, cover: TriangleCover, window: Window) -> None:
        self.window = window
        r = np.arange(window.reach + 1, dtype=float) * window.spacing
        ceiling = curves_of(
            [REMOVE_GRAM], cover.rate, cover.inverse_variance, r, cover.quality.coarseness
        ).forth
        first = curves_of(
            cover.first, cover.rate, cover.inverse_variance, r, cover.quality.coarseness
        ).largest()
        rest = Curves.stack([cover.groups.rows(range(1, cover.groups.count)), cover.others])
        orders, grid = np.expm1(r), np.expm1(cover.grid)  # t - 1, which resolves small losses
        others = rest.each(lambda row: chords(orders, grid, row))
        # a triangle's curve is convex and below the ceiling, so it is below the largest convex curve that is
        capped = Curves.stack([first, others]).below(ceiling)
        hulls = capped.each(lambda row: convex_minorant(orders, row))
        self.tables = _tables(hulls, r) * (1 + 32 * UNIT_ROUNDOFF)
        self.envelope = _tables(Curves(ceiling, ceiling), r)

    def play(self, steps: int, keep: Collection[int], progress: Progress) -> dict[int, Profile]:
        """The value after each number of steps in `keep`."""
        w, c = self.window, self.window.tilt
        kernels = self._tilted_masses(self.tables) * (1 + EXP_REL_ERROR)
        norm = float(kernels.sum(axis=1).max())
        log_norm = math.log(float(self._tilted_masses(self.envelope).sum()))
        log_infinite = math.log(float(self.envelope[0, -1]))
        spectra = wrapped_spectra(kernels, w.size)
        gains = self._tilted_gains()
        r = np.arange(w.last + w.reach + 1, dtype=float) * w.spacing
        mirror = np.exp(-(2 * c + 1) * r[1 : w.reach + 1])
        beyond = np.exp(c * r[1 : w.reach + 1])
        fft_abs_error = 16 * UNIT_ROUNDOFF * (4 + math.log2(w.size)) * norm  # per unit of the values' 2-norm
        values, values_abs_error, log_scale = np.zeros(w.last + 1), 0.0, 0.0
        found: dict[int, Profile] = {}
        for j in range(1, steps + 1):
            # what nobody exceeds beyond the window: the edge's value, and the envelope's Chernoff bound
            chernoff = _exp(log_chernoff_factor(c) + (j - 1) * log_norm - log_scale + 1e-9)
            never = _exp(math.log(j) + log_infinite - log_scale + c * float(r[w.last]) + 1e-6)
            right = np.minimum((values[-1] + values_abs_error) * beyond, chernoff + never * beyond)
            all_right = np.concatenate([values, right])
            full = np.concatenate([(all_right[1 : w.reach + 1] * mirror)[::-1], all_right])
            norm_of_full = math.sqrt(float(full @ full))
            values = self._best(spectra, fft.rfft(full, w.size), gains)
            top = float(values.max())
            values_abs_error = (
                norm * values_abs_error + fft_abs_error * norm_of_full + 4 * UNIT_ROUNDOFF * top
            )
            if not math.isfinite(values_abs_error + norm_of_full):
                raise NotPreciseEnough("The tilted values of the game overflow")
            if j in keep:
                log_values = _log(values + values_abs_error) + log_scale + 1e-13 * (1 + abs(log_scale))
                found[j] = Profile(w.spacing, c, log_values)
            if top > LARGEST:
                values, values_abs_error, gains = values / top, values_abs_error / top, gains / top
                log_scale += math.log(top)
            progress(j, steps)
        return found

    def _tilted_masses(self, tables: Floats) -> Floats:
        w = self.window
        return np.asarray(np.exp(_log(lattice_masses(tables, w.spacing)) + w.tilt * w.losses))

    def _tilted_gains(self) -> Floats:
        """The one-step curves at every r of the window; beyond the last loss each is constant."""
        w = self.window
        gains = self.tables[:, w.reach + np.minimum(np.arange(w.last + 1), w.reach)]
        return np.asarray(gains * np.exp(w.tilt * w.remaining) * (1 + EXP_REL_ERROR))

    def _best(self, spectra: Complexes, spectrum: Complexes, gains: Floats) -> Floats:
        """The largest value over all curves."""
        w = self.window
        best = np.zeros(w.last + 1)
        for i in range(0, len(gains), AT_ONCE):
            products = spectra[i : i + AT_ONCE] * spectrum
            found = fft.irfft(products, w.size, axis=1, overwrite_x=True, workers=-1)
            values = found[:, w.reach : w.reach + w.last + 1]
            values += gains[i : i + AT_ONCE]
            np.maximum(best, values.max(axis=0), out=best)
        return best


def _tables(curves: Curves, r: Floats) -> Floats:
    """Both orders as one row each over losses of both signs; at 0 either order bounds the same number."""
    forth = curves.forth.copy()
    forth[:, 0] = np.minimum(forth[:, 0], curves.back[:, 0])
    return np.concatenate([(curves.back * np.exp(-r))[:, :0:-1], forth], axis=1)


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _log(x: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(x)


def chords(x: Floats, points: Floats, values: Floats) -> Floats:
    """Linear interpolation of positive values at x >= points[0], to relative accuracy; constant beyond."""
    right = np.clip(np.searchsorted(points, x), 1, len(points) - 1)
    x0, x1 = points[right - 1], points[right]
    inside = np.minimum(x, x1)
    return np.asarray((values[right - 1] * (x1 - inside) + values[right] * (inside - x0)) / (x1 - x0))


def convex_minorant(x: Floats, values: Floats) -> Floats:
    """The largest convex function below the values, at the same points.

    >>> convex_minorant(np.array([0.0, 1.0, 2.0, 3.0]), np.array([4.0, 3.0, 3.0, 0.0]))
    array([4.        , 2.66666667, 1.33333333, 0.        ])
    """
    turns = np.diff(np.diff(values) / np.diff(x))
    if (turns >= 0).all():
        return values
    kept: list[int] = []
    at, height = x.tolist(), values.tolist()
    for j in range(len(at)):
        while len(kept) > 1:
            i, h = kept[-1], kept[-2]
            if (height[j] - height[i]) * (at[i] - at[h]) > (height[i] - height[h]) * (at[j] - at[i]):
                break
            kept.pop()
        kept.append(j)
    return chords(x, x[kept], values[kept])
