"""The transform of normal noise without its largest losses: M(z) = E_P[e^{z loss}; output <= cap].

A loss too rare to make delta can still make E[e^{c loss}] explode at the tilt that delta needs. Without
outputs beyond a cap it does not, and the probability that some step lies beyond is charged as if its loss
were infinite. What is left ends at the cap, so that panels take the place of the trapezoidal rule. The lemmas
are those of docs/certificates.md.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeGuard

import numpy as np
from scipy import special

from tightrope.engines.face import EngineDeclines
from tightrope.engines.one_step.enclosures import Enclosed, compare_masses, enclose_masses
from tightrope.engines.transforms.envelope import EnvelopeTransform
from tightrope.engines.transforms.normal import NormalTransform, TrapezoidGrid
from tightrope.engines.transforms.panels import PANEL_NODES, ellipse_of, log_panel_error, panel_nodes
from tightrope.engines.transforms.rooms import LOG_ROOM, exp_or_inf, log_bound_of_sum
from tightrope.engines.transforms.spread import (
    Parts,
    SpreadModulus,
    TiltedCells,
    bound_variation,
    over_slopes,
)
from tightrope.engines.transforms.transform import (
    KEPT_PAIRS,
    LOG_KEPT_WEIGHT,
    MOST_NODES,
    Missed,
    PlannedNodes,
    Terms,
    TiltedNodes,
    plan,
    weigh,
)
from tightrope.numerics.floats import HALF_LOG_2PI, SMALLEST, UNIT_ROUNDOFF, Floats
from tightrope.pairs.mixture import Mixture
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair

CAPS = 8.0  # caps are multiples of its inverse
MOST_PANELS = 300  # at height 0
FEWEST_CELLS, MOST_SPREAD_CELLS = 100, 400  # to bound how far losses are apart


class CappedNormal(NormalTransform):
    """M(z) for a pair of genuine mixtures of normals, over outputs up to a cap only."""

    def __init__(self, pair: ShiftPair, cap: float) -> None:
        super().__init__(pair)
        if not cap > max(self.a, 0.0):
            raise EngineDeclines("the cap would leave out what happens most of the time")
        self.cap = cap
        self._panel_grid = lru_cache(maxsize=16)(self._make_panel_grid)

    @property
    def log_mass_beyond(self) -> float:
        """ln of an upper bound on P's mass beyond the cap."""
        return log_mass_beyond(self.pair, self.cap)

    def _start(self, c: float) -> float:
        """Where the outputs begin that are looked at; a multiple of 1."""
        return -math.ceil(max(math.sqrt(2 * (LOG_KEPT_WEIGHT + c * self.log_room)), self.b / 2))

    def _fewest_panels(self, c: float) -> int:
        """So many that on their ellipses the shifted parts turn by at most 1 radian."""
        panels = math.ceil((self.cap - self._start(c)) / min(2.0, 2 / self.steepest))
        if panels > MOST_PANELS:
            raise EngineDeclines("the tilted mass spans too much")
        return panels

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> PlannedNodes:
        """Nodes for planning, without bounds."""
        panels = self._fewest_panels(c)
        terms = self._panel_terms(c, self._start(c), panels)
        return plan(terms.losses, terms.logs, c)

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        start, panels = self._start(c), self._fewest_panels(c)
        log_moment = self.cumulants(c)[0]  # only decides how fine the panels are
        while panels * PANEL_NODES <= MOST_NODES:
            log_missed = self._log_panel_errors(c, height, start, panels)
            if log_missed - log_moment <= math.log(target):
                left = float(special.log_ndtr(start)) + self._room(c, 0.0, start, self.cap)
                beyond, log_unknown = _split_mass_beyond(self.pair, self.cap)
                rare = np.array([self._log_panel_errors(0.0, 0.0, start, panels), left, log_unknown])
                missed = Missed(
                    log_quadrature=log_missed,
                    log_tails=left + c * self.log_room,
                    log_mass=float(np.logaddexp.reduce(rare)) + LOG_ROOM,
                    beyond=beyond,
                )
                return weigh(c, self._panel_terms(c, start, panels), missed)
            panels *= 2
        raise EngineDeclines("the integrand oscillates too fast")

    def _make_panel_grid(self, start: float, panels: int) -> tuple[TrapezoidGrid, Floats]:
        """The nodes, and ln of their weights.

        Both ends are exact; a width, an offset and their sum take six roundings.
        """
        offsets, log_weights = panel_nodes((self.cap - start) / panels, panels)
        u = start + offsets
        node_abs_error = 8 * UNIT_ROUNDOFF * (self.cap - start)
        logs = [(law, law.log_ratio(u)) for law in (self.p, self.q)]
        errors = (_log_ratio_abs_errors(law, u, log, node_abs_error) for law, log in logs)
        return TrapezoidGrid(u, logs[0][1], logs[1][1], *errors), log_weights

    def _panel_terms(self, c: float, start: float, panels: int) -> Terms:
        """The terms of M(c). Each part of ln f is rounded at most three times, and five sums are."""
        grid, log_weights = self._panel_grid(start, panels)
        losses = grid.log_p - grid.log_q
        logs = (1 + c) * grid.log_p - c * grid.log_q - grid.u**2 / 2 - HALF_LOG_2PI + log_weights
        sizes = grid.u**2 + 2 * HALF_LOG_2PI + 3 * np.abs(log_weights) + 3
        sizes += (1 + c) * np.abs(grid.log_p) + c * np.abs(grid.log_q)
        errors = (1 + c) * grid.log_p_abs_errors + c * grid.log_q_abs_errors + 8 * UNIT_ROUNDOFF * sizes
        errors += 8 * UNIT_ROUNDOFF * (self.cap - start) * (np.abs(grid.u) + 1)  # of -u^2/2
        loss_errors = grid.log_p_abs_errors + grid.log_q_abs_errors + UNIT_ROUNDOFF * np.abs(losses)
        return Terms(losses=losses, logs=logs, loss_abs_errors=loss_errors, log_abs_errors=errors)

    def _log_panel_errors(self, c: float, t: float, start: float, panels: int) -> float:
        """ln of a bound on the sum of the panels' errors (lemma 8).

        On a panel's ellipse ln|f| is expanded along the real axis at the panel's centre. Off the axis the
        density grows by at most e^{y^2/2}, R_P^{1+c} not at all, R_Q^{-c} by lemma 2, and both arguments are
        largest where the share of the shifted part is.
        """
        width = (self.cap - start) / panels
        reach, y = ellipse_of(width)
        u = start + width * (np.arange(panels, dtype=float) + 0.5)
        share_p, most_p, least_p = (self._weight_p(x) for x in (u, u + reach, u - reach))
        share_q, most_q = (self._weight_q(x) for x in (u, u - reach))
        spread = np.where(
            (least_p < 0.5) & (most_p > 0.5), 0.25, np.maximum(least_p * (1 - least_p), most_p * (1 - most_p))
        )
        slope = (1 + c) * self.a * share_p + c * self.b * share_q - u
        curvature = np.maximum((1 + c) * self.a**2 * spread - 1, 0.0)  # ln R_Q is convex
        log_f = (1 + c) * self.p.log_ratio(u) - c * self.q.log_ratio(u) - u**2 / 2 - HALF_LOG_2PI
        log_sup = log_f + np.abs(slope) * reach + curvature * reach**2 / 2 + y**2 / 2
        log_sup += 2 * c * most_q * math.tan(self.b * y / 2) ** 2
        for share, shift in ((most_p, self.a), (most_q, self.b)):
            angle = shift * y
            log_sup += t * np.arctan2(share * math.sin(angle), 1 - 2 * share * math.sin(angle / 2) ** 2)
        room = self._room(c, t, start - reach, self.cap + reach)
        return log_panel_error(width) + log_bound_of_sum(log_sup) + room

    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:  # type: ignore[override]
        """By how far the losses are apart, and by parts (lemmas 7 and 7b)."""
        nodes, start = self.nodes(c), self._start(c)
        count = count_cells(self.cap - start, self.steepest)
        edges = np.linspace(start, self.cap, count + 1)
        cells = TiltedCells.of(self.pair, edges, c, self.log_moment_above(c))
        room = self._room(c, 0.0, start, self.cap) + nodes.moment_rel_error
        ends, inner = self._variations(c, edges, nodes.log_moment - room)
        return SpreadModulus(cells, (Parts.between(cells.masses, ends, inner=inner),))

    def modulus_by(self, nodes: TiltedNodes, c: float, t: float) -> float:
        """The same as `modulus_from`: no line that is lifted ends at a cap."""
        return self.modulus_from(c, t)

    def _variations(self, c: float, edges: Floats, log_scale: float) -> tuple[Floats, Floats]:
        """q = f(.; c) / (e^log_scale loss') at the edges, and its variation in each cell, from above.

        (ln q)' = -u + (1 + c) a w_P + c b w_Q - (ln loss')', the last at most max(a, b) in size, and q grows
        in a cell by at most e^{sup|(ln q)'| width}.
        """
        w_p, w_q = self._weight_p(edges), self._weight_q(edges)
        log_f = (1 + c) * self.p.log_ratio(edges) - c * self.q.log_ratio(edges) - edges**2 / 2 - HALF_LOG_2PI
        q = over_slopes(exp_or_inf(log_f - log_scale), self.a * w_p + self.b * w_q)
        fastest = (1 + c) * self.a * w_p[1:] + c * self.b * w_q[:-1] - edges[:-1] + self.steepest
        slowest = (1 + c) * self.a * w_p[:-1] + c * self.b * w_q[1:] - edges[1:] - self.steepest
        return q, bound_variation(q, edges, slowest, fastest)


