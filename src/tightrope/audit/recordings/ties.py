"""Records that come together, and batches that share too much.

Given their sizes, Poisson batches and batches without replacement are independent uniform subsets. A pair of
records that comes together in x batches is shared by C(x, 2) pairs of batches: what two batches have in
common tells which records are tied, without a look at every pair of records.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from tightrope.audit.recordings.batches import Batches, Whole
from tightrope.audit.recordings.clues import Clue
from tightrope.audit.recordings.overlaps import CountMoments, sum_over_pairs
from tightrope.numerics.floats import Floats

MOST_SHARED = 1_000_000  # entries that are sorted: a tenth of a second
BLOCK = 16  # neighbouring records that are kept or left out as one
FEWEST_RECORDS = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedRecords:
    """Entry k says that the pair of batches `pair[k]` shares record `record[k]`; sorted by pair.

    Both are numbers of their own. Where there would be too many entries, they are about some of the records
    only, or about the first batches, and `where` says so: what batches hold of these are again independent
    uniform subsets, of these sizes.
    """

    sizes: Whole
    records: int
    pair: Whole
    record: Whole
    where: str

    def tell(self, saw: str) -> str:
        """What was seen, with the records and batches it is about where these are not all."""
        return f"{self.where}, {saw}" if self.where else saw

    @cached_property
    def widths(self) -> Whole:
        """How many records each pair of batches shares that shares any."""
        return np.diff(np.flatnonzero(np.diff(self.pair, prepend=-1, append=-1)))

    @property
    def common(self) -> int:
        """How many pairs of records pairs of batches share."""
        return int((self.widths * (self.widths - 1) // 2).sum())

    def list_common(self) -> Whole:
        """A number for each pair of records that a pair of batches shares, as often as one does.

        Where there are far too many, only those of the first pairs of batches: none comes more often by that.
        """
        so_far = np.cumsum(self.widths * (self.widths - 1) // 2)
        first, second = _pair_up(self.widths[so_far <= 4 * MOST_SHARED])
        one, other = self.record[first], self.record[second]
        beyond = int(self.record.max(initial=0)) + 1
        return np.minimum(one, other) * beyond + np.maximum(one, other)


def list_shared(batches: Batches) -> SharedRecords:
    """What pairs of batches share, of as many records as can be listed."""
    part = _keep_some(batches)
    first, second = _pair_up(part.inclusions)
    pair = part.batch[first] * part.count + part.batch[second]
    # small numbers, since indices of records may be too large to be multiplied
    record = np.repeat(np.arange(len(part.inclusions)), part.inclusions)[first]
    order = np.argsort(pair)
    return SharedRecords(
        sizes=part.sizes,
        records=part.records,
        pair=pair[order],
        record=record[order],
        where=_tell_part(part, batches),
    )


def _tell_part(part: Batches, whole: Batches) -> str:
    some = f"among {part.records:,} of the records" if part.records < whole.records else ""
    first = f"in the first {part.count:,} batches" if part.count < whole.count else ""
    return " and ".join(filter(None, (some, first)))


def _pair_up(groups: Whole) -> tuple[Whole, Whole]:
    """All pairs of places in the same group, for groups of these sizes in a row."""
    places = np.arange(int(groups.sum()))
    later = np.repeat(np.cumsum(groups), groups) - places - 1  # in the same group
    first = np.repeat(places, later)
    return first, first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(later) - later, later)


def _keep_some(batches: Batches) -> Batches:
    """Of the records, and if that is not enough of the batches, as many as MOST_SHARED allows."""
    n, sizes = batches.records, batches.sizes.astype(float)
    twice = sum_over_pairs(sizes * (sizes - 1)) / (2.0 * n * max(n - 1, 1))
    share = min(1.0, MOST_SHARED / max(_count_shared(batches), 1), math.sqrt(MOST_SHARED / max(twice, 1.0)))
    every = min(math.ceil(1 / share), max(n // FEWEST_RECORDS, 1))
    part = batches.keep(every=every, block=BLOCK, first=batches.count) if every > 1 else batches
    too_many = _count_shared(part) / MOST_SHARED
    first = max(2, math.floor(batches.count / math.sqrt(too_many))) if too_many > 1 else batches.count
    return part.keep(every=1, block=BLOCK, first=first) if first < batches.count else part


def _count_shared(batches: Batches) -> int:
    return int((batches.inclusions * (batches.inclusions - 1) // 2).sum())


def weigh_ties(shared: SharedRecords) -> Clue:
    """Pairs of batches share pairs of records as often as independent ones do, by exact moments."""
    expected = common_moments(shared.sizes, shared.records)
    seen = shared.common
    saw = f"pairs of batches share {seen:,} pairs of records where {expected.mean:,.0f} are expected"
    return Clue(p_value=float(expected.p_values(seen)), saw=shared.tell(saw))


def weigh_closest_records(shared: SharedRecords) -> Clue:
    """No two records come together far too often.

    How often two given ones do is a sum of independent events of probability b (b-1) / (n (n-1)); above its
    mean it is at most as likely to be large as a binomial count (Hoeffding 1956). There are C(n, 2) pairs.
    """
    together = find_closest(shared)
    if together < 2:
        return Clue(p_value=1.0, saw=shared.tell("no two records came together twice"))
    p_value = float(chance_together(np.array(together), shared.sizes, shared.records))
    expected = expect_together(shared.sizes, shared.records)
    saw = f"two records came together {together:,} times where {expected:.2g} are expected"
    return Clue(p_value=p_value, saw=shared.tell(saw))


def find_closest(shared: SharedRecords) -> int:
    """How often those two records came together that did most often; 1 where none did twice."""
    _, times = np.unique(shared.list_common(), return_counts=True)
    most = int(times.max(initial=0))  # C(together, 2) pairs of batches
    return (1 + math.isqrt(1 + 8 * most)) // 2


def chance_together(times: Whole, sizes: Whole, records: int, *, trials: int | None = None) -> Floats:
    """A bound on the probability that any two records come together so often, in so many trials.

    Each batch is a trial, unless a record comes in one of several only: then these are one.
    """
    n, expected = float(records), expect_together(sizes, records)
    most = trials or len(sizes)
    chances = n * (n - 1) / 2 * special.bdtrc(times - 1.0, most, min(expected / most, 1.0))
    return np.where(times < expected + 1, 1.0, np.minimum(chances, 1.0))


def expect_together(sizes: Whole, records: int) -> float:
    """How often two given records come together on average."""
    n, b = float(records), sizes.astype(float)
    return float((b * (b - 1)).sum()) / (n * (n - 1))


def weigh_closest_batches(shared: SharedRecords) -> Clue:
    """No two batches share far too much: P(any shares k records) <= sum of C(b_i, k) C(b_j, k) / C(n, k)."""
    widest = int(shared.widths.max(initial=0))
    if widest < 2:
        return Clue(p_value=1.0, saw=shared.tell("no two batches share two records"))
    logs = _log_choose(shared.sizes.astype(float), widest)
    scale = float(logs.max())
    log_all = float(_log_choose(np.array([float(shared.records)]), widest)[0])
    chance = sum_over_pairs(np.exp(logs - scale)) * math.exp(min(2 * scale - log_all, 700.0))
    return Clue(p_value=min(1.0, chance), saw=shared.tell(f"two batches have {widest:,} records in common"))


def _log_choose(n: Floats, k: int) -> Floats:
    logs = special.gammaln(n + 1) - special.gammaln(k + 1.0) - special.gammaln(np.maximum(n - k, 0.0) + 1)
    return np.where(n < k, -np.inf, logs)


def common_moments(sizes: Whole, records: int) -> CountMoments:
    """Pairs of records in common, summed over all pairs of independent uniform subsets: three exact moments.

    Two batches that share O records share X = (O)_2 / 2 pairs of them, and E (O)_k = (b_i)_k (b_j)_k / (n)_k
    in falling powers. Different pairs of batches are uncorrelated, and of products of three only triangles
    count: sum over e of d_e l_e(i) l_e(j) l_e(k), where l_e(i) are the eigenvalues of the covariance of the
    pairs in batch i, and d_e = n - 1, n (n-3) / 2 their multiplicities (the Johnson scheme of pairs).

    >>> common_moments(np.array([2, 2]), 4).mean  # one of six pairs is the same
    0.1666...
    """
    n, b = float(records), sizes.astype(float)
    powers = [_falling(b, k) for k in range(7)]
    whole = [max(float(_falling(np.array(n), k)), 1.0) for k in range(7)]  # 1 where (b)_k is 0 as well

    def add(*factors: int, coefficient: float) -> float:
        product, scale = np.ones_like(b), 1.0
        for k in factors:
            product, scale = product * powers[k], scale * whole[k]
        return coefficient * sum_over_pairs(product) / scale

    square = {4: 1 / 4, 3: 1.0, 2: 1 / 2}  # X^2 in falling powers of O
    cube = {6: 1 / 8, 5: 12 / 8, 4: 38 / 8, 3: 4.0, 2: 1 / 2}
    mean = add(2, coefficient=1 / 2)
    variance = sum(add(k, coefficient=c) for k, c in square.items()) + add(2, 2, coefficient=-1 / 4)
    third = sum(add(k, coefficient=c) for k, c in cube.items()) + add(2, 2, 2, coefficient=1 / 4)
    third += sum(add(2, k, coefficient=-1.5 * c) for k, c in square.items())
    two, three, four = (powers[k] / whole[k] for k in (2, 3, 4))
    along, across = two + (n - 4) * three - (n - 3) * four, two - 2 * three + four
    third += 6 * ((n - 1) * _sum_over_triangles(along) + n * (n - 3) / 2 * _sum_over_triangles(across))
    return CountMoments(mean=mean, variance=variance, third=third)


def _falling(values: Floats, k: int) -> Floats:
    result = np.ones_like(values)
    for step in range(k):
        result = result * np.maximum(values - step, 0.0)
    return result


def _sum_over_triangles(values: Floats) -> float:
    first, second, third = values.sum(), (values**2).sum(), (values**3).sum()
    return float(first**3 - 3 * first * second + 2 * third) / 6
