"""K steps of any pairs on a lattice of losses, tilted and wrapped: certified where the contour engine is too slow.

Losses are cut at multiples of a spacing h chosen for this question alone. Each side becomes a law on the lattice, is tilted
by e^{c loss} so that the rare losses that make delta are typical, wrapped around a period Lambda and raised to the k-th
power by one FFT. On a lattice the Fourier sum is finite: there is no integral to cut off. The gap between the sides is
about k c (c + 1) h^2 / 8, relative to delta.

ABOVE: atoms at lattice points (`spread`). Wrapping adds e^{c m Lambda} delta(eps + m Lambda) >= 0 for m != 0: still above.
BELOW: every merged cell is rounded to a lattice label, and the test "the labels sum to more than a threshold" is evaluated
under P^k and Q^k exactly. Any test is a lower bound, and an almost optimal one loses only to second order.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import fft

from tightrope.curve.log_bounds import Errors, LogBounds
from tightrope.compose.saddle import (
    Placement,
    epsilon_estimate,
    geometric_tail,
    log_delta_estimate,
    place,
    tilt_for_epsilon,
)
from tightrope.errors import NotPreciseEnough
from tightrope.loss.cells import UNIT_ROUNDOFF, cut
from tightrope.loss.merge import merge
from tightrope.loss.planning import Outline
from tightrope.loss.spread import spread
from tightrope.numerics.tails import Floats
from tightrope.pairs.pair import FinitePair
from tightrope.pairs.schedule import Schedule

LONGEST = 1 << 22  # lattice points in one period: about a second
MOST_CELLS = 1 << 21
FEW_CELLS = 20_000  # up to here it is not worth thinning the nodes


class LatticeEngine:
    """Certified bounds for compositions of any pairs."""

    def __init__(self, schedule: Schedule) -> None:
        self.parts = [(Outline(pair), times) for pair, times in schedule]

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """ln of the composed moment at c and its first two derivatives, for planning."""
        total = np.zeros(3)
        for outline, times in self.parts:
            total += times * np.array(outline.cumulants(c))
        return float(total[0]), float(total[1]), float(total[2])

    def epsilon_estimate(self, log_delta: float) -> float:
        """About the epsilon at which ln delta takes the given value."""
        return epsilon_estimate(self.cumulants, log_delta)[0]

    def near(self, epsilon: float, tolerance: float) -> "LatticeLaws":
        """Laws placed for `epsilon`, whose bounds should be about `tolerance` apart."""
        saddle = tilt_for_epsilon(self.cumulants, epsilon)
        log_delta = log_delta_estimate(self.cumulants, saddle, epsilon)
        aim = tolerance
        for _ in range(6):
            laws = self._laws(saddle, epsilon, log_delta, aim)
            bounds = laws.bounds(epsilon)
            if bounds.width <= tolerance:
                break
            # The saddle-point estimate can be far off where few steps matter: plan again from what is now certified.
            known = bounds.lower if bounds.lower > -math.inf else bounds.upper
            if abs(known - log_delta) < 1:
                aim *= max(0.5 * tolerance / bounds.width, 0.05)
            log_delta = known
        return laws

    def _laws(self, saddle: float, epsilon: float, log_delta: float, tolerance: float) -> "LatticeLaws":
        spot = place(self.cumulants, saddle, epsilon, log_delta + math.log(tolerance / 8))
        spacing = self._spacing(spot.tilt, tolerance / 2)
        length = max(spot.period / spacing, 256.0)
        if length > LONGEST:
            raise NotPreciseEnough(
                f"epsilon={epsilon:g} needs {length:.1e} lattice points for accuracy {tolerance:.1e}, more than {LONGEST:.1e}. "
                "Ask for a larger delta or a coarser accuracy."
            )
        size = fft.next_fast_len(math.ceil(length), real=True)
        spacing = spot.period / size
        above, below = [], []
        log_infinite = below_infinite = 0.0  # ln of the probability that no loss is infinite
        blur = 0.0
        for outline, times in self.parts:
            nodes = self._nodes(outline, spot, spacing, times, log_delta, tolerance)
            cells = cut(outline.pair, nodes)
            tops, merged = spread(cells), merge(cells)
            above.append(_Part(np.rint(tops.losses / spacing).astype(np.int64), tops.log_masses, times, spacing, spot.tilt))
            labels = np.floor(merged.losses / spacing).astype(np.int64)
            rest = merged.losses - (labels + 0.5) * spacing
            below.append(_Part(labels, merged.log_masses, times, spacing, spot.tilt, offset=0.5, rest=rest))
            log_infinite += times * math.log1p(-math.exp(tops.log_infinite))
            below_infinite += times * math.log1p(-math.exp(merged.log_infinite))
            tilted = np.exp(np.minimum(cells.log_masses + spot.tilt * cells.merged - above[-1].log_moment, 0))
            accuracy = 8 * UNIT_ROUNDOFF * (8 + np.abs(cells.log_masses)) + (1 + spot.tilt) * cells.blur
            blur += times * float(tilted @ accuracy)
        return LatticeLaws(
            spot=spot,
            spacing=spacing,
            size=size,
            above=_Side.of(above, size),
            below=_Side.of(below, size),
            below_dual=_Side.of([part.dual() for part in below], size),
            log_infinite=_log_complement(log_infinite),
            below_infinite=_log_complement(below_infinite),
            log_moment_beyond=sum(part.log_moment_at(spot.tilt_beyond) * part.times for part in below),
            blur=blur,
        )

    def _spacing(self, c: float, tolerance: float) -> float:
        """The lattice spacing at which the two sides are about `tolerance` apart."""
        steps = sum(times for _, times in self.parts)
        spacing = math.sqrt(8 * tolerance / (steps * c * (1 + c)))
        for _ in range(3):
            # A loss much smaller than the spacing sits next to the lattice point 0 and is hardly spread at all.
            live = sum(
                times * float(weights @ np.minimum(1, 6 * np.abs(losses) / spacing))
                for outline, times in self.parts
                for losses, weights, _ in [outline.tilted(c)]
            )
            spacing = math.sqrt(8 * tolerance / (max(live, 1e-3) * c * (1 + c)))
        return spacing

    def _nodes(
        self, outline: Outline, spot: Placement, spacing: float, times: int, log_delta: float, tolerance: float
    ) -> Floats:
        """Multiples of the spacing at which to cut one step, thinned out where little tilted mass lies."""
        if isinstance(outline.pair, FinitePair):
            below = np.floor(np.array(outline.pair.losses) / spacing)
            return np.unique(np.concatenate([below, below + 1])) * spacing
        log_share = math.log(tolerance) - math.log(times) - 7
        low, high = outline.losses_that_matter(spot.tilt, log_share, log_share + log_delta)
        first, last = math.floor(low / spacing) - 1, math.ceil(high / spacing) + 1
        if last - first <= FEW_CELLS:
            return np.arange(first, last + 1) * spacing
        losses, weights, _ = outline.tilted(spot.tilt)
        inside = (losses > low) & (losses < high)
        losses = np.concatenate([[first * spacing], losses[inside], [last * spacing]])
        gaps = np.gradient(losses)
        density = np.concatenate([[1e-30], weights[inside], [1e-30]]) / np.maximum(gaps, spacing)
        density = np.maximum(density, 1e-30 * density.max())
        # cells of width ~ density^(-1/3) lose least for their number; this scale at most doubles the loss
        scale = float(np.sum(np.cbrt(density) * gaps)) ** 1.5
        rate = np.minimum(1, np.cbrt(density * scale)) / spacing
        count = np.concatenate([[0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(losses))])
        if count[-1] > MOST_CELLS:
            raise NotPreciseEnough(
                f"one step needs {count[-1]:.1e} cells, more than {MOST_CELLS:.1e}. Ask for a larger delta or a coarser accuracy."
            )
        places = np.interp(np.arange(math.ceil(count[-1]) + 1), count, losses)
        return np.unique(np.clip(np.rint(places / spacing), first, last)) * spacing


class _Part:
    """One step's law on the lattice, tilted and normalised."""

    def __init__(
        self,
        labels: "np.ndarray[tuple[int], np.dtype[np.int64]]",
        log_masses: Floats,
        times: int,
        spacing: float,
        tilt: float,
        offset: float = 0.0,
        rest: Floats | None = None,
    ) -> None:
        self.labels, self.log_masses, self.times = labels, log_masses, times
        self.spacing, self.tilt, self.offset, self.rest = spacing, tilt, offset, rest
        self.log_moment = self.log_moment_at(tilt)
        self.weights = np.exp(log_masses + tilt * (labels + offset) * spacing - self.log_moment)

    def log_moment_at(self, c: float) -> float:
        """ln of the sum of e^{c label} over the law."""
        exponents = self.log_masses + c * (self.labels + self.offset) * self.spacing
        top = float(exponents.max())
        return top + math.log(float(np.exp(exponents - top).sum()))

    def dual(self) -> "_Part":
        """Q's masses times e^{label}: P's, corrected for the distance between label and merged loss."""
        dual = object.__new__(_Part)
        dual.__dict__.update(self.__dict__)
        assert self.rest is not None
        dual.weights = self.weights * np.exp(-self.rest)
        return dual


