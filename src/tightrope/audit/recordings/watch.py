"""From index batches alone to the scheme that drew them, or to UNKNOWN."""

import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy import special

from tightrope.audit.finding import Finding, How, Scheme, Test
from tightrope.audit.recordings.batches import Batches, batches_from
from tightrope.audit.recordings.hypotheses import SHARE, UNEVEN, Tests, Verdict
from tightrope.audit.recordings.recording import read_recording
from tightrope.audit.recordings.schemes import verdicts
from tightrope.audit.recordings.sentences import nothing_fits, probability, several_fit
from tightrope.errors import InvalidSetting
from tightrope.setting.sampling import EveryRecord, Poisson, WithoutReplacement

LEVEL = 1e-4  # a scheme is ruled out below it, so that the true one is, wrongly, once in 10,000 recordings
CONFIDENCE = 0.999
LEFT_OUT = 0.1  # how often a record must be left out for it to be noticed, where every batch holds everything
FEWEST = 3  # batches and records: moments of fewer say nothing
GLOBAL = (
    "Watching assumes whole logical batches of all workers: not physical pieces, and not one worker's share."
)


def watch(
    batches: Iterable[object] | str | Path, *, records: int | None = None, repeats_allowed: bool = False
) -> Finding:
    """Which scheme drew these batches of indices, with p-values; UNKNOWN rather than a guess.

    `batches` yields what a batch sampler yields, in order and for long enough (an endless one must be cut), or names a file
    written by `record`. `records` is the size of the dataset; a recorded file states it. A record twice in one batch is
    refused unless `repeats_allowed`.

    A scheme is answered if its p-value is at least LEVEL and that of every other scheme is below. Being uniform counts as shown
    when weights with a relative standard deviation of UNEVEN are ruled out. The true scheme is ruled out with probability at most
    LEVEL, to the accuracy of three exact moments.

    >>> print(watch([range(10)] * 20, records=10).sentence)
    Every batch holds all 10 records: nothing is sampled.
    """
    if isinstance(batches, str | Path):
        stated, recorded = read_recording(batches)
        if records is not None and records != stated:
            raise InvalidSetting(
                f"records must be {stated}, as {str(batches)!r} states, or be left out, got {records!r}. "
                "Leave it out, unless the file is of another dataset."
            )
        return _found(batches_from(recorded, stated, repeats_allowed=repeats_allowed))
    return _found(batches_from(batches, records, repeats_allowed=repeats_allowed))


def _found(batches: Batches) -> Finding:
    if batches.first_repeat is None and batches.sizes.min() == batches.records:
        return _everything(batches)
    if batches.total == 0:
        return _finding(
            batches, Scheme.UNKNOWN, "All batches are empty, so they do not tell how batches are drawn."
        )
    if batches.count < FEWEST or batches.records < FEWEST:
        few = f"{_count(batches)} of {batches.records:,} records are too few to tell how batches are drawn"
        return _finding(batches, Scheme.UNKNOWN, f"{few}{_enough(batches)}.")
    tests = Tests(batches)
    found = verdicts(tests)
    fitting = [verdict for verdict in found if verdict.p_value >= LEVEL]
    if len(fitting) == 1:
        finding = _decided(tests, fitting[0])
    elif fitting:
        finding = _finding(batches, Scheme.UNKNOWN, several_fit(_count(batches), fitting, _enough(batches)))
    else:
        finding = _finding(batches, Scheme.UNKNOWN, nothing_fits(tests, found))
    return dataclasses.replace(finding, tests=tuple(_test(verdict) for verdict in found))


def _test(verdict: Verdict) -> Test:
    return Test(hypothesis=verdict.scheme.value, p_value=verdict.p_value, saw=verdict.clue.saw)


def _finding(batches: Batches, scheme: Scheme, sentence: str) -> Finding:
    return Finding(
        scheme=scheme, how=How.WATCHED, sentence=sentence, records=batches.records, notes=(GLOBAL,)
    )


def _everything(batches: Batches) -> Finding:
    log_chance = batches.total * math.log1p(-LEFT_OUT)
    saw = f"{_count(batches)} hold all {batches.records:,} records"
    test = Test(
        hypothesis=f"records are left out {LEFT_OUT:.0%} of the time", p_value=math.exp(log_chance), saw=saw
    )
    if test.p_value >= LEVEL:
        sentence = (
            f"{saw}, but a record that is left out now and then would go unnoticed: watch more batches."
        )
        return dataclasses.replace(_finding(batches, Scheme.UNKNOWN, sentence), tests=(test,))
    finding = _finding(
        batches,
        Scheme.EVERY_RECORD,
        f"Every batch holds all {batches.records:,} records: nothing is sampled.",
    )
    return dataclasses.replace(
        finding, sampling=EveryRecord(), rate=1.0, batch=batches.records, tests=(test,)
    )