class CappedEnvelope(EnvelopeTransform):
    """M(z) for an envelope of normal noise; losses above 0 end at a cap, `reach` away from the middle."""

    def __init__(self, pair: Envelope, cap: float) -> None:
        super().__init__(pair)
        self.reach = math.ceil(CAPS * (cap - self.middle)) / CAPS
        if not self.normal or not self.middle + self.reach > self.shift:
            raise EngineDeclines("the cap would leave out what happens most of the time")
        self.width = self.reach / math.ceil(self.reach / self.width)

    @property
    def log_mass_beyond(self) -> float:
        """ln of an upper bound on P's mass beyond the cap."""
        return log_mass_beyond(self.pair.remove, self.middle + self.reach)

    def _panels(self, c: float, width: float, ceiling: float = math.inf) -> int:
        return round(self.reach / width)

    def _miss(self, c: float, width: float, panels: int, log_missed: float) -> Missed:
        """Of P's masses the nodes miss those beyond the cap, and mirrored ones, as many as Q has there."""
        beyond, log_unknown = _split_mass_beyond(self.pair.remove, self.middle + self.reach)
        mirrored = self.log_missed_beyond(0.0, self.middle + self.reach)
        rare = np.array([self._log_panel_errors(0.0, 0.0, width, panels), mirrored, log_unknown])
        return Missed(
            log_quadrature=log_missed,
            log_tails=self.log_missed_beyond(c, self.middle + self.reach),
            log_mass=float(np.logaddexp.reduce(rare)) + LOG_ROOM,
            beyond=beyond,
        )

    def log_missed_beyond(self, c: float, high: float) -> float:
        """ln of what is left beyond the cap: the integral of density R^{-c}, R >= 1."""
        return float(special.log_ndtr(-high)) + self.room(c, 0.0, high)

    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:
        nodes = self.nodes(c)
        count = count_cells(self.reach, self.steep) // 2
        distances = np.linspace(0.0, self.reach, count + 1)
        # a little before the cap, however the sum is rounded
        outputs = self.middle + distances * (1 - 8 * UNIT_ROUNDOFF)
        cells = TiltedCells.of_envelope(self.pair, outputs, c, self.log_moment_above(c))
        room = self.room(c, 0.0, self.middle + self.reach) + nodes.moment_rel_error
        share, log_r = self.share(distances), self.log_ratio(distances)
        log_f = self.log_density(distances) - nodes.log_moment + room
        parts = []
        for masses, power in ((cells.masses[count + 1 :], 1 + c), (cells.masses[:count][::-1], -c)):
            q = over_slopes(exp_or_inf(log_f + power * log_r), self.steep * share)
            # (ln q)' = -u + power a w - a (1 - w)
            ends = power * self.steep * share - self.middle - distances
            slowest = np.minimum(ends[:-1], ends[1:]) - np.diff(distances) - self.steep
            fastest = np.maximum(ends[:-1], ends[1:]) + np.diff(distances)
            parts.append(Parts.between(masses, q, inner=bound_variation(q, distances, slowest, fastest)))
        return SpreadModulus(cells, tuple(parts))


