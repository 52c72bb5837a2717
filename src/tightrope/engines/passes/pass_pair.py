"""One pass as a finite pair that dominates it, or that it dominates.

theorems/proofs/balls_in_bins.md proves both: (b) above, (c) below, (d) with fewer losses.
"""

import bisect
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tightrope.engines.face import ABOVE, BELOW, Side
from tightrope.engines.passes.cells import KEPT_PASSES, as_pair, collect, order_cells
from tightrope.engines.passes.chosen_labels import reach_chosen
from tightrope.engines.passes.exchanged_pair import bound_exchanged_pass
from tightrope.engines.passes.mesh import USUAL, Mesh
from tightrope.engines.passes.pass_laws import SumLaws, counts_small, sum_ratios
from tightrope.engines.passes.ratios import FiniteRatio, LaplaceRatio, NormalRatio, StepRatio
from tightrope.engines.passes.shared_batch import SharedRatio
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.group_pass import SharedBatch
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import ShiftPair

LOSS_SPACING = 0.006  # of the losses that are kept, in mean deviations of the loss of a pass
COARSER_MESH = 4  # times: for a batch that is shared, and for a pass that is told roughly
SPARSE_FROM = 8  # mean deviations: beyond, they are kept as sparsely as they are far away


@lru_cache(maxsize=KEPT_PASSES)
def bound_pass(pair: Allocation, side: Side, mesh: Mesh = USUAL) -> FinitePair:
    """A finite pair that dominates the pass, or that it dominates."""
    if pair.is_exchanged:
        return bound_exchanged_pass(pair, side)
    if pair.chosen > 1:
        assert side is BELOW  # from above it is split
        if pair.is_reversed:  # both directions are asked for, and made once
            return bound_pass(pair.reverse, side, mesh).reverse
        return reach_chosen(pair, _ratio_of(pair.step))
    # what blocks lose is far more than a coarser lattice does
    if pair.is_rough or isinstance(pair.step, SharedBatch):
        mesh = Mesh(mesh.fineness / COARSER_MESH)
    keeps_small = pair.is_reversed and counts_small(_ratio_of(pair.step), pair.released, mesh)
    laws = _sum_laws(pair.step, pair.released, keeps_small, mesh)
    atoms = _RatioAtoms(laws, pair, LOSS_SPACING / mesh.fineness)
    found = atoms.dominating() if side is ABOVE else atoms.dominated()
    return found.reverse if pair.is_reversed else found


@lru_cache(maxsize=KEPT_PASSES)
def _sum_laws(step: Pair, count: int, keeps_small: bool, mesh: Mesh) -> SumLaws:
    return sum_ratios(_ratio_of(step), count, mesh, keeps_small=keeps_small)


def _ratio_of(step: Pair) -> StepRatio:
    if isinstance(step, FinitePair):
        return FiniteRatio(step)
    if isinstance(step, SharedBatch):
        return SharedRatio(step)
    assert isinstance(step, ShiftPair)
    separation = step.observed.exact_shift - step.alternative.exact_shift
    return NormalRatio(separation) if step.has_normal_noise else LaplaceRatio(separation)


class _RatioAtoms:
    """Of dP/dQ = (unseen + sum) / batches: its laws under Q and P; places in steps, masses in 2^-bits."""

    def __init__(self, laws: SumLaws, of: Allocation, spacing: float) -> None:
        self.spacing = spacing  # of the losses that are kept, in mean deviations
        self.batches, self.unseen, self.bits = of.batches, of.batches - of.released, laws.plain.bits
        self.infinite = of.step.infinite_mass * Fraction(of.released, of.batches)  # of P
        self.plain, self.weighted = collect(laws.plain.atoms()), collect(laws.weighted[0].atoms())
        self.places = sorted(self.plain)
        # ratio = (place * step + unseen) / batches, in whole numbers: (place * up + unseen * down) / whole
        exponent = laws.plain.exponents[0]
        self.up, down = (1 << exponent, 1) if exponent >= 0 else (1, 1 << -exponent)
        self.more, self.whole = self.unseen * down, self.batches * down

    def parts(self, place: int) -> int:
        """dP/dQ at a place, of which `whole` make 1."""
        return place * self.up + self.more

    def dominating(self) -> FinitePair:
        """Each atom spread onto the kept ones next to it; what rounding took is put where it loses most."""
        kept = self._choose()
        masses, at = [0] * len(kept), 0
        for place in self.places:
            mass = self.plain[place]
            while at + 1 < len(kept) and kept[at + 1] <= place:
                at += 1
            if place == kept[at]:
                masses[at] += mass
            else:
                low, high = kept[at], kept[at + 1]
                masses[at] += mass * (high - place) // (high - low)
                masses[at + 1] += mass * (place - low) // (high - low)
        # no ratio is smaller than that of batches that are not seen
        missing, whole = (1 << self.bits) - sum(masses), self.whole << self.bits
        p = [missing * self.more, *(mass * self.parts(at) for mass, at in zip(masses, kept, strict=True))]
        return as_pair([*p, whole - sum(p)], whole, [missing, *masses, 0], 1 << self.bits)

    def dominated(self) -> FinitePair:
        """Atoms merged from each kept one on; what rounding took is put where it loses least."""
        edges = self._choose()
        p, q = [0] * len(edges), [0] * len(edges)
        for place, mass in self.plain.items():
            q[bisect.bisect_right(edges, place) - 1] += mass
        for place, mass in self.weighted.items():
            p[max(bisect.bisect_right(edges, place) - 1, 0)] += mass
        # P = (unseen Q + weighted) / batches, in units of 2^-bits / batches
        p = [self.unseen * one + other for one, other in zip(q, p, strict=True)]
        # what Q cannot produce is a cell of its own
        whole = self.batches << self.bits
        finite = math.ceil(whole * (1 - self.infinite))
        p, q = map(list, zip(*order_cells(p, q, finite, 1 << self.bits), strict=True))
        return as_pair([*p, whole - finite], whole, [*q, 0], 1 << self.bits)

    def _choose(self) -> list[int]:
        """Places, among them the first and the last, whose losses are about so many deviations apart."""
        ratios = np.array([self.parts(place) / self.whole for place in self.places])
        masses = np.array([self.plain[place] / (1 << self.bits) for place in self.places])
        losses = np.log(np.maximum(ratios, np.min(ratios[ratios > 0], initial=1.0) / 2))
        centre = float(losses @ masses)
        deviation = float(np.abs(losses - centre) @ masses)
        chosen, last = [self.places[0]], float(losses[0])
        for place, loss in zip(self.places[1:-1], losses[1:-1].tolist(), strict=True):
            if loss - last >= self.spacing * max(deviation, abs(loss - centre) / SPARSE_FROM):
                chosen.append(place)
                last = loss
        return chosen if len(self.places) == 1 else [*chosen, self.places[-1]]
