"""The transform of an envelope: an atom at loss 0 and two analytic halves, by Gauss-Legendre quadrature.

Beyond the middle of the centres R = 1 - g + g e^{steep (u - middle)} >= 1 is the likelihood ratio of the
remove pair, so

    M(z) = atom + integral over u > middle of  density(u) R(u)^{1+z}  +  density(u) R(u)^{-z}  du :

losses ln R of the remove pair, and losses -ln R of the add pair. For normal noise steep = shift; for
Laplace noise steep = 2, and beyond the second centre R is constant: one more atom on each side. The lemmas
are those of docs/certificates.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.panels import PANEL_NODES, ellipse_of, log_panel_error, panel_nodes
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
    MOST_NODES,
    Missed,
    PlannedNodes,
    Terms,
    TiltedNodes,
    Transform,
    plan,
    weigh,
)
from tightrope.numerics.floats import HALF_LOG_2PI, UNIT_ROUNDOFF, Floats
from tightrope.pairs.mixture import Noise
from tightrope.pairs.shift_pair import Envelope

MOST_GRID_CELLS = 300_000
SPREAD_CELLS = 150  # of each half, to bound how far losses are apart
STEEPEST = 0.8  # how steeply a line may leave the axis
RISES = (0.1, 0.3, 1.0)  # how steeply it leaves the axis, relative to how high it would like to be


@dataclass(frozen=True)
class PanelGrid:
    """Increasing losses, their ln P-masses, how far each can be off, and the distances from the middle."""

    losses: Floats
    log_masses: Floats
    loss_abs_errors: Floats
    log_mass_abs_errors: Floats
    distances: Floats


class EnvelopeTransform(Transform):
    """M(z) for one envelope. Outputs u are given as distances v = u - middle >= 0: nothing cancels."""

    def __init__(self, pair: Envelope) -> None:
        super().__init__()
        self.pair = pair
        self.normal = pair.noise is Noise.NORMAL
        self.law = pair.remove.observed
        self.shift, self.middle = self.law.shift, pair.middle
        self.steep = self.shift if self.normal else 2.0
        # Panels that resolve the noise; on their ellipses the shifted part of R turns by at most 1 radian.
        self.width = min(2.0, 2 / self.steep)
        if not self.normal:
            panels = math.ceil(self.middle / self.width)  # from the middle to the second centre
            self.width = self.middle / panels
        self._grid = lru_cache(maxsize=16)(self._make_grid)

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> PlannedNodes:
        """Nodes for planning, without the bounds."""
        ceiling = self.pair.remove.upper_quantile(log_cap) if log_cap > -math.inf else math.inf
        grid = self._grid(self.width, self._panels(c, self.width, ceiling))
        log_f = grid.log_masses + c * grid.losses
        if ceiling < math.inf:
            is_rare = (grid.distances > ceiling - self.middle) & (grid.losses > 0)
            log_f = np.where(is_rare, -np.inf, log_f)
        return plan(grid.losses, log_f, c)

    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:
        nodes = self.nodes(c)
        return LiftedModulus(self, c, nodes) if self.normal else self._by_spread(c, nodes)

    def high(self, c: float) -> float:
        """Where the outputs end that are looked at."""
        if not self.normal:
            return self.shift
        drift = (1 + c) * self.shift
        return drift + min(
            math.sqrt(2 * (LOG_KEPT_WEIGHT + c * math.log(2))), math.sqrt(2 * LOG_KEPT_WEIGHT + drift**2)
        )

    def room(self, c: float, t: float, high: float) -> float:
        """Room for rounding in ln of a bound on an integral at c + it up to `high`, or beyond."""
        exponent = self.steep * (high + self.shift)
        logs = 1 + exponent + abs(self.law.log_rate) + abs(self.law.log_rest)
        size = 64 + high**2 + ((1 + c) * self.shift) ** 2 + (1 + 2 * c) * logs
        return log_bound_room(share_rel_error(exponent, self.law), size + (1 + c + t) * (4 + self.steep))

    def log_tail(self, c: float, high: float) -> float:
        """ln of a bound on the integral of density R^{1+c} beyond `high` (lemma 3); R^{-c} has less."""
        if not self.normal:
            return -math.inf  # the tail is an atom
        return log_tail_above(self.law, c, high) + self.room(c, 0.0, high)

    def log_missed_beyond(self, c: float, high: float) -> float:
        """ln of a bound on both halves beyond `high`."""
        return math.log(2) + self.log_tail(c, high)

    def log_ratio(self, distance: Floats) -> Floats:
        """ln R."""
        return self.law.log_mixed(self.steep * distance)

    def share(self, distance: Floats) -> Floats:
        """The shifted part's share of the mixture, (ln R)' / steep; it grows."""
        return self.law.shifted_share(self.steep * distance)

    def log_density(self, distance: Floats) -> Floats:
        """ln of the plain noise's density, continued analytically below 0."""
        u = self.middle + distance
        return -(u**2) / 2 - HALF_LOG_2PI if self.normal else -u - math.log(2)

    def _panels(self, c: float, width: float, ceiling: float = math.inf) -> int:
        if not self.normal:
            return round(self.middle / width)
        high = max(min(self.high(c), ceiling) - self.middle, width)
        return 8 * math.ceil(high / (8 * width))  # few different grids for many tilts

    def _make_grid(self, width: float, panels: int) -> PanelGrid:
        if panels * PANEL_NODES > MOST_NODES:
            raise EngineDeclines("the integrand oscillates too fast")
        v, log_weights = panel_nodes(width, panels)
        log_q, losses = self.log_density(v) + log_weights, self.log_ratio(v)
        # A distance takes seven roundings with its width, the exponent steep v two more.
        exponents = self.steep * v
        loss_errors = self.law.log_mixed_abs_error(exponents, 9 * UNIT_ROUNDOFF * exponents, losses)
        # u = middle + v is off by 9 u of itself, u^2/2 by 20 u; then ln weight (8 u of it, 3 u), three sums
        u = self.middle + v
        exponent = u**2 / 2 if self.normal else u
        q_errors = UNIT_ROUNDOFF * (24 * exponent + 12 * np.abs(log_weights) + 16)
        if not self.normal:
            end = np.array([self.shift])
            v, losses = np.append(v, self.middle), np.append(losses, self.pair.loss(end))
            log_q = np.append(log_q, self.pair.remove.alternative.log_upper(end))
            exponents = np.array([self.shift])
            end_errors = self.law.log_mixed_abs_error(exponents, 2 * UNIT_ROUNDOFF * exponents, losses[-1:])
            loss_errors = np.append(loss_errors, end_errors)
            q_errors = np.append(q_errors, UNIT_ROUNDOFF * (16 + 4 * self.shift))
        p_errors = q_errors + loss_errors + UNIT_ROUNDOFF * (np.abs(log_q) + losses)
        return PanelGrid(
            losses=np.concatenate([-losses[::-1], [0.0], losses]),
            log_masses=np.concatenate([log_q[::-1], [self.pair.log_atom], log_q + losses]),
            loss_abs_errors=np.concatenate([loss_errors[::-1], [0.0], loss_errors]),
            log_mass_abs_errors=np.concatenate([q_errors[::-1], [self._log_atom_abs_error], p_errors]),
            distances=np.concatenate([v[::-1], [0.0], v]),
        )

    @property
    def _log_atom_abs_error(self) -> float:
        """Of ln of (1 - g) (P(noise > -m) - P(noise > m)), m the middle.

        The logarithms of the two tails are off by 24 u together up to m = 1, where they are at least m apart;
        further out they are off by (32 + 3 m^2) u of the first, less than 24 u, and 16 u of the second, whose
        share of the difference makes that less than 24 u. Two functions and a sum follow.
        """
        sizes = abs(self.pair.log_atom) + abs(self.law.log_rest)
        return UNIT_ROUNDOFF * (64 + 48 / min(self.middle, 1.0) + 16 * sizes)

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        return self._weigh(c, *self._fine_panels(c, height, target))

    def _fine_panels(self, c: float, height: float = 0.0, target: float = 1e-15) -> tuple[float, int, float]:
        """Width and number of panels that miss at most about `target` of M(c), and ln of what they miss."""
        width = self.width
        log_moment = self.cumulants(c)[0]  # only decides how fine the panels are
        while True:
            panels = self._panels(c, width)
            if panels * PANEL_NODES > MOST_NODES:
                raise EngineDeclines("the integrand oscillates too fast")
            log_missed = self._log_panel_errors(c, height, width, panels)
            if log_missed - log_moment <= math.log(target):
                return width, panels, log_missed
            width /= 2

    def _weigh(self, c: float, width: float, panels: int, log_missed: float) -> TiltedNodes:
        grid = self._grid(width, panels)
        tilts = c * grid.losses
        sizes = 2 * np.abs(tilts) + np.abs(grid.log_masses)  # a product and a sum are rounded
        terms = Terms(
            losses=grid.losses,
            logs=grid.log_masses + tilts,
            loss_abs_errors=grid.loss_abs_errors,
            log_abs_errors=grid.log_mass_abs_errors + c * grid.loss_abs_errors + UNIT_ROUNDOFF * sizes,
        )
        return weigh(c, terms, self._miss(c, width, panels, log_missed))

    def _miss(self, c: float, width: float, panels: int, log_missed: float) -> Missed:
        end = self.middle + width * panels
        # P's mass beyond the nodes, and Q's, which is less
        log_mass = np.logaddexp(
            self._log_panel_errors(0.0, 0.0, width, panels), math.log(2) + self.log_tail(0.0, end)
        )
        return Missed(
            log_quadrature=log_missed,
            log_tails=self.log_missed_beyond(c, end),
            log_mass=float(log_mass) + LOG_ROOM,
        )

    def _log_panel_errors(self, c: float, t: float, width: float, panels: int) -> float:
        """ln of a bound on the sum of the panels' errors, both halves (lemma 8).

        On a panel's ellipse ln|f| is expanded along the real axis at the panel's centre; off the axis the
        density grows by at most e^{y^2/2}, R^{1+c} not at all, R^{-c} by lemma 2, and R's argument is
        largest at the far end.
        """
        reach, y = ellipse_of(width)
        angle = self.steep * y
        v = width * (np.arange(panels, dtype=float) + 0.5)
        log_r, density, share = self.log_ratio(v), self.log_density(v), self.share(v)
        least, most = self.share(v - reach), self.share(v + reach)
        spread = np.where(
            (least < 0.5) & (most > 0.5), 0.25, np.maximum(least * (1 - least), most * (1 - most))
        )
        # minus the slope of the density's logarithm
        fall = self.middle + v if self.normal else np.ones_like(v)
        steepness = np.abs((1 + c) * self.steep * share - fall), c * self.steep * share + fall
        curvature = np.maximum((1 + c) * self.steep**2 * spread - self.normal, 0.0)
        up = density + (1 + c) * log_r + steepness[0] * reach + curvature * reach**2 / 2
        down = density - c * log_r + steepness[1] * reach + c * 2 * most * math.tan(angle / 2) ** 2
        turned = t * np.arctan2(most * math.sin(angle), 1 - 2 * most * math.sin(angle / 2) ** 2)
        log_sup = np.logaddexp(up, down) + turned + self.normal * y**2 / 2
        room = self.room(c, t, self.middle + width * (panels + 1))
        return log_panel_error(width) + log_bound_of_sum(log_sup) + room

    def _by_spread(self, c: float, nodes: TiltedNodes) -> Callable[[float], float]:
        """Laplace noise: by how far the losses are apart, and by parts in both halves (lemmas 7 and 7b)."""
        # only Laplace noise needs it
        from tightrope.engines.transforms.spread import Parts, SpreadModulus, TiltedCells, over_slopes

        width, panels, log_missed = self._fine_panels(c)
        grid, inner = self._grid(width, panels), panels * PANEL_NODES
        room = self.room(c, 0.0, self.shift) + nodes.moment_rel_error
        missing = math.exp(log_missed - nodes.log_moment + room)  # of all panels together
        errors = grid.log_mass_abs_errors + c * grid.loss_abs_errors
        masses = np.exp(grid.log_masses + c * grid.losses - nodes.log_moment - errors - room)
        middle = len(masses) // 2
        edges = width * np.arange(panels + 1, dtype=float)
        log_r, slope = self.log_ratio(edges), 2 * self.share(edges)
        log_f = self.log_density(edges) - nodes.log_moment + room
        parts = []
        for half, power in (
            (masses[middle + 1 : middle + 1 + inner], 1 + c),
            (masses[middle - inner : middle][::-1], -c),
        ):
            by_panel = half.reshape(panels, PANEL_NODES).sum(axis=1) * (1 - ROOM)
            ends = over_slopes(exp_or_inf(log_f + power * log_r), slope)
            parts.append(Parts.between(by_panel, ends, missing=missing))
        outputs = np.append(np.linspace(self.middle, self.shift, SPREAD_CELLS + 1), math.inf)
        cells = TiltedCells.of_envelope(self.pair, outputs, c, self.log_moment_above(c))
        return SpreadModulus(cells, tuple(parts))


