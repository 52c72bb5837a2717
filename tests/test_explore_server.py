"""The explorer's server: who may ask, what hostile requests get, and work that is really ended."""

import asyncio
import contextlib
import http.client
import json
import os
import random
import signal
import string
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import quote, urlsplit

import pytest

from tightrope.errors import InvalidSetting
from tightrope.explore.questions import EXAMPLE, KEYS, read_state
from tightrope.explore.server import MOST_STREAMS, PageServer
from tightrope.explore.stream import answer_all, work_harder
from tightrope.explore.workers import GaveUp, Lane, Tell, Workers

SLOW = (
    "records=1000&batch=50&epochs=3000&mechanism=gaussian&noise=4&sampling=without-replacement"
    "&relation=substitute&delta=1e-06"
)  # its game takes minutes
Headers = dict[str, str]


class StubLane:
    """Answers at once, so that only the server is tested."""

    async def work(self, part: str, asked: object, limit: float, tell: Tell, **arguments: Any) -> None:
        tell({"part": part, "settled": EXAMPLE, "epsilon": {"lower": 1.0, "upper": 1.0}})


def stub_server() -> PageServer:
    workers: Any = Workers()
    workers.quick = workers.patient = workers.tight = StubLane()
    return PageServer(8000, workers=workers)


async def request(
    app: Any, path: str, query: str = "", method: str = "GET", headers: Headers | None = None
) -> tuple[int, Headers, str]:
    """What the application sends back; an exception of the application is the test's."""
    sent: list[dict[str, Any]] = []
    given = {"host": "127.0.0.1:8000", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "root_path": "",
        "query_string": query.encode("latin-1", "replace"),
        "headers": [
            (name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in given.items()
        ],
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8000),
    }
    is_asked = False

    async def receive() -> dict[str, Any]:
        nonlocal is_asked
        if is_asked:
            await asyncio.sleep(3600)
        is_asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    kept = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], kept, body.decode()


def ask(path: str, query: str = "", **more: Any) -> tuple[int, Headers, str]:
    server = stub_server()
    return asyncio.run(request(server.app(), path.replace("TOKEN", server.token), query, **more))


# who may ask


@pytest.mark.parametrize(
    ("path", "more", "status"),
    [
        ("/TOKEN/", {}, 200),
        ("/TOKEN/alive", {}, 204),
        ("/TOKEN/page/page.js", {}, 200),
        ("/TOKEN/proofs/shuffles.md", {}, 200),
        ("/TOKEN/", {"headers": {"host": "localhost:8000"}}, 200),
        ("/TOKEN/", {"headers": {"origin": "http://127.0.0.1:8000"}}, 200),
        ("/TOKEN/", {"headers": {"sec-fetch-site": "cross-site"}}, 200),  # a link in a mail
        ("/TOKEN/alive", {"headers": {"sec-fetch-site": "cross-site"}}, 403),
        ("/TOKEN/alive", {"headers": {"sec-fetch-site": "same-site"}}, 403),
        ("/TOKEN/alive", {"headers": {"origin": "http://evil.example"}}, 403),
        ("/TOKEN/alive", {"headers": {"origin": "null"}}, 403),
        ("/TOKEN/alive", {"headers": {"origin": "http://127.0.0.1:8001"}}, 403),
        ("/TOKEN/", {"headers": {"host": "evil.example"}}, 403),  # a name that was rebound to this machine
        ("/TOKEN/", {"headers": {"host": "127.0.0.1:8001"}}, 403),
        ("/TOKEN/", {"headers": {"host": ""}}, 403),
        ("/TOKEN/", {"method": "POST"}, 405),
        ("/TOKEN/", {"method": "HEAD"}, 405),
        ("/TOKEN/", {"method": "OPTIONS"}, 405),
        ("/", {}, 403),
        ("", {}, 403),
        ("/wrong/", {}, 403),
        ("/TOKENx/", {}, 403),
        ("/tøken/", {}, 403),
        ("//TOKEN/", {}, 404),
        ("/TOKEN/nothing", {}, 404),
        ("/TOKEN/page/../server.py", {}, 404),
        ("/TOKEN/page//etc/passwd", {}, 404),
        ("/TOKEN/page/vendor", {}, 404),
        ("/TOKEN/proofs/..%2f..%2fserver.py", {}, 404),
        ("/TOKEN/ask/answer", {}, 400),
        ("/TOKEN/ask/everything", {}, 404),
    ],
)
def test_only_this_page_may_ask(path: str, more: Any, status: int) -> None:
    assert ask(path, **more)[0] == status


