"""Ways to cut a recording into epochs in which no record comes twice."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from tightrope.audit.recordings.batches import Batches, Whole
from tightrope.numerics.floats import Floats

LONGEST_TRIED = 2000  # batches per epoch; beyond it only a whole pass over the records, within NEAR batches
NEAR = 64
KEPT = 2  # offsets per length and end: where few records come twice, many fit


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
        return [cutter.cut(0, None, np.array([0, count]))]
    offsets = range(1, min(int(reach[0]), count - 1) + 1)
    fitting = [offset for offset in offsets if reach[offset] >= count]
    found = [cutter.cut(offset, None, np.array([0, offset, count])) for offset in fitting]
    # between the closest two batches that share a record there must be a cut
    closest = int(np.argmin(np.where(reach < count, reach - np.arange(count), count)))
    places = np.arange(closest + 1, int(reach[closest]) + 1)
    after_short = int(np.argmax(batches.sizes < batches.sizes.max())) + 1
    for length in _lengths(batches, reach):
        # where no repeat is closer than that, all offsets fit alike
        tried = places % length if len(places) < length else np.array([0, after_short % length])
        found += cutter.choose(length, cutter.fit(length, np.unique(tried)), after_short)
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
    """Cuts of one recording. `room` is how many batches, from each on, surely hold no record twice."""

    def __init__(self, batches: Batches, reach: Whole) -> None:
        self.records, self.count, self.first_reach = batches.records, batches.count, int(reach[0])
        # as if an endless recording without a repeat followed, so that any length divides it
        self.room = np.full(2 * self.count, self.count)
        self.room[: self.count] = np.where(reach < self.count, reach - np.arange(self.count), self.count)
        self.ends = np.concatenate([[0], np.cumsum(batches.sizes)])
        self.log_all = math.lgamma(self.records + 1)
        self.log_alone = float(log_falling(self.records, batches.sizes).sum())

    def fit(self, length: int, offsets: Whole) -> Whole:
        """Of the offsets those at which epochs of this length fit, at least one of them whole."""
        epochs = -(-self.count // length)
        least = self.room[: epochs * length].reshape(epochs, length).min(axis=0)
        tried = offsets[offsets <= min(self.first_reach, self.count - length)]
        return np.asarray(tried[least[tried] >= length])

    def choose(self, length: int, offsets: Whole, after_short: int) -> list[EpochCut]:
        """Of offsets that fit, the outermost, whole passes over the records, and those behind a short batch.

        Where many fit, the outermost leave the longest pieces at the ends, and so the strongest evidence.
        """
        if len(offsets) > 2 * KEPT:
            first = self.ends[offsets + length] - self.ends[offsets]
            whole = offsets[first == self.records][:KEPT]
            behind = offsets[(offsets - after_short) % length == 0]
            offsets = np.unique(np.concatenate([offsets[:KEPT], offsets[-KEPT:], whole, behind]))
        return [self.cut(offset, length, _bounds(offset, length, self.count)) for offset in offsets.tolist()]

    def cut(self, offset: int, length: int | None, bounds: Whole) -> EpochCut:
        """The epochs between the bounds."""
        totals = np.diff(self.ends[bounds])
        log_chance = len(totals) * self.log_all - float(special.gammaln(self.records - totals + 1.0).sum())
        first = int(totals[1 if offset else 0]) if length else 0
        return EpochCut(offset=offset, length=length, log_chance=log_chance - self.log_alone, first=first)


def _bounds(offset: int, length: int, count: int) -> Whole:
    starts = np.arange(offset, count, length)
    return np.concatenate([[0] if offset else [], starts, [count]]).astype(np.int64)


def _lengths(batches: Batches, reach: Whole) -> Iterator[int]:
    longest = min(int((reach - np.arange(batches.count)).max()), batches.count - 1)
    yield from range(2, min(longest, LONGEST_TRIED) + 1)
    whole_pass = round(batches.records * batches.count / max(batches.total, 1))
    yield from range(max(LONGEST_TRIED + 1, whole_pass - NEAR), min(longest, whole_pass + NEAR) + 1)


def log_falling(records: int, size: Whole) -> Floats:
    """ln(records (records - 1) ... (records - size + 1)); -inf where there are not so many records."""
    left = np.maximum(records - size.astype(float), 0.0)
    logs = special.gammaln(records + 1.0) - special.gammaln(left + 1)
    return np.where(size > records, -np.inf, logs)
