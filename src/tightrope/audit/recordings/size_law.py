"""The law of the size of one Poisson batch, given the sum of all.

Each record joins each of B Poisson batches on its own. Given the sum S of all sizes, one size is therefore
hypergeometric: how many of the S hits among all n B chances fall to the n chances of its batch. The unknown
rate plays no part.
"""

import math
from dataclasses import dataclass

import numpy as np

from tightrope.audit.recordings.batches import Whole
from tightrope.numerics.floats import Floats

REACH = 12  # standard deviations on each side of the mean that the law is tabulated for


@dataclass(frozen=True, kw_only=True, eq=False)
class SizeLaw:
    """The law of one of `count` sizes of this sum: `chances[k]` is the probability of `least + k`."""

    records: int
    total: int
    count: int
    least: int
    chances: Floats

    def chance(self, size: int) -> float:
        """The probability of one size."""
        place = size - self.least
        return float(self.chances[place]) if 0 <= place < len(self.chances) else 0.0

    def expect_above(self, size: int) -> float:
        """How many batches should be larger."""
        return self.count * float(self.chances[max(size - self.least + 1, 0) :].sum())

    def expect_below(self, size: int) -> float:
        """How many batches should be smaller."""
        return self.count * float(self.chances[: max(size - self.least, 0)].sum())

    def place(self, sizes: Whole) -> Whole:
        """Where sizes lie in the table; those beyond an end of it count as that end."""
        return np.clip(sizes - self.least, 0, len(self.chances) - 1)


def find_size_law(sizes: Whole, records: int) -> SizeLaw:
    """The law of one of these sizes given their sum, by ratios of neighbours.

    P(x + 1) / P(x) = (S - x) (n - x) / ((x + 1) (n B - S - n + x + 1)).
    """
    n, count, total = records, len(sizes), int(sizes.sum())
    mean = total / count
    far = REACH * math.sqrt(mean * (1 - mean / n) + 1) + REACH
    least = max(0, total - n * (count - 1), math.floor(mean - far))
    most = min(n, total, math.ceil(mean + far))
    x = np.arange(least, most, dtype=float)
    misses = float(n * count - total - n)  # as one number: n B alone may be beyond 2^53
    steps = np.log((total - x) * (n - x)) - np.log((x + 1) * (misses + x + 1))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    chances = weights / weights.sum()
    return SizeLaw(records=n, total=total, count=count, least=least, chances=chances)
