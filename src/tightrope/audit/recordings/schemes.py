"""Every scheme put to its tests."""

import math
from itertools import pairwise

import numpy as np

from tightrope.audit.finding import Scheme
from tightrope.audit.recordings import bets, bins, ties
from tightrope.audit.recordings.batches import Batches, Whole, tell_period
from tightrope.audit.recordings.clues import LEVEL, Clue, SchemeTest, combine, rule_out
from tightrope.audit.recordings.epochs import EpochCut
from tightrope.audit.recordings.hypotheses import UNCUT, BatchStatistics
from tightrope.audit.recordings.overlaps import overlap_moments
from tightrope.audit.recordings.passes import PassTable, cut_into_passes


def weigh_schemes(stats: BatchStatistics) -> list[SchemeTest]:
    """One test per scheme that may have drawn the batches: at least three, not all holding everything."""
    found = [
        _test_poisson(stats),
        _test_without_replacement(stats),
        _test_shuffle(stats),
        _test_balls_in_bins(stats),
        _test_fixed_partition(stats),
    ]
    if stats.sizes.max() > 1:  # for batches of one record it makes no difference
        found.append(_test_with_replacement(stats))
    return [*found, _test_weights(stats)]


def _test_poisson(stats: BatchStatistics) -> SchemeTest:
    """Independent uniform subsets whose sizes are binomial."""
    if stats.within:
        return rule_out(Scheme.POISSON, _tell_repeats(stats))
    return combine(Scheme.POISSON, [*stats.law_of_sizes, *_list_independent(stats)])


def _test_without_replacement(stats: BatchStatistics) -> SchemeTest:
    """Independent uniform subsets of one size."""
    if stats.within:
        return rule_out(Scheme.WITHOUT_REPLACEMENT, _tell_repeats(stats))
    if stats.unequal:
        return rule_out(Scheme.WITHOUT_REPLACEMENT, stats.range_of_sizes)
    return combine(Scheme.WITHOUT_REPLACEMENT, _list_independent(stats))


def _list_independent(stats: BatchStatistics) -> list[Clue]:
    single = [stats.evenness, stats.favourite, stats.left_out]
    together = [*stats.tied, stats.neighbours, stats.recurrence, stats.repeats]
    return [*single, *together, stats.spread, stats.top_index]


def _test_shuffle(stats: BatchStatistics) -> SchemeTest:
    """A random order, new in each epoch, cut into batches of one size; only the last may be shorter."""
    if len(np.unique(stats.sizes)) > 2:
        return rule_out(Scheme.SHUFFLE, stats.range_of_sizes)
    if not stats.cuts:
        return rule_out(Scheme.SHUFFLE, _tell_uncut(stats))
    short = np.flatnonzero(stats.sizes < stats.sizes.max()).tolist()
    fitting = [cut for cut in stats.cuts if not short or short == cut.last_batches(stats.count)]
    if not fitting:
        return rule_out(Scheme.SHUFFLE, "shorter batches come where no epoch ends")
    best = min(fitting, key=lambda cut: (not _is_whole_pass(cut, stats), cut.log_chance))
    return combine(Scheme.SHUFFLE, _list_once_per_epoch(stats, best), best)


def _is_whole_pass(cut: EpochCut, stats: BatchStatistics) -> bool:
    """Whether an epoch takes every record, or all but fewer than fill a batch."""
    left = stats.records - cut.first
    return cut.first > 0 and (left == 0 or (left < stats.sizes[0] and not stats.unequal))


def _test_balls_in_bins(stats: BatchStatistics) -> SchemeTest:
    """Each record goes into one batch of each epoch, every batch being equally likely."""
    if not stats.cuts:
        return rule_out(Scheme.BALLS_IN_BINS, _tell_uncut(stats))
    fitting = [cut for cut in stats.cuts if cut.length is None or _takes_all(cut, stats)]
    if not fitting:
        return rule_out(Scheme.BALLS_IN_BINS, "epochs without a repeat leave records out")
    best = min(fitting, key=lambda cut: (cut.length is None, cut.log_chance))
    clues = [stats.equal_sizes_in(best), stats.dispersion_in(best), *_list_once_per_epoch(stats, best)]
    found = combine(Scheme.BALLS_IN_BINS, clues, best)
    if best.length is None or found.p_value < LEVEL:  # no pass to compare with another, or settled already
        return found
    passes = cut_into_passes(stats.batches, best)
    return combine(Scheme.BALLS_IN_BINS, [*clues, *_list_bin_clues(passes, stats.shared)], best)


