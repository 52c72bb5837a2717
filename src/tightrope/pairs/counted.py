"""Normal noise around a number of equal shifts that is drawn: how many of a group of records take part."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tightrope.numerics.floats import (
    LOG_REL_ERROR,
    UNIT_ROUNDOFF,
    Floats,
    ceil_fraction,
    exact_log_ratio,
    next_down,
    next_up,
)
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR
from tightrope.pairs.pair import Pair

NEAR = 30.0  # a logarithm of a ratio up to which the ratio less 1 is summed
FIRST_ORDER = 1 + 2.0**-20  # room for what is not of first order in an error
MOST_DOUBLINGS = 200  # of an interval of outputs that must hold a root
HALVINGS = 60  # of it: as many as a float has digits


class MixedLogs(NamedTuple):
    """ln of a mixture's density over the plain noise's, how far it can be off, and each count's share."""

    value: Floats
    abs_error: Floats
    shares: Floats


@dataclass(frozen=True)
class CountMixture:
    """Normal noise around j shifts, j = 0, 1, ..., d with probability `exact_weights[j]`, in noise scales.

    The count is a sum of independent yes-or-no draws, binomial or hypergeometric: then its density over the
    plain noise's, R(u) = sum_j w_j e^{j a u - j^2 a^2 / 2}, is a product of d factors 1 + e^{a u - r_i}, up
    to a constant (proofs/groups.md), and bounds for one factor hold for R.
    """

    exact_weights: tuple[Fraction, ...]
    exact_shift: Fraction

    def __post_init__(self) -> None:
        if sum(self.exact_weights) != 1 or min(self.exact_weights) <= 0:
            raise ValueError("the weights of counts are positive and sum to 1")

    @property
    def most(self) -> int:
        """The largest count, d."""
        return len(self.exact_weights) - 1

    @cached_property
    def shift(self) -> float:
        """How far one count moves the noise."""
        return float(self.exact_shift)

    @property
    def reach(self) -> float:
        """How far the largest count moves it."""
        return float(self.most * self.exact_shift)

    @property
    def is_plain(self) -> bool:
        """Whether this is the noise at 0."""
        return not self.most

    @property
    def mirrored(self) -> "CountMixture":
        """The same law reflected at 0."""
        return CountMixture(self.exact_weights, -self.exact_shift)

    @cached_property
    def log_weights(self) -> Floats:
        """ln of the weights, to LOG_REL_ERROR."""
        return np.array([exact_log_ratio(weight, Fraction(1)) for weight in self.exact_weights])

    @cached_property
    def _weights(self) -> Floats:
        return np.array([float(weight) for weight in self.exact_weights])[1:, None]

    @cached_property
    def shifts(self) -> Floats:
        """Where the noise is centred for each count above 0, right to a unit roundoff."""
        return np.array([float(j * self.exact_shift) for j in range(1, self.most + 1)])[:, None]

    def exponents(self, u: Floats) -> Floats:
        """ln of the noise moved by each count above 0 over the plain noise, one row for each.

        Each is off by at most u (3 |x| + shift^2 / 2): it is rounded twice, and so was the shift.
        """
        return np.asarray(self.shifts * (u - self.shifts / 2))

    def exponent_abs_errors(self, x: Floats) -> Floats:
        """How far `exponents` can be off at outputs that are exact."""
        return UNIT_ROUNDOFF * (3 * np.abs(x) + self.shifts**2 / 2)

    def log_ratio(self, u: Floats) -> Floats:
        """ln of this density over the plain noise's."""
        return self.log_mixed(self.exponents(u)).value if self.most else np.zeros_like(u)

    def log_mixed(self, x: Floats) -> MixedLogs:
        """ln(w_0 + sum_j w_j e^{x_j}) for exact x, a row for each count above 0 (certificates, lemma 0b)."""
        near = np.where(x <= NEAR, x, 0.0)  # e^-inf is 0, exactly
        gains = np.expm1(near)
        gain = (self._weights * gains).sum(axis=0)
        is_near = (x <= NEAR).all(axis=0) & (gain >= -0.5)
        total = 1 + np.maximum(gain, -0.5)
        value = np.log1p(np.maximum(gain, -0.5))
        shares = self._weights * (1 + gains) / total
        roundings = (12 + self.most) * UNIT_ROUNDOFF
        size = (self._weights * np.abs(gains)).sum(axis=0)
        abs_error = roundings * FIRST_ORDER * size / total + ELEMENTARY_REL_ERROR * np.abs(value)
        far = np.flatnonzero(~is_near)
        if len(far):
            value[far], abs_error[far], shares[:, far] = self._log_mixed_far(x[:, far])
        return MixedLogs(value, abs_error + np.finfo(float).tiny, shares)

    def _log_mixed_far(self, x: Floats) -> MixedLogs:
        """The same by logarithms; of each term's errors only its share counts."""
        logs = self.log_weights[:, None]
        terms = np.concatenate([np.broadcast_to(logs[:1], x[:1].shape), logs[1:] + x])
        top = terms.max(axis=0)
        is_finite = top < np.inf  # infinite logarithms are exact, and so is what comes of them
        below = np.where(is_finite, terms, 0.0) - np.where(is_finite, top, 0.0)
        powers = np.exp(below)
        total = powers.sum(axis=0)
        shares = powers / total
        value = top + np.log(total)
        # the logarithms of the weights, the sums with x and the differences to the largest term
        sizes = np.where(powers > 0, np.abs(below), 0.0)
        errors = LOG_REL_ERROR * np.abs(logs) + UNIT_ROUNDOFF * (
            2 * sizes + np.where(is_finite, np.abs(top), 0.0)
        )
        charged = FIRST_ORDER * (shares * errors).sum(axis=0)
        charged += UNIT_ROUNDOFF * (32 + 2 * self.most + np.where(is_finite, np.abs(value), 0.0))
        return MixedLogs(value, np.where(is_finite, charged, 0.0), shares[1:])

    def enclose_log_ratio(self, u: Floats) -> tuple[Floats, Floats]:
        """ln of this density over the plain noise's at exact outputs, and how far it can be off."""
        if not self.most:
            return np.zeros_like(u), np.zeros_like(u)
        x = self.exponents(u)
        mixed = self.log_mixed(x)
        # an error e of an exponent moves the logarithm by its share times e^e - 1
        moved = (mixed.shares * np.expm1(self.exponent_abs_errors(x))).sum(axis=0)
        return mixed.value, mixed.abs_error + FIRST_ORDER * moved

    def mean_count(self, u: Floats) -> Floats:
        """The mean count given the output: the sum of the factors' shares. It rises with shift times u."""
        if not self.most:
            return np.zeros_like(u)
        counts = np.arange(1, self.most + 1, dtype=float)
        return np.asarray(counts @ self.log_mixed(self.exponents(u)).shares)


