"""Two distributions on finitely many outputs, exactly, and the privacy loss between them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, cmp_to_key
from itertools import accumulate

import numpy as np

from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import (
    LOG_REL_ERROR,
    Floats,
    log_quotient,
    next_down,
    next_up,
    share_denominator,
    sum_fractions,
)
from tightrope.pairs.pair import Pair

LEAST_APART = Fraction(1, 2**1000)


@dataclass(frozen=True)
class FiniteSupport:
    """Exact probabilities of finitely many outputs."""

    masses: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        total = sum_fractions(self.masses)
        if total != 1:  # the nearest floats to a distribution rarely sum to exactly 1
            object.__setattr__(self, "masses", tuple(mass / total for mass in self.masses))

    @cached_property
    def _hash(self) -> int:
        return hash(tuple((mass.numerator, mass.denominator) for mass in self.masses))

    def __hash__(self) -> int:
        """Of the masses, once: a modular inverse for each is most of what a fraction's own hash takes."""
        return self._hash

    def mixed_with(self, other: "FiniteSupport", rate: Fraction) -> "FiniteSupport":
        """(1 - rate) self + rate other."""
        return FiniteSupport(
            tuple((1 - rate) * a + rate * b for a, b in zip(self.masses, other.masses, strict=True))
        )


@dataclass(frozen=True)
class FinitePair(Pair):
    """P = `observed`, Q = `alternative` on finitely many outputs, exactly."""

    observed: FiniteSupport
    alternative: FiniteSupport

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""
        return "finite", self.observed.masses, self.alternative.masses

    @property
    def reverse(self) -> "FinitePair":
        """(Q, P)."""
        return FinitePair(self.alternative, self.observed)

    @property
    def is_trivial(self) -> bool:
        """Whether P = Q, so that nothing is lost."""
        return self.observed == self.alternative

    @property
    def is_symmetric(self) -> bool:
        """Whether exchanging P and Q changes no divergence: the likelihood ratio's law is its own mirror."""
        p_parts, whole_p, q_parts, whole_q = self._parts
        outputs = [(p * whole_q, q * whole_p) for p, q in zip(p_parts, q_parts, strict=True) if p or q]
        return _merge(outputs) == _merge((q, p) for p, q in outputs)

    @property
    def envelope(self) -> "FinitePair":
        """The pointwise worst of this pair and its reverse; only where the unsampled laws mirror each other.

        >>> half, quarter = Fraction(1, 2), Fraction(1, 4)
        >>> coin = FinitePair(FiniteSupport((half, half)), FiniteSupport((3 * quarter, quarter)))
        >>> coin.envelope.observed.masses
        (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))
        """
        above = [(p, q) for p, q in self._outputs if p > q]
        rest = 1 - sum((p + q for p, q in above), Fraction(0))
        if rest < 0:
            raise ValueError("the declared pair does not mirror itself")
        masses = [*above, *((q, p) for p, q in above), (rest, rest)]
        return FinitePair(
            FiniteSupport(tuple(p for p, _ in masses)), FiniteSupport(tuple(q for _, q in masses))
        )

    @property
    def is_finite(self) -> bool:
        """A finite pair is, whatever its masses."""
        return True

    @cached_property
    def levels(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """(P, Q) masses of outputs with a finite loss, merged where it is equal, in increasing order."""
        _, whole_p, _, whole_q = self._parts
        return tuple((Fraction(p, whole_p), Fraction(q, whole_q)) for p, q in self._level_parts)

    @cached_property
    def losses(self) -> tuple[float, ...]:
        """ln(P/Q) of each level, to relative accuracy; refused where no normal float tells it from 0."""
        _, whole_p, _, whole_q = self._parts
        ratios = [(p * whole_q, q * whole_p) for p, q in self._level_parts]
        if any(0 < abs(p - q) * LEAST_APART.denominator < q for p, q in ratios):
            what = "an output's two probabilities agree to all but 1e-300 of themselves, which no float tells"
            raise NotPreciseEnough(what, "Make them equal, or tell them further apart.")
        return tuple(log_quotient(p, q) for p, q in ratios)

    @cached_property
    def log_masses(self) -> tuple[float, ...]:
        """ln P of each level, to LOG_REL_ERROR."""
        _, whole_p, _, _ = self._parts
        return tuple(log_quotient(p, whole_p) for p, _ in self._level_parts)

    @cached_property
    def infinite_mass(self) -> Fraction:
        """P-probability of outputs that Q cannot produce."""
        p_parts, whole_p, q_parts, _ = self._parts
        return Fraction(sum(p for p, q in zip(p_parts, q_parts, strict=True) if q == 0), whole_p)

    @cached_property
    def loss_range(self) -> tuple[float, float]:
        """Smallest and largest loss of positive P-probability."""
        high = math.inf if self.infinite_mass else self.losses[-1]
        return self.losses[0] if self.losses else math.inf, high

    @property
    def largest_finite_loss(self) -> float:
        """The loss of the last level."""
        return self.losses[-1] if self.losses else -math.inf

    @property
    def is_bounded(self) -> bool:
        """Whether Q can produce every output of P."""
        return not self.infinite_mass

    def log_masses_at_top(self, gap: float) -> tuple[float, float]:
        """ln P(loss = largest), rounded down, and ln P(loss > largest - gap), rounded up.

        The losses are right to LOG_REL_ERROR, and two differences are rounded: what may be near is near.
        """
        top, falling = self.losses[-1], self._falling_losses
        errors = 2 * LOG_REL_ERROR * (abs(top) + np.abs(falling) + gap)
        # losses fall, by more than their errors or to equal floats: those from the first far one on are far
        is_far = top - falling - gap > errors
        near = self._masses_from_top[int(np.argmax(is_far)) - 1 if is_far.any() else -1]
        return self.log_masses[-1] * (1 + 2 * LOG_REL_ERROR), near * (1 - 2 * LOG_REL_ERROR)

    @cached_property
    def _falling_losses(self) -> Floats:
        return np.array(self.losses[::-1])

    @cached_property
    def _masses_from_top(self) -> tuple[float, ...]:
        """ln P of the last level, of the last two, and so on; a search for epsilon asks for them often."""
        _, whole_p, _, _ = self._parts
        masses = accumulate(p for p, _ in reversed(self._level_parts))
        return tuple(log_quotient(mass, whole_p) for mass in masses)

    @property
    def loss_ceiling(self) -> tuple[float, float]:
        """Bounds on the loss of the last level."""
        top = self.largest_finite_loss
        if not top or not self.losses:  # the logarithm of 1 is exact
            return top, top
        error = 2 * LOG_REL_ERROR * abs(top)
        return next_down(top - error), next_up(top + error)

    @cached_property
    def total_variation(self) -> float:
        """The sum of what P has more than Q, rounded up."""
        p_parts, whole_p, q_parts, whole_q = self._parts
        outputs = zip(p_parts, q_parts, strict=True)
        more = sum(max(p * whole_q - q * whole_p, 0) for p, q in outputs)
        return next_up(more / (whole_p * whole_q))

    @cached_property
    def _parts(self) -> tuple[list[int], int, list[int], int]:
        """The masses of P in whole numbers, how many make 1, and likewise those of Q."""
        return *share_denominator(self.observed.masses), *share_denominator(self.alternative.masses)

    @cached_property
    def _level_parts(self) -> list[tuple[int, int]]:
        """The levels in these."""
        p_parts, _, q_parts, _ = self._parts
        return _merge((p, q) for p, q in zip(p_parts, q_parts, strict=True) if p > 0 and q > 0)

    @property
    def _outputs(self) -> tuple[tuple[Fraction, Fraction], ...]:
        return tuple(zip(self.observed.masses, self.alternative.masses, strict=True))


def _merge(outputs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The (P, Q) masses of each likelihood ratio, in increasing order of it; infinity where Q has none."""
    merged: list[tuple[int, int]] = []
    for p, q in sorted(outputs, key=cmp_to_key(_compare_ratios)):
        if merged and _compare_ratios(merged[-1], (p, q)) == 0:
            more_p, more_q = merged.pop()
            p, q = p + more_p, q + more_q
        merged.append((p, q))
    return merged


def _compare_ratios(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Negative, 0 or positive as P/Q of one is below, at or above that of the other."""
    return one[0] * other[1] - other[0] * one[1]
