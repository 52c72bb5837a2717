"""The substitution game from above: the worst adaptive choice among finitely many one-step curves.

With W = V - (1 - e^eps)_+, the part of the curve that is not certain,

    W_{j+1}(r) = max over curves of  (one-step curve at r)  +  sum over losses l of mass(l) W_j(r - l)

at every remaining epsilon r on a lattice: one FFT for W_j and one back for each curve. Each curve is replaced
by its chords between lattice points, which is exact at them and lies above in between. The family is closed
under exchanging P and Q, so W(-r) = e^-r W(r) and only r >= 0 is kept. Beyond the last r the curve is at most
what it is there, and at most the envelope's Chernoff bound. Everything is tilted by e^{c r}, so that rounding
is relative to the rare losses that make delta. Proofs, also of what rounding is charged:
proofs/substitution_game.md.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.engines.face import ABOVE, Progress
from tightrope.engines.game.outward import LOG_LARGEST, excess_below, exp_above, exp_of_sum_above, log_above
from tightrope.engines.game.pooling import Curves, TriangleCover, curves_of
from tightrope.engines.game.triangles import REMOVE_GRAM
from tightrope.engines.one_step.atoms import LossAtoms
from tightrope.engines.saddle import log_chernoff_factor
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma, next_up
from tightrope.numerics.fourier import convolution_rel_error, fast_size, threads_for, two_norm
from tightrope.numerics.ulps import UNDERFLOW_ABS_ERROR

Complexes = NDArray[np.complex128]
ALL = 128  # places of the lattice at which the first curve is computed; beyond, at some
AT_ONCE = 72_000  # points of FFTs: they fit the processor's cache
LARGEST = 2.0**330  # larger tilted values are scaled down
RARE = 1e-7  # relative to its value at 0: where the envelope is below, negative losses are cut off
FIFTEEN_ROUNDINGS = 16 * UNIT_ROUNDOFF  # relative, of sums and products of positive numbers


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
        return fast_size(self.below + self.last + 1 + 2 * self.reach)

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
        drift = self.tilt * (np.arange(len(self.log_values), dtype=float) * self.spacing)
        found = self.log_values - drift + 6 * UNIT_ROUNDOFF * (np.abs(self.log_values) + drift)
        return np.asarray(np.minimum.accumulate(found))

    def log_upper(self, epsilon: float) -> float:
        """An upper bound on ln V(epsilon), epsilon >= 0: the chord over e^epsilon between lattice points."""
        place = Fraction(epsilon) / Fraction(self.spacing)
        i = math.floor(place)
        if i + 1 >= len(self.log_values):
            return float(self.log_curve[-1])
        near, far = float(self.log_curve[i]), float(self.log_curve[i + 1])
        # how far along the chord, and how far down, each rounded to less: two functions of two arguments
        share = math.expm1(float((place - i) * Fraction(self.spacing))) / math.expm1(self.spacing)
        drop = share * -math.expm1(far - near + 4 * UNIT_ROUNDOFF * (abs(far) + abs(near)))
        lower = math.log1p(-max(drop, 0.0) * (1 - 4 * FIFTEEN_ROUNDINGS))
        return near + lower + FIFTEEN_ROUNDINGS * (abs(near) + abs(lower))

    def epsilon_above(self, log_delta: float) -> float:
        """The smallest epsilon, up to a little, whose bound is at most delta; infinity if there is none."""
        i = int(np.searchsorted(-self.log_curve, -log_delta))
        if i >= len(self.log_curve):
            return math.inf
        if i == 0:
            return 0.0
        return bisect(self.log_upper, log_delta, (i - 1) * self.spacing, next_up(i * self.spacing), 1e-12)

    def atoms(self) -> LossAtoms:
        """A loss law that dominates: V read as the curve of one step. Its masses may exceed 1 by rounding."""
        logs = np.minimum(self.log_curve, 0.0)  # no curve exceeds 1
        values = exp_above(logs, 0.0)
        r = np.arange(len(values), dtype=float) * self.spacing
        table = np.concatenate([(values * exp_above(-r, UNIT_ROUNDOFF * r))[:0:-1], values])
        masses = lattice_masses(table[None], self.spacing)[0]
        losses = np.arange(-(len(values) - 1), len(values), dtype=float) * self.spacing
        return LossAtoms(losses, log_above(masses), float(log_above(values[-1:])[0]), ABOVE)


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


def lattice_masses(tables: Floats, spacing: float, zero: int | None = None) -> Floats:
    """P-masses at the losses of each row: how much its chords turn at each lattice point.

    A row holds curve - (1 - t)_+ at t = e^loss, loss 0 at place `zero` or in the middle, and is taken as
    exact. Every slope is off by 10 u: a difference, a quotient and expm1. What rounding may have taken from a
    mass is added to it; masses that came out negative, where a curve was capped, are lifted to 0, which only
    adds.
    """
    step = np.diff(tables, axis=1)
    rises, falls = step / math.expm1(spacing), step / -math.expm1(-spacing)
    # beyond the last loss the curve is constant; below the first it is a chord to t = 0
    right = np.concatenate([rises, np.zeros((len(tables), 1))], axis=1)
    left = np.concatenate([tables[:, :1], falls], axis=1)
    masses, sizes = right - left, np.abs(right) + np.abs(left)
    zero = tables.shape[1] // 2 if zero is None else zero
    masses[:, zero] += 1  # the kink of (1 - t)_+
    sizes[:, zero] += 1
    return np.asarray(np.maximum(masses, 0) + FIFTEEN_ROUNDINGS * sizes)


def wrapped_spectra(kernels: Floats, size: int, zero: int | None = None) -> Complexes:
    """The Fourier transforms of kernels over losses of both signs, one per row, with loss 0 moved to place 0.

    It is at place `zero`, or in the middle.
    """
    zero = kernels.shape[1] // 2 if zero is None else zero
    wrapped = np.zeros((len(kernels), size))
    wrapped[:, : kernels.shape[1] - zero] = kernels[:, zero:]
    wrapped[:, size - zero :] += kernels[:, :zero]
    return np.asarray(fft.rfft(wrapped, axis=1))


class GameAbove:
    """The game over a cover's curves, on one window."""

    def __init__(self, cover: TriangleCover, window: Window) -> None:
        self.window = window
        if window.reach * window.spacing > LOG_LARGEST:
            raise NotPreciseEnough("The substitution game needs losses beyond the range of floats")
        # Curves fall, so that values a little below e^r bound those at e^r. The lowered orders are exact.
        excess = excess_below(np.arange(window.reach + 1, dtype=float), window.spacing)
        if not (np.diff(excess) > 0).all():
            raise ArithmeticError("the lattice is too fine to tell its orders apart")
        coarseness = cover.quality.coarseness
        ceiling = curves_of([REMOVE_GRAM], cover.exchange, excess, coarseness).forth
        some = excess[_sparse_places(window.reach)]
        first = curves_of(cover.first, cover.exchange, some, coarseness).largest()
        rest = Curves.stack([cover.groups.rows(range(1, cover.groups.count)), cover.others])
        # a triangle's curve is convex and below the ceiling, so it is below the largest convex curve that is
        capped = Curves.stack(
            [
                first.each(lambda row: chords(excess, some, row)),
                rest.each(lambda row: chords(excess, cover.excess, row)),
            ]
        ).below(ceiling)
        hulls = capped.each(lambda row: convex_minorant(excess, row))
        envelope = _tables(Curves(ceiling, ceiling), window)
        # Negative losses beyond this are so rare that the chord to t = 0 may begin here.
        self.left = int(np.count_nonzero(envelope[0, : window.reach] > RARE * envelope[0, window.reach]))
        self.tables, self.envelope = (
            tables[:, window.reach - self.left :] for tables in (_tables(hulls, window), envelope)
        )

    def play(
        self, steps: int, keep: Collection[int], progress: Progress, growth: Sequence[tuple[int, int]] = ()
    ) -> dict[int, Profile]:
        """The value after each number of steps in `keep`.

        Up to each number of steps of `growth` the window ends at the place beside it; after them, at its own.
        """
        w = self.window
        stages = [(until, min(last, w.last)) for until, last in growth if until < steps]
        found: dict[int, Profile] = {}
        state, j = _State(np.zeros(1)), 0
        for until, last in (*stages, (steps, w.last)):
            stage = _Stage(self, last)
            state = stage.enter(state, j)
            while j < until:
                j += 1
                state = stage.advance(state, j)
                if j in keep:
                    found[j] = Profile(w.spacing, w.tilt, state.log_values())
                state = state.scaled()
                progress(j, steps)
        return found

    @cached_property
    def kernels(self) -> Floats:
        """The tilted masses of every curve."""
        return self.tilted_masses(self.tables)

    def tilted_masses(self, tables: Floats) -> Floats:
        """The masses times e^{tilt loss}, from above."""
        w = self.window
        logs = log_above(lattice_masses(tables, w.spacing, self.left))
        drift = w.tilt * w.losses[w.reach - self.left :]
        return exp_above(logs + drift, 2 * UNIT_ROUNDOFF * (np.abs(logs) + 2 * np.abs(drift)))

    def tilted_gains(self, last: int) -> Floats:
        """The one-step curves at every r up to the last; beyond the last loss each is constant."""
        w = self.window
        gains = self.tables[:, self.left + np.minimum(np.arange(last + 1), w.reach)]
        drift = w.tilt * (np.arange(last + 1, dtype=float) * w.spacing)
        return np.asarray(gains * exp_above(drift, 4 * UNIT_ROUNDOFF * drift))


