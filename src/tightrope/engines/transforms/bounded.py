"""Transforms of bounded losses: Laplace noise by Gauss-Legendre quadrature, finite supports exactly."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.transform import (
    ELLIPSE,
    PANEL_NODES,
    GainNodes,
    TiltedNodes,
    Transform,
    log_panel_error,
    weigh,
)
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, exact_log_ratio
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.mixture import Noise
from tightrope.pairs.shift_pair import ShiftPair

MOST_PANELS = 500


class FiniteTransform(Transform):
    """A finite support is its own set of nodes. Its modulus never decays; other steps of a run may."""

    def __init__(self, pair: FinitePair) -> None:
        super().__init__()
        self.losses = np.array(pair.losses)
        self.log_masses = np.array([exact_log_ratio(p, Fraction(1)) for p, _ in pair.levels])

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        return _weigh_all(c, self.losses, self.log_masses, -math.inf)

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> TiltedNodes:
        """Every level with its tilted probability."""
        return self.nodes(c)

    def gain_nodes(self, c: float, target: float) -> GainNodes:
        """Every level is a node: nothing is missed."""
        return GainNodes(self.losses, self.log_masses, 8 * UNIT_ROUNDOFF * np.abs(self.losses), -math.inf)

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
        self.law = pair.alternative if pair.observed.is_plain else pair.observed
        self._grid = lru_cache(maxsize=16)(self._make_grid)

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> TiltedNodes:
        """The certified nodes at height 0."""
        return self.nodes(c)

    def gain_nodes(self, c: float, target: float) -> GainNodes:
        """Both atoms and the panels between them, where the laws themselves are exponentials, at most 1/2."""
        panels = math.ceil(2 * (self.high - self.low))
        log_wanted = math.log(target) + self.nodes(c).log_moment
        while (log_missed := self._log_panel_errors(c, 0.0, panels)) > log_wanted and panels < MOST_PANELS:
            panels = min(2 * panels, MOST_PANELS)
        losses, log_masses = self._grid(panels)
        width = (self.high - self.low) / panels
        overhang = width / 4 * (ELLIPSE + 1 / ELLIPSE) - width / 2
        log_laws = math.log(1 + 2 * c) + log_panel_error(width) + math.log(panels / 2) + 3 * overhang
        gap = self.high - self.low
        loss_abs_errors = 8 * UNIT_ROUNDOFF * (np.abs(losses) * (1 + gap) + self.law.rate * gap)
        return GainNodes(losses, log_masses, loss_abs_errors, float(np.logaddexp(log_missed, log_laws)))

    def _make_grid(self, panels: int) -> tuple[Floats, Floats]:
        """Losses and ln P-masses: both atoms, then the quadrature between the centres."""
        points, weights = np.polynomial.legendre.leggauss(PANEL_NODES)
        width = (self.high - self.low) / panels
        x = (self.low + width * (np.arange(panels)[:, None] + (points + 1) / 2)).ravel()
        plain = -np.abs(x) - math.log(2) + np.log(np.tile(weights * width / 2, panels))
        log_p = self.pair.observed.log_ratio(x)
        ends = np.array([self.low, self.high])
        losses = np.concatenate([self.pair.loss(ends), self.pair.loss(x)])
        outer = self.pair.observed.log_lower(ends[:1]), self.pair.observed.log_upper(ends[1:])
        return losses, np.concatenate([*outer, plain + log_p])

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        """Gauss-Legendre nodes on panels short enough for the tilt and the height."""
        panels = math.ceil(2 * (self.high - self.low))
        while panels <= MOST_PANELS:
            nodes = _weigh_all(c, *self._grid(panels), self._log_panel_errors(c, height, panels))
            if nodes.quadrature_rel_error <= target:
                return nodes
            panels *= 2
        raise EngineDeclines("the integrand oscillates too fast")

    def _log_panel_errors(self, c: float, t: float, panels: int) -> float:
        """ln of a bound on the sum of the panels' errors (docs/certificates.md, lemma 6).

        Each is at most 64/15 rho^{-2n} / (1 - rho^{-2}) times half the panel's length times sup |f| on its
        ellipse.
        """
        width = (self.high - self.low) / panels
        y = width / 4 * (ELLIPSE - 1 / ELLIPSE)
        overhang = width / 4 * (ELLIPSE + 1 / ELLIPSE) - width / 2
        left = self.low + width * np.arange(panels, dtype=float) - overhang
        right = left + width + 2 * overhang
        # density: e^{-|x|} is e^{-x} or e^{x} between the centres, continued as such
        log_density = -math.log(2) + (-left if self.high > 0 else right)
        if self.law is self.pair.observed:
            # |R_P(x + iy)| <= R_P(x), which grows
            log_sup = log_density + (1 + c) * self._log_r(right)
        else:
            # |R_Q(x + iy)| >= cos(y) R_Q(x), which falls
            log_turned = math.log(math.cos(y)) if not self.law.is_moved else 0.0
            log_sup = log_density - c * (self._log_r(right) + log_turned)
        log_sup = log_sup + 2 * t * y  # |arg R| <= 2 y
        return log_panel_error(width) + float(np.logaddexp.reduce(log_sup))

    def _log_r(self, x: Floats) -> Floats:
        """ln of the mixture's ratio, continued beyond the centres as the exponential it is between them."""
        with np.errstate(divide="ignore"):
            return np.logaddexp(self.law.log_rest, self.law.log_rate + self._exponent(x))

    def _exponent(self, x: Floats) -> Floats:
        """ln of shifted over plain noise between the centres."""
        return 2 * x - self.high if self.law is self.pair.observed else self.low - 2 * x

    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:
        """Atoms in phase, plus the part between the centres integrated by parts (lemma 7 there)."""
        nodes = self.nodes(c)
        atoms = float(nodes.weights[:2].sum())
        between = float(nodes.weights[2:].sum())
        ends = np.array([self.low, self.high])
        shares = np.exp(self.law.log_rate + self._exponent(ends) - self._log_r(ends))  # loss' / 2
        log_p = -math.log(2) - np.abs(ends) + self.pair.observed.log_ratio(ends)
        log_f = log_p + c * self.pair.loss(ends) - nodes.log_moment
        variation = 2 * float(np.sum(np.exp(log_f) / (2 * shares)))  # |f / loss'| is largest at the ends
        moment_rel_error = 4 * nodes.moment_rel_error
        return lambda t: atoms + min(between, variation / t) + moment_rel_error


def _weigh_all(c: float, losses: Floats, log_masses: Floats, log_missed: float) -> TiltedNodes:
    """Nodes none of which is dropped, and nothing of which lies outside."""
    size = float(np.abs(log_masses).max()) + c * float(np.abs(losses).max())
    return weigh(
        c,
        losses,
        log_masses + c * losses,
        np.full_like(losses, size),
        log_quadrature_error=log_missed,
        log_tail_error=-math.inf,
        kept=math.inf,
        sums_to_one=False,
    )
