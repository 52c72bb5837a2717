"""The explorer under load: start, one slider, 50 clients at once, and bytes.

Each client keeps one connection and asks for the answer to common runs (Poisson, without replacement, full
batches; another noise each time, so that nothing is remembered). Times are wall-clock times, from the request
to the last byte; a machine that does other work shows in them.
"""

import argparse
import gzip
import http.client
import statistics
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

from tightrope.explore.places import FILES
from tightrope.explore.questions import EXAMPLE

SAMPLINGS = ("poisson", "without-replacement", "every-record")


def ask(connection: http.client.HTTPConnection, path: str, state: str, what: str = "answer") -> float:
    began = time.perf_counter()
    connection.request("GET", f"{path}ask/{what}?{state}")
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, body
    assert b'"part": "answer"' in body
    assert b'"refusal"' not in body
    return time.perf_counter() - began


def vary(place: int) -> str:
    sampling = SAMPLINGS[place % 3]
    noise = 0.8 + 0.001 * place
    return EXAMPLE.replace("noise=1.1", f"noise={noise:.4f}").replace("=poisson", f"={sampling}")


def tell(name: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    late = ordered[int(0.95 * (len(ordered) - 1))]
    print(
        f"{name}: {len(ordered)} answers, median {1e3 * statistics.median(ordered):.0f} ms, "
        f"95 % within {1e3 * late:.0f} ms, slowest {1e3 * ordered[-1]:.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    files = [path for path in FILES.rglob("*") if path.suffix in (".html", ".css", ".js")]
    print(f"page: {sum(len(gzip.compress(path.read_bytes(), 9)) for path in files):,} bytes, compressed")
    began = time.perf_counter()
    command = [sys.executable, "-m", "tightrope", "explore", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        where = urlsplit(process.stdout.readline().strip())
        print(f"start: the page is there after {time.perf_counter() - began:.2f} s")
        connection = http.client.HTTPConnection(where.netloc)
        ask(connection, where.path, EXAMPLE)
        print(f"start: the first answer is there after {time.perf_counter() - began:.2f} s")
        tell("one slider", [ask(connection, where.path, vary(3 * i)) for i in range(100)])
        seconds: list[float] = []

        def be_client(place: int, start: threading.Barrier) -> None:
            own = http.client.HTTPConnection(where.netloc)
            own.connect()
            start.wait()
            turns = (vary(1000 + place + asked.clients * turn) for turn in range(asked.rounds))
            seconds.extend(ask(own, where.path, state) for state in turns)
            own.close()

        start = threading.Barrier(asked.clients)
        clients = [threading.Thread(target=be_client, args=(i, start)) for i in range(asked.clients)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        tell(f"{asked.clients} clients", seconds)
        assert len(seconds) == asked.clients * asked.rounds
    finally:
        process.terminate()
        process.communicate(timeout=60)


if __name__ == "__main__":
    main()
