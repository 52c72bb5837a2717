"""Batches of indices as one checked value."""

import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import Described, InvalidSetting
from tightrope.numerics import check

Whole = NDArray[np.int64]

MOST_RECORDS = 10**12  # with as many batches as fit in memory, record and batch still share one 64-bit number
INDICES_WANTED = (
    "Pass what a batch sampler yields, sequences of dataset indices, "
    "and not the examples that a loader makes of them."
)
_BOOLS = frozenset({bool, np.bool_})


@dataclass(frozen=True, kw_only=True, eq=False)
class Batches:
    """Who was drawn when: entry k says that record `drawn[k]` was in batch `batch[k]`.

    Entries are sorted by record and then by batch.
    """

    records: int
    sizes: Whole
    drawn: Whole
    batch: Whole

    @property
    def count(self) -> int:
        """How many batches there are."""
        return len(self.sizes)

    @property
    def total(self) -> int:
        """How many draws there are."""
        return len(self.drawn)

    @cached_property
    def inclusions(self) -> Whole:
        """How often each record came, for those that came at all."""
        ends = np.flatnonzero(np.diff(self.drawn, append=-1))  # an index is never -1
        return np.diff(ends, prepend=-1)

    @cached_property
    def first_repeat(self) -> tuple[int, int] | None:
        """The earliest batch that holds a record twice, and that record."""
        twice = np.flatnonzero((np.diff(self.drawn) == 0) & (np.diff(self.batch) == 0))
        if not len(twice):
            return None
        place = twice[np.argmin(self.batch[twice])]
        return int(self.batch[place]), int(self.drawn[place])

    def keep(self, *, every: int, block: int, first: int) -> "Batches":
        """One of every so many blocks of neighbouring records in the first batches, numbered without gaps."""
        distance = every * block
        inside = (self.drawn % distance < block) & (self.batch < first)
        drawn, batch = self.drawn[inside], self.batch[inside]
        whole, rest = divmod(self.records, distance)
        return Batches(
            records=whole * block + min(rest, block),
            sizes=np.bincount(batch, minlength=first),
            drawn=drawn // distance * block + drawn % distance,
            batch=batch,
        )

    @cached_property
    def members(self) -> list[Whole]:
        """The sorted records of each batch."""
        # records are in order, and remain so; numbers of 16 bits are sorted in one pass
        small = np.uint16 if self.count <= 2**16 else np.int64
        inside = self.drawn[np.argsort(self.batch.astype(small), kind="stable")]
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        return [inside[start:end] for start, end in pairwise(ends.tolist())]

    @cached_property
    def signatures(self) -> list[bytes]:
        """A signature for each batch, equal exactly where the records are the same."""
        return [inside.tobytes() for inside in self.members]

    @cached_property
    def period(self) -> int | None:
        """The fewest batches after which each one comes again, to the end of the recording."""
        who = self.signatures
        again = (later for later in range(1, len(who)) if who[later] == who[0])
        return next((later for later in again if who[later:] == who[:-later]), None)


def tell_period(period: int) -> str:
    """That batches come again, in words."""
    before = f"the one {period:,} before it" if period > 1 else "the one before it"
    return f"from batch {period + 1:,} on, each batch holds the same records as {before}"


def read_batches(batches: object, records: int | None, *, repeats_allowed: bool) -> Batches:
    """The batches of an iterable, checked; `records` is the size of the dataset they index."""
    if records is None:
        remedy = "Pass the number of records in the dataset that the indices point into."
        raise InvalidSetting("records", None, "be given", remedy)
    size = check_records(records)
    each = [
        _as_whole_numbers(batch, f"batches[{number}]") for number, batch in enumerate(check_batches(batches))
    ]
    if not each:
        remedy = "An iterator that was used up yields nothing more."
        raise InvalidSetting("batches", Described("none"), "hold at least one batch", remedy)
    together = np.concatenate([*each, np.zeros(1, dtype=np.int64)])
    if together.min() < 0 or together.max() >= size:
        # only now one by one, which takes longer than all the rest
        each = [as_indices(batch, number, size) for number, batch in enumerate(each)]
    found = join(each, size)
    if not repeats_allowed and found.first_repeat is not None:
        number, index = found.first_repeat
        remedy = (
            "Every scheme that is accounted draws a record at most once per batch. If draws are really with "
            "replacement, pass {repeats_allowed=True}, so that repeats count as evidence."
        )
        twice = Described(f"the index {index} more than once")
        raise InvalidSetting(f"batches[{number}]", twice, "hold each index once", remedy)
    return found


