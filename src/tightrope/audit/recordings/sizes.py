"""Tests of batch sizes against their whole law.

Sizes of a given sum repel each other, but hardly where batches are many: counts of sizes are taken as
binomial below, and the p-values are compared with simulated recordings in the tests.
"""

import math
from collections import Counter

import numpy as np
from scipy import special

from tightrope.audit.loaders.words import count as tell
from tightrope.audit.recordings.batches import Whole
from tightrope.audit.recordings.clues import Clue
from tightrope.audit.recordings.overlaps import MOST_LAGS, correlate_at_lags
from tightrope.audit.recordings.size_law import REACH, SizeLaw

FEWEST_EXPECTED = 8.0  # batches per cell of the chi-square statistic
DIVISORS = (*range(2, 65), 100, 128, 256, 500, 512, 1000, 1024)  # what sizes may be rounded to
FEWEST_PAIRS = 20  # of batches, for a correlation of their sizes


def weigh_whole_law(sizes: Whole, law: SizeLaw) -> Clue:
    """Sizes fall as often everywhere as they should: Pearson's chi-square over merged sizes.

    With K cells and a rate that was estimated, its law lies between chi-square with K - 2 and with K - 1
    degrees of freedom. Cells of few expected batches make its tail heavier: four times the larger law.
    """
    cells = _merge(law)
    if len(cells) < 3:
        return Clue(p_value=1.0, saw="batches are too few to compare their sizes with a law")
    expected = law.count * np.add.reduceat(law.chances, cells)
    seen = np.bincount(np.searchsorted(cells, law.place(sizes), side="right") - 1, minlength=len(cells))
    off = (seen - expected) ** 2 / expected
    worst = int(np.argmax(off))
    ends = [*cells.tolist(), len(law.chances)]
    first, last = law.least + ends[worst], law.least + ends[worst + 1] - 1
    where = _tell_range(first, last, is_first=worst == 0, is_last=worst == len(cells) - 1)
    saw = f"{seen[worst]:,} of {law.count:,} batches hold {where} where {expected[worst]:,.1f} are expected"
    return Clue(p_value=min(1.0, 4 * float(special.chdtrc(len(cells) - 1, off.sum()))), saw=saw)


def _merge(law: SizeLaw) -> Whole:
    """The places where cells begin: as fine as FEWEST_EXPECTED allows."""
    expected = law.count * np.cumsum(law.chances)
    starts = [0]
    for place, so_far in enumerate(expected.tolist()):
        begun = float(expected[starts[-1] - 1]) if starts[-1] else 0.0
        if so_far - begun >= FEWEST_EXPECTED and expected[-1] - so_far >= FEWEST_EXPECTED:
            starts.append(place + 1)
    return np.array(starts)


def _tell_range(first: int, last: int, *, is_first: bool, is_last: bool) -> str:
    if is_first:
        return f"{tell(last, 'record')} or fewer"
    if is_last:
        return f"{tell(first, 'record')} or more"
    return tell(first, "record") if first == last else f"{first:,} to {last:,} records"


def weigh_remainders(sizes: Whole, law: SizeLaw) -> Clue:
    """Sizes are not rounded: for no divisor does one remainder come too often. Its count is binomial."""
    possible = law.least + np.arange(len(law.chances))
    divisors = [divisor for divisor in DIVISORS if divisor <= len(law.chances) / REACH]
    found = []
    for divisor in divisors:
        chance = np.minimum(np.bincount(possible % divisor, weights=law.chances, minlength=divisor), 1.0)
        seen = np.bincount(sizes % divisor, minlength=divisor)
        tails = np.where(seen > 0, special.bdtrc(np.maximum(seen, 1) - 1.0, law.count, chance), 1.0)
        rest = int(np.argmin(tails))
        p_value = min(1.0, len(divisors) * divisor * float(tails[rest]))
        leave = f"leave {rest} when divided by {divisor}" if rest else f"are multiples of {divisor}"
        expected = f"where {law.count * chance[rest]:,.0f} are expected"
        saw = f"{seen[rest]:,} of {law.count:,} sizes {leave} {expected}"
        found.append(Clue(p_value=p_value, saw=saw))
    none = Clue(p_value=1.0, saw="sizes vary too little to tell whether they are rounded")
    return min(found, key=lambda clue: clue.p_value, default=none)


def weigh_order(sizes: Whole) -> Clue:
    """A size does not tell the next ones: correlations of their roots at each distance, by Student's law.

    It has B - lag - 2 degrees of freedom. Four times the tail: roots of sizes are not quite normal.
    """
    lags = min(MOST_LAGS, len(sizes) - FEWEST_PAIRS)
    if lags < 1 or sizes.min() == sizes.max():
        return Clue(
            p_value=1.0, saw="batches are too few to compare sizes in their order, or all of one size"
        )
    roots = np.sqrt(sizes)
    off = roots - roots.mean()
    at = np.arange(1, lags + 1)
    squares = np.concatenate([[0.0], np.cumsum(off**2)])
    earlier, later = squares[len(sizes) - at], squares[-1] - squares[at]
    values = correlate_at_lags(off, lags) / np.sqrt(np.maximum(earlier * later, 1e-300))
    freedom = len(sizes) - 2.0 - at
    student = np.abs(values) * np.sqrt(freedom / np.maximum(1 - values**2, 1e-300))
    tails = 2 * special.stdtr(freedom, -student)
    worst = int(np.argmin(tails))
    apart = f"{worst + 1} batches apart" if worst else "of neighbouring batches"
    saw = f"the square roots of sizes {apart} have the correlation {values[worst]:.2f}"
    return Clue(p_value=min(1.0, 4 * lags * float(tails[worst])), saw=saw)


def weigh_equal_sizes(sizes: Whole, log_mode: float, log_given: float) -> Clue:
    """P(m of B independent sizes equal) <= C(B, m) mode^(m-1) / (probability of their totals)."""
    size, most = Counter(sizes.tolist()).most_common(1)[0]
    log_chance = log_choose(len(sizes), most) + (most - 1) * log_mode - log_given
    how_many = f"all {most:,}" if most == len(sizes) else f"{most:,} of {len(sizes):,}"
    return Clue(p_value=math.exp(min(log_chance, 0.0)), saw=f"{how_many} batches hold {tell(size, 'record')}")


def log_choose(n: float, k: float) -> float:
    """ln C(n, k)."""
    return float(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))


def log_binomial(n: float, k: float, rate: float) -> float:
    """ln P(Bin(n, rate) = k)."""
    return log_choose(n, k) + float(special.xlogy(k, rate) + special.xlog1py(n - k, -rate))


def log_poisson(k: float, mean: float) -> float:
    """ln P(Poisson(mean) = k)."""
    return float(special.xlogy(k, mean) - mean - special.gammaln(k + 1))