def count_cells(length: float, steepest: float) -> int:
    """How many cells to cut a stretch of outputs into, to bound how far losses are apart."""
    return min(max(math.ceil(length / min(0.1, 0.3 / steepest)), FEWEST_CELLS), MOST_SPREAD_CELLS)


def log_mass_beyond(pair: ShiftPair, output: float) -> float:
    """ln of an upper bound on P's mass beyond an output that may be off by a few roundings."""
    return float(_enclose_mass_beyond(pair, output).high[0])


def _split_mass_beyond(pair: ShiftPair, output: float) -> tuple[float, float]:
    """P's mass beyond an output, from above, and ln of a bound on how much that is too large."""
    log_mass = _enclose_mass_beyond(pair, output)
    beyond = math.exp(float(log_mass.high[0]))
    # math.exp is off by one float at most, and what underflows by less than the smallest one
    error = float(log_mass.high[0] - log_mass.low[0]) + 4 * UNIT_ROUNDOFF
    return beyond, math.log(beyond * error + SMALLEST) + LOG_ROOM


def _enclose_mass_beyond(pair: ShiftPair, output: float) -> Enclosed:
    points = np.array([output, math.inf])
    abs_errors = np.array([8 * UNIT_ROUNDOFF * output, 0.0])
    plain = enclose_masses(pair.noise, points, abs_errors)
    return compare_masses(pair.observed, plain, points, abs_errors)[0]