def join(each: list[Whole], records: int) -> Batches:
    """Checked index arrays as one value."""
    sizes = np.array([len(batch) for batch in each], dtype=np.int64)
    # one sort of one key: several times faster than sorting by two
    key = np.sort(np.concatenate(each) * len(each) + np.repeat(np.arange(len(each)), sizes))
    drawn, batch = np.divmod(key, len(each))
    return Batches(records=records, sizes=sizes, drawn=drawn, batch=batch)


def check_records(records: object) -> int:
    """The size of a dataset whose batches can be told apart."""
    size = check.whole(least=1, records=records)
    if size > MOST_RECORDS:
        must = f"be at most {MOST_RECORDS:.0e}"
        raise InvalidSetting("records", records, must, "Pass the size of the dataset.")
    return size


def check_batches(batches: object) -> Iterable[object]:
    """The batches, if one can iterate over them."""
    if isinstance(batches, str | bytes | dict) or not isinstance(batches, Iterable):
        raise InvalidSetting("batches", _shorten(batches), "be an iterable of batches", INDICES_WANTED)
    return batches


def as_indices(batch: object, number: int, records: int) -> Whole:
    """One batch as an array of indices from 0 to records - 1."""
    name = f"batches[{number}]"
    found = _as_whole_numbers(batch, name)
    if len(found) and (least := int(found.min())) < 0:
        raise InvalidSetting(name, least, "hold no index below 0", "Pass indices from 0 to records - 1.")
    if len(found) and (most := int(found.max())) >= records:
        remedy = (
            "Pass the size of the dataset that was drawn from; if that changed size meanwhile, "
            "watch each part with its own size."
        )
        raise InvalidSetting(name, most, f"hold indices below {{records={records}}}", remedy)
    return found


def _as_whole_numbers(batch: object, name: str) -> Whole:
    """One batch as an array of whole numbers, in or out of range."""
    found = _as_array(batch)
    if found is None or found.ndim != 1:
        hint = "Cut the indices of a sampler into batches first. " if isinstance(batch, int) else ""
        must = "be one flat sequence of indices"
        raise InvalidSetting(name, _shorten(batch), must, f"{hint}{INDICES_WANTED}")
    if not found.size:
        return np.zeros(0, dtype=np.int64)
    # numpy turns True among whole numbers into 1 without a word
    hides_a_bool = isinstance(batch, list | tuple) and not _BOOLS.isdisjoint(map(type, batch))
    if found.dtype.kind in "iu" and not hides_a_bool and found.max() < 2**63:
        return found.astype(np.int64, copy=False)
    values = batch if isinstance(batch, list | tuple) else found.tolist()
    wrong = [value for value in values if not _is_whole(value)] or sorted(values, key=abs)[-1:]
    remedy = "Pass whole numbers from 0 to records - 1."
    raise InvalidSetting(name, _shorten(wrong[0]), "hold indices only", remedy)


def _as_array(batch: object) -> NDArray[np.int64] | None:
    """The batch as numpy has it, of whatever type; None where it is no sequence."""
    if isinstance(batch, str | bytes | dict):
        return None
    if not hasattr(batch, "__array__") and not isinstance(batch, list | tuple):
        if not isinstance(batch, Iterable):
            return None
        batch = list(batch)  # sets, ranges and other iterables
    try:
        return np.asarray(batch)
    except (TypeError, ValueError, RuntimeError):  # ragged, or on a device that numpy cannot read
        try:
            return np.asarray(batch.tolist())  # type: ignore[attr-defined]
        except (AttributeError, TypeError, ValueError):
            return None


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _shorten(value: object) -> Described:
    text = repr(value)
    return Described(text if len(text) <= 80 else f"{text[:77]}...")
