"""The transform of normal noise between two outputs: W(z) = E_P[e^{z loss}; threshold < output <= cap].

These are the jumps of a step, whose other outputs a `CappedNormal` or a `CappedEnvelope` has. The lemmas are
those of docs/certificates.md.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.capped import CappedNormal, count_cells, log_mass_beyond
from tightrope.engines.transforms.panels import PANEL_NODES
from tightrope.engines.transforms.rooms import LOG_ROOM, ROOM
from tightrope.engines.transforms.transform import (
    KEPT_PAIRS,
    MOST_NODES,
    Missed,
    PlannedNodes,
    TiltedNodes,
    weigh,
)
from tightrope.numerics.floats import HALF_LOG_2PI, UNIT_ROUNDOFF
from tightrope.pairs.shift_pair import ShiftPair


class JumpNormal(CappedNormal):
    """W(z) for a pair of genuine mixtures of normals.

    The threshold may be off by `THRESHOLD_REL_ERROR` of itself; the cap is exact.
    """

    def __init__(self, pair: ShiftPair, threshold: float, cap: float) -> None:
        super().__init__(pair, cap)
        if not 0 < threshold < cap:
            raise EngineDeclines("no losses lie between the threshold and the cap")
        self.threshold = threshold

    @property
    def log_mass(self) -> float:
        """ln of an upper bound on P's mass beyond the threshold, and so on that of all jumps."""
        return log_mass_beyond(self.pair, self.threshold)

    def _start(self, c: float) -> float:
        return self.threshold

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> PlannedNodes:
        """Nodes for planning, without bounds; their masses do not sum to 1."""
        terms = self._panel_terms(c, self.threshold, self._fewest_panels(c))
        top = float(terms.logs.max())
        weights = np.exp(terms.logs - top)
        total = float(weights.sum())
        return PlannedNodes(terms.losses, weights / total, math.log(total) + top)

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        start, panels = self.threshold, self._fewest_panels(c)
        log_moment = self.cumulants(c)[0]  # only decides how fine the panels are
        while panels * PANEL_NODES <= MOST_NODES:
            log_missed = self._log_panel_errors(c, height, start, panels)
            if log_missed - log_moment <= math.log(target):
                missed = float(np.logaddexp(log_missed, self._log_edge(c))) + LOG_ROOM
                return weigh(c, self._panel_terms(c, start, panels), Missed(log_quadrature=missed))
            panels *= 2
        raise EngineDeclines("the integrand oscillates too fast")

    def _log_edge(self, c: float) -> float:
        """ln of a bound on the integral of |f| between the threshold and where it should be.

        On the way ln f moves by that times its slope, which is at most 2 (1 + c) max(a, b) + u in size.
        """
        u = np.array([self.threshold])
        log_f = (1 + c) * self.p.log_ratio(u) - c * self.q.log_ratio(u) - u**2 / 2 - HALF_LOG_2PI
        room = self._room(c, 0.0, self.threshold, self.threshold)
        off = THRESHOLD_REL_ERROR * self.threshold
        moved = off * ((1 + c) * 2 * self.steepest + self.threshold + 1)
        return float(log_f[0]) + math.log(2 * off) + moved + room

    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:  # type: ignore[override]
        """By parts over all outputs at once (lemma 7): there is nothing outside."""
        nodes = self.nodes(c)
        edges = np.linspace(self.threshold, self.cap, count_cells(self.cap - self.threshold, self.steepest))
        room = self._room(c, 0.0, self.threshold, self.cap) + nodes.moment_rel_error
        ends, inner = self._variations(c, edges, nodes.log_moment - room)
        variation = float(ends[0] + ends[-1] + inner.sum()) * (1 + ROOM)

        def bound(t: float) -> float:
            return min((variation / t + nodes.missing_rel_error) * (1 + ROOM), 1.0)

        return bound


THRESHOLD_REL_ERROR = 8 * UNIT_ROUNDOFF  # half of a shift and a distance from it, rounded, and their sum

# W(z) of a pair, kept
jump_transform = lru_cache(maxsize=KEPT_PAIRS)(JumpNormal)
