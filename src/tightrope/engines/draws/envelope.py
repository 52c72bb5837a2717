"""Sums of losses of an envelope, drawn by rejection from its tilted law."""

import math

import numpy as np

from tightrope.engines.draws.mixtures import Chooser, PowerMixture, kept_sums
from tightrope.numerics.tails import Floats
from tightrope.pairs.distribution import Noise
from tightrope.pairs.shift_pair import Envelope


class EnvelopeDraws:
    """An atom at loss 0, and for outputs x beyond the middle the losses ln R(x) under P and -ln R(x) under the plain noise.

    Its tilted masses are the atom, density R^{1+c} (up) and density R^{-c} (down). Candidates come from these components,
    with these masses; one that is not kept is drawn anew, component and all, so what is kept has the tilted law.

    NORMAL: up is the PowerMixture of the remove pair, its N(jD) kept where x is beyond the middle; for j = 0 and for down,
    |N(0)| with half the mass. LAPLACE: R <= e^L, so up is e^{cL} times P's parts: plain noise beyond the middle, the moved
    noise's right half, where the loss is L, and its left half, kept beyond the middle and with probability e^{c (loss - L)}.
    Down is the plain noise beyond the middle. Both keep it with probability R^{-c}.

    Where the noise is normal and c whole, at least a quarter is kept: the atom, whole; half of each N(jD), j > 0; and the
    two halves of N(0) weigh at most 1 while M(c) >= 1.
    """

    def __init__(self, pair: Envelope, tilt: float) -> None:
        law = pair.remove.observed
        self.rate, self.shift, self.middle, self.tilt = law.rate, law.shift, pair.middle, tilt
        self.normal = pair.noise is Noise.NORMAL
        self.most = pair.loss_range[1]
        if self.normal:
            self.power = PowerMixture(law.rate, law.shift, 1 + tilt)
            up, centres = self.power.log_weights.copy(), self.power.centres
            up[0] -= math.log(2)
            down = -math.log(2)
            directions = np.where(centres > 0, 1.0, 0.0)  # 0: both halves of the noise are folded onto one
        else:
            beyond = -self.middle - math.log(2)
            parts = [math.log1p(-law.rate) + beyond, math.log(law.rate / 2), math.log(law.rate / 2)]
            up, down = np.array(parts) + tilt * self.most, beyond
            centres, directions = np.array([self.middle, law.shift, law.shift]), np.array([1.0, 1.0, -1.0])
        log_masses = np.concatenate([[pair.log_atom, down], up])
        self.signs = np.concatenate([[0.0, -1.0], np.ones(len(up))])
        self.centres = np.concatenate([[0.0, 0.0 if self.normal else self.middle], centres])
        self.directions = np.concatenate([[0.0, 0.0 if self.normal else 1.0], directions])
        self.chooser = Chooser(log_masses, self.centres)
        self.acceptance = self._share_kept()

    def sums(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """Loss by loss."""
        return kept_sums(lambda size: self._kept(rng, size), self.acceptance, count, times)

    def _share_kept(self) -> float:
        """About which share of the candidates is kept, from a few thousand of them: it plans, it does not answer."""
        rng = np.random.Generator(np.random.SFC64(0))
        return max(len(self._kept(rng, 4096)), 1) / 4096

    def _kept(self, rng: np.random.Generator, size: int) -> Floats:
        place = self.chooser.places(rng, size)
        sign, centre, direction = self.signs[place], self.centres[place], self.directions[place]
        if self.normal:
            noise = rng.standard_normal(size)
            x = np.where(direction > 0, centre + noise, np.abs(noise))
            exponent = self.shift * (x - self.middle)
        else:
            x = centre + direction * rng.standard_exponential(size)
            exponent = np.minimum(2 * x - self.shift, self.shift)
        kept = (exponent > 0) | (sign == 0)
        np.maximum(exponent, 0.0, out=exponent)
        log_ratio = exponent + np.log(self.rate + (1 - self.rate) * np.exp(-exponent))
        if self.tilt:
            kept &= rng.standard_exponential(size) >= self._excess(sign, log_ratio)
        return np.compress(kept, sign * log_ratio)

    def _excess(self, sign: Floats, log_ratio: Floats) -> Floats:
        """-ln of the probability with which a candidate is kept: R^c below the middle, above it what the noise says."""
        if not self.normal:
            above = self.tilt * (self.most - log_ratio)
        else:
            above = self.power.excess(log_ratio) if self.power.share else np.zeros_like(log_ratio)
        return np.where(sign > 0, above, np.where(sign < 0, self.tilt * log_ratio, 0.0))
