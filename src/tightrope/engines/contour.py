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
from tightrope.engines.transforms.rooms import LOG_ROOM, ROOM, exp_or_inf, short
from tightrope.engines.transforms.transform import LOG_ROUNDINGS
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR, logaddexp_abs_error
from tightrope.pairs.schedule import Schedule

ROOM_UP = 16 * UNIT_ROUNDOFF  # for an exponential and three roundings
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
        # of any sum over the steps: products with counts, additions, and the squares of full batches
        self.roundings = 9 + 3 * len(schedule.parts)

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
                return reach, log_modulus * (1 - LOG_ROOM)  # each logarithm is off by 10 u of itself
            reach = on_grid(1.01 * reach, REACHES)
        raise EngineDeclines("the integrand does not decay")

    def _line(self, spot: Placement, reach: float, log_cut: float, tolerance: float) -> "ContourLine":
        c = spot.tilt
        step = short(2 * math.pi / on_grid(spot.period, PERIODS))
        count = math.ceil(reach / step) + 1  # the quotient is rounded; the last height is beyond `reach`
        if 20 * count > min(self.most_evaluations, 20 * 2**23):
            raise EngineDeclines("the integrand decays too slowly")
        t = np.arange(count + 1, dtype=float) * step  # exact
        log_moments = [self.gaussian_square * c * (1 + c) / 2]
        log_modulus = -self.gaussian_square * t**2 / 2
        angle = self.gaussian_square * t * (c + 0.5)
        log_moment_error = missed = 0.0
        log_enlarged = log_modulus.copy()  # ln prod (|m| + error)^k
        sizes = np.abs(log_modulus) + np.abs(angle)
        quadrature_errors, tail_errors, rounding_errors = (np.zeros_like(t) for _ in range(3))
        for transform, times in self.parts:
            target = 10.0 ** math.floor(math.log10(min(1e-15, 1e-5 * tolerance / times)))
            line = transform.line(c, step, count, target, self.most_evaluations)
            nodes = line.nodes
            log_moments.append(times * nodes.log_moment)
            log_moment_error += times * nodes.log_moment_abs_error
            missed += times * nodes.missing_rel_error
            log_modulus += times * line.log_modulus
            angle += times * line.angle
            sizes += times * (np.abs(line.angle) + np.abs(line.log_modulus))
            # |x^k - y^k| <= k |x - y| (|y| + |x - y|)^{k-1}; the logarithm loses 8 u of itself, as in `sizes`
            largest = (np.exp(line.log_modulus) + nodes.missing_rel_error + line.abs_errors) * (1 + ROOM_UP)
            log_enlarged += times * np.log(largest)
            quadrature_errors += times / largest * nodes.quadrature_rel_error
            tail_errors += times / largest * nodes.tail_rel_error
            rounding_errors += times / largest * line.abs_errors
        # of each ln|m| and arg m, their products with k, and their sum
        roundings = UNIT_ROUNDOFF * (LOG_ROUNDINGS + self.roundings)
        z = c + 1j * t
        # Moduli, z + 1, their product and angles lose less than 4 * roundings; the logarithm 8 u of itself.
        log_kernel = -np.log(np.abs(z) * np.abs(z + 1))
        kernel_angle = np.angle(z) + np.angle(z + 1)
        sizes += np.abs(log_kernel) + 4
        log_moment = math.fsum(log_moments)
        return ContourLine(
            tilt=c,
            heights=t,
            log_moment=log_moment,
            log_moment_abs_error=log_moment_error + roundings * math.fsum(map(abs, log_moments)),
            log_integrand=log_modulus + log_kernel,
            angle=angle - kernel_angle,
            log_enlarged=log_enlarged + log_kernel,
            quadrature_rel_errors=quadrature_errors,
            tail_rel_errors=tail_errors,
            rounding_rel_errors=rounding_errors,
            phase_abs_errors=roundings * sizes,
            # relative to e^log_moment, not to the moment itself
            log_cut=log_cut - math.log(math.pi * float(t[-1])) + missed + LOG_ROOM,
            tilt_beyond=spot.tilt_beyond,
            log_moment_beyond=self._log_moment_above(spot.tilt_beyond),
            log_infinite=self.log_infinite,
        )

    def _log_moment_above(self, c: float) -> float:
        """A certified upper bound of ln of the composed moment."""
        logs = [self.gaussian_square * c * (1 + c) / 2]
        logs += [times * transform.log_moment_above(c) for transform, times in self.parts]
        return math.fsum(logs) + UNIT_ROUNDOFF * self.roundings * math.fsum(map(abs, logs))


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
    phase_abs_errors: Floats  # of ln of the integrand and of its angle together
    log_cut: float
    tilt_beyond: float
    log_moment_beyond: float
    log_infinite: tuple[float, float]

    @cached_property
    def _sums(self) -> tuple[Floats, float, Errors]:
        """The terms' sizes, their sum with the heights, and what can be wrong whatever epsilon is.

        All of it is a sum of positive numbers, for which ROOM is enough. A term e^x cos(angle) is off by its
        size times the errors of x and of the angle.
        """
        factor = float(self.heights[1]) / math.pi
        factors = np.full_like(self.heights, factor)
        factors[0] = factor / 2
        size = np.exp(self.log_integrand) * factors
        enlarged = exp_or_inf(self.log_enlarged) * factors * (1 + ROOM)
        own = size @ (self.phase_abs_errors + UNIT_ROUNDOFF * np.abs(self.angle)) * (1 + ROOM)
        # exp and cos, three products and a quotient, pi, the sum
        functions = 2 * ELEMENTARY_REL_ERROR + 7 * UNIT_ROUNDOFF
        return (
            size,
            float(size @ self.heights),
            Errors(
                discretisation=float(enlarged @ self.quadrature_rel_errors),
                tails=float(enlarged @ self.tail_rel_errors),
                cut_off=float(exp_or_inf(self.log_cut)),
                rounding=float(
                    enlarged @ self.rounding_rel_errors + own + functions * size.sum() * (1 + ROOM)
                ),
            ),
        )

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        t, c = self.heights, self.tilt
        size, size_by_height, fixed = self._sums
        value = math.fsum((size * np.cos(self.angle - t * epsilon)).tolist())
        # the angles t epsilon and their difference are rounded
        turned = 2 * UNIT_ROUNDOFF * abs(epsilon) * size_by_height * (1 + ROOM)
        charge = (fixed.total + turned) * (1 + ROOM)
        aliasing = self._aliasing(epsilon)
        upper, lower = value + charge, value - charge - aliasing
        if not 0 < upper < math.inf:
            raise ArithmeticError(f"the sum over the contour is {value} within {charge}")
        log_scale = self.log_moment - c * epsilon
        # two roundings in each, and the logarithm of the sum
        sizes = abs(self.log_moment) + abs(c * epsilon)
        log_error = self.log_moment_abs_error + UNIT_ROUNDOFF * (2 * sizes + 10 * abs(math.log(upper)) + 1)
        log_upper = log_scale + math.log(upper) + log_error
        log_lower = -math.inf
        if lower > 0:
            log_lower = log_scale + math.log(lower) - log_error - 10 * UNIT_ROUNDOFF * abs(math.log(lower))
        infinite_below, infinite_above = self.log_infinite
        if infinite_above > -math.inf:
            log_upper = _add(log_upper, infinite_above, 1)
            log_lower = _add(log_lower, infinite_below, -1)
        rounding = fixed.rounding + turned + 2 * upper * log_error
        terms = fixed.discretisation, fixed.tails, aliasing, fixed.cut_off, rounding
        return LogBounds(log_lower, log_upper, Errors(*(term / upper for term in terms)))

    def _aliasing(self, epsilon: float) -> float:
        """A bound on what the rule adds from other periods: delta <= 1 below, Chernoff's bound above."""
        c, beyond, period = self.tilt, self.tilt_beyond, 2 * math.pi / float(self.heights[1])
        log_scale = self.log_moment - c * epsilon
        log_chernoff = log_chernoff_factor(beyond) + self.log_moment_beyond - beyond * epsilon
        sizes = abs(self.log_moment) + abs(self.log_moment_beyond) + 2 * beyond * (abs(epsilon) + period) + 64
        log_error = self.log_moment_abs_error + 16 * UNIT_ROUNDOFF * sizes
        below = geometric_tail(-c * period, log_error - log_scale)
        return below + geometric_tail(-(beyond - c) * period, log_chernoff - log_scale + log_error)


def _add(log_x: float, log_y: float, side: int) -> float:
    """ln(x + y), rounded to a side."""
    total = float(np.logaddexp(log_x, log_y))
    return total + side * (float(logaddexp_abs_error(total)) + UNIT_ROUNDOFF)
