"""Confidence intervals for the mean of independent numbers in [0, 1], whatever their law.

Each function takes the sums that a simulation keeps and returns the two limits; each limit alone fails with
probability at most beta / 2. Points (columns) are treated one by one: whoever asks at several divides beta by
their number. Why each holds is in theorems/proofs/monte_carlo.md.
"""

import math
from enum import Enum

import numpy as np

from tightrope.numerics import check
from tightrope.numerics.floats import Floats

Limits = tuple[Floats, Floats]

# up to 0.58 the capital falls as the tested mean grows, so one side is excluded, not a slice
BOLDEST_BET = 0.5
SUM_REL_ERROR = 1e-12  # of adding up 1e12 numbers in blocks, many times over
ENTROPY_REL_ERROR, ENTROPY_ABS_ERROR = 1e-9, 1e-16  # of two terms that cancel, many times over
COMPLEMENT_ABS_ERROR = 4e-16  # of 1 - p for p in [0, 1], twice over
BISECTIONS = 110  # to the last bit, from an interval of length 1


class Interval(Enum):
    """Confidence intervals for the mean of numbers in [0, 1], each valid for every law.

    HOEFFDING knows the range only, CHERNOFF (the relative entropy bound) also where the mean is, BETTING also
    the variance.
    """

    HOEFFDING = "hoeffding"
    CHERNOFF = "chernoff"
    BETTING = "betting"

    def __repr__(self) -> str:
        return self.name


HOEFFDING, CHERNOFF, BETTING = Interval.HOEFFDING, Interval.CHERNOFF, Interval.BETTING


def find_limits(
    interval: Interval, counts: Floats, sums: Floats, squares: Floats, beta: float, planned: int
) -> Limits:
    """The limits by one of the intervals; the sums are as in `betting`."""
    if interval is BETTING:
        return betting(counts, sums, squares, beta, planned)
    simple = chernoff if interval is CHERNOFF else hoeffding
    return simple(int(counts.sum()), sums.sum(axis=0), beta)


def draws_needed(*, alpha: float, beta: float, points: int = 1) -> int:
    """How many plain draws are within `alpha` at `points` epsilons at once, except with probability `beta`.

    By Hoeffding's inequality it is ln(2 points / beta) / (2 alpha^2), rounded up.

    >>> draws_needed(alpha=0.001, beta=0.01, points=40)
    4493599
    """
    wide = check.open_probability(
        remedy="It is the error in delta you accept, for example 0.001.", alpha=alpha
    )
    failing = check.open_probability(
        remedy="It is the probability of failure you accept, for example 0.01.", beta=beta
    )
    many = check.whole(least=1, remedy="It is how many epsilons are asked at once.", points=points)
    return math.ceil(math.log(2 * many / failing) / (2 * wide**2))


def hoeffding(draws: int, total: Floats, beta: float) -> Limits:
    """mean -+ sqrt(ln(2 / beta) / (2 draws)).

    >>> [round(float(limit[0]), 4) for limit in hoeffding(1000, np.array([500.0]), 0.05)]
    [0.4571, 0.5429]
    """
    mean, half = _mean(draws, total), math.sqrt(math.log(2 / beta) / (2 * draws))
    return _widen(mean - half, mean + half)


def chernoff(draws: int, total: Floats, beta: float) -> Limits:
    """All p with draws * kl(mean, p) <= ln(2 / beta), where kl(m, p) = m ln(m/p) + (1-m) ln((1-m)/(1-p)).

    >>> [round(float(limit[0]), 5) for limit in chernoff(1000, np.array([0.0]), 0.05)]
    [0.0, 0.00368]
    """
    mean = _mean(draws, total)
    most = math.log(2 / beta) / draws
    low = _furthest_below(mean, 1 - mean, most)
    high = 1 - _furthest_below(1 - mean, mean, most) + COMPLEMENT_ABS_ERROR
    return _widen(low, np.where(mean == 0, -math.expm1(-most), high))


