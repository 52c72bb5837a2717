"""Transforms of bounded losses: Laplace noise by Gauss-Legendre quadrature, finite supports exactly."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.panels import PANEL_NODES, ellipse_of, log_panel_error, panel_nodes
from tightrope.engines.transforms.rooms import ROOM, log_bound_of_sum, log_bound_room
from tightrope.engines.transforms.shares import share_rel_error
from tightrope.engines.transforms.transform import (
    Missed,
    PlannedNodes,
    Terms,
    TiltedNodes,
    Transform,
    plan,
    weigh,
)
from tightrope.numerics.floats import LOG_REL_ERROR, UNIT_ROUNDOFF, Floats
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.mixture import Noise
from tightrope.pairs.shift_pair import ShiftPair

MOST_PANELS = 500
SPREAD_CELLS = 200  # between the centres, to bound how far losses are apart


@dataclass(frozen=True)
class BoundedNodes:
    """Losses and ln P-masses of nodes, and how far each can be off."""

    losses: Floats
    log_masses: Floats
    loss_abs_errors: Floats
    log_mass_abs_errors: Floats

    def terms(self, c: float) -> Terms:
        """The terms of M(c): a product with c and a sum are rounded."""
        tilts = c * np.abs(self.losses)
        errors = self.log_mass_abs_errors + c * self.loss_abs_errors
        return Terms(
            losses=self.losses,
            logs=self.log_masses + c * self.losses,
            loss_abs_errors=self.loss_abs_errors,
            log_abs_errors=errors + UNIT_ROUNDOFF * (2 * tilts + np.abs(self.log_masses)),
        )


class FiniteTransform(Transform):
    """A finite support is its own set of nodes. Its modulus never decays; other steps of a run may."""

    def __init__(self, pair: FinitePair) -> None:
        super().__init__()
        losses = np.array(pair.losses)
        log_masses = np.array(pair.log_masses)
        errors = (LOG_REL_ERROR * np.abs(logs) for logs in (losses, log_masses))
        self.atoms = BoundedNodes(losses, log_masses, *errors)

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        return weigh(c, self.atoms.terms(c), Missed(), kept=math.inf)

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> PlannedNodes:
        """Every level with its tilted probability."""
        nodes = self.nodes(c)
        return PlannedNodes(nodes.losses, nodes.weights, nodes.log_moment)

    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:
        """1: atoms come back into phase."""
        return lambda t: 1.0


class LaplaceTransform(Transform):
    """Laplace noise: an atom of loss on each side of the two centres, and an analytic density between them.

    Between the centres, an interval of length `gap`, the integrand is f(x) = density(x) R_P^{1+z} R_Q^{-z}
    with one of the R equal to 1 and the other 1 - g + g e^{+-(2x - gap)}: analytic for |Im x| < pi / 2.
    """

    def __init__(self, pair: ShiftPair) -> None:
        if pair.noise is not Noise.LAPLACE or not (pair.observed.is_plain or pair.alternative.is_plain):
            raise ValueError("needs one mixture of Laplace noise against the plain noise")
        super().__init__()
        self.pair = pair
        self.low, self.high = pair.centres()[0], pair.centres()[-1]
        self.gap = self.high - self.low  # one of them is 0
        self.law = pair.alternative if pair.observed.is_plain else pair.observed
        self._grid = lru_cache(maxsize=16)(self._make_grid)

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> PlannedNodes:
        """The nodes at height 0."""
        nodes = self.nodes(c)
        return PlannedNodes(nodes.losses, nodes.weights, nodes.log_moment)

    def _make_grid(self, panels: int) -> BoundedNodes:
        """Losses and ln P-masses: both atoms, then the quadrature between the centres."""
        offsets, log_weights = panel_nodes(self.gap / panels, panels)
        x = self.low + offsets
        # The centres, the width, an offset (five roundings) and the sum: a node is off by 9 u gap at most.
        node_abs_error = 9 * UNIT_ROUNDOFF * self.gap
        plain = -np.abs(x) - math.log(2) + log_weights
        ends = np.array([self.low, self.high])
        outer = self.pair.observed.log_lower(ends[:1]), self.pair.observed.log_upper(ends[1:])
        log_masses = np.concatenate([*outer, plain + self.pair.observed.log_ratio(x)])
        everywhere = np.concatenate([ends, x])
        losses, log_ratio = self.pair.loss(everywhere), self.law.log_ratio(everywhere)
        # 2x - gap or -2x - gap: twice the node's error, the centre's and one rounding
        exponents = self.law.noise.log_shift_ratio(everywhere, self.law.shift)
        exponent_abs_errors = np.full_like(x, 2 * node_abs_error + 2 * UNIT_ROUNDOFF * self.gap)
        exponent_abs_errors = np.concatenate([np.full(2, 2 * UNIT_ROUNDOFF * self.gap), exponent_abs_errors])
        loss_abs_errors = self.law.log_mixed_abs_error(exponents, exponent_abs_errors, log_ratio)
        # of ln density: the node, |x|, ln 2, ln weight (8 u of it and 3 u), three sums of these and ln R
        sizes = self.gap + 1 + np.abs(log_weights) + np.abs(losses[2:])
        inner = node_abs_error + loss_abs_errors[2:] + 12 * UNIT_ROUNDOFF * sizes
        # An atom has the mass of a tail of the mixture: logaddexp (12 u, and 1 u of the result) of sums of
        # ln weight (6 u of it) and ln of a tail of the noise: -d - ln 2 or log1p(-e^-d / 2); 3 u d + 20 u.
        logs = 0.0 if self.law.is_pure else abs(self.law.log_rate) + abs(self.law.log_rest)
        outer_abs_error = UNIT_ROUNDOFF * (64 + 8 * (self.gap + logs + float(np.abs(log_masses[:2]).max())))
        log_mass_abs_errors = np.concatenate([np.full(2, outer_abs_error), inner])
        return BoundedNodes(losses, log_masses, loss_abs_errors, log_mass_abs_errors)

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        """Gauss-Legendre nodes on panels short enough for the tilt and the height."""
        panels = math.ceil(2 * self.gap)
        while panels <= MOST_PANELS:
            terms = self._grid(panels).terms(c)
            log_missed = self._log_panel_errors(c, height, panels)
            log_moment = plan(terms.losses, terms.logs, c, math.inf).log_moment
            if log_missed - log_moment <= math.log(target):
                log_mass = self._log_panel_errors(0.0, 0.0, panels)
                return weigh(c, terms, Missed(log_quadrature=log_missed, log_mass=log_mass), kept=math.inf)
            panels *= 2
        raise EngineDeclines("the integrand oscillates too fast")

    def _log_panel_errors(self, c: float, t: float, panels: int) -> float:
        """ln of a bound on the sum of the panels' errors (docs/certificates.md, lemma 6).

        Each is at most 64/15 rho^{-2n} / (1 - rho^{-2}) times half the panel's length times sup |f| on its
        ellipse.
        """
        width = self.gap / panels
        reach, y = ellipse_of(width)
        overhang = reach - width / 2
        left = self.low + width * np.arange(panels, dtype=float) - overhang
        right = left + width + 2 * overhang
        # density: e^{-|x|} is e^{-x} or e^{x} between the centres, continued as such
        log_density = -math.log(2) + (-left if self.high > 0 else right)
        # the shifted part's largest share on each ellipse, whose argument it turns by at most 2 y <= 1/2
        share = self.law.shifted_share(self._exponent(left if self.pair.observed.is_plain else right))
        if not self.pair.observed.is_plain:
            # |R_P(x + iy)| <= R_P(x), which grows
            log_sup = log_density + (1 + c) * self._log_r(right)
        else:
            # |R_Q(x + iy)| >= R_Q(x) e^{-2 share tan^2 y} (lemma 2), and R_Q falls
            log_turned = 0.0 if self.law.is_moved else -2 * share * math.tan(y) ** 2
            log_sup = log_density - c * (self._log_r(right) + log_turned)
        log_sup = log_sup + t * np.arctan2(share * math.sin(2 * y), 1 - 2 * share * math.sin(y) ** 2)
        return log_panel_error(width) + log_bound_of_sum(log_sup) + self._room(c, t)

    def _room(self, c: float, t: float) -> float:
        """Room for rounding in ln of a bound on f(.; c + it)."""
        logs = 0.0 if self.law.is_pure else abs(self.law.log_rate) + abs(self.law.log_rest)
        size = (1 + 2 * c) * (4 + self.gap + logs) + 4 * t
        return log_bound_room(share_rel_error(2 * self.gap, self.law), size)

    def _log_r(self, x: Floats) -> Floats:
        """ln of the mixture's ratio, continued beyond the centres as the exponential it is between them."""
        return np.logaddexp(self.law.log_rest, self.law.log_rate + self._exponent(x))

    def _exponent(self, x: Floats) -> Floats:
        """ln of shifted over plain noise between the centres."""
        return self.low - 2 * x if self.pair.observed.is_plain else 2 * x - self.high

    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:
        """By how far the losses are apart, and by parts between the centres (lemmas 7 and 7b there)."""
        # and all of the cells: most questions are about normal noise
        from tightrope.engines.transforms.spread import Parts, SpreadModulus, TiltedCells, over_slopes

        nodes = self.nodes(c)
        masses = nodes.weights[2:] * (1 - nodes.weight_rel_errors[2:])
        panels = len(masses) // PANEL_NODES
        by_panel = masses.reshape(panels, PANEL_NODES).sum(axis=1) * (1 - nodes.moment_rel_error - ROOM)
        edges = self.low + self.gap / panels * np.arange(panels + 1, dtype=float)
        edges[-1] = self.high
        slopes = 2 * self.law.shifted_share(self._exponent(edges))  # of the loss
        log_p = -math.log(2) - np.abs(edges) + self.pair.observed.log_ratio(edges)
        log_f = log_p + c * self.pair.loss(edges) - nodes.log_moment + self._room(c, 0.0)
        ends = over_slopes(np.exp(log_f + nodes.moment_rel_error), slopes)
        outputs = np.linspace(self.low, self.high, SPREAD_CELLS + 1)
        outputs = np.concatenate([[-math.inf], outputs, [math.inf]])
        cells = TiltedCells.of(self.pair, outputs, c, self.log_moment_above(c))
        missing = nodes.missing_rel_error * (1 + ROOM)  # of all panels together
        return SpreadModulus(cells, (Parts.between(by_panel, ends, missing=missing),))
