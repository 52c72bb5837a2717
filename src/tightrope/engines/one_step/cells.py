"""The output line cut at free nodes: what each cell holds, without subtracting nearly equal numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, singledispatch

import numpy as np
from numpy.typing import NDArray

from tightrope.engines.one_step.enclosures import (
    Cuts,
    Enclosed,
    compare_counted,
    compare_masses,
    cut_at,
    cut_counted_at,
    enclose_masses,
    lowered,
    raised,
)
from tightrope.numerics.floats import LOG_REL_ERROR, UNIT_ROUNDOFF, Floats, exact_log_ratio
from tightrope.pairs.counted import CountedPair
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair


@dataclass(frozen=True)
class Cells:
    """Disjoint cells of outputs, once from above and once from below; rounding is inside the bounds.

    ABOVE, an atom of P-mass e^log_masses_above at the loss losses_above (Q's mass is P's times e^-loss)
    dominates the merged cell, and dominates it still after every loss below `low` was raised to it; no loss
    of the cell exceeds `high`. BELOW, the atom of log_masses_below at losses_below is dominated by the merged
    cell; both are -inf where rounding leaves nothing certain. `low` is -inf for outputs below the first node,
    `high` is +inf above the last. `log_infinite` is ln of an upper bound on the mass at infinite loss.
    """

    log_masses_above: Floats
    losses_above: Floats
    log_masses_below: Floats
    losses_below: Floats
    low: Floats
    high: Floats
    log_infinite: float

    @staticmethod
    def of(log_masses: Enclosed, losses: Enclosed, low: Floats, high: Floats, log_infinite: float) -> "Cells":
        """Cells from bounds on ln P's mass and on the merged loss ln(P's / Q's).

        A cell's share in any divergence is its P-mass times a number that grows with its merged loss: more of
        either dominates, less of either is dominated.
        """
        is_certain = (log_masses.low > -np.inf) & (losses.low > -np.inf)
        log_masses_below = np.where(is_certain, log_masses.low, -np.inf)
        losses_below = np.where(is_certain, losses.low, -np.inf)
        return Cells(log_masses.high, losses.high, log_masses_below, losses_below, low, high, log_infinite)

    @property
    def log_masses(self) -> Floats:
        """ln of the P-masses, about."""
        return self.log_masses_below

    @property
    def merged(self) -> Floats:
        """The merged losses, to within `loss_abs_errors`."""
        return self.losses_below

    @property
    def loss_abs_errors(self) -> Floats:
        """How far apart the bounds of each merged loss are."""
        return self.losses_above - self.losses_below

    @property
    def certain(self) -> "Cells":
        """The cells of which something is certain from below."""
        return self.select(self.log_masses_below > -np.inf)

    def select(self, chosen: NDArray[np.bool_]) -> "Cells":
        """Some of the cells."""
        return Cells(
            self.log_masses_above[chosen],
            self.losses_above[chosen],
            self.log_masses_below[chosen],
            self.losses_below[chosen],
            self.low[chosen],
            self.high[chosen],
            self.log_infinite,
        )

    def average_rel_error(self, tilt: float) -> float:
        """About the average over tilted cells of what rounding does to them: to report, not to charge."""
        cells = self.certain
        if len(cells.low) == 0:
            return 0.0
        exponents = cells.log_masses + tilt * cells.merged
        weights = np.exp(exponents - exponents.max())
        errors = cells.log_masses_above - cells.log_masses_below + (1 + tilt) * cells.loss_abs_errors
        return float((weights * errors).sum() / weights.sum())


@singledispatch
def cut(pair: Pair, nodes: Floats) -> Cells:
    """The cells of `pair` between increasing losses `nodes`, and the two outside."""
    raise NotImplementedError(f"no cells for {type(pair).__name__}")


@cut.register
def _(pair: ShiftPair, nodes: Floats) -> Cells:
    def compare(points: Floats, abs_errors: Floats) -> tuple[Enclosed, Enclosed]:
        plain = enclose_masses(pair.noise, points, abs_errors)
        log_masses, ratio = compare_masses(pair.observed, plain, points, abs_errors)
        _, other_ratio = compare_masses(pair.alternative, plain, points, abs_errors)
        return log_masses, ratio.minus(other_ratio)

    return _between(cut_at(pair, nodes), nodes, compare)


@cut.register
def _(pair: CountedPair, nodes: Floats) -> Cells:
    return _between(cut_counted_at(pair, nodes), nodes, partial(compare_counted, pair))


def _between(
    cuts: Cuts, nodes: Floats, compare: Callable[[Floats, Floats], tuple[Enclosed, Enclosed]]
) -> Cells:
    """The cells between cuts; `compare` gives their P-masses and merged losses."""
    ends = np.concatenate([[-np.inf], cuts.outputs, [np.inf]])
    is_held = ends[:-1] < ends[1:]  # other cells are empty
    points = np.append(ends[:-1][is_held], np.inf)
    abs_errors = np.append(np.concatenate([[0.0], cuts.abs_errors])[is_held], 0.0)
    log_masses, losses = compare(points, abs_errors)
    low, high = np.concatenate([[-np.inf], nodes])[is_held], np.append(nodes, np.inf)[is_held]
    lifts = np.concatenate([[0.0], cuts.lifts])[is_held]
    # Raising losses to `low` raises the merged one by at most the lift; it lies above the cell's own losses.
    least = np.maximum(losses.low, lowered(low - lifts))
    losses = Enclosed(least, raised(losses.high + lifts))
    return Cells.of(log_masses, losses, low, high, -math.inf)


@cut.register
def _(pair: FinitePair, nodes: Floats) -> Cells:
    """Finite supports have nothing to merge: every level is its own cell."""
    losses = np.array(pair.losses)
    log_masses = np.array(pair.log_masses)
    enclosed = Enclosed.around(losses, LOG_REL_ERROR * np.abs(losses))
    low, high = enclosing_nodes(nodes, enclosed.low, enclosed.high)
    infinite = exact_log_ratio(pair.infinite_mass, Fraction(1)) if pair.infinite_mass else -math.inf
    if pair.infinite_mass:
        infinite += 2 * LOG_REL_ERROR * abs(infinite)
    return Cells.of(
        Enclosed.around(log_masses, LOG_REL_ERROR * np.abs(log_masses)), enclosed, low, high, infinite
    )


def enclosing_nodes(nodes: Floats, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """The last node at or below each `least`, and the first one above each `most`."""
    ends = np.concatenate([[-np.inf], nodes, [np.inf]])
    first, last = (np.searchsorted(nodes, losses, side="right") for losses in (least, most))
    return ends[first], ends[last + 1]


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
    middle = pair.middle
    log_noise = enclose_masses(
        pair.noise, np.array([-middle, middle]), np.full(2, 2 * UNIT_ROUNDOFF * middle)
    )
    log_rest = pair.remove.observed.log_rest
    weight = Enclosed.around(np.array([log_rest]), LOG_REL_ERROR * np.array([abs(log_rest)]))
    log_atom = log_noise.minus(Enclosed(-weight.high, -weight.low))
    return Cells(
        np.concatenate([below.log_masses_above, log_atom.high, above.log_masses_above]),
        np.concatenate([below.losses_above, [0.0], above.losses_above]),
        np.concatenate([below.log_masses_below, log_atom.low, above.log_masses_below]),
        np.concatenate([below.losses_below, [0.0], above.losses_below]),
        np.concatenate([below.low, [atom_low], above_low]),
        np.concatenate([below_high, [after], above.high]),
        -math.inf,
    )


@cut.register
def _(pair: LabelledPair, nodes: Floats) -> Cells:
    """The cells of every part, lighter by the weight of its label."""
    parts = []
    for log_weight, part in zip(pair.log_weights, pair.pairs, strict=True):
        cells, error = cut(part, nodes), LOG_REL_ERROR * abs(log_weight)
        parts.append(
            replace(
                cells,
                log_masses_above=raised(cells.log_masses_above + log_weight, error),
                log_masses_below=lowered(cells.log_masses_below + log_weight, error),
            )
        )
    return Cells(
        np.concatenate([cells.log_masses_above for cells in parts]),
        np.concatenate([cells.losses_above for cells in parts]),
        np.concatenate([cells.log_masses_below for cells in parts]),
        np.concatenate([cells.losses_below for cells in parts]),
        np.concatenate([cells.low for cells in parts]),
        np.concatenate([cells.high for cells in parts]),
        -math.inf,
    )