@dataclass(frozen=True)
class _State:
    """Tilted values for r = 0, spacing, ..., scaled by 2^-doublings; with their error they are bounds."""

    values: Floats
    abs_error: float = 0.0
    doublings: int = 0

    @property
    def log_scale(self) -> float:
        return self.doublings * math.log(2)

    @property
    def edge(self) -> float:
        """The bound at the last r."""
        return float(self.values[-1]) + self.abs_error

    def log_values(self) -> Floats:
        """Above the logarithms."""
        logs = log_above((self.values + self.abs_error) * (1 + FIFTEEN_ROUNDINGS))
        return np.asarray(logs + self.log_scale + FIFTEEN_ROUNDINGS * (self.log_scale + np.abs(logs)))

    def scaled(self) -> "_State":
        """The same with values below LARGEST: powers of 2 lose nothing but what underflows."""
        top = float(self.values.max())
        if top <= LARGEST:
            return self
        _, power = math.frexp(top)
        abs_error = math.ldexp(self.abs_error, -power) + UNDERFLOW_ABS_ERROR
        return _State(np.ldexp(self.values, -power), abs_error, self.doublings + power)


class _Stage:
    """The recursion on the window up to one last r."""

    def __init__(self, game: GameAbove, last: int) -> None:
        self.game, self.last, w = game, last, game.window
        kernels = game.kernels
        self.summed = 1 + gamma(kernels.shape[1])
        self.norm = float(kernels.sum(axis=1).max()) * self.summed
        self.size = fast_size(w.reach + last + 1 + game.left)
        self.spectra = wrapped_spectra(kernels, self.size, game.left)
        self.gains, self.doublings = game.tilted_gains(last), 0
        # of one step, per unit of the values' 2-norm
        self.step_rel_error = convolution_rel_error(self.size) * self.norm * (1 + gamma(self.size))
        r = np.arange(1, w.reach + 1, dtype=float) * w.spacing
        self.mirror = exp_above(-(2 * w.tilt + 1) * r, 4 * UNIT_ROUNDOFF * (2 * w.tilt + 1) * r)
        log_norm = math.log(float(game.tilted_masses(game.envelope).sum()) * self.summed)
        total = float(lattice_masses(game.envelope, w.spacing, game.left).sum()) * self.summed
        log_total = max(math.log(total * (1 + FIFTEEN_ROUNDINGS)), 0.0)
        self.log_envelope = log_norm, log_total, math.log(float(game.envelope[0, -1]))
        self.growths = np.zeros(0)  # e^{tilt r} at r = spacing, ..., as far as they were needed

    def enter(self, state: _State, done: int) -> _State:
        """The state of a shorter window: its values go on as they were bounded beyond it."""
        more = self._beyond(state, done, self.last + 1 - len(state.values))
        return replace(state, values=np.concatenate([state.values, more]))

    def advance(self, state: _State, j: int) -> _State:
        """The state after step j."""
        reach, left = self.game.window.reach, self.game.left
        right = self._beyond(state, j - 1, max(left, reach - self.last))
        all_right = np.concatenate([state.values, right])
        full = np.concatenate(
            [(all_right[1 : reach + 1] * self.mirror)[::-1], all_right[: self.last + 1 + left]]
        )
        norm_of_full = two_norm(full)
        values = self._best(fft.rfft(full, self.size), self._gains(state.doublings))
        abs_error = self.norm * state.abs_error + self.step_rel_error * norm_of_full
        # the gains are added with one rounding
        abs_error = (abs_error + UNIT_ROUNDOFF * float(values.max()) + UNDERFLOW_ABS_ERROR) * (
            1 + FIFTEEN_ROUNDINGS
        )
        if not math.isfinite(abs_error + norm_of_full):
            raise NotPreciseEnough("The tilted values of the game overflow")
        return _State(values, abs_error, state.doublings)

    def _gains(self, doublings: int) -> Floats:
        """The gains on the scale of a state."""
        if doublings != self.doublings:
            self.gains, self.doublings = np.ldexp(self.gains, self.doublings - doublings), doublings
        return self.gains

    def _beyond(self, state: _State, done: int, count: int) -> Floats:
        """What nobody exceeds beyond the state's values: the edge's value, and Chernoff's bound.

        With envelope masses that sum to at most T >= 1, of which m is infinite, V_j is at most the Chernoff
        bound of the finite ones and j m T^{j-1}.
        """
        spacing, c = self.game.window.spacing, self.game.window.tilt
        log_norm, log_total, log_infinite = self.log_envelope
        if count > len(self.growths):
            offsets = np.arange(1, count + 1, dtype=float) * spacing
            self.growths = exp_above(c * offsets, 4 * UNIT_ROUNDOFF * c * offsets)
        last, grow = (len(state.values) - 1) * spacing, self.growths[: max(count, 0)]
        chernoff = exp_of_sum_above(log_chernoff_factor(c), done * log_norm, -state.log_scale)
        j = done + 1
        never = exp_of_sum_above(math.log(j), log_infinite, j * log_total, c * last, -state.log_scale)
        return np.minimum(state.edge * grow, (chernoff + never * grow) * (1 + FIFTEEN_ROUNDINGS))

    def _best(self, spectrum: Complexes, gains: Floats) -> Floats:
        """The largest value over all curves."""
        reach, best = self.game.window.reach, np.zeros(self.last + 1)
        workers, count = threads_for(self.size), max(AT_ONCE // self.size, 1)
        for i in range(0, len(gains), count):
            products = self.spectra[i : i + count] * spectrum
            found = fft.irfft(products, self.size, axis=1, overwrite_x=True, workers=workers)
            values = found[:, reach : reach + self.last + 1]
            values += gains[i : i + count]
            np.maximum(best, values.max(axis=0), out=best)
        return best


def _sparse_places(last: int) -> NDArray[np.int64]:
    """Places from 0 to the last, all of them at first and then in steps of at most 1 / ALL of the way."""
    far = np.geomspace(ALL, max(last, ALL + 1), math.ceil(ALL * math.log(max(last / ALL, 1.0))) + 2)
    return np.unique(np.minimum(np.concatenate([np.arange(ALL), far.astype(np.int64), [last]]), last))


def _tables(curves: Curves, window: Window) -> Floats:
    """Both orders as one row each over losses of both signs; at 0 either order bounds the same number."""
    r = np.arange(window.reach + 1, dtype=float) * window.spacing
    forth = curves.forth.copy()
    forth[:, 0] = np.minimum(forth[:, 0], curves.back[:, 0])
    return np.concatenate([(curves.back * exp_above(-r, 2 * UNIT_ROUNDOFF * r))[:, :0:-1], forth], axis=1)


def chords(x: Floats, points: Floats, values: Floats) -> Floats:
    """Linear interpolation of positive values at x >= points[0], rounded up; constant beyond.

    All numbers are taken as exact, and each sum and product is one of positive numbers: eight roundings.
    """
    right = np.minimum(np.maximum(np.searchsorted(points, x), 1), len(points) - 1)
    x0, x1 = points[right - 1], points[right]
    inside = np.minimum(x, x1)
    mixed = (values[right - 1] * (x1 - inside) + values[right] * (inside - x0)) / (x1 - x0)
    return np.asarray(mixed * (1 + FIFTEEN_ROUNDINGS))


def convex_minorant(x: Floats, values: Floats) -> Floats:
    """About the largest convex function below the values, at the same points, and never below it.

    Whichever points are kept, a convex function below the values is below the chords between those points.

    >>> convex_minorant(np.array([0.0, 1.0, 2.0, 3.0]), np.array([4.0, 3.0, 3.0, 0.0])).round(6)
    array([4.      , 2.666667, 1.333333, 0.      ])
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
    return np.minimum(chords(x, x[kept], values[kept]), values)
