"""Every scheme put to its tests."""

import math
from itertools import pairwise

import numpy as np

from tightrope.audit.finding import Scheme
from tightrope.audit.recordings.batches import Batches, Whole
from tightrope.audit.recordings.epochs import Epochs
from tightrope.audit.recordings.hypotheses import EVENNESS_SHARE, Clue, Tests, Verdict, impossible, judged
from tightrope.audit.recordings.overlaps import shared


def verdicts(tests: Tests) -> list[Verdict]:
    """One verdict per scheme that such batches could come from, at least three of them not holding everything."""
    found = [
        poisson(tests),
        without_replacement(tests),
        shuffle(tests),
        balls_in_bins(tests),
        fixed_partition(tests),
    ]
    if tests.sizes.max() > 1:  # of batches of one record it makes no difference
        found.append(with_replacement(tests))
    return [*found, weighted(tests)]


def poisson(tests: Tests) -> Verdict:
    """Independent uniform subsets whose sizes are binomial."""
    if tests.within:
        return impossible(Scheme.POISSON, _repeated(tests))
    sizes = [tests.equal_sizes, tests.dispersion, tests.empty_batches]
    return judged(Scheme.POISSON, [*sizes, *_independent(tests)])


def without_replacement(tests: Tests) -> Verdict:
    """Independent uniform subsets of one size."""
    if tests.within:
        return impossible(Scheme.WITHOUT_REPLACEMENT, _repeated(tests))
    if tests.unequal:
        return impossible(Scheme.WITHOUT_REPLACEMENT, tests.dispersion.saw)
    return judged(Scheme.WITHOUT_REPLACEMENT, _independent(tests))


def _independent(tests: Tests) -> list[Clue]:
    subsets = [tests.evenness, tests.favourite, tests.neighbours]
    return [*subsets, tests.spread, tests.top_index, tests.recurrence, tests.repeats]


def shuffle(tests: Tests) -> Verdict:
    """A random order, new in each epoch, cut into batches of one size, of which the last may be shorter."""
    if len(np.unique(tests.sizes)) > 2:
        return impossible(Scheme.SHUFFLE, tests.dispersion.saw)
    if not tests.cuts:
        return impossible(Scheme.SHUFFLE, "a record came twice within every epoch that was tried")
    short = np.flatnonzero(tests.sizes < tests.sizes.max()).tolist()
    fitting = [cut for cut in tests.cuts if not short or short == cut.last_batches(tests.count)]
    if not fitting:
        return impossible(Scheme.SHUFFLE, "shorter batches come where no epoch ends")
    best = min(fitting, key=lambda cut: (not _is_whole_pass(cut, tests), cut.log_chance))
    return judged(Scheme.SHUFFLE, _once_per_epoch(tests, best), best)


def _is_whole_pass(cut: Epochs, tests: Tests) -> bool:
    """Whether an epoch takes every record, or all but fewer than fill a batch."""
    left = tests.records - cut.first
    return cut.first > 0 and (left == 0 or (left < tests.sizes[0] and not tests.unequal))


def balls_in_bins(tests: Tests) -> Verdict:
    """Each record goes into one batch of each epoch, every batch being equally likely."""
    if not tests.cuts:
        return impossible(Scheme.BALLS_IN_BINS, "a record came twice within every epoch that was tried")
    takes_all = [
        cut
        for cut in tests.cuts
        if cut.length is None or (cut.first == tests.records and _takes_all(cut, tests))
    ]
    if not takes_all:
        return impossible(Scheme.BALLS_IN_BINS, "epochs without a repeat leave records out")
    best = min(takes_all, key=lambda cut: (cut.length is None, cut.log_chance))
    sizes = [tests.equal_sizes_in(best), tests.dispersion_in(best)]
    return judged(Scheme.BALLS_IN_BINS, [*sizes, *_once_per_epoch(tests, best)], best)


