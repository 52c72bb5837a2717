"""A step on a sampled batch, known only through the moments of the step on the whole batch."""

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from tightrope.pairs.pair import Pair


class Amplification(Enum):
    """Which bound turns the moments of the unsampled step into those of the sampled one."""

    ANY_NOISE = "any noise"
    GAUSSIAN_NOISE = "Gaussian noise"

    def __repr__(self) -> str:
        return self.name


ANY_NOISE, GAUSSIAN_NOISE = Amplification.ANY_NOISE, Amplification.GAUSSIAN_NOISE


@dataclass(frozen=True)
class Amplified:
    """`base` is the worst exchange of a record in the batch, where it is with chance `exact_rate` < 1."""

    base: Pair
    exact_rate: Fraction
    by: Amplification

    @property
    def largest_finite_loss(self) -> float:
        """Infinite: the moments bound no loss."""
        return math.inf

    @property
    def unsampled_separation(self) -> float:
        """How far apart the normals of the unsampled step are; 0 without normal noise."""
        return self.base.unsampled_separation
