"""M(z) = E_P[e^{z loss}; loss finite] of one step, as nodes with bounded errors, and the answers it gave.

Everything kept is a pure function of its arguments, so an answer never depends on what was asked before it.
A training loop asks after every step, and finds most of what it needs here.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from tightrope.engines.face import EngineDeclines
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.pairs.mixture import Mixture

KEPT = 52.0  # nodes whose weight is below e^-KEPT of the largest are dropped, and charged
MOST_NODES = 100_000
KEPT_PAIRS = 128
KEPT_TILTS = 1024
KEPT_LINES = 32
LONGEST_KEPT = 20_000  # heights; longer lines are made anew, to bound memory
PANEL_NODES = 32  # of a panel of Gauss-Legendre quadrature
# rho of the panels' Bernstein ellipses: at most half a panel high, and overhanging
ELLIPSE = 1 + math.sqrt(2)
CHUNK = 500_000  # nodes times heights at once, likewise


@dataclass(frozen=True, kw_only=True)
class TiltedNodes:
    """Losses and weights with sum_j weight_j e^{z loss_j} near M(c + z)/M(c), and how far that can be off.

    The errors of the quadrature and of the tails outside the nodes are relative to M(c), and hold for every
    imaginary z up to the height the nodes were made for. The error of `log_moment` is better than that of
    the weights where M(c) is close to 1.
    """

    losses: Floats
    weights: Floats
    log_moment: float
    quadrature_rel_error: float
    tail_rel_error: float
    weight_rel_error: float
    log_moment_abs_error: float

    @property
    def missing_rel_error(self) -> float:
        """All that the nodes can miss."""
        return self.quadrature_rel_error + self.tail_rel_error

    @property
    def moment_rel_error(self) -> float:
        """How closely M(c) itself is known: what is missing, and rounding."""
        return self.missing_rel_error + self.weight_rel_error


@dataclass(frozen=True)
class GainNodes:
    """Losses and ln P-masses with which M(c) - 1 is a sum of positive terms (see engines/moments).

    `loss_abs_errors` bounds how far each loss, and the logarithm of its mass, can be off; `log_missed` is
    ln of what the nodes miss.
    """

    losses: Floats
    log_masses: Floats
    loss_abs_errors: Floats
    log_missed: float


@dataclass(frozen=True)
class StepLine:
    """m(t) = M(c + it) / M(c) of one step at heights 0, h, 2h, ..., and the nodes it was summed over."""

    nodes: TiltedNodes
    log_modulus: Floats
    angle: Floats
    swing: Floats  # sum of weights times |e^{it loss} - 1|, which rounding is relative to


class Transform(ABC):
    """The transform of one pair. Subclasses bring the quadrature; its answers are kept here."""

    def __init__(self) -> None:
        self.nodes = lru_cache(maxsize=16)(self._make_nodes)
        self.modulus_bound = lru_cache(maxsize=16)(self._make_modulus_bound)
        self.modulus_from = lru_cache(maxsize=4 * KEPT_TILTS)(self._modulus_from)
        self.log_moment_above = lru_cache(maxsize=KEPT_TILTS)(self._log_moment_above)
        self.cumulants = lru_cache(maxsize=4 * KEPT_TILTS)(self._cumulants)
        self._kept_line = lru_cache(maxsize=KEPT_LINES)(self._make_line)

    @abstractmethod
    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        """Certified nodes at tilt c for |Im z| <= height, missing at most about `target` of M(c)."""

    @abstractmethod
    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> TiltedNodes:
        """Nodes for planning, without bounds; the largest losses, e^log_cap of all, may be left out."""

    @abstractmethod
    def gain_nodes(self, c: float, target: float) -> GainNodes:
        """Nodes for M(c) - 1 that miss about `target` of M(c), or less."""

    @abstractmethod
    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:
        """t -> a bound on |M(c + is)| / M(c) for every s >= t, t > 0."""

    def _modulus_from(self, c: float, t: float) -> float:
        """A bound on |M(c + is)| / M(c) for every s >= t."""
        return self.modulus_bound(c)(t)

    def _log_moment_above(self, c: float) -> float:
        """A certified upper bound of ln M(c)."""
        nodes = self.nodes(c)
        return nodes.log_moment + 2 * nodes.moment_rel_error

    def _cumulants(self, c: float, log_cap: float = -math.inf) -> tuple[float, float, float]:
        """ln M(c) and its first two derivatives in c, for planning; `log_cap` as in `quick_nodes`."""
        nodes = self.quick_nodes(c, log_cap)
        mean = float(nodes.weights @ nodes.losses)
        return nodes.log_moment, mean, float(nodes.weights @ (nodes.losses - mean) ** 2)

    def line(self, c: float, spacing: float, count: int, target: float, most_evaluations: int) -> StepLine:
        """m at the heights 0 to count * spacing, from nodes that miss at most about `target`."""
        nodes = self.nodes(c, count * spacing, target)
        if count * len(nodes.losses) > most_evaluations:
            raise EngineDeclines("the integrand decays too slowly")
        return (self._kept_line if count <= LONGEST_KEPT else self._make_line)(c, spacing, count, target)

    def _make_line(self, c: float, spacing: float, count: int, target: float) -> StepLine:
        nodes = self.nodes(c, count * spacing, target)
        t = np.arange(count + 1, dtype=float) * spacing
        rows = max(CHUNK // len(nodes.losses), 1)
        pieces = [_evaluate(nodes, t[i : i + rows]) for i in range(0, len(t), rows)]
        columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
        for column in columns:
            column.setflags(write=False)  # shared by all who ask
        return StepLine(nodes, *columns)


def _evaluate(nodes: TiltedNodes, t: Floats) -> tuple[Floats, Floats, Floats]:
    """ln|m|, arg m and the swing, accurate where m is near 1."""
    half = np.multiply.outer(t / 2, nodes.losses)
    sine, cosine = np.sin(half), np.cos(half)
    real = -2 * (sine**2) @ nodes.weights
    imag = 2 * (sine * cosine) @ nodes.weights
    square = real * (2 + real) + imag**2
    with np.errstate(divide="ignore"):
        plain = np.log(np.hypot(1 + real, imag) + 1e-300)
        log_modulus = np.where(square > -0.5, 0.5 * np.log1p(square), plain)
    return log_modulus, np.arctan2(imag, 1 + real), 2 * np.abs(sine) @ nodes.weights


def weigh(
    c: float,
    losses: Floats,
    log_terms: Floats,
    sizes: Floats,
    *,
    log_quadrature_error: float,
    log_tail_error: float,
    kept: float = KEPT,
    sums_to_one: bool = True,
) -> TiltedNodes:
    """Nodes from the losses and ln of the terms of M(c).

    `sizes` are the largest exponents rounded on the way to each term. Where the masses sum to one and all
    losses are small, M(c) - 1 is tiny: sum p (e^{c loss} - 1), whose terms keep their relative accuracy.
    """
    top = float(log_terms.max())
    live = log_terms > top - kept
    weights, inner = np.exp(log_terms[live] - top), losses[live]
    total = float(weights.sum())
    rel_error = abs_error = 4 * UNIT_ROUNDOFF * (32 + float(sizes[live].max()))
    if sums_to_one and c * max(-inner[0], inner[-1]) < 1:
        gains = weights * -np.expm1(-c * inner)
        log_moment = math.log1p(float(gains.sum()) * math.exp(top))
        abs_error *= float(np.abs(gains).sum()) / total
    else:
        log_moment = math.log(total) + top
    dropped = float(np.exp(log_terms[~live] - top).sum()) / total
    return TiltedNodes(
        losses=inner,
        weights=weights / total,
        log_moment=log_moment,
        quadrature_rel_error=math.exp(min(log_quadrature_error - log_moment, 50.0)),
        tail_rel_error=dropped + 2 * math.exp(min(log_tail_error - log_moment, 50.0)),
        weight_rel_error=rel_error,
        log_moment_abs_error=abs_error,
    )


def log_tail_above(law: Mixture, c: float, high: float) -> float:
    """ln of a bound on the integral of density R^{1+c} above `high`, normal noise.

    R is at most 2^c times its larger half's power, and at most e^{shift u} to the right of shift / 2, which
    is better where the shift is so small that tilts are huge (docs/certificates.md, lemma 3).
    """
    plain = float(special.log_ndtr(-high))
    if law.is_plain:
        return plain
    shift = law.shift
    drift = (1 + c) * shift
    log_moved = float(special.log_ndtr(drift - high))
    far = (1 + c) * law.log_rate + c * (1 + c) * shift**2 / 2 + log_moved
    return min(c * math.log(2) + float(np.logaddexp(plain, far)), drift**2 / 2 + log_moved)


def log_panel_error(width: float) -> float:
    """ln of what Gauss-Legendre quadrature can miss on a panel, over the largest |f| on its ellipse."""
    return (
        math.log(64 / 15)
        - 2 * PANEL_NODES * math.log(ELLIPSE)
        - math.log1p(-(ELLIPSE**-2))
        + math.log(width / 2)
    )
