"""From index batches alone to the scheme that drew them, or to UNKNOWN."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from tightrope.audit.finding import Finding, HypothesisTest, Scheme
from tightrope.audit.loaders.words import count as tell
from tightrope.audit.recordings.batches import Batches, read_batches
from tightrope.audit.recordings.clues import LARGEST_SHARE, LEVEL, SHARE, UNEVEN, SchemeTest
from tightrope.audit.recordings.hypotheses import BatchStatistics
from tightrope.audit.recordings.naming import make_finding, name_scheme
from tightrope.audit.recordings.reasons import NOUNS, explain_none
from tightrope.audit.recordings.recording import read_recording
from tightrope.audit.recordings.schemes import weigh_schemes
from tightrope.errors import InvalidSetting
from tightrope.setting.sampling import EveryRecord

LEFT_OUT = 0.1  # how often records must be left out to be noticed where every batch holds everything
CUT = 0.1  # a cap that so many batches are cut down to must be noticed before sizes count as binomial
FEWEST = 3  # batches and records: moments of fewer say nothing
UNIFORM = (Scheme.POISSON, Scheme.WITHOUT_REPLACEMENT, Scheme.WITH_REPLACEMENT)


def watch(
    batches: Iterable[object] | str | Path, *, records: int | None = None, repeats_allowed: bool = False
) -> Finding:
    """Which scheme drew these batches of indices, with p-values; UNKNOWN rather than a guess.

    `batches` yields what a batch sampler yields, in order and for long enough (cut an endless one), or names
    a file written by `record`. `records` is the size of the dataset; a recorded file states it in its first
    line, and one without that line is read if `records` is given. A record twice in one batch is refused
    unless `repeats_allowed`.

    A scheme is the answer if its p-value is at least LEVEL and that of every other scheme is below. Draws
    count as uniform when weights with a relative standard deviation of UNEVEN are ruled out, and sizes as
    binomial when a cap that a tenth of the batches are cut down to would have been noticed. The true scheme
    is ruled out with probability at most LEVEL, which all its tests share, to the accuracy of three exact
    moments.

    >>> print(watch([range(10)] * 20, records=10).sentence)
    Every batch holds all 10 records: nothing is sampled.
    """
    if isinstance(batches, str | Path):
        stated, batches = read_recording(batches, records=records)
        if records is not None and records != stated:
            must = f"be {stated}, as the recording states, or be left out"
            remedy = "Leave it out, unless the file is of another dataset."
            raise InvalidSetting("records", records, must, remedy)
        records = stated
    return _find(read_batches(batches, records, repeats_allowed=repeats_allowed))


def batches_needed(records: int, size: float) -> int | None:
    """How many batches of this mean size nearly always tell one scheme from all others, to two digits."""
    if not 0 < size < records or records < FEWEST:
        return None
    two_digits = (digits * 10**power for power in range(9) for digits in range(10, 100))
    counts = chain(range(FEWEST, 10), two_digits)
    return next((count for count in counts if _tells(count, records, size)), None)


def _tells(count: int, records: int, size: float) -> bool:
    rate = size / records
    pairs = count * (count - 1) / 2
    expected, variance = pairs * size * rate, pairs * records * (rate * (1 - rate)) ** 2
    excess = UNEVEN**2
    weighted = variance * (1 + excess) + excess * (count * size) ** 3 / records**2 * (1 - rate)
    # 3.8 and 3.3 standard deviations: 1e-4 and 5e-4
    tells_weights = excess * expected > 3.8 * math.sqrt(weighted) + 3.3 * math.sqrt(variance)
    surely = math.log(LEVEL * SHARE)
    tells_repeats = size <= 1 or -count * size * (size - 1) / 2 / records < surely
    variance_of_size = max(size * (1 - rate), 0.1)
    tells_sizes = -(count - 1) / 2 * math.log(max(2 * np.pi * variance_of_size, 1.2)) < surely
    tells_epochs = -count / 2 * size * rate + 2 * math.log(count) < surely
    return tells_weights and tells_repeats and tells_sizes and tells_epochs and _tells_caps(count)


def _tells_caps(count: int) -> bool:
    """Whether a cap that CUT of the batches are cut down to is noticed: (1 - CUT)^B is the chance of none.

    That any size may be the cap, and that the rate is not known, costs up to a factor of ten.
    """
    return count * math.log1p(-CUT) < math.log(LEVEL * LARGEST_SHARE / 10)


def _find(batches: Batches) -> Finding:
    if batches.first_repeat is None and batches.sizes.min() == batches.records:
        return _find_every_record(batches)
    if batches.total == 0:
        sentence = "All batches are empty, so they do not tell how batches are drawn."
        return make_finding(batches, Scheme.UNKNOWN, sentence)
    if batches.records < FEWEST:
        small = f"A dataset of {tell(batches.records, 'record')} is too small to tell how batches are drawn."
        return make_finding(batches, Scheme.UNKNOWN, small)
    if batches.count < FEWEST:
        few = (
            f"{_count(batches)} {'are' if batches.count > 1 else 'is'} too few to tell how batches are drawn"
        )
        return make_finding(batches, Scheme.UNKNOWN, f"{few}{_enough(batches)}.")
    stats = BatchStatistics(batches)
    tested = weigh_schemes(stats)
    fitting = [test for test in tested if test.p_value >= LEVEL]
    doubt = _tell_doubt(stats, tested, fitting)
    finding = make_finding(batches, Scheme.UNKNOWN, doubt) if doubt else name_scheme(stats, fitting[0])
    shown = (HypothesisTest(hypothesis=t.scheme.value, p_value=t.p_value, saw=t.clue.saw) for t in tested)
    return replace(finding, tests=tuple(shown))


def _find_every_record(batches: Batches) -> Finding:
    saw = f"{_count(batches)} hold{'' if batches.count > 1 else 's'} all {batches.records:,} records"
    p_value = math.exp(batches.total * math.log1p(-LEFT_OUT))
    hypothesis = f"records are left out {LEFT_OUT:.0%} of the time"
    tests = (HypothesisTest(hypothesis=hypothesis, p_value=p_value, saw=saw),)
    if p_value >= LEVEL:
        sentence = f"{saw}, but a record left out now and then would go unnoticed: watch more batches."
        return make_finding(batches, Scheme.UNKNOWN, sentence, tests=tests)
    sentence = f"Every batch holds all {batches.records:,} records: nothing is sampled."
    known = {"sampling": EveryRecord(), "rate": 1.0, "batch": batches.records, "tests": tests}
    return make_finding(batches, Scheme.EVERY_RECORD, sentence, **known)


def _tell_doubt(stats: BatchStatistics, tested: Sequence[SchemeTest], fitting: Sequence[SchemeTest]) -> str:
    """Why none of the schemes that fit is the answer; empty where the only one is."""
    if not fitting:
        return explain_none(stats, tested, "No scheme that is known here fits these batches")
    if len(fitting) > 1:
        return _tell_several(stats.batches, fitting)
    only, few = fitting[0].scheme, f"These {_count(stats.batches)} agree with {NOUNS[fitting[0].scheme]}, but"
    unsupported = (only is Scheme.WEIGHTED and not stats.is_uneven) or (
        only is Scheme.WITH_REPLACEMENT and not stats.within
    )
    if unsupported:
        return explain_none(stats, tested, f'Only "{only.value}" is not ruled out, and nothing speaks for it')
    if only in UNIFORM and stats.unevenness.weighed >= LEVEL:
        enough = _enough(stats.batches) or ": a longer recording may"
        return f"{few} they are too few to rule out weights that vary by {UNEVEN:.0%}{enough}."
    if only is Scheme.POISSON and not _tells_caps(stats.count):
        return f"{few} they are too few to test the law of their sizes{_enough(stats.batches)}."
    return ""


def _tell_several(batches: Batches, fitting: Sequence[SchemeTest]) -> str:
    names = [NOUNS[test.scheme] for test in fitting]
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    enough = _enough(batches) or ": a longer recording may"
    return f"These {_count(batches)} are too few to tell {listed} apart{enough}."


def _count(batches: Batches) -> str:
    return tell(batches.count, "batch")


def _enough(batches: Batches) -> str:
    """How many batches would do, where more would help; empty where these are as many."""
    needed = batches_needed(batches.records, batches.total / batches.count)
    return f": about {needed:,} would do" if needed is not None and needed > batches.count else ""
