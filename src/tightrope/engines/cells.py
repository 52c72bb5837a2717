"""The output line cut at free nodes: what each cell holds, without subtracting nearly equal numbers."""

import math
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.tails import Floats
from tightrope.pairs.distribution import Mixture, log_mixed_ratio
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair


@dataclass(frozen=True)
class Cells:
    """Disjoint cells of outputs: ln P-mass, merged loss ln(P/Q), and nodes that enclose every loss inside.

    `low` is -inf for outputs below the first node, `high` is +inf above the last. `blur` bounds the rounding error of each
    merged loss.
    """

    log_masses: Floats
    merged: Floats
    low: Floats
    high: Floats
    log_infinite: float
    blur: Floats

    def where(self, chosen: NDArray[np.bool_]) -> "Cells":
        """Some of the cells."""
        return Cells(
            self.log_masses[chosen],
            self.merged[chosen],
            self.low[chosen],
            self.high[chosen],
            self.log_infinite,
            self.blur[chosen],
        )


@singledispatch
def cut(pair: Pair, nodes: Floats) -> Cells:
    """The cells of `pair` between increasing losses `nodes`, and the two outside."""
    raise TypeError(f"no cells are known for {pair!r}")


@cut.register
def _cut_envelope(pair: Envelope, nodes: Floats) -> Cells:
    """The add pair below loss 0, the remove pair above, and the atom between them; 0 is cut at even if it is no node."""
    below = _cut_line(pair.add, np.append(nodes[nodes < 0], 0.0))
    above = _cut_line(pair.remove, np.insert(nodes[nodes > 0], 0, 0.0))
    below, above = below.where(below.high <= 0), above.where(above.low >= 0)
    place = int(np.searchsorted(nodes, 0.0))
    least = float(nodes[place - 1]) if place else -math.inf  # the nodes around 0, which alone may carry mass
    is_node = place < len(nodes) and nodes[place] == 0
    following = place + 1 if is_node else place
    most = float(nodes[following]) if following < len(nodes) else math.inf
    # With 0 a node, all of the atom stays there when it is spread between 0 and the next node.
    atom = (0.0 if is_node else least), most
    return Cells(
        np.concatenate([below.log_masses, [pair.log_atom], above.log_masses]),
        np.concatenate([below.merged, [0.0], above.merged]),
        np.concatenate(
            [below.low, [atom[0]], above.low if is_node else np.where(above.low == 0, least, above.low)]
        ),
        np.concatenate(
            [below.high if is_node else np.where(below.high == 0, most, below.high), [atom[1]], above.high]
        ),
        -math.inf,
        np.concatenate([below.blur, [0.0], above.blur]),
    )


@cut.register
def _cut_line(pair: ShiftPair, nodes: Floats) -> Cells:
    x = pair.output_at(nodes)
    ends = np.concatenate([[-np.inf], x, [np.inf]])
    low, high = ends[:-1], ends[1:]
    plain = pair.noise.log_between(low, high)
    log_p, up_p = _against_plain(pair.observed, plain, low, high)
    _, up_q = _against_plain(pair.alternative, plain, low, high)
    held = log_p > -np.inf
    # A cell's mass is a difference of two tails: each tail is good to a few units of roundoff times its logarithm.
    with np.errstate(divide="ignore", invalid="ignore"):
        outer = pair.noise.log_upper(np.minimum(np.abs(low), np.abs(high)))
        noise = 8 * UNIT_ROUNDOFF * (4 + np.abs(outer)) * np.exp(np.minimum(outer - plain, 700))
    sensitivity = _sensitivity(pair.observed, up_p) + _sensitivity(pair.alternative, up_q)
    enclosing = np.concatenate([[-np.inf], nodes, [np.inf]])
    # The masses of a cell a few units in the last place wide are rounding; their ratio still lies between the cell's ends.
    merged = np.clip(up_p - up_q, enclosing[:-1], enclosing[1:])
    return Cells(
        log_p[held],
        merged[held],
        enclosing[:-1][held],
        enclosing[1:][held],
        -math.inf,
        (noise * sensitivity + 8 * UNIT_ROUNDOFF * np.abs(merged))[held],
    )


def _against_plain(law: Mixture, plain: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """ln of the law's cell masses, and ln of their ratio to the plain noise's."""
    if law.rate == 0:
        return plain, np.zeros_like(plain)
    with np.errstate(invalid="ignore"):
        moved = law.noise.log_between(low - law.shift, high - law.shift)
        ratio = np.where(np.isneginf(plain), np.where(np.isneginf(moved), 0.0, np.inf), moved - plain)
    if law.rate == 1:
        return moved, ratio
    log_ratio = log_mixed_ratio(law.rate, ratio)
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(plain), math.log(law.rate) + moved, plain + log_ratio), log_ratio


def _sensitivity(law: Mixture, log_ratio: Floats) -> Floats:
    """How strongly the log ratio of a mixture reacts to its shifted part: the shifted part's share of the density."""
    if law.is_pure:
        return np.full_like(log_ratio, law.rate)
    with np.errstate(over="ignore"):
        return np.clip(1 - (1 - law.rate) * np.exp(-log_ratio), 0, 1)


@cut.register
def _cut_levels(pair: FinitePair, nodes: Floats) -> Cells:
    """Finite supports have nothing to merge: every level is its own cell."""
    losses = np.array(pair.losses)
    masses = np.array([float(p) for p, _ in pair.levels])
    place = np.searchsorted(nodes, losses, side="right")
    enclosing = np.concatenate([[-np.inf], nodes, [np.inf]])
    infinite = math.log(float(pair.infinite_mass)) if pair.infinite_mass else -math.inf
    with np.errstate(divide="ignore"):
        log_masses = np.log(masses)
    return Cells(
        log_masses,
        losses,
        enclosing[place],
        enclosing[place + 1],
        infinite,
        4 * UNIT_ROUNDOFF * np.abs(losses),
    )
