"""Batches of indices as one checked value."""

import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidSetting
from tightrope.numerics import check

Whole = NDArray[np.int64]

_BOOLS = frozenset({bool, np.bool_})
MOST_RECORDS = 10**12  # with as many batches as fit in memory, record and batch still share one 64-bit number
AT_MOST_ONCE = (
    "Every scheme that is accounted draws a record at most once per batch; if draws are really with replacement, pass "
    "repeats_allowed=True, so that repeats count as evidence."
)
INDICES_WANTED = "Pass what a batch sampler yields, sequences of dataset indices, and not the examples that a loader makes of them."


@dataclass(frozen=True, kw_only=True, eq=False)
class Batches:
    """Who was drawn when: entry k says that record `drawn[k]` was in batch `batch[k]`, sorted by record and then by batch."""

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
        ends = (
            np.flatnonzero(np.append(np.diff(self.drawn) != 0, True))
            if self.total
            else np.zeros(0, dtype=np.int64)
        )
        return np.diff(ends, prepend=-1)

    @cached_property
    def first_repeat(self) -> tuple[int, int] | None:
        """The earliest batch that holds a record twice, and that record."""
        twice = np.flatnonzero((np.diff(self.drawn) == 0) & (np.diff(self.batch) == 0))
        if not len(twice):
            return None
        place = twice[np.argmin(self.batch[twice])]
        return int(self.batch[place]), int(self.drawn[place])

    @cached_property
    def members(self) -> list[Whole]:
        """The sorted records of each batch."""
        inside = np.sort(self.batch * self.records + self.drawn) % self.records
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        return [inside[start:end] for start, end in pairwise(ends.tolist())]

    @cached_property
    def signatures(self) -> list[bytes]:
        """The same for batches of the same records, and only for those."""
        return [inside.tobytes() for inside in self.members]


def batches_from(batches: object, records: int | None, *, repeats_allowed: bool) -> Batches:
    """The batches of an iterable, checked; `records` is the size of the dataset they index."""
    if records is None:
        raise InvalidSetting(
            "records must be given, got None. Pass the number of records in the dataset that the indices point into."
        )
    size = check.whole(least=1, records=records)
    if size > MOST_RECORDS:
        raise InvalidSetting(
            f"records must be at most {MOST_RECORDS:.0e}, got {size}. Pass the size of the dataset."
        )
    if isinstance(batches, dict | bytes) or not isinstance(batches, Iterable):
        raise InvalidSetting(
            f"batches must be an iterable of batches, got {_short(batches)}. {INDICES_WANTED}"
        )
    each = [whole_numbers(batch, f"batches[{number}]") for number, batch in enumerate(batches)]
    together = np.concatenate([*each, np.zeros(1, dtype=np.int64)])
    if (
        together.min() < 0 or together.max() >= size
    ):  # looked at one by one only if need be: it takes longer than all the rest
        each = [indices(batch, number, size) for number, batch in enumerate(each)]
    if not each:
        raise InvalidSetting(
            "batches must hold at least one batch, got none. An iterator that was used up yields nothing more."
        )
    found = joined(each, size)
    if not repeats_allowed and found.first_repeat is not None:
        number, index = found.first_repeat
        raise InvalidSetting(f"batches[{number}] holds the index {index} more than once. {AT_MOST_ONCE}")
    return found


def joined(each: list[Whole], records: int) -> Batches:
    """Checked index arrays as one value."""
    sizes = np.array([len(batch) for batch in each], dtype=np.int64)
    # one sort of one key: several times faster than sorting by two
    key = np.sort(np.concatenate(each) * len(each) + np.repeat(np.arange(len(each)), sizes))
    drawn, batch = np.divmod(key, len(each))
    return Batches(records=records, sizes=sizes, drawn=drawn, batch=batch)


def indices(batch: object, number: int, records: int) -> Whole:
    """One batch as an array of indices from 0 to records - 1."""
    found = whole_numbers(batch, f"batches[{number}]")
    if len(found) and (least := int(found.min())) < 0:
        raise InvalidSetting(
            f"batches[{number}] holds the index {least}, which is below 0. Pass indices from 0 to records - 1."
        )
    if len(found) and (most := int(found.max())) >= records:
        raise InvalidSetting(
            f"batches[{number}] holds the index {most}, but records is {records}, so that indices end at {records - 1}. Pass "
            "the size of the dataset that was drawn from; if that changed size meanwhile, watch each part with its own size."
        )
    return found


def whole_numbers(batch: object, name: str) -> Whole:
    """One batch as an array of whole numbers, in or out of range."""
    if isinstance(batch, str | bytes | dict) or not (
        isinstance(batch, Iterable) or hasattr(batch, "__array__")
    ):
        hint = (
            "A sampler of single indices must be cut into batches first. " if isinstance(batch, int) else ""
        )
        raise InvalidSetting(
            f"{name} must be a sequence of indices, got {_short(batch)}. {hint}{INDICES_WANTED}"
        )
    found = _as_numpy(batch)
    if found is None or found.ndim != 1:
        raise InvalidSetting(
            f"{name} must be one flat sequence of indices, got {_short(batch)}. {INDICES_WANTED}"
        )
    if not found.size:
        return np.zeros(0, dtype=np.int64)
    # numpy turns True among whole numbers into 1 without a word
    hides_a_bool = isinstance(batch, list | tuple) and not _BOOLS.isdisjoint(map(type, batch))
    if found.dtype.kind in "iu" and not hides_a_bool and (found.dtype != np.uint64 or found.max() < 2**63):
        return found.astype(np.int64, copy=False)
    values = list(batch) if isinstance(batch, list | tuple) else found.tolist()
    wrong = next((value for value in values if not _is_whole(value)), max(values, key=_magnitude))
    raise InvalidSetting(
        f"{name} holds {_short(wrong)}, which is no index. Pass whole numbers from 0 to records - 1."
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _as_numpy(batch: object) -> NDArray[np.generic] | None:
    if not hasattr(batch, "__array__") and not isinstance(batch, list | tuple):
        batch = list(batch)  # type: ignore[call-overload]  # sets, ranges and other iterables
    try:
        return np.asarray(batch)
    except (TypeError, ValueError, RuntimeError):  # ragged, or on a device that numpy cannot read
        try:
            return np.asarray(batch.tolist())  # type: ignore[attr-defined]
        except (AttributeError, TypeError, ValueError):
            return None


def _magnitude(value: object) -> int:
    return abs(value) if isinstance(value, int) else -1


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
