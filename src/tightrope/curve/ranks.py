"""The chance that the best of K runs falls into a set, by how much ranks above the set."""

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tightrope.numerics.floats import Floats
from tightrope.setting.trials import (
    FixedTrials,
    PoissonTrials,
    TrialLaw,
    TruncatedNegativeBinomial,
    mean_of,
)

if TYPE_CHECKING:
    from flint import arb


class Ranks(ABC):
    """g(u) is the chance that some of K runs is in a set of probability u: 1 - E[(1 - u)^K].

    Balls have the precision in force when a method is called.
    """

    @property
    @abstractmethod
    def mean(self) -> "arb":
        """E[K] = g'(0)."""

    @abstractmethod
    def gain(self, above: "arb", mass: "arb") -> "arb":
        """g(above + mass) - g(above): the chance that the best falls into a set of that mass."""

    @abstractmethod
    def gains(self, above: Floats, mass: Floats) -> Floats:
        """The same in floats, to steer by."""


class RandomRanks(Ranks):
    """Those of a random number of runs, which bound what an output can lose at its worst rank.

    A set L that ranks above an output has P(L) = u and Q(L) = w <= e^x u + d for every x >= 0, where d is
    delta(x) of the reversed pair.
    """

    @abstractmethod
    def surplus(self, x: float, d: float) -> float:
        """About how far x is above the least slope that `log_ratio` can use; the search is for its root."""

    @abstractmethod
    def log_ratio(self, x: float, d: "arb") -> "arb":
        """A bound on ln g'(u) / g'(w) for all u >= 0."""

    @abstractmethod
    def peak(self, ratio: "arb", x: float, d: "arb") -> "arb | None":
        """The supremum over u >= 0 of (g'(u) ratio - g'(w)) / g'(0), and at least 0.

        None where balls cannot tell which case applies.
        """


class NegativeBinomialRanks(RandomRanks):
    """g'(u) = E[K] (1 + u / k)^-(eta + 1), k = gamma / (1 - gamma)."""

    def __init__(self, eta: Fraction, gamma: Fraction) -> None:
        self.eta, self.gamma, self.odds = eta, gamma, gamma / (1 - gamma)

    @property
    def mean(self) -> "arb":
        """E[K]."""
        return mean_of(self.eta, self.gamma)

    def gain(self, above: "arb", mass: "arb") -> "arb":
        """(1 + u/k)^-eta (1 - (1 + a/(k+u))^-eta) / (1 - gamma^eta): nothing cancels."""
        from tightrope.numerics.balls import ball  # loads flint

        k, eta, log_gamma = ball(self.odds), ball(self.eta), ball(self.gamma).log()
        growth = (mass / (k + above)).log1p()
        if not self.eta:
            return growth / -log_gamma
        return (-eta * (above / k).log1p()).exp() * (-eta * growth).expm1() / (eta * log_gamma).expm1()

    def gains(self, above: Floats, mass: Floats) -> Floats:
        """The same in floats."""
        k, eta, log_gamma = float(self.odds), float(self.eta), float(np.log(float(self.gamma)))
        growth = np.log1p(mass / (k + above))
        if not self.eta:
            return np.asarray(growth / -log_gamma)
        start = np.exp(-eta * np.log1p(above / k))
        return np.asarray(start * np.expm1(-eta * growth) / np.expm1(eta * log_gamma))

    def surplus(self, x: float, d: float) -> float:
        """k (e^x - 1) - d: at its root the line through (u, w) = (-k, -k) touches the trade-off."""
        return float(self.odds) * float(np.expm1(x)) - d

    def log_ratio(self, x: float, d: "arb") -> "arb":
        """((k + w) / (k + u))^(eta + 1) lies between its values at u = 0 and at infinity."""
        from tightrope.numerics.balls import ball  # loads flint

        n, start, slope = ball(self.eta + 1), (d / ball(self.odds)).log1p(), ball(x)
        return n * (slope if start <= slope else start if start >= slope else slope + abs(start - slope))

    def peak(self, ratio: "arb", x: float, d: "arb") -> "arb | None":
        """With W = k + w, U = k + u: W/U rises from 1 + d/k to e^x, and the peak is where it is `at`."""
        from tightrope.numerics.balls import ball  # loads flint

        k, n, slope, zero = ball(self.odds), ball(self.eta + 1), ball(x).exp(), ball(0.0)
        start = 1 + d / k
        if not start <= slope:
            return None
        at = ((ball(x) - ratio.log()) / (n + 1)).exp()
        if at <= start:  # falls from u = 0 on
            there = ratio - (-n * start.log()).exp()
            return there if there > 0 else zero if there <= 0 else None
        if at >= slope:  # rises towards 0
            return zero
        if not (start < at < slope):
            return None
        relative = (slope - start) / (slope - at)  # U / k
        return ratio * (-n * relative.log()).exp() * (1 - at / slope)


