"""An epoch of large shuffled batches: theorem 2 of theorems/proofs/shuffles.md.

What the first output tells about who was displaced is nearly the same for every batch, because a batch
averages over its records: one weight, and a little more or less of it.
"""

import math
from dataclasses import dataclass
from functools import cached_property

from tightrope.engines.shuffles.contours import ROUGHLY, ROUNDED_UP
from tightrope.engines.shuffles.walks import expect
from tightrope.engines.shuffles.weights import (
    find_cut,
    first_excess,
    list_levels,
    spread_weight,
    weight_excess,
)
from tightrope.engines.shuffles.worst_difference import Atoms, WorstDifference
from tightrope.pairs.shuffled_epoch import ShuffledEpoch

WEIGHT_LEVELS = 24  # levels of the common weight
TOUCH = 2.0  # variances of the weight, at which Bernstein's bound is touched: half or double tells less
RISK = 3e-3  # that more than half of the batches, and some, have the larger weight


def bound_large_batches(epoch: ShuffledEpoch, worst: WorstDifference, allowed: float) -> float:
    """An upper bound on H; each part that is cut off may cost about `allowed`."""
    more, others = epoch.records / epoch.batch, epoch.batches - 1
    half = others / 2 if epoch.last == epoch.batch else others / 2 + 1
    upper = math.ceil(half + math.sqrt(others * -math.log(RISK) / 2))
    return LargeBatches(
        epoch=epoch,
        worst=worst,
        atoms=worst.spread(allowed / 4),
        first=find_cut(lambda beta: first_excess(worst, beta) / more <= allowed),
        highest=1 + find_cut(lambda over: weight_excess(worst, 1 + over) * worst.positive_part <= allowed),
        certainty=max(math.log(2 * others * worst.positive_part / allowed), 1.0),
        variance=TOUCH * math.expm1(float(worst.separation) ** 2 / 4),
        half=half,
        upper=min(upper, others),
    ).value


@dataclass(frozen=True)
class LargeBatches:
    """Theorem 2 with one choice of its numbers."""

    epoch: ShuffledEpoch
    worst: WorstDifference
    atoms: Atoms
    first: float  # beta
    highest: float  # A
    certainty: float  # ell
    variance: float  # v
    half: float  # nu
    upper: int  # j

    @cached_property
    def _tangent(self) -> tuple[float, float]:
        """e_0 and e_1, rounded up: that much, and that many times the variance, is above the deviation."""
        b = self.epoch.batch
        r = self.highest * self.certainty / (3 * b)
        root = math.sqrt(r * r + 2 * self.variance * self.certainty / b)
        slope = self.certainty / (b * root)
        # No part is larger than r + root. With both raised by more than their roundings the line stays above
        # the tangent at v, as a variance is not negative.
        return r + root - slope * self.variance + (r + root) * (ROUNDED_UP - 1), slope * ROUNDED_UP

    def _apart(self, weight: float) -> float:
        """e(a), rounded up."""
        constant, slope = self._tangent
        return (constant + slope * (weight - 1) ** 2) * ROUNDED_UP

    @property
    def value(self) -> float:
        """The bound on H, rounded up."""
        epoch, worst, others = self.epoch, self.worst, self.epoch.batches - 1
        more = (epoch.records - epoch.batch) / epoch.batch  # M
        levels = list_levels(worst, self.highest, WEIGHT_LEVELS)
        shares = spread_weight(worst, levels)
        missed = 0.0 if self.upper == others else math.exp(-2 * (self.upper - self.half) ** 2 / others)
        total = besides = 0.0
        for level, share in zip(levels, shares, strict=True):
            value = self._psi(level, self.upper)
            if missed:
                value += missed * ROUNDED_UP * self._psi(level, others)
            total += share * value
            besides += share * (level + self._apart(level))
        sides = 1 if self.upper == others else 2
        bad = sides * others * math.exp(-self.certainty) * (self.first + more * worst.positive_part)
        cut = more * weight_excess(worst, self.highest) * worst.positive_part
        cut += first_excess(worst, self.first)
        beyond = others * besides * max(self.atoms.beyond, self.atoms.below) * (1 + missed)
        return (total + bad + cut + beyond) * epoch.batch / epoch.records * ROUNDED_UP

    def _psi(self, weight: float, upper: int) -> float:
        """E(beta - (order - 1) M a + (a + e) S + (a - e) S')_+, rounded up."""
        others, more = self.epoch.batches - 1, (self.epoch.records - self.epoch.batch) / self.epoch.batch
        excess, apart = float(self.worst.order - 1), self._apart(weight)
        high, low = weight + apart, weight - apart
        parts = [self.first, -excess * more * weight, excess * high * upper, excess * low * (others - upper)]
        # products have at most ten roundings, also where they cancel
        offset = math.fsum([*parts, *((ROUNDED_UP - 1) * abs(part) for part in parts)])
        if upper == others:
            return expect(self.atoms, (high,), (others,), offset, precision=ROUGHLY)
        return expect(self.atoms, (high, low), (upper, others - upper), offset, precision=ROUGHLY)
