"""How many records batches share when they are drawn uniformly and independently, by exact moments."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import fft, special

from tightrope.audit.recordings.batches import Batches, Whole
from tightrope.numerics.floats import Floats

MOST_LAGS = 256
LONGEST_DIRECT = 1024  # values whose products at all distances are summed one by one
MOST_PAIRS = 4_000_000  # pairs of occurrences of one record that are looked at: tens of milliseconds
NORMAL_FROM = 1e8  # degrees of freedom beyond which the skewness (below 3e-4) no longer shows


@dataclass(frozen=True, kw_only=True)
class CountMoments:
    """Mean, variance and third central moment of one count, or of many."""

    mean: Floats | float
    variance: Floats | float
    third: Floats | float

    def tails(self, seen: Floats | Whole | float) -> tuple[Floats, Floats]:
        """P(at most seen) and P(at least seen), by the shifted chi-square law with these moments.

        Its tail is exponential, so it lies above the tail of counts, which falls like a Poisson tail or
        faster.
        """
        excess = np.asarray(seen - self.mean, dtype=float)
        below = _below(excess + 0.5, self.variance, self.third)
        return below, _below(0.5 - excess, self.variance, -self.third)

    def p_values(self, seen: Floats | Whole | float) -> Floats:
        """Four times the smaller tail: two sides, and a fitted tail may be 1.5 (at 1e-4) to 3 times low."""
        return np.asarray(np.minimum(1.0, 4 * np.minimum(*self.tails(seen))))


def _below(excess: Floats, variance: Floats | float, third: Floats | float) -> Floats:
    """P(X - mean <= excess)."""
    variance, third = np.asarray(variance, dtype=float), np.asarray(third, dtype=float)
    is_certain = variance < 1e-12
    v, t = np.where(is_certain, 1.0, variance), np.where(third == 0, 1e-300, third)
    with np.errstate(over="ignore"):  # infinite freedom is a normal law, as below
        freedom = 8 * v * (v / t) ** 2
    half = np.minimum(freedom, NORMAL_FROM) / 2
    x = np.maximum(half + excess * 2 * v / t, 0.0)
    skewed = np.where(t > 0, special.gammainc(half, x), special.gammaincc(half, x))
    result = np.where(freedom >= NORMAL_FROM, special.ndtr(excess / np.sqrt(v)), skewed)
    return np.asarray(np.where(is_certain, excess >= 0, result))


def overlap_moments(sizes: Whole, population: int) -> CountMoments:
    """Records in common, summed over all pairs of independent uniform subsets of the given sizes.

    With n = population, h = b (n - b) and f = h (n - 2b), one pair (i, j) has mean b_i b_j / n, variance
    h_i h_j / (n^2 (n-1)) and third moment f_i f_j / (n^3 (n-1) (n-2)). Pairs are uncorrelated, and of the
    products of three only triangles count, each with h_i h_j h_k / (n^3 (n-1)^2).

    >>> overlap_moments(np.array([1, 1, 1]), 4).mean  # three pairs, each equal with probability 1/4
    0.75
    """
    n = float(population)
    b = sizes.astype(float)
    h = b * (n - b)
    f = h * (n - 2 * b)
    first, second, third = h.sum(), (h**2).sum(), (h**3).sum()
    triangles = (first**3 - 3 * first * second + 2 * third) / 6
    return _of_pairs(
        sum_over_pairs(b), sum_over_pairs(h), sum_over_pairs(f), n, 6 * triangles / (n**3 * (n - 1) ** 2)
    )


def overlap_moments_at_lags(sizes: Whole, population: int, segment: Whole, lags: int) -> CountMoments:
    """The same over pairs of batches j and j + lag of different segments, for lag = 1, 2, ..., lags."""
    n = float(population)
    b = sizes.astype(float)
    h = b * (n - b)
    means, variances, thirds = _across([b, h, h * (n - 2 * b)], segment, lags)
    return _of_pairs(means, variances, thirds, n, 0.0)


def equal_draw_moments(groups: Whole, population: int) -> CountMoments:
    """Pairs of equal draws within groups of b independent uniform draws with replacement.

    With p = 1 / population a pair has mean p, variance p (1-p), third moment p (1-p) (1-2p), a triangle p^2
    (1-p).
    """
    p = 1 / population
    b = groups.astype(float)
    pairs, triples = (b * (b - 1)).sum() / 2, (b * (b - 1) * (b - 2)).sum() / 6
    return _of_draws(pairs, triples, p)


def equal_draw_moments_at_lags(sizes: Whole, population: int, lags: int) -> CountMoments:
    """Pairs of equal draws, one from batch j and one from batch j + lag, for draws with replacement."""
    (pairs,) = _across([sizes.astype(float)], np.arange(len(sizes)), lags)
    return _of_draws(pairs, 0.0, 1 / population)


def missing_moments(sizes: Whole, population: int) -> CountMoments:
    """Members of the population in none of independent uniform subsets, each of which leaves out two or more.

    With q = prod (1 - b/n) and n = population, the mean is n q, and two given ones are both missing with
    probability q^2 prod (1 - b / ((n-1) (n-b))). The third moment is that of a binomial count of this
    mean and variance.
    """
    n, b = float(population), sizes.astype(float)
    mean = n * math.exp(float(np.log1p(-b / n).sum()))
    log_both = float(np.log1p(-b / ((n - 1) * (n - b))).sum())
    variance = max(mean + mean**2 * (math.expm1(log_both) - math.exp(log_both) / n), 0.0)
    third = variance * (2 * variance / max(mean, 1e-300) - 1)
    return CountMoments(mean=mean, variance=variance, third=third)


def count_overlaps_at_lags(batches: Batches) -> Whole:
    """How many records batches share with the batch `lag` later, in all; entry 0 counts repeats within one.

    Only complete entries are kept: two draws of one record that are k apart in its list are at least k
    batches apart.
    """
    drawn, batch = batches.drawn, batches.batch
    most = int(batches.inclusions.max(initial=0)) - 1
    steps = min(most, max(1, MOST_PAIRS // max(batches.total, 1)))
    lags = min(batches.count - 1 if steps >= most else steps, MOST_LAGS)
    seen = np.zeros(lags + 1, dtype=np.int64)
    for step in range(1, steps + 1):
        gaps = (batch[step:] - batch[:-step])[drawn[step:] == drawn[:-step]]
        seen += np.bincount(gaps[gaps <= lags], minlength=lags + 1)
    return seen


def _of_pairs(
    b: Floats | float, h: Floats | float, f: Floats | float, n: float, triangles: float
) -> CountMoments:
    third = f / (n**3 * (n - 1) * (n - 2)) + triangles
    return CountMoments(mean=b / n, variance=h / (n**2 * (n - 1)), third=third)


def _of_draws(pairs: Floats | float, triples: float, p: float) -> CountMoments:
    one = p * (1 - p)
    third = pairs * (one * (1 - 2 * p)) + 6 * triples * p * one
    return CountMoments(mean=pairs * p, variance=pairs * one, third=third)


def sum_over_pairs(values: Floats) -> float:
    """The sum of value i times value j over all pairs i < j."""
    return float(values.sum() ** 2 - (values**2).sum()) / 2


def _across(rows: list[Floats], segment: Whole, lags: int) -> list[Floats]:
    """For each row and lag, the sum of value j times value j + lag over pairs in different segments."""
    bounds = np.flatnonzero(np.diff(segment, prepend=segment[0] - 1, append=segment[-1] + 1))
    parts = [slice(start, end) for start, end in pairwise(bounds.tolist()) if end - start > 1]

    def sum_products(values: Floats) -> Floats:
        total = correlate_at_lags(values, lags)
        for part in parts:
            total -= correlate_at_lags(values[part], lags)
        return total

    some = sum_products(np.ones(len(segment))) > 0.5  # where no pair is left, rounding must not look like one
    return [np.where(some, sum_products(values), 0.0) for values in rows]


def correlate_at_lags(values: Floats, lags: int) -> Floats:
    """The sum of value j times value j + lag, for lag = 1, 2, ..., lags."""
    within = min(lags, len(values) - 1)
    found = np.zeros(lags)
    if len(values) <= LONGEST_DIRECT:
        found[:within] = np.correlate(values, values, "full")[len(values) : len(values) + within]
    else:  # by Fourier transforms, padded so that no value meets one from the other end
        size = fft.next_fast_len(len(values) + within, real=True)
        squares = np.abs(fft.rfft(values, size)) ** 2
        found[:within] = fft.irfft(squares, size)[1 : within + 1]
    return found
