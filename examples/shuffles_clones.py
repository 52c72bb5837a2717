"""The shuffle model's clones, for one epoch of batches with normal noise: a published bound, computed here.

Feldman, McMillan and Talwar, "Hiding among the clones" (FOCS 2021, arXiv 2012.12803): their reduction to
binomial counts, evaluated without its closed form, and their allowance for randomizers that are private up to
delta0. Their later paper (arXiv 2208.04591) needs a condition that its erratum adds, and is not used.

The allowance adds (e^epsilon + 1) times how far, in total variation, all randomizers are moved to become
pure: (1 + e^-epsilon0 / 2) delta0 for each report. A direct argument needs no more wherever e^-epsilon0 <=
2/3. Let a and b be the laws of the two exchanged records, moved by at most delta0 to be e^epsilon0 apart.
Another report's law r falls short of m = e^-epsilon0 (a + b)/2 by at most e^-epsilon0 delta0 in all where a
and b are as they were, and by at most 2 e^-epsilon0 delta0 after they moved; raising r to m and taking as
much elsewhere moves it by that. With adaptive reports these distances still add up. So the bound here is
valid by itself; where epsilon0 is large this argument would allow less.

Every number here is a float of scipy, to about six digits; it is what the bound says and not a certified end.
"""

import math

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

LEFT_OUT = 1e-14  # mass of each tail of the number of clones, which is added to delta
LEAST_LOCAL = 0.41  # above ln 1.5, where the allowance is derived
GUESSES = 200  # of the epsilon0 at which normal noise is called private
CLOSE = 1e-4  # relative, how closely epsilon is searched for


def bound_by_clones(*, noise: float, batches: int, delta: float) -> float:
    """The least epsilon that clones give one record exchanged; infinite where that is none.

    Given who else is in a batch, an epoch permutes one record of each batch: as many reports as batches.
    """
    best = math.inf
    for local in np.linspace(0.1, math.log(batches) + 2, GUESSES):
        if local < LEAST_LOCAL:
            continue
        beyond = _normal_delta(2 / noise, local)

        def delta_at(epsilon: float, local: float = local, beyond: float = beyond) -> float:
            replaced = (math.exp(epsilon) + 1) * (1 + math.exp(-local) / 2) * batches * beyond
            return _clones_delta(epsilon, local, batches) + replaced

        low, high = 0.0, min(local, best)
        if delta_at(high) > delta:
            continue
        while high - low > CLOSE * high:
            middle = (low + high) / 2
            low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
        best = min(best, high)
    return best


def _normal_delta(shift: float, epsilon: float) -> float:
    """delta0 of N(shift, 1) beside N(0, 1) at epsilon."""
    far, near = -shift / 2 - epsilon / shift, shift / 2 - epsilon / shift
    return float(ndtr(near) - math.exp(epsilon) * ndtr(far))


def _clones_delta(epsilon: float, local: float, reports: int) -> float:
    """delta of A + Bernoulli(share) beside A + Bernoulli(1 - share), given C, which both tell.

    C is the number of clones, Binomial(reports - 1, e^-local), A is Binomial(C, 1/2), and share is e^local /
    (e^local + 1). With f the law of A, the ratio at k rises with f(k - 1) / f(k) = k / (C + 1 - k).
    """
    chance, share, grown = math.exp(-local), 1 / (1 + math.exp(-local)), math.exp(epsilon)
    kept, lost = share - grown * (1 - share), grown * share - (1 - share)
    if kept <= 0:  # epsilon is at least local
        return 2 * LEFT_OUT
    ends = binom.ppf(LEFT_OUT, reports - 1, chance), binom.isf(LEFT_OUT, reports - 1, chance)
    clones = np.arange(ends[0], ends[1] + 1)
    first = (
        np.floor(lost / (kept + lost) * (clones + 1)) + 1
    )  # where the first law is above e^epsilon of the other
    given = kept * binom.sf(first - 2, clones, 0.5) - lost * binom.sf(first - 1, clones, 0.5)
    return float(binom.pmf(clones, reports - 1, chance) @ np.maximum(given, 0)) + 2 * LEFT_OUT
