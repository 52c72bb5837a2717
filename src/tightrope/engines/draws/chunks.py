"""Draws of a composed loss in chunks: the task, what a chunk returns, and what the chunks add up to.

With Y the sum of losses drawn from the laws p e^{c loss} / M(c) and x = Y - eps,

    delta(eps) = P(Y infinite) + C E[Z],   C = prod M(c) e^{-c eps} B,   Z = e^{-cx} (1 - e^{-x})_+ / B,

where a float B >= max e^{-cx} (1 - e^{-x}) makes 0 <= Z <= 1. At c = 0 that is the mean of (1 - e^{eps -
Y})_+, infinite Y included. Y is what was drawn; from there on every rounding is charged.
"""

import math
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from tightrope.engines.draws.losses import tilted_source
from tightrope.engines.face import Progress
from tightrope.errors import StopWork
from tightrope.numerics.confidence import Sample
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma
from tightrope.pairs.schedule import Schedule
from tightrope.parallel import in_parallel

BLOCK = 16_384  # sums that are worked on at once, so that they stay in the cache
SMALL_BLOCK, LONG_CHUNK = 4096, 1 << 25  # long runs: fewer at once, as interrupts wait for chunks
FIRST_CHUNK = 1024  # small at first: betting learns the variance from the chunks before
MOST_CHUNKS = 256  # about; longer simulations have larger chunks, so that what is kept stays small
BITS = 128  # carried on the way from Z to delta
# Roundings on the way from x to Z and from one epsilon to the next: two functions that are right to 8 u, an
# error of u in x or in the gap, products and sums. For Z^2 all of them count twice.
ROUNDINGS = 24
# The exponents c x and c gap are off by 2 u relative, which moves Z by 2 u c x Z in all, and c x Z <= 3
# (docs/certificates.md, draws); numbers that underflow add less than is left here.
EXPONENT_ABS_ERROR = 8 * UNIT_ROUNDOFF


@dataclass(frozen=True)
class DrawTask:
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
    def chunk_sizes(self) -> tuple[int, ...]:
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
class DrawChunk:
    """One chunk of a task."""

    task: DrawTask
    number: int


@dataclass(frozen=True)
class ChunkSums:
    """Sums of w, wz, w^2, w^2 z, w^2 z^2 per interval between epsilons, x counted from its lower end.

    w = e^{-cx}, z = 1 - e^{-x}; from these follow the sums of Z and Z^2 at every epsilon, without a term per
    draw and epsilon.
    """

    draws: int
    bins: Floats


ChunkResults = Generator[tuple[int, ChunkSums | Exception], None, None]
Spread = Callable[[Callable[[DrawChunk], ChunkSums], Iterable[DrawChunk]], ChunkResults]
IN_THIS_PROCESS: Spread = partial(in_parallel, workers=1)


def draw_chunk(chunk: DrawChunk) -> ChunkSums:
    """The sums of one chunk: a pure function."""
    task = chunk.task
    seeds = np.random.SeedSequence(task.seed, spawn_key=(task.index, chunk.number))
    rng = np.random.Generator(np.random.SFC64(seeds))
    sources = [(tilted_source(pair, task.tilt), times) for pair, times in task.schedule]
    epsilons, bins = np.array(task.epsilons), np.zeros((5, len(task.epsilons)))
    draws = task.chunk_sizes[chunk.number]
    for start in range(0, draws, BLOCK):
        total = np.zeros(min(BLOCK, draws - start))
        for source, times in sources:
            total += source.draw(rng, len(total), times)
        bins += _sum_in_bins(total, epsilons, task.tilt)
    return ChunkSums(draws, bins)


def _sum_in_bins(total: Floats, epsilons: Floats, tilt: float) -> Floats:
    beyond = np.sort(total)  # sorting is cheaper than looking every sum up
    ends = np.append(np.searchsorted(beyond, epsilons, side="right"), len(beyond))
    x = beyond[ends[0] :] - np.repeat(epsilons, np.diff(ends))
    places = np.repeat(np.arange(len(epsilons)), np.diff(ends))
    z = -np.expm1(-x)

    def add_up(weights: Floats) -> Floats:
        return np.asarray(np.bincount(places, weights, len(epsilons)), dtype=float)

    if tilt == 0:
        number, once = np.diff(ends).astype(float), add_up(z)
        return np.array([number, once, number, once, add_up(z * z)])
    w = np.exp(-tilt * x)
    square = w * w
    return np.array([add_up(w), add_up(w * z), add_up(square), add_up(square * z), add_up(square * z * z)])


@dataclass(frozen=True)
class DrawTotals:
    """The sums of Z and Z^2 of a task: one row per chunk that is used, one column per epsilon."""

    task: DrawTask
    sample: Sample

    @property
    def draws(self) -> int:
        """How many sums of losses there are."""
        return self.sample.draws

    @property
    def interrupted(self) -> bool:
        """Whether there are fewer than were planned."""
        return self.draws < self.task.draws


