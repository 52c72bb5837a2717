"""ABOVE: each cell is split onto the two nodes that enclose it."""

import numpy as np

from tightrope.engines.atoms import ABOVE, LossAtoms
from tightrope.engines.cells import Cells
from tightrope.numerics.tails import log_of_sum


def spread(cells: Cells) -> LossAtoms:
    """Atoms at the nodes with each cell's P- and Q-mass: a mean-preserving spread of the likelihood ratio, so it dominates.

    With merged loss m between nodes a < b, the share of the cell's P-mass at b is (1 - e^{a-m}) / (1 - e^{a-b}).
    Below the first node a = -inf and all P-mass sits at b; above the last b = +inf and the share becomes infinite loss.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.expm1(cells.low - cells.merged) / np.expm1(cells.low - cells.high)
    share = np.clip(
        share, 0, 1
    )  # rounding only: the merged loss lies between the nodes to within `blur`, which is charged
    with np.errstate(divide="ignore"):
        up, down = cells.log_masses + np.log(share), cells.log_masses + np.log1p(-share)
    finite_up, finite_down = (
        np.isfinite(cells.high) & (up > -np.inf),
        np.isfinite(cells.low) & (down > -np.inf),
    )
    infinite = log_of_sum(
        np.asarray(cells.log_infinite), np.logaddexp.reduce(up[np.isposinf(cells.high)], initial=-np.inf)
    )
    return LossAtoms(
        np.concatenate([cells.low[finite_down], cells.high[finite_up]]),
        np.concatenate([down[finite_down], up[finite_up]]),
        float(infinite),
        ABOVE,
    )
