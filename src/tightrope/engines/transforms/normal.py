"""The transform M(z) = E_P[e^{z loss}] of a mixture of normals, by a quadrature whose error is bounded.

In units of the noise, M(z) is the integral of

    f(u; z) = density(u) R_P(u)^{1+z} R_Q(u)^{-z},    R(u) = 1 - g + g e^{shift u - shift^2/2},

which is analytic in the strip |Im u| < pi / shift. The trapezoidal rule with step h on the whole line
therefore misses M(z) by at most

    (integral |f(u + iy)| du + integral |f(u - iy)| du) / (e^{2 pi y / h} - 1),    any y inside the strip.

Im loss(u + iy) >= 0, so moving the line up by a height y(u) >= 0 bounds |M(c + it)| for *all* t >= T at once.
Both integrals are bounded by sums over cells, with the variation inside each cell charged. The lemmas are
those of docs/certificates.md.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import special

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.transform import (
    KEPT,
    MOST_NODES,
    GainNodes,
    TiltedNodes,
    Transform,
    log_tail_above,
    weigh,
)
from tightrope.numerics.floats import HALF_LOG_2PI, UNIT_ROUNDOFF, Floats
from tightrope.pairs.shift_pair import ShiftPair

FINE_STEP = 0.4  # resolves a normal density to e^{-2 pi^2 / 0.16} = e^-123


class NormalTransform(Transform):
    """M(z) for one pair of genuine mixtures of normals."""

    def __init__(self, pair: ShiftPair) -> None:
        super().__init__()
        if not pair.has_normal_noise or pair.gaussian_separation is not None:
            raise ValueError("needs mixtures of normals")
        self.pair = pair
        self.p, self.q = pair.observed, pair.alternative
        self.a, self.b = self.p.shift, -self.q.shift
        self.steepest = max(self.a, self.b)
        # Where Q is a mixture its density is a divisor; b y <= 1.2 keeps it from vanishing (lemma 2).
        heights = [0.9 * math.pi / self.a] if self.a else []
        heights += [1.2 / self.b] if self.b else []
        self.tallest = min(heights)
        self.log_room = -self.q.log_rest  # the largest loss that Q's plain part allows
        self._grid = lru_cache(maxsize=16)(self._make_grid)

    def gain_nodes(self, c: float, target: float) -> GainNodes:
        """Trapezoidal nodes for P^{1+c} Q^{-c} - (1+c) P + c Q, which is never negative.

        Outside the nodes it is at most P^{1+c} Q^{-c} where P > Q, and c Q elsewhere.
        """
        low, high = self._span(c, max(KEPT, -math.log(target)))
        low = min(low, low - self.b)  # Q reaches as far beyond its shifted centre, and is weighed by c here
        step, log_aliased = self._step(c, 0.0, target)
        step = min(step, FINE_STEP)
        u, log_p, log_q = self._grid(low, high, step)
        ends = np.array([low]), np.array([high])
        log_outside = np.logaddexp(
            self.pair.alternative.log_lower(ends[0]), self.pair.alternative.log_upper(ends[1])
        )
        log_laws = math.log(1 + 2 * c) + math.log(2.1) - 2 * (math.pi / step) ** 2  # P and Q themselves
        missed = [log_aliased, log_laws, self._log_tail(c, low, high), math.log(c) + float(log_outside[0])]
        steep = self.a * self._weight_p(u) + self.b * self._weight_q(u)
        exponents = np.abs(log_p) * (1 + self.a * (np.abs(u) + self.a)) + np.abs(log_q) * (
            1 + self.b * (np.abs(u) + self.b)
        )
        loss_abs_errors = 8 * UNIT_ROUNDOFF * (exponents + steep * (np.abs(u) + self.steepest))
        log_masses = log_p - u**2 / 2 - HALF_LOG_2PI + math.log(step)
        return GainNodes(log_p - log_q, log_masses, loss_abs_errors, float(np.logaddexp.reduce(missed)))

    def _span(self, c: float, kept: float = KEPT) -> tuple[float, float]:
        """The interval outside of which f(.; c) is negligible: about e^-kept."""
        reach = math.sqrt(2 * (kept + c * (self.log_room + (math.log(2) if self.a else 0.0))))
        drift = (1 + c) * self.a
        if self.b:
            return -max(reach, self.b / 2), reach + drift
        # as far to the left as to the right: off the axis tails weigh more
        reach = min(reach, math.sqrt(2 * kept + drift**2))
        return -reach, drift + reach

    def _log_tail(self, c: float, low: float, high: float) -> float:
        """ln of a bound on the integral of |f| e^{-y^2/2} outside [low, high], any height y (lemma 3)."""
        left, right = float(special.log_ndtr(low)), log_tail_above(self.p, c, high)
        return c * self.log_room + float(np.logaddexp(left, right))

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> TiltedNodes:
        """Nodes for planning: as accurate as the certified ones in practice, without the bounds."""
        ceiling = self.pair.upper_quantile(log_cap) if log_cap > -math.inf else math.inf
        y = min(0.6 * math.pi / self.steepest, 6.0)
        step = 2 * math.pi * y / (36 + y * y / 2)
        low, high = self._span(c)
        low, high = 8 * math.floor(low / 8), 8 * math.ceil(high / 8)  # few different grids for many tilts
        if ceiling < high:
            step = min(step, (ceiling - low) / 300)
        terms = _terms(*self._grid(low, min(high, ceiling), step), c, step)
        return weigh(c, *terms, log_quadrature_error=-math.inf, log_tail_error=-math.inf)

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        low, high = self._span(c)
        step, log_aliased = self._step(c, height, target)
        terms, log_tail = _terms(*self._grid(low, high, step), c, step), self._log_tail(c, low, high)
        return weigh(c, *terms, log_quadrature_error=log_aliased, log_tail_error=log_tail)

    def _make_grid(self, low: float, high: float, step: float) -> tuple[Floats, Floats, Floats]:
        """Nodes from `low` to at least `high`, and the logarithms of R_P and R_Q there."""
        if not high - low < MOST_NODES * step:
            raise EngineDeclines("the integrand oscillates too fast")
        u = np.arange(math.ceil((high - low) / step) + 1, dtype=float) * step + low
        log_p = self.p.log_mixed(self.a * (u - self.a / 2))
        return u, log_p, self.q.log_mixed(-self.b * (u + self.b / 2))

    def _step(self, c: float, height: float, target: float) -> tuple[float, float]:
        """The widest step whose aliasing is below `target` of M(c), and ln of the bound on the aliasing."""
        low, high = self._span(c)
        log_moment = self.cumulants(c)[0]
        best = (0.0, 0.0)
        for share in (0.05, 0.2, 0.5, 0.9) if height else (0.9,):
            y = min(share * self.tallest, 8 * share)
            if height == 0 and self.b == 0:
                bound = y * y / 2 + log_moment + 0.01  # |R_P(u + iy)| <= R_P(u)
            else:
                tail = self._log_tail(c, low, high) + y * y / 2 + height * (self.a + self.b) * y
                bound = float(np.logaddexp(self._log_strip(c, height, y, low, high), tail))
            bound += math.log(2)  # two lines
            step = 2 * math.pi * y / (max(bound - log_moment, 0.0) - math.log(target))
            if step > best[0]:
                best = (step, bound - 2 * math.pi * y / step + 1e-9)
        return best

    def _log_strip(self, c: float, t: float, y: float, low: float, high: float) -> float:
        """ln of a bound on the integral of |f(u - iy; c + it)| over [low, high]; u + iy has less (lemma 4).

        In each cell ln|f| is expanded at the centre, with its exact slope and a bound on its curvature.
        """
        u, width = _cells(low, high, self.steepest)
        w_p, w_q = self._weight_p(u), self._weight_q(u)
        log_p, arg_p, cw_p = _rotate(self.pair.observed.log_ratio(u), w_p, -self.a * y)
        log_q, arg_q, cw_q = _rotate(self.pair.alternative.log_ratio(u), w_q, self.b * y)
        log_f = (y**2 - u**2) / 2 - HALF_LOG_2PI + (1 + c) * log_p - c * log_q - t * (arg_p - arg_q)
        z = complex(c, t)
        slope = -u + ((1 + z) * self.a * cw_p + z * self.b * cw_q).real
        grown = math.exp(self.steepest * width)  # how much the weights can grow inside a cell
        size = abs(1 + z) * self.a * w_p + abs(z) * self.b * w_q
        curve = 1 + grown * self.steepest * size / math.cos(self.steepest * y / 2) ** 2
        log_most = log_f + np.abs(slope) * width / 2 + curve * width**2 / 8
        return float(np.logaddexp.reduce(log_most)) + math.log(width)

    def _make_modulus_bound(self, c: float) -> "ModulusBound":
        return ModulusBound(self, c)

    def _weight_p(self, u: Floats) -> Floats:
        """How much of P's density at u is the shifted part."""
        return self.p.shifted_share(self.a * (u - self.a / 2))

    def _weight_q(self, u: Floats) -> Floats:
        return self.q.shifted_share(-self.b * (u + self.b / 2))


