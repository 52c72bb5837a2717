"""The output line cut at free nodes: what each cell holds, without subtracting nearly equal numbers."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, exact_log_ratio
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.mixture import Mixture
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair


@dataclass(frozen=True)
class Cells:
    """Disjoint cells of outputs: ln P-mass, merged loss ln(P/Q), and nodes that enclose every loss inside.

    `low` is -inf for outputs below the first node, `high` is +inf above the last. Rounding moves each merged
    loss by at most `loss_abs_errors`.
    """

    log_masses: Floats
    merged: Floats
    low: Floats
    high: Floats
    log_infinite: float
    loss_abs_errors: Floats

    def select(self, chosen: NDArray[np.bool_]) -> "Cells":
        """Some of the cells."""
        arrays = self.log_masses, self.merged, self.low, self.high
        log_masses, merged, low, high = (array[chosen] for array in arrays)
        return Cells(log_masses, merged, low, high, self.log_infinite, self.loss_abs_errors[chosen])

    def average_rel_error(self, tilt: float) -> float:
        """The average over tilted cells of what rounding does to a mass and, through the tilt, to a loss."""
        if len(self.log_masses) == 0:
            return 0.0
        exponents = self.log_masses + tilt * self.merged
        weights = np.exp(exponents - exponents.max())
        mass_rel_errors = 8 * UNIT_ROUNDOFF * (8 + np.abs(self.log_masses))
        return float(weights @ (mass_rel_errors + (1 + tilt) * self.loss_abs_errors) / weights.sum())


@singledispatch
def cut(pair: Pair, nodes: Floats) -> Cells:
    """The cells of `pair` between increasing losses `nodes`, and the two outside."""
    raise NotImplementedError(f"no cells for {type(pair).__name__}")


@cut.register
def _(pair: ShiftPair, nodes: Floats) -> Cells:
    ends = np.concatenate([[-np.inf], pair.output_at(nodes), [np.inf]])
    low, high = ends[:-1], ends[1:]
    log_plain = pair.noise.log_between(low, high)
    log_p, ratio_p = _compare(pair.observed, log_plain, low, high)
    _, ratio_q = _compare(pair.alternative, log_plain, low, high)
    # A cell's mass is a difference of two tails: each tail is good to a few units of roundoff times its
    # logarithm.
    with np.errstate(divide="ignore", invalid="ignore"):
        outer = pair.noise.log_upper(np.minimum(np.abs(low), np.abs(high)))
        mass_rel_errors = 8 * UNIT_ROUNDOFF * (4 + np.abs(outer)) * np.exp(np.minimum(outer - log_plain, 700))
    sensitivity = _sensitivity(pair.observed, ratio_p) + _sensitivity(pair.alternative, ratio_q)
    enclosing = np.concatenate([[-np.inf], nodes, [np.inf]])
    # The masses of a cell a few units in the last place wide are rounding; their ratio still lies between its
    # ends.
    merged = np.clip(ratio_p - ratio_q, enclosing[:-1], enclosing[1:])
    loss_abs_errors = mass_rel_errors * sensitivity + 8 * UNIT_ROUNDOFF * np.abs(merged)
    cells = Cells(log_p, merged, enclosing[:-1], enclosing[1:], -math.inf, loss_abs_errors)
    return cells.select(log_p > -np.inf)


def _compare(law: Mixture, log_plain: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """ln of the law's cell masses, and ln of their ratio to the plain noise's."""
    if law.is_plain:
        return log_plain, np.zeros_like(log_plain)
    empty = np.isneginf(log_plain)
    with np.errstate(invalid="ignore"):
        log_moved = law.noise.log_between(low - law.shift, high - law.shift)
        ratio = np.where(empty, np.where(np.isneginf(log_moved), 0.0, np.inf), log_moved - log_plain)
        if law.is_moved:
            return log_moved, ratio
        log_ratio = law.log_mixed(ratio)
        return np.where(empty, law.log_rate + log_moved, log_plain + log_ratio), log_ratio


def _sensitivity(law: Mixture, log_ratio: Floats) -> Floats:
    """How strongly a mixture's log ratio reacts to its shifted part: that part's share of the density."""
    if law.is_pure:
        return np.full_like(log_ratio, law.rate)
    with np.errstate(over="ignore"):
        return np.clip(1 - law.rest * np.exp(-log_ratio), 0, 1)


@cut.register
def _(pair: FinitePair, nodes: Floats) -> Cells:
    """Finite supports have nothing to merge: every level is its own cell."""
    losses = np.array(pair.losses)
    log_masses = np.array([exact_log_ratio(p, Fraction(1)) for p, _ in pair.levels])
    place = np.searchsorted(nodes, losses, side="right")
    enclosing = np.concatenate([[-np.inf], nodes, [np.inf]])
    infinite = exact_log_ratio(pair.infinite_mass, Fraction(1)) if pair.infinite_mass else -math.inf
    loss_abs_errors = 4 * UNIT_ROUNDOFF * np.abs(losses)
    return Cells(log_masses, losses, enclosing[place], enclosing[place + 1], infinite, loss_abs_errors)


@cut.register
def _(pair: Envelope, nodes: Floats) -> Cells:
    """The add pair below loss 0, the remove pair above, and the atom between them.

    0 is cut at even where it is no node. The cells around it then keep the nodes that enclose them, which
    alone may carry mass; where 0 is a node, all of the atom stays there when it is spread.
    """
    below = cut(pair.add, np.append(nodes[nodes < 0], 0.0))
    above = cut(pair.remove, np.insert(nodes[nodes > 0], 0, 0.0))
    below, above = below.select(below.high <= 0), above.select(above.low >= 0)
    before = nodes[nodes < 0].max(initial=-np.inf)
    after = nodes[nodes > 0].min(initial=np.inf)
    if np.any(nodes == 0):
        atom_low, above_low, below_high = 0.0, above.low, below.high
    else:
        atom_low, above_low = before, np.where(above.low == 0, before, above.low)
        below_high = np.where(below.high == 0, after, below.high)
    return Cells(
        np.concatenate([below.log_masses, [pair.log_atom], above.log_masses]),
        np.concatenate([below.merged, [0.0], above.merged]),
        np.concatenate([below.low, [atom_low], above_low]),
        np.concatenate([below_high, [after], above.high]),
        -math.inf,
        np.concatenate([below.loss_abs_errors, [0.0], above.loss_abs_errors]),
    )