class PoissonRanks(RandomRanks):
    """g'(u) = m e^(-m u)."""

    def __init__(self, mean: Fraction) -> None:
        self.exact_mean = mean

    @property
    def mean(self) -> "arb":
        """E[K]."""
        from tightrope.numerics.balls import ball  # loads flint

        return ball(self.exact_mean)

    def gain(self, above: "arb", mass: "arb") -> "arb":
        """e^(-m u) (1 - e^(-m a))."""
        return -(-self.mean * above).exp() * (-self.mean * mass).expm1()

    def gains(self, above: Floats, mass: Floats) -> Floats:
        """The same in floats."""
        m = float(self.exact_mean)
        return np.asarray(-np.exp(-m * above) * np.expm1(-m * mass))

    def surplus(self, x: float, d: float) -> float:
        """0: the largest w - u is delta(0)."""
        return 0.0

    def log_ratio(self, x: float, d: "arb") -> "arb":
        """m (w - u) is at most m d at x = 0."""
        assert x == 0
        return self.mean * d

    def peak(self, ratio: "arb", x: float, d: "arb") -> "arb | None":
        """ratio e^(-m u) - e^(-m (e^x u + d)) rises up to u = `at`, then falls."""
        from tightrope.numerics.balls import ball  # loads flint

        m, slope, zero = self.mean, ball(x), ball(0.0)
        reach = slope - m * d - ratio.log()  # m (e^x - 1) at
        if x == 0 or reach <= 0:
            there = ratio - (-m * d).exp()
            return there if there > 0 else zero if there <= 0 else None
        if not reach > 0:
            return None
        return -ratio * (-reach / slope.expm1()).exp() * (-slope).expm1()


class FixedRanks(Ranks):
    """g(u) = 1 - (1 - u)^number."""

    def __init__(self, number: int) -> None:
        self.number = number

    @property
    def mean(self) -> "arb":
        """The number."""
        from tightrope.numerics.balls import ball  # loads flint

        return ball(float(self.number))

    def gain(self, above: "arb", mass: "arb") -> "arb":
        """(1 - u)^n (1 - (1 - a/(1-u))^n)."""
        if not mass < 1 - above:
            return (1 - above) ** self.number if above <= 1 else above * 0
        return -((1 - above) ** self.number) * (self.number * (-mass / (1 - above)).log1p()).expm1()

    def gains(self, above: Floats, mass: Floats) -> Floats:
        """The same in floats."""
        left = np.maximum(1 - above, 1e-300)
        share = np.minimum(mass / left, 1 - 1e-16)
        return np.asarray(-(left**self.number) * np.expm1(self.number * np.log1p(-share)))


def ranks_of(trials: TrialLaw) -> Ranks:
    """The ranks of a law."""
    if isinstance(trials, TruncatedNegativeBinomial):
        return NegativeBinomialRanks(trials.exact_shape, trials.exact_gamma)
    if isinstance(trials, PoissonTrials):
        return PoissonRanks(trials.exact_mean)
    assert isinstance(trials, FixedTrials)
    return FixedRanks(trials.number)
