"""Whether batch sizes have a cap or a floor.

Given their sum, sizes that are drawn again when above a cap are Poisson sizes of which none happens to be
above it. So the largest size and the sum tell all that can be told without knowing the rate. Sizes that are
cut down to the cap crowd there as well.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from tightrope.audit.loaders.words import count as tell
from tightrope.audit.recordings.batches import Whole
from tightrope.audit.recordings.clues import CROWDED_SHARE, LARGEST_SHARE, Clue
from tightrope.audit.recordings.size_law import SizeLaw
from tightrope.numerics.floats import Floats

# in standard deviations of the sum of all sizes
STEP = 0.25  # between the sums that are tabulated
AROUND = 4.0  # how far a sum lies from its mean: six in 100,000 lie further, and are left out
DOUBT = 5.0  # how far the mean may lie from the sum that was seen
BEYOND_DOUBT = 6e-7  # how rarely it lies further

CLEARLY = 0.003  # of recordings; an end of the sizes that fewer reach by chance is looked at first
SELDOM = 0.01  # the weight of all other ends


@dataclass(frozen=True, kw_only=True)
class EndClues:
    """Of the largest and the smallest size: that it lies far enough out, and that not too many share it."""

    largest: tuple[Clue, Clue]
    smallest: tuple[Clue, Clue]


def weigh_ends(sizes: Whole, law: SizeLaw) -> EndClues:
    """Sizes have no cap and no floor, and no small batch is dropped."""
    smallest, largest = int(sizes.min()), int(sizes.max())
    at_top, at_bottom = int((sizes == largest).sum()), int((sizes == smallest).sum())
    top, bottom = int(law.place(np.array(largest))), len(law.chances) - 1 - int(law.place(np.array(smallest)))
    rows, count = tabulate_nearby(law), law.count
    above, below = law.expect_above(largest), law.expect_below(smallest)
    no_more = Clue(
        p_value=weigh_reach(rows, top, count),
        saw=f"no batch holds more than {tell(largest, 'record')} where {above:,.3g} are expected",
        share=LARGEST_SHARE,
    )
    no_fewer = Clue(
        p_value=weigh_reach(rows[:, ::-1], bottom, count),
        saw=f"no batch holds fewer than {tell(smallest, 'record')} where {below:,.3g} are expected",
    )
    crowded_top = Clue(
        p_value=_weigh_crowd(law.chances, top, at_top, count),
        saw=f"{_tell_times(at_top, count)} {tell(largest, 'record')}, and none holds more",
        share=CROWDED_SHARE,
    )
    crowded_bottom = Clue(
        p_value=_weigh_crowd(law.chances[::-1], bottom, at_bottom, count),
        saw=f"{_tell_times(at_bottom, count)} {tell(smallest, 'record')}, and none holds fewer",
        share=CROWDED_SHARE,
    )
    return EndClues(largest=(no_more, crowded_top), smallest=(no_fewer, crowded_bottom))


def _tell_times(times: int, count: int) -> str:
    return f"{times:,} of {count:,} batches {'hold' if times > 1 else 'holds'}"


def tabulate_nearby(law: SizeLaw) -> Floats:
    """For sums in steps around the one that was seen, a row of the chances of the same sizes, binomial."""
    n, everything = law.records, float(law.records * law.count)
    deviation = math.sqrt(law.total * (1 - law.total / everything))
    steps = round((AROUND + DOUBT) / STEP)
    rates = (law.total + STEP * deviation * np.arange(-steps, steps + 1)) / everything
    rates = np.clip(rates, 0.5 / everything, 1 - 0.5 / everything)
    x = law.least + np.arange(len(law.chances) - 1.0)
    ratios = np.concatenate([[0.0], np.cumsum(np.log(n - x) - np.log(x + 1))])
    logs = ratios + np.log(rates / (1 - rates))[:, None] * np.arange(len(ratios))
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def chance_none_beyond(rows: Floats, count: int) -> Floats:
    """For each sum and size, the chance that no size of this sum lies beyond: F^B P(S | none beyond) / P(S).

    Both sums are taken as normal, as those of many sizes are; with none beyond, it has a mean below S.
    """
    x = np.arange(rows.shape[1]) - rows.shape[1] / 2
    up_to = np.cumsum(rows, axis=1)
    safe = np.maximum(up_to, 1e-300)
    mean = np.cumsum(rows * x, axis=1) / safe
    variance = np.maximum(np.cumsum(rows * x**2, axis=1) / safe - mean**2, 1e-9)
    off = count * (mean - mean[:, -1:]) ** 2 / variance - np.log(variance[:, -1:] / variance)
    return np.asarray(np.minimum(up_to, 1.0) ** count * np.exp(np.minimum(-off / 2, 0.0)))


def weigh_reach(rows: Floats, place: int, count: int) -> float:
    """How rarely no size lies beyond the largest one. A row has the chances of sizes for one sum.

    Given the sum, none lies beyond with probability a. But sizes are whole numbers, and P(none beyond) of the
    next smaller one may be far below a: fewer recordings than a are as odd. Their share is averaged over the
    sums of a rate, and the worst rate within DOUBT counts (Berger and Boos 1994).
    """
    none_beyond = chance_none_beyond(rows, count)
    seen = none_beyond[len(rows) // 2, place]
    as_odd = np.where(none_beyond <= seen, none_beyond, 0.0).max(axis=1)
    nodes = np.arange(-AROUND, AROUND + STEP / 2, STEP)
    normal = np.exp(-(nodes**2) / 2)
    averages = np.convolve(as_odd, normal / normal.sum(), mode="valid")
    return min(1.0, float(averages.max()) + BEYOND_DOUBT)


def _weigh_crowd(chances: Floats, place: int, times: int, count: int) -> float:
    """The p-value of the pair (M, K): the largest size, and how many batches have it.

    With f and F the chances of size m and of at most m, t(m, k) = P(none beyond m, at least k at m) =
    F^B P(Bin(B, f/F) >= k). What is small is t(M, K) / w(M), with weight w = 1 where P(M <= m) is at most
    CLEARLY, and SELDOM elsewhere. It is at most s with probability at most the sum over m of the smaller of
    P(M = m) and s w(m).
    """
    up_to = np.minimum(np.cumsum(chances), 1.0)
    none_beyond = up_to**count
    weight = np.where(none_beyond <= CLEARLY, 1.0, SELDOM)
    at = min(float(chances[place] / up_to[place]), 1.0) if up_to[place] > 0 else 1.0
    score = float(none_beyond[place] * special.bdtrc(times - 1.0, count, at) / weight[place])
    return min(1.0, float(np.minimum(np.diff(none_beyond, prepend=0.0), score * weight).sum()))
