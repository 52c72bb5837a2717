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
from tightrope.engines.transforms.transform import (
    ELLIPSE,
    KEPT,
    MOST_NODES,
    PANEL_NODES,
    GainNodes,
    TiltedNodes,
    Transform,
    log_panel_error,
    log_tail_above,
    weigh,
)
from tightrope.numerics.floats import HALF_LOG_2PI, UNIT_ROUNDOFF, Floats
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.shift_pair import Envelope

MOST_CELLS = 300_000
STEEPEST = 0.8  # how steeply a line may leave the axis
RISES = (0.1, 0.3, 1.0)  # how steeply it leaves the axis, relative to how high it would like to be


class EnvelopeTransform(Transform):
    """M(z) for one envelope."""

    def __init__(self, pair: Envelope) -> None:
        super().__init__()
        self.pair = pair
        self.normal = pair.noise is Noise.NORMAL
        law = pair.remove.observed
        self.law, self.shift, self.middle = law, law.shift, pair.middle
        self.steep = self.shift if self.normal else 2.0
        # Panels that resolve the noise; on their ellipses the shifted part of R turns by at most 1 radian.
        self.width = min(2.0, 2 / self.steep)
        if not self.normal:
            panels = math.ceil(self.middle / self.width)  # from the middle to the second centre
            self.width = self.middle / panels
        self._grid = lru_cache(maxsize=16)(self._make_grid)

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> TiltedNodes:
        """Nodes for planning, without the bounds."""
        ceiling = self.pair.remove.upper_quantile(log_cap) if log_cap > -math.inf else math.inf
        return self._weigh(c, self.width, ceiling, -math.inf)

    def gain_nodes(self, c: float, target: float) -> GainNodes:
        """Both halves and the atom; each law by itself is what c = 0 integrates.

        Beyond the nodes the remove half has at most P^{1+c} Q^{-c}, and the add half, where P < Q, at most
        c Q: as much as c times the P-mass of the remove half.
        """
        width, kept = self.width, max(KEPT, -math.log(target))
        panels = self._panels(c, width, kept=kept)
        log_wanted = math.log(target) + self.quick_nodes(c).log_moment
        while (log_missed := self._log_panel_errors(c, 0.0, width, panels)) > log_wanted:
            if 4 * panels * PANEL_NODES > MOST_NODES:
                break
            width /= 2
            panels = self._panels(c, width, kept=kept)
        losses, log_masses, _, u = self._grid(width, panels)
        end = self.middle + width * panels
        log_laws = math.log(1 + 2 * c) + self._log_panel_errors(0.0, 0.0, width, panels)
        outside = [self.log_tail(c, end), math.log(c) + self.log_tail(0.0, end)]
        exponents = np.abs(losses) * (1 + self.steep * u) + self.steep * self.share(u) * (u + self.shift)
        loss_abs_errors = 8 * UNIT_ROUNDOFF * exponents
        loss_abs_errors[len(loss_abs_errors) // 2] = 0.0  # the atom's loss is 0
        log_missed = float(np.logaddexp.reduce([log_missed, log_laws, *outside]))
        return GainNodes(losses, log_masses, loss_abs_errors, log_missed)

    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:
        nodes = self.nodes(c)
        moment_rel_error = 4 * nodes.moment_rel_error
        if self.normal:
            high = self.high(c)
            return LiftedModulus(
                self.law, c, high, self.log_tail(c, high), nodes.log_moment, moment_rel_error
            )
        return self._by_parts(c, nodes, moment_rel_error)

    def high(self, c: float, kept: float = KEPT) -> float:
        """Where the outputs end that are looked at."""
        if not self.normal:
            return self.shift
        drift = (1 + c) * self.shift
        return drift + min(math.sqrt(2 * (kept + c * math.log(2))), math.sqrt(2 * kept + drift**2))

    def log_tail(self, c: float, high: float) -> float:
        """ln of a bound on the integral of density R^{1+c} beyond `high` (lemma 3); R^{-c} has less."""
        if not self.normal:
            return -math.inf  # the tail is an atom
        return log_tail_above(self.law, c, high)

    def log_ratio(self, u: Floats) -> Floats:
        """ln R."""
        return self.law.log_mixed(self.steep * (u - self.middle))

    def share(self, u: Floats) -> Floats:
        """The shifted part's share of the mixture, (ln R)' / steep; it grows."""
        return self.law.shifted_share(self.steep * (u - self.middle))

    def log_density(self, u: Floats) -> Floats:
        """ln of the plain noise's density, continued analytically below 0."""
        return -(u**2) / 2 - HALF_LOG_2PI if self.normal else -u - math.log(2)

    def _panels(self, c: float, width: float, ceiling: float = math.inf, kept: float = KEPT) -> int:
        if not self.normal:
            return round(self.middle / width)
        high = max(min(self.high(c, kept), ceiling) - self.middle, width)
        return 8 * math.ceil(high / (8 * width))  # few different grids for many tilts

    def _make_grid(self, width: float, panels: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Increasing losses, their ln P-masses, the sizes of the exponents in those, and the outputs."""
        if panels * PANEL_NODES > MOST_NODES:
            raise EngineDeclines("the integrand oscillates too fast")
        points, weights = np.polynomial.legendre.leggauss(PANEL_NODES)
        u = (self.middle + width * (np.arange(panels)[:, None] + (points + 1) / 2)).ravel()
        log_q = self.log_density(u) + np.log(np.tile(weights * width / 2, panels))
        losses = self.log_ratio(u)
        if not self.normal:
            end = np.array([self.shift])
            u, losses = np.append(u, end), np.append(losses, self.pair.loss(end))
            log_q = np.append(log_q, self.pair.remove.alternative.log_upper(end))
        masses = np.concatenate([log_q[::-1], [self.pair.log_atom], log_q + losses])
        size = np.abs(log_q) + np.abs(losses)
        return (
            np.concatenate([-losses[::-1], [0.0], losses]),
            masses,
            np.concatenate([size[::-1], [abs(self.pair.log_atom)], size]),
            np.concatenate([u[::-1], [0.0], u]),
        )

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        width = self.width
        log_moment = self.cumulants(c)[0]
        while True:
            panels = self._panels(c, width)
            if panels * PANEL_NODES > MOST_NODES:
                raise EngineDeclines("the integrand oscillates too fast")
            log_missed = self._log_panel_errors(c, height, width, panels)
            if log_missed - log_moment <= math.log(target):
                return self._weigh(c, width, math.inf, log_missed)
            width /= 2

    def _weigh(self, c: float, width: float, ceiling: float, log_missed: float) -> TiltedNodes:
        panels = self._panels(c, width, ceiling)
        losses, log_masses, sizes, u = self._grid(width, panels)
        log_f = log_masses + c * losses
        if ceiling < math.inf:
            log_f = np.where((u > ceiling) & (losses > 0), -np.inf, log_f)
        sizes = sizes + c * np.abs(losses)
        log_tail = self.log_tail(c, self.middle + width * panels)
        return weigh(c, losses, log_f, sizes, log_quadrature_error=log_missed, log_tail_error=log_tail)

    def _log_panel_errors(self, c: float, t: float, width: float, panels: int) -> float:
        """ln of a bound on the sum of the panels' errors, both halves (lemma 8).

        On a panel's ellipse ln|f| is expanded along the real axis at the panel's centre; off the axis the
        density grows by at most e^{y^2/2}, R^{1+c} not at all, R^{-c} by lemma 2, and R's argument is
        largest at the far end.
        """
        overhang = width / 4 * (ELLIPSE + 1 / ELLIPSE)
        y = width / 4 * (ELLIPSE - 1 / ELLIPSE)
        angle = self.steep * y
        u = self.middle + width * (np.arange(panels, dtype=float) + 0.5)
        log_r, density, share = self.log_ratio(u), self.log_density(u), self.share(u)
        least, most = self.share(u - overhang), self.share(u + overhang)
        spread = np.where(
            (least < 0.5) & (most > 0.5), 0.25, np.maximum(least * (1 - least), most * (1 - most))
        )
        fall = u if self.normal else np.ones_like(u)  # minus the slope of the density's logarithm
        steepness = np.abs((1 + c) * self.steep * share - fall), c * self.steep * share + fall
        curvature = np.maximum((1 + c) * self.steep**2 * spread - self.normal, 0.0)
        up = density + (1 + c) * log_r + steepness[0] * overhang + curvature * overhang**2 / 2
        down = density - c * log_r + steepness[1] * overhang + c * 2 * most * math.tan(angle / 2) ** 2
        turned = t * np.arctan2(most * math.sin(angle), 1 - 2 * most * math.sin(angle / 2) ** 2)
        log_sup = np.logaddexp(up, down) + turned + self.normal * y**2 / 2
        return log_panel_error(width) + float(np.logaddexp.reduce(log_sup)) + 1e-9

    def _by_parts(self, c: float, nodes: TiltedNodes, moment_rel_error: float) -> Callable[[float], float]:
        """Laplace noise: three atoms in phase, plus both halves integrated by parts as in lemma 7."""
        losses, log_masses, _, _ = self._grid(self.width, self._panels(c, self.width))
        places = [0, len(losses) // 2, -1]
        atoms = float(np.exp(log_masses[places] + c * losses[places] - nodes.log_moment).sum())
        ends = np.array([self.middle, self.shift])
        log_r, slope = self.log_ratio(ends), 2 * self.share(ends)
        log_f = self.log_density(ends) - nodes.log_moment
        variation = 2 * float(np.sum((np.exp(log_f + (1 + c) * log_r) + np.exp(log_f - c * log_r)) / slope))
        return lambda t: min(atoms + variation / t, 1.0) + moment_rel_error


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
        # y' = (y/v) y a (1 - share) + slope (y / (slope distance))^2
        with np.errstate(divide="ignore"):
            rise = np.minimum(1, high / wish) * high * shift * (1 - self.least_share)
            rise += slope * np.minimum(1, high / (slope * self.near)) ** 2
        angle = shift * low
        turned = np.arctan2(
            self.least_share * np.sin(angle), 1 - 2 * self.least_share * np.sin(angle / 2) ** 2
        )
        log_r = (high**2 + rise**2) / 2 - t * turned
        if self.divided:
            log_r += 2 * self.divided * self.most_share * np.tan(shift * high / 2) ** 2
        gains = np.expm1(np.minimum(log_r, 700))
        return self.hidden + float(np.where(gains < 0, self.least_mass, self.most_mass) @ gains)

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

    def __init__(
        self,
        law: Mixture,
        c: float,
        high: float,
        log_tail: float,
        log_moment: float,
        moment_rel_error: float,
    ) -> None:
        shift = law.shift
        self.shift, self.moment_rel_error = shift, moment_rel_error
        middle = shift / 2
        count = math.ceil((high - middle) / min(0.1, 0.2 / shift))
        if count > MOST_CELLS:
            raise EngineDeclines("the tilted mass spans too much")
        width = (high - middle) / count
        edges = width * np.arange(count + 1, dtype=float)
        centre = width * (np.arange(count, dtype=float) + 0.5)
        share, inner = law.shifted_share(shift * edges), law.shifted_share(shift * centre)
        log_r, u = law.log_mixed(shift * centre), centre + middle
        # lifted and all: ln R >= ln(1 - g) + share (lemma 3)
        far = float(special.log_ndtr(-high)) - c * law.log_rest
        self.halves: list[_Half] = []
        for power, most_height, beyond in ((1 + c, 0.9 * math.pi / shift, log_tail), (-c, 1.2 / shift, far)):
            tallest, divided = 0.9 * min(most_height, 6.0), max(-power, 0.0)
            log_mass = -(u**2) / 2 - HALF_LOG_2PI + power * log_r + math.log(width) - log_moment
            curve = 1 + abs(power) * shift**2 * np.minimum(share[1:], 0.25)
            log_most = log_mass + np.abs(power * shift * inner - u) * width / 2 + curve * width**2 / 8
            live = log_most > -KEPT
            # What is not worth following in detail gets the largest R it could have.
            worst = tallest**2 / 2 + (STEEPEST + shift * tallest) ** 2 / 2
            lift = 2 * divided * share[1:][~live] * math.tan(shift * tallest / 2) ** 2
            dead = np.exp(np.minimum(log_most[~live] + worst + lift, 700))
            self.halves.append(
                _Half(
                    near=edges[:-1][live],
                    far=edges[1:][live],
                    least_share=share[:-1][live],
                    most_share=share[1:][live],
                    least_mass=np.exp(log_mass - curve * width**2 / 24)[live],
                    most_mass=np.exp(log_most[live]),
                    tallest=tallest,
                    divided=divided,
                    hidden=math.exp(min(worst + beyond - log_moment, 700.0)) + float(dead.sum()),
                )
            )

    def __call__(self, t: float) -> float:
        """A bound on |M(c + is)| / M(c) for all s >= t."""
        total = 1 + self.moment_rel_error
        for half in self.halves:
            share = float(half.most_mass @ half.most_share) / max(float(half.most_mass.sum()), 1e-300)
            wish = t * self.shift * share
            total += min(half.gain(self.shift, t, min(STEEPEST, rise * wish)) for rise in RISES)
        return total
