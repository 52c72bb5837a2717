"""The same work on many pieces, in processes here or on a cluster: a worker that dies loses nothing but its own piece."""

import pickle
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from tightrope.errors import InvalidSetting, WorkerDied
from tightrope.numerics import check

P = TypeVar("P")
R = TypeVar("R")

TRIES_ALONE = 2  # with no other piece under way, before a piece is said to kill its worker
MOST_WORKERS = 1024  # more processes than any machine is good for
_WORKERS = "Pass a number of processes, or None for all cores."
_AHEAD = 2  # pieces handed out per worker, so that none waits for the next
_RECOUNTED = 1.0  # seconds between two looks at the size of a cluster, which may grow
_NEEDS_JOBLIB = "several workers need joblib, which is not installed: install tightrope[dist], or pass workers=1 (--workers 1)."

Numbered = tuple[int, Any]  # a piece with its place among the pieces
Outcome = tuple[int, Any]  # what became of it: a result or an exception
# Yields outcomes as they come, and returns the pieces that were under way when a worker died.
Pool = Callable[[Callable[[Any], Any], Iterator[Numbered]], Generator[Outcome, None, list[Numbered]]]


def in_parallel(
    work: Callable[[P], R], pieces: Iterable[P], *, workers: int | None
) -> Generator[tuple[int, R | Exception], None, None]:
    """What `work` makes of each piece, with the place of the piece, in the order in which they are done.

    An exception is what became of that piece, and no other piece suffers. `workers` are processes: 1 means this one, None
    all cores or whatever backend is configured by `joblib.parallel_config`, on which `workers` bounds how many are used.
    Pieces are taken as workers become free, so that an endless supply of them is no burden. Where a worker dies, the pieces
    under way are tried again, by halves while workers go on dying, until those that kill are alone; these become `WorkerDied`.

    >>> sorted(in_parallel(abs, [-3, 4], workers=1))
    [(0, 3), (1, 4)]
    """
    if workers is not None:
        check.whole(least=1, remedy=_WORKERS, workers=workers)
        if workers > MOST_WORKERS:
            raise InvalidSetting(f"workers must be at most {MOST_WORKERS}, got {workers}. {_WORKERS}")
    pool, tries = (None, 0) if workers == 1 else _configured(workers)
    if pool is None:
        return (_shielded(work, numbered) for numbered in enumerate(pieces))
    return _surviving(pool, tries, work, pieces)


def _shielded(work: Callable[[Any], Any], numbered: Numbered) -> Outcome:
    """One piece of work; an exception that would not survive the way home is told in words."""
    place, piece = numbered
    try:
        return place, work(piece)
    except Exception as problem:
        try:
            pickle.loads(pickle.dumps(problem))
        except Exception:
            return place, RuntimeError(f"{type(problem).__name__}: {problem}")
        return place, problem


def _surviving(
    pool: Pool, tries: int, work: Callable[[Any], Any], pieces: Iterable[Any]
) -> Generator[Outcome, None, None]:
    source = iter(enumerate(pieces))
    while lost := (yield from pool(work, source)):
        groups = [lost]
        while groups:
            group = groups.pop()
            for _ in range(tries if len(group) == 1 else 1):
                rest = iter(group)
                lost = yield from pool(work, rest)
                if not lost:
                    break
                lost += rest
            if lost and len(group) == 1:
                _check_that_workers_live(pool)
                yield group[0][0], WorkerDied(_verdict(tries))
            elif lost:
                middle = (len(lost) + 1) // 2
                groups += [half for half in (lost[middle:], lost[:middle]) if half]


def _verdict(tries: int) -> str:
    times = "" if tries == 1 else f", {tries} times with nothing else under way"
    return f"the worker was killed or crashed on this piece{times}. It may need more memory than there is: ask for less of it."


def _check_that_workers_live(pool: Pool) -> None:
    """Nobody is to blame for the death of workers that die of nothing."""
    outcomes = pool(bool, iter([(0, 0)]))
    if not list(outcomes):
        raise WorkerDied(
            "no worker stays alive, whatever it is given. Check memory limits and the workers' own log."
        )


