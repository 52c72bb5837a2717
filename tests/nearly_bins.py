"""Passes that come close to balls in bins and are not."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Draw = Callable[[np.random.Generator, int, int, int], list[Whole]]
# where each record goes in a pass over so many records and batches, given where it went in the one before
Pass = Callable[[np.random.Generator, int, int, Whole | None], Whole]


def in_passes(place: Pass) -> Draw:
    """Batches of the passes that `place` makes, one after another."""

    def draw(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
        found, last, bins = list[Whole](), None, records // batch
        while len(found) < count:
            last = place(rng, records, bins, last)
            found += _collect(last, bins)
        return found[:count]

    return draw


def _collect(place: Whole, bins: int) -> list[Whole]:
    order = np.argsort(place, kind="stable")
    return np.split(order, np.searchsorted(place[order], np.arange(1, bins)))


def _order_bins(rank: Callable[[np.random.Generator, Whole], NDArray[Any]]) -> Pass:
    """Balls in bins whose bins come in an order of their sizes."""

    def place(rng: np.random.Generator, records: int, bins: int, _last: Whole | None) -> Whole:
        drawn = rng.integers(bins, size=records)
        order = np.argsort(rank(rng, np.bincount(drawn, minlength=bins)), kind="stable")
        return np.asarray(order.argsort()[drawn])

    return place


def _sizes_drawn_once(*, permuted: bool) -> Pass:
    def place(rng: np.random.Generator, records: int, bins: int, last: Whole | None) -> Whole:
        drawn = rng.integers(bins, size=records) if last is None else last
        sizes = np.bincount(drawn, minlength=bins)
        again = np.repeat(np.arange(bins), rng.permutation(sizes) if permuted else sizes)
        return again[rng.permutation(records)]

    return place


def _pairs_in_bins(share: float) -> Pass:
    def place(rng: np.random.Generator, records: int, bins: int, _last: Whole | None) -> Whole:
        drawn, tied = rng.integers(bins, size=records), int(share * records) // 2
        drawn[records - tied :] = drawn[:tied]  # far apart in the dataset
        return drawn

    return place


def _stay(count: int) -> Pass:
    def place(rng: np.random.Generator, records: int, bins: int, last: Whole | None) -> Whole:
        drawn = rng.integers(bins, size=records)
        if last is not None:
            drawn[:count] = last[:count]
        return drawn

    return place


def _first_bin(count: int) -> Pass:
    def place(rng: np.random.Generator, records: int, bins: int, _last: Whole | None) -> Whole:
        return np.where(np.arange(records) < count, 0, rng.integers(bins, size=records))

    return place


def _apart(least: int) -> Pass:
    """No record comes within fewer than `least` batches of its last visit."""

    def place(rng: np.random.Generator, records: int, bins: int, last: Whole | None) -> Whole:
        drawn = rng.integers(bins, size=records)
        while last is not None and (close := bins + drawn - last < least).any():
            drawn[close] = rng.integers(bins, size=int(close.sum()))
        return drawn

    return place


def _cap_bins(most: int) -> Pass:
    """A pass with a larger batch is drawn again."""

    def place(rng: np.random.Generator, records: int, bins: int, _last: Whole | None) -> Whole:
        while np.bincount(drawn := rng.integers(bins, size=records)).max() > most:
            pass
        return drawn

    return place


NEARLY_BALLS_IN_BINS: dict[str, Draw] = {
    "sizes drawn once": in_passes(_sizes_drawn_once(permuted=False)),
    "sizes drawn once, permuted": in_passes(_sizes_drawn_once(permuted=True)),
    "sizes in order": in_passes(_order_bins(lambda _rng, sizes: sizes)),
    "sizes in some order": in_passes(_order_bins(lambda rng, sizes: sizes + 7 * rng.normal(size=len(sizes)))),
    "a twentieth in pairs": in_passes(_pairs_in_bins(0.05)),
    "a tenth in pairs": in_passes(_pairs_in_bins(0.1)),
    "one pair": in_passes(_pairs_in_bins(0.001)),
    "5 always in the first": in_passes(_first_bin(5)),
    "10 always in the first": in_passes(_first_bin(10)),
    "one keeps its place": in_passes(_stay(1)),
    "never in the next batch": in_passes(_apart(2)),
    "never in the next two": in_passes(_apart(3)),
    "drawn again above 62": in_passes(_cap_bins(62)),
}
