"""Counts that tell whether passes are balls in bins: ends of sizes, records that share or keep places."""

import numpy as np
from scipy import special

from tightrope.audit.loaders.words import count as tell
from tightrope.audit.recordings import ties
from tightrope.audit.recordings.clues import BIN_ENDS_SHARE, KEPT_SHARE, TIED_SHARE, Clue
from tightrope.audit.recordings.passes import PassTable, chance_kept


def weigh_ends_of_bins(passes: PassTable) -> list[Clue]:
    """Sizes have no cap and no floor.

    Sizes of one pass are negatively associated (Joag-Dev and Proschan 1983): that all lie at or below one
    number is at most as likely as if they were independent, and so is that all lie at or above it.
    """
    sizes, n, rate = passes.whole_sizes, passes.records, 1 / passes.batches
    smallest, largest = int(sizes.min()), int(sizes.max())
    above = float(special.bdtrc(largest, n, rate)) if largest < n else 0.0
    below = float(special.bdtr(smallest - 1, n, rate)) if smallest else 0.0
    ends = ((above, "more", largest), (below, "fewer", smallest))
    return [
        Clue(
            p_value=float((1 - beyond) ** sizes.size),
            saw=f"no batch holds {more} than {tell(end, 'record')} "
            f"where {sizes.size * beyond:,.3g} are expected",
            share=BIN_ENDS_SHARE,
        )
        for beyond, more, end in ends
    ]


def weigh_closest_in_passes(passes: PassTable, shared: ties.SharedRecords) -> Clue:
    """No two records share their batch in far too many passes."""
    most = ties.find_closest(shared)
    p_value = float(ties.chance_together(np.array(most), shared.sizes, shared.records, trials=passes.count))
    expected = ties.expect_together(shared.sizes, shared.records)
    often = f"{tell(most, 'time')} in {passes.count:,} passes"
    saw = f"two records came together {often} where {expected:.2g} are expected"
    return Clue(p_value=p_value if most > 1 else 1.0, saw=shared.tell(saw), share=TIED_SHARE)


def weigh_kept_places(passes: PassTable) -> Clue:
    """No records come at the same place of too many passes.

    Records are independent, so as many come k times at one place as chance p lets: at most a binomial count,
    with p at most T P(Bin(passes, 1 / T) >= k). Any k from 2 on may be the one.
    """
    numbers, times = np.unique(passes.visits, return_counts=True)
    most = np.zeros(passes.records, dtype=np.int64)
    np.maximum.at(most, numbers // passes.batches, times)
    tried = np.arange(2, int(most.max()) + 1)
    if not len(tried):
        return Clue(p_value=1.0, saw="no record came twice at one place", share=KEPT_SHARE)
    so_many = len(most) - np.searchsorted(np.sort(most), tried)
    chances = chance_kept(tried, passes)
    tails = np.where(chances < 1, special.bdtrc(so_many - 1.0, passes.records, np.minimum(chances, 1.0)), 1.0)
    worst = int(np.argmin(tails))
    records = tell(int(so_many[worst]), "record")
    expected = f"where at most {passes.records * float(chances[worst]):,.2g} are expected"
    saw = f"{records} came {tell(int(tried[worst]), 'time')} or more at one place of their passes {expected}"
    p_value = min(1.0, max(passes.count - 1, 1) * float(tails[worst]))
    return Clue(p_value=p_value, saw=saw, share=KEPT_SHARE)
