"""One batch from uniform bytes, with exactly the law that is accounted."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tightrope.samplers.entropy import ByteSource

Indices = NDArray[np.int64]

RECORDS_AT_ONCE = 1 << 20  # a megabyte stays in the cache; part of what a seed means, so never change it
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
    bits = (bound - 1).bit_length()
    size = next(size for size in (1, 2, 4, 8) if bits <= 8 * size)
    words = draw(tries * size).view(f"<u{size}") & ((1 << bits) - 1)
    return words[words < bound].astype(np.int64)
