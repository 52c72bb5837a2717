"""One pass in which each record of a group takes one of the batches at random."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from tightrope.pairs.pair import Pair, PassPair
from tightrope.pairs.shift_pair import ShiftPair


@dataclass(frozen=True)
class SharedBatch(Pair):
    """Normal noise on a batch that holds one record of a group, or more: P moves it, Q does not.

    It moves by j + 1 shifts, in noise scales, with probability `weights[j]`. Weights that do not add up to 1
    leave out rare numbers of records, which Q is then taken to be unable to produce.
    """

    weights: tuple[Fraction, ...]
    exact_shift: Fraction

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""
        return "shared batch", self.weights, self.exact_shift

    @property
    def reverse(self) -> Pair:
        """Not asked: the pass that it is part of is reversed."""
        raise NotImplementedError

    @property
    def is_trivial(self) -> bool:
        """Never: noise that moves differs from noise that does not."""
        return False

    @property
    def loss_range(self) -> tuple[float, float]:
        """Not told."""
        return -math.inf, math.inf

    @property
    def total_variation(self) -> float:
        """At most this."""
        return 1.0

    @property
    def is_bounded(self) -> bool:
        """Never: normal noise takes no largest loss."""
        return False

    def log_masses_at_top(self, gap: float) -> tuple[float, float]:
        """There is no top."""
        raise ValueError("normal noise takes no largest loss")

    @property
    def has_normal_noise(self) -> bool:
        """It has."""
        return True

    @cached_property
    def counts(self) -> tuple[tuple[int, Fraction], ...]:
        """Each number of records with its probability."""
        return tuple((j, weight) for j, weight in enumerate(self.weights, start=1) if weight)


@dataclass(frozen=True)
class GroupPass(PassPair):
    """P moves each sum by as many shifts as records of the group are in its batch; Q moves none.

    Each of the `group` records is in one of `batches` batches, drawn uniformly and by itself; the first
    `released` are seen. The engines know it only from below; from above it is split
    (theorems/group_passes.py).
    """

    exact_shift: Fraction
    group: int
    batches: int
    released: int
    is_reversed: bool = False

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""
        return "group pass", self.exact_shift, self.group, self.batches, self.released, self.is_reversed

    @property
    def reverse(self) -> "GroupPass":
        """(Q, P)."""
        return replace(self, is_reversed=not self.is_reversed)

    @property
    def is_trivial(self) -> bool:
        """Whether P = Q, so that nothing is lost."""
        return not self.released

    @property
    def total_variation(self) -> float:
        """At most that of the batches being told, all records in one."""
        return ShiftPair.of_normals(self.furthest).total_variation

    @property
    def furthest(self) -> Fraction:
        """How far apart the sums are if all records are in one batch."""
        return self.group * self.exact_shift
