"""One step as finitely many losses, erring to a known side."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from tightrope.numerics.tails import Floats


class Side(Enum):
    """On which side of the truth a discretised step lies."""

    ABOVE = "above"
    BELOW = "below"


ABOVE, BELOW = Side.ABOVE, Side.BELOW


@dataclass(frozen=True)
class LossAtoms:
    """P-masses (as logarithms) at finite losses, the P-mass at loss +infinity, and the side of the truth.

    ABOVE: the atoms dominate the pair they were made from. BELOW: they are dominated by it. Mass that sums to less than 1
    is missing below every loss (ABOVE: where Q has mass and P none; BELOW: outcomes the test never uses).
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
