"""M(z) = E_P[e^{z loss}; loss finite] of one step, as nodes with bounded errors, and the answers it gave.

Everything kept is a pure function of its arguments, so an answer never depends on what was asked before it.
A training loop asks after every step, and finds most of what it needs here.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps
from typing import ParamSpec, TypeVar

import numpy as np

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.heights import evaluate
from tightrope.engines.transforms.rooms import ROOM
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR, LARGEST_ERROR, SECOND_ORDER

LOG_KEPT_WEIGHT = 52.0  # nodes lighter than e^-52 of the heaviest are dropped, and charged
MOST_NODES = 100_000
MOST_LINE_CELLS = 3 * MOST_NODES  # of a line, for bounds
KEPT_PAIRS = 128
KEPT_TILTS = 1024
KEPT_LINES = 32
LONGEST_KEPT = 20_000  # heights; longer lines are made anew, to bound memory
Given = ParamSpec("Given")
Made = TypeVar("Made")
ROOM_UP = 16 * UNIT_ROUNDOFF  # for an exponential and three roundings


def keep_refusals(maxsize: int) -> Callable[[Callable[Given, Made]], Callable[Given, Made]]:
    """Keeps what a function made last, as `lru_cache` does, and that it declined: that takes time too."""

    def decorate(make: Callable[Given, Made]) -> Callable[Given, Made]:
        @lru_cache(maxsize=maxsize)
        def kept(*args: Hashable) -> Made | EngineDeclines:
            try:
                return make(*args)  # type: ignore[call-arg, arg-type]  # those that were given
            except EngineDeclines as refusal:
                return refusal.with_traceback(None)

        @wraps(make)
        def ask(*args: Given.args, **kwargs: Given.kwargs) -> Made:
            assert not kwargs
            found = kept(*args)
            if isinstance(found, EngineDeclines):
                raise found
            return found

        return ask

    return decorate


@dataclass(frozen=True)
class PlannedNodes:
    """About the losses of a tilted step, their probabilities and ln M(c): for planning only."""

    losses: Floats
    weights: Floats
    log_moment: float


@dataclass(frozen=True, kw_only=True)
class TiltedNodes:
    """Losses and weights with 1 + sum_j weight_j (e^{z loss_j} - 1) near M(c + z) / e^log_moment.

    How far that can be off: `quadrature_rel_error` + `tail_rel_error` for exact losses and weights and the
    exact number that `log_moment` stands for, at every imaginary z up to the height the nodes were made for;
    `weight_rel_errors` for the rounding of each weight; `loss_abs_error`, the mean error of a loss, times the
    height; and `log_moment_abs_error`, which is better than that of the weights where M(c) is close to 1.
    """

    losses: Floats
    weights: Floats
    log_moment: float
    quadrature_rel_error: float
    tail_rel_error: float
    weight_rel_errors: Floats
    loss_abs_error: float
    log_moment_abs_error: float

    @property
    def missing_rel_error(self) -> float:
        """All that the nodes can miss."""
        return self.quadrature_rel_error + self.tail_rel_error

    @property
    def moment_rel_error(self) -> float:
        """How closely e^log_moment is M(c): what is missing, and rounding."""
        return (self.missing_rel_error + self.log_moment_abs_error) * (1 + ROOM)


@dataclass(frozen=True)
class StepLine:
    """m(t) = M(c + it) / e^log_moment of one step at heights 0, h, 2h, ..., and the nodes it was summed over.

    `abs_errors` is how far rounding can have moved each m. What its logarithm and its angle still lose is
    relative to themselves: LOG_ROUNDINGS.
    """

    nodes: TiltedNodes
    log_modulus: Floats
    angle: Floats
    abs_errors: Floats

    @cached_property
    def columns(self) -> Floats:
        """What k steps add k times, kept because a training loop asks for one more each time.

        ln|m|; arg m; |ln|m|| + |arg m|; ln of |m| and how far it can be off, together, from above, where
        |x^k - y^k| <= k |x - y| (|y| + |x - y|)^{k-1}; how far quadrature, tails and rounding can have moved
        m, over that. The logarithm loses 8 u of itself.
        """
        nodes = self.nodes
        # an exponential and three roundings
        largest = (np.exp(self.log_modulus) + nodes.missing_rel_error + self.abs_errors) * (1 + ROOM_UP)
        columns = np.empty((COLUMNS, len(largest)))
        columns[LOG_MODULUS], columns[ANGLE] = self.log_modulus, self.angle
        columns[SIZES] = np.abs(self.angle) + np.abs(self.log_modulus)
        columns[LOG_LARGEST] = np.log(largest)
        inverse = 1 / largest
        columns[REL_ERRORS] = (
            inverse * nodes.quadrature_rel_error,
            inverse * nodes.tail_rel_error,
            inverse * self.abs_errors,
        )
        return columns


COLUMNS = 7
LOG_MODULUS, ANGLE, SIZES, LOG_LARGEST = 0, 1, 2, 3
REL_ERRORS = slice(4, 7)
# log1p, log and arctan2 of a modulus and an angle, and 1 + real part, which turns m by u |angle| at most
LOG_ROUNDINGS = 9


class Transform(ABC):
    """The transform of one pair. Subclasses bring the quadrature; its answers are kept here."""

    bounds_by_nodes = True  # what bounds its modulus starts from nodes at that tilt

    def __init__(self) -> None:
        self.nodes = lru_cache(maxsize=16)(self._make_nodes)

    # The other caches are made when they are first asked: of many kinds of steps most need none, and making
    # them all would take a sixth of the time.

    @cached_property
    def modulus_bound(self) -> Callable[[float], Callable[[float], float]]:
        """c -> what bounds the modulus at tilt c."""
        return lru_cache(maxsize=16)(self._make_modulus_bound)

    @cached_property
    def modulus_from(self) -> Callable[[float, float], float]:
        """c, t -> a bound on |M(c + is)| / M(c) for every s >= t."""
        return lru_cache(maxsize=4 * KEPT_TILTS)(self._modulus_from)

    @cached_property
    def log_moment_above(self) -> Callable[[float], float]:
        """c -> a certified upper bound of ln M(c)."""
        return lru_cache(maxsize=KEPT_TILTS)(self._log_moment_above)

    @cached_property
    def cumulants(self) -> Callable[..., tuple[float, float, float]]:
        """c -> ln M(c) and its first two derivatives in c, for planning; `log_cap` as in `quick_nodes`."""
        return lru_cache(maxsize=4 * KEPT_TILTS)(self._cumulants)

    @cached_property
    def _kept_line(self) -> Callable[[float, float, int, float], StepLine]:
        return lru_cache(maxsize=KEPT_LINES)(self._make_line)

    @abstractmethod
    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        """Certified nodes at tilt c for |Im z| <= height, missing at most about `target` of M(c)."""

    @abstractmethod
    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> PlannedNodes:
        """Nodes for planning, without bounds; the largest losses, e^log_cap of all, may be left out."""

    @abstractmethod
    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:
        """t -> a bound on |M(c + is)| / M(c) for every s >= t, t > 0; it may exceed 1, or be infinite."""

    def _modulus_from(self, c: float, t: float) -> float:
        """A bound on |M(c + is)| / M(c) for every s >= t."""
        return self.modulus_bound(c)(t)

    def modulus_by(self, nodes: TiltedNodes, c: float, t: float) -> float:
        """The same as `modulus_from`, from nodes at tilt c that are there anyway, where that is quicker."""
        return self.modulus_from(c, t)

    def _log_moment_above(self, c: float) -> float:
        """A certified upper bound of ln M(c)."""
        nodes = self.nodes(c)
        return math.nextafter(nodes.log_moment + nodes.moment_rel_error, math.inf)

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
        columns = evaluate(nodes, spacing, count)
        for column in columns:
            column.setflags(write=False)  # shared by all who ask
        return StepLine(nodes, *columns)


@dataclass(frozen=True, kw_only=True)
class Missed:
    """What a quadrature misses of M(c + it), from logarithms of bounds.

    `log_quadrature` and `log_tails` are absolute, `quadrature_share` is relative to M(c) itself. `log_mass`
    bounds what the same nodes miss of the sum of all P-masses, which is 1 less `beyond`; it is None where
    that is unknown.
    """

    log_quadrature: float = -math.inf
    quadrature_share: float = 0.0
    log_tails: float = -math.inf
    log_mass: float | None = None
    beyond: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The losses, ln of the terms of M(c), and how far rounding can have moved each of both."""

    losses: Floats
    logs: Floats
    loss_abs_errors: Floats
    log_abs_errors: Floats


