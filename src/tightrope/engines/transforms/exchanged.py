"""The transform of a pass with normal noise in which a record is exchanged, by moments of its two ratios."""

import math
from collections.abc import Callable
from contextlib import suppress

from flint import acb, arb

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.allocated import MOST_HEIGHT, AllocationTransform, MomentTable
from tightrope.engines.transforms.curve_moments import tabulate_curve, tabulate_lines
from tightrope.engines.transforms.curve_sketch import sketch_curve
from tightrope.engines.transforms.exchanged_moments import tabulate_exchanged
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.pairs.allocation import Allocation

LEAST_PAIR_TILT, MOST_PAIR_TILT = 0.05, 40.0  # beyond, lattices are long, or powers of ratios high
OCTAVES = 3  # tables for tilts between two powers of 2
SPARE_POWER = 3  # by how much the power of the ratio is above the tilt
TILTS_PER_POWER = 4  # and by one more for so many of them
LOG_LEAST_ERROR = math.log(3e-8)  # that is asked of a moment: a run adds up a thousand of them, about

LOG_ROUGH_PAIR_ERROR = -7.0  # of a table to plan with: closer ones of two ratios take seconds
LEAST_CURVE_TILT = 1e-4
QUICK_SECONDS = 1.0  # about, of what is tried first
LINE_PATIENCE, PLAN_PATIENCE = 10.0, 4.0  # seconds, about, that tables may take: of a line, and for planning
MOST_CURVE_HEIGHT = 1000.0


def has_curve(pair: Allocation) -> bool:
    """Whether the curve of a pass at many points tells its moments: that of a whole pass does."""
    is_normal = pair.step.exact_gaussian_separation is not None
    return pair.is_exchanged and is_normal and pair.chosen == 1 and pair.released == pair.batches


class ExchangedTransform(AllocationTransform):
    """M(z) = E[A^{1 + z} B^-z], A and B the ratios of P and of Q to noise alone; M(z) = M(-1 - z)."""

    normal_part = 4
    log_rough_error = LOG_ROUGH_PAIR_ERROR

    def __init__(self, pair: Allocation) -> None:
        super().__init__(pair)
        self.pair = pair
        self.pair_law = PairLaw(self.law.separation, self.law.batches, self.law.seen)

    @property
    def most_height(self) -> float:
        """A curve at many points serves longer lines."""
        return MOST_CURVE_HEIGHT if has_curve(self.pair) else MOST_HEIGHT

    def _moments(self, table: MomentTable, c: float, spacing: float, count: int) -> list[acb]:
        """M at c and at so many heights, at the working precision."""
        return table.moments(arb(c), [arb(spacing) * i for i in range(count + 1)])

    def _exponent(self, c: float) -> float:
        return c

    def _cumulants(self, c: float, log_cap: float = -math.inf) -> tuple[float, float, float]:
        """By a sketch of the curve, where there is one: that serves all tilts."""
        sketch = None
        if has_curve(self.pair):
            with suppress(EngineDeclines):
                sketch = sketch_curve(self.pair_law)
        return super()._cumulants(c, log_cap) if sketch is None else sketch.cumulants(c)

    def _table(self, c: float, height: float, log_error: float) -> MomentTable:
        """The table that serves all tilts between two."""
        # the cheapest first; each declines when its patience ends, and the last refusal is the answer
        log_error = max(log_error, LOG_LEAST_ERROR)
        tables: list[Callable[[], MomentTable]] = []
        if has_curve(self.pair) and c >= LEAST_CURVE_TILT:
            tilts, high = (_share_tilts(c, OCTAVES), _share_height(height, 4)) if height else ((c, c), 0.0)
            law, patience = self.pair_law, LINE_PATIENCE if height else PLAN_PATIENCE
            tables += [
                lambda: tabulate_lines(law, tilts, high, log_error, QUICK_SECONDS),
                lambda: self._tabulate_ratios(c, height, log_error, min(QUICK_SECONDS, patience)),
                lambda: tabulate_curve(law, tilts, high, log_error, patience),
                # where moments explode, a table for fewer tilts is shorter
                lambda: tabulate_lines(law, (c, c), high, log_error, patience),
            ]
        tables.append(
            lambda: self._tabulate_ratios(c, height, log_error, LINE_PATIENCE if height else PLAN_PATIENCE)
        )
        for tabulate in tables[:-1]:
            with suppress(EngineDeclines):
                return tabulate()
        return tables[-1]()

    def _tabulate_ratios(self, c: float, height: float, log_error: float, patience: float) -> MomentTable:
        """By moments of ratios."""
        if not LEAST_PAIR_TILT <= c <= MOST_PAIR_TILT:
            raise EngineDeclines("a transform that moments of ratios do not tell")
        tilts, height = _share_tilts(c, OCTAVES), _share_height(height, 8)
        whole = math.ceil(tilts[1])
        power = whole + 1 + SPARE_POWER + whole // TILTS_PER_POWER
        return tabulate_exchanged(self.pair_law, power, tilts, height, log_error, patience)


def _share_tilts(c: float, octaves: int) -> tuple[float, float]:
    """Between which two tilts a table serves this one: there are so many for each factor of two."""
    above = math.ceil(octaves * math.log2(c) - 1e-9)
    return min(2.0 ** ((above - 1) / octaves), c), max(2.0 ** (above / octaves), c)


def _share_height(height: float, octaves: int) -> float:
    """That of a table which serves this one."""
    return 2.0 ** (math.ceil(octaves * math.log2(height)) / octaves) if height else 0.0
