"""What each scheme says about batches of indices, as p-values.

Every scheme is put to several tests that share the level: its p-value is the smallest of theirs, each divided
by its share. Given their sizes, Poisson batches and batches without replacement are independent uniform
subsets, and so are the unions of epochs. Most tests below are about such subsets, by their exact first three
moments.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from scipy import special

from tightrope.audit.loaders.words import count as tell
from tightrope.audit.recordings import ends, sizes, ties
from tightrope.audit.recordings.batches import Batches, Whole
from tightrope.audit.recordings.clues import EVENNESS_SHARE, LEVEL, UNEVEN, Clue
from tightrope.audit.recordings.epochs import EpochCut, count_cuts, find_cuts, log_falling
from tightrope.audit.recordings.overlaps import (
    CountMoments,
    count_overlaps_at_lags,
    equal_draw_moments,
    equal_draw_moments_at_lags,
    missing_moments,
    overlap_moments,
    overlap_moments_at_lags,
)
from tightrope.audit.recordings.size_law import SizeLaw, find_size_law
from tightrope.numerics.floats import Floats

UNCUT = "every cut into epochs that was tried has a record twice within an epoch"


class BatchStatistics:
    """The tests, each computed at most once."""

    __test__ = False  # not for pytest to collect

    def __init__(self, batches: Batches) -> None:
        self.batches = batches
        self.sizes, self.records, self.count = batches.sizes, batches.records, batches.count
        self.each_alone = np.arange(self.count)

    @cached_property
    def seen(self) -> Whole:
        """Pairs of equal draws by lag; entry 0 is within batches."""
        return count_overlaps_at_lags(self.batches)

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
    def cuts(self) -> list[EpochCut]:
        """All ways to cut into epochs without a repeat."""
        return find_cuts(self.batches)

    @cached_property
    def unequal(self) -> bool:
        """Whether batch sizes vary."""
        return bool(self.sizes.min() != self.sizes.max())

    @property
    def range_of_sizes(self) -> str:
        """From the smallest to the largest, in words."""
        return f"sizes vary from {self.sizes.min():,} to {self.sizes.max():,}"

    # tests of independent uniform subsets

    @cached_property
    def evenness(self) -> Clue:
        """Records come about equally often: pairs of batches share as many records as independent ones."""
        return self.compare_pairs("batches", overlap_moments(self.sizes, self.records))

    @cached_property
    def evenness_with_replacement(self) -> Clue:
        """The same for draws that may repeat within a batch."""
        return self.compare_pairs("batches", equal_draw_moments(np.array([self.batches.total]), self.records))

    @cached_property
    def is_uneven(self) -> bool:
        """Whether some records certainly come more often than others."""
        clue = self.evenness_with_replacement if self.within else self.evenness
        expected = float(overlap_moments(self.sizes, self.records).mean)
        return clue.weighed < LEVEL and self.pairs > expected

    def compare_pairs(self, who: str, expected: CountMoments) -> Clue:
        """Pairs of equal draws against the number that is expected."""
        saw = f"pairs of {who} have {self.pairs:,} records in common where {expected.mean:,.0f} are expected"
        return Clue(p_value=float(expected.p_values(self.pairs)), saw=saw, share=EVENNESS_SHARE)

    @cached_property
    def favourite(self) -> Clue:
        """No record comes far more often than the others; evenness hardly notices one that does.

        A record's count is a sum of independent events of mean probability rate. Above its mean such a sum is
        at most as likely to be large as a binomial one (Hoeffding 1956).
        """
        return self._favourite(self.count, self.batches.total / self.count / self.records)

    @cached_property
    def favourite_with_replacement(self) -> Clue:
        """The same for draws that may repeat within a batch."""
        return self._favourite(self.batches.total, 1 / self.records)

    def _favourite(self, trials: int, rate: float) -> Clue:
        most = int(self.batches.inclusions.max())
        saw = f"a record came {most:,} times where {trials * rate:,.2g} are expected"
        if most < trials * rate + 1:
            return Clue(p_value=1.0, saw=saw)
        each = float(special.bdtrc(most - 1, trials, min(rate, 1.0)))
        return Clue(p_value=min(1.0, self.records * each), saw=saw)

    @cached_property
    def left_out(self) -> Clue:
        """As many records never come as chance leaves out."""
        if self.sizes.max() > self.records - 2:
            return Clue(p_value=1.0, saw="a batch holds nearly all records")
        expected = missing_moments(self.sizes, self.records)
        never = self.records - len(self.batches.inclusions)
        saw = f"{never:,} records never came where {expected.mean:,.3g} are expected"
        return Clue(p_value=float(expected.p_values(never)), saw=saw)

    @cached_property
    def shared(self) -> ties.SharedRecords:
        """What pairs of batches have in common."""
        return ties.list_shared(self.batches)

    @cached_property
    def tied(self) -> list[Clue]:
        """No records come together, and no batches share records, more often than by chance."""
        by_shared = (ties.weigh_ties, ties.weigh_closest_records, ties.weigh_closest_batches)
        return [weigh(self.shared) for weigh in by_shared]

    @cached_property
    def neighbours(self) -> Clue:
        """Batches at any one distance share as many records as independent ones."""
        return self._lags(
            overlap_moments_at_lags(self.sizes, self.records, self.each_alone, len(self.seen) - 1)
        )

    @cached_property
    def neighbours_with_replacement(self) -> Clue:
        """The same for draws that may repeat within a batch."""
        return self._lags(equal_draw_moments_at_lags(self.sizes, self.records, len(self.seen) - 1))

    @cached_property
    def neighbours_with_weights(self) -> Clue:
        """The same with the mean over all distances as seen; given that, pairs fall like rare events."""
        expected = float(overlap_moments(self.sizes, self.records).mean)
        scale = (self.pairs - self.within) / max(expected, 1e-300)
        mean = scale * equal_draw_moments_at_lags(self.sizes, self.records, len(self.seen) - 1).mean
        return self._lags(CountMoments(mean=mean, variance=mean, third=mean))

    def neighbours_across(self, epochs: EpochCut) -> Clue:
        """Batches of different epochs share as many records as independent ones."""
        segment = epochs.segment(self.count)
        return self._lags(overlap_moments_at_lags(self.sizes, self.records, segment, len(self.seen) - 1))

    def _lags(self, expected: CountMoments) -> Clue:
        values, means = expected.p_values(self.seen[1:]), np.asarray(expected.mean)
        if not len(values):
            return Clue(p_value=1.0, saw="no record came twice")
        worst = int(np.argmin(values))
        shared = int(self.seen[worst + 1])
        who = f"batches {worst + 1} apart" if worst else "neighbouring batches"
        saw = f"{who} have {shared:,} records in common where {means[worst]:,.1f} are expected"
        return Clue(p_value=min(1.0, len(values) * float(values[worst])), saw=saw)

    @cached_property
    def spread(self) -> Clue:
        """Batches hold indices from all over the dataset: one-way analysis of variance of indices by batch.

        12 / (n (n+1)) sum b (mean index - middle)^2 has mean sum (1 - b/n), for independent batches as for
        epochs. It is close to chi-square with so many degrees of freedom; for tiny batches it varies less.
        """
        n, some = self.records, self.sizes[self.sizes > 0]
        freedom = float((1 - some / n).sum()) if self.within == 0 else float(len(some))
        return self._between((n - 1) / 2, (n + 1) * n / 12, freedom)

    @cached_property
    def spread_with_weights(self) -> Clue:
        """The same around the mean and the variance that were seen."""
        drawn = self.batches.drawn.astype(float)
        freedom = float((self.sizes > 0).sum()) - 1
        return self._between(float(drawn.mean()), max(float(drawn.var()), 0.1), freedom)

    def _between(self, middle: float, variance: float, freedom: float) -> Clue:
        if freedom < 1:
            return Clue(p_value=1.0, saw="batches hold nearly all records")
        batch, off_middle = self.batches.batch, self.batches.drawn - middle
        off = np.abs(np.bincount(batch, weights=off_middle, minlength=self.count))
        scale = np.maximum(self.sizes, 1) * variance
        # sums of indices are whole numbers: half a step towards the middle of the law
        low = ((off + 0.5) ** 2 / scale)[self.sizes > 0].sum()
        high = (np.maximum(off - 0.5, 0.0) ** 2 / scale).sum()
        tails = float(special.chdtr(freedom, low)), float(special.chdtrc(freedom, high))
        how = "closer together" if tails[0] < tails[1] else "further apart"
        saw = f"the mean indices of batches lie {how} than those of random ones"
        return Clue(p_value=min(1.0, 2 * min(tails)), saw=saw)

    @cached_property
    def top_index(self) -> Clue:
        """Indices go up to the last record: all lie below M with probability at most (M / records)^draws."""
        beyond = int(self.batches.drawn[-1]) + 1
        log_chance = self.batches.total * math.log(beyond / self.records)
        saw = f"no index above {beyond - 1:,} came, though there are {self.records:,} records"
        return Clue(p_value=math.exp(log_chance), saw=saw)

    @cached_property
    def recurrence(self) -> Clue:
        """No batch comes again as a whole: a pair of size b is equal with probability 1 / C(records, b).

        For draws with replacement it is at most b! / records^b, which is less.
        """
        return self._recurrence(lambda each: special.gammaln(each + 1.0) - log_falling(self.records, each))

    @cached_property
    def recurrence_with_weights(self) -> Clue:
        """The same where two draws are equal as often as was seen, c: at most b! c^b."""
        equal = (self.pairs - self.within) / max(overlap_moments(self.sizes, self.records).mean, 1e-300)
        log_equal = math.log(min(max(equal, 1e-300) / self.records, 1.0))
        return self._recurrence(lambda each: np.minimum(special.gammaln(each + 1.0) + each * log_equal, 0.0))

    def _recurrence(self, log_equal: Callable[[Whole], Floats]) -> Clue:
        """Pairs of equal batches as large as the largest that came again or larger; it may be of any size."""
        times = Counter(self.batches.signatures)
        members = zip(self.sizes.tolist(), self.batches.signatures, strict=True)
        again = max((size for size, who in members if times[who] > 1), default=0)
        if again == 0:
            return Clue(p_value=1.0, saw="no batch that holds a record came twice")
        each, counts = np.unique(self.sizes[self.sizes >= again], return_counts=True)
        chance = float((counts * (counts - 1) / 2 * np.exp(log_equal(each))).sum()) * len(
            np.unique(self.sizes)
        )
        return Clue(p_value=min(1.0, chance), saw=f"a batch of {tell(again, 'record')} came a second time")

    @cached_property
    def repeats(self) -> Clue:
        """Independent batches repeat records; choosing the best cut into epochs costs their number."""
        best = min(self.cuts, key=lambda cut: cut.log_chance, default=None)
        if best is None:
            return Clue(p_value=1.0, saw=UNCUT)
        log_chance = best.log_chance + math.log(count_cuts(self.count))
        within = f"an epoch of {best.length:,} batches" if best.length else "an epoch"
        return Clue(p_value=math.exp(min(log_chance, 0.0)), saw=f"no record came twice within {within}")

    # tests of sizes

    @cached_property
    def size_law(self) -> SizeLaw:
        """The law of the size of a Poisson batch, given the total."""
        return find_size_law(self.sizes, self.records)

    @cached_property
    def ends_of_sizes(self) -> ends.EndClues:
        """Poisson batches are neither capped nor padded, and small ones are not dropped."""
        return ends.weigh_ends(self.sizes, self.size_law)

    @cached_property
    def law_of_sizes(self) -> list[Clue]:
        """Sizes follow the whole binomial law: everywhere, at both ends, undivided and in no order."""
        everywhere = sizes.weigh_whole_law(self.sizes, self.size_law)
        rounded = sizes.weigh_remainders(self.sizes, self.size_law)
        inside = [everywhere, rounded, sizes.weigh_order(self.sizes), self.equal_sizes, self.dispersion]
        return [*self.ends_of_sizes.largest, *self.ends_of_sizes.smallest, *inside]

    @cached_property
    def equal_sizes(self) -> Clue:
        """Not too many Poisson batches have the very same size."""
        n, total = float(self.records), float(self.batches.total)
        rate = total / (n * self.count)
        mode = sizes.log_binomial(n, math.floor((n + 1) * rate), rate)
        return sizes.weigh_equal_sizes(self.sizes, mode, sizes.log_binomial(n * self.count, total, rate))

    def equal_sizes_in(self, epochs: EpochCut) -> Clue:
        """The same for records that fall at random: given an epoch's total, sizes are like Poisson."""
        segment = epochs.segment(self.count)
        totals, lengths = np.bincount(segment, weights=self.sizes), np.bincount(segment)
        mean = self.batches.total / self.count
        epochs_met = ((total, length) for total, length in zip(totals, lengths, strict=True) if length)
        log_given = sum(sizes.log_poisson(total, mean * length) for total, length in epochs_met)
        return sizes.weigh_equal_sizes(self.sizes, sizes.log_poisson(math.floor(mean), mean), log_given)

    @cached_property
    def dispersion(self) -> Clue:
        """Sizes vary as they should. Seen from the records, each draws its number of batches.

        Given these numbers, pairs of records share batches as independent uniform subsets do, and sum C(b, 2)
        counts that.
        """
        return self._dispersion([(self.sizes, self.batches.inclusions)])

    def dispersion_in(self, epochs: EpochCut) -> Clue:
        """Within each epoch every record that comes falls into one batch, each equally likely."""
        segment = epochs.segment(self.count)
        sizes = [self.sizes[segment == number] for number in np.unique(segment)]
        once = [(inside, np.ones(int(inside.sum()), dtype=np.int64)) for inside in sizes if len(inside) > 2]
        return self._dispersion(once)

    def _dispersion(self, groups: Sequence[tuple[Whole, Whole]]) -> Clue:
        seen = sum(float((sizes * (sizes - 1)).sum()) / 2 for sizes, _ in groups)
        each = [overlap_moments(inclusions, len(sizes)) for sizes, inclusions in groups]
        names = ("mean", "variance", "third")
        moments = CountMoments(**{name: sum(getattr(one, name) for one in each) for name in names})
        drawn = np.concatenate([sizes for sizes, _ in groups]) if groups else self.sizes
        # from pairs of draws within batches to the mean square of sizes
        square = (2 * float(moments.mean) + float(drawn.sum())) / len(drawn) - float(drawn.mean()) ** 2
        expected = f"where {math.sqrt(max(square, 0.0)):.3g} is expected"
        saw = f"{self.range_of_sizes}, with the standard deviation {drawn.std():.3g} {expected}"
        # equal sizes lie at the end of the lower tail, where the fitted law says 0; they have their own test
        return Clue(p_value=float(moments.p_values(seen)) if self.unequal else 1.0, saw=saw)

    @cached_property
    def repeats_within(self) -> Clue:
        """Draws with replacement repeat records within batches."""
        if self.within == 0:
            log_each = log_falling(self.records, self.sizes) - self.sizes * math.log(self.records)
            p_value = math.exp(min(float(log_each.sum()), 0.0))
            return Clue(p_value=p_value, saw="no record came twice within a batch")
        expected = equal_draw_moments(self.sizes, self.records)
        saw = f"{self.within:,} repeats within batches where {expected.mean:,.1f} are expected"
        return Clue(p_value=float(expected.p_values(self.within)), saw=saw)

    @cached_property
    def unevenness(self) -> Clue:
        """Weights that vary by UNEVEN make pairs of batches share 1 + UNEVEN^2 times as many records.

        The variance grows by as much, and by UNEVEN^2 S^3 / n^2 since a heavy record adds to many pairs at
        once.
        """
        total, n = self.batches.total, self.records
        uniform = equal_draw_moments(np.array([total]), n) if self.within else overlap_moments(self.sizes, n)
        excess, rate = UNEVEN**2, total / self.count / n
        variance = uniform.variance * (1 + excess) + excess * total**3 / n**2 * max(0.0, 1 - rate)
        mean = uniform.mean * (1 + excess)
        weighted = CountMoments(mean=mean, variance=variance, third=uniform.third)
        common = f"pairs of batches have {self.pairs:,} records in common"
        saw = f"{common} where weights that vary by {UNEVEN:.0%} give {mean:,.0f} on average"
        return Clue(p_value=float(weighted.tails(self.pairs)[0]), saw=saw, share=EVENNESS_SHARE)