def _takes_all(cut: Epochs, tests: Tests) -> bool:
    return all(tests.sizes[epoch].sum() == tests.records for epoch in cut.whole(tests.count))


def _once_per_epoch(tests: Tests, epochs: Epochs) -> list[Clue]:
    """What holds of independent uniform orders: the unions of epochs, whole or not, are independent uniform subsets."""
    totals = np.bincount(epochs.segment(tests.count), weights=tests.sizes).astype(np.int64)
    expected = shared(totals, tests.records)
    saw = f"epochs share {tests.pairs:,} records where {expected.mean:,.0f} are expected"
    evenness = Clue(p_value=float(expected.two_sided(tests.pairs)), saw=saw, share=EVENNESS_SHARE)
    return [evenness, tests.neighbours_across(epochs), tests.spread, tests.top_index, tests.recurrence]


def with_replacement(tests: Tests) -> Verdict:
    """Independent uniform draws."""
    if not _is_regular(tests.sizes):
        return impossible(Scheme.WITH_REPLACEMENT, tests.dispersion.saw)
    evenness, neighbours = tests.evenness_with_replacement, tests.neighbours_with_replacement
    return judged(
        Scheme.WITH_REPLACEMENT,
        [
            evenness,
            tests.favourite_with_replacement,
            tests.repeats_within,
            neighbours,
            tests.spread,
            tests.top_index,
            tests.repeats,
        ],
    )


def weighted(tests: Tests) -> Verdict:
    """Independent batches for which some records are likelier than others, and noticeably so."""
    sizes = [] if _is_regular(tests.sizes) else [tests.dispersion]
    others = [tests.neighbours_with_weights, tests.spread_with_weights, tests.top_index, tests.repeats]
    return judged(Scheme.WEIGHTED, [tests.unevenness, *sizes, *others])


def _is_regular(sizes: Whole) -> bool:
    """Whether all sizes are equal but for shorter ones, all alike, at equal distances."""
    short = np.flatnonzero(sizes < sizes.max())
    alike = len(np.unique(sizes[short])) <= 1
    return alike and len(short) * 2 <= len(sizes) and len(np.unique(np.diff(short))) <= 1


def fixed_partition(tests: Tests) -> Verdict:
    """The same batches in every epoch, or the dataset in its own order."""
    if tests.within:
        return impossible(Scheme.FIXED_PARTITION, _repeated(tests))
    length = _period(tests.batches)
    if length is None and not _in_order(tests.batches):
        return impossible(
            Scheme.FIXED_PARTITION, "batches neither come again nor follow the order of the dataset"
        )
    saw = (
        f"the same {length:,} batches came again and again"
        if length
        else "batches follow the order of the dataset"
    )
    return Verdict(
        scheme=Scheme.FIXED_PARTITION,
        p_value=1.0,
        clue=Clue(p_value=1.0, saw=saw, share=1.0),
        epochs=Epochs(offset=0, length=length, log_chance=-math.inf),
    )


def _period(batches: Batches) -> int | None:
    """After how many batches all come again, without a repeat in between."""
    signatures = batches.signatures
    period = next((j for j in range(2, len(signatures)) if signatures[j] == signatures[0]), None)
    if period is None or signatures[period:] != signatures[:-period]:
        return None
    once = batches.drawn[batches.batch < period]
    return period if len(np.unique(once)) == len(once) else None


def _in_order(batches: Batches) -> bool:
    """Whether each batch is a range of indices that goes on where the one before ended, or begins anew at 0."""
    if batches.sizes.min() == 0:
        return False
    ranges = [(int(inside[0]), int(inside[-1])) for inside in batches.members]
    whole = all(
        last - first + 1 == size for (first, last), size in zip(ranges, batches.sizes.tolist(), strict=True)
    )
    return whole and all(first in (0, last + 1) for (_, last), (first, _) in pairwise(ranges))


def _repeated(tests: Tests) -> str:
    return f"{tests.within:,} times a record came again within its batch"
