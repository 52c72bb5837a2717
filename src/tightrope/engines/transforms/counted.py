"""The transform M(z) = E_P[e^{z loss}] of normal noise around a drawn number of shifts.

In units of the noise, M(z) is the integral of f(u; z) = density(u) R_P(u)^{1+z} R_Q(u)^{-z}, where R(u) =
sum_j w_j e^{j a u - j^2 a^2/2} is a product of factors 1 + e^{a u - r_i} (`CountMixture`). So R is analytic
and has no zero for |Im u| < pi / a, and its argument and the logarithm of its modulus off the axis are sums
over the factors. What `transforms/normal.py` knows of one factor's share holds here with the mean count,
which is the sum of all shares (docs/certificates.md, lemmas 2b to 5b).
"""

import math
from functools import lru_cache

import numpy as np
from scipy import special

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.rooms import (
    LOG_ROOM,
    ROOM,
    exp_or_inf,
    log_bound_of_sum,
    log_bound_room,
)
from tightrope.engines.transforms.shares import MOST_SHARE_ERROR, bounded_gain
from tightrope.engines.transforms.transform import (
    LOG_KEPT_WEIGHT,
    MOST_LINE_CELLS,
    MOST_NODES,
    Missed,
    PlannedNodes,
    Terms,
    TiltedNodes,
    Transform,
    plan,
    weigh,
)
from tightrope.engines.transforms.trapezoid import (
    cells_between,
    log_aliasing,
    log_normal_aliasing,
    log_terms,
    round_down,
    round_up,
)
from tightrope.numerics.floats import HALF_LOG_2PI, UNIT_ROUNDOFF, Floats, short
from tightrope.pairs.counted import CountedPair

TALLEST_P, TALLEST_Q = 0.9 * math.pi, 1.2  # angles: inside the strip, and where lemma 3 holds for R_Q
STEEPEST_LIFT = 0.5 * math.pi  # up to a right angle, sin bounds each argument from below