@dataclass(frozen=True)
class _Half:
    """The cells of one half: distance from the middle, the shifted part's share, least and most mass."""

    near: Floats
    far: Floats
    least_share: Floats
    most_share: Floats
    least_mass: Floats
    most_mass: Floats
    tallest: float
    divided: float  # the power of R that is divided by
    hidden: float

    def gain(self, shift: float, t: float, slope: float) -> float:
        """A bound on the integral of tilted density times (R - 1); the line leaves the axis at `slope`."""
        pull = t * shift / (1 + shift**2)
        low, wish = self._height(pull * self.least_share, slope * self.near), pull * self.least_share
        high = self._height(pull * self.most_share, slope * self.far)
        # y' = (y/v) y a (1 - share) + slope (y / (slope distance))^2; where a divisor is 0, the minimum is 1
        with np.errstate(divide="ignore"):
            rise = np.minimum(1, high / wish) * high * shift * (1 - self.least_share + ROOM)
            rise += slope * np.minimum(1, high / (slope * self.near)) ** 2
        angle = shift * low
        turned = np.arctan2(
            self.least_share * np.sin(angle), 1 - 2 * self.least_share * np.sin(angle / 2) ** 2
        )
        up = (high**2 + rise**2) / 2
        if self.divided:
            up += 2 * self.divided * self.most_share * np.tan(shift * high / 2) ** 2
        return self.hidden + bounded_gain(up, t * turned, self.least_mass, self.most_mass)

    def _height(self, wish: Floats, distance: Floats) -> Floats:
        """1 / (1/tallest + 1/wish + 1/distance): below each of the three, and growing with them."""
        product = wish * distance
        return self.tallest * product / (product + self.tallest * (wish + distance))


