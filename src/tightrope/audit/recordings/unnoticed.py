"""What batches may hide that agree with a scheme: said with every scheme that an accountant takes."""

import math

import numpy as np
from scipy import special

from tightrope.audit.recordings import bets, ties
from tightrope.audit.recordings.batches import Batches
from tightrope.audit.recordings.clues import (
    BIN_ENDS_SHARE,
    CROWDED_SHARE,
    DISTANCE_SHARE,
    KEPT_SHARE,
    LEVEL,
    RECURRING_SHARE,
    SHARE,
    TIED_SHARE,
    UNEVEN,
)
from tightrope.audit.recordings.passes import PassTable, chance_kept
from tightrope.numerics.text import round_outwards


def tell_unnoticed(batches: Batches) -> str:
    """What may be uneven and still look uniform: mild weights, or one record that comes too often."""
    rate = batches.total / (batches.count * batches.records)
    counts = np.arange(batches.count + 1)
    told = batches.records * special.bdtrc(counts - 1.0, batches.count, rate) < LEVEL * SHARE
    fewest = int(np.argmax(told)) if told.any() else batches.count
    times = max(fewest / (batches.count * rate), 1.0)
    return (
        f"Weights that vary by {UNEVEN:.0%} or more are ruled out; milder ones, or one record that comes up "
        f"to {float(round_outwards(times, 2, up=True)):g} times as often as the others, may go unnoticed."
    )


def tell_unnoticed_ties(shared: ties.SharedRecords, batches: int) -> str:
    """How often two records must have come together to be noticed."""
    looked_at = shared.records
    among = f" (looked for {shared.where})" if shared.where else ""
    times = np.arange(2, batches + 1)
    told = ties.chance_together(times, shared.sizes, looked_at) < LEVEL * SHARE
    needed = f" if they came fewer than {int(times[np.argmax(told)]):,} times" if told.any() else ""
    return f"A few records that always come together{among} may go unnoticed{needed}."


def tell_unnoticed_ends(batches: Batches) -> str:
    """How few sizes a cap or a floor may hold back and go unnoticed: k of them weigh e^-k.

    A factor of a hundred is for the unknown rate, and for any size being the cap.
    """
    share = min(1.0, -math.log(LEVEL * CROWDED_SHARE / 100) / batches.count)
    most = round_outwards(100 * share, 2, up=True)
    return f"A cap or a floor that at most {most}% of the sizes would lie beyond may go unnoticed."


def tell_unnoticed_in_passes(passes: PassTable, shared: ties.SharedRecords) -> tuple[str, ...]:
    """What balls in bins may hide in so many passes."""
    unnoticed = (_tell_recurring(passes), _tell_distance(passes), _tell_law(passes))
    return (_tell_tied(passes, shared), _tell_kept(passes), *filter(None, unnoticed))


def _tell_tied(passes: PassTable, shared: ties.SharedRecords) -> str:
    """How often two records must come together to be noticed, or how many pairs if they always do."""
    times = np.arange(2, passes.count + 1)
    chances = ties.chance_together(times, shared.sizes, shared.records, trials=passes.count)
    told = times[chances < LEVEL * TIED_SHARE]
    among = f" (looked for {shared.where})" if shared.where else ""
    if len(told):
        seldom = f"in fewer than {int(told[0]):,} of the {passes.count:,} passes"
        return f"Two records that come together {seldom}{among} may go unnoticed."
    fewest, where = bets.find_fewest_tied(passes, LEVEL * TIED_SHARE)
    which = f"Fewer than about {fewest:,} pairs of records" if fewest else "Records"
    among = f" (looked for {where.removesuffix(', ')})" if where else ""
    return f"{which} that always come together{among} may go unnoticed."


def _tell_kept(passes: PassTable) -> str:
    times = np.arange(2, passes.count + 1)
    among = max(passes.count - 1, 1)
    chances = chance_kept(times, passes)
    told = times[passes.records * chances * among < LEVEL * KEPT_SHARE]
    if len(told):
        seldom = f"in fewer than {int(told[0]):,} of the {passes.count:,} passes"
        return f"A record that comes at the same place {seldom} may go unnoticed."
    records = np.arange(1, passes.records + 1)
    always = float(chances[-1]) if len(chances) else 1.0
    tails = among * special.bdtrc(records - 1.0, passes.records, always) if always < 1 else np.ones(1)
    fewest = int(records[np.argmax(tails < LEVEL * KEPT_SHARE)]) if (tails < LEVEL * KEPT_SHARE).any() else 0
    which = f"Fewer than {fewest:,} records" if fewest else "Records"
    return f"{which} that keep their places in all passes may go unnoticed."


def _tell_recurring(passes: PassTable) -> str:
    """Whether sizes that were drawn once would be noticed: these, had every pass the first one's."""
    sizes = passes.whole_sizes
    gain = (len(sizes) - 1) * (-bets.log_chance_of_sizes(sizes[0]) - math.log(2))
    told = gain > -math.log(LEVEL * RECURRING_SHARE)
    return "" if told else "Sizes that are drawn once, and are the same in every pass, may go unnoticed."


def _tell_distance(passes: PassTable) -> str:
    """How far apart visits may be kept: at a least distance of d, none comes within d - 1 batches."""
    shortest = bets.find_shortest_noticed(passes, LEVEL * DISTANCE_SHARE)
    if shortest == 1:
        return ""
    least = f"A least distance of up to {shortest:,} batches" if shortest else "A least distance"
    return f"{least} between two visits of a record may go unnoticed."


def _tell_law(passes: PassTable) -> str:
    """A cap or a floor that a share q of the sizes would lie beyond has no size beyond it with (1 - q)^B."""
    share = 1 - math.exp(math.log(LEVEL * BIN_ENDS_SHARE) / passes.whole_sizes.size)
    most = round_outwards(100 * share, 2, up=True)
    cap = f"A cap or a floor that at most {most}% of the sizes would lie beyond may go unnoticed"
    return f"{cap}, and so may sizes of another law that vary as much."
