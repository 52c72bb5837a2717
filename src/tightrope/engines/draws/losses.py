"""Sums of losses of one pair, drawn at random from P or, tilted, from the law p e^{c loss} / M(c), exactly.

Exactly means: the law is that one up to the rounding of doubles, not an approximation that gets better with effort. Where a
law is drawn by rejection, candidates come from a law whose density times a constant is at least the wanted one, and each is
kept with probability wanted / (constant * density); those that are kept have the wanted law, and no normaliser is needed.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import numpy as np

from tightrope.engines.contour.engine import kept_transform
from tightrope.engines.draws.envelope import EnvelopeDraws
from tightrope.engines.draws.mixtures import LARGEST_LOG, Chooser, PowerMixture, kept_sums
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.tails import Floats
from tightrope.pairs.distribution import Noise, log_mixed_ratio
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair

FAR = 12.0  # noise beyond this many scales never occurs: 1e-32


class Draws(Protocol):
    """A source of sums of losses of one tilted pair."""

    acceptance: float  # which share of the candidates is kept, at least about

    def sums(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """`count` independent sums, each of `times` independent losses."""


def is_fastest_whole(pair: Pair) -> bool:
    """Whether nothing is rejected at whole tilts only."""
    return isinstance(pair, ShiftPair) and pair.noise is Noise.NORMAL and 0 < pair.observed.rate < 1


@lru_cache(maxsize=256)
def tilted_draws(pair: Pair, tilt: float) -> Draws:
    """Draws from p e^{tilt loss} / M, losses finite; at tilt 0 from P itself, infinite losses included."""
    if isinstance(pair, FinitePair):
        return FiniteDraws(pair, tilt)
    if isinstance(pair, Envelope):
        return EnvelopeDraws(pair, tilt)
    assert isinstance(pair, ShiftPair)
    if pair.noise is Noise.LAPLACE:
        return LaplaceDraws(pair, tilt)
    return (
        ShiftDraws(pair.pure_separation, tilt)
        if pair.pure_separation is not None
        else NormalDraws(pair, tilt)
    )


def log_moment(pair: Pair, tilt: float) -> tuple[float, float]:
    """ln M(tilt) = ln E_P[e^{tilt loss}; loss finite] and a bound on its error. May raise EngineDeclines."""
    if pair.gaussian_separation is not None:
        value = pair.gaussian_separation**2 * tilt * (1 + tilt) / 2
        return value, 4 * UNIT_ROUNDOFF * value
    nodes = kept_transform(pair).nodes(tilt)
    return nodes.log_moment, 2 * (nodes.missing_rel_error + nodes.log_moment_abs_error)


class ShiftDraws:
    """Two single shifts of normal noise, `separation` D apart: the loss is normal, N(D^2 (c + 1/2), D^2) at tilt c."""

    acceptance = 1.0

    def __init__(self, separation: float, tilt: float) -> None:
        self.separation, self.tilt = separation, tilt

    def sums(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """A sum of normals is normal: one draw for all."""
        mean, scale = times * self.separation**2 * (self.tilt + 0.5), math.sqrt(times) * self.separation
        return mean + scale * rng.standard_normal(count)


class FiniteDraws:
    """Finitely many losses: how often each occurs is multinomial with the tilted masses."""

    acceptance = 1.0

    def __init__(self, pair: FinitePair, tilt: float) -> None:
        losses, masses = list(pair.losses), [float(p) for p, _ in pair.levels]
        if tilt:
            exponents = np.log(masses) + tilt * np.array(losses)
            masses = list(np.exp(exponents - exponents.max()))
        elif pair.infinite_mass:
            losses.append(math.inf)
            masses.append(float(pair.infinite_mass))
        # likely losses last: the last share is what is left over, and a relative error there is the smallest
        order = np.argsort(masses, kind="stable")
        self.losses, self.shares = np.array(losses)[order], np.array(masses)[order] / math.fsum(masses)

    def sums(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """Counts times losses; infinite as soon as one of them is."""
        counts = rng.multinomial(times, self.shares, size=count)
        finite = np.isfinite(self.losses)
        total = counts[:, finite] @ self.losses[finite]
        return total if finite.all() else np.where(counts[:, ~finite].any(axis=1), np.inf, total)


class NormalDraws:
    """Mixtures of normals, P = (1-g) N(0) + g N(D) against Q = (1-h) N(0) + h N(-b), either of g and h possibly 0.

    With R the densities relative to N(0), the tilted law is density R_P^{1+c} R_Q^{-c} / M. Candidates are a PowerMixture for
    density R_P^{1+c}, by the binomial theorem this law itself where c is whole, and N(0) where g = 0. As R_Q >= 1 - h, those
    that are right for R_P are kept with probability ((1-h) / R_Q)^c <= 1; for h = 0 that is always.
    """

    def __init__(self, pair: ShiftPair, tilt: float) -> None:
        p, q = pair.observed, pair.alternative
        self.pair, self.tilt = pair, tilt
        self.up, self.down = (p.rate, p.shift), (q.rate, q.shift)
        self.power = PowerMixture(p.rate, p.shift, 1 + tilt) if p.rate else PowerMixture(0.0, 0.0, 1.0)
        self.centres = Chooser(self.power.log_weights, self.power.centres)
        self.rejects = bool(tilt and q.rate) or self.power.share > 0
        # the product of as many ratios as a double certainly holds needs one logarithm
        furthest = FAR + float(self.centres.values.max())
        steps = [
            abs(shift) * furthest - (math.log1p(-rate) if rate < 1 else 0.0)
            for rate, shift in (self.up, self.down)
            if rate
        ]
        self.group = int(LARGEST_LOG / sum(steps))  # 0 where not even one ratio is sure to fit
        self.acceptance = 1.0
        if self.rejects:
            kept = (
                log_moment(pair, tilt)[0]
                + tilt * math.log1p(-q.rate)
                - float(np.logaddexp.reduce(self.power.log_weights))
            )
            self.acceptance = math.exp(min(kept, 0.0))

    def sums(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """By products of likelihood ratios where nothing is rejected and nothing overflows, else loss by loss."""
        if self.rejects:
            return kept_sums(lambda size: self._kept(rng, size), self.acceptance, count, times)
        if not self.group:
            return kept_sums(
                lambda size: self.pair.loss(self.centres.moved(rng, rng.standard_normal(size))),
                1.0,
                count,
                times,
            )
        return _sums_of_products(lambda size: self._ratio(rng, size), self.group, count, times)

    def _ratio(self, rng: np.random.Generator, size: int) -> Floats:
        """dP/dQ at outputs of the candidates' law."""
        u = self.centres.moved(rng, rng.standard_normal(size))
        if not self.down[0]:
            return _ratio(u, *self.up)
        return np.asarray((_ratio(u, *self.up) if self.up[0] else 1.0) / _ratio(u, *self.down))

    def _kept(self, rng: np.random.Generator, size: int) -> Floats:
        u = self.centres.moved(rng, rng.standard_normal(size))
        losses, excess = np.zeros(size), np.zeros(size)
        if self.down[0]:
            below = np.log(_ratio(u, *self.down)) if self.group else self.pair.alternative.log_ratio(u)
            losses -= below
            excess += self.tilt * (below - math.log1p(-self.down[0]))
        if self.up[0]:
            above = np.log(_ratio(u, *self.up)) if self.group else self.pair.observed.log_ratio(u)
            losses += above
            if self.power.share:
                excess += self.power.excess(above)
        # an exponential variable exceeds x with probability e^-x
        return np.compress(rng.standard_exponential(size) >= excess, losses)