def _log_ratio_abs_errors(law: Mixture, u: Floats, log_ratio: Floats, node_abs_error: float) -> Floats:
    """How far ln R can be off at outputs that are off by so much: exponents move by the shift times it."""
    if law.is_plain:
        return np.zeros_like(u)
    x = law.shift * (u - law.shift / 2)
    errors = UNIT_ROUNDOFF * (3 * np.abs(x) + law.shift**2 / 2) + abs(law.shift) * node_abs_error
    return law.log_mixed_abs_error(x, errors, log_ratio)


@lru_cache(maxsize=KEPT_PAIRS)
def capped_transform(pair: ShiftPair | Envelope, cap: float) -> CappedNormal | CappedEnvelope:
    """The transform of a pair up to a cap, a multiple of 1/8, kept."""
    return CappedEnvelope(pair, cap) if isinstance(pair, Envelope) else CappedNormal(pair, cap)


def has_rare_losses(pair: Pair) -> TypeGuard[ShiftPair | Envelope]:
    """Whether a pair has ever larger losses, ever more rarely, which a cap can leave out."""
    return (
        isinstance(pair, ShiftPair | Envelope)
        and pair.gaussian_separation is None
        and (pair.has_normal_noise and pair.loss_range[1] == math.inf)
    )


def find_cap(pair: ShiftPair | Envelope, log_mass: float) -> float:
    """A cap, a multiple of 1/8, beyond which P has at most about e^log_mass."""
    quantile = (pair.remove if isinstance(pair, Envelope) else pair).upper_quantile(log_mass)
    return math.ceil(CAPS * quantile) / CAPS
