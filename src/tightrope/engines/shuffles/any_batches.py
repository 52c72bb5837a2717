"""An epoch of shuffled batches of any size: theorem 3 of theorems/proofs/shuffles.md.

The weights of displaced records may depend on each other in any way. Each is sent to one of a few levels, and
a linear bound in the counts of levels needs only how often each is taken.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from tightrope.engines.face import EngineDeclines
from tightrope.engines.shuffles.counts import SLACKS, CountsProblem
from tightrope.engines.shuffles.walks import ROUGH, Walks
from tightrope.engines.shuffles.weights import (
    find_cut,
    first_excess,
    spread_weight,
    weight_excess,
    weight_shortfall,
)
from tightrope.engines.shuffles.worst_difference import Atoms, WorstDifference
from tightrope.numerics.floats import Floats

ROUNDED_UP = 1 + 2.0**-40  # more than a few products and sums of floats
LEAST_CUT = 1e-3  # how far the outer levels are from 1 at least: they must differ
FINE, COARSER = 0.3, 0.75  # the step of the lattice: deviations of a ratio, times that power of the order
CUT = 0.04  # of a bound, that each part which is cut off may cost
CLOSE, CLOSE_BELOW = 4, 1.5  # how far from what is found, above and below, a guess of it still serves
ROUNDS = 6
FROM_ABOVE = 100.0  # how much larger a guess is made that fits no lattice

# where levels lie between the outer two, which are 0 and 1, by their logarithms
Places = tuple[float, ...]


def bound_any_batches(
    batches: int, worst: WorstDifference, tried: Sequence[Places], guess: float, known: float
) -> float:
    """An upper bound on H from the most promising levels, or what is known; any guess of it will do.

    If boxes do not tell, the first of `tried` are next, and then the last, which should be few.
    """
    drafts: dict[Places, LevelsDraft] = {}
    for places in tried:
        found = _draft(batches, worst, places, guess, known)
        if found is not None:
            drafts[places] = found
            guess = found.estimate
    best = sorted(drafts, key=lambda places: drafts[places].estimate)[:1]
    chosen = [places for places in dict.fromkeys([*best, tried[0], tried[-1]]) if places in drafts]
    # other levels lose less than larger coefficients
    for slack, places in product(SLACKS, chosen):
        value = drafts[places].certify(slack)
        if value < math.inf:
            return min(value, known)
    return known


def _draft(
    batches: int, worst: WorstDifference, places: Places, guess: float, known: float
) -> "LevelsDraft | None":
    """Levels for which what is cut off is a small part of the bound, if they promise less than known."""
    best: LevelsDraft | None = None
    for _ in range(ROUNDS):
        try:
            draft = LevelsDraft.of(batches, worst, places, CUT * min(guess, known))
            estimate = draft.estimate
        except (EngineDeclines, ArithmeticError):
            if guess >= known:
                break
            guess *= FROM_ABOVE
            continue
        if estimate < (known if best is None else best.estimate):
            best = draft
        if guess / CLOSE_BELOW < estimate < guess * CLOSE or estimate >= known:
            break
        guess = estimate if estimate > guess else estimate / 2
    return best


@dataclass(frozen=True)
class LevelsDraft:
    """Theorem 3 with one choice of its numbers, of which the coefficients are still to be certified."""

    batches: int
    worst: WorstDifference
    atoms: Atoms
    first: float  # beta
    levels: Floats

    @classmethod
    def of(cls, batches: int, worst: WorstDifference, places: Places, allowed: float) -> "LevelsDraft":
        """Each part that is cut off may cost about `allowed`."""
        above, below = worst.positive_part, worst.negative_part
        over = find_cut(lambda over: weight_excess(worst, 1 + over) * above <= allowed)
        under = find_cut(lambda under: weight_shortfall(worst, 1 / (1 + under)) * below <= allowed)
        low, high = -math.log1p(max(under, LEAST_CUT)), math.log1p(max(over, LEAST_CUT))
        return cls(
            batches=batches,
            worst=worst,
            atoms=worst.spread(allowed / 4),
            first=find_cut(lambda beta: first_excess(worst, beta) <= allowed * batches),
            levels=np.exp(low + (high - low) * np.array(places)),
        )

    @cached_property
    def _problem(self) -> CountsProblem:
        spacing, others = FINE * self.worst.deviation * float(self.worst.order) ** COARSER, self.batches - 1
        walks = Walks(self.atoms, self.levels.tolist(), spacing=spacing, count=others, precision=ROUGH)
        growth = (float(self.worst.order - 1) + self.atoms.beyond) * ROUNDED_UP
        return CountsProblem(walks, math.ceil(self.first / spacing * ROUNDED_UP), growth)

    @cached_property
    def _shares(self) -> Floats:
        return spread_weight(self.worst, self.levels.tolist())

    def _add_cuts(self, found: float) -> float:
        worst, others = self.worst, self.batches - 1
        cut = weight_excess(worst, float(self.levels[-1])) * worst.positive_part
        cut += weight_shortfall(worst, float(self.levels[0])) * worst.negative_part
        cut += self.atoms.beyond * float(self._shares @ self.levels)
        return (found + others * cut + first_excess(worst, self.first)) / self.batches * ROUNDED_UP

    @cached_property
    def estimate(self) -> float:
        """What the bound would be if the first coefficients were enough."""
        return self._add_cuts(self._problem.estimate(self._shares))

    def certify(self, slack: float) -> float:
        """The bound on H with coefficients so much larger, infinite if it is not certified."""
        return self._add_cuts(self._problem.bound(self._shares, (slack,)))
