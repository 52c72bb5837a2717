"""Sums of losses of one pair, drawn at random from P or, tilted, from the law p e^{c loss} / M(c), exactly.

Exactly means: the law is that one up to the rounding of doubles, not an approximation that improves with
effort. A law drawn by rejection gets its candidates from a law whose density times a constant is at least the
wanted one. Each is accepted with probability wanted / (constant * density); those accepted have the wanted
law, and no normaliser is needed.
"""

import math
from abc import ABC, abstractmethod
from functools import lru_cache, singledispatch

import numpy as np

from tightrope.engines.draws.mixtures import (
    LARGEST_LOG,
    Chooser,
    PowerMixture,
    sum_accepted,
    sum_log_products,
)
from tightrope.engines.transforms.make import kept_transform
from tightrope.numerics.floats import Floats
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.mixture import Mixture
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair

# No normal number of numpy is larger: its ziggurat's tail is 3.6542 + x with x^2 < 2 y, y = -ln(1 - U) for a
# U of 53 bits, so x < sqrt(2 * 53 ln 2) = 8.572
FAR = 12.3

MANY_LOSSES = 64  # of which multinomial counts take long


class LossSource(ABC):
    """A source of sums of losses of one tilted pair."""

    acceptance: float = 1.0  # about which share of the candidates is accepted
    prefers_integer_tilts: bool = False  # whether nothing is rejected at whole tilts only

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """`count` independent sums, each of `times` independent losses."""


@lru_cache(maxsize=256)
def tilted_source(pair: Pair, tilt: float) -> LossSource:
    """Draws from p e^{tilt loss} / M, losses finite; at tilt 0 from P itself, infinite losses included."""
    return _source(pair, tilt)


@singledispatch
def _source(pair: Pair, tilt: float) -> LossSource:
    """Each kind of pair registers its source here."""
    raise TypeError(f"nobody knows how to draw the losses of {pair!r}")


@_source.register
def _(pair: FinitePair, tilt: float) -> LossSource:
    return FiniteSource(pair, tilt)


@_source.register
def _(pair: Envelope, tilt: float) -> LossSource:
    return EnvelopeSource(pair, tilt)


@_source.register
def _(pair: ShiftPair, tilt: float) -> LossSource:
    if not pair.has_normal_noise:
        return LaplaceSource(pair, tilt)
    separation = pair.gaussian_separation
    return MixtureSource(pair, tilt) if separation is None else NormalSource(separation, tilt)


def estimate_log_moment(pair: Pair, tilt: float) -> float:
    """About ln M(tilt), to plan with. May raise EngineDeclines."""
    if pair.gaussian_separation is not None:
        return pair.gaussian_separation**2 * tilt * (1 + tilt) / 2
    return kept_transform(pair).cumulants(tilt)[0]