def _list_bin_clues(passes: PassTable, shared: ties.SharedRecords) -> list[Clue]:
    """Sizes, places, distances and company of records; p-values are exact or bounds."""
    return [
        *bins.weigh_ends_of_bins(passes),
        bets.weigh_recurring_places(passes),
        bets.weigh_recurring_sizes(passes),
        bets.weigh_order_in_passes(passes),
        bets.weigh_ties_in_passes(passes),
        bets.weigh_distances(passes),
        bins.weigh_closest_in_passes(passes, shared),
        ties.weigh_closest_batches(shared),
        bins.weigh_kept_places(passes),
    ]


def _takes_all(cut: EpochCut, stats: BatchStatistics) -> bool:
    n = stats.records
    return cut.first == n and all(stats.sizes[epoch].sum() == n for epoch in cut.whole(stats.count))


def _list_once_per_epoch(stats: BatchStatistics, epochs: EpochCut) -> list[Clue]:
    """Independent uniform orders: the unions of epochs, whole or not, are independent uniform subsets."""
    totals = np.bincount(epochs.segment(stats.count), weights=stats.sizes).astype(np.int64)
    evenness = stats.compare_pairs("epochs", overlap_moments(totals, stats.records))
    return [evenness, stats.neighbours_across(epochs), stats.spread, stats.top_index, stats.recurrence]


def _test_with_replacement(stats: BatchStatistics) -> SchemeTest:
    """Independent uniform draws."""
    if not _is_regular(stats.sizes):
        return rule_out(Scheme.WITH_REPLACEMENT, stats.range_of_sizes)
    draws = [stats.evenness_with_replacement, stats.favourite_with_replacement, stats.repeats_within]
    others = [
        stats.neighbours_with_replacement,
        stats.spread,
        stats.top_index,
        stats.repeats,
        stats.recurrence,
    ]
    return combine(Scheme.WITH_REPLACEMENT, [*draws, *others])


def _test_weights(stats: BatchStatistics) -> SchemeTest:
    """Independent batches for which some records are likelier than others, and noticeably so."""
    sizes = [] if _is_regular(stats.sizes) else [stats.dispersion]
    along = [stats.neighbours_with_weights, stats.recurrence_with_weights, stats.repeats]
    return combine(
        Scheme.WEIGHTED, [stats.unevenness, *sizes, *along, stats.spread_with_weights, stats.top_index]
    )


def _is_regular(sizes: Whole) -> bool:
    """Whether all sizes are equal, except shorter ones of one size at equal distances."""
    short = np.flatnonzero(sizes < sizes.max())
    one_size = len(np.unique(sizes[short])) <= 1
    return one_size and len(short) * 2 <= len(sizes) and len(np.unique(np.diff(short))) <= 1


def _test_fixed_partition(stats: BatchStatistics) -> SchemeTest:
    """The same batches in every epoch, or the dataset in its own order."""
    if stats.within:
        return rule_out(Scheme.FIXED_PARTITION, _tell_repeats(stats))
    length = _find_period(stats.batches)
    if length is None and not _is_in_order(stats.batches):
        saw = "batches are neither the same parts of the dataset over and over, nor its records in order"
        return rule_out(Scheme.FIXED_PARTITION, saw)
    again = tell_period(length) if length else ""
    in_order = "each begins in the dataset where the one before it ended, or anew at the first record"
    clue = Clue(p_value=1.0, saw=again or in_order, share=1.0)
    return combine(Scheme.FIXED_PARTITION, [clue], EpochCut(offset=0, length=length, log_chance=-math.inf))


def _find_period(batches: Batches) -> int | None:
    """After how many batches all come again, without a repeat in between."""
    period = batches.period
    if period is None or period < 2:
        return None
    once = batches.drawn[batches.batch < period]
    return period if len(np.unique(once)) == len(once) else None


def _is_in_order(batches: Batches) -> bool:
    """Whether each batch is a range of indices that follows the one before, or begins anew at 0."""
    if batches.sizes.min() == 0:
        return False
    ranges = [(int(inside[0]), int(inside[-1])) for inside in batches.members]
    sizes = batches.sizes.tolist()
    if any(last - first + 1 != size for (first, last), size in zip(ranges, sizes, strict=True)):
        return False
    return all(first in (0, last + 1) for (_, last), (first, _) in pairwise(ranges))


def _tell_uncut(stats: BatchStatistics) -> str:
    return _tell_repeats(stats) if stats.within else UNCUT


def _tell_repeats(stats: BatchStatistics) -> str:
    times = "once" if stats.within == 1 else f"{stats.within:,} times"
    return f"{times} a record came again within its batch"
