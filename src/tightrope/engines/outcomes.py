"""Finite supports: every outcome of the run counted, in floats that charge their rounding or in fractions."""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy import special

from tightrope.engines.face import NO_HINT, NOTHING, Errors, Hint, LogBounds
from tightrope.errors import InvalidSetting
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, exact_log_ratio
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule

MOST_OUTCOMES = 1_100_000  # that are counted in floats
MOST_EXACT = 200_000  # that are counted in fractions


class ExactOutcomes:
    """All total losses of a run with their probabilities: an exact sum, up to rounding that is charged.

    Each mass is off by at most `mass_rel_errors` relative to itself, each loss by at most `loss_abs_errors`.
    """

    def __init__(self, schedule: Schedule) -> None:
        log_masses, losses, mass_sizes, loss_sizes = (np.zeros(1) for _ in range(4))
        additions = 0  # in the longest sum behind a log mass or a loss
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
        order = np.argsort(losses)
        self.log_masses, self.losses = log_masses[order], losses[order]
        # A sum of n terms is off by at most n - 1 roundings of the sum of their sizes. The rest is for the
        # terms themselves (a product, and a logarithm or gammaln) and for the exponential of a log mass.
        self.mass_rel_errors = (16 + additions) * UNIT_ROUNDOFF * mass_sizes[order]
        self.loss_abs_errors = (8 + additions) * UNIT_ROUNDOFF * loss_sizes[order]
        self.infinite_below, self.infinite_above = schedule.log_infinite_mass

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "ExactOutcomes":
        """The sum is the same everywhere."""
        return self

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        epsilon_abs_error = 8 * UNIT_ROUNDOFF * abs(epsilon)
        farthest = float(self.loss_abs_errors.max()) + epsilon_abs_error
        first = int(np.searchsorted(self.losses, epsilon - farthest))  # no loss before can exceed epsilon
        log_masses, gain = self.log_masses[first:], np.maximum(-np.expm1(epsilon - self.losses[first:]), 0)
        top = float(log_masses.max(initial=-np.inf))
        value = error = 0.0
        if top > -math.inf:
            masses = np.exp(log_masses - top)
            # np.sum adds in pairs: 19 roundings in a block of 128, then one per doubling up to MOST_OUTCOMES
            rel_errors = self.mass_rel_errors[first:] + 48 * UNIT_ROUNDOFF
            gain_abs_errors = self.loss_abs_errors[first:] + epsilon_abs_error
            value = float(np.sum(masses * gain))
            error = float(np.sum(masses * (gain_abs_errors + gain * rel_errors))) * (1 + 48 * UNIT_ROUNDOFF)
        upper = _log_sum(top, value + error, self.infinite_above)
        if upper == -math.inf:
            return NOTHING
        lower = _log_sum(top, value - error, self.infinite_below)
        log_abs_error = 8 * UNIT_ROUNDOFF * abs(upper)  # of taking the logarithms
        share = 2 * log_abs_error
        share += math.exp(self.infinite_above - upper) - math.exp(self.infinite_below - upper)
        share += math.exp(top - upper) * 2 * error if error else 0.0
        upper = min(upper + log_abs_error, 0.0)
        return LogBounds(min(lower - log_abs_error, upper), upper, Errors(rounding=share))


def _log_sum(log_scale: float, value: float, log_more: float) -> float:
    """ln of e^log_scale * value + e^log_more, where a value that is not positive counts as 0."""
    return float(np.logaddexp(log_scale + math.log(value), log_more)) if value > 0 else log_more


def _multisets(pair: Pair, times: int) -> tuple[Floats, Floats, Floats, Floats]:
    """ln probability and loss of every count of levels; then, for both, the sum of the sizes of the terms.

    Each level takes some of the steps that are left, and an outcome with no steps left is done. So the work
    is proportional to the number of outcomes, whether there are many steps or many levels.
    """
    log_p = [exact_log_ratio(p, Fraction(1)) for p, _ in pair.levels]
    if times == 1:
        return np.array(log_p), np.array(pair.losses), np.abs(log_p), np.abs(pair.losses)
    whole = float(special.gammaln(times + 1.0))
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
        orders = special.gammaln(given + 1.0)  # 0 exactly where at most one step is given
        sums = sums + np.stack(
            [given * log_mass - orders, given * loss, orders - given * log_mass, given * abs(loss)]
        )
        left = left - given
        done.append(sums[:, left == 0])
        sums, left = sums[:, left > 0], left[left > 0]
    log_masses, losses, mass_sizes, loss_sizes = np.concatenate(done, axis=1)
    return log_masses, losses, mass_sizes, loss_sizes


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