def plan(losses: Floats, log_terms: Floats, c: float, kept: float = LOG_KEPT_WEIGHT) -> PlannedNodes:
    """Nodes from the losses and ln of the terms of M(c), whose masses sum to 1."""
    top = float(log_terms.max())
    live = log_terms > top - kept
    weights, inner = np.exp(log_terms[live] - top), losses[live]
    total = float(weights.sum())
    log_moment = math.log(total) + top
    if c * float(np.abs(inner).max()) < 1:
        log_moment = math.log1p(float((weights * -np.expm1(-c * inner)).sum()) * math.exp(top))
    return PlannedNodes(inner, weights / total, log_moment)


def weigh(c: float, terms: Terms, missed: Missed, kept: float = LOG_KEPT_WEIGHT) -> TiltedNodes:
    """Certified nodes: the terms over their sum, and what can be wrong with them.

    e^log_moment stands for the sum of the terms. Where all losses are small, M(c) - 1 is tiny, and it stands
    for 1 - beyond + sum p (e^{c loss} - 1) instead, whose terms keep their relative accuracy: that is the
    same sum, up to what the nodes miss of the P-masses.
    """
    top = float(terms.logs.max())
    live = terms.logs > top - kept
    losses, exponents = terms.losses[live], terms.logs[live] - top
    powers = np.exp(exponents)
    total = math.fsum(powers.tolist())
    weights = powers / total
    # the difference to the largest is rounded, and so is its exponential
    errors = terms.log_abs_errors[live] + UNIT_ROUNDOFF * np.abs(exponents) + ELEMENTARY_REL_ERROR
    loss_errors = terms.loss_abs_errors[live]
    total_rel_error = (float(weights @ errors) + UNIT_ROUNDOFF) * (1 + ROOM)
    dropped = float(np.exp(terms.logs[~live] - top).sum()) / total
    near = missed.log_mass is not None and c * float(np.abs(terms.losses).max()) < 1
    if near:
        gains, tilts = -np.expm1(-c * losses), c * np.abs(losses)
        log_moment = math.log1p(math.fsum((powers * gains).tolist()) * math.exp(top) - missed.beyond)
        # of a gain: its weight, two functions, two products and the sum; its exponent moves it e-fold at most
        charges = (errors + 2 * ELEMENTARY_REL_ERROR + 4 * UNIT_ROUNDOFF) * np.abs(gains)
        charges += 3 * (c * loss_errors + UNIT_ROUNDOFF * tilts)
        log_moment_abs_error = float(weights @ charges) * (1 + 16 * total_rel_error + ROOM)
        log_moment_abs_error += 4 * UNIT_ROUNDOFF * missed.beyond  # one rounding, of what is above 1/2
        dropped *= 4  # its P-mass is at most e times as much
    else:
        log_moment = math.log(total) + top
        log_moment_abs_error = total_rel_error + ELEMENTARY_REL_ERROR * abs(math.log(total))
    log_moment_abs_error += (ELEMENTARY_REL_ERROR + UNIT_ROUNDOFF) * abs(log_moment)
    share = missed.quadrature_share + math.exp(missed.log_quadrature - log_moment)
    if near and missed.log_mass is not None:
        share += math.exp(missed.log_mass - log_moment)
    tails = dropped + math.exp(missed.log_tails - log_moment)
    largest = max(log_moment_abs_error, share + tails, total_rel_error, float(errors.max()))
    if not largest < LARGEST_ERROR:
        raise EngineDeclines("rounding drowns the moment")
    # to be relative to e^log_moment instead of M(c) or its rounded value, and for what is not of first order
    room = SECOND_ORDER
    return TiltedNodes(
        losses=losses,
        weights=weights,
        log_moment=log_moment,
        quadrature_rel_error=share * room,
        tail_rel_error=tails * room,
        weight_rel_errors=(errors + total_rel_error + UNIT_ROUNDOFF) * room,
        loss_abs_error=float(weights @ (loss_errors + UNIT_ROUNDOFF * np.abs(losses))) * room,
        log_moment_abs_error=log_moment_abs_error * room,
    )
