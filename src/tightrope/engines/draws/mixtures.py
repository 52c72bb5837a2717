"""What drawing from mixtures needs: a component at random, and sums of what a rejection accepts."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tightrope.numerics.floats import Floats
from tightrope.pairs.mixture import Mixture

LARGEST_LOG = 600.0  # of a likelihood ratio or a product of some: a double holds 709
SPARE = 1.02  # candidates per mean need, so that a second round is rare
LEAST_ROUND, LARGEST_ROUND = 64, 1 << 14  # candidates at once, so that they stay in the cache


def binomial_log_weights(law: Mixture, order: int) -> Floats:
    """ln of what N(jD) weighs in density (1-g + g e^{Du - D^2/2})^a, j = 0, ..., a.

    The weights are C(a,j) (1-g)^{a-j} g^j e^{(j^2-j) D^2/2}; they sum to M(a - 1) of the pair
    ((1-g) N(0) + g N(D), N(0)).
    """
    j = np.arange(order + 1.0)
    choices = special.gammaln(order + 1) - special.gammaln(j + 1) - special.gammaln(order - j + 1)
    if law.is_pure:  # only one centre has any weight
        shares = np.where(j == (order if law.is_moved else 0), 0.0, -np.inf)
    else:
        shares = (order - j) * law.log_rest + j * law.log_rate
    return np.asarray(choices + shares + j * (j - 1) * law.shift**2 / 2)


class PowerMixture:
    """Candidates N(jD) for the density phi R^a up to a factor, R = 1-g + g e^{Du - D^2/2}, a >= 1.

    For whole a it is that law itself. Between n and n + 1, a = n + t, R^t lies below its tangent at R = s,
    R^a <= (1-t) s^t R^n + t s^{t-1} R^{n+1}, and a candidate is accepted with probability r^t / (1-t + t r),
    r = R/s. With s the ratio of the two moments most are accepted: the logarithm of the share is that of the
    moment less its linear interpolation.
    """

    def __init__(self, law: Mixture, order: float) -> None:
        self.share = order - math.floor(order)
        self.log_weights = binomial_log_weights(law, math.floor(order))
        self.log_touch = 0.0
        if self.share:
            above = binomial_log_weights(law, math.floor(order) + 1)
            self.log_touch = float(np.logaddexp.reduce(above) - np.logaddexp.reduce(self.log_weights))
            below = np.append(self.log_weights, -np.inf) + math.log1p(-self.share)
            below += self.share * self.log_touch
            above += math.log(self.share) + (self.share - 1) * self.log_touch
            self.log_weights = np.logaddexp(below, above)
        self.centres = law.shift * np.arange(float(len(self.log_weights)))

    def excess(self, log_ratio: Floats) -> Floats:
        """-ln of the probability with which a candidate is accepted, from ln R at it."""
        log_r = log_ratio - self.log_touch
        if log_r.max(initial=0.0) < LARGEST_LOG:
            return np.asarray(np.log1p(self.share * np.expm1(log_r)) - self.share * log_r)
        beside = np.logaddexp(math.log1p(-self.share), math.log(self.share) + log_r)
        return np.asarray(beside - self.share * log_r)


class Chooser:
    """One of `values`, with probability proportional to e^log_weight."""

    def __init__(self, log_weights: Floats, values: Floats) -> None:
        shares = np.exp(log_weights - log_weights.max())
        order = np.argsort(-shares, kind="stable")[: np.count_nonzero(shares)]
        cumulative = np.cumsum(shares[order] / math.fsum(shares))
        self.order, self.values, self.bounds = order, values[order], cumulative[:-1]

    def choose(self, rng: np.random.Generator, size: int) -> NDArray[np.intp]:
        """Which components are chosen, as places in the arrays given."""
        return self.order[np.searchsorted(self.bounds, rng.random(size), side="right")]

    def move(self, rng: np.random.Generator, noise: Floats) -> Floats:
        """The noise, each number moved by a value chosen for it."""
        if self.values[0]:
            noise += self.values[0]
        if len(self.values) == 1:
            return noise
        place = rng.random(len(noise))
        if len(self.values) == 2:
            noise += (place >= self.bounds[0]) * (self.values[1] - self.values[0])
            return noise
        # only those not moved by the likeliest are looked up
        others = np.flatnonzero(place >= self.bounds[0])
        found = np.searchsorted(self.bounds[1:], place[others], side="right")
        noise[others] += self.values[1 + found] - self.values[0]
        return noise


def sum_accepted(accept: Callable[[int], Floats], acceptance: float, count: int, times: int) -> Floats:
    """`count` sums of `times` accepted numbers each, used in the order in which they come.

    `accept(size)` makes so many candidates and returns those it accepts, about a share of `acceptance`.
    """
    total = np.zeros(count)
    spare = np.empty(0)
    for _ in range(times):
        rounds, have = [spare], len(spare)
        while have < count:
            accepted = accept(min(int((count - have) / acceptance * SPARE) + LEAST_ROUND, LARGEST_ROUND))
            rounds.append(accepted)
            have += len(accepted)
        stream = np.concatenate(rounds)
        total += stream[:count]
        spare = stream[count:]
    return total


def sum_log_products(draw_ratios: Callable[[int], Floats], group: int, count: int, times: int) -> Floats:
    """`count` sums of the logarithms of `times` ratios, one logarithm per `group` factors."""
    total = np.zeros(count)
    for done in range(0, times, group):
        product = draw_ratios(count)
        for _ in range(min(group, times - done) - 1):
            product *= draw_ratios(count)
        total += np.log(product)
    return total
