"""One step as finitely many losses, erring to a known side: spread ABOVE the truth, or merged BELOW it."""

from dataclasses import dataclass

import numpy as np

from tightrope.engines.face import ABOVE, BELOW, Side
from tightrope.engines.one_step.cells import Cells
from tightrope.engines.one_step.enclosures import log_sum_above, raised
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats


@dataclass(frozen=True)
class LossAtoms:
    """P-masses (as logarithms) at finite losses, the P-mass at loss +infinity, and the side of the truth.

    ABOVE: the atoms dominate the pair they were made from. BELOW: they are dominated by it. Rounding is
    counted in the masses and losses. Where the masses sum to less than 1, the rest lies below every loss
    (ABOVE: where Q has mass and P none; BELOW: outcomes the test never uses).
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
    nodes a < b, the share of the cell's P-mass at b is (1 - e^{a-m}) / (1 - e^{a-b}), the share at a is
    e^{a-m} (1 - e^{m-b}) / (1 - e^{a-b}). Below the first node a = -inf and all P-mass sits at b; above the
    last b = +inf and the share becomes infinite loss.
    """
    low, high = cells.low, cells.high
    # the nodes bound the merged loss, too: no loss exceeds `high`, and those below `low` are raised to it
    merged = np.minimum(np.maximum(cells.losses_above, low), high)
    to_top = np.subtract(merged, high, where=merged < high, out=np.zeros_like(merged))
    with np.errstate(divide="ignore"):  # ln 0 = -inf: nothing goes to that node
        logs = [np.log(-np.expm1(gap)) for gap in (low - merged, to_top, low - high)]
    up = cells.log_masses_above + logs[0] - logs[2]
    down = cells.log_masses_above + np.where(np.isneginf(low), -np.inf, low - merged) + logs[1] - logs[2]
    # each ln(1 - e^-gap) is off by 9u and 8u of itself, each of three sums by one rounding, a - m by another
    sizes = 3 * np.abs(cells.log_masses_above) + 11 * np.abs(logs[2])
    up = raised(up, UNIT_ROUNDOFF * (20 + sizes + 11 * np.abs(logs[0])))
    steps = np.where(np.isfinite(low), np.abs(low - merged), 0.0)
    down = raised(down, UNIT_ROUNDOFF * (20 + sizes + 4 * steps + 11 * np.abs(logs[1])))
    goes_up = np.isfinite(high) & (up > -np.inf)
    goes_down = np.isfinite(low) & (down > -np.inf)
    log_infinite = log_sum_above(np.append(up[np.isposinf(high)], cells.log_infinite))
    return LossAtoms(
        np.concatenate([low[goes_down], high[goes_up]]),
        np.concatenate([down[goes_down], up[goes_up]]),
        log_infinite,
        ABOVE,
    )


def merge(cells: Cells) -> LossAtoms:
    """BELOW: each inner cell becomes one atom at its merged loss.

    Merging outcomes is post-processing, so the atoms are dominated. The outcomes outside the nodes are left
    out, which only lowers the divergence of the rest.
    """
    inner = cells.select(np.isfinite(cells.low) & np.isfinite(cells.high)).certain
    return LossAtoms(inner.losses_below, inner.log_masses_below, cells.log_infinite, BELOW)
