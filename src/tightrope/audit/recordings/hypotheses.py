"""What each scheme says about batches of indices, as p-values.

Every scheme is put to several tests, which share the level: the p-value of a scheme is the smallest of its tests, each
divided by its share. Given their sizes, Poisson batches and batches without replacement are independent uniform subsets, and
so are the unions of epochs; most tests below are about such subsets, by their exact first three moments.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from tightrope.audit.finding import Scheme
from tightrope.audit.recordings.batches import Batches, Whole
from tightrope.audit.recordings.epochs import Epochs, log_falling, tried, ways_to_cut
from tightrope.audit.recordings.overlaps import (
    Moments,
    equal_draws,
    equal_draws_at_lags,
    seen_at_lags,
    shared,
    shared_at_lags,
)

UNEVEN = 0.3  # the standard deviation of weights, relative to their mean, that must be excluded before draws count as uniform
EVENNESS_SHARE = (
    3 / 4
)  # of the level: uniform draws and mild weights lie closer together than anything else does
SHARE = 1 / 36  # of the level, for each of at most nine other tests


@dataclass(frozen=True, kw_only=True)
class Clue:
    """One test: a p-value, what was seen, and its share of the level."""

    p_value: float
    saw: str
    share: float = SHARE


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A scheme with its p-value, the clue that weighs most against it, and the epochs that it would need."""

    scheme: Scheme
    p_value: float
    clue: Clue
    epochs: Epochs | None = None


def judged(scheme: Scheme, clues: Sequence[Clue], epochs: Epochs | None = None) -> Verdict:
    """All tests of one scheme as one p-value: 1 is shared out among the tests, so that it is valid whatever their dependence."""
    worst = min(clues, key=lambda clue: clue.p_value / clue.share)
    return Verdict(scheme=scheme, p_value=min(1.0, worst.p_value / worst.share), clue=worst, epochs=epochs)


def impossible(scheme: Scheme, saw: str) -> Verdict:
    """A scheme under which such batches never come."""
    return Verdict(scheme=scheme, p_value=0.0, clue=Clue(p_value=0.0, saw=saw, share=1.0))


