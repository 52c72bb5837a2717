"""Batches drawn in every way that is told apart, for a dataset of n records in batches of b."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from tightrope.audit.finding import Scheme

Whole = NDArray[np.int64]
Draw = Callable[[np.random.Generator, int, int, int], list[Whole]]


def poisson(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
    return [rng.choice(n, size, replace=False) for size in rng.binomial(n, b / n, size=count)]


def subsets(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
    return [rng.choice(n, b, replace=False) for _ in range(count)]


def repeating(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
    return [rng.integers(n, size=b) for _ in range(count)]


def weighted(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
    steps = np.cumsum(rng.uniform(0.2, 1.8, size=n))
    drawn = [np.unique(np.searchsorted(steps, rng.uniform(0, steps[-1], size=2 * b))) for _ in range(count)]
    return [rng.permutation(inside)[:b] for inside in drawn]


def epochs(epoch: Callable[[], Iterable[Whole]], count: int, start: int = 0) -> list[Whole]:
    found: list[Whole] = []
    while len(found) < start + count:
        found += epoch()
    return found[start : start + count]


def cut(order: Whole, b: int, drop_last: bool = True) -> list[Whole]:
    return [
        order[place : place + b] for place in range(0, len(order) - b + 1 if drop_last else len(order), b)
    ]


def shuffled(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
    return epochs(lambda: cut(rng.permutation(n), b), count)


def shuffled_with_short_ones(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
    return epochs(lambda: cut(rng.permutation(n), b, drop_last=False), count, int(rng.integers(n // b)))


def shuffled_and_half_used(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
    return epochs(lambda: cut(rng.permutation(n)[: n // 2], b), count, int(rng.integers(n // b)))


def bins(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
    def epoch() -> list[Whole]:
        place = rng.integers(n // b, size=n)
        order = np.argsort(place, kind="stable")
        return np.split(order, np.searchsorted(place[order], np.arange(1, n // b)))

    return epochs(epoch, count, int(rng.integers(n // b)))


def partition(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
    order = rng.permutation(n)
    return epochs(lambda: cut(order, b), count)


def in_order(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
    return epochs(lambda: cut(np.arange(n), b, drop_last=False), count, int(rng.integers(n // b)))


DRAWN: list[tuple[Draw, Scheme]] = [
    (poisson, Scheme.POISSON),
    (subsets, Scheme.WITHOUT_REPLACEMENT),
    (shuffled, Scheme.SHUFFLE),
    (shuffled_with_short_ones, Scheme.SHUFFLE),
    (shuffled_and_half_used, Scheme.SHUFFLE),
    (bins, Scheme.BALLS_IN_BINS),
    (partition, Scheme.FIXED_PARTITION),
    (in_order, Scheme.FIXED_PARTITION),
    (repeating, Scheme.WITH_REPLACEMENT),
    (weighted, Scheme.WEIGHTED),
]


# what looks like Poisson sampling, or like draws without replacement, and is not


def of_sizes(law: Callable[[np.random.Generator, int, int, int], Whole]) -> Draw:
    """Uniform subsets whose sizes follow another law."""

    def draw(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
        return [rng.choice(n, size, replace=False) for size in law(rng, n, b, count)]

    return draw


def binomial(rng: np.random.Generator, n: int, b: int, count: int) -> Whole:
    return rng.binomial(n, b / n, size=count)


def tied(rng: np.random.Generator, n: int, sizes: Iterable[int], group: int = 2) -> list[Whole]:
    """Batches of given sizes in which the first half of the records come in groups only."""
    found = []
    for size in sizes:
        groups = int(rng.binomial(size, 0.5)) // group
        heads = group * rng.choice(n // 2 // group, groups, replace=False)
        together = (heads[:, None] + np.arange(group)).ravel()
        found.append(np.concatenate([together, n // 2 + rng.choice(n - n // 2, size - len(together), False)]))
    return found


def seeded_again(rng: np.random.Generator, n: int, b: int, count: int) -> list[Whole]:
    """Poisson batches, with the same seed set again at each epoch."""
    epoch = poisson(rng, n, b, n // b)
    return epochs(lambda: epoch, count)


DEPARTURES: dict[str, Draw] = {
    "half in pairs": lambda rng, n, b, count: tied(rng, n, binomial(rng, n, b, count)),
    "half in pairs, equal sizes": lambda rng, n, b, count: tied(rng, n, [b] * count),
    "half in fours": lambda rng, n, b, count: tied(rng, n, binomial(rng, n, b, count), group=4),
    "capped at 76": of_sizes(lambda *how: np.minimum(binomial(*how), 76)),
    "capped at 80": of_sizes(lambda *how: np.minimum(binomial(*how), 80)),
    "capped at 60": of_sizes(lambda *how: np.minimum(binomial(*how), 60)),
    "capped at 64": of_sizes(lambda *how: np.minimum(binomial(*how), 64)),
    "padded up to 56": of_sizes(lambda *how: np.maximum(binomial(*how), 56)),
    "cut to even": of_sizes(lambda *how: binomial(*how) // 2 * 2),
    "cut to multiples of 3": of_sizes(lambda *how: binomial(*how) // 3 * 3),
    "rounded to multiples of 8": of_sizes(lambda *how: (binomial(*how) + 4) // 8 * 8),
    "uniform on 50..78": of_sizes(lambda rng, n, b, count: rng.integers(50, 79, size=count)),
    "sizes in order": of_sizes(lambda *how: np.sort(binomial(*how))),
    "the same seed again": seeded_again,
    "each batch twice": lambda rng, n, b, count: [
        x for x in poisson(rng, n, b, count // 2) for _ in range(2)
    ],
    "each fixed batch twice": lambda rng, n, b, count: [
        x for x in subsets(rng, n, b, count // 2) for _ in range(2)
    ],
}