class CountedTransform(Transform):
    """M(z) for one pair of normal noise around drawn numbers of shifts."""

    def __init__(self, pair: CountedPair) -> None:
        super().__init__()
        self.pair = pair
        self.p, self.q = pair.observed, pair.alternative
        self.a, self.b = self.p.shift, -self.q.shift
        self.steepest = max(self.a, self.b)
        self.farthest = max(self.p.reach, -self.q.reach)
        heights = [TALLEST_P / self.a] if self.a else []
        heights += [TALLEST_Q / self.b] if self.b else []
        self.tallest = min(heights)
        self.log_room = -float(self.q.log_weights[0])  # the largest loss that Q's plain part allows
        self._grid = lru_cache(maxsize=16)(self._make_grid)
        self._sheet = lru_cache(maxsize=16)(self._make_sheet)

    def _span(self, c: float) -> tuple[float, float]:
        """The interval outside of which f(.; c) is negligible: about e^-KEPT."""
        reach = math.sqrt(2 * (LOG_KEPT_WEIGHT + c * (self.log_room + math.log(self.p.most + 1))))
        drift = (1 + c) * self.p.reach
        if self.b:
            return -max(reach, -self.q.reach), reach + drift
        reach = min(reach, math.sqrt(2 * LOG_KEPT_WEIGHT + drift**2))
        return -reach, drift + reach

    def _room(self, c: float, t: float, low: float, high: float) -> float:
        """Room for rounding in ln of a bound on an integral of |f(.; c + it)| over [low, high] or beyond."""
        reach = max(-low, high)
        exponent = self.farthest * (reach + self.farthest)
        counts = self.p.most + self.q.most
        logs = sum(float(np.abs(law.log_weights).max()) for law in (self.p, self.q))
        error = UNIT_ROUNDOFF * (128 + 8 * exponent + 8 * logs + 8 * counts)
        if not error < MOST_SHARE_ERROR:
            raise EngineDeclines("the losses are too large for floats")
        size = 64 + reach**2 + ((1 + c) * self.p.reach) ** 2 + (1 + 2 * c) * (1 + exponent + logs)
        return log_bound_room(error, size + (1 + c + t) * (4 + self.farthest) * (1 + counts))

    def _log_tail(self, c: float, low: float, high: float) -> float:
        """ln of a bound on the integral of |f| e^{-y^2/2} outside [low, high], any height y (lemma 3b)."""
        left, right = float(special.log_ndtr(low)), self._log_tail_above(c, high)
        return c * self.log_room + float(np.logaddexp(left, right)) + self._room(c, 0.0, low, high)

    def _log_tail_above(self, c: float, high: float) -> float:
        """ln of a bound on the integral of density R_P^{1+c} above `high`.

        R_P is at most (d + 1)^c times the sum of its terms' powers, and at most e^{d a u} where u >= 0.
        """
        if self.p.is_plain:
            return float(special.log_ndtr(-high))
        centres = np.concatenate([[0.0], self.p.shifts.ravel()])
        far = (1 + c) * self.p.log_weights + c * (1 + c) * centres**2 / 2
        far = far + special.log_ndtr((1 + c) * centres - high)
        drift = (1 + c) * self.p.reach
        by_terms = c * math.log(self.p.most + 1) + float(np.logaddexp.reduce(far))
        return min(by_terms, drift**2 / 2 + float(special.log_ndtr(drift - high)))

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> PlannedNodes:
        """Nodes for planning: as accurate as the certified ones in practice, without the bounds."""
        ceiling = self.pair.upper_quantile(log_cap) if log_cap > -math.inf else math.inf
        y = min(0.6 * math.pi / self.steepest, 6.0)
        step = 2 * math.pi * y / (36 + y * y / 2)
        low, high = self._span(c)
        low, high = 8 * math.floor(low / 8), 8 * math.ceil(high / 8)  # few different grids for many tilts
        if ceiling < high:
            step = min(step, (ceiling - low) / 300)
        step = short(step)
        u, log_p, log_q = self._sheet(low, min(high, ceiling), step)
        return plan(log_p - log_q, log_terms(u, log_p, log_q, c, step), c)

    def _make_sheet(self, low: float, high: float, step: float) -> tuple[Floats, Floats, Floats]:
        """The multiples of a short step from `low` to `high`, and the logarithms of R_P and R_Q there."""
        u = self._multiples(low, high, step)
        return u, self.p.log_ratio(u), self.q.log_ratio(u)

    def _multiples(self, low: float, high: float, step: float) -> Floats:
        if not (high - low) * (1 + self.p.most + self.q.most) < 16 * MOST_NODES * step:
            raise EngineDeclines("the integrand oscillates too fast")
        return np.arange(round_down(low / step), round_up(high / step) + 1, dtype=float) * step

    def _make_grid(self, low: float, high: float, step: float) -> tuple[Floats, ...]:
        u = self._multiples(low, high, step)
        return u, *self.p.enclose_log_ratio(u), *self.q.enclose_log_ratio(u)

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        low, high = self._span(c)
        step, missed = self._aliasing(c, height, target)
        u, log_p, log_p_errors, log_q, log_q_errors = self._grid(low, high, step)
        losses, logs = log_p - log_q, log_terms(u, log_p, log_q, c, step)
        # each part of ln f is rounded at most three times, and four sums are
        sizes = u**2 / 2 + 2 * HALF_LOG_2PI + 8 * abs(math.log(step))
        sizes += (1 + c) * np.abs(log_p) + c * np.abs(log_q)
        terms = Terms(
            losses=losses,
            logs=logs,
            loss_abs_errors=log_p_errors + log_q_errors + UNIT_ROUNDOFF * np.abs(losses),
            log_abs_errors=(1 + c) * log_p_errors + c * log_q_errors + 7 * UNIT_ROUNDOFF * sizes,
        )
        return weigh(c, terms, missed)

    def _aliasing(self, c: float, height: float, target: float) -> tuple[float, Missed]:
        """The widest step whose aliasing is below about `target` of M(c), and all that is missed with it."""
        low, high = self._span(c)
        log_moment = self.cumulants(c)[0]  # only chooses the step
        best, log_error, share = 0.0, -math.inf, 0.0
        for part in (0.02, 0.05, 0.1, 0.2, 0.5, 0.9) if height else (0.9,):
            y = min(part * self.tallest, 8 * part)
            is_share = height == 0 and not self.b  # |R_P(u + iy)| <= R_P(u)
            log_line = y * y / 2 if is_share else self._log_line(c, height, y, low, high)
            log_excess = log_line + math.log(2) - (0.0 if is_share else log_moment)
            step = short(2 * math.pi * y / (max(log_excess, 0.0) - math.log(target)))
            if step > best:
                error = log_aliasing(log_line, turns=2 * math.pi * y / step)
                best = step
                log_error, share = (-math.inf, math.exp(error)) if is_share else (error, 0.0)
        if not best > 0:
            raise EngineDeclines("no step resolves the integrand")
        log_mass = float(np.logaddexp(log_normal_aliasing(best), self._log_tail(0.0, low, high))) + LOG_ROOM
        log_tails = self._log_tail(c, low, high)
        missed = Missed(
            log_quadrature=log_error, quadrature_share=share, log_tails=log_tails, log_mass=log_mass
        )
        return best, missed

    def _log_line(self, c: float, t: float, y: float, low: float, high: float) -> float:
        """ln of a bound on the integral of |f(u - iy; c + it)| over the line; u + iy has less (lemma 4b)."""
        inside = self._log_strip(c, t, y, low, high)
        outside = self._log_tail(c, low, high) + y * y / 2 + t * (self.p.reach - self.q.reach) * y
        return float(np.logaddexp(inside, outside)) + self._room(c, t, low, high)

    def _log_strip(self, c: float, t: float, y: float, low: float, high: float) -> float:
        """The part over [low, high].

        ln|f| is at most H(u) = (y^2 - u^2)/2 + (1 + c) ln R_P - c ln R_Q + 2 c tan^2(by/2) S_Q + 2 t
        (tan(ay/2) S_P + tan(by/2) S_Q), S the mean counts. |S'| and |S''| / a are at most a S, and S changes
        by at most e^{a |du|}: H is expanded at the centre of each cell.
        """
        u, width = cells_between(low, high, self.steepest, most=MOST_LINE_CELLS)
        s_p, s_q = self.p.mean_count(u), self.q.mean_count(u)
        tan_p, tan_q = math.tan(self.a * y / 2), math.tan(self.b * y / 2)
        extra_p, extra_q = 2 * t * tan_p * s_p, 2 * (t + c * tan_q) * tan_q * s_q
        log_h = (y**2 - u**2) / 2 - HALF_LOG_2PI + extra_p + extra_q
        log_h += (1 + c) * self.p.log_ratio(u) - c * self.q.log_ratio(u)
        slope = np.abs((1 + c) * self.a * s_p + c * self.b * s_q - u)
        slope += self.a * extra_p + self.b * extra_q
        grown = math.exp(self.steepest * width)
        size = (1 + c) * self.a * s_p + c * self.b * s_q + self.a * extra_p + self.b * extra_q
        curve = 1 + grown * self.steepest * size
        log_most = log_h + slope * width / 2 + curve * width**2 / 8
        return log_bound_of_sum(log_most) + math.log(width)

    def _make_modulus_bound(self, c: float) -> "CountedModulusBound":
        return CountedModulusBound(self, c)


