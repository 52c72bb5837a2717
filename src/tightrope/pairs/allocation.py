"""One pass in which the record takes one of several batches at random; the first of them are released."""

from dataclasses import dataclass, replace
from fractions import Fraction

from tightrope.pairs.mixture import Mixture
from tightrope.pairs.pair import Pair, PassPair
from tightrope.pairs.shift_pair import ShiftPair

# how far the engines go
MOST_SEPARATION = Fraction(5)  # of normals, in noise scales: beyond, ratios spread over too many lattices
MOST_EXCHANGED = Fraction(7, 2)  # of the two normals of an exchanged record from the middle: likewise
MOST_LOSS = Fraction(30)  # of other noise: likewise


@dataclass(frozen=True)
class Allocation(PassPair):
    """P is a mixture over the record's batch; each output is that of `step` where the record is, else Q's.

    `step` is (P, Q) of one step on a batch that holds the record; `batches` is how many there are in a pass,
    and the first `released` of them are seen. The engines know it only between two finite pairs, one that
    dominates it and one that it dominates.

    A record that takes several batches (`chosen`) is known only from below: this is what it reaches.

    If the record is exchanged for its opposite, Q is the mirror image: where the record is, the noise is
    moved the other way. `step` moves it one way only.

    Where it `is_rough` a coarse finite pair will do: what it is compared with is far away.
    """

    step: Pair
    batches: int
    released: int
    is_reversed: bool = False
    is_exchanged: bool = False
    chosen: int = 1
    is_rough: bool = False

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""
        which = self.is_reversed, self.is_exchanged, self.chosen, self.is_rough
        return "allocation", self.step.sort_key, self.batches, self.released, *which

    @property
    def reverse(self) -> "Allocation":
        """(Q, P)."""
        return self if self.is_exchanged else replace(self, is_reversed=not self.is_reversed)

    def release(self, batches: int) -> "Allocation":
        """The same pass, of which only so many batches are seen."""
        return replace(self, released=batches)

    def soften(self, separation: Fraction) -> "Allocation":
        """With more noise: what the outputs tell once noise is added to them."""
        assert isinstance(self.step, ShiftPair)
        noise = self.step.noise
        moved = Mixture(noise, Fraction(1), min(self.step.observed.exact_shift, separation))
        return replace(self, step=ShiftPair(moved, Mixture(noise)))

    @property
    def is_trivial(self) -> bool:
        """Whether P = Q, so that nothing is lost."""
        return self.step.is_trivial or not self.released

    @property
    def total_variation(self) -> float:
        """At most that of one step, since the batch that holds the record could be told."""
        return 1.0 if self.is_exchanged else self.step.total_variation
