"""Confidence intervals for the mean of independent numbers in [0, 1], whatever their law.

Each function takes the sums that a simulation keeps and returns the two limits; each limit alone fails with
probability at most beta / 2. Points (columns) are treated one by one: whoever asks at several divides beta by
their number. Why each holds is in theorems/proofs/monte_carlo.md. The sums may be off by an error that is
given with them; every limit is rounded outwards.
"""

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from tightrope.numerics import check
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma

if TYPE_CHECKING:
    from flint import arb

Limits = tuple[Floats, Floats]

# up to 0.58 the capital falls as the tested mean grows, so one side is excluded, not a slice
BOLDEST_BET = 0.5
BITS = 128  # carried where a limit is made certain
BISECTIONS = 110  # to the last bit, from an interval of length 1
WIDENINGS = [2.0**-power for power in range(48, 0, -8)]  # tried in turn until a limit is certain


class Interval(Enum):
    """Confidence intervals for the mean of numbers in [0, 1], each valid for every law.

    HOEFFDING knows the range only, CHERNOFF (the relative entropy bound) also where the mean is, BETTING also
    the variance.

    >>> BETTING, CHERNOFF.value, Interval("hoeffding") is HOEFFDING
    (BETTING, 'chernoff', True)
    """

    HOEFFDING = "hoeffding"
    CHERNOFF = "chernoff"
    BETTING = "betting"

    def __repr__(self) -> str:
        return self.name


HOEFFDING, CHERNOFF, BETTING = Interval.HOEFFDING, Interval.CHERNOFF, Interval.BETTING


@dataclass(frozen=True)
class Sample:
    """Sums of numbers in [0, 1] and of their squares: a row per chunk of `counts[t]` draws, in order.

    The true sums differ from these by at most the errors.
    """

    counts: Floats
    sums: Floats
    squares: Floats
    sum_abs_errors: Floats | float = 0.0
    square_abs_errors: Floats | float = 0.0

    @property
    def draws(self) -> int:
        """How many numbers there are."""
        return int(self.counts.sum())

    @property
    def mean_ends(self) -> Limits:
        """Bounds on the mean of the numbers, which lies in [0, 1]."""
        total = self.sums.sum(axis=0)
        rel_error = gamma(len(self.counts) + 8)  # of each sum over the chunks, and of the lines below
        errors = np.broadcast_to(self.sum_abs_errors, self.sums.shape).sum(axis=0)
        abs_error = (errors + rel_error * total) * (1 + rel_error)
        low, high = (total - abs_error) / self.draws, (total + abs_error) / self.draws
        return np.maximum(_down(low), 0.0), np.minimum(_up(high), 1.0)


def find_limits(interval: Interval, sample: Sample, beta: float, planned: int) -> Limits:
    """The limits by one of the intervals."""
    if interval is BETTING:
        return betting(sample, beta, planned)
    return chernoff(sample, beta) if interval is CHERNOFF else hoeffding(sample, beta)


def draws_needed(*, alpha: float, beta: float, points: int = 1) -> int:
    """How many plain draws are within `alpha` at `points` epsilons at once, except with probability `beta`.

    By Hoeffding's inequality it is ln(2 points / beta) / (2 alpha^2), rounded up.

    >>> draws_needed(alpha=0.001, beta=0.01, points=40)
    4493599
    """
    from tightrope.numerics.balls import ball, ceil_float  # loads flint

    wide = check.open_probability(
        remedy="It is the error in delta you accept, for example 0.001.", alpha=alpha
    )
    failing = check.open_probability(
        remedy="It is the probability of failure you accept, for example 0.01.", beta=beta
    )
    many = check.whole(least=1, remedy="It is how many epsilons are asked at once.", points=points)
    return math.ceil(ceil_float(ball(2 * many / Fraction(failing)).log() / (2 * ball(Fraction(wide) ** 2))))


def hoeffding(sample: Sample, beta: float) -> Limits:
    """mean -+ sqrt(ln(2 / beta) / (2 draws)).

    >>> half = Sample(np.array([1000.0]), np.array([[500.0]]), np.array([[500.0]]))
    >>> [round(float(limit[0]), 4) for limit in hoeffding(half, 0.05)]
    [0.4571, 0.5429]
    """
    from tightrope.numerics.balls import ball, ceil_float  # loads flint

    half = ceil_float((ball(2 / Fraction(beta)).log() / (2 * sample.draws)).sqrt())
    low, high = sample.mean_ends
    return np.maximum(_down(low - half), 0.0), np.minimum(_up(high + half), 1.0)


def chernoff(sample: Sample, beta: float) -> Limits:
    """All p with draws * kl(mean, p) <= ln(2 / beta), where kl(m, p) = m ln(m/p) + (1-m) ln((1-m)/(1-p)).

    The limits are looked for in floats, and certain in balls: kl grows as p moves away from m.

    >>> none = Sample(np.array([1000.0]), np.array([[0.0]]), np.array([[0.0]]))
    >>> [round(float(limit[0]), 5) for limit in chernoff(none, 0.05)]
    [0.0, 0.00368]
    """
    from flint import ctx

    from tightrope.numerics.balls import ball  # loads flint

    low, high = sample.mean_ends
    with ctx.workprec(BITS):
        goal = ball(2 / Fraction(beta)).log() / sample.draws
        below = _furthest(low, np.zeros_like(low), float(goal))
        above = _furthest(high, np.ones_like(high), float(goal))
        return (
            np.array([_certify(m, p, 0.0, goal) for m, p in zip(low.tolist(), below.tolist(), strict=True)]),
            np.array([_certify(m, p, 1.0, goal) for m, p in zip(high.tolist(), above.tolist(), strict=True)]),
        )


