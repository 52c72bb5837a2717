"""K steps without convolving: one certified integral over a vertical line in the complex plane.

With M_s(z) = E_P[e^{z loss}] for each distinct step and any c > 0,

    delta(eps) = 1/(2 pi i) * integral over Re z = c of  prod_s M_s(z)^{k_s} e^{-z eps} / (z (z + 1)) dz.

The trapezoidal rule with step h returns the sum over integers m of e^{c m Lambda} delta(eps + m Lambda), Lambda = 2 pi / h:
every term is positive, so aliasing errs upwards by itself and only the lower end is charged for it.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tightrope.engines.contour.kept import kept_transform
from tightrope.engines.face import NO_HINT, EngineDeclines, Errors, Hint, LogBounds
from tightrope.engines.saddle import (
    Placement,
    geometric_tail,
    log_chernoff_factor,
    log_delta_estimate,
    place,
    tilt_for_epsilon,
)
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.tails import Floats
from tightrope.pairs.schedule import Schedule

PERIODS, REACHES = (
    1.1,
    1.25,
)  # ratios of the grids for the period and the cut-off, shared by runs of similar length


class ContourEngine:
    """Certified bounds for compositions of any pairs; distinct steps only multiply their transforms."""

    def __init__(self, schedule: Schedule, most_evaluations: int = 5_000_000) -> None:
        self.most_evaluations = most_evaluations  # nodes times heights; a million takes about 20 ms
        self.full_batch = schedule.gaussian_square
        self.parts = [
            (kept_transform(pair), times) for pair, times in schedule if pair.gaussian_separation is None
        ]
        self.log_infinite = schedule.log_infinite_mass

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """ln of the composed moment at c and its first two derivatives, for planning."""
        total = np.array([c * (1 + c) / 2, c + 0.5, 1.0]) * self.full_batch
        for kept, times in self.parts:
            total += times * np.array(kept.cumulants(c))
        return float(total[0]), float(total[1]), float(total[2])

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "ContourLine":
        """A contour placed for `epsilon`, each of whose errors should stay below `tolerance`."""
        saddle = tilt_for_epsilon(self.cumulants, epsilon, hint.tilt)
        log_goal = min(log_delta_estimate(self.cumulants, saddle, epsilon), 0.0) + math.log(tolerance)
        spot = place(self.cumulants, saddle, epsilon, log_goal)
        reach, log_cut = self._reach(spot.tilt, epsilon, log_goal)
        return self._line(spot, reach, log_cut, tolerance)

    def _reach(self, c: float, epsilon: float, log_goal: float) -> tuple[float, float]:
        """Where to cut the integral, and ln of the bound on the composed modulus beyond."""
        log_moment, _, variance = self.cumulants(c)
        reach = on_grid(2 / math.sqrt(variance) if variance > 0 else 1 / c, REACHES)
        while reach < 1e12 * (1 + c):
            log_modulus = -self.full_batch * reach**2 / 2
            log_modulus += sum(
                times * math.log(min(kept.modulus_from(c, reach), 1.0)) for kept, times in self.parts
            )
            if log_modulus + log_moment - c * epsilon - math.log(math.pi * reach) < log_goal:
                return reach, log_modulus
            reach = on_grid(1.01 * reach, REACHES)
        raise EngineDeclines("the integrand does not decay")

    def _line(self, spot: Placement, reach: float, log_cut: float, tolerance: float) -> "ContourLine":
        c, c_beyond = spot.tilt, spot.tilt_beyond
        step = 2 * math.pi / on_grid(spot.period, PERIODS)
        count = math.ceil(reach / step)
        if 20 * count > self.most_evaluations:
            raise EngineDeclines("the integrand decays too slowly")
        t = np.arange(count + 1, dtype=float) * step
        log_moment, log_moment_error = self.full_batch * c * (1 + c) / 2, 0.0
        log_modulus = -self.full_batch * t**2 / 2
        angle = self.full_batch * t * (c + 0.5)
        enlarged = log_modulus.copy()  # ln prod (|m| + error)^k
        cells, tails, doubt = np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)
        for kept, times in self.parts:
            target = 10.0 ** math.floor(math.log10(min(1e-15, 1e-5 * tolerance / times)))
            line = kept.line(c, step, count, target, self.most_evaluations)
            nodes, log_m, arg_m, wobble = line.nodes, line.log_modulus, line.angle, line.wobble
            modulus = np.exp(log_m)
            log_moment += times * nodes.log_moment
            log_moment_error += times * (nodes.moment_roundoff + nodes.missing)
            log_modulus += times * log_m
            angle += times * arg_m
            blur = (nodes.roundoff + 8 * UNIT_ROUNDOFF) * wobble + UNIT_ROUNDOFF
            # |x^k - y^k| <= k |x - y| (|y| + |x - y|)^{k-1}
            enlarged += times * np.log(modulus + nodes.missing + blur)
            share = times / (modulus + nodes.missing + blur)
            cells += share * nodes.cells
            tails += share * nodes.tails
            doubt += share * blur + 8 * UNIT_ROUNDOFF * times * (np.abs(arg_m) + np.abs(log_m))
        z = c + 1j * t
        kernel = 1 / np.abs(z * (z + 1))
        beyond = sum((times * kept.log_moment_above(c_beyond) for kept, times in self.parts), 0.0)
        beyond += self.full_batch * c_beyond * (1 + c_beyond) / 2
        log_moment_error += 16 * UNIT_ROUNDOFF * (1 + abs(log_moment))
        return ContourLine(
            tilt=c,
            heights=t,
            log_moment=log_moment,
            log_moment_error=log_moment_error,
            log_integrand=log_modulus + np.log(kernel),
            angle=angle - np.angle(z) - np.angle(z + 1),
            log_enlarged=enlarged + np.log(kernel),
            cells=cells,
            tails=tails,
            doubt=doubt,
            log_cut=log_cut - math.log(math.pi * float(t[-1])),
            tilt_beyond=c_beyond,
            log_moment_beyond=beyond,
            log_infinite=self.log_infinite,
        )


def on_grid(x: float, ratio: float) -> float:
    """The smallest power of `ratio` that is at least x."""
    return ratio ** math.ceil(math.log(x) / math.log(ratio))


@dataclass(frozen=True)
class ContourLine:
    """The integrand on one contour: certified bounds at any epsilon, tight near the one it was placed for."""

    tilt: float
    heights: Floats
    log_moment: float
    log_moment_error: float
    log_integrand: Floats
    angle: Floats
    log_enlarged: Floats
    cells: Floats
    tails: Floats
    doubt: Floats
    log_cut: float
    tilt_beyond: float
    log_moment_beyond: float
    log_infinite: tuple[float, float]

    @cached_property
    def _sums(self) -> tuple[Floats, float, float, float, float]:
        """The terms' sizes, and what does not depend on epsilon: rounding of the angles, cells, tails, doubt."""
        halves = np.full_like(self.heights, float(self.heights[1]) / math.pi)
        halves[0] /= 2
        size, enlarged = np.exp(self.log_integrand) * halves, np.exp(self.log_enlarged) * halves
        phase = 8 * UNIT_ROUNDOFF * float(size @ (np.abs(self.angle) + 64))
        return (
            size,
            phase,
            float(enlarged @ self.cells),
            float(enlarged @ self.tails),
            float(enlarged @ self.doubt),
        )

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        t, c = self.heights, self.tilt
        period = 2 * math.pi / float(t[1])
        log_scale = self.log_moment - c * epsilon
        size, phase, cells, tails, doubt = self._sums
        value = float(size @ np.cos(self.angle - t * epsilon))
        scale_error = self.log_moment_error + 16 * UNIT_ROUNDOFF * (
            1 + abs(self.log_moment) + c * abs(epsilon)
        )
        turned = 8 * UNIT_ROUNDOFF * abs(epsilon) * float(size @ t)
        rounding = phase + turned + doubt + abs(value) * math.expm1(min(scale_error, 700.0))
        cut = math.exp(min(self.log_cut, 700.0))
        aliasing = geometric_tail(-c * period, -log_scale) + geometric_tail(
            -(self.tilt_beyond - c) * period,
            log_chernoff_factor(self.tilt_beyond)
            + self.log_moment_beyond
            - self.tilt_beyond * epsilon
            - log_scale,
        )
        charge = cells + tails + cut + rounding
        upper, lower = value + charge, value - charge - aliasing
        if not upper > 0:
            upper = charge + aliasing + abs(value)
        log_lower = log_scale + math.log(lower) if lower > 0 else -math.inf
        log_upper = log_scale + math.log(upper)
        if self.log_infinite[1] > -math.inf:
            log_lower = float(np.logaddexp(log_lower, self.log_infinite[0]))
            log_upper = float(np.logaddexp(log_upper, self.log_infinite[1]))
            infinite_abs_error = math.exp(self.log_infinite[1]) - math.exp(self.log_infinite[0])
            rounding += infinite_abs_error * math.exp(min(-log_scale, 700.0))
        errors = (error / upper for error in (cells, tails, aliasing, cut, rounding))
        return LogBounds(log_lower, log_upper, Errors(*errors))
