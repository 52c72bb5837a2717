"""How often `watch` is wrong, or does not know, by scheme: simulated recordings with fixed seeds.

Every recording is 200 batches of about 64 out of 10,000 records unless the line says otherwise. The bound is
the exact (Clopper-Pearson) 95 % upper limit of the probability of being wrong or not knowing. Times are those
of the call alone.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tightrope.audit.finding import Scheme
from tightrope.audit.recordings.watch import watch

Whole = NDArray[np.int64]
Draw = Callable[[np.random.Generator, int, int, int], list[Whole]]


def poisson(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return [
        rng.choice(records, size, replace=False, shuffle=False)
        for size in rng.binomial(records, batch / records, size=count)
    ]


def without_replacement(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return [rng.choice(records, batch, replace=False, shuffle=False) for _ in range(count)]


def with_replacement(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return [rng.integers(records, size=batch) for _ in range(count)]


def mildly_weighted(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    weights = np.cumsum(rng.uniform(0.5, 1.5, size=records))
    drawn = [
        np.unique(np.searchsorted(weights, rng.uniform(0, weights[-1], size=2 * batch))) for _ in range(count)
    ]
    return [rng.permutation(inside)[:batch] for inside in drawn]


def weighted_with_replacement(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    weights = np.cumsum(rng.uniform(0.5, 1.5, size=records))
    return [np.searchsorted(weights, rng.uniform(0, weights[-1], size=batch)) for _ in range(count)]


def shuffle(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return _epochs(lambda: _cut(rng.permutation(records), batch, drop_last=True), 0, count)


def shuffle_keeping_the_last(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return _epochs(lambda: _cut(rng.permutation(records), batch, drop_last=False), 0, count)


def shuffle_from_the_middle(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    start = int(rng.integers(records // batch))
    return _epochs(lambda: _cut(rng.permutation(records), batch, drop_last=True), start, count)


def shuffle_of_half(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return _epochs(lambda: _cut(rng.permutation(records)[: records // 2], batch, drop_last=True), 0, count)


def balls_in_bins(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    start = int(rng.integers(records // batch))
    return _epochs(lambda: _bins(rng, records, records // batch), start, count)


def fixed_partition(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    order = rng.permutation(records)
    return _epochs(lambda: _cut(order, batch, drop_last=True), 0, count)


def in_order(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    start = int(rng.integers(records // batch))
    return _epochs(lambda: _cut(np.arange(records), batch, drop_last=False), start, count)


def _epochs(epoch: Callable[[], list[Whole]], start: int, count: int) -> list[Whole]:
    found: list[Whole] = []
    while len(found) < start + count:
        found += epoch()
    return found[start : start + count]


def _cut(order: Whole, batch: int, *, drop_last: bool) -> list[Whole]:
    stop = len(order) - batch + 1 if drop_last else len(order)
    return [order[place : place + batch] for place in range(0, stop, batch)]


def _bins(rng: np.random.Generator, records: int, bins: int) -> list[Whole]:
    place = rng.integers(bins, size=records)
    order = np.argsort(place, kind="stable")
    return np.split(order, np.searchsorted(place[order], np.arange(1, bins)))


@dataclass(frozen=True)
class Line:
    draw: Draw
    scheme: Scheme
    records: int = 10_000
    batch: int = 64
    count: int = 200

    def __str__(self) -> str:
        usual = (self.records, self.batch, self.count) == (10_000, 64, 200)
        return self.draw.__name__.replace("_", " ") + (
            "" if usual else f", {self.count} x {self.batch} of {self.records:,}"
        )


USUAL = (
    Line(poisson, Scheme.POISSON),
    Line(without_replacement, Scheme.WITHOUT_REPLACEMENT),
    Line(shuffle, Scheme.SHUFFLE),
    Line(shuffle_keeping_the_last, Scheme.SHUFFLE),
    Line(shuffle_from_the_middle, Scheme.SHUFFLE),
    Line(shuffle_of_half, Scheme.SHUFFLE),
    Line(balls_in_bins, Scheme.BALLS_IN_BINS),
    Line(fixed_partition, Scheme.FIXED_PARTITION),
    Line(in_order, Scheme.FIXED_PARTITION),
    Line(with_replacement, Scheme.WITH_REPLACEMENT),
    Line(mildly_weighted, Scheme.WEIGHTED),
    Line(weighted_with_replacement, Scheme.WEIGHTED),
)
FIRST = (
    (poisson, Scheme.POISSON),
    (without_replacement, Scheme.WITHOUT_REPLACEMENT),
    (shuffle, Scheme.SHUFFLE),
)
HARDER = tuple(
    Line(draw, scheme, records, batch, count)
    for records, batch, count in (
        (1000, 10, 200),
        (1000, 10, 530),
        (60_000, 256, 100),
        (60_000, 256, 120),
        (100, 10, 200),
        (10_000, 64, 2),
    )
    for draw, scheme in FIRST
)


def measured(line: Line, recordings: int) -> str:
    wrong = unknown = 0
    seconds = 0.0
    for seed in range(recordings):
        batches = line.draw(
            np.random.default_rng([seed, line.records, line.batch]), line.records, line.batch, line.count
        )
        begun = time.perf_counter()
        scheme = watch(batches, records=line.records, repeats_allowed=True).scheme
        seconds += time.perf_counter() - begun
        wrong += scheme not in (line.scheme, Scheme.UNKNOWN)
        unknown += scheme is Scheme.UNKNOWN
    failed = wrong + unknown
    bound = 1.0 if failed == recordings else float(special.betaincinv(failed + 1, recordings - failed, 0.95))
    counts = f"{recordings:>11,}{wrong:>8,}{unknown:>9,}"
    return f"{line!s:<50}{counts}{bound:>12.2g}{1000 * seconds / recordings:>10.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=10_000, help="per line; harder cases take a tenth")
    parser.add_argument("--only", default="", help="only lines whose name holds this")
    asked = parser.parse_args()
    print(f"{'drawn by':<50}{'recordings':>11}{'wrong':>8}{'unknown':>9}{'95 % bound':>12}{'ms':>10}")
    for line in (*USUAL, *HARDER):
        if asked.only in str(line):
            print(
                measured(line, asked.recordings if line in USUAL else max(1, asked.recordings // 10)),
                flush=True,
            )


if __name__ == "__main__":
    main()