def test_every_refusal_and_page_carries_the_policy() -> None:
    for path in ("/TOKEN/", "/TOKEN/page/page.js", "/wrong/", "/TOKEN/alive"):
        headers = ask(path)[1]
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_files_are_sent_compressed_to_who_can_read_it() -> None:
    server = stub_server()
    path = f"/{server.token}/page/vendor/d3.min.js"
    plain = asyncio.run(request(server.app(), path))
    assert "content-encoding" not in plain[1]

    async def compressed() -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"127.0.0.1:8000"), (b"accept-encoding", b"gzip, br")]
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b""}
        app: Any = server.app()
        await app(scope, lambda: asyncio.sleep(3600), send)
        return len(sent[1]["body"])

    assert asyncio.run(compressed()) < len(plain[2]) / 2


def test_tokens_are_long_and_differ() -> None:
    tokens = {PageServer(1).token for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 24


# hostile requests


def hostile(draw: random.Random, token: str) -> tuple[str, str, str, Headers]:
    """A request by somebody who wants to break it, or who mistypes."""
    values = (
        *("nan", "inf", "-inf", "-1", "0", "1e400", "1e-400", "9" * 18, "9" * 400, "1/0", "0/5", "0x10", ""),
        *(
            "true",
            "[]",
            "{}",
            "null",
            "'; drop table",
            "<script>",
            "../../etc/passwd",
            "%00",
            "é",
            "\uff11\uff12",
        ),
        *("poisson", "add", "noise", "256", "1e-5", "0.5", "1e15", "1e300", "1_000", " 5", "5 ", "+5", "5."),
        "".join(draw.choices(string.printable, k=draw.randint(1, 80))),
    )
    pairs = dict(pair.split("=") for pair in EXAMPLE.split("&"))
    for _ in range(draw.randint(0, 3)):
        action, key = draw.randint(0, 3), draw.choice([*KEYS, "x", "__proto__", ""])
        if action:
            pairs[key] = draw.choice(values)
        else:
            pairs.pop(key, None)
    encode: Any = draw.choice([quote, quote, quote, str])
    query = "&".join(f"{key}={encode(value)}" for key, value in pairs.items())
    if draw.random() < 0.1:
        query = draw.choice([query * 20, "&", "=", "%", "a=b&" * 500, query + "&" + query, "\x00", query[3:]])
    path = f"/{token}/ask/{draw.choice(['answer', 'all', 'tight'])}"
    headers: Headers = {}
    attack = draw.random()
    if attack < 0.1:
        path = draw.choice([path.replace(token, token[:-1]), path.replace(token, "x" * 5000), "/", path * 3])
    elif attack < 0.2:
        headers["host"] = draw.choice(["evil.example", "127.0.0.1", "127.0.0.1:80@evil", "", "0.0.0.0:8000"])
    elif attack < 0.3:
        headers["origin"] = draw.choice(["null", "https://evil.example", "http://127.0.0.1:1", ""])
    method = draw.choice(["GET"] * 9 + ["POST", "PUT", "DELETE", "TRACE", "get"])
    return path, query, method, headers


def test_10_000_hostile_requests_get_a_clear_refusal_or_a_true_answer() -> None:
    server = stub_server()
    app, draw = server.app(), random.Random(23)

    async def attack() -> dict[int, int]:
        counts: dict[int, int] = {}
        for _ in range(10_000):
            path, query, method, headers = hostile(draw, server.token)
            status, _, body = await request(app, path, query, method, headers)
            counts[status] = counts.get(status, 0) + 1
            if status == 200:  # then the question is one that the library takes
                assert (method, headers) == ("GET", {})
                read_state(query)
                assert json.loads(body.splitlines()[-1]) == {"part": "end"}
            else:
                assert 400 <= status < 500, (status, query)
                assert "Traceback" not in body
                assert len(body) < 3000
                assert len(body.strip()) >= len("Not Found")
        return counts

    counts = asyncio.run(attack())
    assert counts[200] > 300
    assert counts[400] > 3000
    assert {403, 405, 414} <= counts.keys()
    assert server.streams == 0


def test_what_is_no_state_is_never_anything_but_an_invalid_setting() -> None:
    draw = random.Random(7)
    for _ in range(3000):
        text = "".join(draw.choices(string.printable + "&&&===%%é", k=draw.randint(0, 60)))
        with contextlib.suppress(InvalidSetting):
            read_state(text)


def test_too_many_questions_at_once_are_refused() -> None:
    server = stub_server()
    server.streams = MOST_STREAMS
    status, _, body = asyncio.run(request(server.app(), f"/{server.token}/ask/answer", EXAMPLE))
    assert (status, body.startswith("Too many questions at once")) == (429, True)


# work


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def workers(runner: asyncio.Runner) -> Iterator[Workers]:
    made = Workers(quick=1, patient=1, tight=1)
    runner.run(made.open())
    yield made
    runner.run(made.close())


async def ask_lane(workers: Workers, part: str, state: str, limit: float = 60) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    await workers.tight.work(part, read_state(state), limit, lines.append)
    return lines


def list_processes(workers: Workers) -> set[int]:
    return {process._process.pid for process in workers.tight._all}


def test_work_is_killed_at_its_limit_and_the_next_question_is_answered(
    runner: asyncio.Runner, workers: Workers
) -> None:
    (before,) = list_processes(workers)
    with pytest.raises(GaveUp, match="takes longer than 1 s, so it was stopped"):
        runner.run(ask_lane(workers, "tight", SLOW, limit=0.5))
    (found,) = runner.run(ask_lane(workers, "answer", EXAMPLE))
    assert found["number"] == "1.637"
    assert not is_running(before)
    assert list_processes(workers) != {before}


def test_cancelled_work_is_ended(runner: asyncio.Runner, workers: Workers) -> None:
    (before,) = list_processes(workers)

    async def cancel() -> None:
        task = asyncio.ensure_future(ask_lane(workers, "tight", SLOW))
        await asyncio.sleep(0.5)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    runner.run(cancel())
    assert runner.run(ask_lane(workers, "answer", EXAMPLE))
    assert not is_running(before)


def test_who_waits_too_long_for_a_process_is_told_so(
    runner: asyncio.Runner, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait_in_line() -> None:
        first = asyncio.ensure_future(ask_lane(workers, "tight", SLOW))
        await asyncio.sleep(0.2)
        monkeypatch.setattr(workers.tight, "longest_wait", 0.1)
        try:
            await ask_lane(workers, "answer", EXAMPLE)
        finally:
            first.cancel()

    with pytest.raises(GaveUp, match="take all the time there is"):
        runner.run(wait_in_line())
    monkeypatch.undo()
    assert runner.run(ask_lane(workers, "answer", EXAMPLE))


def test_a_process_that_dies_is_replaced(runner: asyncio.Runner, workers: Workers) -> None:
    async def die() -> None:
        task = asyncio.ensure_future(ask_lane(workers, "tight", SLOW))
        await asyncio.sleep(0.3)
        (process,) = list_processes(workers)
        os.kill(process, signal.SIGKILL)
        await task

    with pytest.raises(GaveUp, match="died"):
        runner.run(die())
    assert runner.run(ask_lane(workers, "answer", EXAMPLE))


def test_an_idle_process_that_died_costs_no_answer(runner: asyncio.Runner, workers: Workers) -> None:
    (before,) = list_processes(workers)
    os.kill(before, signal.SIGKILL)
    assert not is_running(before)
    (found,) = runner.run(ask_lane(workers, "answer", EXAMPLE))
    assert found["number"] == "1.637"
    assert list_processes(workers) != {before}


class StuckProcess:
    """Never says anything; ending it takes a while, and it must not be ended twice."""

    def __init__(self) -> None:
        self.ends = 0

    def is_alive(self) -> bool:
        return True

    def tell(self, message: object) -> None: ...

    async def hear(self) -> tuple[str, Any]:
        await asyncio.sleep(60)
        raise AssertionError("nobody waits that long")

    async def finish(self) -> bool:
        await asyncio.sleep(0.05)
        return False

    def end(self) -> None:
        self.ends += 1
        time.sleep(0.1)


@pytest.mark.parametrize("head_start", [0.0, 0.1])
def test_work_that_is_given_up_while_the_lanes_close_is_ended_once(
    runner: asyncio.Runner, head_start: float
) -> None:
    async def give_up_and_close() -> list[int]:
        lane, processes = Lane(2), [StuckProcess(), StuckProcess()]
        for process in processes:
            lane._all.add(cast(Any, process))
            lane._idle.put_nowait(cast(Any, process))
        tasks = [asyncio.ensure_future(lane.work("answer", None, 60, print)) for _ in processes]
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(head_start)
        await lane.close()
        await asyncio.sleep(0.2)
        return [process.ends for process in processes]

    assert runner.run(give_up_and_close()) == [1, 1]


def test_a_reader_who_leaves_ends_the_work(runner: asyncio.Runner, workers: Workers) -> None:
    server = PageServer(8000, workers=workers)
    (before,) = list_processes(workers)

    async def leave() -> None:
        scope = {
            "type": "http",
            "method": "GET",
            "path": f"/{server.token}/ask/tight",
            "headers": [(b"host", b"127.0.0.1:8000")],
            "query_string": SLOW.encode(),
        }

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0.5)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None: ...

        await server.app()(scope, receive, send)

    runner.run(leave())
    assert server.streams == 0
    assert runner.run(ask_lane(workers, "answer", EXAMPLE))
    assert not is_running(before)


def test_parts_come_one_by_one_with_the_answer_first(runner: asyncio.Runner, workers: Workers) -> None:
    lines: list[dict[str, Any]] = []
    small = (
        "records=500&batch=100&epochs=1&mechanism=laplace&noise=4&sampling=poisson"
        "&relation=add-or-remove&delta=1e-05"
    )
    runner.run(answer_all(workers, read_state(small), lines.append))
    assert lines[0]["part"] == "answer"
    parts = [line["part"] for line in lines]
    assert {"bar", "verdict", "curve", "attack", "epochs", "accountants"} <= set(parts)
    assert parts.count("bar") == 8
    refused = [line for line in lines if "refusal" in line]
    assert {line["part"] for line in refused} == {"bar"}  # Laplace noise under substitution
    assert all("no theorem" in line["refusal"] for line in refused)


SHUFFLED = EXAMPLE.replace("poisson", "shuffled").replace("add-or-remove", "substitute")
OWN = ("shuffled", "substitute")


class ScriptedLane:
    """Answers from a script, and keeps what it was asked."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.refuses = refuses

    async def work(self, part: str, asked: object, limit: float, tell: Tell, **arguments: Any) -> None:
        self.asked.append((part, arguments))
        if self.refuses and part == "answer":
            raise GaveUp("This takes longer than 60 s, so it was stopped.")
        ends = arguments.get("found") or {"answer": (1.0, 4.0), "tight": (2.0, 3.0)}.get(part, (5.0, 5.0))
        bracket = {"epsilon": {"lower": ends[0], "upper": ends[1]}} if part != "verdict" else {}
        tell({"part": part, "settled": SHUFFLED, **bracket, **arguments})


def scripted_workers(**how: bool) -> tuple[Workers, ScriptedLane]:
    workers: Any = Workers()
    workers.quick = workers.patient = workers.tight = lane = ScriptedLane(**how)
    return workers, lane


def test_every_verdict_knows_the_answer_and_nothing_is_computed_twice() -> None:
    workers, lane = scripted_workers()
    lines: list[dict[str, Any]] = []
    asyncio.run(answer_all(workers, read_state(SHUFFLED), lines.append))
    bars = [how for part, how in lane.asked if part == "bar"]
    assert [how["found"] for how in bars if how["row"] == OWN] == [(1.0, 4.0)]
    assert {how["claimed"] for how in bars} == {(1.0, 4.0)}
    verdicts = [line for line in lines if line["part"] == "verdict"]
    assert all((*OWN, 1.0, 4.0) in line["known"] for line in verdicts)
    assert len(verdicts[-1]["known"]) == len(bars) == 8
    assert verdicts[-1]["is_complete"]
    assert lane.asked[1][1]["row"] == OWN  # at once after the answer


def test_a_claim_without_an_answer_is_not_tried_again() -> None:
    workers, lane = scripted_workers(refuses=True)
    lines: list[dict[str, Any]] = []
    asyncio.run(answer_all(workers, read_state(SHUFFLED), lines.append))
    assert OWN not in [how["row"] for part, how in lane.asked if part == "bar"]
    (refused,) = [line for line in lines if line["part"] == "bar" and "refusal" in line]
    assert (refused["sampling"], refused["relation"]) == OWN
    assert "takes longer than" in refused["refusal"]


def test_after_more_work_the_bars_are_compared_with_the_narrower_claim() -> None:
    workers, lane = scripted_workers()
    asked = read_state(SHUFFLED)
    lines: list[dict[str, Any]] = []

    async def ask_and_work() -> None:
        await answer_all(workers, asked, print)
        lane.asked.clear()
        await work_harder(workers, asked, lines.append)

    asyncio.run(ask_and_work())
    bars = [line for line in lines if line["part"] == "bar"]
    assert {line["claimed"] for line in bars} == {(2.0, 3.0)}
    assert {line["row"]: line["found"] for line in bars}[OWN] == (2.0, 3.0)
    assert [line["found"] for line in bars if line["row"] != OWN] == [
        (5.0, 5.0)
    ] * 7  # none is computed again
    assert lines[-1]["part"] == "verdict"
    assert (*OWN, 2.0, 3.0) in lines[-1]["known"]


def test_a_bar_that_comes_after_more_work_is_compared_with_it() -> None:
    made: Any = Workers()

    class WorksHarderMeanwhile(ScriptedLane):
        async def work(self, part: str, asked: Any, limit: float, tell: Tell, **arguments: Any) -> None:
            await super().work(part, asked, limit, tell, **arguments)
            if part == "bar" and not arguments["found"]:
                await work_harder(made, asked, print)

    made.quick = made.patient = made.tight = WorksHarderMeanwhile()
    lines: list[dict[str, Any]] = []
    asyncio.run(answer_all(made, read_state(SHUFFLED), lines.append))
    others = [line for line in lines if line["part"] == "bar" and line["row"] != OWN]
    assert [line["claimed"] for line in others] == [(2.0, 3.0)] * 7


def test_a_verdict_that_is_overtaken_is_not_told() -> None:
    """The verdict over fewer bars comes last here, and would stand."""

    class SlowFirstVerdict(ScriptedLane):
        async def work(self, part: str, asked: object, limit: float, tell: Tell, **arguments: Any) -> None:
            if part == "verdict" and len(arguments["known"]) == 1:
                await asyncio.sleep(0.2)
            await super().work(part, asked, limit, tell, **arguments)

    workers: Any = Workers()
    workers.quick = workers.patient = SlowFirstVerdict()
    lines: list[dict[str, Any]] = []
    asyncio.run(answer_all(workers, read_state(SHUFFLED), lines.append))
    verdicts = [line for line in lines if line["part"] == "verdict"]
    assert len(verdicts[-1]["known"]) == 8


def is_running(process: int) -> bool:
    for _ in range(100):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.05)
    return True


# the command


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_cleanly(number: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tightrope", "explore", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    where = urlsplit(process.stdout.readline().strip())
    assert where.hostname == "127.0.0.1"
    connection = http.client.HTTPConnection(where.netloc, timeout=60)
    connection.request("GET", f"{where.path}ask/all?{EXAMPLE}")
    assert b'"1.637"' in connection.getresponse().readline()  # and it works on the rest
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    connection.close()
    assert err == "tightrope: The page is open on this machine only. Ctrl-C ends it.\n"