def _configured(workers: int | None) -> tuple[Pool | None, int]:
    """The pool that joblib is set to, and how often it tries a piece alone; none where one process is all there is."""
    try:
        import joblib
    except ModuleNotFoundError:
        raise InvalidSetting(_NEEDS_JOBLIB) from None
    backend, stated = joblib.parallel.get_active_backend()
    if type(backend).__name__ == "DaskDistributedBackend":
        # Asked directly: joblib 1.6 waits for ever where Dask gives a task up, and works here where a cluster has one core.
        return _Dask(backend.client, workers).run, 1  # Dask itself has tried a piece on several workers
    wanted = stated if workers is None else workers
    if wanted is None:
        wanted = -1
    # what joblib calls one job is done in this process, where a piece that kills would kill everything
    count = joblib.effective_n_jobs(wanted)
    return (None, 0) if count == 1 else (_Joblib(count).run, TRIES_ALONE)


class _Taken(Generic[P]):
    """Pieces that have been handed out; several threads of joblib may ask for the next."""

    def __init__(self, source: Iterator[tuple[int, P]]) -> None:
        self._source, self._lock, self._closed = source, threading.Lock(), False
        self.under_way: dict[int, P] = {}

    def __iter__(self) -> Iterator[tuple[int, P]]:
        while True:
            with self._lock:
                numbered = None if self._closed else next(self._source, None)
                if numbered is None:
                    return
                self.under_way[numbered[0]] = numbered[1]
            yield numbered

    def close(self) -> list[tuple[int, P]]:
        """Hand out no more; what is under way."""
        with self._lock:
            self._closed = True
            return list(self.under_way.items())


@dataclass(frozen=True)
class _Joblib:
    """The configured backend of joblib; where one worker dies, loky stops them all and starts new ones."""

    workers: int

    def run(
        self, work: Callable[[Any], Any], source: Iterator[Numbered]
    ) -> Generator[Outcome, None, list[Numbered]]:
        import joblib

        taken = _Taken(source)
        calls = (joblib.delayed(_shielded)(work, numbered) for numbered in taken)
        # batches of one: rows come when they are done, and a death takes no neighbours along (0.2 ms a piece)
        parallel = joblib.Parallel(
            n_jobs=self.workers,
            return_as="generator_unordered",
            batch_size=1,
            pre_dispatch=_AHEAD * self.workers,
        )
        outcomes = parallel(calls)
        try:
            for place, outcome in outcomes:
                del taken.under_way[place]
                yield place, outcome
        except Exception as problem:
            if not _is_a_death(problem):
                raise
            return taken.close()
        finally:
            with warnings.catch_warnings():
                # where whoever asked has stopped listening, work is stopped on purpose
                warnings.filterwarnings(
                    "ignore", message=".*tasks (have been successfully executed|which were still)"
                )
                outcomes.close()
        return []


def _is_a_death(problem: Exception) -> bool:
    """Work that fails is an outcome, so what Ray raises is about its workers."""
    return isinstance(problem, BrokenExecutor) or type(problem).__module__.startswith("ray.exceptions")


@dataclass(frozen=True)
class _Dask:
    """A Dask cluster, which starts its dead workers again and tries a piece on several before it gives up."""

    client: Any
    most: int | None

    def run(
        self, work: Callable[[Any], Any], source: Iterator[Numbered]
    ) -> Generator[Outcome, None, list[Numbered]]:
        from distributed import KilledWorker, as_completed

        lost: list[Numbered] = []
        futures: dict[Any, Numbered] = {}
        done = as_completed([], loop=self.client.loop, with_results=True, raise_errors=False)

        def hand_out(count: int) -> None:
            for _, numbered in zip(range(count), source, strict=False):
                future = self.client.submit(partial(_shielded, work, numbered), pure=False)
                futures[future] = numbered
                done.add(future)

        room, counted = self._room(), time.monotonic()
        try:
            hand_out(room)
            while futures:
                future, result = next(done)
                numbered = futures.pop(future)
                problem = result[1] if future.status == "error" else None
                if future.status == "finished":
                    yield result
                elif isinstance(problem, KilledWorker):
                    lost.append(numbered)
                elif isinstance(result, CancelledError) or problem is None:
                    raise WorkerDied(
                        "the connection to the Dask scheduler was lost. Go on when it runs again."
                    )
                else:
                    raise WorkerDied(
                        f"Dask's workers cannot do this work: {type(problem).__name__}: {problem}. "
                        "Install the same tightrope on every worker."
                    ) from problem
                if time.monotonic() - counted > _RECOUNTED:
                    room, counted = self._room(), time.monotonic()
                hand_out(room - len(futures))
        finally:
            if futures:
                self.client.cancel(list(futures))
        return lost

    def _room(self) -> int:
        """How many pieces keep the cluster busy; one where it has no workers yet, so that it may start some."""
        cores = sum(self.client.ncores().values())
        return max(1, _AHEAD * cores) if self.most is None else self.most
