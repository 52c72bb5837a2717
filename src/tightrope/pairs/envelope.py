"""The pointwise worst of a step and its reverse, as one pair: what an exchanged record of a fixed-size batch can lose."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tightrope.numerics.tails import Floats
from tightrope.pairs.distribution import FiniteSupport, Mixture, Noise
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.shift_pair import ShiftPair


@dataclass(frozen=True)
class Envelope:
    """The pair whose curve is that of `remove` = (mix, plain) where e^eps >= 1 and that of its reverse elsewhere.

    Its losses above 0 are those of `remove`, with their masses; those below 0 are the reverse's; all other mass is at 0.
    `remove` loses more than 0 exactly where the output is beyond the middle of its two centres, so by the symmetry of the
    noise the mass at 0 is 1 - P(loss > 0) - Q(loss > 0) = (1 - rate) P(|noise| < shift / 2): nothing cancels.
    """

    remove: ShiftPair

    def __post_init__(self) -> None:
        if not 0 < self.remove.observed.rate < 1 or self.remove.alternative != Mixture(self.remove.noise):
            raise ValueError("an envelope needs a genuine mixture against the plain noise")

    @property
    def add(self) -> ShiftPair:
        """The other direction, (plain, mix)."""
        return self.remove.reverse

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""
        return "envelope", *self.remove.sort_key

    @property
    def noise(self) -> Noise:
        """The noise of both directions."""
        return self.remove.noise

    @property
    def reverse(self) -> "Envelope":
        """Itself: exchanging P and Q exchanges the two directions."""
        return self

    @property
    def is_trivial(self) -> bool:
        """Never: a genuine mixture differs from the plain noise."""
        return False

    @property
    def middle(self) -> float:
        """The output of `remove` whose loss is 0."""
        return self.remove.observed.shift / 2

    @property
    def loss_range(self) -> tuple[float, float]:
        """Infimum and supremum of the loss."""
        high = self.remove.loss_range[1]
        return -high, high

    @cached_property
    def log_atom(self) -> float:
        """ln of the mass at loss 0, the same under P and Q."""
        ends = np.array([-self.middle]), np.array([self.middle])
        return float(np.log1p(-self.remove.observed.rate) + self.noise.log_between(*ends)[0])

    def loss(self, x: Floats) -> Floats:
        """The loss at output x of `remove` beyond the middle."""
        return self.remove.loss(x)


def finite_envelope(remove: FinitePair) -> FinitePair:
    """The envelope of a finite pair and its reverse, exactly; `remove` must come from a pair that mirrors itself.

    >>> coin = FinitePair(FiniteSupport((Fraction(1, 2), Fraction(1, 2))), FiniteSupport((Fraction(3, 4), Fraction(1, 4))))
    >>> finite_envelope(coin).observed.masses
    (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))
    """
    above = [(p, q) for p, q in zip(remove.observed.masses, remove.alternative.masses, strict=True) if p > q]
    rest = 1 - sum((p + q for p, q in above), Fraction(0))
    if rest < 0:
        raise ValueError("the declared pair does not mirror itself")
    masses = [*above, *((q, p) for p, q in above), (rest, rest)]
    return FinitePair(FiniteSupport(tuple(p for p, _ in masses)), FiniteSupport(tuple(q for _, q in masses)))
