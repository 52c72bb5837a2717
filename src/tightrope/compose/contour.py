"""K steps without convolving: one certified integral over a vertical line in the complex plane.

With M_s(z) = E_P[e^{z loss}] for each distinct step and any c > 0,

    delta(eps) = 1/(2 pi i) * integral over Re z = c of  prod_s M_s(z)^{k_s} e^{-z eps} / (z (z + 1)) dz.

The trapezoidal rule with step h returns the sum over integers m of e^{c m Lambda} delta(eps + m Lambda), Lambda = 2 pi / h:
every term is positive, so aliasing errs upwards by itself and only the lower end is charged for it.
"""

import math
from dataclasses import dataclass

import numpy as np

from tightrope.compose.saddle import (
    Placement,
    geometric_tail,
    log_chernoff_factor,
    log_delta_estimate,
    place,
    tilt_for_epsilon,
)
from tightrope.curve.log_bounds import Errors, LogBounds
from tightrope.loss.bounded_transform import FiniteTransform, LaplaceTransform
from tightrope.loss.normal_transform import NormalTransform
from tightrope.loss.transform import UNIT_ROUNDOFF, TiltedNodes, TooSlow, Transform
from tightrope.numerics.tails import Floats
from tightrope.pairs.distribution import Noise
from tightrope.pairs.pair import FinitePair, Pair, ShiftPair
from tightrope.pairs.schedule import Schedule

CHUNK = 500_000  # nodes times heights at once, to bound memory


def transform_of(pair: Pair) -> Transform:
    """The transform of a pair, by whichever quadrature its losses allow."""
    if isinstance(pair, FinitePair):
        return FiniteTransform(pair)
    return NormalTransform(pair) if pair.noise is Noise.NORMAL else LaplaceTransform(pair)


class ContourEngine:
    """Certified bounds for compositions of any pairs; distinct steps only multiply their transforms."""

    def __init__(self, schedule: Schedule, most_evaluations: int = 5_000_000) -> None:
        self.most_evaluations = most_evaluations  # nodes times heights; a million takes about 20 ms
        self.parts: list[tuple[Transform, int]] = []
        self.last_saddle = 1.0
        self.full_batch = 0.0  # sum of squared separations of the unsampled Gaussian steps
        log_finite = 0.0
        for pair, times in schedule:
            if isinstance(pair, FinitePair) and pair.infinite_mass:
                log_finite += times * math.log1p(-float(pair.infinite_mass))
            if isinstance(pair, ShiftPair) and pair.noise is Noise.NORMAL and pair.pure_separation is not None:
                self.full_batch += times * pair.pure_separation**2
            else:
                self.parts.append((transform_of(pair), times))
        self.log_infinite = math.log(-math.expm1(log_finite)) if log_finite < 0 else -math.inf

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """ln of the composed moment at c and its first two derivatives, for planning."""
        total = np.array([c * (1 + c) / 2, c + 0.5, 1.0]) * self.full_batch
        for transform, times in self.parts:
            total += times * np.array(transform.quick_nodes(c).cumulants())
        return float(total[0]), float(total[1]), float(total[2])

    def near(self, epsilon: float, tolerance: float) -> "ContourLine":
        """A contour placed for `epsilon`, each of whose errors should stay below `tolerance`."""
        saddle = self.last_saddle = tilt_for_epsilon(self.cumulants, epsilon, self.last_saddle)
        log_goal = log_delta_estimate(self.cumulants, saddle, epsilon) + math.log(tolerance)
        spot = place(self.cumulants, saddle, epsilon, log_goal)
        reach, log_cut = self._reach(spot.tilt, epsilon, log_goal)
        return self._line(spot, reach, log_cut, tolerance)

    def _reach(self, c: float, epsilon: float, log_goal: float) -> tuple[float, float]:
        """Where to cut the integral, and ln of the bound on the composed modulus beyond."""
        log_moment, _, variance = self.cumulants(c)
        bounds = [(transform.modulus_bound(c), times) for transform, times in self.parts]
        reach = 2 / math.sqrt(variance) if variance > 0 else 1 / c
        while reach < 1e12 * (1 + c):
            log_modulus = -self.full_batch * reach**2 / 2
            log_modulus += sum(times * math.log(min(bound(reach), 1.0)) for bound, times in bounds)
            if log_modulus + log_moment - c * epsilon - math.log(math.pi * reach) < log_goal:
                return reach, log_modulus
            reach *= 1.25
        raise TooSlow("the integrand does not decay")

    def _line(self, spot: Placement, reach: float, log_cut: float, tolerance: float) -> "ContourLine":
        c, c_beyond = spot.tilt, spot.tilt_beyond
        step = 2 * math.pi / spot.period
        count = math.ceil(reach / step)
        if 20 * count > self.most_evaluations:
            raise TooSlow("the integrand decays too slowly")
        t = np.arange(count + 1, dtype=float) * step
        log_moment, log_moment_error = self.full_batch * c * (1 + c) / 2, 0.0
        log_modulus = -self.full_batch * t**2 / 2
        angle = self.full_batch * t * (c + 0.5)
        enlarged = log_modulus.copy()  # ln prod (|m| + error)^k
        cells, tails, doubt = np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)
        for transform, times in self.parts:
            target = min(1e-15, 1e-5 * tolerance / times)
            nodes = transform.nodes(c, float(t[-1]), target)
            if count * len(nodes.losses) > self.most_evaluations:
                raise TooSlow("the integrand decays too slowly")
            log_m, arg_m, wobble = _line_of_one_step(nodes, t)
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
        beyond = sum((times * tr.log_moment_above(c_beyond) for tr, times in self.parts), 0.0)
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


