"""Tails of binomial laws, enclosed."""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from flint import arb, ctx

from tightrope.numerics.balls import FIRST_BITS, ball, ceil_float, floor_float
from tightrope.numerics.floats import SMALLEST, next_down

MOST_TRIALS = 10**15  # up to so many, the incomplete beta function takes milliseconds
FEW_TRIALS = 10**6  # likewise, for rates above 1/2
NEXT_TO_ONE = 1 - 2.0**-52  # and the smallest float: closer than Chernoff's bounds no float tells


@lru_cache(maxsize=256)
def enclose_upper_tail(trials: int, rate: Fraction, least: int) -> tuple[Fraction, Fraction]:
    """Fractions around P(X >= `least`), X the number of successes among `trials`, each with chance `rate`.

    It is the incomplete beta function, in balls, and lies within Chernoff's bounds, which are all there is of
    more trials than that function can be worked out for.

    >>> low, high = enclose_upper_tail(4, Fraction(1, 2), 3)
    >>> low <= Fraction(5, 16) <= high < low + Fraction(1, 10**15)
    True
    """
    if least <= 0 or (rate == 1 and least <= trials):
        return Fraction(1), Fraction(1)
    if least > trials or rate == 0:
        return Fraction(0), Fraction(0)
    with ctx.workprec(FIRST_BITS):
        low, high = _chernoff(trials, rate, least)
        if low < NEXT_TO_ONE and high > SMALLEST and trials <= MOST_TRIALS:
            for value in _by_beta_function(trials, rate, least):
                low, high = max(low, floor_float(value)), min(high, ceil_float(value))
    return Fraction(low), Fraction(high)


def _by_beta_function(trials: int, rate: Fraction, least: int) -> Iterator[arb]:
    """Balls around the tail: of successes, and of failures, which are told faster where they are rarer."""
    if 2 * rate > 1:
        fewer = ball(1 - rate).beta_lower(arb(trials - least + 1), arb(least), regularized=True)
        if fewer.is_finite():
            yield 1 - fewer
    if 2 * rate <= 1 or trials <= FEW_TRIALS:
        tail = ball(rate).beta_lower(arb(least), arb(trials - least + 1), regularized=True)
        if tail.is_finite():
            yield tail


def _chernoff(trials: int, rate: Fraction, least: int) -> tuple[float, float]:
    """By the divergence of the share of successes from the rate, where the tail is on the far side of it."""
    if least > trials * rate:
        return 0.0, _exponential_bound(trials, Fraction(least, trials), rate)
    return max(next_down(1 - _exponential_bound(trials, Fraction(least - 1, trials), rate)), 0.0), 1.0


def _exponential_bound(trials: int, share: Fraction, rate: Fraction) -> float:
    """e^(-trials D), rounded up, D the divergence in nats of a coin of chance `share` from one of `rate`.

    It is 1 where the share is on the near side of the rate, and where the digits carried do not tell D.
    """
    missing = ball(1 - share) * ball((rate - share) / (1 - rate)).log1p() if share < 1 else arb(0)
    divergence = (ball(share) * ball(share / rate).log() if share else arb(0)) + missing
    found = (-trials * divergence).exp()
    return min(ceil_float(found), 1.0) if found.is_finite() else 1.0