class ModulusBound:
    """|M(c + is)| / M(c) <= 1 + integral of the tilted density times (R - 1), for every s >= t (lemma 5).

    R(u) compares |f| on the lifted line u + iy(u) with f(u; c); the integral is bounded cell by cell, with
    the least mass a cell can have where R < 1, the most where R > 1, and the largest R in the cell.
    """

    def __init__(self, transform: NormalTransform, c: float) -> None:
        self.of, self.c = transform, c
        low, high = transform._span(c)
        u, width = _cells(low, high, transform.steepest)
        log_p, log_q = transform.pair.observed.log_ratio(u), transform.pair.alternative.log_ratio(u)
        _, log_masses, _ = _terms(u, log_p, log_q, c, width)
        w_p, w_q = transform._weight_p(u), transform._weight_q(u)
        nodes = transform.nodes(c)
        self.moment_rel_error = 4 * nodes.moment_rel_error
        log_moment = nodes.log_moment
        slope = -u + (1 + c) * transform.a * w_p + c * transform.b * w_q
        size = (1 + c) * transform.a * w_p + c * transform.b * w_q
        curve = 1 + math.exp(transform.steepest * width) * transform.steepest * size
        log_mass = log_masses - log_moment
        log_most = log_mass + np.abs(slope) * width / 2 + curve * width**2 / 8
        live = log_mass > -KEPT
        self.most = np.exp(log_most[live])
        self.least = np.exp(log_mass - curve * width**2 / 24)[live]
        self.w_p, self.w_q = w_p[live], w_q[live]
        self.slope = transform.a * self.w_p + transform.b * self.w_q
        self.tallest = 0.9 * min(transform.tallest, 6.0)
        # y and the weights lose at most this factor to a cell's edge
        self.shrink = math.exp(-transform.steepest * width / 2)
        # What is not worth following in detail gets the largest R it could have.
        worst = self.tallest**2 / 2 + 0.5 * (self.tallest * transform.steepest / 4) ** 2
        lift = c * 2 * math.tan(transform.b * self.tallest / 2 / self.shrink) ** 2 * w_q / self.shrink
        outside = math.exp(min(transform._log_tail(c, low, high) - log_moment, 700.0))
        self.hidden = math.exp(worst) * (
            outside + float(np.exp(np.minimum(log_most + lift, 700))[~live].sum())
        )

    def __call__(self, t: float) -> float:
        """A bound on |M(c + is)| / M(c) for all s >= t."""
        a, b, steepest = self.of.a, self.of.b, self.of.steepest
        pull = self.slope * t / (1 + steepest**2)
        share = pull / (pull + self.tallest)
        y = self.tallest * share
        rise = steepest * y * (1 - share)  # bounds |y'|; the line's length grows by at most e^{rise^2 / 2}
        log_r = (y**2 + rise**2) / 2 / self.shrink**2
        if b:
            log_r += self.c * 2 * np.tan(b * y / 2 / self.shrink) ** 2 * self.w_q / self.shrink
        for shift, weight in ((a, self.w_p), (b, self.w_q)):
            if shift:
                angle, least = shift * y * self.shrink, weight * self.shrink
                log_r -= t * np.arctan2(least * np.sin(angle), 1 - 2 * least * np.sin(angle / 2) ** 2)
        gain = np.expm1(log_r)
        gained = float(np.where(gain < 0, self.least, self.most) @ gain)
        return 1 + self.moment_rel_error + self.hidden + gained