def _furthest(mean: Floats, end: Floats, most: float) -> Floats:
    """About the p between the mean and `end`, 0 or 1, with kl(mean, p) = most."""
    near, far = mean.copy(), end.copy()
    for _ in range(BISECTIONS):
        p = (near + far) / 2
        is_beyond = special.rel_entr(mean, p) + special.rel_entr(1 - mean, 1 - p) > most
        near, far = np.where(is_beyond, near, p), np.where(is_beyond, p, far)
    return far


def _certify(mean: float, p: float, end: float, goal: "arb") -> float:
    """p, moved towards `end` until kl(mean, p) >= goal for certain; else `end` itself."""
    from tightrope.numerics.balls import ball  # loads flint

    m, rest = ball(mean), 1 - ball(mean)
    for share in WIDENINGS:
        tried = p + (share if end else -share) * min(p, 1 - p)
        if not 0 < tried < 1 or not (tried > mean if end else tried < mean):
            continue
        entropy = m * (m / ball(tried)).log() if mean else ball(0.0)
        entropy += rest * (rest / (1 - ball(tried))).log() if mean < 1 else ball(0.0)
        if entropy >= goal:
            return tried
    return end


def betting(sample: Sample, beta: float, planned: int) -> Limits:
    """The means against which no bet has won 2 / beta: about as tight as knowing the variance.

    Against the mean m a chunk with sums S and S2 multiplies the capital by exp(+-bet (S - n m) - cost (S2 -
    2 m S + n m^2)), cost = -ln(1-bet) - bet, with a bet chosen from the chunks before it only. Valid whenever
    one stops; `planned` is when one means to.
    """
    goal, n = _log_odds(beta), sample.counts[:, None]
    bets = _bets(sample.counts, sample.sums, sample.squares, goal, planned)
    # a larger cost wins less. Of ln(1-bet), at most 1.39 bet, the logarithm's error is 8 u, and two roundings
    costs = -np.log1p(-bets) - bets + 16 * UNIT_ROUNDOFF * bets
    least = np.maximum(_down(sample.sums - sample.sum_abs_errors), 0.0)
    most = np.minimum(_up(sample.sums + sample.sum_abs_errors), n)
    squares = _up(sample.squares + sample.square_abs_errors)
    low = _first_mean_left(bets, costs, n, least, squares, goal)
    # against 1 - X: with 1 - m the same, the sums being n - S and n - 2 S + S2. The capital falls in S and S2
    flipped = (n - most) - (most - squares) + 8 * UNIT_ROUNDOFF * n  # five roundings of at most n
    high = _up(1 - _first_mean_left(bets, costs, n, _down(n - most), flipped, goal))
    means = sample.mean_ends
    return np.minimum(low, means[0]), np.minimum(np.maximum(high, means[1]), 1.0)  # a mean is at most 1


def _first_mean_left(
    bets: Floats, costs: Floats, n: Floats, sums: Floats, squares: Floats, goal: float
) -> Floats:
    """A mean up to which the capital is at least e^goal: the root of a quadratic, rounded down.

    Where sum of bets (S - n m) - costs (S2 - 2 m S + n m^2) >= goal. It falls in m, so that moving each
    coefficient to the side that lowers it, by the roundings of its sum, moves the root down.
    """
    rel_error = gamma(len(bets) + 8)  # a product and the sum over the chunks, and what follows here
    more, less = 1 + rel_error, 1 - rel_error
    sums = np.maximum(sums, 0.0)
    excess = (bets * sums).sum(axis=0) * less - ((costs * squares).sum(axis=0) + goal) * more
    linear = (bets * n).sum(axis=0) * more - 2 * (costs * sums).sum(axis=0) * less
    square = (costs * n).sum(axis=0) * more
    above = np.maximum(excess, 0.0) * (1 - gamma(4))  # nothing is excluded where the excess is negative
    root = 2 * above / (linear + np.sqrt(linear**2 + 4 * square * above))
    return np.asarray(root * (1 - gamma(12)))


def _bets(counts: Floats, sums: Floats, squares: Floats, goal: float, planned: int) -> Floats:
    """sqrt(2 goal / (planned variance)), at most BOLDEST_BET; the earlier chunks tell the variance."""
    seen = np.concatenate([[0.0], np.cumsum(counts)[:-1]])[:, None]
    first = np.concatenate([np.zeros((1, sums.shape[1])), np.cumsum(sums, axis=0)[:-1]])
    second = np.concatenate([np.zeros((1, sums.shape[1])), np.cumsum(squares, axis=0)[:-1]])
    spread = np.maximum(second - first**2 / np.maximum(seen, 1), 0.0)
    variance = (0.25 + spread) / (1 + seen)
    return np.asarray(np.minimum(np.sqrt(2 * goal / (max(planned, 1) * variance)), BOLDEST_BET))


def _log_odds(beta: float) -> float:
    """ln(2 / beta), rounded up."""
    from tightrope.numerics.balls import ball, ceil_float  # loads flint

    return ceil_float(ball(2 / Fraction(beta)).log())


def _down(x: Floats) -> Floats:
    return np.asarray(np.nextafter(x, -np.inf))


def _up(x: Floats) -> Floats:
    return np.asarray(np.nextafter(x, np.inf))
