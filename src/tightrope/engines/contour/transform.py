"""M(z) = E_P[e^{z loss}; loss finite] of one step, as nodes whose error is bounded."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tightrope.numerics.tails import Floats


@dataclass(frozen=True)
class TiltedNodes:
    """Losses and weights with sum_j weight_j e^{z loss_j} near M(c + z)/M(c), and by how much that can be off.

    `cells` (the quadrature's step) and `tails` (what lies outside the nodes) bound the distance, relative to M(c), for
    every imaginary z up to the height the nodes were made for; `roundoff` is the relative accuracy of the weights, and
    `moment_roundoff` the absolute accuracy of `log_moment`, which is better where M(c) is close to 1.
    """

    losses: Floats
    weights: Floats
    log_moment: float
    cells: float
    tails: float
    roundoff: float
    moment_roundoff: float

    @property
    def missing(self) -> float:
        """All that the nodes can miss."""
        return self.cells + self.tails

    def cumulants(self) -> tuple[float, float, float]:
        """ln M(c) and its first two derivatives in c."""
        mean = float(self.weights @ self.losses)
        return self.log_moment, mean, float(self.weights @ (self.losses - mean) ** 2)


@dataclass(frozen=True)
class GainNodes:
    """Losses and ln P-masses with which M(c) - 1 is a sum of terms that are all positive (see moments.py).

    `shaky` bounds how far each loss, and the logarithm of its mass, can be off; `log_missed` is ln of what the nodes miss.
    """

    losses: Floats
    log_masses: Floats
    shaky: Floats
    log_missed: float


class Transform(Protocol):
    """The transform of one pair."""

    def nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        """Certified nodes at tilt c for |Im z| <= height, missing at most about `target` of M(c)."""

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> TiltedNodes:
        """Nodes for planning, without the bounds; large losses of probability e^log_cap in all may be left out."""

    def log_moment_above(self, c: float) -> float:
        """A certified upper bound of ln M(c)."""

    def gain_nodes(self, c: float, target: float) -> GainNodes:
        """Nodes for M(c) - 1 that miss about `target` of M(c), or less."""

    def modulus_bound(self, c: float) -> Callable[[float], float]:
        """t -> a bound on |M(c + is)| / M(c) for every s >= t, t > 0."""
