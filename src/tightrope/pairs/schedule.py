"""Which pair is played how often."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tightrope.numerics.floats import UNIT_ROUNDOFF, exact_log_ratio, log_complement
from tightrope.pairs.pair import Pair

LONGEST_POWER = 2000  # of a fraction with 53-bit parts: some milliseconds


@dataclass(frozen=True, init=False)
class Schedule:
    """Pairs with multiplicity; pairs that lose nothing are left out, equal ones merged.

    They are kept in an order of their own, so that runs that do the same steps get the same answer to the
    last bit.
    """

    parts: tuple[tuple[Pair, int], ...]

    def __init__(self, parts: Iterable[tuple[Pair, int]]) -> None:
        merged: dict[Pair, int] = {}
        for pair, times in parts:
            if times and not pair.is_trivial:
                merged[pair] = merged.get(pair, 0) + times
        ordered = (
            sorted(merged.items(), key=lambda part: part[0].sort_key) if len(merged) > 1 else merged.items()
        )
        object.__setattr__(self, "parts", tuple(ordered))

    def __iter__(self) -> Iterator[tuple[Pair, int]]:
        return iter(self.parts)

    def __bool__(self) -> bool:
        return bool(self.parts)

    @cached_property
    def steps(self) -> int:
        """How many pairs are played in all."""
        return sum(times for _, times in self.parts)

    @property
    def reverse(self) -> "Schedule":
        """Every pair reversed."""
        return Schedule((pair.reverse, times) for pair, times in self.parts)

    @cached_property
    def loss_range(self) -> tuple[float, float]:
        """The smallest and the largest total loss."""
        if not self.parts:
            return 0.0, 0.0
        ends = [(times * pair.loss_range[0], times * pair.loss_range[1]) for pair, times in self.parts]
        # math.fsum rounds once, however many parts there are; infinite ends need no rounding
        low, high = (math.fsum(x) if all(map(math.isfinite, x)) else sum(x) for x in zip(*ends, strict=True))
        return low, high

    @property
    def is_bounded(self) -> bool:
        """Whether the total loss has a finite largest value, taken with positive probability."""
        return all(pair.is_bounded for pair, _ in self.parts)

    @property
    def is_one_noisy_step(self) -> bool:
        """Whether this is a single step of additive noise."""
        return self.steps == 1 and not self.parts[0][0].is_finite

    @property
    def distinct_outcomes(self) -> float:
        """How many outcomes the run has, up to order; infinite where some step has a continuum."""
        total = 1.0
        for pair, times in self.parts:
            if not pair.is_finite:
                return math.inf
            total *= math.comb(times + len(pair.levels) - 1, times) if pair.levels else 1
        return total

    @cached_property
    def gaussian_square(self) -> float:
        """The sum of the squared separations of all unsampled Gaussian steps."""
        return sum((times * (pair.gaussian_separation or 0.0) ** 2 for pair, times in self.parts), 0.0)

    @property
    def gaussian_separation(self) -> float | None:
        """The separation of the one unsampled Gaussian step that all these amount to; None if they do not."""
        if not self.parts or any(pair.gaussian_separation is None for pair, _ in self.parts):
            return None
        return math.sqrt(self.gaussian_square)

    @cached_property
    def log_finite_mass(self) -> float:
        """ln of the probability that no loss is infinite: each step's is (1 - its infinite mass)."""
        return sum((times * pair.log_finite_mass for pair, times in self.parts), 0.0)

    @cached_property
    def exact_infinite_mass(self) -> Fraction | None:
        """The probability of an infinite loss, exactly; None where the fraction would be too long."""
        parts = [(1 - pair.infinite_mass, times) for pair, times in self.parts if pair.infinite_mass]
        if sum(times for _, times in parts) > LONGEST_POWER:
            return None
        return 1 - math.prod((finite**times for finite, times in parts), start=Fraction(1))

    @property
    def finite_loss_limit(self) -> float:
        """An upper bound on the largest finite total loss: from there on delta is the infinite mass.

        A loss is right to 4 units of roundoff u relative, its product with the count and the sum to one more
        each. The losses may differ in sign, so the charge is relative to their sizes.
        """
        terms = [times * pair.largest_finite_loss for pair, times in self.parts]
        return math.fsum((*terms, *(16 * UNIT_ROUNDOFF * abs(term) for term in terms)))

    @property
    def infinite_mass(self) -> float:
        """The probability of a loss that no finite epsilon covers, up to rounding."""
        return abs(math.expm1(self.log_finite_mass))

    @cached_property
    def log_infinite_mass(self) -> tuple[float, float]:
        """ln of a lower and an upper bound on the infinite mass; -inf twice where there is none.

        Every term of `log_finite_mass` has the same sign and is right to 4 units of roundoff u, so with n
        terms the sum is right to (5 + n) u relative. |d ln(1 - e^x) / d ln x| <= 1, and two more functions
        are rounded.
        """
        union = sum((times * pair.infinite_mass for pair, times in self.parts), Fraction(0))
        if union == 0:
            return -math.inf, -math.inf
        if self.log_finite_mass == -math.inf:
            return 0.0, 0.0
        # union (1 - union / 2) <= 1 - prod (1 - m)^k <= union: so small, the two agree, and floats may
        # underflow
        small = union < Fraction(1, 2**60)
        log_infinite = exact_log_ratio(union, Fraction(1)) if small else log_complement(self.log_finite_mass)
        error = UNIT_ROUNDOFF * (16 + 2 * len(self.parts)) * (1 + abs(log_infinite))
        return log_infinite - error, min(log_infinite + error, 0.0)
