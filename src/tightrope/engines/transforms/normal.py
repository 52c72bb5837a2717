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
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

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
from tightrope.engines.transforms.shares import bounded_gain, log_tail_above, share_rel_error
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
from tightrope.numerics.floats import HALF_LOG_2PI, UNIT_ROUNDOFF, Floats, log_sum, short
from tightrope.pairs.mixture import Mixture
from tightrope.pairs.shift_pair import ShiftPair


@dataclass(frozen=True)
class TrapezoidGrid:
    """Outputs, exact multiples of a step, and the logarithms of R_P and R_Q there with their errors."""

    u: Floats
    log_p: Floats
    log_q: Floats
    log_p_abs_errors: Floats
    log_q_abs_errors: Floats


@dataclass(frozen=True)
class _Cells:
    """Cells that cover the span of f(.; c): centres u, ln of f(u; c) times the width, the shifted shares."""

    u: Floats
    width: float
    log_terms: Floats
    w_p: Floats
    w_q: Floats


@dataclass(frozen=True)
class _Aliasing:
    """A step, and ln of what the trapezoidal rule with it misses of M(c + it): itself, or over M(c)."""

    step: float
    log_error: float = -math.inf
    log_share: float = -math.inf


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
        self._cells = lru_cache(maxsize=16)(self._make_cells)

    @cached_property
    def _sheet(self) -> Callable[[float, float, float], tuple[Floats, Floats, Floats]]:
        return lru_cache(maxsize=16)(self._make_sheet)

    def _span(self, c: float) -> tuple[float, float]:
        """The interval outside of which f(.; c) is negligible: about e^-KEPT."""
        reach = math.sqrt(2 * (LOG_KEPT_WEIGHT + c * (self.log_room + (math.log(2) if self.a else 0.0))))
        drift = (1 + c) * self.a
        if self.b:
            return -max(reach, self.b / 2), reach + drift
        # as far to the left as to the right: off the axis tails weigh more
        reach = min(reach, math.sqrt(2 * LOG_KEPT_WEIGHT + drift**2))
        return -reach, drift + reach

    def _room(self, c: float, t: float, low: float, high: float) -> float:
        """Room for rounding in ln of a bound on an integral of |f(.; c + it)| over [low, high] or beyond."""
        reach = max(-low, high)
        exponent = self.steepest * (reach + self.steepest)
        laws = [law for law in (self.p, self.q) if not law.is_pure]
        logs = 1 + exponent + sum(abs(law.log_rate) + abs(law.log_rest) for law in laws)
        size = 64 + reach**2 + (1 + c) * ((1 + c) * self.a) * self.a + (1 + 2 * c) * logs
        return log_bound_room(share_rel_error(exponent, *laws), size + (1 + c + t) * (4 + self.steepest))

    def _log_tail(self, c: float, low: float, high: float) -> float:
        """ln of a bound on the integral of |f| e^{-y^2/2} outside [low, high], any height y (lemma 3)."""
        left, right = float(special.log_ndtr(low)), log_tail_above(self.p, c, high)
        return c * self.log_room + float(np.logaddexp(left, right)) + self._room(c, 0.0, low, high)

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

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        low, high = self._span(c)
        log_tails = self._log_tail(c, low, high)
        aliasing = self._aliasing(c, height, target, log_tails)
        step = aliasing.step
        missed = Missed(
            log_quadrature=aliasing.log_error,
            quadrature_share=math.exp(aliasing.log_share),
            log_tails=log_tails,
            log_mass=float(np.logaddexp(log_normal_aliasing(step), self._log_tail(0.0, low, high)))
            + LOG_ROOM,
        )
        return weigh(c, self._terms(self._make_grid(low, high, step), c, step), missed)

    def _make_sheet(self, low: float, high: float, step: float) -> tuple[Floats, Floats, Floats]:
        """The multiples of a short step from `low` to `high`, and the logarithms of R_P and R_Q there."""
        if not high - low < MOST_NODES * step:
            raise EngineDeclines("the integrand oscillates too fast")
        u = np.arange(round_down(low / step), round_up(high / step) + 1, dtype=float) * step
        return u, self.p.log_ratio(u), self.q.log_ratio(u)

    def _make_grid(self, low: float, high: float, step: float) -> TrapezoidGrid:
        u, log_p, log_q = self._make_sheet(low, high, step)
        return TrapezoidGrid(
            u, log_p, log_q, _log_ratio_abs_errors(self.p, u, log_p), _log_ratio_abs_errors(self.q, u, log_q)
        )

    def _terms(self, grid: TrapezoidGrid, c: float, step: float) -> Terms:
        """The terms f(u; c) step. Each part of ln f is rounded at most three times, and four sums are."""
        losses = grid.log_p - grid.log_q
        logs = log_terms(grid.u, grid.log_p, grid.log_q, c, step)
        constants = 2 * HALF_LOG_2PI + 8 * abs(math.log(step))
        sizes = grid.u**2 / 2 + constants + (1 + c) * np.abs(grid.log_p) + c * np.abs(grid.log_q)
        errors = (1 + c) * grid.log_p_abs_errors + c * grid.log_q_abs_errors + 7 * UNIT_ROUNDOFF * sizes
        loss_errors = grid.log_p_abs_errors + grid.log_q_abs_errors + UNIT_ROUNDOFF * np.abs(losses)
        return Terms(losses=losses, logs=logs, loss_abs_errors=loss_errors, log_abs_errors=errors)

    def _aliasing(self, c: float, height: float, target: float, log_tail: float) -> _Aliasing:
        """The widest step whose aliasing is below about `target` of M(c) (lemma 4)."""
        best = _Aliasing(0.0)
        shares = (0.05, 0.2, 0.5, 0.9) if height else (0.9,)
        heights = [min(share * self.tallest, 8 * share) for share in shares]
        is_share = height == 0 and not self.b  # |R_P(u + iy)| <= R_P(u)
        log_lines, log_moment = [y * y / 2 for y in heights], 0.0
        if not is_share:
            log_lines = self._log_lines(c, height, heights, log_tail)
            log_moment = log_sum(self._cells(c).log_terms)  # nearly; it only chooses the step
        for y, log_line in zip(heights, log_lines, strict=True):
            log_excess = log_line + math.log(2) - log_moment
            step = short(2 * math.pi * y / (max(log_excess, 0.0) - math.log(target)))
            if step > best.step:
                log_error = log_aliasing(log_line, turns=2 * math.pi * y / step)
                best = _Aliasing(step, log_share=log_error) if is_share else _Aliasing(step, log_error)
        if not best.step > 0:
            raise EngineDeclines("no step resolves the integrand")
        return best

    def _log_lines(self, c: float, t: float, heights: list[float], log_tail: float) -> list[float]:
        """ln of bounds on the integrals of |f(u - iy; c + it)| over lines; u + iy has less (lemma 4)."""
        room = self._room(c, t, *self._span(c))
        outside = [log_tail + y * y / 2 + t * (self.a + self.b) * y for y in heights]
        inside = self._log_strips(c, t, np.array(heights)[:, None])
        return [float(np.logaddexp(*both)) + room for both in zip(inside, outside, strict=True)]

    def _log_strips(self, c: float, t: float, y: Floats) -> list[float]:
        """The parts over the span, for a column of heights.

        In each cell ln|f| is expanded at the centre, with its exact slope and a bound on its curvature.
        """
        cells = self._cells(c)
        width, log_most, slope = cells.width, cells.log_terms + y**2 / 2, -cells.u
        size = np.zeros_like(cells.u)
        for side, power, shift, weight in ((1, 1 + c, self.a, cells.w_p), (-1, c, self.b, cells.w_q)):
            if shift:  # R_P has the exponent 1 + z, R_Q has -z; both slopes have one sign
                log_turned, steepness = _turn_power(weight, -side * shift * y, power, t)
                log_most = log_most + side * log_turned
                slope = slope + shift * steepness
                size += abs(complex(power, t)) * shift * weight
        grown = math.exp(self.steepest * width)  # how much the weights can grow inside a cell
        curve = 1 + grown * self.steepest * size / np.cos(self.steepest * y / 2) ** 2
        log_most = log_most + np.abs(slope) * width / 2 + curve * width**2 / 8
        return [log_bound_of_sum(row) for row in log_most]

    def _make_cells(self, c: float) -> _Cells:
        u, width = cells_between(*self._span(c), self.steepest, most=MOST_LINE_CELLS)
        log_f = log_terms(u, self.p.log_ratio(u), self.q.log_ratio(u), c, width)
        return _Cells(u, width, log_f, self._weight_p(u), self._weight_q(u))

    def _make_modulus_bound(self, c: float) -> "ModulusBound":
        return ModulusBound(self, c)

    def modulus_by(self, nodes: TiltedNodes, c: float, t: float) -> float:
        """The bound made for this height alone."""
        return ModulusBound(self, c, nodes)(t)

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

    def __init__(self, transform: NormalTransform, c: float, nodes: TiltedNodes | None = None) -> None:
        self.of, self.c = transform, c
        low, high = transform._span(c)
        cells = transform._cells(c)
        u, width, w_p, w_q = cells.u, cells.width, cells.w_p, cells.w_q
        nodes = transform.nodes(c) if nodes is None else nodes
        size = (1 + c) * transform.a * w_p + c * transform.b * w_q
        curve = 1 + math.exp(transform.steepest * width) * transform.steepest * size
        log_mass = cells.log_terms - nodes.log_moment
        # of the masses, and of M(c), which they are relative to
        room = transform._room(c, 0.0, low, high) + nodes.moment_rel_error
        log_most = log_mass + np.abs(size - u) * width / 2 + curve * width**2 / 8 + room
        live = log_mass > -LOG_KEPT_WEIGHT
        self.centres, self.width = u[live], width
        self.most = np.exp(log_most[live])
        self.least = np.exp((log_mass - curve * width**2 / 24 - room)[live])
        self.w_p, self.w_q = w_p[live], w_q[live]
        self.slope = transform.a * self.w_p + transform.b * self.w_q
        self.tallest = 0.9 * min(transform.tallest, 6.0)
        # y and the weights lose at most this factor to a cell's edge
        self.shrink = math.exp(-transform.steepest * width / 2)
        # What is not worth following in detail gets the largest R it could have.
        worst = self.tallest**2 / 2 + 0.5 * (self.tallest * transform.steepest / 4) ** 2
        lift = c * 2 * math.tan(transform.b * self.tallest / 2 / self.shrink) ** 2 * w_q / self.shrink
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
            up += self.c * 2 * np.tan(b * y / 2 / self.shrink) ** 2 * self.w_q / self.shrink
        down = np.zeros_like(y)
        lowest, highest = y * self.shrink, np.minimum(y / self.shrink, self.tallest)
        for shift, weight in ((a, self.w_p), (b, self.w_q)):
            if shift:  # the argument grows with the weight; in the angle it has one peak, so an end is least
                turned = (_turn(weight * self.shrink, shift * height) for height in (lowest, highest))
                down += t * np.minimum(*turned)
        return up, down