class LiftedModulus:
    """t -> a bound on |M(c + is)| / M(c) for every s >= t (lemma 9).

    Both halves start at the middle of the centres. Their lines of integration are lifted (the remove half)
    or lowered (the add half) by a height y(u) that is 0 at the middle and grows. There the integrand is at
    most R times what it is on the axis, ln R = y^2/2 + y'^2/2 - t arg, and for the add half, which divides
    by the mixture, 2 c share tan^2(a y/2) more. Each cell is charged the largest R, and the least or the
    most mass, it can have.
    """

    def __init__(self, transform: EnvelopeTransform, c: float, nodes: TiltedNodes) -> None:
        law, shift, middle, high = transform.law, transform.shift, transform.middle, transform.high(c)
        self.shift = shift
        wish = min(0.1, 0.2 / shift)
        if not (high - middle) / wish < MOST_GRID_CELLS:
            raise EngineDeclines("the tilted mass spans too much")
        count = math.ceil((high - middle) / wish) + 1  # at least as far as `high`, where the tail begins
        edges = wish * np.arange(count + 1, dtype=float)
        centre = wish * (np.arange(count, dtype=float) + 0.5)
        share, inner = transform.share(edges), transform.share(centre)
        log_r, u = transform.log_ratio(centre), centre + middle
        # of the masses, and of M(c), which they are relative to
        room = transform.room(c, 0.0, float(u[-1]) + wish) + nodes.moment_rel_error
        # lifted and all: ln R >= ln(1 - g) + share (lemma 3)
        far = float(special.log_ndtr(-high)) - c * law.log_rest
        self.halves: list[_Half] = []
        halves = (1 + c, 0.9 * math.pi / shift, transform.log_tail(c, high)), (-c, 1.2 / shift, far)
        for power, most_height, beyond in halves:
            tallest, divided = 0.9 * min(most_height, 6.0), max(-power, 0.0)
            log_mass = -(u**2) / 2 - HALF_LOG_2PI + power * log_r + math.log(wish) - nodes.log_moment
            curve = 1 + abs(power) * shift**2 * np.minimum(share[1:], 0.25)
            log_most = log_mass + np.abs(power * shift * inner - u) * wish / 2 + curve * wish**2 / 8 + room
            live = log_most > -LOG_KEPT_WEIGHT
            # What is not worth following in detail gets the largest R it could have.
            worst = tallest**2 / 2 + (STEEPEST + shift * tallest) ** 2 / 2
            lift = 2 * divided * share[1:][~live] * math.tan(shift * tallest / 2) ** 2 * (1 + ROOM)
            dead = exp_or_inf(log_most[~live] + worst + lift)
            hidden = float(exp_or_inf(worst + beyond - nodes.log_moment + room) + dead.sum())
            self.halves.append(
                _Half(
                    near=edges[:-1][live],
                    far=edges[1:][live],
                    least_share=share[:-1][live],
                    most_share=share[1:][live],
                    least_mass=np.exp((log_mass - curve * wish**2 / 24 - room)[live]),
                    most_mass=np.exp(log_most[live]),
                    tallest=tallest,
                    divided=divided,
                    hidden=hidden * (1 + ROOM),
                )
            )

    def __call__(self, t: float) -> float:
        """A bound on |M(c + is)| / M(c) for all s >= t."""
        total = 1.0
        for half in self.halves:
            if not len(half.near):  # nothing worth following
                total += half.hidden
                continue
            # any slope up to STEEPEST will do; this one is about what the half's mean share asks for
            share = float(half.most_mass @ half.most_share) / float(half.most_mass.sum())
            wish = t * self.shift * share
            total += min(half.gain(self.shift, t, min(STEEPEST, rise * wish)) for rise in RISES)
        return total
