"""Draws of a composed loss in chunks: what is asked, what one chunk returns, and the sums of those that were finished.

With Y the sum of losses drawn from the laws p e^{c loss} / M(c) and x = Y - eps,

    delta(eps) = P(Y infinite) + C E[Z],   C = prod M(c) e^{-c eps} B,   Z = e^{-cx} (1 - e^{-x}) / B for x > 0, else 0,

where B = max e^{-cx} (1 - e^{-x}) makes 0 <= Z <= 1. At c = 0 that is the mean of (1 - e^{eps - Y})_+, infinite Y included.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tightrope.engines.draws.losses import log_moment, tilted_draws
from tightrope.engines.saddle import log_chernoff_factor
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.tails import Floats
from tightrope.pairs.schedule import Schedule

BLOCK = 16_384  # sums that are worked on at once, so that they stay in the cache
SMALL_BLOCK, LONG_CHUNK = (
    4096,
    1 << 25,
)  # of long runs fewer at once: progress, workers and interrupts wait for chunks
FIRST_CHUNK = 1024  # small at first: betting learns the variance from the chunks before
MOST_CHUNKS = 256  # about; longer simulations have larger chunks, so that what is kept stays small

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Part:
    """`draws` sums of losses of a schedule at one tilt, for epsilons in increasing order.

    Chunk i draws from the seed sequence (seed; index, i): who computes it and when does not matter.
    """

    schedule: Schedule
    tilt: float
    epsilons: tuple[float, ...]
    draws: int
    seed: int
    index: int

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """The draws of each chunk. They depend on the draws and the steps only."""
        largest = max(min(BLOCK, LONG_CHUNK // self.schedule.steps), SMALL_BLOCK)
        largest *= math.ceil(self.draws / (largest * MOST_CHUNKS))
        sizes, left, size = [], self.draws, FIRST_CHUNK
        while left:
            sizes.append(min(size, left))
            left -= sizes[-1]
            size = min(2 * size if len(sizes) > 1 else size, largest)
        return tuple(sizes)


@dataclass(frozen=True)
class Piece:
    """One chunk of a part."""

    part: Part
    chunk: int


@dataclass(frozen=True)
class Sums:
    """Per interval between neighbouring epsilons, with x counted from its lower end: sums of w, wz, w^2, w^2 z, w^2 z^2.

    w = e^{-cx}, z = 1 - e^{-x}; from these follow the sums of Z and Z^2 at every epsilon, without a term per draw and epsilon.
    """

    draws: int
    bins: Floats


Spread = Callable[[Callable[[Piece], Sums], Iterable[Piece]], Iterator[tuple[int, Sums | Exception]]]


def serially(
    work: Callable[[Piece], Sums], pieces: Iterable[Piece]
) -> Iterator[tuple[int, Sums | Exception]]:
    """One piece after the other, in this process."""
    for index, piece in enumerate(pieces):
        yield index, work(piece)


def simulate(piece: Piece) -> Sums:
    """The sums of one chunk: a pure function."""
    part = piece.part
    seeds = np.random.SeedSequence(part.seed, spawn_key=(part.index, piece.chunk))
    rng = np.random.Generator(np.random.SFC64(seeds))
    sources = [(tilted_draws(pair, part.tilt), times) for pair, times in part.schedule]
    epsilons, bins = np.array(part.epsilons), np.zeros((5, len(part.epsilons)))
    draws = part.chunks[piece.chunk]
    for start in range(0, draws, BLOCK):
        count = min(BLOCK, draws - start)
        total = np.zeros(count)
        for source, times in sources:
            total += source.sums(rng, count, times)
        bins += _binned(total, epsilons, part.tilt)
    return Sums(draws, bins)


def _binned(total: Floats, epsilons: Floats, tilt: float) -> Floats:
    beyond = np.sort(total)  # sorting is cheaper than looking every sum up
    ends = np.append(np.searchsorted(beyond, epsilons, side="right"), len(beyond))
    x = beyond[ends[0] :] - np.repeat(epsilons, np.diff(ends))
    places = np.repeat(np.arange(len(epsilons)), np.diff(ends))
    z = -np.expm1(-x)

    def summed(weights: Floats) -> Floats:
        return np.asarray(np.bincount(places, weights, len(epsilons)), dtype=float)

    if tilt == 0:
        number, once = np.diff(ends).astype(float), summed(z)
        return np.array([number, once, number, once, summed(z * z)])
    w = np.exp(-tilt * x)
    square = w * w
    return np.array([summed(w), summed(w * z), summed(square), summed(square * z), summed(square * z * z)])


@dataclass(frozen=True)
class Tally:
    """The chunks of a part that are used: their draws, and the sums of Z and Z^2, one row per chunk, one column per epsilon."""

    part: Part
    counts: Floats
    sums: Floats
    squares: Floats

    @property
    def draws(self) -> int:
        """How many sums of losses there are."""
        return int(self.counts.sum())

    @property
    def interrupted(self) -> bool:
        """Whether there are fewer than were planned."""
        return self.draws < self.part.draws


def tallied(part: Part, chunks: list[Sums]) -> Tally:
    """What the chunks say at each epsilon.

    Going down by d from one epsilon to the next, w becomes e^{-cd} w and z becomes (1 - e^{-d}) + e^{-d} z: all terms are
    positive, so nothing cancels and nothing overflows.
    """
    bins = np.array([chunk.bins for chunk in chunks])
    counts = np.array([chunk.draws for chunk in chunks], dtype=float)
    for i in range(len(part.epsilons) - 2, -1, -1):
        gap = part.epsilons[i + 1] - part.epsilons[i]
        shrunk, kept, new = math.exp(-part.tilt * gap), math.exp(-gap), -math.expm1(-gap)
        w, wz, w2, w2z, w2z2 = (bins[:, row, i + 1] for row in range(5))
        bins[:, 0, i] += shrunk * w
        bins[:, 1, i] += shrunk * (new * w + kept * wz)
        bins[:, 2, i] += shrunk**2 * w2
        bins[:, 3, i] += shrunk**2 * (new * w2 + kept * w2z)
        bins[:, 4, i] += shrunk**2 * (new**2 * w2 + 2 * new * kept * w2z + kept**2 * w2z2)
    log_peak = log_chernoff_factor(part.tilt) if part.tilt else 0.0
    sums = np.minimum(bins[:, 1] * math.exp(-log_peak), counts[:, None])
    return Tally(part, counts, sums, np.minimum(bins[:, 4] * math.exp(-2 * log_peak), sums))


def drawn(parts: list[Part], spread: Spread = serially, progress: Progress | None = None) -> list[Tally]:
    """All parts, simulated. Pieces are made as they are asked for; of each, only its sums are kept.

    An interrupt ends the simulation: what it has then, the chunks from the first without a hole, is the answer. It is raised
    only if some part has none. Who interrupts has seen how many draws are done, not what they were.
    """
    places: list[tuple[int, int]] = []

    def pieces() -> Iterator[Piece]:
        for chunk in range(max((len(part.chunks) for part in parts), default=0)):
            for number, part in enumerate(parts):
                if chunk < len(part.chunks):
                    places.append((number, chunk))
                    yield Piece(part, chunk)

    found: list[dict[int, Sums]] = [{} for _ in parts]
    done, work = 0, sum(part.draws for part in parts)
    results = spread(simulate, pieces())
    try:
        for index, result in results:
            if isinstance(result, Exception):
                raise result
            number, chunk = places[index]
            found[number][chunk] = result
            done += result.draws
            if progress is not None:
                progress(done, work)
    except KeyboardInterrupt:
        if not all(0 in chunks for chunks in found):
            raise
    finally:
        close = getattr(results, "close", None)
        if close is not None:
            close()  # ends the workers of a generator that is not exhausted
    return [tallied(part, list(_from_the_start(chunks))) for part, chunks in zip(parts, found, strict=True)]


def _from_the_start(chunks: dict[int, Sums]) -> Iterator[Sums]:
    for chunk in range(len(chunks)):
        if chunk not in chunks:
            return
        yield chunks[chunk]


def infinite_mass(schedule: Schedule) -> float:
    """The probability that some loss is infinite."""
    return schedule.infinite_mass


def scaled(part: Part, mean: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """delta at each epsilon from the mean of Z, and from its limits, with the doubt about C on the safe side."""
    if part.tilt == 0:
        return mean, low, high
    moments = [(times, log_moment(pair, part.tilt)) for pair, times in part.schedule]
    log_moments = sum(times * value for times, (value, _) in moments)
    doubt = sum(times * error for times, (_, error) in moments)
    log_scale = log_moments - part.tilt * np.array(part.epsilons) + log_chernoff_factor(part.tilt)
    sizes = sum(times * abs(value) for times, (value, _) in moments) + part.tilt * np.array(part.epsilons)
    outwards = doubt + 8 * UNIT_ROUNDOFF * (1 + sizes)
    sure = infinite_mass(part.schedule)
    with np.errstate(divide="ignore"):
        logs = (
            np.log(mean) + log_scale,
            np.log(low) + log_scale - outwards,
            np.log(high) + log_scale + outwards,
        )
    # far below where the tilt is for, C alone overflows
    value, least, most = (np.minimum(sure + np.exp(np.minimum(log, 0.0)), 1.0) for log in logs)
    rounding = 8 * UNIT_ROUNDOFF * (1 + part.schedule.steps)  # of the infinite losses' mass, and of the sum
    # a limit too small for a double is not a proof of 0
    return (
        value,
        least * (1 - rounding),
        np.minimum(np.maximum(most * (1 + rounding), math.nextafter(0.0, 1.0)), 1.0),
    )