@dataclass(frozen=True)
class _Side:
    """The composed, tilted and wrapped law of one side: masses at labels modulo the size, total about 1."""

    masses: Floats
    log_moment: float
    fuzz: float  # bounds the rounding error of each mass
    offset: float  # the label 0 stands for the loss offset * spacing

    @staticmethod
    def of(parts: list[_Part], size: int) -> "_Side":
        """Raise each part to its power by FFT."""
        product = np.ones(size // 2 + 1, dtype=complex)
        doubt = np.zeros(size // 2 + 1)
        unit = 4 * UNIT_ROUNDOFF * (4 + math.log2(size))
        for part in parts:
            wrapped = np.bincount(part.labels % size, weights=part.weights, minlength=size)
            single = np.asarray(fft.rfft(wrapped))
            modulus = np.abs(single) + unit
            doubt += part.times / modulus  # relative error of the power, in units of `unit`
            product *= np.exp(part.times * np.log(np.where(single == 0, unit, single)))
        masses = np.asarray(fft.irfft(product, size))
        fuzz = 2 * unit * float(np.mean(np.abs(product) * (1 + doubt)))
        return _Side(
            masses,
            sum(part.times * part.log_moment for part in parts),
            fuzz,
            sum(part.times * part.offset for part in parts),
        )

    def window(self, start: int) -> Floats:
        """The masses at `start`, `start` + 1, ... for one whole period."""
        return np.roll(self.masses, -(start % len(self.masses)))


@dataclass(frozen=True)
class LatticeLaws:
    """Both sides on one lattice: certified bounds at any epsilon, tight near the one they were made for."""

    spot: Placement
    spacing: float
    size: int
    above: _Side
    below: _Side
    below_dual: _Side
    log_infinite: float
    below_infinite: float
    log_moment_beyond: float
    blur: float

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        rounding = self.blur + 64 * UNIT_ROUNDOFF * (1 + abs(self.above.log_moment) + self.spot.tilt * abs(epsilon))
        finite, fuzz_above = self._above(epsilon)
        upper = float(np.logaddexp(finite + rounding, self.log_infinite))
        lower, aliasing, fuzz_below = self._below(epsilon, rounding)
        lower = float(np.logaddexp(lower, self.below_infinite))
        lower = min(lower, upper)
        tails = math.exp(self.log_infinite - upper) - math.exp(self.below_infinite - upper) if upper > -math.inf else 0.0
        small = [math.exp(min(x - upper, 0.0)) if upper > -math.inf else 0.0 for x in (aliasing, fuzz_above, fuzz_below)]
        rounding = 2 * rounding + small[1] + small[2]
        width = -math.expm1(lower - upper) if upper > -math.inf else 0.0
        cells = max(width - tails - small[0] - rounding, 0.0)
        return LogBounds(lower, upper, Errors(cells, max(tails, 0.0), small[0], 0.0, rounding))

    def _above(self, epsilon: float) -> tuple[float, float]:
        """ln of the divergence of the atoms ABOVE, finite losses only, and ln of what rounding may have hidden in it."""
        c = self.spot.tilt
        start = math.floor(epsilon / self.spacing) + 1
        excess = (start + np.arange(self.size)) * self.spacing - epsilon
        gain = np.exp(-c * excess) * -np.expm1(-excess)
        fuzz = self.above.fuzz * float(gain.sum())
        value = float(np.maximum(self.above.window(start), 0) @ gain)
        log_scale = self.above.log_moment - c * epsilon
        return log_scale + math.log(value + fuzz), log_scale + math.log(fuzz)

    def _below(self, epsilon: float, rounding: float) -> tuple[float, float, float]:
        """ln of the best test's advantage under the laws BELOW, of the aliasing charged, and of the rounding charged."""
        c, offset = self.spot.tilt, self.below.offset * self.spacing
        lead = min(self.size // 8, math.ceil(1 / (c * self.spacing)))
        start = math.floor((epsilon - offset) / self.spacing) - lead
        excess = (start + np.arange(self.size)) * self.spacing + offset - epsilon
        decay = np.exp(-c * excess)
        dual = np.exp(-excess)
        advantage = (self.below.window(start) - dual * self.below_dual.window(start)) * decay
        fuzz = float(((self.below.fuzz + dual * self.below_dual.fuzz) * decay).sum())
        best = float(np.cumsum(advantage[::-1]).max())  # "reject above the threshold", for the best threshold
        log_scale = self.below.log_moment - c * epsilon
        beyond, period = self.spot.tilt_beyond, self.spot.period
        first = epsilon - lead * self.spacing
        aliasing = geometric_tail(-c * period, -log_scale) + geometric_tail(
            -(beyond - c) * period, self.log_moment_beyond - beyond * first - c * (epsilon - first) - log_scale
        )
        value = best * (1 - rounding) - fuzz - aliasing
        log_value = log_scale + math.log(value) if value > 0 else -math.inf
        return log_value, log_scale + math.log(aliasing) if aliasing else -math.inf, log_scale + math.log(fuzz)


def _log_complement(log_probability: float) -> float:
    """ln(1 - e^x)."""
    return math.log(-math.expm1(log_probability)) if log_probability < 0 else -math.inf
