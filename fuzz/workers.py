"""Questions answered by several processes; one that hangs in a library call is replaced."""

import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait

from fuzz.ask import LIMIT, Result, ask, draw_question
from fuzz.verdict import TOO_SLOW, Verdict

PATIENCE = 15  # times the limit, by the clock on the wall, until a process that does not answer is ended


def _serve(line: Connection, seed: int, kinds: tuple[str, ...], limit: float) -> None:
    while True:
        try:
            index = line.recv()
        except (EOFError, KeyboardInterrupt):
            return
        line.send(ask(seed, index, kinds, limit))


class _Worker:
    """A process, what it works on, and since when."""

    def __init__(self, seed: int, kinds: tuple[str, ...], limit: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, seed, kinds, limit), daemon=True)
        self.process.start()
        theirs.close()
        self.index = -1
        self.since = 0.0

    def give(self, index: int) -> None:
        self.index, self.since = index, time.monotonic()
        self.line.send(index)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.line.close()


def ask_all(
    seed: int, indices: Iterator[int], kinds: tuple[str, ...], workers: int, limit: float = LIMIT
) -> Iterator[Result]:
    """The result of each question, as they come; stops starting new ones when `indices` ends."""
    crew = [_Worker(seed, kinds, limit) for _ in range(workers)]
    busy: list[_Worker] = []
    try:
        for worker in crew:
            _give_next(worker, indices, busy)
        while busy:
            answered = wait([worker.line for worker in busy], timeout=1.0)
            for worker in list(busy):
                lost = time.monotonic() - worker.since > PATIENCE * limit
                if worker.line not in answered and not lost and worker.process.is_alive():
                    continue
                busy.remove(worker)
                try:
                    yield worker.line.recv() if worker.line in answered else _lose(worker, seed, kinds)
                except EOFError:
                    yield _lose(worker, seed, kinds)
                if not worker.process.is_alive():
                    crew.remove(worker)
                    worker = _Worker(seed, kinds, limit)
                    crew.append(worker)
                _give_next(worker, indices, busy)
    finally:
        for worker in crew:
            worker.end()


def _lose(worker: _Worker, seed: int, kinds: tuple[str, ...]) -> Result:
    """What is known of a question whose process hangs or died."""
    worker.process.kill()
    worker.process.join()
    kind, question = draw_question(seed, worker.index, kinds)
    verdict = Verdict(TOO_SLOW, {}, "the process hung in a library call, or died")
    return Result(seed, worker.index, kind, question, verdict, time.monotonic() - worker.since)


def _give_next(worker: _Worker, indices: Iterator[int], busy: list[_Worker]) -> None:
    index = next(indices, None)
    if index is not None:
        worker.give(index)
        busy.append(worker)
