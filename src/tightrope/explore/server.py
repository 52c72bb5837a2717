"""The server of the page: one token, one host, one origin, and nothing that leaves the machine."""

import asyncio
import gzip
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tightrope.errors import InvalidSetting
from tightrope.explore.places import FILES, PROOFS
from tightrope.explore.questions import LONGEST_STATE, PAGE, PageQuestion, read_state
from tightrope.explore.stream import END, answer_all, answer_only, work_harder
from tightrope.explore.workers import Tell, Workers
from tightrope.extras import MissingExtra

try:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send
except ModuleNotFoundError as missing:
    raise MissingExtra("tightrope explore", "starlette and uvicorn", "explore") from missing

HOST = "127.0.0.1"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".LICENSE": "text/plain"}
MOST_STREAMS = 100
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)  # Plot puts styles into its SVG
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

Stream = Callable[[Workers, PageQuestion, Tell], Awaitable[None]]


@dataclass
class PageServer:
    """What all requests share."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    workers: Workers = field(default_factory=Workers)
    streams: int = 0

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a browser on this machine calls it."""
        return f"{HOST}:{self.port}", f"localhost:{self.port}"

    def app(self) -> ASGIApp:
        """The application, behind its checks."""
        streams = {"answer": answer_only, "all": answer_all, "tight": work_harder}
        routes = [
            Route("/{token}/", _give_page, methods=["GET"]),
            Route("/{token}/alive", _give_nothing, methods=["GET"]),
            Route("/{token}/page/{name:path}", _give_file, methods=["GET"]),
            Route("/{token}/proofs/{name}", _give_proof, methods=["GET"]),
            *(
                Route(f"/{{token}}/ask/{name}", self._answer(stream), methods=["GET"])
                for name, stream in streams.items()
            ),
        ]
        return Guard(self, Starlette(routes=routes, lifespan=self._live))

    @asynccontextmanager
    async def _live(self, app: Starlette) -> AsyncIterator[None]:
        opening = asyncio.ensure_future(self.workers.open())  # the page may be read meanwhile
        try:
            yield
        finally:
            opening.cancel()
            await self.workers.close()

    def _answer(self, stream: Stream) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            if self.streams >= MOST_STREAMS:
                return refuse(429, "Too many questions at once: wait for an answer, or close other pages.")
            try:
                asked = read_state(request.scope["query_string"].decode("ascii", "replace"))
            except InvalidSetting as refusal:
                return refuse(400, refusal.in_words(PAGE))
            return LineResponse(self, lambda tell: stream(self.workers, asked, tell))

        return answer


class LineResponse(Response):
    """JSON lines as they are told; when the reader leaves, the work is cancelled."""

    def __init__(self, server: PageServer, work: Callable[[Tell], Awaitable[None]]) -> None:
        super().__init__(headers={**HEADERS, "content-type": "application/x-ndjson; charset=utf-8"})
        del self.headers["content-length"]
        self._server, self._work = server, work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the lines until the work ends or the reader leaves."""
        self._server.streams += 1
        lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

        async def work() -> None:
            try:
                await self._work(lines.put_nowait)
                lines.put_nowait(END)
            finally:
                lines.put_nowait(None)

        async def pump() -> None:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while (line := await lines.get()) is not None:
                body = json.dumps(line, allow_nan=False).encode() + b"\n"
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        async def leave() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        working, pumping = asyncio.ensure_future(work()), asyncio.ensure_future(pump())
        leaving = asyncio.ensure_future(leave())
        try:
            await asyncio.wait({pumping, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._server.streams -= 1
            for task in (working, pumping, leaving):
                task.cancel()
            await asyncio.gather(working, pumping, leaving, return_exceptions=True)


class Guard:
    """What every request must show before anything is done for it."""

    def __init__(self, server: PageServer, app: ASGIApp) -> None:
        self._server, self._app = server, app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse it in a sentence, or pass it on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "http":
            refusal = self._judge(scope)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _judge(self, scope: Scope) -> Response | None:
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            known = name.decode("latin-1").lower()
            if known in headers and known in ("host", "origin"):
                return refuse(400, f"The header {known} must be sent once.")
            headers[known] = value.decode("latin-1")
        return self._judge_sender(scope, headers) or self._judge_address(scope)

    def _judge_sender(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        """Refuse other hosts, which a rebound name would send, and other sites; a link may open the page."""
        hosts = self._server.hosts
        if headers.get("host", "").lower() not in hosts:
            return refuse(403, f"This page is at {HOST} only.")
        if headers.get("origin", f"http://{hosts[0]}") not in [f"http://{host}" for host in hosts]:
            return refuse(403, "Another origin may not ask here.")
        is_page = scope["path"] == f"/{self._server.token}/"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_page:
            return refuse(403, "Another site may not ask here.")
        return None

    def _judge_address(self, scope: Scope) -> Response | None:
        if scope["method"] != "GET":
            return refuse(405, "This page is only read: use GET.", allow="GET")
        if len(scope.get("query_string", b"")) > LONGEST_STATE:
            return refuse(414, "The address is too long: open the page without a question, and set it there.")
        token = scope["path"].lstrip("/").partition("/")[0]
        if not secrets.compare_digest(token.encode("utf-8", "replace"), self._server.token.encode()):
            return refuse(403, _OTHER_TOKEN)
        return None


_OTHER_TOKEN = (
    "The token in this address is not that of the page that runs now. Open the address that tightrope "
    "explore printed, or pass this link to it: tightrope explore --at LINK."
)


def refuse(status: int, said: str, **headers: str) -> Response:
    """A refusal in a sentence."""
    return PlainTextResponse(said + "\n", status, headers={**HEADERS, **headers})


@cache
def _read_file(name: str) -> tuple[bytes, bytes]:
    """A file of the page, as it is and compressed."""
    body = (FILES / name).read_bytes()
    return body, gzip.compress(body, 9, mtime=0)


@cache
def list_files() -> frozenset[str]:
    """The files that are served, and no others."""
    return frozenset(str(path.relative_to(FILES).as_posix()) for path in FILES.rglob("*") if path.is_file())


def _give(request: Request, name: str) -> Response:
    body, small = _read_file(name)
    kind = TYPES.get(Path(name).suffix, "application/octet-stream")
    headers = {**HEADERS, "content-type": f"{kind}; charset=utf-8", "vary": "accept-encoding"}
    if name.startswith("vendor/"):
        headers["cache-control"] = "private, max-age=86400"
    if re.search(r"\bgzip\b", request.headers.get("accept-encoding", "")):
        return Response(small, headers={**headers, "content-encoding": "gzip"})
    return Response(body, headers=headers)


async def _give_page(request: Request) -> Response:
    return _give(request, "index.html")


async def _give_nothing(request: Request) -> Response:
    return Response(status_code=204, headers=HEADERS)


async def _give_file(request: Request) -> Response:
    name = request.path_params["name"]
    return _give(request, name) if name in list_files() else refuse(404, "There is no such file.")


async def _give_proof(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in {path.name for path in PROOFS.glob("*.md")}:
        return refuse(404, "There is no such proof note.")
    return PlainTextResponse((PROOFS / name).read_text("utf-8"), headers=HEADERS)
