"""An epoch of shuffled batches of any size: theorem 3 of theorems/proofs/shuffles.md.

The weights of displaced records may depend on each other in any way. Each is sent to one of a few levels, and
a linear bound in the counts of levels needs only how often each is taken.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tightrope.engines.shuffles.contours import ROUGHLY, ROUNDED_UP
from tightrope.engines.shuffles.counts import CountsProblem
from tightrope.engines.shuffles.cuts import search_cut
from tightrope.engines.shuffles.walks import Walks, place_levels
from tightrope.engines.shuffles.weights import (
    find_cut,
    first_excess,
    spread_weight,
    weight_excess,
    weight_shortfall,
)
from tightrope.engines.shuffles.worst_difference import Atoms, WorstDifference
from tightrope.numerics.floats import Floats

LEAST_CUT = 1e-3  # how far the outer levels are from 1 at least: they must differ
LATTICE_STEP = 0.3  # in deviations of a ratio
STEP_POWER = 0.75  # of the order, times which it is wider
DEEP = 1e-8  # bounds that matter little: larger coefficients will do
LARGER_CUT = 2.0  # how many times a cut is made that fits no lattice
FEW_SLACKS = 2  # how many slacks are tried where there are other levels

# where levels lie between the outer two, which are 0 and 1, by their logarithms
Places = tuple[float, ...]


@dataclass(frozen=True)
class Work:
    """How hard to work for a bound.

    `slacks` are by how much coefficients are larger than those of a program, one after the other; `boxes` are
    how many are looked at with the first of them.
    """

    tried: tuple[Places, ...]
    slacks: tuple[float, ...]
    boxes: int


def bound_any_batches(
    batches: int, worst: WorstDifference, work: Work, *, guess: float, spare: float, known: float
) -> float:
    """An upper bound on H from the most promising levels, or what is known.

    Any guess of it will do; `spare` is what a spare place would give. If boxes do not tell, the first of
    the places that are tried are next, and then the last, which should be few.
    """
    drafts: dict[Places, LevelsDraft] = {}
    for places in work.tried:
        found = _draft(batches, worst, places, guess=guess, spare=spare, known=known)
        if found is not None:
            guess, drafts[places] = found
    best = sorted(drafts, key=lambda places: drafts[places].estimate)[:1]
    chosen = [places for places in dict.fromkeys([*best, work.tried[0], work.tried[-1]]) if places in drafts]
    slacks = work.slacks if guess > DEEP else work.slacks[-1:]
    for places in chosen:
        # other levels lose less than larger coefficients
        value = drafts[places].certify(slacks if places == chosen[-1] else slacks[:FEW_SLACKS], work.boxes)
        if value < math.inf:
            return min(value, known)
    return known


def estimate_any_batches(
    batches: int, worst: WorstDifference, work: Work, *, guess: float, spare: float
) -> float:
    """About what is certified with levels at the first places."""
    known = worst.positive_part
    found = _draft(batches, worst, work.tried[0], guess=guess, spare=spare, known=known)
    return known if found is None else found[0]


def _draft(
    batches: int,
    worst: WorstDifference,
    places: Places,
    *,
    guess: float,
    spare: float,
    known: float,
) -> tuple[float, "LevelsDraft"] | None:
    """Levels for which what is cut off is a small part of the bound, if they promise anything."""

    def attempt(allowed: float) -> tuple[float, LevelsDraft]:
        draft = LevelsDraft.of(batches, worst, places, allowed)
        return draft.estimate, draft

    return search_cut(attempt, guess=guess, spare=spare, known=known, larger=LARGER_CUT)


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
        spacing = LATTICE_STEP * self.worst.deviation * float(self.worst.order) ** STEP_POWER
        others = self.batches - 1
        levels = self.levels.tolist()
        laws = place_levels(self.atoms, levels, spacing)
        walks = Walks(laws, levels, spacing=spacing, count=others, precision=ROUGHLY)
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

    def certify(self, slacks: Sequence[float], boxes: int) -> float:
        """The bound on H with coefficients larger by one of these, infinite if it is not certified."""
        return self._add_cuts(self._problem.bound(self._shares, slacks, boxes))
