"""Processes that compute: kept warm, one question each, and killed where nobody waits any more."""

import asyncio
import contextlib
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from tightrope.explore.rows import LastBars
from tightrope.numerics.text import write_duration

_LINE, _REFUSAL, _BUG, _END = "line", "refusal", "bug", "end"
_PROGRESS_EVERY = 0.2  # seconds
_LONGEST_WAIT = 300.0  # seconds in a queue
_GRACE = 0.2  # seconds in which work that nobody waits for may end by itself: a new process costs more
_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


Tell = Callable[[dict[str, Any]], object]  # takes one line of an answer


class GaveUp(Exception):
    """What a part has instead of an answer: a refusal, a limit that was reached, or a bug."""


def answer_forever(connection: Connection) -> None:
    """The body of a process: compute one part after the other, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends us
    from tightrope.errors import TightropeError  # loaded where the work is done
    from tightrope.explore.answers import PARTS, as_lines
    from tightrope.explore.questions import PAGE

    last = 0.0

    def progress(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last > _PROGRESS_EVERY:
            last = time.monotonic()
            connection.send((_LINE, {"part": "progress", "done": done, "of": of}))

    with contextlib.suppress(EOFError, OSError):
        while True:
            part, asked, arguments = connection.recv()
            how = {**arguments, "progress": progress} if part == "tight" else arguments
            try:
                for line in as_lines(PARTS[part](asked, **how)):
                    connection.send((_LINE, line))
                connection.send((_END, None))
            except TightropeError as refusal:
                connection.send((_REFUSAL, refusal.in_words(PAGE)))
            except (EOFError, OSError):
                raise
            except Exception as problem:
                connection.send((_BUG, f"{type(problem).__name__}: {problem}"))


class WarmProcess:
    """One process and the thread that listens to it."""

    def __init__(self) -> None:
        context: Any = multiprocessing.get_context(_METHOD)
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=answer_forever, args=(theirs,), daemon=True)
        with _unheard_interrupts():  # the first start makes a server of forks, which must outlive a Ctrl-C
            self._process.start()
        theirs.close()
        self._listener = ThreadPoolExecutor(1)
        self._next: asyncio.Future[tuple[str, Any]] | None = None

    async def hear(self) -> tuple[str, Any]:
        """The next thing it says; who stops waiting for it leaves it to who asks next."""
        if self._next is None:
            loop = asyncio.get_running_loop()
            self._next = loop.run_in_executor(self._listener, self._connection.recv)
            self._next.add_done_callback(_expect)
        try:
            return await asyncio.shield(self._next)
        finally:
            if self._next.done():
                self._next = None

    async def finish(self) -> bool:
        """Whether it ends what it does within the grace, so that it need not be killed."""
        with contextlib.suppress(TimeoutError, EOFError, OSError):
            async with asyncio.timeout(_GRACE):
                while (await self.hear())[0] == _LINE:
                    pass
                return True
        return False

    def is_alive(self) -> bool:
        """Whether it can be given something to do: who is idle says nothing, and only an end is heard."""
        return not self._connection.poll()

    def tell(self, message: object) -> None:
        """Give it something to do."""
        self._connection.send(message)

    def end(self) -> None:
        """Kill it: the thread that listens then hears the end."""
        self._process.kill()
        self._process.join()
        self._listener.shutdown(wait=True)
        self._connection.close()


def _expect(heard: "asyncio.Future[Any]") -> None:
    """Take note of how it ended: a process that is killed ends in EOFError, which nobody waits for."""
    if not heard.cancelled():
        heard.exception()


class Lane:
    """Some processes for one kind of work; who comes later waits."""

    def __init__(self, size: int) -> None:
        self._idle: asyncio.Queue[WarmProcess] = asyncio.Queue()
        self._all: set[WarmProcess] = set()
        self._size = size
        self._closed = False
        self.longest_wait = _LONGEST_WAIT

    async def open(self) -> None:
        """Start the processes."""
        for _ in range(self._size):
            await self._add()

    async def _add(self) -> None:
        started = await asyncio.to_thread(WarmProcess)
        if self._closed:
            await asyncio.to_thread(started.end)
            return
        self._all.add(started)
        self._idle.put_nowait(started)

    async def work(self, part: str, asked: object, limit: float, tell: Tell, **arguments: Any) -> None:
        """Tell the lines of one part, or raise GaveUp. Work is killed at the limit and if it is cancelled."""
        try:
            async with asyncio.timeout(self.longest_wait):
                process = await self._take()
        except TimeoutError:
            raise GaveUp("Other questions take all the time there is: close other pages.") from None
        is_done = False
        try:
            async with asyncio.timeout(limit):
                process.tell((part, asked, arguments))
                while (heard := await process.hear())[0] == _LINE:
                    tell(heard[1])
            is_done = True
        except TimeoutError:
            raise GaveUp(f"This takes longer than {write_duration(limit)}, so it was stopped.") from None
        except (EOFError, OSError):
            raise GaveUp("The process that worked on this died; memory may have run out.") from None
        finally:
            if is_done:
                self._idle.put_nowait(process)
            else:
                _keep(asyncio.ensure_future(self._recover(process)))
        kind, said = heard
        if kind != _END:
            raise GaveUp(said if kind == _REFUSAL else f"This is a bug in tightrope ({said}).")

    async def _take(self) -> WarmProcess:
        """A process that is idle and alive; one that died meanwhile is replaced."""
        while not (process := await self._idle.get()).is_alive():
            _keep(asyncio.ensure_future(self._recover(process)))
        return process

    async def _recover(self, process: WarmProcess) -> None:
        """Take a process back that ends its work by itself; kill and replace another."""
        if await process.finish():
            self._idle.put_nowait(process)
            return
        if process not in self._all:  # `close` took it meanwhile, and a process is ended once
            return
        self._all.discard(process)
        await asyncio.to_thread(process.end)
        if not self._closed:
            await self._add()

    async def close(self) -> None:
        """End all processes."""
        self._closed = True
        while self._all:
            await asyncio.to_thread(self._all.pop().end)


_KEPT: set["asyncio.Future[None]"] = set()


def _keep(task: "asyncio.Future[None]") -> None:
    """Hold a task until it is done: the loop itself does not."""
    _KEPT.add(task)
    task.add_done_callback(_KEPT.discard)


class Workers:
    """A lane for what takes milliseconds, one for what takes seconds, one for effort TIGHT: minutes.

    `bars` are those that they found last.
    """

    def __init__(self, quick: int = 2, patient: int = 2, tight: int = 1) -> None:
        if _METHOD == "forkserver":
            multiprocessing.set_forkserver_preload(["tightrope.explore.warm"])
        self.quick, self.patient, self.tight = Lane(quick), Lane(patient), Lane(tight)
        self.bars = LastBars()

    async def open(self) -> None:
        """Start all processes; the first takes a second, and makes the others quick."""
        for lane in (self.quick, self.patient, self.tight):
            await lane.open()

    async def close(self) -> None:
        """End all processes."""
        for lane in (self.quick, self.patient, self.tight):
            await lane.close()


@contextlib.contextmanager
def _unheard_interrupts() -> Iterator[None]:
    """Let what is started here ignore Ctrl-C; only the main thread may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
