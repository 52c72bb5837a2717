"""A recording as passes: how many records each place of a pass holds, and where each record goes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tightrope.audit.recordings.batches import Batches, Whole
from tightrope.audit.recordings.epochs import EpochCut
from tightrope.numerics.floats import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class PassTable:
    """Row e is about pass e, column t about its batch t.

    `sizes` are 0 where `seen` is false: the first and the last pass may be recorded in part. `whole` are the
    rows of which every batch was seen, and `places` says for these in which batch of the pass each record is.
    `visits` holds a number for each draw of any pass: its record times the batches of a pass, plus its place.
    """

    records: int
    sizes: Whole
    seen: NDArray[np.bool_]
    whole: NDArray[np.bool_]
    places: Whole
    visits: Whole

    @property
    def count(self) -> int:
        """How many passes were seen, whole or not."""
        return len(self.sizes)

    @property
    def batches(self) -> int:
        """How many batches a pass has."""
        return int(self.sizes.shape[1])

    @property
    def whole_sizes(self) -> Whole:
        """The sizes of the whole passes."""
        return np.asarray(self.sizes[self.whole])


def cut_into_passes(batches: Batches, epochs: EpochCut) -> PassTable:
    """The passes of a cut that has whole ones, each of which takes every record."""
    assert epochs.length is not None
    segment = epochs.segment(batches.count)
    row, place = segment - segment[0], (np.arange(batches.count) - epochs.offset) % epochs.length
    shape = (int(row[-1]) + 1, epochs.length)
    sizes, seen = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
    sizes[row, place], seen[row, place] = batches.sizes, True
    whole = np.logical_and.reduce(seen, axis=1)
    rank = np.cumsum(whole) - 1
    inside = whole[row[batches.batch]]
    drawn, batch = batches.drawn[inside], batches.batch[inside]
    places = np.zeros((int(whole.sum()), batches.records), dtype=np.int64)
    places[rank[row[batch]], drawn] = place[batch]
    # numbers of records that came, since indices may be too large to be multiplied
    number = np.repeat(np.arange(len(batches.inclusions)), batches.inclusions)
    visits = number * epochs.length + place[batches.batch]
    return PassTable(
        records=batches.records, sizes=sizes, seen=seen, whole=whole, places=places, visits=visits
    )


def chance_kept(times: Whole, passes: PassTable) -> Floats:
    """A bound on the probability that a record comes so often at one place."""
    bins = passes.batches
    return np.asarray(np.minimum(bins * special.bdtrc(times - 1.0, passes.count, 1 / bins), 1.0))
