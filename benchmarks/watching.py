"""How often `watch` is wrong or does not know, and what it misses: simulated recordings with fixed seeds.

The first table is about true schemes: 200 batches of about 64 out of 10,000 records unless the line says
otherwise. `wrong` is another scheme than the true one, `unknown` is none. The second table is about samplers
that come close to Poisson sampling, or to batches without replacement, and are not: 400 batches of about 64
out of 10,000; and about what comes close to balls in bins: ten passes of 40 batches over 2,000. `missed` are
recordings that pass for what is accounted. Bounds are exact (Clopper-Pearson) upper limits at 95 %: of the
probability of being wrong or not knowing, and of missing. Times are CPU times of the call alone. The third
table, where torch and Opacus are installed, is about reading loaders: a million indices in different
containers.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import special

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from nearly_bins import NEARLY_BALLS_IN_BINS
from reading_loaders import tell_loaders
from tightrope.audit.finding import Scheme
from tightrope.audit.recordings.watch import watch

Whole = NDArray[np.int64]
Draw = Callable[[np.random.Generator, int, int, int], list[Whole]]
CHUNK = 100  # recordings per task


def poisson(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return _subsets(rng, records, rng.binomial(records, batch / records, size=count))


def without_replacement(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return _subsets(rng, records, [batch] * count)


def with_replacement(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return list(rng.integers(records, size=(count, batch)))


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


def _subsets(rng: np.random.Generator, records: int, sizes: Iterable[int]) -> list[Whole]:
    return [rng.choice(records, size, replace=False, shuffle=False) for size in sizes]


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


# what comes close to a scheme and is not it


def half_in_pairs(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return _tied(rng, records, rng.binomial(records, batch / records, size=count), 2)


def half_in_pairs_of_equal_size(
    rng: np.random.Generator, records: int, batch: int, count: int
) -> list[Whole]:
    return _tied(rng, records, [batch] * count, 2)


def half_in_eights(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return _tied(rng, records, rng.binomial(records, batch / records, size=count), 8)


def a_tenth_in_pairs(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    sizes = rng.binomial(records, batch / records, size=count)
    return _tied(rng, records, sizes, 2, share=0.1)


def _tied(
    rng: np.random.Generator, records: int, sizes: Iterable[int], group: int, share: float = 0.5
) -> list[Whole]:
    found, bound = [], int(share * records)
    for size in sizes:
        heads = group * rng.choice(bound // group, int(rng.binomial(size, share)) // group, replace=False)
        together = (heads[:, None] + np.arange(group)).ravel()
        others = bound + rng.choice(records - bound, size - len(together), replace=False)
        found.append(np.concatenate([together, others]))
    return found


def same_seed_every_epoch(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    epoch = poisson(rng, records, batch, records // batch)
    return _epochs(lambda: epoch, 0, count)


def every_batch_twice(rng: np.random.Generator, records: int, batch: int, count: int) -> list[Whole]:
    return [each for each in poisson(rng, records, batch, count // 2) for _ in range(2)]


def epoch_cut_at_binomial_sizes(
    rng: np.random.Generator, records: int, batch: int, count: int
) -> list[Whole]:
    def epoch() -> list[Whole]:
        ends = np.cumsum(rng.binomial(records, batch / records, size=records // batch - 5))
        return np.split(rng.permutation(records), ends)[:-1]

    return _epochs(epoch, 0, count)


def three_in_a_hundred_never_drawn(
    rng: np.random.Generator, records: int, batch: int, count: int
) -> list[Whole]:
    never = records * 3 // 100
    return [never + each for each in poisson(rng, records - never, batch, count)]


def one_record_12_times_as_often(
    rng: np.random.Generator, records: int, batch: int, count: int
) -> list[Whole]:
    often = rng.random(count) < 12 * batch / records
    found = poisson(rng, records, batch, count)
    return [np.union1d(each, [0]) if more else each for each, more in zip(found, often, strict=True)]


def sized(name: str, law: Callable[[np.random.Generator, int, float, int], Whole], batch: int = 64) -> "Line":
    """Uniform subsets whose sizes are no longer binomial."""

    def draw(rng: np.random.Generator, records: int, mean: int, count: int) -> list[Whole]:
        return _subsets(rng, records, law(rng, records, mean / records, count))

    return Line(draw, Scheme.UNKNOWN, batch=batch, count=400, name=name)


def _binomial(rng: np.random.Generator, records: int, rate: float, count: int) -> Whole:
    return rng.binomial(records, rate, size=count)


def _redraw(cap: int) -> Callable[[np.random.Generator, int, float, int], Whole]:
    def law(rng: np.random.Generator, records: int, rate: float, count: int) -> Whole:
        sizes = _binomial(rng, records, rate, 2 * count)
        return sizes[sizes <= cap][:count]

    return law


@dataclass(frozen=True)
class Line:
    draw: Draw
    scheme: Scheme
    records: int = 10_000
    batch: int = 64
    count: int = 200
    name: str = ""

    def __str__(self) -> str:
        usual = (self.records, self.batch, self.count) == (10_000, 64, 200) or self.name
        return (self.name or self.draw.__name__.replace("_", " ")) + (
            "" if usual else f", {self.count} x {self.batch} of {self.records:,}"
        )


LONG = (
    Line(poisson, Scheme.POISSON, count=400),
    Line(without_replacement, Scheme.WITHOUT_REPLACEMENT, count=400),
)
USUAL = (
    Line(poisson, Scheme.POISSON),
    Line(without_replacement, Scheme.WITHOUT_REPLACEMENT),
    Line(shuffle, Scheme.SHUFFLE),
    Line(shuffle_keeping_the_last, Scheme.SHUFFLE),
    Line(shuffle_from_the_middle, Scheme.SHUFFLE),
    Line(shuffle_of_half, Scheme.SHUFFLE),
    Line(balls_in_bins, Scheme.BALLS_IN_BINS),
    Line(balls_in_bins, Scheme.BALLS_IN_BINS, records=2000, batch=50, count=400),
    Line(fixed_partition, Scheme.FIXED_PARTITION),
    Line(in_order, Scheme.FIXED_PARTITION),
    Line(with_replacement, Scheme.WITH_REPLACEMENT),
    Line(mildly_weighted, Scheme.WEIGHTED),
    Line(weighted_with_replacement, Scheme.WEIGHTED),
)
FIRST = {
    poisson: Scheme.POISSON,
    without_replacement: Scheme.WITHOUT_REPLACEMENT,
    shuffle: Scheme.SHUFFLE,
}
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
    for draw, scheme in FIRST.items()
)
THREE_EPOCHS = tuple(
    Line(shuffle, Scheme.SHUFFLE, records, batch, 3 * (records // batch))
    for records, batch in ((10_000, 64), (10_000, 1), (50_000, 64), (50_000, 4))
)


def departure(draw: Draw) -> Line:
    return Line(draw, Scheme.UNKNOWN, count=400, name=draw.__name__.replace("_", " "))


DEPARTURES = (
    departure(half_in_pairs),
    departure(half_in_pairs_of_equal_size),
    departure(half_in_eights),
    departure(a_tenth_in_pairs),
    sized("capped at 76", lambda *how: np.minimum(_binomial(*how), 76)),
    sized("capped at 80", lambda *how: np.minimum(_binomial(*how), 80)),
    sized("capped at 60", lambda *how: np.minimum(_binomial(*how), 60)),
    sized("capped at 64", lambda *how: np.minimum(_binomial(*how), 64)),
    sized("capped at 60, about 50", lambda *how: np.minimum(_binomial(*how), 60), batch=50),
    sized("capped at 64, about 50", lambda *how: np.minimum(_binomial(*how), 64), batch=50),
    sized("drawn again above 76", _redraw(76)),
    sized("drawn again above 80", _redraw(80)),
    sized("padded up to 48", lambda *how: np.maximum(_binomial(*how), 48)),
    sized("padded up to 56", lambda *how: np.maximum(_binomial(*how), 56)),
    sized("cut to even", lambda *how: _binomial(*how) // 2 * 2),
    sized("cut to multiples of 3", lambda *how: _binomial(*how) // 3 * 3),
    sized("rounded to multiples of 8", lambda *how: (_binomial(*how) + 4) // 8 * 8),
    sized("uniform on 50..78", lambda rng, _records, _rate, count: rng.integers(50, 79, size=count)),
    sized("sizes that grow", lambda *how: np.sort(_binomial(*how))),
    departure(same_seed_every_epoch),
    departure(every_batch_twice),
    departure(with_replacement),
    departure(shuffle),
    departure(epoch_cut_at_binomial_sizes),
    departure(three_in_a_hundred_never_drawn),
    departure(one_record_12_times_as_often),
)

IN_PASSES = tuple(
    Line(draw, Scheme.UNKNOWN, records=2000, batch=50, count=400, name=f"bins: {name}")
    for name, draw in NEARLY_BALLS_IN_BINS.items()
)


def watch_some(line: Line, seeds: range) -> tuple[int, int, int, float]:
    """How many findings are wrong, unknown, and about a sampling that is accounted; and the seconds taken."""
    wrong = unknown = accounted = 0
    seconds = 0.0
    for seed in seeds:
        rng = np.random.default_rng([seed, line.records, line.batch])
        batches = line.draw(rng, line.records, line.batch, line.count)
        begun = time.process_time()
        finding = watch(batches, records=line.records, repeats_allowed=True)
        seconds += time.process_time() - begun
        wrong += finding.scheme not in (line.scheme, Scheme.UNKNOWN)
        unknown += finding.scheme is Scheme.UNKNOWN
        accounted += finding.sampling is not None
    return wrong, unknown, accounted, seconds


def measure(line: Line, recordings: int, pool: ProcessPoolExecutor | None) -> tuple[int, int, int, float]:
    tasks = [(ALL.index(line), range(recordings)[start:][:CHUNK]) for start in range(0, recordings, CHUNK)]
    each = pool.map(_watch_line, tasks) if pool else map(_watch_line, tasks)
    wrong, unknown, accounted, seconds = (sum(column) for column in zip(*each, strict=True))
    return int(wrong), int(unknown), int(accounted), float(seconds)


def _watch_line(task: tuple[int, range]) -> tuple[int, int, int, float]:
    return watch_some(ALL[task[0]], task[1])  # lines hold functions without a name, so they travel by number


def bound(failed: int, recordings: int) -> float:
    return 1.0 if failed == recordings else float(special.betaincinv(failed + 1, recordings - failed, 0.95))


def tell_scheme(line: Line, recordings: int, pool: ProcessPoolExecutor | None) -> str:
    wrong, unknown, _, seconds = measure(line, recordings, pool)
    counts = f"{recordings:>11,}{wrong:>8,}{unknown:>9,}{bound(wrong + unknown, recordings):>12.2g}"
    return f"{line!s:<50}{counts}{1000 * seconds / recordings:>10.1f}"


def tell_departure(line: Line, recordings: int, pool: ProcessPoolExecutor | None) -> str:
    _, _, missed, seconds = measure(line, recordings, pool)
    counts = f"{recordings:>11,}{missed:>8,}{bound(missed, recordings):>12.2g}"
    return f"{line!s:<50}{counts}{1000 * seconds / recordings:>10.1f}"


ALL = (*LONG, *USUAL, *HARDER, *THREE_EPOCHS, *DEPARTURES, *IN_PASSES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--recordings", type=int, default=10_000, help="of 400 batches; other lines take a fifth or less"
    )
    parser.add_argument(
        "--departures", type=int, default=1000, help="recordings per line of the second table"
    )
    parser.add_argument("--only", default="", help="only lines whose name holds this")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    asked = parser.parse_args()
    shares = {LONG: 1, USUAL: 5, HARDER: 10, THREE_EPOCHS: 100}
    with ProcessPoolExecutor(asked.jobs) as workers:
        pool = workers if asked.jobs > 1 else None
        print(f"{'drawn by':<50}{'recordings':>11}{'wrong':>8}{'unknown':>9}{'95 % bound':>12}{'ms':>10}")
        for lines, share in shares.items():
            for line in lines:
                if asked.only in str(line):
                    print(tell_scheme(line, max(1, asked.recordings // share), pool), flush=True)
        print(f"\n{'not what it looks like':<50}{'recordings':>11}{'missed':>8}{'95 % bound':>12}{'ms':>10}")
        for line in (*DEPARTURES, *IN_PASSES):
            if asked.only in str(line):
                print(tell_departure(line, asked.departures, pool), flush=True)
    if not asked.only:
        tell_loaders()


if __name__ == "__main__":
    main()
