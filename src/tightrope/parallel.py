"""The same work on many pieces, in processes or on a cluster: a worker that dies loses only its own piece."""

import pickle
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

from tightrope.errors import Described, InvalidSetting, WorkerDied
from tightrope.extras import install_command
from tightrope.helpers import keep_helpers, kill_helpers, make_limit, take_helpers
from tightrope.numerics import check

P = TypeVar("P")
R = TypeVar("R")

TRIES_ALONE = 2  # with no other piece under way, before a piece is blamed for killing its worker
MOST_WORKERS = 1024  # more processes than any machine is good for
_WORKERS = "Pass a number of processes, 1 or more."
_AHEAD = 2  # pieces handed out per worker, so that none waits for the next
_RECOUNT = 1.0  # seconds between two looks at the size of a cluster, which may grow
_LISTEN = 0.5  # seconds that Ray is waited for at a time: no signal is handled inside
_STOPPED = (
    ".*tasks (have been successfully executed|which were still)"  # joblib's warning when we stop it early
)

Work = Callable[[Any], Any]
Numbered = tuple[int, Any]  # a piece with its place among the pieces
Outcome = tuple[int, Any]  # what became of it: a result or an exception
# Yields outcomes as they come, and returns the pieces that were under way when a worker died.
Pool = Callable[[Work, Iterator[Numbered]], Generator[Outcome, None, list[Numbered]]]


def in_parallel(
    work: Callable[[P], R], pieces: Iterable[P], *, workers: int | None, joining: bool = False
) -> Generator[tuple[int, R | Exception], None, None]:
    """What `work` makes of each piece, with the place of the piece, in the order in which they are done.

    Where the work raises, the exception is the outcome of that piece, and no other piece suffers. `workers`
    are processes: 1 means this one; None means all cores, or the backend that `joblib.parallel_config` has
    set, of which `workers` then bounds how much is used. Pieces are taken as workers become free, so there
    may be endlessly many. When a worker dies, the pieces under way are tried again, by halves while workers
    go on dying. A piece that still kills its worker when it is alone becomes `WorkerDied`.

    On its own machine this process may be `joining`: it is one of the workers, and begins while the others
    start. It takes the first pieces and they the last, so that each has neighbours to itself. That suits
    pieces that are not endless, take a second at most, for none is handed out meanwhile, and kill nobody.

    >>> sorted(in_parallel(abs, [-3, 4], workers=1))
    [(0, 3), (1, 4)]
    """
    if workers is not None:
        check.whole(least=1, remedy=_WORKERS, workers=workers)
        if workers > MOST_WORKERS:
            raise InvalidSetting("workers", workers, f"be at most {MOST_WORKERS}", _WORKERS)
    pool, tries = (None, 0) if workers == 1 else _configure(workers)
    if pool is None:
        return (_shield(work, numbered) for numbered in enumerate(pieces))
    if joining and not has_chosen_backend():
        return _survive(partial(_run_joined, count_jobs(workers) - 1), pool, tries, work, pieces)
    return _survive(pool, pool, tries, work, pieces)


def has_chosen_backend() -> bool:
    """Whether joblib is set to something else than its own processes: a cluster, as a rule."""
    import joblib

    backend, _ = joblib.parallel.get_active_backend()
    return type(backend).__name__ != "LokyBackend"


def count_jobs(workers: int | None) -> int:
    """How many pieces joblib would have under way: if neither it nor `workers` says, as many as cores.

    A daemonic process, such as a worker of `multiprocessing.Pool`, may start no others: it is the only one.
    """
    if workers == 1:
        return 1
    from multiprocessing import current_process  # which takes a while to load, like joblib

    import joblib

    backend, stated = joblib.parallel.get_active_backend()
    wanted = stated if workers is None else workers
    starts_processes = type(backend).__name__ in ("LokyBackend", "MultiprocessingBackend")
    if starts_processes and current_process().daemon:  # joblib would say so, in a warning at every question
        wanted = 1
    try:
        count = int(joblib.effective_n_jobs(-1 if wanted is None else wanted))
    except (TypeError, ValueError):  # joblib looks at its own setting only when it is used
        remedy = "Pass {workers}, or set joblib.parallel_config(n_jobs=-1) for all cores."
        must = "be a whole number other than 0"
        raise InvalidSetting("joblib's n_jobs", wanted, must, remedy) from None
    return max(count, 1)  # a cluster may still start


def _shield(work: Work, numbered: Numbered) -> Outcome:
    """One piece of work; an exception that cannot be sent between processes is put into words."""
    place, piece = numbered
    try:
        return place, work(piece)
    except Exception as problem:
        try:
            pickle.loads(pickle.dumps(problem))
        except Exception:
            return place, RuntimeError(f"{type(problem).__name__}: {problem}")
        return place, problem


