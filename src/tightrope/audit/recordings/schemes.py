"""Every scheme put to its tests."""

import math
from itertools import pairwise

import numpy as np

from tightrope.audit.finding import Scheme
from tightrope.audit.recordings.batches import Batches, Whole
from tightrope.audit.recordings.epochs import EpochCut
from tightrope.audit.recordings.hypotheses import Clue, SchemeTest, Tests, combine, rule_out
from tightrope.audit.recordings.overlaps import overlap_moments

REPEATED = "a record came twice within every epoch that was tried"


def weigh_schemes(tests: Tests) -> list[SchemeTest]:
    """One test per scheme that may have drawn the batches: at least three, not all holding everything."""
    found = [
        _poisson(tests),
        _without_replacement(tests),
        _shuffle(tests),
        _balls_in_bins(tests),
        _fixed_partition(tests),
    ]
    if tests.sizes.max() > 1:  # for batches of one record it makes no difference
        found.append(_with_replacement(tests))
    return [*found, _weights(tests)]


def _poisson(tests: Tests) -> SchemeTest:
    """Independent uniform subsets whose sizes are binomial."""
    if tests.within:
        return rule_out(Scheme.POISSON, _tell_repeats(tests))
    sizes = [tests.equal_sizes, tests.dispersion, tests.empty_batches]
    return combine(Scheme.POISSON, [*sizes, *_independent(tests)])


def _without_replacement(tests: Tests) -> SchemeTest:
    """Independent uniform subsets of one size."""
    if tests.within:
        return rule_out(Scheme.WITHOUT_REPLACEMENT, _tell_repeats(tests))
    if tests.unequal:
        return rule_out(Scheme.WITHOUT_REPLACEMENT, tests.dispersion.saw)
    return combine(Scheme.WITHOUT_REPLACEMENT, _independent(tests))


def _independent(tests: Tests) -> list[Clue]:
    subsets = [tests.evenness, tests.favourite, tests.neighbours]
    return [*subsets, tests.spread, tests.top_index, tests.recurrence, tests.repeats]


def _shuffle(tests: Tests) -> SchemeTest:
    """A random order, new in each epoch, cut into batches of one size; only the last may be shorter."""
    if len(np.unique(tests.sizes)) > 2:
        return rule_out(Scheme.SHUFFLE, tests.dispersion.saw)
    if not tests.cuts:
        return rule_out(Scheme.SHUFFLE, REPEATED)
    short = np.flatnonzero(tests.sizes < tests.sizes.max()).tolist()
    fitting = [cut for cut in tests.cuts if not short or short == cut.last_batches(tests.count)]
    if not fitting:
        return rule_out(Scheme.SHUFFLE, "shorter batches come where no epoch ends")
    best = min(fitting, key=lambda cut: (not _is_whole_pass(cut, tests), cut.log_chance))
    return combine(Scheme.SHUFFLE, _once_per_epoch(tests, best), best)


def _is_whole_pass(cut: EpochCut, tests: Tests) -> bool:
    """Whether an epoch takes every record, or all but fewer than fill a batch."""
    left = tests.records - cut.first
    return cut.first > 0 and (left == 0 or (left < tests.sizes[0] and not tests.unequal))


def _balls_in_bins(tests: Tests) -> SchemeTest:
    """Each record goes into one batch of each epoch, every batch being equally likely."""
    if not tests.cuts:
        return rule_out(Scheme.BALLS_IN_BINS, REPEATED)
    fitting = [cut for cut in tests.cuts if cut.length is None or _takes_all(cut, tests)]
    if not fitting:
        return rule_out(Scheme.BALLS_IN_BINS, "epochs without a repeat leave records out")
    best = min(fitting, key=lambda cut: (cut.length is None, cut.log_chance))
    sizes = [tests.equal_sizes_in(best), tests.dispersion_in(best)]
    return combine(Scheme.BALLS_IN_BINS, [*sizes, *_once_per_epoch(tests, best)], best)


def _takes_all(cut: EpochCut, tests: Tests) -> bool:
    n = tests.records
    return cut.first == n and all(tests.sizes[epoch].sum() == n for epoch in cut.whole(tests.count))


def _once_per_epoch(tests: Tests, epochs: EpochCut) -> list[Clue]:
    """Independent uniform orders: the unions of epochs, whole or not, are independent uniform subsets."""
    totals = np.bincount(epochs.segment(tests.count), weights=tests.sizes).astype(np.int64)
    evenness = tests.compare_pairs("epochs", overlap_moments(totals, tests.records))
    return [evenness, tests.neighbours_across(epochs), tests.spread, tests.top_index, tests.recurrence]


def _with_replacement(tests: Tests) -> SchemeTest:
    """Independent uniform draws."""
    if not _is_regular(tests.sizes):
        return rule_out(Scheme.WITH_REPLACEMENT, tests.dispersion.saw)
    draws = [tests.evenness_with_replacement, tests.favourite_with_replacement, tests.repeats_within]
    others = [tests.neighbours_with_replacement, tests.spread, tests.top_index, tests.repeats]
    return combine(Scheme.WITH_REPLACEMENT, [*draws, *others])


def _weights(tests: Tests) -> SchemeTest:
    """Independent batches for which some records are likelier than others, and noticeably so."""
    sizes = [] if _is_regular(tests.sizes) else [tests.dispersion]
    others = [tests.neighbours_with_weights, tests.spread_with_weights, tests.top_index, tests.repeats]
    return combine(Scheme.WEIGHTED, [tests.unevenness, *sizes, *others])


def _is_regular(sizes: Whole) -> bool:
    """Whether all sizes are equal, except shorter ones of one size at equal distances."""
    short = np.flatnonzero(sizes < sizes.max())
    one_size = len(np.unique(sizes[short])) <= 1
    return one_size and len(short) * 2 <= len(sizes) and len(np.unique(np.diff(short))) <= 1


def _fixed_partition(tests: Tests) -> SchemeTest:
    """The same batches in every epoch, or the dataset in its own order."""
    if tests.within:
        return rule_out(Scheme.FIXED_PARTITION, _tell_repeats(tests))
    length = _period(tests.batches)
    if length is None and not _is_in_order(tests.batches):
        saw = "batches neither come again nor follow the order of the dataset"
        return rule_out(Scheme.FIXED_PARTITION, saw)
    again = f"the same {length:,} batches came again and again" if length else ""
    clue = Clue(p_value=1.0, saw=again or "batches follow the order of the dataset", share=1.0)
    return combine(Scheme.FIXED_PARTITION, [clue], EpochCut(offset=0, length=length, log_chance=-math.inf))


def _period(batches: Batches) -> int | None:
    """After how many batches all come again, without a repeat in between."""
    signatures = batches.signatures
    period = next((j for j in range(2, len(signatures)) if signatures[j] == signatures[0]), None)
    if period is None or signatures[period:] != signatures[:-period]:
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


def _tell_repeats(tests: Tests) -> str:
    return f"{tests.within:,} times a record came again within its batch"
