"""Uncertified cumulants and ranges of one tilted step: where to look, never what to answer."""

import math
from functools import lru_cache

import numpy as np

from tightrope.loss.cells import cut
from tightrope.loss.normal_transform import NormalTransform
from tightrope.numerics.tails import Floats
from tightrope.pairs.distribution import Noise
from tightrope.pairs.pair import Pair, ShiftPair


class Outline:
    """ln E[e^{c loss}] of a pair and the losses that matter at tilt c, about."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.separation = pair.pure_separation if isinstance(pair, ShiftPair) and pair.noise is Noise.NORMAL else None
        normal = isinstance(pair, ShiftPair) and pair.noise is Noise.NORMAL
        self.transform = NormalTransform(pair) if normal and self.separation is None else None  # type: ignore[arg-type]
        self.tilted = lru_cache(maxsize=64)(self._tilted)

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """ln of the moment at c, and its first two derivatives in c."""
        if self.separation is not None:
            v = self.separation**2
            return v * c * (1 + c) / 2, v * (c + 0.5), v
        losses, weights, log_moment = self.tilted(c)
        mean = float(weights @ losses)
        return log_moment, mean, float(weights @ (losses - mean) ** 2)

    def _tilted(self, c: float) -> tuple[Floats, Floats, float]:
        """Losses in increasing order, their tilted probabilities, and ln of the moment."""
        if self.separation is not None:
            v = self.separation
            z = np.linspace(-9, 9, 400)
            weights = np.exp(-(z**2) / 2)
            return v * z + v * v * (c + 0.5), weights / weights.sum(), v * v * c * (1 + c) / 2
        if self.transform is not None:
            nodes = self.transform.quick_nodes(c)
            return nodes.losses, nodes.weights, nodes.log_moment
        losses, log_masses = self._bounded_atoms
        exponents = log_masses + c * losses
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        total = float(weights.sum())
        small = c * float(np.abs(losses).max()) < 1
        if small:
            return losses, weights / total, math.log1p(float(np.exp(log_masses) @ np.expm1(c * losses)))
        return losses, weights / total, top + math.log(total)

    @property
    def _bounded_atoms(self) -> tuple[Floats, Floats]:
        """Merged cells of a pair whose finite losses are bounded."""
        low, high = self.pair.loss_range
        if isinstance(self.pair, ShiftPair):
            cells = cut(self.pair, low + (high - low) * np.arange(1, 800) / 800)
            return cells.merged, cells.log_masses
        return np.array(self.pair.losses), np.log([float(p) for p, _ in self.pair.levels])

    def losses_that_matter(self, c: float, log_share: float, log_mass: float) -> tuple[float, float]:
        """An interval of losses outside of which at most e^log_share of the tilted mass and e^log_mass of P's upper tail lie."""
        low, high = self.pair.loss_range
        losses, weights, log_moment = self.tilted(c)
        share = math.exp(log_share)
        first = int(np.searchsorted(np.cumsum(weights), share))
        last = len(losses) - 1 - int(np.searchsorted(np.cumsum(weights[::-1]), share))
        least, most = float(losses[max(first - 1, 0)]), float(losses[min(last + 1, len(losses) - 1)])
        least = min(least, (log_share + log_moment) / c)  # all mass below is raised to this loss on the side ABOVE
        if isinstance(self.pair, ShiftPair) and self.pair.noise is Noise.NORMAL:
            x = _upper_quantile(self.pair, log_mass)
            most = max(most, float(self.pair.loss(np.array(x))))
            return max(least, low), min(most, high)
        return low, min(high, max(self.pair.losses) if not isinstance(self.pair, ShiftPair) else high)


def _upper_quantile(pair: ShiftPair, log_mass: float) -> float:
    """An output above which P has at most e^log_mass."""
    low, high = 0.0, pair.observed.shift + math.sqrt(2 * max(1.0, 2 - log_mass)) + 1
    for _ in range(60):
        middle = (low + high) / 2
        if float(pair.observed.log_upper(np.array(middle))) > log_mass:
            low = middle
        else:
            high = middle
    return high
