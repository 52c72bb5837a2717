"""One batch from uniform bytes, with exactly the law that is accounted."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.samplers.entropy import ByteSource

Indices = NDArray[np.int64]
Words = NDArray[np.integer[Any]]

RECORDS_AT_ONCE = 1 << 20  # a megabyte stays in the cache; part of what a seed means, so never change it
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
MASK_UP_TO = 64  # a flag per record beats sorting until there are about this many records for each one drawn


def base_256_digits(rate: float | Fraction) -> Iterator[int]:
    """The digits of a rate below 1 after the point in base 256; a float has finitely many, 1/3 has not.

    >>> list(base_256_digits(0.5)), list(base_256_digits(1 / 1024)), next(base_256_digits(Fraction(1, 3)))
    ([128], [0, 64], 85)
    """
    rest, whole = rate.as_integer_ratio()
    while rest:
        digit, rest = divmod(rest * 256, whole)
        yield digit


def poisson_batch(*, records: int, rate: float | Fraction, draw: ByteSource) -> Indices:
    """Each record with probability exactly `rate`, as a real number, in ascending order.

    A record joins when a uniform real number U lies below the rate. The two are compared digit by digit in
    base 256, and the first byte decides about almost every record. A float in place of U would round the
    rate: 24 random bits, as in a float32, turn 1e-7 into 2 / 2^24, which is 19 % more, and the run is less
    private than accounted.
    """
    if rate == 1:
        return np.arange(records, dtype=np.int64)
    starts = range(0, records, RECORDS_AT_ONCE)
    sizes = (min(RECORDS_AT_ONCE, records - start) for start in starts)
    parts = [start + _join(size, rate, draw) for start, size in zip(starts, sizes, strict=True)]
    return np.concatenate(parts)


def _join(records: int, rate: float | Fraction, draw: ByteSource) -> Indices:
    digits = base_256_digits(rate)
    first, digit = draw(records), next(digits, 0)
    joins = first < digit
    undecided = np.flatnonzero(first == digit)
    for digit in digits:
        if not undecided.size:
            break
        byte = draw(undecided.size)
        joins[undecided[byte < digit]] = True
        undecided = undecided[byte == digit]
    return np.flatnonzero(joins)  # still undecided after the last digit: U >= rate, so out


def truncated_poisson_batch(
    *, records: int, rate: float | Fraction, at_most: int, draw: ByteSource
) -> Indices:
    """A Poisson batch; of more than `at_most` records a uniform subset of that size, in ascending order."""
    joined = poisson_batch(records=records, rate=rate, draw=draw)
    if joined.size <= at_most:
        return joined
    return joined[without_replacement_batch(records=joined.size, batch=at_most, draw=draw)]


def without_replacement_batch(*, records: int, batch: int, draw: ByteSource) -> Indices:
    """One of the subsets of exactly `batch` records, each equally likely, in ascending order.

    The first k distinct values of a sequence of independent uniform ones are a uniform subset of size k. For
    more than half of the records the ones left out are drawn instead.
    """
    if 2 * batch > records:
        return np.flatnonzero(~_flag_distinct(records, records - batch, draw))
    if batch * MASK_UP_TO < records:
        return _sort_distinct(records, batch, draw)
    return np.flatnonzero(_flag_distinct(records, batch, draw))


# Both draw as many values as are still missing, never more, and keep the distinct ones: so they stop at the
# very value that completes the set, and agree about it.


def _flag_distinct(records: int, count: int, draw: ByteSource) -> NDArray[np.bool_]:
    flags = np.zeros(records, dtype=np.bool_)
    missing = count
    while missing:
        flags[_uniform_below(records, missing, draw)] = True
        missing = count - int(np.count_nonzero(flags))
    return flags


def _sort_distinct(records: int, count: int, draw: ByteSource) -> Indices:
    chosen = np.empty(0, dtype=np.int64)
    while chosen.size < count:
        ordered = np.sort(np.concatenate([chosen, _uniform_below(records, count - chosen.size, draw)]))
        chosen = ordered[np.diff(ordered, prepend=-1) > 0]
    return chosen


def _uniform_below(bound: int, tries: int, draw: ByteSource) -> Indices:
    """Independent uniform values below `bound`: of `tries` masked words those in range, about half or more.

    Reducing modulo the bound instead would favour the small values.
    """
    return _words_below(bound, tries, draw).astype(np.int64)


def _words_below(bound: int, tries: int, draw: ByteSource) -> Words:
    """The same in the smallest type that holds them."""
    bits = (bound - 1).bit_length()
    size = next(size for size in (1, 2, 4, 8) if bits <= 8 * size)
    words: Words = draw(tries * size).view(f"<u{size}") & ((1 << bits) - 1)
    return words[words < bound]


# Allocations: the records choose batches, and not the batches records.


@dataclass(frozen=True, kw_only=True, eq=False)
class BinnedRecords:
    """Which records are in which of the batches of one pass: records in the order of their batches."""

    order: Indices
    batches: Words  # of the records in that order, ascending

    def batch(self, place: int) -> Indices:
        """The records of the batch at `place`, in ascending order."""
        key = self.batches.dtype.type(place)  # of another type, all batches would be copied to compare
        first, end = (np.searchsorted(self.batches, key, side=side) for side in _SIDES)
        return self.order[first:end].copy()


def allocate(*, records: int, batches: int, chosen: int, draw: ByteSource) -> BinnedRecords:
    """Each record takes `chosen` different ones of `batches` batches, every such set equally likely.

    Records choose independently of each other. For more than half of the batches the ones not taken are
    chosen instead.
    """
    if chosen == 1:
        taken = _exactly_below(batches, records, draw)
    elif 2 * chosen <= batches:
        taken = _choose_distinct(records, batches, chosen, draw).ravel()
    else:
        left_out = _choose_distinct(records, batches, batches - chosen, draw)
        flags = np.ones((records, batches), dtype=np.bool_)
        flags[np.arange(records)[:, None], left_out] = False
        taken = np.nonzero(flags)[1]
    order = np.argsort(taken, kind="stable")  # so records of one batch stay in ascending order
    return BinnedRecords(order=order // chosen, batches=taken[order])


def _exactly_below(bound: int, count: int, draw: ByteSource) -> Words:
    """`count` independent uniform values below `bound`."""
    found = _words_below(bound, count, draw)
    while found.size < count:
        found = np.concatenate([found, _words_below(bound, count - found.size, draw)])
    return found


def _choose_distinct(records: int, batches: int, chosen: int, draw: ByteSource) -> Indices:
    """A row for each record: one of the subsets of `chosen` of `batches`, each equally likely.

    The i-th value is uniform below batches - chosen + i + 1; where the row has it already, the largest value
    possible takes its place, which the row cannot have. By induction over i every subset of the values
    possible is equally likely.
    """
    rows = np.empty((records, chosen), dtype=np.int64)
    for i in range(chosen):
        largest = batches - chosen + i
        value = _exactly_below(largest + 1, records, draw).astype(np.int64)
        repeats = (rows[:, :i] == value[:, None]).any(axis=1)
        rows[:, i] = np.where(repeats, largest, value)
    return rows
