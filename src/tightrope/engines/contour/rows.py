"""Runs of about the same length on one contour: bounds at an epsilon for each, to the last bit its own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tightrope.engines.contour.engine import ContourLine, LineKernel
from tightrope.engines.contour.line_sum import LineScale, turning_abs_error
from tightrope.engines.face import EngineDeclines
from tightrope.engines.many_crossings import Rows
from tightrope.engines.transforms.rooms import ROOM
from tightrope.numerics.floats import Floats


@dataclass(frozen=True)
class ContourRows:
    """Lines that differ only in how often their steps are taken, one a row."""

    kernel: LineKernel
    scales: list[LineScale]
    sizes: Floats
    angles: Floats
    sizes_by_height: Floats
    charges: Floats

    @classmethod
    def of(cls, lines: Sequence[ContourLine]) -> "ContourRows":
        """The rows, if all lines lie on one contour and no loss is infinite."""
        if any(line.kernel is not lines[0].kernel or line.log_infinite[1] > -np.inf for line in lines):
            raise EngineDeclines("lines on other contours, or with infinite losses, are no rows")
        sizes, angles, by_height, charges = map(np.array, zip(*(line.terms for line in lines), strict=True))
        return cls(lines[0].kernel, [line.scale for line in lines], sizes, angles, by_height, charges)

    def bound(self, rows: Rows, epsilons: Floats) -> tuple[Floats, Floats]:
        """Bounds on ln delta of these rows, at an epsilon each."""
        value = np.array(self.kernel.add_up(self.sizes[rows], self.angles[rows], epsilons))
        turned = turning_abs_error(epsilons, self.sizes_by_height[rows])
        charge = (self.charges[rows] + turned) * (1 + ROOM)
        return self._scale_of(rows).bound_all(epsilons, value, charge)

    def _scale_of(self, rows: Rows) -> LineScale:
        """What turns their sums into delta: moments depend on counts, so that they are arrays."""
        some = [self.scales[row] for row in rows]
        scale: LineScale = replace(
            some[0],
            log_moment=np.array([scale.log_moment for scale in some]),
            log_moment_abs_error=np.array([scale.log_moment_abs_error for scale in some]),
            log_moment_beyond=np.array([scale.log_moment_beyond for scale in some]),
        )
        return scale
