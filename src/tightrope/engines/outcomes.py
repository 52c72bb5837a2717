"""Finite supports: every outcome of the run counted, in floats that charge their rounding or in fractions."""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy import special

from tightrope.engines.face import NO_HINT, NOTHING, Errors, Hint, LogBounds
from tightrope.errors import InvalidSetting
from tightrope.numerics.floats import LOG_REL_ERROR, UNIT_ROUNDOFF, Floats, exact_log_ratio, gamma
from tightrope.numerics.ulps import (
    ELEMENTARY_REL_ERROR,
    UNDERFLOW_ABS_ERROR,
    gammaln_abs_error,
    logaddexp_abs_error,
    pairwise_roundings,
)
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule

MOST_OUTCOMES = 1_100_000  # that are counted in floats
EXACT_FACTORIALS = 1000  # a millisecond's work
MOST_EXACT = 200_000  # that are counted in fractions


class ExactOutcomes:
    """All total losses of a run with their probabilities: an exact sum, up to rounding that is charged.

    The logarithm of each mass is off by at most `log_mass_abs_errors`, each loss by `loss_abs_errors`.
    """

    def __init__(self, schedule: Schedule) -> None:
        log_masses, losses, mass_sizes, loss_sizes = (np.zeros(1) for _ in range(4))
        additions = 0  # in the longest sum behind a log mass or a loss
        factorial_errors = 0.0  # of the logarithms of factorials in a log mass, beyond what is relative
        for pair, times in schedule:
            if not pair.levels:
                log_masses = np.full(1, -np.inf)
                continue
            each = _multisets(pair, times)
            log_masses, losses, mass_sizes, loss_sizes = (
                np.add.outer(one, total).ravel()
                for one, total in zip(each, (log_masses, losses, mass_sizes, loss_sizes), strict=True)
            )
            additions += 2 * min(times, len(pair.levels)) + 1
            if times > EXACT_FACTORIALS:
                factorial_errors += (len(pair.levels) + 1) * float(gammaln_abs_error(0.0))
        order = np.argsort(losses)
        self.log_masses, self.losses = log_masses[order], losses[order]
        # A sum of n terms is off by at most gamma(n) of the sum of their sizes. A term is a product with a
        # logarithm (LOG_REL_ERROR and a rounding), or a gammaln, off by 16 u of its size and 16 u more.
        by_logarithm = LOG_REL_ERROR + 2 * UNIT_ROUNDOFF
        by_gammaln = 16 * UNIT_ROUNDOFF if factorial_errors else 0.0
        error_of_masses = gamma(additions) + max(by_logarithm, by_gammaln)
        self.log_mass_abs_errors = error_of_masses * mass_sizes[order] + factorial_errors
        self.loss_abs_errors = (gamma(additions) + by_logarithm) * loss_sizes[order]
        self.infinite_below, self.infinite_above = schedule.log_infinite_mass

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "ExactOutcomes":
        """The sum is the same everywhere."""
        return self

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        differences = self.losses - epsilon  # each rounded once; epsilon is any number that rounds to it
        difference_abs_errors = self.loss_abs_errors + UNIT_ROUNDOFF * (np.abs(differences) + abs(epsilon))
        counts = differences > -difference_abs_errors  # the others certainly lose less than epsilon
        log_masses, differences = self.log_masses[counts], differences[counts]
        top = float(log_masses.max(initial=-np.inf))
        value = error = 0.0
        if top > -math.inf:
            exponents = log_masses - top
            masses = np.exp(exponents)
            gain = np.maximum(-np.expm1(-differences), 0.0)  # what is below 0 is so by rounding, and charged
            # The logarithm of a mass, its difference with the top (rounded, relative to its size), exp, expm1
            # and the product; e^x - 1 <= 1.01 x below 0.01. np.sum adds in pairs.
            rel_errors = 1.01 * (self.log_mass_abs_errors[counts] + UNIT_ROUNDOFF * np.abs(exponents))
            rel_errors += 2 * ELEMENTARY_REL_ERROR + gamma(4 + pairwise_roundings(len(masses)))
            if float(rel_errors.max()) > 0.01:
                raise ArithmeticError("the masses of outcomes are lost in rounding")
            value = float(np.sum(masses * gain))
            # 1 - e^-x moves by at most as much as x where x >= 0
            charges = gain * rel_errors + 2 * difference_abs_errors[counts]
            error = float(np.sum(masses * charges)) * (1 + 2 * float(rel_errors.max()))
            error += len(masses) * UNDERFLOW_ABS_ERROR
        upper = _log_sum(top, value + error, self.infinite_above)
        if upper == -math.inf:
            return NOTHING
        lower = _log_sum(top, value - error, self.infinite_below)
        share = math.exp(self.infinite_above - upper) - math.exp(self.infinite_below - upper)
        share += math.exp(top - upper) * 2 * error if error else 0.0
        log_lower = lower - _log_abs_error(top, lower)
        log_upper = min(upper + _log_abs_error(top, upper), 0.0)
        return LogBounds(log_lower, log_upper, Errors(rounding=share + log_upper - upper))