def _log_ratio_abs_errors(law: Mixture, u: Floats, log_ratio: Floats) -> Floats:
    """How far ln R can be off at outputs that are exact.

    Its exponent x = shift (u - shift/2) is rounded twice, and the shift's own rounding moves it by
    u shift |u - shift| <= u (|x| + shift^2 / 2).
    """
    if law.is_plain:
        return np.zeros_like(u)
    x = law.shift * (u - law.shift / 2)
    return law.log_mixed_abs_error(x, UNIT_ROUNDOFF * (3 * np.abs(x) + law.shift**2 / 2), log_ratio)


def _turn(weight: Floats, angle: Floats) -> Floats:
    """arg(1 - w + w e^{i angle})."""
    return np.asarray(np.arctan2(weight * np.sin(angle), 1 - 2 * weight * np.sin(angle / 2) ** 2))


def _turn_power(weight: Floats, angle: Floats, power: float, t: float) -> tuple[Floats, Floats]:
    """What turning the shifted part of R adds to ln|R^{power + it}|, and its slope then, over the shift.

    R = R_0 (1 - w + w e^{i angle}) with R_0, w the real ratio and weight. The square of the second factor is
    1 - 4 w (1 - w) sin^2(angle / 2), and its logarithm has the slope w ((1 - w) e^{i angle} + w) over that.
    """
    mixed = weight * (1 - weight)
    fallen = -4 * mixed * np.sin(angle / 2) ** 2
    log_turned = power / 2 * np.log1p(fallen) - t * _turn(weight, angle)
    steepness = power * weight**2 + mixed * (power * np.cos(angle) - t * np.sin(angle))
    return log_turned, steepness / (1 + fallen)