class Tests:
    """The tests, each computed at most once."""

    __test__ = False  # not for pytest to collect

    def __init__(self, batches: Batches) -> None:
        self.batches = batches
        self.sizes, self.records, self.count = batches.sizes, batches.records, batches.count
        self.each_alone = np.arange(self.count)

    @cached_property
    def seen(self) -> Whole:
        """Pairs of equal draws by lag; entry 0 is within batches."""
        return seen_at_lags(self.batches)

    @cached_property
    def pairs(self) -> int:
        """Pairs of equal draws within and between all batches."""
        counts = self.batches.inclusions
        return int((counts * (counts - 1) // 2).sum())

    @cached_property
    def within(self) -> int:
        """Pairs of equal draws within batches."""
        return int(self.seen[0]) if self.batches.first_repeat is not None else 0

    @cached_property
    def cuts(self) -> list[Epochs]:
        """All ways to cut into epochs without a repeat."""
        return ways_to_cut(self.batches)

    @cached_property
    def unequal(self) -> bool:
        """Whether batch sizes vary."""
        return bool(self.sizes.min() != self.sizes.max())

    # tests of independent uniform subsets

    @cached_property
    def evenness(self) -> Clue:
        """Records come about equally often: all pairs of batches share as many records as independent ones."""
        return _evenness(self.pairs, shared(self.sizes, self.records))

    @cached_property
    def evenness_with_replacement(self) -> Clue:
        """The same for draws that may repeat within a batch."""
        return _evenness(self.pairs, equal_draws(np.array([self.batches.total]), self.records))

    @cached_property
    def favourite(self) -> Clue:
        """No record comes far more often than the others: one that does is no matter to evenness, and all to its own privacy.

        A record's count is a sum of independent events of mean probability rate; above its mean such a sum is at most as likely
        to be large as a binomial one (Hoeffding 1956).
        """
        return self._favourite(self.count, self.batches.total / self.count / self.records)

    @cached_property
    def favourite_with_replacement(self) -> Clue:
        """The same for draws that may repeat within a batch."""
        return self._favourite(self.batches.total, 1 / self.records)

    def _favourite(self, trials: int, rate: float) -> Clue:
        most = int(self.batches.inclusions.max())
        saw = f"one record came {most:,} times where {trials * rate:,.2g} are expected"
        if most < trials * rate + 1:
            return Clue(p_value=1.0, saw=saw)
        return Clue(
            p_value=min(1.0, self.records * float(special.bdtrc(most - 1, trials, min(rate, 1.0)))), saw=saw
        )

    @cached_property
    def neighbours(self) -> Clue:
        """Batches at any one distance share as many records as independent ones."""
        return self._lags(shared_at_lags(self.sizes, self.records, self.each_alone, len(self.seen) - 1))

    @cached_property
    def neighbours_with_replacement(self) -> Clue:
        """The same for draws that may repeat within a batch."""
        return self._lags(equal_draws_at_lags(self.sizes, self.records, len(self.seen) - 1))

    @cached_property
    def neighbours_with_weights(self) -> Clue:
        """The same where the mean over all distances is as it was seen, and given that, pairs fall like rare events."""
        scale = (self.pairs - self.within) / max(float(shared(self.sizes, self.records).mean), 1e-300)
        mean = scale * equal_draws_at_lags(self.sizes, self.records, len(self.seen) - 1).mean
        return self._lags(Moments(mean=mean, variance=mean, third=mean))

    def neighbours_across(self, epochs: Epochs) -> Clue:
        """Batches of different epochs share as many records as independent ones."""
        return self._lags(
            shared_at_lags(self.sizes, self.records, epochs.segment(self.count), len(self.seen) - 1)
        )

    def _lags(self, expected: Moments) -> Clue:
        values, means = expected.two_sided(self.seen[1:]), np.asarray(expected.mean)
        if not len(values):
            return Clue(p_value=1.0, saw="no record came twice")
        worst = int(np.argmin(values))
        saw = f"batches {worst + 1} apart share {int(self.seen[worst + 1]):,} records where {means[worst]:,.1f} are expected"
        return Clue(p_value=min(1.0, len(values) * float(values[worst])), saw=saw)

    @cached_property
    def spread(self) -> Clue:
        """Each batch holds indices from all over the dataset: one-way analysis of variance of the indices by batch.

        12 / (n (n+1)) sum b (mean index - middle)^2 has mean sum (1 - b/n) for independent batches and for epochs alike, and
        is close to chi-square with so many degrees of freedom; for tiny batches it varies less.
        """
        n, some = self.records, self.sizes[self.sizes > 0]
        return self._between(
            (n - 1) / 2,
            (n + 1) * n / 12,
            float((1 - some / n).sum()) if self.within == 0 else float(len(some)),
        )

    @cached_property
    def spread_with_weights(self) -> Clue:
        """The same around the mean and the variance that were seen."""
        drawn = self.batches.drawn.astype(float)
        return self._between(
            float(drawn.mean()), max(float(drawn.var()), 0.1), float((self.sizes > 0).sum()) - 1
        )

    def _between(self, middle: float, variance: float, freedom: float) -> Clue:
        if freedom < 1:
            return Clue(p_value=1.0, saw="batches hold nearly everything")
        off = np.abs(
            np.bincount(self.batches.batch, weights=self.batches.drawn - middle, minlength=self.count)
        )
        scale = np.maximum(self.sizes, 1) * variance
        # sums of indices are whole numbers: half a step towards the middle of the law
        low, high = (
            ((off + 0.5) ** 2 / scale)[self.sizes > 0].sum(),
            (np.maximum(off - 0.5, 0.0) ** 2 / scale).sum(),
        )
        tails = float(special.chdtr(freedom, low)), float(special.chdtrc(freedom, high))
        how = "closer together" if tails[0] < tails[1] else "further apart"
        return Clue(
            p_value=min(1.0, 2 * min(tails)),
            saw=f"mean indices of batches lie {how} than chance would have it",
        )

    @cached_property
    def top_index(self) -> Clue:
        """Indices go up to the last record: below index M all draws lie with probability at most (M / records)^draws."""
        beyond = int(self.batches.drawn[-1]) + 1
        log_chance = self.batches.total * math.log(beyond / self.records)
        return Clue(
            p_value=math.exp(log_chance),
            saw=f"no index above {beyond - 1:,} came, though there are {self.records:,} records",
        )

    @cached_property
    def recurrence(self) -> Clue:
        """No batch comes again as a whole: a pair of size b is equal with probability 1 / C(records, b)."""
        times = Counter(self.batches.signatures)
        again = max(
            (
                size
                for size, who in zip(self.sizes.tolist(), self.batches.signatures, strict=True)
                if times[who] > 1
            ),
            default=0,
        )
        if again == 0:
            return Clue(p_value=1.0, saw="no batch came twice")
        sizes, counts = np.unique(self.sizes[self.sizes >= again], return_counts=True)
        log_each = special.gammaln(sizes + 1.0) - log_falling(self.records, sizes)
        chance = float((counts * (counts - 1) / 2 * np.exp(log_each)).sum()) * len(np.unique(self.sizes))
        return Clue(p_value=min(1.0, chance), saw=f"a batch of {again:,} records came again as a whole")

    @cached_property
    def repeats(self) -> Clue:
        """Independent batches repeat records; the best of all cuts into epochs is paid for by their number."""
        best = min(self.cuts, key=lambda cut: cut.log_chance, default=None)
        if best is None:
            return Clue(p_value=1.0, saw="records come again at any distance")
        log_chance = best.log_chance + math.log(tried(self.count))
        within = f"an epoch of {best.length:,} batches" if best.length else "an epoch"
        return Clue(p_value=math.exp(min(log_chance, 0.0)), saw=f"no record came twice within {within}")

    # tests of sizes

    @cached_property
    def equal_sizes(self) -> Clue:
        """Not too many Poisson batches have the very same size."""
        n, total = float(self.records), float(self.batches.total)
        rate = total / (n * self.count)
        mode = _log_binomial(n, math.floor((n + 1) * rate), rate)
        return self._equal_sizes(mode, _log_binomial(n * self.count, total, rate))

    def equal_sizes_in(self, epochs: Epochs) -> Clue:
        """Nor do batches into which records fall at random: given an epoch's total, sizes are as if they had Poisson laws."""
        segment = epochs.segment(self.count)
        totals, lengths = np.bincount(segment, weights=self.sizes), np.bincount(segment)
        mean = self.batches.total / self.count
        given = sum(
            _log_poisson(total, mean * length)
            for total, length in zip(totals, lengths, strict=True)
            if length
        )
        return self._equal_sizes(_log_poisson(math.floor(mean), mean), given)

    def _equal_sizes(self, log_mode: float, log_given: float) -> Clue:
        """That m of B independent sizes are equal has probability at most C(B, m) mode^(m-1); given totals, divided by theirs."""
        size, most = Counter(self.sizes.tolist()).most_common(1)[0]
        log_chance = _log_choose(self.count, most) + (most - 1) * log_mode - log_given
        how_many = f"all {most:,}" if most == self.count else f"{most:,} of {self.count:,}"
        return Clue(p_value=math.exp(min(log_chance, 0.0)), saw=f"{how_many} batches hold {size:,} records")

    @cached_property
    def dispersion(self) -> Clue:
        """Sizes vary as they should: seen from the records, batches are drawn, each record having its number of them.

        Given these numbers, pairs of records share batches as independent uniform subsets do, and sum C(b, 2) counts that.
        """
        return self._dispersion([(self.sizes, self.batches.inclusions)])

    def dispersion_in(self, epochs: Epochs) -> Clue:
        """Within each epoch every record that comes falls into one batch, each equally likely."""
        segment = epochs.segment(self.count)
        sizes = [self.sizes[segment == number] for number in np.unique(segment)]
        return self._dispersion(
            [(inside, np.ones(int(inside.sum()), dtype=np.int64)) for inside in sizes if len(inside) > 2]
        )

    def _dispersion(self, groups: Sequence[tuple[Whole, Whole]]) -> Clue:
        seen = sum(float((sizes * (sizes - 1)).sum()) / 2 for sizes, _ in groups)
        each = [shared(inclusions, len(sizes)) for sizes, inclusions in groups]
        moments = Moments(
            **{name: sum(getattr(m, name) for m in each) for name in ("mean", "variance", "third")}
        )
        low, high = self.sizes.min(), self.sizes.max()
        saw = f"sizes lie between {low:,} and {high:,} and have the standard deviation {self.sizes.std():.3g}"
        # equal sizes are the very end of the lower tail, where the fitted law says 0, and have a test of their own
        return Clue(p_value=float(moments.two_sided(seen)) if self.unequal else 1.0, saw=saw)

    @cached_property
    def empty_batches(self) -> Clue:
        """Some batches are empty where many should be: at most (1 - P(empty))^B, as sizes of a given total repel each other."""
        n, count, total = float(self.records), self.count, float(self.batches.total)
        if self.sizes.min() == 0 or total > n * (count - 1):
            return Clue(p_value=1.0, saw="there are empty batches, or none is expected")
        chance = math.exp(min(_log_choose(n * (count - 1), total) - _log_choose(n * count, total), 0.0))
        return Clue(
            p_value=(1 - chance) ** count,
            saw=f"no batch is empty where about {chance * count:,.0f} are expected",
        )

    @cached_property
    def repeats_within(self) -> Clue:
        """Draws with replacement repeat records within batches."""
        if self.within == 0:
            log_chance = float(
                (log_falling(self.records, self.sizes) - self.sizes * math.log(self.records)).sum()
            )
            return Clue(p_value=math.exp(min(log_chance, 0.0)), saw="no record came twice within a batch")
        expected = equal_draws(self.sizes, self.records)
        saw = f"{self.within:,} repeats within batches where {expected.mean:,.1f} are expected"
        return Clue(p_value=float(expected.two_sided(self.within)), saw=saw)

    @cached_property
    def unevenness(self) -> Clue:
        """Weights that vary by UNEVEN make pairs of batches share 1 + UNEVEN^2 times as many records.

        The variance grows by as much, and by UNEVEN^2 S^3 / n^2 since a heavy record adds to many pairs at once.
        """
        with_repeats = self.within > 0
        uniform = (
            equal_draws(np.array([self.batches.total]), self.records)
            if with_repeats
            else shared(self.sizes, self.records)
        )
        excess, rate = UNEVEN**2, self.batches.total / self.count / self.records
        variance = uniform.variance * (1 + excess) + excess * self.batches.total**3 / self.records**2 * max(
            0.0, 1 - rate
        )
        weighted = Moments(mean=uniform.mean * (1 + excess), variance=variance, third=uniform.third)
        saw = f"batches share {self.pairs:,} records where weights that vary by {UNEVEN:.0%} make {weighted.mean:,.0f}"
        return Clue(p_value=float(weighted.tails(self.pairs)[0]), saw=saw, share=EVENNESS_SHARE)


def _evenness(pairs: int, expected: Moments) -> Clue:
    saw = f"batches share {pairs:,} records where {expected.mean:,.0f} are expected"
    return Clue(p_value=float(expected.two_sided(pairs)), saw=saw, share=EVENNESS_SHARE)


def _log_choose(n: float, k: float) -> float:
    return float(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))


def _log_binomial(n: float, k: float, rate: float) -> float:
    return _log_choose(n, k) + float(special.xlogy(k, rate) + special.xlog1py(n - k, -rate))


def _log_poisson(k: float, mean: float) -> float:
    return float(special.xlogy(k, mean) - mean - special.gammaln(k + 1))