def binomial_counts(size: int, rate: Fraction) -> tuple[Fraction, ...]:
    """How many of `size` records join a batch, each on its own with probability `rate` in (0, 1)."""
    return tuple(math.comb(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1))


def hypergeometric_counts(size: int, batch: int, population: int) -> tuple[Fraction, ...]:
    """How many of `size` records are in a batch of fixed size, drawn without replacement."""
    ways = math.comb(population, batch)
    return tuple(
        Fraction(math.comb(size, j) * math.comb(population - size, batch - j), ways)
        for j in range(min(size, batch) + 1)
    )


PLAIN = CountMixture((Fraction(1),), Fraction(0))


@dataclass(frozen=True)
class CountedPair(Pair):
    """P = `observed` moves right and Q = `alternative` left, each by as many shifts as records take part.

    At least one of the two moves. The loss grows with the output.
    """

    observed: CountMixture
    alternative: CountMixture = PLAIN

    def __post_init__(self) -> None:
        if self.observed.exact_shift < 0 or self.alternative.exact_shift > 0:
            raise ValueError("orient the pair so that the loss grows with the output")
        if self.observed.is_plain and self.alternative.is_plain:
            raise ValueError("somebody takes part")

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""
        p, q = self.observed, self.alternative
        return "counted", p.exact_weights, p.exact_shift, q.exact_weights, q.exact_shift

    @property
    def reverse(self) -> "CountedPair":
        """(Q, P), mirrored so that its loss grows again."""
        return CountedPair(self.alternative.mirrored, self.observed.mirrored)

    @property
    def is_trivial(self) -> bool:
        """Never: noise that moves differs from noise that does not."""
        return False

    @cached_property
    def loss_range(self) -> tuple[float, float]:
        """Infimum and supremum of the loss: bounded where one of the two does not move."""
        low = float(self.observed.log_weights[0]) if self.alternative.is_plain else -math.inf
        high = -float(self.alternative.log_weights[0]) if self.observed.is_plain else math.inf
        return low, high

    @property
    def loss_ceiling(self) -> tuple[float, float]:
        """Certain bounds on the supremum of the loss."""
        high = self.loss_range[1]
        return next_down(high * (1 - LOG_REL_ERROR)), next_up(high * (1 + LOG_REL_ERROR))

    @cached_property
    def total_variation(self) -> float:
        """An upper bound on delta(0), by joint convexity: the mean over counts of that of their centres.

        Both counts are taken from one draw, so that with the same weights as many move left as right.
        """
        p, q = self.observed, self.alternative
        if not (p.is_plain or q.is_plain) and p.exact_weights != q.exact_weights:
            return 1.0
        weights = q.exact_weights if p.is_plain else p.exact_weights
        apart = abs(float(p.exact_shift - q.exact_shift))
        each = [
            ceil_fraction(weight) * math.erf(j * apart / math.sqrt(8))
            for j, weight in enumerate(weights)
            if j
        ]
        # of weights, shift, root, products and the function
        return min(math.fsum(each) * (1 + ELEMENTARY_REL_ERROR + 16 * UNIT_ROUNDOFF) + 1e-300, 1.0)

    @property
    def is_bounded(self) -> bool:
        """Never: normal noise takes no largest loss."""
        return False

    def log_masses_at_top(self, gap: float) -> tuple[float, float]:
        """There is no top."""
        raise ValueError("normal noise takes no largest loss")

    @property
    def has_normal_noise(self) -> bool:
        """It has."""
        return True

    @property
    def unsampled_separation(self) -> float:
        """How far apart the outermost centres are."""
        return self.observed.reach - self.alternative.reach

    def loss(self, u: Floats) -> Floats:
        """ln dP/dQ at output u, nondecreasing in u."""
        return np.asarray(self.observed.log_ratio(u) - self.alternative.log_ratio(u))

    def loss_quantile(self, log_mass: float) -> float:
        """A loss that P exceeds with probability at most e^log_mass, a little above the smallest such."""
        return float(self.loss(np.array([self.upper_quantile(log_mass)]))[0])

    def upper_quantile(self, log_mass: float) -> float:
        """An output above which P has at most e^log_mass: each count may leave out its share of it."""
        p = self.observed
        log_each = log_mass - math.log(p.most + 1)
        centres = [0.0, *p.shifts.ravel().tolist()]
        found = [math.sqrt(2 * max(-log_each, 1.0))]
        for log_weight, centre in zip(p.log_weights.tolist(), centres, strict=True):
            if log_weight > log_each:  # a rarer count may be left out whole
                found.append(centre + math.sqrt(2 * max(log_weight - log_each, 1.0)))
        return max(found)

    def output_at(self, losses: Floats) -> Floats:
        """About the outputs with the given losses; -inf and +inf at and beyond the ends of their range.

        By bisection between outputs whose distance doubles until they enclose the loss.
        """
        losses = np.asarray(losses, dtype=float)
        least, most = self.loss_range
        inside = (losses > least) & (losses < most)
        found = np.where(losses <= least, -np.inf, np.inf)
        if not inside.any():
            return found
        wanted = losses[inside]
        low, high = np.full_like(wanted, -8.0), np.full_like(wanted, 8.0)
        for ends, side in ((low, 1), (high, -1)):
            for _ in range(MOST_DOUBLINGS):
                beyond = side * (self.loss(ends) - wanted) > 0
                if not beyond.any():
                    break
                ends[beyond] *= 2
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            is_below = self.loss(middle) < wanted
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        found[inside] = low
        return found