def _line_of_one_step(nodes: TiltedNodes, t: Floats) -> tuple[Floats, Floats, Floats]:
    """ln|m|, arg m and sum w |e^{it loss} - 1| for m(t) = M(c + it) / M(c), accurate where m is near 1."""
    rows = max(CHUNK // len(nodes.losses), 1)
    if len(t) > rows:
        pieces = [_line_of_one_step(nodes, t[i : i + rows]) for i in range(0, len(t), rows)]
        first, second, third = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return first, second, third
    half = np.multiply.outer(t / 2, nodes.losses)
    sine, cosine = np.sin(half), np.cos(half)
    real = -2 * (sine**2) @ nodes.weights
    imag = 2 * (sine * cosine) @ nodes.weights
    square = real * (2 + real) + imag**2
    with np.errstate(divide="ignore"):
        log_modulus = np.where(square > -0.5, 0.5 * np.log1p(square), np.log(np.hypot(1 + real, imag) + 1e-300))
    return log_modulus, np.arctan2(imag, 1 + real), 2 * np.abs(sine) @ nodes.weights


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
    log_infinite: float

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        t, c = self.heights, self.tilt
        step = float(t[1])
        period = 2 * math.pi / step
        log_scale = self.log_moment - c * epsilon
        halves = np.ones_like(t)
        halves[0] = 0.5
        size = np.exp(self.log_integrand) * halves * (step / math.pi)
        value = float(size @ np.cos(self.angle - t * epsilon))
        enlarged = np.exp(self.log_enlarged) * halves * (step / math.pi)
        cells, tails = float(enlarged @ self.cells), float(enlarged @ self.tails)
        phase = 8 * UNIT_ROUNDOFF * (np.abs(self.angle) + t * abs(epsilon) + 64)
        scale_error = self.log_moment_error + 16 * UNIT_ROUNDOFF * (1 + abs(self.log_moment) + c * abs(epsilon))
        rounding = float(size @ phase + enlarged @ self.doubt) + abs(value) * math.expm1(min(scale_error, 700.0))
        cut = math.exp(min(self.log_cut, 700.0))
        aliasing = geometric_tail(-c * period, -log_scale) + geometric_tail(
            -(self.tilt_beyond - c) * period,
            log_chernoff_factor(self.tilt_beyond) + self.log_moment_beyond - self.tilt_beyond * epsilon - log_scale,
        )
        charge = cells + tails + cut + rounding
        upper, lower = value + charge, value - charge - aliasing
        if not upper > 0:
            upper = charge + aliasing + abs(value)
        errors = Errors(*(error / upper for error in (cells, tails, aliasing, cut, rounding)))
        log_lower = log_scale + math.log(lower) if lower > 0 else -math.inf
        log_upper = log_scale + math.log(upper)
        if self.log_infinite > -math.inf:
            log_lower, log_upper = (float(np.logaddexp(x, self.log_infinite)) for x in (log_lower, log_upper))
        return LogBounds(log_lower, log_upper, errors)
