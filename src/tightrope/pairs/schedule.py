"""Which pair is played how often."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from tightrope.numerics.floats import next_down, next_up
from tightrope.pairs.pair import Pair

if TYPE_CHECKING:
    from flint import arb

MOST_COUNTED = 10**200  # outcomes: floats hold no more than 10^308
COUNT_BITS = 4
FEW, FEW_BITS = 64, 2  # fewer steps need a lattice, which takes longest to place and serves more of them
WHATEVER_COUNTS = ("has_passes", "shares_no_output", "has_infinite_losses")  # properties of the pairs alone
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

    @cached_property
    def has_passes(self) -> bool:
        """Whether some pair is a pass, so that the curve is known only between two."""
        return any(pair.is_pass for pair, _ in self.parts)

    @cached_property
    def rounded(self) -> "Schedule":
        """About as long: counts rounded to a few bits, so that it is the same for many such schedules."""
        counts = [(pair, round_count(times)) for pair, times in self.parts]
        return self if counts == list(self.parts) else self.recount(times for _, times in counts)

    def recount(self, counts: Iterable[int]) -> "Schedule":
        """The same pairs, each played so often, at least once."""
        schedule = Schedule.__new__(Schedule)
        object.__setattr__(
            schedule,
            "parts",
            tuple((pair, times) for (pair, _), times in zip(self.parts, counts, strict=True)),
        )
        for name in WHATEVER_COUNTS:  # a training loop asks for them after every step
            schedule.__dict__[name] = getattr(self, name)
        return schedule

    @property
    def reverse(self) -> "Schedule":
        """Every pair reversed."""
        return Schedule((pair.reverse, times) for pair, times in self.parts)

    @cached_property
    def loss_ceiling(self) -> tuple[float, float]:
        """Certain bounds on the largest total loss, among runs that lose nothing infinite.

        Each step's bounds are certain, each product is rounded outwards, and math.fsum rounds once.
        """
        lows, highs = ([times * pair.loss_ceiling[end] for pair, times in self.parts] for end in (0, 1))
        if not any(highs):  # no loss is above 0, and nothing is rounded
            return 0.0, 0.0
        if math.inf in highs or -math.inf in highs:  # unbounded, or no finite loss at all
            return sum(highs), sum(highs)
        return next_down(math.fsum(map(next_down, lows))), next_up(math.fsum(map(next_up, highs)))

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
    def nears_its_ceiling(self) -> bool:
        """Whether every step has a largest loss that it only nears."""
        return all(pair.nears_its_ceiling for pair, _ in self.parts)

    @property
    def has_ever_rarer_losses(self) -> bool:
        """Whether some sampled step of normal noise has ever larger losses, ever more rarely."""
        return not self.shares_no_output and any(
            pair.has_normal_noise and pair.gaussian_separation is None and pair.loss_range[1] == math.inf
            for pair, _ in self.parts
        )

    @property
    def is_one_noisy_step(self) -> bool:
        """Whether this is a single step of additive noise."""
        return self.steps == 1 and not self.parts[0][0].is_finite

    @cached_property
    def distinct_outcomes(self) -> float:
        """How many outcomes the run has, up to order; infinite where some step has a continuum."""
        total = 1.0
        for pair, times in self.parts:
            if not pair.is_finite:
                return math.inf
            outcomes = math.comb(times + len(pair.levels) - 1, times) if pair.levels else 1
            total = total * outcomes if outcomes < MOST_COUNTED else math.inf
        return total

    @cached_property
    def gaussian_square(self) -> float:
        """The sum of the squared separations of all unsampled Gaussian steps, to the nearest float."""
        if all(pair.gaussian_separation is None for pair, _ in self.parts):
            return 0.0
        return float(self.exact_gaussian_square)

    @cached_property
    def exact_gaussian_square(self) -> Fraction:
        """The same, exactly."""
        separations = ((pair.exact_gaussian_separation, times) for pair, times in self.parts)
        return sum((times * apart**2 for apart, times in separations if apart), Fraction(0))

    @property
    def gaussian_separation(self) -> float | None:
        """The separation of the one unsampled Gaussian step that all these amount to; None if they do not."""
        if not self.parts or any(pair.gaussian_separation is None for pair, _ in self.parts):
            return None
        return math.sqrt(self.gaussian_square)

    @cached_property
    def shares_no_output(self) -> bool:
        """Whether in some step P and Q have no output in common, so that every loss is infinite."""
        return any(pair.infinite_mass == 1 for pair, _ in self.parts)

    @cached_property
    def has_infinite_losses(self) -> bool:
        """Whether some output of P cannot come from Q."""
        return any(pair.infinite_mass for pair, _ in self.parts)

    def compare_infinite_mass(self, delta: float) -> int:
        """-1, 0 or 1 as the probability of an infinite loss is certainly below, at or above delta < 1."""
        if self.shares_no_output:
            return 1
        finite, rest = [(1 - pair.infinite_mass, times) for pair, times in self.parts], 1 - Fraction(delta)
        if sum(times for mass, times in finite if mass < 1) <= LONGEST_POWER:
            left = math.prod((mass**times for mass, times in finite), start=Fraction(1))
            return (rest > left) - (rest < left)
        # longer fractions are compared by their logarithms, to as many digits as it takes
        from tightrope.numerics.balls import ball, enclose

        excess = enclose(lambda: ball(rest).log() - _log_product(finite))
        return 1 if excess > 0 else -1

    @cached_property
    def log_infinite_mass(self) -> tuple[float, float]:
        """ln of certain bounds on the probability of an infinite loss; -inf twice where there is none."""
        if not self.has_infinite_losses:
            return -math.inf, -math.inf
        if self.shares_no_output:
            return 0.0, 0.0
        from tightrope.numerics.balls import enclose, log_ends_of_ball  # loads flint

        finite = [(1 - pair.infinite_mass, times) for pair, times in self.parts if pair.infinite_mass]
        low, high = log_ends_of_ball(enclose(lambda: -_log_product(finite).expm1()))
        return low, min(high, 0.0)  # a probability is at most 1

    @property
    def infinite_mass(self) -> float:
        """About the probability of an infinite loss."""
        return math.exp(self.log_infinite_mass[0])


def round_count(times: int) -> int:
    """The nearest number of COUNT_BITS bits, or of FEW_BITS if it is small, and zeros behind them.

    >>> [round_count(n) for n in (3, 7, 17, 70, 1000)]
    [3, 8, 16, 72, 1024]
    """
    spare = max(times.bit_length() - (FEW_BITS if times < FEW else COUNT_BITS), 0)
    return (times + (1 << spare >> 1)) >> spare << spare


def _log_product(powers: list[tuple[Fraction, int]]) -> "arb":
    """ln of the product of powers, as a ball."""
    from tightrope.numerics.balls import ball  # loads flint

    return sum((times * ball(mass).log() for mass, times in powers), ball(0.0))
