"""The finding about the only scheme that fits, in words that were seen to be true."""

import math
from fractions import Fraction

from scipy import special

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.recordings.batches import Batches
from tightrope.audit.recordings.clues import LEVEL, SchemeTest
from tightrope.audit.recordings.hypotheses import BatchStatistics
from tightrope.audit.recordings.passes import cut_into_passes
from tightrope.audit.recordings.unnoticed import (
    tell_unnoticed,
    tell_unnoticed_ends,
    tell_unnoticed_in_passes,
    tell_unnoticed_ties,
)
from tightrope.numerics.floats import ceil_fraction
from tightrope.numerics.text import round_outwards
from tightrope.setting.sampling import BallsInBins, Poisson, WithoutReplacement

CONFIDENCE = 0.999
GLOBAL = (
    "Watching assumes whole logical batches of all workers: not physical pieces, and not one worker's share."
)
TESTED_DRAWS = (
    "how often single records come and how many never do, which records come together, what batches share at "
    f"each distance, and whether batches come again. All tests share an error level of {LEVEL:g}."
)
TESTED_PASSES = (
    "whether sizes are too even, too uneven, cut off, in some order, or those of another pass; whether "
    "records share batches, keep their places, or come too soon or too late after their last visit; what "
    f"batches share at each distance. All tests share an error level of {LEVEL:g}."
)
TESTED_SIZES = "sizes against the whole binomial law, at both ends, for remainders and in their order;"


def make_finding(batches: Batches, scheme: Scheme, sentence: str, *notes: str, **known: object) -> Finding:
    """A finding from batches that were watched."""
    return Finding(
        scheme=scheme,
        how=How.WATCHED,
        sentence=sentence,
        records=batches.records,
        batch_count=batches.count,
        notes=(*notes, GLOBAL),
        **known,  # type: ignore[arg-type]
    )


def name_scheme(stats: BatchStatistics, only: SchemeTest) -> Finding:
    """The finding about the only scheme that fits."""
    batches, scheme = stats.batches, only.scheme
    n, b = batches.records, int(batches.sizes.max())
    if scheme is Scheme.POISSON:
        return _name_poisson(stats)
    if scheme is Scheme.WITHOUT_REPLACEMENT:
        sentence = (
            f"These batches are drawn afresh without replacement: each holds {b:,} of the {n:,} records, "
            "and they share as many records as independent draws do."
        )
        sampling = WithoutReplacement(batch=b, population=n)
        known = {"sampling": sampling, "rate": sampling.rate, "batch": b}
        notes = (
            f"Tested: {TESTED_DRAWS}",
            tell_unnoticed(batches),
            tell_unnoticed_ties(stats.shared, stats.count),
        )
        return make_finding(batches, scheme, sentence, *notes, **known)
    if scheme is Scheme.WITH_REPLACEMENT:
        sentence = f"These batches are drawn with replacement: {stats.repeats_within.saw}."
        share = ceil_fraction(Fraction(1, n))
        return make_finding(batches, scheme, sentence, tell_unnoticed(batches), batch=b, share=share)
    if scheme is Scheme.WEIGHTED:
        sentence = (
            "Some records come more often than others, as if these batches were drawn with weights: "
            f"{(stats.evenness_with_replacement if stats.within else stats.evenness).saw}."
        )
        return make_finding(batches, scheme, sentence, batch=None if stats.unequal else b)
    return _name_epochs(stats, only, b)


def _name_poisson(stats: BatchStatistics) -> Finding:
    batches = stats.batches
    trials = batches.count * batches.records
    rate = batches.total / trials
    low, high = find_interval(batches.total, trials)
    sentence = (
        f"These batches are Poisson sampled: their sizes, from {batches.sizes.min():,} to "
        f"{batches.sizes.max():,}, and the records they share are as if each of the {batches.records:,} "
        "records joined each batch on its own, all with the same probability."
    )
    between = f"{round_outwards(low, 5, up=False)} and {round_outwards(high, 5, up=True)}"
    interval = f"with {CONFIDENCE:.1%} confidence between {between}"
    estimated = f"The rate is estimated: {rate:.5g}, {interval}."
    known = {"sampling": Poisson(rate=rate), "rate": rate, "rate_range": (low, high)}
    unnoticed = (
        tell_unnoticed(batches),
        tell_unnoticed_ties(stats.shared, stats.count),
        tell_unnoticed_ends(batches),
    )
    notes = (estimated, f"Tested: {TESTED_SIZES} {TESTED_DRAWS}", *unnoticed)
    return make_finding(batches, Scheme.POISSON, sentence, *notes, **known)