def _terms(u: Floats, log_p: Floats, log_q: Floats, c: float, step: float) -> tuple[Floats, Floats, Floats]:
    """The losses at nodes `step` apart, ln of f(u; c) step, and the largest exponents rounded on the way."""
    half = u**2 / 2
    log_f = (1 + c) * log_p - c * log_q - half - HALF_LOG_2PI
    return log_p - log_q, log_f + math.log(step), half + (1 + c) * np.abs(log_p) + c * np.abs(log_q)


def _cells(low: float, high: float, steepest: float) -> tuple[Floats, float]:
    """Centres and width of cells fine enough for the bounds to lose little."""
    count = math.ceil((high - low) / min(0.1, 0.2 / steepest))
    if count > 3 * MOST_NODES:
        raise EngineDeclines("the tilted mass spans too much")
    width = (high - low) / count
    return low + width * (np.arange(count, dtype=float) + 0.5), width


def _rotate(log_ratio: Floats, weight: Floats, angle: float) -> tuple[Floats, Floats, Floats]:
    """ln|R|, arg R and the complex weight where the shifted part of R is turned by `angle`.

    R = R_0 (1 - w + w e^{i angle}) with R_0, w the real ratio and weight.
    """
    real, imag = 1 - 2 * weight * np.sin(angle / 2) ** 2, weight * np.sin(angle)
    turned = real + 1j * imag
    # -2w + 2w^2 written out: |turned|^2 - 1 = -4 w (1 - w) sin^2(angle / 2)
    log_modulus = 0.5 * np.log1p(-4 * weight * (1 - weight) * np.sin(angle / 2) ** 2)
    return log_ratio + log_modulus, np.arctan2(imag, real), weight * np.exp(1j * angle) / turned
