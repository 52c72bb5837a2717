"""The transform of a pass with normal noise in which a record is exchanged, by moments of its two ratios."""

import math
from contextlib import suppress

from flint import acb, arb

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.allocated import MOST_HEIGHT, AllocationTransform, MomentTable
from tightrope.engines.transforms.exchanged_moments import PATIENCE, PLANNING, tabulate_exchanged
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.engines.transforms.turned_moments import tabulate_turned
from tightrope.pairs.allocation import Allocation

LEAST_TILT, MOST_TILT = 0.05, 40.0  # beyond, lattices are long, or powers of ratios high
OCTAVES = 3  # tables for tilts between two powers of 2
SPARE, MORE = 3, 4  # by how much the power of the ratio is above the tilt, and one more for so many
CLOSEST = math.log(3e-8)  # of what tables may miss of a moment: a run adds up a thousand of them, about

# How far normals are from the middle, and how many batches: the curve at many points takes less time then.
LEAST_TURNED, LEAST_BATCHES = 2, 500
QUICK = 2.0  # seconds, about: moments of ratios that take longer are left to it
SOON = 3.0  # likewise: finite pairs do as well, if noise is more than the sensitivity
MOST_TURNED_HEIGHT = 400.0


def turns(pair: Allocation) -> bool:
    """Whether a pass has so little noise that its curve at many points tells more than moments of ratios."""
    separation = pair.step.exact_gaussian_separation
    is_little = separation is not None and separation >= LEAST_TURNED and pair.batches >= LEAST_BATCHES
    return pair.is_exchanged and is_little and pair.chosen == 1 and pair.released == pair.batches


class ExchangedTransform(AllocationTransform):
    """M(z) = E[A^{1 + z} B^-z], A and B the ratios of P and of Q to noise alone; M(z) = M(-1 - z)."""

    normal_part = 4

    def __init__(self, pair: Allocation) -> None:
        super().__init__(pair)
        self.pair = pair
        self.pair_law = PairLaw(self.law.separation, self.law.batches, self.law.seen)

    rough = -9.0

    @property
    def _is_turned(self) -> bool:
        """Whether noise is so little that ratios spread over many octaves."""
        return turns(self.pair)

    @property
    def most_height(self) -> float:
        """A curve at many points serves lines of any length."""
        return MOST_TURNED_HEIGHT if self._is_turned else MOST_HEIGHT

    def _moments(self, table: MomentTable, c: float, spacing: float, count: int) -> list[acb]:
        """M at c and at so many heights, at the working precision."""
        return table.moments(arb(c), [arb(spacing) * i for i in range(count + 1)])

    def _exponent(self, c: float) -> float:
        return c

    def _table(self, c: float, height: float, log_error: float) -> MomentTable:
        """The table that serves all tilts between two."""
        if not LEAST_TILT <= c <= MOST_TILT:
            raise EngineDeclines("a transform that moments do not tell")
        above = math.ceil(OCTAVES * math.log2(c) - 1e-9)
        tilts = min(2.0 ** ((above - 1) / OCTAVES), c), max(2.0 ** (above / OCTAVES), c)
        whole = math.ceil(tilts[1])
        power = whole + 1 + SPARE + whole // MORE
        height = 2.0 ** (math.ceil(8 * math.log2(height)) / 8) if height else 0.0
        log_error = max(log_error, CLOSEST)
        if not self._is_turned:
            patience = (SOON if self.law.separation < 1 else PATIENCE) if height else PLANNING
            return tabulate_exchanged(self.pair_law, power, tilts, height, log_error, patience)
        if not height:
            return tabulate_exchanged(self.pair_law, power, tilts, height, log_error, QUICK)
        with suppress(EngineDeclines):
            return tabulate_exchanged(self.pair_law, power, tilts, height, log_error, QUICK)
        with suppress(EngineDeclines):
            return tabulate_turned(self.pair_law, tilts, height, log_error)
        return tabulate_exchanged(self.pair_law, power, tilts, height, log_error, PATIENCE)
