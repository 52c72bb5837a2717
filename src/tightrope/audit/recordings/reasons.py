"""Why no scheme, or more than one, is left: sentences that hold whenever they are said."""

from collections import Counter
from collections.abc import Sequence

from tightrope.audit.finding import Scheme
from tightrope.audit.loaders.words import count as tell
from tightrope.audit.recordings.batches import tell_period
from tightrope.audit.recordings.clues import SURELY, Clue, SchemeTest
from tightrope.audit.recordings.hypotheses import BatchStatistics

NOUNS = {
    Scheme.POISSON: "Poisson sampling",
    Scheme.WITHOUT_REPLACEMENT: "batches of fixed size without replacement",
    Scheme.SHUFFLE: "shuffled batches",
    Scheme.BALLS_IN_BINS: "one random batch per record and epoch",
    Scheme.FIXED_PARTITION: "a fixed partition into batches",
    Scheme.WITH_REPLACEMENT: "draws with replacement",
    Scheme.WEIGHTED: "draws with weights",
}
MANY = 5  # expected batches, from which it is named that there is none


def explain_none(stats: BatchStatistics, tested: Sequence[SchemeTest], outcome: str) -> str:
    """Why it came to this outcome, in which no scheme is the answer; the likeliest reason comes first."""
    if _is_sure(stats.recurrence):
        return f"{outcome}: {_tell_recurrence(stats)}."
    if _is_sure(stats.top_index):
        return f"{_capitalise(stats.top_index.saw)}: is that the size of the dataset that was drawn from?"
    return _explain_sizes(stats, tested) or f"{outcome}. {_explain_nearest(stats, tested)}"


def _tell_recurrence(stats: BatchStatistics) -> str:
    period = stats.batches.period
    if period is not None:
        return f"{tell_period(period)}, as if the same seed were set again"
    times = Counter(who for who in stats.batches.signatures if who)
    again = sum(often - 1 for often in times.values())
    hold = "hold" if again > 1 else "holds"
    return f"{again:,} of {stats.count:,} batches {hold} the same records as an earlier one"


def _explain_sizes(stats: BatchStatistics, tested: Sequence[SchemeTest]) -> str:
    """What the ends of the sizes say, where they say it surely or nothing says more; else nothing."""
    if not stats.unequal or stats.within or _is_sure(stats.repeats):  # epochs are not Poisson, capped or not
        return ""
    strongest = _clue_against(Scheme.POISSON, tested)
    is_capped, is_padded = (
        strongest in end or any(map(_is_sure, end))
        for end in (stats.ends_of_sizes.largest, stats.ends_of_sizes.smallest)
    )
    law, smallest, largest = stats.size_law, int(stats.sizes.min()), int(stats.sizes.max())
    above, below, empty = law.expect_above(largest), law.expect_below(smallest), stats.count * law.chance(0)
    if is_padded and smallest > 0 and empty >= MANY:
        return (
            f"No batch is empty where about {empty:,.0f} are expected: if this is Poisson sampling, its "
            "empty batches seem to be dropped. Record them too, and let them count as steps."
        )
    if is_capped and above >= MANY:
        at_most = _tell_batches(int((stats.sizes == largest).sum()), largest)
        return (
            f"{at_most}, and none holds more where about {above:,.0f} Poisson "
            "batches would: sizes seem to have a cap. Batches that are truncated are not Poisson sampled; if "
            "these are physical pieces, record the logical batches that they are cut from."
        )
    if is_padded and below >= MANY:
        at_least = _tell_batches(int((stats.sizes == smallest).sum()), smallest)
        return (
            f"{at_least}, and none holds fewer where about {below:,.0f} Poisson "
            "batches would: sizes seem to have a floor. Batches that are padded are not Poisson sampled."
        )
    return ""


def _tell_batches(count: int, size: int) -> str:
    hold = f"{count:,} batches hold" if count > 1 else "One batch holds"
    return f"{hold} exactly {tell(size, 'record')}"


def _explain_nearest(stats: BatchStatistics, tested: Sequence[SchemeTest]) -> str:
    """What speaks against the scheme that comes to mind first."""
    once = ""
    if stats.within:
        scheme = Scheme.WITH_REPLACEMENT
    elif _is_sure(stats.repeats):
        once = f"{_capitalise(stats.repeats.saw)}. "
        scheme = Scheme.SHUFFLE if len(set(stats.sizes.tolist())) <= 2 else Scheme.BALLS_IN_BINS
    else:
        scheme = Scheme.POISSON if stats.unequal else Scheme.WITHOUT_REPLACEMENT
    return f"{once}What rules out {NOUNS[scheme]}: {_clue_against(scheme, tested).saw}."


def _clue_against(scheme: Scheme, tested: Sequence[SchemeTest]) -> Clue:
    return next(test.clue for test in tested if test.scheme is scheme)


def _is_sure(clue: Clue) -> bool:
    return clue.p_value < SURELY


def _capitalise(text: str) -> str:
    return text[0].upper() + text[1:]