def _furthest_below(mean: Floats, rest: Floats, most: float) -> Floats:
    """A p <= mean at or a little below the smallest with kl(mean, p) <= most; rest = 1 - mean."""
    low, high = np.zeros_like(mean), mean.copy()
    allowed = most * (1 + ENTROPY_REL_ERROR) + ENTROPY_ABS_ERROR
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(BISECTIONS):
            p = (low + high) / 2
            gap = mean - p
            # ln(p / mean), by whichever form is accurate
            log_share = np.where(2 * p > mean, np.log1p(-gap / mean), np.log(p / mean))
            entropy = np.where(rest > 0, -rest * np.log1p(gap / rest), 0.0) - mean * log_share
            excluded = entropy > allowed
            low, high = np.where(excluded, p, low), np.where(excluded, high, p)
    return np.where(rest == 0, math.exp(-most), low)  # all ones: p^draws = beta / 2


def betting(counts: Floats, sums: Floats, squares: Floats, beta: float, planned: int) -> Limits:
    """The means against which no bet has won 2 / beta: about as tight as knowing the variance.

    Row t of `sums` and `squares` is over the `counts[t]` draws of chunk t, in the order of drawing. Against
    the mean m the chunk multiplies the capital by exp(+-bet (S - n m) - (-ln(1-bet) - bet) (S2 - 2 m S + n
    m^2)), with a bet chosen from the chunks before it only. Valid whenever one stops; `planned` is when one
    means to.
    """
    goal = math.log(2 / beta)
    bets = _bets(counts, sums, squares, goal, planned)
    costs = -np.log1p(-bets) - bets
    n = counts[:, None]
    fixed = (costs * squares).sum(axis=0) + goal
    linear_cost, square_cost = (costs * sums).sum(axis=0), (costs * n).sum(axis=0)
    gain, stake = (bets * sums).sum(axis=0), (bets * n).sum(axis=0)
    mean = _mean(int(counts.sum()), sums.sum(axis=0))
    # capital(m) = 2 / beta is quadratic: gain - stake m - (fixed - 2 linear_cost m + square_cost m^2) = 0
    error = SUM_REL_ERROR * (gain + fixed)
    low = _positive_root(square_cost, stake - 2 * linear_cost, gain - fixed - error)
    # against 1 - X: with h = 1 - m the same, the sums being those of 1 - X
    flipped_fixed = np.maximum((costs * (n - 2 * sums + squares)).sum(axis=0) + goal, goal)
    flipped_linear = stake - 2 * (square_cost - linear_cost)
    error = SUM_REL_ERROR * (stake + gain + square_cost + 2 * linear_cost + fixed)
    high = 1 - _positive_root(square_cost, flipped_linear, stake - gain - flipped_fixed - error)
    return _widen(np.minimum(low, mean), np.maximum(high, mean))


def _bets(counts: Floats, sums: Floats, squares: Floats, goal: float, planned: int) -> Floats:
    """sqrt(2 goal / (planned variance)), at most BOLDEST_BET; the earlier chunks tell the variance."""
    seen = np.concatenate([[0.0], np.cumsum(counts)[:-1]])[:, None]
    first = np.concatenate([np.zeros((1, sums.shape[1])), np.cumsum(sums, axis=0)[:-1]])
    second = np.concatenate([np.zeros((1, sums.shape[1])), np.cumsum(squares, axis=0)[:-1]])
    spread = np.maximum(second - first**2 / np.maximum(seen, 1), 0.0)
    variance = (0.25 + spread) / (1 + seen)
    return np.asarray(np.minimum(np.sqrt(2 * goal / (max(planned, 1) * variance)), BOLDEST_BET))


def _positive_root(square: Floats, linear: Floats, excess: Floats) -> Floats:
    """The m >= 0 with excess - linear m - square m^2 = 0, square and linear > 0; 0 where excess is not."""
    above = np.maximum(excess, 0.0)
    return np.asarray(2 * above / (linear + np.sqrt(linear**2 + 4 * square * above)))


def _mean(draws: int, total: Floats) -> Floats:
    return np.clip(np.asarray(total, dtype=float) / draws, 0.0, 1.0)


def _widen(low: Floats, high: Floats) -> Limits:
    """Outwards by more than rounding, inside [0, 1]."""
    return np.clip(low * (1 - SUM_REL_ERROR), 0.0, 1.0), np.clip(high * (1 + SUM_REL_ERROR), 0.0, 1.0)
