"""From index batches alone to the scheme that drew them, or to UNKNOWN."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from pathlib import Path

import numpy as np
from scipy import special

from tightrope.audit.finding import Finding, How, HypothesisTest, Scheme
from tightrope.audit.recordings.batches import Batches, read_batches
from tightrope.audit.recordings.clues import SHARE, Clue, SchemeTest
from tightrope.audit.recordings.hypotheses import UNEVEN, BatchStatistics
from tightrope.audit.recordings.recording import read_recording
from tightrope.audit.recordings.schemes import weigh_schemes
from tightrope.errors import InvalidSetting
from tightrope.numerics.floats import ceil_fraction
from tightrope.numerics.text import round_outwards
from tightrope.setting.sampling import EveryRecord, Poisson, WithoutReplacement

LEVEL = 5e-4  # p-values below it rule a scheme out: the true one, wrongly, once in 10,000 recordings
CONFIDENCE = 0.999
LEFT_OUT = 0.1  # how often records must be left out to be noticed where every batch holds everything
FEWEST = 3  # batches and records: moments of fewer say nothing
SURELY = 1e-6  # a reason is named when its own p-value is below
CAPPED = 0.1  # the share of batches at the largest size from which sizes look capped
GLOBAL = (
    "Watching assumes whole logical batches of all workers: not physical pieces, and not one worker's share."
)


def watch(
    batches: Iterable[object] | str | Path, *, records: int | None = None, repeats_allowed: bool = False
) -> Finding:
    """Which scheme drew these batches of indices, with p-values; UNKNOWN rather than a guess.

    `batches` yields what a batch sampler yields, in order and for long enough (cut an endless one), or names
    a file written by `record`. `records` is the size of the dataset; a recorded file states it. A record
    twice in one batch is refused unless `repeats_allowed`.

    A scheme is the answer if its p-value is at least LEVEL and that of every other scheme is below. Draws
    count as uniform when weights with a relative standard deviation of UNEVEN are ruled out. The true scheme
    is ruled out with probability at most LEVEL, to the accuracy of three exact moments.

    >>> print(watch([range(10)] * 20, records=10).sentence)
    Every batch holds all 10 records: nothing is sampled.
    """
    if isinstance(batches, str | Path):
        stated, batches = read_recording(batches)
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
    surely = math.log(LEVEL / 100)
    tells_repeats = size <= 1 or -count * size * (size - 1) / 2 / records < surely
    variance_of_size = max(size * (1 - rate), 0.1)
    tells_sizes = -(count - 1) / 2 * math.log(max(2 * np.pi * variance_of_size, 1.2)) < surely
    tells_epochs = -count / 2 * size * rate + 2 * math.log(count) < surely
    return tells_weights and tells_repeats and tells_sizes and tells_epochs


def _find(batches: Batches) -> Finding:
    if batches.first_repeat is None and batches.sizes.min() == batches.records:
        return _find_every_record(batches)
    if batches.total == 0:
        sentence = "All batches are empty, so they do not tell how batches are drawn."
        return _finding(batches, Scheme.UNKNOWN, sentence)
    if batches.count < FEWEST or batches.records < FEWEST:
        few = f"{_count(batches)} of {batches.records:,} records are too few to tell how batches are drawn"
        return _finding(batches, Scheme.UNKNOWN, f"{few}{_enough(batches)}.")
    stats = BatchStatistics(batches)
    tested = weigh_schemes(stats)
    fitting = [test for test in tested if test.p_value >= LEVEL]
    if len(fitting) == 1:
        finding = _name_scheme(stats, fitting[0])
    else:
        sentence = _tell_several(batches, fitting) if fitting else _tell_none(stats, tested)
        finding = _finding(batches, Scheme.UNKNOWN, sentence)
    shown = (HypothesisTest(hypothesis=t.scheme.value, p_value=t.p_value, saw=t.clue.saw) for t in tested)
    return replace(finding, tests=tuple(shown))


def _finding(batches: Batches, scheme: Scheme, sentence: str, *notes: str, **known: object) -> Finding:
    return Finding(
        scheme=scheme,
        how=How.WATCHED,
        sentence=sentence,
        records=batches.records,
        notes=(*notes, GLOBAL),
        **known,  # type: ignore[arg-type]
    )


def _find_every_record(batches: Batches) -> Finding:
    saw = f"{_count(batches)} hold all {batches.records:,} records"
    p_value = math.exp(batches.total * math.log1p(-LEFT_OUT))
    hypothesis = f"records are left out {LEFT_OUT:.0%} of the time"
    tests = (HypothesisTest(hypothesis=hypothesis, p_value=p_value, saw=saw),)
    if p_value >= LEVEL:
        sentence = f"{saw}, but a record left out now and then would go unnoticed: watch more batches."
        return _finding(batches, Scheme.UNKNOWN, sentence, tests=tests)
    sentence = f"Every batch holds all {batches.records:,} records: nothing is sampled."
    known = {"sampling": EveryRecord(), "rate": 1.0, "batch": batches.records, "tests": tests}
    return _finding(batches, Scheme.EVERY_RECORD, sentence, **known)


def _name_scheme(stats: BatchStatistics, only: SchemeTest) -> Finding:
    """The finding about the only scheme that fits."""
    batches, scheme = stats.batches, only.scheme
    n, b = batches.records, int(batches.sizes.max())
    if scheme is Scheme.POISSON:
        return _name_poisson(batches)
    if scheme is Scheme.WITHOUT_REPLACEMENT:
        sentence = (
            f"These batches are drawn afresh without replacement: each holds {b:,} of the {n:,} records, "
            "and they share as many records as independent draws do."
        )
        sampling = WithoutReplacement(batch=b, population=n)
        known = {"sampling": sampling, "rate": sampling.rate, "batch": b}
        return _finding(batches, scheme, sentence, _tell_unnoticed(batches), **known)
    if scheme is Scheme.WITH_REPLACEMENT:
        sentence = f"These batches are drawn with replacement: {stats.repeats_within.saw}."
        return _finding(
            batches, scheme, sentence, _tell_unnoticed(batches), batch=b, share=ceil_fraction(Fraction(1, n))
        )
    if scheme is Scheme.WEIGHTED:
        sentence = (
            f"These batches are drawn with weights: some records come far too often ({stats.evenness.saw})."
        )
        return _finding(batches, scheme, sentence, batch=None if stats.unequal else b)
    return _name_epochs(batches, only, b)


def _name_poisson(batches: Batches) -> Finding:
    trials = batches.count * batches.records
    rate = batches.total / trials
    low, high = _confidence_interval(batches.total, trials)
    sentence = (
        f"These batches are Poisson sampled: their sizes, from {batches.sizes.min():,} to "
        f"{batches.sizes.max():,}, and the records they share are as if each of the {batches.records:,} "
        "records joined each batch by chance alone."
    )
    between = f"{round_outwards(low, 5, up=False)} and {round_outwards(high, 5, up=True)}"
    interval = f"with {CONFIDENCE:.1%} confidence between {between}"
    estimated = f"The rate is estimated: {rate:.5g}, {interval}."
    known = {"sampling": Poisson(rate=rate), "rate": rate, "rate_range": (low, high)}
    return _finding(batches, Scheme.POISSON, sentence, estimated, _tell_unnoticed(batches), **known)


def _name_epochs(batches: Batches, only: SchemeTest, largest: int) -> Finding:
    """The finding about a scheme in which a record comes once per epoch."""
    assert only.epochs is not None
    length, scheme = only.epochs.length, only.scheme
    if scheme is Scheme.FIXED_PARTITION:
        sentence = f"These batches are the same in every epoch: {only.clue.saw}."
        return _finding(batches, scheme, sentence, batch=largest, epoch=length)
    segment = only.epochs.segment(batches.count)
    # a second epoch in the same order would have been a fixed partition
    reshuffles = True if segment[-1] > segment[0] else None
    unseen = "Whether the next epoch draws a new order was not seen: the recording holds no more than one."
    notes = () if reshuffles else (unseen,)
    # of an epoch only the last batch may be short
    known = {"epoch": length, "full": length - 1 if length else None, "reshuffles": reshuffles}
    within = f"within an epoch of {length:,} batches" if length else "within an epoch"
    once = (
        f"no record came twice {within}, which independent draws would do with probability "
        f"{_tell_probability(only.epochs.log_chance)}"
    )
    if scheme is Scheme.SHUFFLE:
        sentence = f"These batches are shuffled and cut: {once}."
        return _finding(batches, scheme, sentence, *notes, batch=largest, **known)
    sizes = f"sizes vary from {batches.sizes.min():,} to {largest:,}"
    sentence = f"Each record comes in one random batch of each epoch: {once}, and {sizes}."
    return _finding(batches, scheme, sentence, *notes, **known)


def _tell_several(batches: Batches, fitting: Sequence[SchemeTest]) -> str:
    names = [test.scheme.value for test in fitting]
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    enough = _enough(batches) or ": a longer recording may"
    return f"These {_count(batches)} are too few to tell {listed} apart{enough}."


def _tell_none(stats: BatchStatistics, tested: Sequence[SchemeTest]) -> str:
    """Why no scheme fits; the likeliest reason comes first."""
    if _is_sure(stats.top_index):
        return f"{_capitalise(stats.top_index.saw)}: is that the size of the dataset that was drawn from?"
    if _is_sure(stats.smallest):
        return (
            f"{_capitalise(stats.smallest.saw)}: if this is Poisson sampling, its empty batches seem "
            "to be dropped. Record them too, and let them count as steps."
        )
    largest = stats.sizes.max()
    at_most = int((stats.sizes == largest).sum())
    is_capped = stats.unequal and at_most >= max(5, CAPPED * stats.count) and stats.within == 0
    if is_capped and _is_sure(stats.dispersion):
        return (
            f"{at_most:,} batches hold exactly {largest:,} records and none holds more: these look like "
            "physical pieces of larger batches. Record logical batches, before they are cut."
        )
    unfit = "No scheme that is known here fits these batches"
    if _is_sure(stats.recurrence):
        return f"{unfit}: {stats.recurrence.saw}, though not in the same order every epoch."
    nearest = max(tested, key=lambda test: _closeness(test, once_per_epoch=_is_sure(stats.repeats)))
    return f"{unfit}; nearest comes {nearest.scheme.value}, but {nearest.clue.saw}."


def _closeness(test: SchemeTest, *, once_per_epoch: bool) -> tuple[float, bool, bool]:
    return test.p_value, once_per_epoch == (test.epochs is not None), test.scheme is Scheme.POISSON


def _is_sure(clue: Clue) -> bool:
    return clue.p_value < SURELY


def _capitalise(text: str) -> str:
    return text[0].upper() + text[1:]


def _tell_probability(log_chance: float) -> str:
    """A probability in words, rounded up to a power of ten.

    >>> _tell_probability(-3000.0), _tell_probability(-9.0), _tell_probability(-1e-9)
    ('below 1e-300', 'below 0.001', 'below 1')
    """
    power = math.ceil(max(-300.0, log_chance / math.log(10)))
    return "below 1" if power >= 0 else f"below {10.0**power:g}"


def _tell_unnoticed(batches: Batches) -> str:
    """What may be uneven and still look uniform: mild weights, or one record that comes too often."""
    rate = batches.total / (batches.count * batches.records)
    counts = np.arange(batches.count + 1)
    told = batches.records * special.bdtrc(counts - 1.0, batches.count, rate) < LEVEL * SHARE
    fewest = int(np.argmax(told)) if told.any() else batches.count
    times = max(fewest / (batches.count * rate), 1.0)
    return (
        f"Weights that vary by {UNEVEN:.0%} or more are ruled out; milder ones, or one record that comes "
        f"{times:.2g} times as often as the others may go unnoticed."
    )


def _confidence_interval(successes: int, trials: int) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a probability at CONFIDENCE, not narrower by any rounding."""
    failures = trials - successes
    low = _least_probability(successes, trials) if successes else 0.0
    high = 1 - Fraction(_least_probability(failures, trials)) if failures else Fraction(1)
    return low, ceil_fraction(high)


def _least_probability(successes: int, trials: int) -> float:
    """A float, close to the largest, that makes so many successes certainly rarer than half of a miss."""
    from tightrope.numerics.balls import ball, enclose

    shape, miss = (successes, trials - successes + 1), (1 - Fraction(repr(CONFIDENCE))) / 2

    def is_rare(probability: float) -> bool:  # P(at least so many) is a regularised incomplete beta function
        chance = enclose(lambda: ball(probability).beta_lower(*shape, regularized=1), bits=32)
        return bool(chance <= ball(miss))

    found, step = float(special.betaincinv(*shape, float(miss))), 2.0**-50
    while not is_rare(found):
        found, step = found * (1 - step), 2 * step
    return found


def _count(batches: Batches) -> str:
    return f"{batches.count:,} batch{'es' if batches.count > 1 else ''}"


def _enough(batches: Batches) -> str:
    """How many batches would do, where more would help; empty where these are as many."""
    needed = batches_needed(batches.records, batches.total / batches.count)
    return f": about {needed:,} would do" if needed is not None and needed > batches.count else ""
