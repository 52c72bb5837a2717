"""Laws of labels that the outputs of a batch carry: sums of any labels tell no more than the pass."""

from collections.abc import Sequence
from itertools import pairwise

from flint import arb, fmpz_poly

from tightrope.engines.passes.ladder import Ladder, Part
from tightrope.engines.passes.ratios import floor_mass

LABEL_BITS = 128  # masses are multiples of 2^-128, rounded down: what that takes is put where it tells least
RAREST_LABELLED = 1e-13  # of P: outputs beyond share one label


def law_of_labels(above: Sequence[arb], first: int) -> Ladder:
    """Consecutive labels from the `first` on, by the mass of each and all above it."""
    masses = [floor_mass(here - after, LABEL_BITS) for here, after in pairwise([*above, arb(0)])]
    return Ladder((0,), (Part(first, fmpz_poly(masses)).trim(),), LABEL_BITS)