def add_up_chunks(task: DrawTask, chunks: list[ChunkSums]) -> DrawTotals:
    """What the chunks say at each epsilon.

    Going down by d from one epsilon to the next, w becomes e^{-cd} w and z becomes (1 - e^{-d}) + e^{-d} z:
    all terms are positive, so nothing cancels and nothing overflows.
    """
    bins = np.array([chunk.bins for chunk in chunks])
    counts = np.array([chunk.draws for chunk in chunks], dtype=float)
    for i in range(len(task.epsilons) - 2, -1, -1):
        gap = task.epsilons[i + 1] - task.epsilons[i]
        shrunk, kept, new = math.exp(-task.tilt * gap), math.exp(-gap), -math.expm1(-gap)
        w, wz, w2, w2z, w2z2 = (bins[:, row, i + 1] for row in range(5))
        bins[:, 0, i] += shrunk * w
        bins[:, 1, i] += shrunk * (new * w + kept * wz)
        bins[:, 2, i] += shrunk**2 * w2
        bins[:, 3, i] += shrunk**2 * (new * w2 + kept * w2z)
        bins[:, 4, i] += shrunk**2 * (new**2 * w2 + 2 * new * kept * w2z + kept**2 * w2z2)
    peak = largest_weight(task.tilt)
    sums, squares = bins[:, 1] / peak, bins[:, 4] / peak**2
    # one addition per draw of a block and per block of a chunk
    additions = BLOCK + max(chunk.draws for chunk in chunks) // BLOCK + 8
    rel_error = gamma(ROUNDINGS * (1 + len(task.epsilons)) + additions)
    rel_error_squared = gamma(2 * ROUNDINGS * (1 + len(task.epsilons)) + additions)
    floor = (EXPONENT_ABS_ERROR * counts)[:, None]
    return DrawTotals(
        task,
        Sample(counts, sums, squares, rel_error * sums + floor, rel_error_squared * squares + 2 * floor),
    )


def largest_weight(tilt: float) -> float:
    """A float at or just above max e^{-cx} (1 - e^{-x}); 1 for plain draws."""
    from tightrope.engines.moments.renyi import log_chernoff_ball  # loads flint
    from tightrope.numerics.balls import ceil_float

    return ceil_float(log_chernoff_ball(tilt).exp()) if tilt else 1.0


def draw_all(
    tasks: list[DrawTask], spread: Spread = IN_THIS_PROCESS, progress: Progress | None = None
) -> list[DrawTotals]:
    """The totals of all tasks, their chunks taken in turn; of each chunk only its sums are kept.

    An interrupt ends the simulation, and so does `StopWork`. The answer is then what there is: the chunks
    from the first up to the first missing one. It is raised again only if some task has none. Whoever
    interrupts has seen how many draws are done, not what they were.
    """
    chunks = _take_in_turn(tasks)
    found: dict[int, ChunkSums] = {}
    done, planned = 0, sum(task.draws for task in tasks)
    try:
        with closing(spread(draw_chunk, chunks)) as results:  # closing ends the workers
            for place, result in results:
                if isinstance(result, Exception):
                    raise result
                found[place] = result
                done += result.draws
                if progress is not None:
                    progress(done, planned)
    except (KeyboardInterrupt, StopWork):
        if not all(place in found for place in range(len(tasks))):  # the first chunk of each task
            raise
    return [add_up_chunks(task, _before_the_first_gap(task, chunks, found)) for task in tasks]


def _take_in_turn(tasks: list[DrawTask]) -> list[DrawChunk]:
    """The first chunk of every task, then the second of every task that has one, and so on."""
    most = max((len(task.chunk_sizes) for task in tasks), default=0)
    return [
        DrawChunk(task, number) for number in range(most) for task in tasks if number < len(task.chunk_sizes)
    ]


def _before_the_first_gap(
    task: DrawTask, chunks: list[DrawChunk], found: dict[int, ChunkSums]
) -> list[ChunkSums]:
    own = [found.get(place) for place, chunk in enumerate(chunks) if chunk.task is task]
    gap = own.index(None) if None in own else len(own)
    return [sums for sums in own[:gap] if sums is not None]


def scale_to_delta(task: DrawTask, mean: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """delta at each epsilon from the mean of Z, and from its limits, rounded outwards."""
    if task.tilt == 0:
        return mean, low, high
    from flint import arb, ctx

    from tightrope.engines.moments.renyi import infinite_mass  # loads flint
    from tightrope.engines.moments.step import log_moment_ends
    from tightrope.numerics.balls import ball, ceil_float, floor_float

    columns = zip(task.epsilons, mean.tolist(), low.tolist(), high.tolist(), strict=True)
    with ctx.workprec(BITS):
        moments = [(times, log_moment_ends(pair, task.tilt)) for pair, times in task.schedule]
        least = sum((times * ball(below) for times, (below, _) in moments), arb(0))
        most = sum((times * ball(above) for times, (_, above) in moments), arb(0))
        mass, peak, tilt = infinite_mass(task.schedule), ball(largest_weight(task.tilt)), ball(task.tilt)
        rows = []
        for epsilon, *limits in columns:
            scales = [(log_moment - tilt * ball(epsilon)).exp() * peak for log_moment in (most, least, most)]
            value, lower, upper = (mass + s * ball(z) for s, z in zip(scales, limits, strict=True))
            # far below where the tilt is for, C alone is huge: delta is at most 1 all the same
            rows.append((float(value.min(1)), min(floor_float(lower), 1.0), min(ceil_float(upper), 1.0)))
    values, lowers, uppers = np.array(rows).T
    return values, lowers, uppers
