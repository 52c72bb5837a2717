"""Tails of binomial laws, enclosed."""

from fractions import Fraction
from functools import lru_cache

from flint import arb, ctx

from tightrope.numerics.balls import FIRST_BITS, ball, ceil_float, floor_float

MOST_TRIALS = 10**15  # up to so many, the incomplete beta function takes milliseconds


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
        if trials <= MOST_TRIALS:
            value = ball(rate).beta_lower(arb(least), arb(trials - least + 1), regularized=True)
            if value.is_finite():
                low, high = max(low, floor_float(value)), min(high, ceil_float(value))
    return Fraction(low), Fraction(high)


def _chernoff(trials: int, rate: Fraction, least: int) -> tuple[float, float]:
    """By the divergence of the share of successes from the rate, where the tail is on the far side of it."""
    if least > trials * rate:
        return 0.0, ceil_float((-trials * _divergence(Fraction(least, trials), rate)).exp().min(1))
    if least - 1 < trials * rate:
        below = (-trials * _divergence(Fraction(least - 1, trials), rate)).exp()
        return floor_float((1 - below).max(0)), 1.0
    return 0.0, 1.0


def _divergence(share: Fraction, rate: Fraction) -> arb:
    """Of a coin that shows `share` from one that shows `rate`, in nats, to the working precision."""
    terms = ((share, rate), (1 - share, 1 - rate))
    return sum((ball(p) * ball(p / q).log() for p, q in terms if p), arb(0))