class NormalSource(LossSource):
    """Two single normals `separation` D apart: the loss is normal, N(D^2 (c + 1/2), D^2) at tilt c."""

    def __init__(self, separation: float, tilt: float) -> None:
        self.separation, self.tilt = separation, tilt

    def draw(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """A sum of normals is normal: one draw for all."""
        mean, scale = times * self.separation**2 * (self.tilt + 0.5), math.sqrt(times) * self.separation
        return mean + scale * rng.standard_normal(count)


class FiniteSource(LossSource):
    """Finitely many losses: how often each occurs is multinomial with the tilted masses."""

    def __init__(self, pair: FinitePair, tilt: float) -> None:
        losses, masses = list(pair.losses), [float(p) for p, _ in pair.levels]
        if tilt:
            exponents = np.log(masses) + tilt * np.array(losses)
            masses = list(np.exp(exponents - exponents.max()))
        elif pair.infinite_mass:
            losses.append(math.inf)
            masses.append(float(pair.infinite_mass))
        # likely losses last: the last share is what is left over, and there a relative error is smallest
        order = np.argsort(masses, kind="stable")
        self.losses, self.shares = np.array(losses)[order], np.array(masses)[order] / math.fsum(masses)

    def draw(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """Counts times losses; infinite as soon as one loss is."""
        if len(self.losses) > max(times, MANY_LOSSES):  # most counts would be 0
            return sum(map(self._choose, [rng] * times, [count] * times), np.zeros(count))
        counts = rng.multinomial(times, self.shares, size=count)
        finite = np.isfinite(self.losses)
        total = counts[:, finite] @ self.losses[finite]
        return total if finite.all() else np.where(counts[:, ~finite].any(axis=1), np.inf, total)

    def _choose(self, rng: np.random.Generator, count: int) -> Floats:
        """One loss each."""
        return self.losses[np.searchsorted(np.cumsum(self.shares)[:-1], rng.random(count), side="right")]


class MixtureSource(LossSource):
    """Mixtures of normals, P = (1-g) N(0) + g N(D) against Q = (1-h) N(0) + h N(-b); g or h may be 0.

    With R the densities relative to N(0), the tilted law is density R_P^{1+c} R_Q^{-c} / M. Candidates are a
    PowerMixture for density R_P^{1+c}, by the binomial theorem this law itself where c is whole, and N(0)
    where g = 0. As R_Q >= 1 - h, those that are right for R_P are accepted with probability ((1-h) / R_Q)^c
    <= 1; for h = 0 that is always.
    """

    def __init__(self, pair: ShiftPair, tilt: float) -> None:
        p, q = pair.observed, pair.alternative
        self.pair, self.tilt = pair, tilt
        self.up, self.down = p, q
        self.power = PowerMixture(p, 1.0 if p.is_plain else 1 + tilt)
        self.centres = Chooser(self.power.log_weights, self.power.centres)
        # how many ratios a double certainly holds the product of; 0 if not even one
        furthest = FAR + float(self.centres.values.max())
        sizes = [abs(law.shift) * furthest + _log_floor(law) for law in (p, q) if not law.is_plain]
        self.group = int(LARGEST_LOG / sum(sizes))
        self.prefers_integer_tilts = not p.is_pure
        self.rejects = bool(tilt and not q.is_plain) or self.power.share > 0
        if self.rejects:
            log_share = estimate_log_moment(pair, tilt) + tilt * q.log_rest
            log_share -= float(np.logaddexp.reduce(self.power.log_weights))
            self.acceptance = math.exp(min(log_share, 0.0))

    def draw(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """By products of ratios where nothing is rejected and nothing overflows, else loss by loss."""
        if self.rejects:
            return sum_accepted(lambda size: self._accept(rng, size), self.acceptance, count, times)
        if not self.group:
            return sum_accepted(lambda size: self.pair.loss(self._outputs(rng, size)), 1.0, count, times)
        return sum_log_products(lambda size: self._ratios(rng, size), self.group, count, times)

    def _outputs(self, rng: np.random.Generator, size: int) -> Floats:
        """Outputs of the candidates' law."""
        return self.centres.move(rng, rng.standard_normal(size))

    def _ratios(self, rng: np.random.Generator, size: int) -> Floats:
        """dP/dQ at outputs of the candidates' law."""
        u = self._outputs(rng, size)
        if self.down.is_plain:
            return _density_ratio(u, self.up)
        return np.asarray(
            (_density_ratio(u, self.up) if not self.up.is_plain else 1.0) / _density_ratio(u, self.down)
        )

    def _accept(self, rng: np.random.Generator, size: int) -> Floats:
        u = self._outputs(rng, size)
        losses, excess = np.zeros(size), np.zeros(size)
        if not self.down.is_plain:
            below = np.log(_density_ratio(u, self.down)) if self.group else self.pair.alternative.log_ratio(u)
            losses -= below
            excess += self.tilt * (below - self.down.log_rest)
        if not self.up.is_plain:
            above = np.log(_density_ratio(u, self.up)) if self.group else self.pair.observed.log_ratio(u)
            losses += above
            if self.power.share:
                excess += self.power.excess(above)
        # an exponential variable exceeds x with probability e^-x
        return np.compress(rng.standard_exponential(size) >= excess, losses)


class LaplaceSource(LossSource):
    """Laplace noise, one mixture against plain noise: the loss is at most its value L beyond both centres.

    Candidates come from P and are accepted with probability e^{c (loss - L)}, so at least P's mass at L of
    them.
    """

    def __init__(self, pair: ShiftPair, tilt: float) -> None:
        self.tilt, self.most = tilt, pair.loss_range[1]
        law = pair.alternative if pair.observed.is_plain else pair.observed
        self.law, self.shift, self.sign = law, abs(law.shift), 1 if law is pair.observed else -1
        self.moved_share = pair.observed.rate  # how often P's output is the moved noise
        self.group = int(LARGEST_LOG / (self.shift + _log_floor(law)))
        self.acceptance = 1.0
        if tilt:
            self.acceptance = math.exp(min(estimate_log_moment(pair, tilt) - tilt * self.most, 0.0))

    def draw(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """By products of ratios where nothing is rejected and nothing overflows, else loss by loss."""
        if self.tilt or not self.group:
            return sum_accepted(lambda size: self._accept(rng, size), self.acceptance, count, times)
        return self.sign * sum_log_products(lambda size: self._ratios(rng, size), self.group, count, times)

    def _exponents(self, rng: np.random.Generator, size: int) -> Floats:
        """t = |x| - |x - D| in [-D, D] for outputs x of P.

        Half of the plain noise lies below 0, where t = -D, and half of the moved noise beyond D, where t = D.
        The other halves have t = E and -E, E = min(2 v, 2 D) - D for an exponential v. (The sign of the
        mixture's shift is mirrored away.)
        """
        exponent = rng.standard_exponential(size)
        np.minimum(exponent, self.shift, out=exponent)
        place = rng.random(size)
        if self.moved_share:
            # in [0, 1] lie, in this order: moved and clipped, moved, plain, plain and clipped
            moved = place < self.moved_share
            clipped = np.abs(place - self.moved_share / 2 - 0.25) > 0.25
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

    def _ratios(self, rng: np.random.Generator, size: int) -> Floats:
        """1 - g + g e^t."""
        ratio = self._exponents(rng, size)
        np.exp(ratio, out=ratio)
        ratio *= self.law.rate
        ratio += self.law.rest
        return ratio

    def _accept(self, rng: np.random.Generator, size: int) -> Floats:
        if self.group:
            losses = self.sign * np.log(self._ratios(rng, size))
        else:
            exponents = self._exponents(rng, size)
            losses = self.sign * self.law.log_mixed(exponents)
        if not self.tilt:
            return losses
        return np.compress(rng.standard_exponential(size) >= self.tilt * (self.most - losses), losses)


class EnvelopeSource(LossSource):
    """An atom at loss 0; beyond the middle losses ln R(x) for outputs x of P, -ln R(x) for plain noise.

    Its tilted masses are the atom, density R^{1+c} (up) and density R^{-c} (down). Candidates come from these
    components, with these masses. A rejected one is drawn anew, component and all, so those accepted have the
    tilted law.

    Normal noise: up is the PowerMixture of the remove pair, its N(jD) accepted where x is beyond the middle;
    for j = 0 and for down, |N(0)| with half the mass. Laplace noise: R <= e^L, so up is e^{cL} times P's
    parts: plain noise beyond the middle, the moved noise's right half, where the loss is L, and its left
    half, accepted beyond the middle and with probability e^{c (loss - L)}. Down is the plain noise beyond the
    middle. Both accept it with probability R^{-c}.

    Where the noise is normal and c whole, at least a quarter is accepted: the atom, whole; half of each
    N(jD), j > 0; and the two halves of N(0) weigh at most 1 while M(c) >= 1.
    """

    def __init__(self, pair: Envelope, tilt: float) -> None:
        law = pair.remove.observed
        self.law, self.shift, self.middle, self.tilt = law, law.shift, pair.middle, tilt
        self.is_normal = pair.has_normal_noise
        self.most = pair.loss_range[1]
        if self.is_normal:
            self.power = PowerMixture(law, 1 + tilt)
            up, centres = self.power.log_weights.copy(), self.power.centres
            up[0] -= math.log(2)
            down, down_centre, down_direction = -math.log(2), 0.0, 0.0
            directions = np.where(centres > 0, 1.0, 0.0)  # 0: both halves of the noise are folded onto one
        else:
            down, down_centre, down_direction = -self.middle - math.log(2), self.middle, 1.0
            half = law.log_rate - math.log(2)
            parts = [law.log_rest + down, half, half]
            up = np.array(parts) + tilt * self.most
            centres, directions = np.array([self.middle, law.shift, law.shift]), np.array([1.0, 1.0, -1.0])
        self.signs = np.concatenate([[0.0, -1.0], np.ones(len(up))])
        self.centres = np.concatenate([[0.0, down_centre], centres])
        self.directions = np.concatenate([[0.0, down_direction], directions])
        self.chooser = Chooser(np.concatenate([[pair.log_atom, down], up]), self.centres)
        # from a few thousand candidates: it plans, it does not answer
        self.acceptance = max(len(self._accept(np.random.Generator(np.random.SFC64(0)), 4096)), 1) / 4096

    def draw(self, rng: np.random.Generator, count: int, times: int) -> Floats:
        """Loss by loss."""
        return sum_accepted(lambda size: self._accept(rng, size), self.acceptance, count, times)

    def _accept(self, rng: np.random.Generator, size: int) -> Floats:
        place = self.chooser.choose(rng, size)
        sign, centre, direction = self.signs[place], self.centres[place], self.directions[place]
        if self.is_normal:
            noise = rng.standard_normal(size)
            x = np.where(direction > 0, centre + noise, np.abs(noise))
            exponent = self.shift * (x - self.middle)
        else:
            x = centre + direction * rng.standard_exponential(size)
            exponent = np.minimum(2 * x - self.shift, self.shift)
        accepted = (exponent > 0) | (sign == 0)
        np.maximum(exponent, 0.0, out=exponent)
        log_ratio = exponent + np.log(self.law.rate + self.law.rest * np.exp(-exponent))
        if self.tilt:
            accepted &= rng.standard_exponential(size) >= self._excess(sign, log_ratio)
        return np.compress(accepted, sign * log_ratio)

    def _excess(self, sign: Floats, log_ratio: Floats) -> Floats:
        """-ln of the probability of accepting a candidate: R^-c for down, for up what the noise says."""
        if not self.is_normal:
            above = self.tilt * (self.most - log_ratio)
        else:
            above = self.power.excess(log_ratio) if self.power.share else np.zeros_like(log_ratio)
        return np.where(sign > 0, above, np.where(sign < 0, self.tilt * log_ratio, 0.0))


def _log_floor(law: Mixture) -> float:
    """-ln(1 - rate), how far ln of a ratio 1 - rate + rate e^t can fall; 0 where it has no floor."""
    return 0.0 if law.is_moved else -law.log_rest


def _density_ratio(u: Floats, law: Mixture) -> Floats:
    """1 - rate + rate e^{shift u - shift^2 / 2}."""
    moved = law.shift * u
    moved += law.log_rate - law.shift * law.shift / 2
    np.exp(moved, out=moved)
    moved += law.rest
    return moved
