"""Finite supports: every outcome of the run counted, by multinomials or in exact fractions."""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy import special

from tightrope.engines.face import NO_HINT, NOTHING, Errors, Hint, LogBounds
from tightrope.errors import InvalidSetting
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.tails import Floats
from tightrope.pairs.finite_pair import FinitePair, exact_log_ratio
from tightrope.pairs.schedule import Schedule

MOST_OUTCOMES = 1_100_000


def outcomes(schedule: Schedule) -> float:
    """How many distinct outcomes the run has, up to order; infinite where some step has a continuum."""
    total = 1.0
    for pair, times in schedule:
        if not isinstance(pair, FinitePair):
            return math.inf
        total *= math.comb(times + len(pair.levels) - 1, times) if pair.levels else 1
    return total


class ExactOutcomes:
    """All total losses of a run with their probabilities: an exact sum, up to rounding that is charged."""

    def __init__(self, schedule: Schedule) -> None:
        log_masses, losses = np.zeros(1), np.zeros(1)
        doubt, blur = np.zeros(1), np.zeros(1)
        for pair, times in schedule:
            assert isinstance(pair, FinitePair)
            if not pair.levels:
                log_masses = np.full(1, -np.inf)
                continue
            one_mass, one_loss, one_doubt, one_blur = _multinomial(pair, times)
            log_masses = np.add.outer(one_mass, log_masses).ravel()
            losses = np.add.outer(one_loss, losses).ravel()
            doubt = np.add.outer(one_doubt, doubt).ravel()
            blur = np.add.outer(one_blur, blur).ravel()
        order = np.argsort(losses)
        self.log_masses, self.losses = log_masses[order], losses[order]
        self.doubt, self.blur = doubt[order], blur[order]
        self.log_infinite = schedule.log_infinite_mass

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "ExactOutcomes":
        """The sum is the same everywhere."""
        return self

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        margin = 8 * UNIT_ROUNDOFF * abs(epsilon)
        first = int(np.searchsorted(self.losses + self.blur + margin, epsilon, side="right"))
        log_masses, gain = self.log_masses[first:], -np.expm1(epsilon - self.losses[first:])
        infinite_below, infinite_above = self.log_infinite
        if len(log_masses) == 0:
            only_infinite = LogBounds(infinite_below, infinite_above)
            return replace(only_infinite, errors=Errors(rounding=only_infinite.width))
        slack = self.blur[first:] + margin
        top = float(log_masses.max())
        masses = np.exp(log_masses - top)
        value = float(masses @ np.maximum(gain, 0))
        error = float(masses @ (slack + np.maximum(gain, 0) * (self.doubt[first:] + 32 * UNIT_ROUNDOFF)))
        upper = (
            float(np.logaddexp(top + math.log(value + error), infinite_above))
            if value + error > 0
            else infinite_above
        )
        lower = top + math.log(value - error) if value > error else -math.inf
        lower = float(np.logaddexp(lower, infinite_below))
        if upper == -math.inf:
            return NOTHING
        share = (
            math.exp(top - upper) * 2 * error
            + math.exp(infinite_above - upper)
            - math.exp(infinite_below - upper)
        )
        return LogBounds(min(lower, upper), upper + 8 * UNIT_ROUNDOFF * abs(upper), Errors(rounding=share))


def _multinomial(pair: FinitePair, times: int) -> tuple[Floats, Floats, Floats, Floats]:
    """ln probability and loss of every count of levels, with bounds on their relative and absolute rounding."""
    counts = _counts(times, len(pair.levels))
    log_p = np.array([exact_log_ratio(p, Fraction(1)) for p, _ in pair.levels])
    losses = np.array(pair.losses)
    factorials = special.gammaln(counts + 1.0)
    whole = float(special.gammaln(times + 1.0))
    log_masses = whole - factorials.sum(axis=1) + counts @ log_p
    size = whole + factorials.sum(axis=1) + counts @ np.abs(log_p)
    return (
        log_masses,
        counts @ losses,
        16 * UNIT_ROUNDOFF * size,
        8 * UNIT_ROUNDOFF * (counts @ np.abs(losses)),
    )


def _counts(times: int, levels: int) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Every way to write `times` as an ordered sum of `levels` counts."""
    if levels == 1:
        return np.array([[times]])
    if levels == 2:
        ones = np.arange(times + 1)
        return np.stack([times - ones, ones], axis=1)
    rows = [
        np.concatenate([np.full((len(rest), 1), first), rest], axis=1)
        for first in range(times + 1)
        for rest in [_counts(times - first, levels - 1)]
    ]
    return np.concatenate(rows)


def exact_delta(schedule: Schedule, order: Fraction | int) -> Fraction:
    """H_order(P || Q) of the composed finite pairs, in exact arithmetic; `order` is e^epsilon.

    >>> from tightrope.pairs.distribution import FiniteSupport
    >>> coin = FinitePair(FiniteSupport((Fraction(3, 4), Fraction(1, 4))), FiniteSupport((Fraction(1, 2), Fraction(1, 2))))
    >>> exact_delta(Schedule([(coin, 2)]), Fraction(4, 3))
    Fraction(11, 48)
    """
    if outcomes(schedule) > 200_000:
        raise InvalidSetting(
            "exact fractions are for finite supports with few steps. Use delta() for a certified bracket."
        )
    total = Fraction(0)
    for p, q in _products(list(schedule)):
        total += max(p - order * q, Fraction(0))
    finite = Fraction(1)
    for pair, times in schedule:
        assert isinstance(pair, FinitePair)
        finite *= (1 - pair.infinite_mass) ** times
    return total + 1 - finite


def _products(parts: "list[tuple[object, int]]") -> Iterator[tuple[Fraction, Fraction]]:
    """(P, Q) mass of every distinct outcome of a run with finite losses."""
    if not parts:
        yield Fraction(1), Fraction(1)
        return
    (pair, times), *others = parts
    assert isinstance(pair, FinitePair)
    rest = list(_products(others))
    for row in _counts(times, len(pair.levels)):
        ways = math.factorial(times)
        p = q = Fraction(1)
        for count, (a, b) in zip(row.tolist(), pair.levels, strict=True):
            ways //= math.factorial(count)
            p, q = p * a**count, q * b**count
        for more_p, more_q in rest:
            yield ways * p * more_p, ways * q * more_q
