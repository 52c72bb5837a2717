"""One step as finitely many losses, erring to a known side: spread ABOVE the truth, or merged BELOW it."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from tightrope.engines.cells import Cells
from tightrope.numerics.floats import Floats, log_sum


class Side(Enum):
    """On which side of the truth a discretised step lies."""

    ABOVE = "above"
    BELOW = "below"


ABOVE, BELOW = Side.ABOVE, Side.BELOW


@dataclass(frozen=True)
class LossAtoms:
    """P-masses (as logarithms) at finite losses, the P-mass at loss +infinity, and the side of the truth.

    ABOVE: the atoms dominate the pair they were made from. BELOW: they are dominated by it. Where the masses
    sum to less than 1, the rest lies below every loss (ABOVE: where Q has mass and P none; BELOW: outcomes
    the test never uses).
    """

    losses: Floats
    log_masses: Floats
    log_infinite: float
    side: Side

    def delta(self, epsilon: float) -> float:
        """The divergence of the atoms themselves for one step; for tests and pictures.

        >>> coin = LossAtoms(np.log([0.5, 1.5]), np.log([0.25, 0.75]), -np.inf, ABOVE)
        >>> round(coin.delta(0.0), 12)
        0.25
        """
        gain = -np.expm1(epsilon - self.losses)
        return float(np.exp(self.log_masses) @ np.maximum(gain, 0)) + float(np.exp(self.log_infinite))


def spread(cells: Cells) -> LossAtoms:
    """ABOVE: each cell is split onto the two nodes that enclose it, keeping its P- and its Q-mass.

    This is a mean-preserving spread of the likelihood ratio, so it dominates. With merged loss m between
    nodes a < b, the share of the cell's P-mass at b is (1 - e^{a-m}) / (1 - e^{a-b}). Below the first node a
    = -inf and all P-mass sits at b; above the last b = +inf and the share becomes infinite loss.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.expm1(cells.low - cells.merged) / np.expm1(cells.low - cells.high)
    share = np.clip(share, 0, 1)  # a merged loss leaves its cell by rounding only: see `loss_abs_errors`
    with np.errstate(divide="ignore"):
        up, down = cells.log_masses + np.log(share), cells.log_masses + np.log1p(-share)
    goes_up = np.isfinite(cells.high) & (up > -np.inf)
    goes_down = np.isfinite(cells.low) & (down > -np.inf)
    log_infinite = np.logaddexp(cells.log_infinite, log_sum(up[np.isposinf(cells.high)]))
    return LossAtoms(
        np.concatenate([cells.low[goes_down], cells.high[goes_up]]),
        np.concatenate([down[goes_down], up[goes_up]]),
        float(log_infinite),
        ABOVE,
    )


def merge(cells: Cells) -> LossAtoms:
    """BELOW: each inner cell becomes one atom at its merged loss.

    Merging outcomes is post-processing, so the atoms are dominated. The outcomes outside the nodes are left
    out, which only lowers the divergence of the rest.
    """
    inner = np.isfinite(cells.low) & np.isfinite(cells.high)
    return LossAtoms(cells.merged[inner], cells.log_masses[inner], cells.log_infinite, BELOW)
