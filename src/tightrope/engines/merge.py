"""BELOW: each cell becomes one atom."""

import numpy as np

from tightrope.engines.atoms import BELOW, LossAtoms
from tightrope.engines.cells import Cells


def merge(cells: Cells) -> LossAtoms:
    """One atom per inner cell at its merged loss: merging outcomes is post-processing, so it is dominated.

    The outcomes outside the nodes are left out, which only lowers the divergence of the rest.
    """
    inner = np.isfinite(cells.low) & np.isfinite(cells.high)
    return LossAtoms(cells.merged[inner], cells.log_masses[inner], cells.log_infinite, BELOW)