class CountedModulusBound:
    """|M(c + is)| / M(c) <= 1 + integral of the tilted density times (R - 1), for every s >= t (lemma 5b).

    As `ModulusBound`, with mean counts in place of shares. Im loss(u + iy) is at least a sum of S sin(angle).
    """

    def __init__(self, transform: CountedTransform, c: float) -> None:
        self.of, self.c = transform, c
        low, high = transform._span(c)
        u, width = cells_between(low, high, transform.steepest, most=MOST_LINE_CELLS)
        log_p, log_q = transform.p.log_ratio(u), transform.q.log_ratio(u)
        s_p, s_q = transform.p.mean_count(u), transform.q.mean_count(u)
        nodes = transform.nodes(c)
        size = (1 + c) * transform.a * s_p + c * transform.b * s_q
        curve = 1 + math.exp(transform.steepest * width) * transform.steepest * size
        log_mass = log_terms(u, log_p, log_q, c, width) - nodes.log_moment
        # of the masses, and of M(c), which they are relative to
        room = transform._room(c, 0.0, low, high) + nodes.moment_rel_error
        log_most = log_mass + np.abs(size - u) * width / 2 + curve * width**2 / 8 + room
        live = log_mass > -LOG_KEPT_WEIGHT
        self.most = np.exp(log_most[live])
        self.least = np.exp((log_mass - curve * width**2 / 24 - room)[live])
        self.s_p, self.s_q = s_p[live], s_q[live]
        self.slope = transform.a * self.s_p + transform.b * self.s_q
        self.tallest = 0.9 * min(transform.tallest, STEEPEST_LIFT / transform.steepest, 6.0)
        # y and the mean counts lose at most this factor to a cell's edge
        self.shrink = math.exp(-transform.steepest * width / 2)
        # what is not worth following in detail gets the largest R it could have
        worst = self.tallest**2 / 2 + 0.5 * (self.tallest * transform.steepest / 4) ** 2
        lift = c * 2 * math.tan(transform.b * self.tallest / 2 / self.shrink) ** 2 * s_q / self.shrink
        outside = exp_or_inf(worst + transform._log_tail(c, low, high) - nodes.log_moment + room)
        dead = exp_or_inf(worst + (log_most + lift * (1 + ROOM))[~live])
        self.hidden = float(outside + dead.sum()) * (1 + ROOM)

    def __call__(self, t: float) -> float:
        """A bound on |M(c + is)| / M(c) for all s >= t."""
        return 1 + self.hidden + bounded_gain(*self.exponents(t), self.least, self.most)

    def exponents(self, t: float) -> tuple[Floats, Floats]:
        """Two numbers for each cell, whose difference is at least ln R everywhere in it."""
        a, b, steepest = self.of.a, self.of.b, self.of.steepest
        pull = self.slope * t / (1 + steepest**2)
        left = self.tallest / (pull + self.tallest)
        y = pull * left
        rise = steepest * y * left  # bounds |y'|; the line's length grows by at most e^{rise^2 / 2}
        up = (y**2 + rise**2) / 2 / self.shrink**2
        if b:
            up += self.c * 2 * np.tan(b * y / 2 / self.shrink) ** 2 * self.s_q / self.shrink
        down = np.zeros_like(y)
        lowest = y * self.shrink  # up to a right angle, sin is least at the least angle
        for shift, mean in ((a, self.s_p), (b, self.s_q)):
            down += t * mean * self.shrink * np.sin(shift * lowest)
        return up, down
