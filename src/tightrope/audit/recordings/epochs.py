"""Ways to cut a recording into epochs in which no record comes twice."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import special

from tightrope.audit.recordings.batches import Batches, Whole
from tightrope.numerics.floats import Floats

LONGEST_TRIED = 2000  # batches per epoch; beyond it only a whole pass over the records, within NEAR batches
NEAR = 64
KEPT = 4  # offsets per length: where few records come twice, many fit


@dataclass(frozen=True, kw_only=True)
class EpochCut:
    """Epochs that begin at batch `offset` and then every `length` batches; an earlier one ends before them.

    `length` is None where no epoch was recorded from its first to its last batch; `first` is how many draws
    the first whole one has. `log_chance` is the logarithm of the probability that independent uniform batches
    of these sizes have no repeat within any epoch.
    """

    offset: int
    length: int | None
    log_chance: float
    first: int = 0

    def segment(self, count: int) -> Whole:
        """The number of the epoch that each of `count` batches belongs to."""
        since = np.arange(count) - self.offset
        return since // self.length + 1 if self.length else (since >= 0).astype(np.int64)

    def whole(self, count: int) -> list[slice]:
        """The epochs that were recorded from their first to their last batch."""
        if self.length is None:
            return []
        starts = range(self.offset, count - self.length + 1, self.length)
        return [slice(start, start + self.length) for start in starts]

    def last_batches(self, count: int) -> list[int]:
        """The numbers of the batches that end an epoch; a recording without a cut may end with its epoch."""
        if self.length is None:
            return [(self.offset or count) - 1]
        return list(range((self.offset or self.length) - 1, count, self.length))


def find_cuts(batches: Batches) -> list[EpochCut]:
    """The offsets and lengths (of at least 2) that fit and may matter; none if a batch repeats a record."""
    if batches.first_repeat is not None:
        return []
    count, reach = batches.count, _reach(batches)
    cutter = _Cutter(batches, reach)
    if reach[0] >= count:  # no repeat at all: any cut would fit, and none is the strongest evidence
        return [cutter.cut(0, None, [0, count])]
    offsets = range(1, min(int(reach[0]), count - 1) + 1)
    found = [cutter.cut(offset, None, [0, offset, count]) for offset in offsets if reach[offset] >= count]
    # between the closest two batches that share a record there must be a cut
    closest = int(np.argmin(np.where(reach < count, reach - np.arange(count), count)))
    places = range(closest + 1, int(reach[closest]) + 1)
    after_short = int(np.argmax(batches.sizes < batches.sizes.max())) + 1
    for length in _lengths(batches, reach):
        # where no repeat is closer than that, all offsets fit alike
        tried = {place % length for place in places} if len(places) < length else {0, after_short % length}
        found += _select(cutter.fit(length, tried), batches.records, after_short)
    return found


def count_cuts(count: int) -> float:
    """How many offsets and lengths `count` batches allow: what looking for the best one costs."""
    return count * (count + 3) / 2 + 1


def _reach(batches: Batches) -> Whole:
    """For each batch the first later one by which a record has come twice, counting from that batch on."""
    count = batches.count
    again = np.diff(batches.drawn) == 0
    earlier, later = batches.batch[:-1][again], batches.batch[1:][again]
    first = np.full(count, count, dtype=np.int64)
    np.minimum.at(first, earlier, later)
    return np.minimum.accumulate(first[::-1])[::-1]


class _Cutter:
    """Plain lists, which beat arrays here: most cuts fail at their first epochs."""

    def __init__(self, batches: Batches, reach: Whole) -> None:
        self.records, self.count, self.reach = batches.records, batches.count, reach.tolist()
        self.ends = [0, *np.cumsum(batches.sizes).tolist()]
        self.log_all = math.lgamma(self.records + 1)
        self.log_alone = float(log_falling(self.records, batches.sizes).sum())

    def fit(self, length: int, offsets: Iterable[int]) -> list[EpochCut]:
        """The offsets at which epochs of this length fit, at least one of them whole."""
        found = []
        for offset in offsets:
            starts = range(offset, self.count, length)
            is_whole = offset <= self.reach[0] and offset + length <= self.count
            if is_whole and self._has_no_repeat(starts):
                bounds = [*([0] if offset else []), *starts, self.count]
                found.append(self.cut(offset, length, bounds))
        return found

    def _has_no_repeat(self, starts: range) -> bool:
        return all(self.reach[start] >= min(start + starts.step, self.count) for start in starts)

    def cut(self, offset: int, length: int | None, bounds: list[int]) -> EpochCut:
        """The epochs between the bounds."""
        totals = [self.ends[end] - self.ends[start] for start, end in pairwise(bounds)]
        log_chance = sum(self.log_all - math.lgamma(self.records - total + 1) for total in totals)
        first = totals[1 if offset else 0] if length else 0
        return EpochCut(offset=offset, length=length, log_chance=log_chance - self.log_alone, first=first)


def _lengths(batches: Batches, reach: Whole) -> Iterator[int]:
    longest = min(int((reach - np.arange(batches.count)).max()), batches.count - 1)
    yield from range(2, min(longest, LONGEST_TRIED) + 1)
    whole_pass = round(batches.records * batches.count / max(batches.total, 1))
    yield from range(max(LONGEST_TRIED + 1, whole_pass - NEAR), min(longest, whole_pass + NEAR) + 1)


def _select(found: list[EpochCut], records: int, after_short: int) -> list[EpochCut]:
    """Of many cuts of one length: the strongest evidence, whole passes, and those behind a short batch."""
    if len(found) <= KEPT:
        return found
    ordered = sorted(found, key=lambda cut: cut.log_chance)
    whole = [cut for cut in ordered if cut.first == records]
    behind = [cut for cut in ordered if cut.length and (cut.offset - after_short) % cut.length == 0]
    return ordered[:KEPT] + whole[:KEPT] + behind


def log_falling(records: int, size: Whole) -> Floats:
    """ln(records (records - 1) ... (records - size + 1)); -inf where there are not so many records."""
    left = np.maximum(records - size.astype(float), 0.0)
    logs = special.gammaln(records + 1.0) - special.gammaln(left + 1)
    return np.where(size > records, -np.inf, logs)
