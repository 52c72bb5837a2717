"""Run the server until Ctrl-C, and show the page."""

import asyncio
import contextlib
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator

from tightrope.errors import InvalidSetting
from tightrope.explore.server import HOST, PageServer
from tightrope.extras import MissingExtra

try:
    import uvicorn
except ModuleNotFoundError as missing:
    raise MissingExtra("tightrope explore", "starlette and uvicorn", "explore") from missing

MOST_PORT = 65_535
_PATIENCE = 1  # seconds in which open answers may end after Ctrl-C


class _Server(uvicorn.Server):
    """Ends by itself on a signal, as a command that has done its work."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], object]) -> None:
        super().__init__(config)
        self._tell_started = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Hear both signals that ask for an end, and give them back afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say so once somebody may come."""
        await super().startup(sockets)
        self._tell_started()


def bind(port: int) -> socket.socket:
    """A socket on this machine only; port 0 takes one that is free."""
    if not 0 <= port <= MOST_PORT:
        remedy = "Leave it out to take a free one."
        raise InvalidSetting("port", port, f"be between 0 and {MOST_PORT}", remedy)
    # asyncio sends at once, without waiting 40 ms for an acknowledgement, only where the protocol is named
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as problem:
        listening.close()
        remedy = "Another program may use it: name another one, or leave {port} out to take a free one."
        said = f"be free ({problem.strerror})" if problem.strerror else "be free"
        raise InvalidSetting("port", port, said, remedy) from problem
    return listening


def serve(port: int, state: str, *, opens_browser: bool, say: Callable[[str], object]) -> None:
    """Serve the page until a signal comes; `say` is told where it is."""
    listening = bind(port)
    page = PageServer(listening.getsockname()[1])
    address = page.address + (f"?{state}" if state else "")

    def show() -> None:
        say(address)
        if opens_browser:  # which may take its time
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    config = uvicorn.Config(
        page.app(),
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE,
        ws="none",
    )
    asyncio.run(_Server(config, show).serve(sockets=[listening]))
