"""One epoch of shuffled batches."""

from dataclasses import dataclass, replace
from fractions import Fraction

from tightrope.pairs.pair import PassPair

MOST_SHUFFLED = Fraction(2)  # of opposite records: beyond, differences spread further than the engines go


@dataclass(frozen=True)
class ShuffledEpoch(PassPair):
    """All records in a secret random order, cut into batches, of which the first `released` are seen.

    Normal noise, of which opposite records move a sum by `separation`. Every batch holds `batch` records, at
    least one; the last one may hold fewer, `last`, and `left_over` records are in none.

    With an exchanged record the engines know it from above only; `is_thorough` makes them work harder where
    batches are small. Without, it stands for the pairs that bound it.
    """

    separation: Fraction
    batches: int
    released: int
    batch: int = 1
    last: int = 1
    left_over: int = 0
    is_exchanged: bool = True
    is_reversed: bool = False
    is_thorough: bool = False

    @property
    def records(self) -> int:
        """How many there are."""
        return (self.batches - 1) * self.batch + self.last + self.left_over

    @property
    def has_spare_place(self) -> bool:
        """Whether some place of the order is in no batch that is seen."""
        return self.released < self.batches or self.left_over > 0

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""
        cut = self.batches, self.released, self.batch, self.last, self.left_over
        return "shuffled epoch", self.separation, *cut, self.is_exchanged, self.is_reversed, self.is_thorough

    @property
    def reverse(self) -> "ShuffledEpoch":
        """(Q, P); records are exchanged either way."""
        return self if self.is_exchanged else replace(self, is_reversed=not self.is_reversed)

    @property
    def quick(self) -> "ShuffledEpoch":
        """The same epoch, for engines that shall not work harder than usual."""
        return replace(self, is_thorough=False)

    def release(self, batches: int) -> "ShuffledEpoch":
        """The same epoch, of which only so many batches are seen."""
        return replace(self, released=batches)

    @property
    def is_trivial(self) -> bool:
        """Whether P = Q, so that nothing is lost."""
        return not self.released or not self.separation

    @property
    def total_variation(self) -> float:
        """Not told."""
        return 1.0