def _survive(
    first: Pool, pool: Pool, tries: int, work: Work, pieces: Iterable[Any]
) -> Generator[Outcome, None, None]:
    """What `first` makes of the pieces; those under way when a worker dies are left to `pool`."""
    source = iter(enumerate(pieces))
    while lost := (yield from first(work, source)):
        groups = [lost]
        while groups:
            group = groups.pop()
            for _ in range(tries if len(group) == 1 else 1):
                rest = iter(group)
                lost = yield from pool(work, rest)
                lost += rest
                if not lost:
                    break
            if lost and len(group) == 1:
                _check_that_workers_live(pool)
                yield group[0][0], _blame(tries)
            elif lost:
                middle = (len(lost) + 1) // 2
                groups += [half for half in (lost[middle:], lost[:middle]) if half]


def _blame(tries: int) -> WorkerDied:
    times = "" if tries == 1 else f", {tries} times with nothing else under way"
    what = f"the worker was killed or crashed on this piece{times}"
    return WorkerDied(what, "It may need more memory than there is: ask for less of it.")


def _check_that_workers_live(pool: Pool) -> None:
    """If a trivial task also kills workers, blame the machine."""
    if not list(pool(bool, iter([(0, 0)]))):
        what = "no worker stays alive, whatever it is given"
        raise WorkerDied(what, "Check memory limits and the workers' own log.")


def _configure(workers: int | None) -> tuple[Pool | None, int]:
    """The pool that joblib is set to, if it has more than one job, and how often to try a piece alone."""
    try:
        import joblib
    except ModuleNotFoundError:
        remedy = f"Pass {{workers=1}}, or install it with: {install_command('dist')}"
        raise InvalidSetting("workers", workers, "be 1 where joblib is not installed", remedy) from None
    backend, stated = joblib.parallel.get_active_backend()
    kind, wanted = type(backend).__name__, stated if workers is None else workers
    # Clusters are asked directly, and themselves try a piece several times. joblib 1.6 hangs when Dask gives
    # up a task, works here when a cluster has one core, and cannot stream from Ray.
    if kind == "DaskDistributedBackend":
        return _Dask(backend.client, workers).run, 1
    if kind == "RayBackend":
        return _Ray.connect(backend, wanted).run, 1
    # What joblib calls one job is done in this process, where a piece that kills would kill everything.
    count = count_jobs(workers)
    uses_threads = getattr(backend, "uses_threads", False)
    if count == 1 or (uses_threads and backend.nesting_level):  # threads are what joblib gives its workers
        return None, 0
    if uses_threads:
        must = "use processes, because threads share the precision of ball arithmetic"
    elif not backend.supports_return_generator:
        must = "hand over results as they come"
    else:
        return partial(_run_joblib, count), TRIES_ALONE
    remedy = "Set joblib.parallel_config to loky, which is its default, to dask or ray, or pass {workers=1}."
    raise InvalidSetting("joblib's backend", Described(kind), must, remedy)


def _run_joined(
    others: int, work: Work, source: Iterator[Numbered]
) -> Generator[Outcome, None, list[Numbered]]:
    """Helpers of this process, which itself takes a piece whenever those have work and none is done.

    If a helper dies, all pieces without an outcome are returned, so that this process does not try the deadly
    one.
    """
    helpers = take_helpers(others)
    on_one_thread = make_limit()
    left = deque(source)
    under_way: dict[int, Any] = {}
    futures: dict[Future[Outcome], int] = {}
    try:
        while True:
            while left and len(futures) < _AHEAD * others:
                place, piece = left.pop()
                under_way[place] = piece
                futures[helpers.submit(_shield, work, (place, piece))] = place
            if not futures:
                return []
            done, _ = wait(futures, 0, FIRST_COMPLETED)
            if left and not done:
                with on_one_thread():
                    outcome = _shield(work, left.popleft())
                yield outcome
                continue
            for future in done or wait(futures, None, FIRST_COMPLETED).done:
                outcome = future.result()
                del under_way[futures.pop(future)]
                yield outcome
    except BrokenExecutor:
        return [*under_way.items(), *left]
    finally:
        if under_way:
            kill_helpers(helpers, futures)
        else:
            keep_helpers(others, helpers)


def _run_joblib(
    workers: int, work: Work, source: Iterator[Numbered]
) -> Generator[Outcome, None, list[Numbered]]:
    """The configured backend of joblib; when one worker dies, loky stops them all and starts new ones."""
    import joblib

    lock = threading.Lock()  # joblib's threads take pieces, too
    under_way: dict[int, Any] = {}
    is_open = True

    def take() -> Iterator[Any]:
        while True:
            with lock:
                numbered = next(source, None) if is_open else None
                if numbered is None:
                    return
                under_way[numbered[0]] = numbered[1]
            yield joblib.delayed(_shield)(work, numbered)

    # Batches of one: rows come when they are done, and a death takes no neighbours along (0.2 ms a piece).
    parallel = joblib.Parallel(
        n_jobs=workers, return_as="generator_unordered", batch_size=1, pre_dispatch=_AHEAD * workers
    )
    outcomes = parallel(take())
    try:
        for place, outcome in outcomes:
            del under_way[place]
            yield place, outcome
    except BrokenExecutor:
        with lock:
            is_open = False
            return list(under_way.items())
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_STOPPED)
            outcomes.close()
    return []


