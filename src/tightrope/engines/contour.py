"""K steps without convolving: one certified integral over a vertical line in the complex plane.

With M_s(z) = E_P[e^{z loss}] for each distinct step and any c > 0,

    delta(eps) = 1/(2 pi i) * integral over Re z = c of  prod_s M_s(z)^{k_s} e^{-z eps} / (z (z + 1)) dz.

The trapezoidal rule with step h returns the sum over integers m of e^{c m Lambda} delta(eps + m Lambda),
Lambda = 2 pi / h: every term is positive, so aliasing errs upwards by itself and only the lower end is
charged for it.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tightrope.engines.face import NO_HINT, EngineDeclines, Errors, Hint, LogBounds
from tightrope.engines.saddle import (
    Placement,
    geometric_tail,
    log_chernoff_factor,
    log_delta_estimate,
    place_contour,
    tilt_for_epsilon,
)
from tightrope.engines.transforms.make import kept_transform
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.pairs.schedule import Schedule

PERIODS, REACHES = 1.1, 1.25  # ratios of the grids for period and cut-off, shared by runs of similar length


class ContourEngine:
    """Certified bounds for compositions of any pairs; distinct steps only multiply their transforms."""

    def __init__(self, schedule: Schedule, most_evaluations: int = 5_000_000) -> None:
        self.most_evaluations = most_evaluations  # nodes times heights; a million takes about 20 ms
        self.gaussian_square = schedule.gaussian_square  # of all full batches of Gaussian noise together
        self.parts = [
            (kept_transform(pair), times) for pair, times in schedule if pair.gaussian_separation is None
        ]
        self.log_infinite = schedule.log_infinite_mass

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """ln of the composed moment at c and its first two derivatives; declined where the transforms end."""
        log_moment, mean, variance = (self.gaussian_square * x for x in (c * (1 + c) / 2, c + 0.5, 1.0))
        for transform, times in self.parts:
            one = transform.cumulants(c)
            log_moment, mean, variance = (
                total + times * part for total, part in zip((log_moment, mean, variance), one, strict=True)
            )
        return log_moment, mean, variance

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "ContourLine":
        """A contour placed for `epsilon`, each of whose errors should stay below `tolerance`."""
        saddle = tilt_for_epsilon(self.cumulants, epsilon, hint.tilt)
        log_goal = min(log_delta_estimate(self.cumulants, saddle, epsilon), 0.0) + math.log(tolerance)
        spot = place_contour(self.cumulants, saddle, epsilon, log_goal)
        reach, log_cut = self._reach(spot.tilt, epsilon, log_goal)
        return self._line(spot, reach, log_cut, tolerance)

    def _reach(self, c: float, epsilon: float, log_goal: float) -> tuple[float, float]:
        """Where to cut the integral, and ln of the bound on the composed modulus beyond."""
        log_moment, _, variance = self.cumulants(c)
        reach = on_grid(2 / math.sqrt(variance) if variance > 0 else 1 / c, REACHES)
        for transform, _ in self.parts:
            transform.nodes(c)  # which every bound on the modulus starts from
        while reach < 1e12 * (1 + c):
            log_modulus = -self.gaussian_square * reach**2 / 2
            for transform, times in self.parts:
                log_modulus += times * math.log(min(transform.modulus_from(c, reach), 1.0))
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
        log_moment, log_moment_error = self.gaussian_square * c * (1 + c) / 2, 0.0
        log_modulus = -self.gaussian_square * t**2 / 2
        angle = self.gaussian_square * t * (c + 0.5)
        enlarged = log_modulus.copy()  # ln prod (|m| + error)^k
        quadrature_errors, tail_errors, rounding_errors = (np.zeros_like(t) for _ in range(3))
        for transform, times in self.parts:
            target = 10.0 ** math.floor(math.log10(min(1e-15, 1e-5 * tolerance / times)))
            line = transform.line(c, step, count, target, self.most_evaluations)
            nodes, missing = line.nodes, line.nodes.missing_rel_error
            log_moment += times * nodes.log_moment
            log_moment_error += times * (nodes.log_moment_abs_error + missing)
            log_modulus += times * line.log_modulus
            angle += times * line.angle
            rounded = (nodes.weight_rel_error + 8 * UNIT_ROUNDOFF) * line.swing + UNIT_ROUNDOFF
            # |x^k - y^k| <= k |x - y| (|y| + |x - y|)^{k-1}
            largest = np.exp(line.log_modulus) + missing + rounded
            enlarged += times * np.log(largest)
            quadrature_errors += times / largest * nodes.quadrature_rel_error
            tail_errors += times / largest * nodes.tail_rel_error
            powers = np.abs(line.angle) + np.abs(line.log_modulus)
            rounding_errors += times / largest * rounded + 8 * UNIT_ROUNDOFF * times * powers
        z = c + 1j * t
        kernel = 1 / np.abs(z * (z + 1))
        beyond = self.gaussian_square * c_beyond * (1 + c_beyond) / 2
        for transform, times in self.parts:
            beyond += times * transform.log_moment_above(c_beyond)
        log_moment_error += 16 * UNIT_ROUNDOFF * (1 + abs(log_moment))
        return ContourLine(
            tilt=c,
            heights=t,
            log_moment=log_moment,
            log_moment_abs_error=log_moment_error,
            log_integrand=log_modulus + np.log(kernel),
            angle=angle - np.angle(z) - np.angle(z + 1),
            log_enlarged=enlarged + np.log(kernel),
            quadrature_rel_errors=quadrature_errors,
            tail_rel_errors=tail_errors,
            rounding_rel_errors=rounding_errors,
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
    log_moment_abs_error: float
    log_integrand: Floats
    angle: Floats
    log_enlarged: Floats
    quadrature_rel_errors: Floats
    tail_rel_errors: Floats
    rounding_rel_errors: Floats
    log_cut: float
    tilt_beyond: float
    log_moment_beyond: float
    log_infinite: tuple[float, float]

    @cached_property
    def _sums(self) -> tuple[Floats, float, float, float]:
        """The terms' sizes, and the errors that do not depend on epsilon: quadrature, tails and rounding."""
        halves = np.full_like(self.heights, float(self.heights[1]) / math.pi)
        halves[0] /= 2
        size, enlarged = np.exp(self.log_integrand) * halves, np.exp(self.log_enlarged) * halves
        angle_error = 8 * UNIT_ROUNDOFF * float(size @ (np.abs(self.angle) + 64))
        quadrature = float(enlarged @ self.quadrature_rel_errors)
        tails = float(enlarged @ self.tail_rel_errors)
        return size, quadrature, tails, angle_error + float(enlarged @ self.rounding_rel_errors)

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        t, c = self.heights, self.tilt
        log_scale = self.log_moment - c * epsilon
        size, quadrature, tails, rounding = self._sums
        value = float(size @ np.cos(self.angle - t * epsilon))
        scale_size = 1 + abs(self.log_moment) + c * abs(epsilon)
        scale_error = self.log_moment_abs_error + 16 * UNIT_ROUNDOFF * scale_size
        rounding += 8 * UNIT_ROUNDOFF * abs(epsilon) * float(size @ t)  # of the angles t * epsilon
        rounding += abs(value) * math.expm1(min(scale_error, 700.0))
        cut_off = math.exp(min(self.log_cut, 700.0))
        aliasing = self._aliasing(epsilon)
        charge = quadrature + tails + cut_off + rounding
        upper, lower = value + charge, value - charge - aliasing
        if not upper > 0:
            upper = charge + aliasing + abs(value)
        log_lower = log_scale + math.log(lower) if lower > 0 else -math.inf
        log_upper = log_scale + math.log(upper)
        infinite_below, infinite_above = self.log_infinite
        if infinite_above > -math.inf:
            log_lower = float(np.logaddexp(log_lower, infinite_below))
            log_upper = float(np.logaddexp(log_upper, infinite_above))
            infinite_abs_error = math.exp(infinite_above) - math.exp(infinite_below)
            rounding += infinite_abs_error * math.exp(min(-log_scale, 700.0))
        errors = (error / upper for error in (quadrature, tails, aliasing, cut_off, rounding))
        return LogBounds(log_lower, log_upper, Errors(*errors))

    def _aliasing(self, epsilon: float) -> float:
        """A bound on what the rule adds from other periods: delta <= 1 below, Chernoff's bound above."""
        c, beyond, period = self.tilt, self.tilt_beyond, 2 * math.pi / float(self.heights[1])
        log_scale = self.log_moment - c * epsilon
        log_chernoff = log_chernoff_factor(beyond) + self.log_moment_beyond - beyond * epsilon
        below = geometric_tail(-c * period, -log_scale)
        return below + geometric_tail(-(beyond - c) * period, log_chernoff - log_scale)