def _log_sum(log_scale: float, value: float, log_more: float) -> float:
    """ln of e^log_scale * value + e^log_more, where a value that is not positive counts as 0."""
    return float(np.logaddexp(log_scale + math.log(value), log_more)) if value > 0 else log_more


def _log_abs_error(log_scale: float, result: float) -> float:
    """Of `_log_sum`: the logarithm is at most |log_scale| + |result| in size; value and error were added."""
    if result == -math.inf:
        return 0.0
    size = abs(result) + (abs(log_scale) if log_scale > -math.inf else 0.0)
    error = 2 * (ELEMENTARY_REL_ERROR + UNIT_ROUNDOFF) * size + 4 * UNIT_ROUNDOFF
    return error + float(logaddexp_abs_error(result))


def _multisets(pair: Pair, times: int) -> tuple[Floats, Floats, Floats, Floats]:
    """ln probability and loss of every count of levels; then, for both, the sum of the sizes of the terms.

    Each level takes some of the steps that are left, and an outcome with no steps left is done. So the work
    is proportional to the number of outcomes, whether there are many steps or many levels.
    """
    log_p = list(pair.log_masses)
    if times == 1 or len(log_p) == 1:  # no orders to count: a single level may come any number of times
        logs, losses = times * np.array(log_p), times * np.array(pair.losses)
        return logs, losses, np.abs(logs), np.abs(losses)
    log_factorials = _log_factorials(times)
    whole = float(log_factorials[times])
    left = np.array([times])
    sums = np.array([[whole], [0.0], [whole], [0.0]])
    done = []
    for number, (log_mass, loss) in enumerate(zip(log_p, pair.losses, strict=True), start=1):
        if number == len(log_p):
            given = left
        else:
            ends = np.cumsum(left + 1)
            given = np.arange(ends[-1]) - np.repeat(ends - left - 1, left + 1)
            sums = np.repeat(sums, left + 1, axis=1)
            left = np.repeat(left, left + 1)
        orders = log_factorials[given]  # 0 exactly where at most one step is given
        sums = sums + np.stack(
            [given * log_mass - orders, given * loss, orders - given * log_mass, given * abs(loss)]
        )
        left = left - given
        done.append(sums[:, left == 0])
        sums, left = sums[:, left > 0], left[left > 0]
    log_masses, losses, mass_sizes, loss_sizes = np.concatenate(done, axis=1)
    return log_masses, losses, mass_sizes, loss_sizes


@lru_cache(maxsize=64)
def _log_factorials(most: int) -> Floats:
    """ln n! for n = 0, ..., most: each to LOG_REL_ERROR up to EXACT_FACTORIALS, beyond by gammaln."""
    if most > EXACT_FACTORIALS:
        return np.asarray(special.gammaln(np.arange(most + 1) + 1.0))
    return np.array([exact_log_ratio(Fraction(math.factorial(n)), Fraction(1)) for n in range(most + 1)])


def exact_delta(schedule: Schedule, order: Fraction | int) -> Fraction:
    """H_order(P || Q) of the composed finite pairs, in exact arithmetic; `order` is e^epsilon.

    >>> from tightrope.pairs.finite_pair import FiniteSupport
    >>> from tightrope.pairs.finite_pair import FinitePair
    >>> half = Fraction(1, 2)
    >>> coin = FinitePair(FiniteSupport((Fraction(3, 4), Fraction(1, 4))), FiniteSupport((half, half)))
    >>> exact_delta(Schedule([(coin, 2)]), Fraction(4, 3))
    Fraction(11, 48)
    """
    count = schedule.distinct_outcomes
    if count > MOST_EXACT:
        must = f"be finite, with at most {MOST_EXACT} outcomes"
        raise InvalidSetting("schedule", f"{count:g}", must, "Use delta() for a certified bracket.")
    total, finite = Fraction(0), Fraction(1)
    products = [(Fraction(1), Fraction(1))]
    for pair, times in schedule:
        products = [(p * a, q * b) for a, b in _exact_multisets(pair, times) for p, q in products]
        finite *= (1 - pair.infinite_mass) ** times
    for p, q in products:
        total += max(p - order * q, Fraction(0))
    return total + 1 - finite


def _exact_multisets(pair: Pair, times: int) -> Iterator[tuple[Fraction, Fraction]]:
    """(P, Q) mass of every count of levels with finite losses."""
    unfinished = [(times, Fraction(1), Fraction(1))]  # steps left to give to levels, P and Q mass so far
    for number, (a, b) in enumerate(pair.levels, start=1):
        before, unfinished = unfinished, []
        for left, p, q in before:
            for given in range(left + 1) if number < len(pair.levels) else (left,):
                ways = math.comb(left, given)
                more = left - given, ways * p * a**given, ways * q * b**given
                if given < left:
                    unfinished.append(more)
                else:
                    yield more[1:]