@dataclass(frozen=True)
class _Dask:
    """A Dask cluster, which starts its dead workers again and tries a piece on several before it gives up."""

    client: Any
    most: int | None

    def run(self, work: Work, source: Iterator[Numbered]) -> Generator[Outcome, None, list[Numbered]]:
        from distributed import KilledWorker, as_completed

        lost: list[Numbered] = []
        futures: dict[Any, Numbered] = {}
        done = as_completed([], loop=self.client.loop, with_results=True, raise_errors=False)
        room, counted = self._room(), time.monotonic()
        try:
            while True:
                for _, numbered in zip(range(room - len(futures)), source, strict=False):
                    future = self.client.submit(partial(_shield, work, numbered), pure=False)
                    futures[future] = numbered
                    done.add(future)
                if not futures:
                    return lost
                future, result = next(done)
                numbered = futures.pop(future)
                if future.status == "finished":
                    yield result
                elif future.status == "error" and isinstance(result[1], KilledWorker):
                    lost.append(numbered)
                else:
                    raise _explain_dask(future.status, result)
                if time.monotonic() - counted > _RECOUNT:
                    room, counted = self._room(), time.monotonic()
        finally:
            if futures:
                self.client.cancel(list(futures))

    def _room(self) -> int:
        """How many pieces keep the cluster busy; one where it has no workers yet, so that it starts some."""
        cores = sum(self.client.ncores().values())
        return max(1, _AHEAD * cores) if self.most is None else self.most


def _explain_dask(status: str, result: Any) -> WorkerDied:
    """Why Dask gave no outcome, where no worker was killed."""
    if status != "error" or isinstance(result, CancelledError):
        return WorkerDied("the connection to the Dask scheduler was lost", "Go on when it runs again.")
    problem = result[1]
    what = f"Dask's workers cannot do this work: {type(problem).__name__}: {problem}"
    return WorkerDied(what, "Install the same tightrope on every worker.")


@dataclass(frozen=True)
class _Ray:
    """A Ray cluster, which starts its dead workers again and tries a piece twice before it gives up."""

    submit: Callable[[Work, Numbered], Any]
    most: int | None

    @staticmethod
    def connect(backend: Any, wanted: int | None) -> "_Ray":
        """The cluster that Ray is connected to; without one, what `ray.init` finds or starts."""
        import ray

        if not ray.is_initialized():
            ray.init()
        options = {"max_retries": 1, **(backend.ray_remote_args or {})}
        most = wanted if wanted is not None and wanted > 0 else None
        return _Ray(_export_to_ray().options(**options).remote, most)

    def run(self, work: Work, source: Iterator[Numbered]) -> Generator[Outcome, None, list[Numbered]]:
        import ray
        from ray import exceptions

        deaths = (
            exceptions.WorkerCrashedError,
            exceptions.OutOfMemoryError,
            exceptions.NodeDiedError,
            exceptions.ObjectLostError,
        )
        lost: list[Numbered] = []
        tasks: dict[Any, Numbered] = {}
        room, counted = self._room(), time.monotonic()
        try:
            while True:
                for _, numbered in zip(range(room - len(tasks)), source, strict=False):
                    tasks[self.submit(work, numbered)] = numbered
                if not tasks:
                    return lost
                done, _ = ray.wait(list(tasks), timeout=_LISTEN)
                if not done:  # signals are heard in between
                    continue
                numbered = tasks.pop(done[0])
                try:
                    outcome = ray.get(done[0])
                except deaths:
                    lost.append(numbered)
                except exceptions.RayError as problem:
                    raise _explain_ray(problem) from None
                else:
                    yield outcome
                if time.monotonic() - counted > _RECOUNT:
                    room, counted = self._room(), time.monotonic()
        finally:
            for task in tasks:
                ray.cancel(task)

    def _room(self) -> int:
        """How many pieces keep the cluster busy; one where it has no cores yet, so that it starts some."""
        import ray

        cores = int(ray.cluster_resources().get("CPU", 0))
        return max(1, _AHEAD * cores) if self.most is None else self.most


@cache
def _export_to_ray() -> Any:
    import ray

    return ray.remote(_shield)  # once: Ray sends every new one to all workers


def _explain_ray(problem: Exception) -> WorkerDied:
    """Why Ray gave no outcome, where no worker was killed."""
    why = str(problem).strip().split("\n")[-1]  # a traceback ends with what went wrong
    what = f"Ray's workers cannot do this work: {why.strip() or type(problem).__name__}"
    return WorkerDied(what, "Install the same tightrope on every worker, and see that the cluster runs.")
