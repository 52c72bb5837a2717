"""One of several pairs, chosen by chance, where the output tells which."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tightrope.numerics.floats import ceil_fraction, exact_log_ratio, next_up
from tightrope.pairs.pair import Pair


@dataclass(frozen=True)
class LabelledPair(Pair):
    """With probability `weight` this `pair`, for each of the parts; P and Q show the same label of which.

    The label has one law under P and Q, so the loss is that of the pair it names, and every divergence is
    the weighted sum of those of the parts. The weights are positive and sum to 1; each part is a mixture of
    normal noise that is sampled.
    """

    parts: tuple[tuple[Fraction, Pair], ...]

    def __post_init__(self) -> None:
        if sum(weight for weight, _ in self.parts) != 1 or any(weight <= 0 for weight, _ in self.parts):
            raise ValueError("the weights of labels are positive and sum to 1")
        if not all(pair.has_normal_noise and pair.gaussian_separation is None for _, pair in self.parts):
            raise ValueError("a labelled pair needs sampled normal noise in each part")

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs that a label can name."""
        return tuple(pair for _, pair in self.parts)

    @cached_property
    def log_weights(self) -> tuple[float, ...]:
        """ln of the weights, to LOG_REL_ERROR."""
        return tuple(exact_log_ratio(weight, Fraction(1)) for weight, _ in self.parts)

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""
        return "labelled", *((weight, pair.sort_key) for weight, pair in self.parts)

    @property
    def reverse(self) -> "LabelledPair":
        """Every part reversed."""
        return LabelledPair(tuple((weight, pair.reverse) for weight, pair in self.parts))

    @property
    def is_trivial(self) -> bool:
        """Never: sampled noise that moves differs from noise that does not."""
        return False

    @property
    def one_step(self) -> "LabelledPair":
        """That of every part."""
        return LabelledPair(tuple((weight, pair.one_step) for weight, pair in self.parts))

    @property
    def loss_range(self) -> tuple[float, float]:
        """Infimum and supremum of the loss."""
        lows, highs = zip(*(pair.loss_range for pair in self.pairs), strict=True)
        return min(lows), max(highs)

    @property
    def loss_ceiling(self) -> tuple[float, float]:
        """Certain bounds on the largest of the parts' suprema."""
        lows, highs = zip(*(pair.loss_ceiling for pair in self.pairs), strict=True)
        return max(lows), max(highs)

    @cached_property
    def total_variation(self) -> float:
        """The weighted sum of the parts', rounded up."""
        each = (next_up(ceil_fraction(weight) * pair.total_variation) for weight, pair in self.parts)
        return min(next_up(math.fsum(each)), 1.0)

    @property
    def is_bounded(self) -> bool:
        """Never: normal noise has no largest loss that it takes."""
        return False

    def log_masses_at_top(self, gap: float) -> tuple[float, float]:
        """There is no top."""
        raise ValueError("normal noise takes no largest loss")

    def loss_quantile(self, log_mass: float) -> float:
        """The largest of the parts', each of which may leave out its share of the mass."""
        log_each = log_mass - math.log(len(self.parts))
        labels = zip(self.log_weights, self.pairs, strict=True)
        # a label rarer than that may be left out whole
        found = [pair.loss_quantile(log_each - log_w) for log_w, pair in labels if log_w > log_each]
        return max(found, default=0.0)

    @property
    def has_atom_at_zero(self) -> bool:
        """Whether some part has one."""
        return any(pair.has_atom_at_zero for pair in self.pairs)

    @property
    def has_normal_noise(self) -> bool:
        """That of every part is normal."""
        return True

    @property
    def unsampled_separation(self) -> float:
        """The largest of the parts'."""
        return max(pair.unsampled_separation for pair in self.pairs)