def _name_epochs(stats: BatchStatistics, only: SchemeTest, largest: int) -> Finding:
    """The finding about a scheme in which a record comes once per epoch."""
    assert only.epochs is not None
    batches = stats.batches
    length, scheme = only.epochs.length, only.scheme
    if scheme is Scheme.FIXED_PARTITION:
        what = "These batches are the same in every epoch" if length else "These batches are not random"
        return make_finding(batches, scheme, f"{what}: {only.clue.saw}.", batch=largest, epoch=length)
    segment = only.epochs.segment(batches.count)
    # a second epoch in the same order would have been a fixed partition
    reshuffles = True if segment[-1] > segment[0] else None
    unseen = "Whether the next epoch draws a new order was not seen: the recording holds no more than one."
    notes: tuple[str, ...] = () if reshuffles else (unseen,)
    # of an epoch only the last batch may be short
    known: dict[str, object] = {
        "epoch": length,
        "full": length - 1 if length else None,
        "reshuffles": reshuffles,
    }
    within = f"within an epoch of {length:,} batches" if length else "within an epoch"
    once = (
        f"no record came twice {within}, which happens to independent draws with probability "
        f"{_tell_probability(only.epochs.log_chance)}"
    )
    if scheme is Scheme.SHUFFLE:
        sentence = f"These batches are shuffled and cut: {once}."
        return make_finding(batches, scheme, sentence, *notes, batch=largest, **known)
    sizes = f"sizes vary from {batches.sizes.min():,} to {largest:,}"
    sentence = f"Each record comes in one random batch of each epoch: {once}, and {sizes}."
    # a recording that begins within a pass holds parts of more passes than its batches fill
    if reshuffles and length and only.epochs.offset % length == 0:
        known["sampling"] = BallsInBins(batches=length)
    if length:
        unnoticed = tell_unnoticed_in_passes(cut_into_passes(batches, only.epochs), stats.shared)
        notes = (*notes, f"Tested: {TESTED_PASSES}", *unnoticed)
    return make_finding(batches, scheme, sentence, *notes, **known)


def _tell_probability(log_chance: float) -> str:
    """A probability in words, rounded up to a power of ten.

    >>> _tell_probability(-3000.0), _tell_probability(-9.0), _tell_probability(-1e-9)
    ('below 1e-300', 'below 0.001', 'below 1')
    """
    power = math.ceil(max(-300.0, log_chance / math.log(10)))
    return "below 1" if power >= 0 else f"below {10.0**power:g}"


def find_interval(successes: int, trials: int) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a probability at CONFIDENCE, not narrower by any rounding."""
    failures = trials - successes
    low = _least_probability(successes, trials) if successes else 0.0
    high = 1 - Fraction(_least_probability(failures, trials)) if failures else Fraction(1)
    return low, ceil_fraction(high)


def _least_probability(successes: int, trials: int) -> float:
    """A float, close to the largest, that makes so many successes certainly rarer than half of a miss."""
    from tightrope.numerics.balls import ball, enclose  # loads flint

    shape, miss = (successes, trials - successes + 1), (1 - Fraction(repr(CONFIDENCE))) / 2

    def is_rare(probability: float) -> bool:  # P(at least so many) is a regularised incomplete beta function
        chance = enclose(lambda: ball(probability).beta_lower(*shape, regularized=1), bits=32)
        return bool(chance <= ball(miss))

    # a try takes milliseconds; scipy is right to far more digits than this, so that the first is enough
    found, step = float(special.betaincinv(*shape, float(miss))), 2.0**-34
    while not is_rare(found := found - step * min(found, 1 - found)):
        step *= 2
    return found