class LaplaceDraws:
    """Laplace noise, one mixture against the plain noise: the loss is at most its value L beyond both centres.

    Candidates come from P and are kept with probability e^{c (loss - L)}, so at least P's mass at L of them.
    """

    def __init__(self, pair: ShiftPair, tilt: float) -> None:
        self.tilt, self.most = tilt, pair.loss_range[1]
        law = pair.observed if pair.observed.rate else pair.alternative
        self.rate, self.shift, self.sign = law.rate, abs(law.shift), 1 if pair.observed.rate else -1
        self.moved = pair.observed.rate  # how often P's output is the moved noise
        self.group = int(LARGEST_LOG / (self.shift - (math.log1p(-self.rate) if self.rate < 1 else 0.0)))
        self.acceptance = math.exp(min(log_moment(pair, tilt)[0] - tilt * self.most, 0.0)) if tilt else 1.0

    def sums(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """By products of likelihood ratios where nothing is rejected and nothing overflows, else loss by loss."""
        if self.tilt or not self.group:
            return kept_sums(lambda size: self._kept(rng, size), self.acceptance, count, times)
        return self.sign * _sums_of_products(lambda size: self._ratio(rng, size), self.group, count, times)

    def _exponents(self, rng: np.random.Generator, size: int) -> Floats:
        """t = |x| - |x - D| in [-D, D] for outputs x of P.

        Half of the plain noise lies below 0 and half of the moved noise beyond D, where t = -D and D; the other halves have
        t = E and -E, E = min(2 v, 2 D) - D for an exponential v. (The sign of the mixture's shift is mirrored away.)
        """
        exponent = rng.standard_exponential(size)
        np.minimum(exponent, self.shift, out=exponent)
        place = rng.random(size)
        if self.moved:
            # from 0: moved and clipped, moved, plain, plain and clipped
            moved = place < self.moved
            clipped = np.abs(place - self.moved / 2 - 0.25) > 0.25
            np.maximum(exponent, clipped * self.shift, out=exponent)
            # moved: D - 2v, at the clip D; plain: 2v - D, at the clip -D
            flip = 1.0 - 2.0 * (moved ^ clipped)
        else:
            clipped = place < 0.5
            np.maximum(exponent, clipped * self.shift, out=exponent)
            flip = 1.0 - 2.0 * clipped
        exponent *= 2
        exponent -= self.shift
        exponent *= flip
        return exponent

    def _ratio(self, rng: np.random.Generator, size: int) -> Floats:
        """1 - g + g e^t."""
        ratio = self._exponents(rng, size)
        np.exp(ratio, out=ratio)
        ratio *= self.rate
        ratio += 1 - self.rate
        return ratio

    def _kept(self, rng: np.random.Generator, size: int) -> Floats:
        if self.group:
            losses = self.sign * np.log(self._ratio(rng, size))
        else:
            exponents = self._exponents(rng, size)
            losses = self.sign * (log_mixed_ratio(self.rate, exponents) if self.rate < 1 else exponents)
        if not self.tilt:
            return losses
        return np.compress(rng.standard_exponential(size) >= self.tilt * (self.most - losses), losses)


def _ratio(u: Floats, rate: float, shift: float) -> Floats:
    """1 - rate + rate e^{shift u - shift^2 / 2}."""
    moved = shift * u
    moved += math.log(rate) - shift * shift / 2
    np.exp(moved, out=moved)
    moved += 1 - rate
    return moved


def _sums_of_products(ratios: Callable[[int], Floats], group: int, count: int, times: int) -> Floats:
    """`count` sums of the logarithms of `times` ratios, one logarithm per group of factors."""
    total = np.zeros(count)
    for done in range(0, times, group):
        product = ratios(count)
        for _ in range(min(group, times - done) - 1):
            product *= ratios(count)
        total += np.log(product)
    return total