def _decided(tests: Tests, verdict: Verdict) -> Finding:
    batches, scheme, epochs = tests.batches, verdict.scheme, verdict.epochs
    n, b = batches.records, int(batches.sizes.max())
    rate = batches.total / (batches.count * n)
    uniform = (
        f"Weights that vary by {UNEVEN:.0%} or more are ruled out; milder ones, or one record that comes "
        f"{_unnoticed(batches):.2g} times as often as the others may go unnoticed."
    )
    reused = "Whether the next epoch draws a new order was not seen: the recording holds no more than one."
    if scheme is Scheme.POISSON:
        low, high = _interval(batches.total, batches.count * n)
        estimated = f"The rate is estimated: {rate:.5g}, with {CONFIDENCE:.1%} confidence between {low:.5g} and {high:.5g}."
        sentence = (
            f"These batches are Poisson sampled: their sizes, from {batches.sizes.min():,} to {b:,}, and the records they share "
            f"are as if each of the {n:,} records joined each batch by chance alone."
        )
        known = Poisson(rate=rate)
        return _with(
            batches, scheme, sentence, estimated, uniform, sampling=known, rate=rate, rate_range=(low, high)
        )
    if scheme is Scheme.WITHOUT_REPLACEMENT:
        sentence = (
            f"These batches are drawn afresh without replacement: each holds {b:,} of the {n:,} records, and they share as many "
            "records as independent draws do."
        )
        sampling = WithoutReplacement(batch=b, population=n)
        return _with(batches, scheme, sentence, uniform, sampling=sampling, rate=sampling.rate, batch=b)
    if scheme is Scheme.WITH_REPLACEMENT:
        sentence = f"These batches are drawn with replacement: {tests.repeats_within.saw}."
        return _with(batches, scheme, sentence, uniform, batch=b, share=1 / n)
    if scheme is Scheme.WEIGHTED:
        sentence = (
            f"These batches are drawn with weights: some records come far too often ({tests.evenness.saw})."
        )
        return _with(batches, scheme, sentence, batch=None if tests.unequal else b)
    assert epochs is not None
    within = f"within an epoch of {epochs.length:,} batches" if epochs.length else "within an epoch"
    chance = probability(epochs.log_chance)
    if scheme is Scheme.FIXED_PARTITION:
        sentence = f"These batches are the same in every epoch: {verdict.clue.saw}."
        return _with(batches, scheme, sentence, batch=b, epoch=epochs.length)
    # a second epoch in the same order would have been a fixed partition
    seen_again = [] if epochs.segment(batches.count)[-1] > epochs.segment(batches.count)[0] else [reused]
    # of an epoch only the last batch may be short
    full = epochs.length - 1 if epochs.length else None
    once = {"epoch": epochs.length, "full": full, "reshuffles": not seen_again or None}
    if scheme is Scheme.SHUFFLE:
        sentence = (
            f"These batches are shuffled and cut: no record came twice {within}, which independent draws would do with "
            f"probability {chance}."
        )
        return _with(batches, scheme, sentence, *seen_again, batch=b, **once)
    sentence = (
        f"Each record comes in one random batch of each epoch: no record came twice {within}, which independent draws would do "
        f"with probability {chance}, and sizes vary from {batches.sizes.min():,} to {b:,}."
    )
    return _with(batches, scheme, sentence, *seen_again, **once)


def _with(batches: Batches, scheme: Scheme, sentence: str, *notes: str, **known: object) -> Finding:
    finding = _finding(batches, scheme, sentence)
    return dataclasses.replace(finding, notes=(*notes, *finding.notes), **known)  # type: ignore[arg-type]


def _unnoticed(batches: Batches) -> float:
    """How many times as often as the others one record may come before its count alone tells."""
    rate = batches.total / (batches.count * batches.records)
    counts = np.arange(batches.count + 1)
    told = batches.records * special.bdtrc(counts - 1.0, batches.count, rate) < LEVEL * SHARE
    fewest = int(np.argmax(told)) if told.any() else batches.count
    return max(fewest / (batches.count * rate), 1.0)


def _interval(successes: int, trials: int) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a probability at CONFIDENCE."""
    miss = (1 - CONFIDENCE) / 2
    low = special.betaincinv(successes, trials - successes + 1, miss) if successes else 0.0
    high = special.betaincinv(successes + 1, trials - successes, 1 - miss) if successes < trials else 1.0
    return float(low), float(high)


def _count(batches: Batches) -> str:
    return f"{batches.count:,} batch{'es' if batches.count > 1 else ''}"


def _enough(batches: Batches) -> str:
    """How many batches would do, where more would help; empty where these are as many."""
    needed = batches_needed(batches.records, batches.total / batches.count)
    return f": about {needed:,} would do" if needed is not None and needed > batches.count else ""


def batches_needed(records: int, size: float) -> int | None:
    """From how many batches of this mean size on any scheme is told from all others, nearly always, to two digits."""
    if not 0 < size < records or records < FEWEST:
        return None
    exponent = next((e for e in range(2, 32) if _tells(1 << e, records, size)), None)
    if exponent is None:
        return None
    low, high = 1 << (exponent - 1), 1 << exponent
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if _tells(middle, records, size) else (middle, high)
    unit: int = 10 ** max(0, len(str(high)) - 2)
    return -(-high // unit) * unit


def _tells(count: int, records: int, size: float) -> bool:
    rate = size / records
    pairs = count * (count - 1) / 2
    expected, variance = pairs * size * rate, pairs * records * (rate * (1 - rate)) ** 2
    excess = UNEVEN**2
    weighted = variance * (1 + excess) + excess * (count * size) ** 3 / records**2 * (1 - rate)
    tells_weights = excess * expected > 3.8 * math.sqrt(weighted) + 3.3 * math.sqrt(
        variance
    )  # standard deviations: 1e-4, 5e-4
    surely = math.log(LEVEL / 100)
    tells_repeats = size <= 1 or -count * size * (size - 1) / 2 / records < surely
    variance_of_size = max(size * (1 - rate), 0.1)
    tells_sizes = -(count - 1) / 2 * math.log(max(2 * np.pi * variance_of_size, 1.2)) < surely
    tells_epochs = -count / 2 * size * rate + 2 * math.log(count) < surely
    return tells_weights and tells_repeats and tells_sizes and tells_epochs
