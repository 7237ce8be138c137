"""How soon the studio answers its owner while others use up its connections: half requests, and many clients at once.

    python -m benchmarks.studio_load DEMO

DEMO is a folder that `regard demo` wrote. The server may open 256 files. In every case the owner requests the state of
the server over a new connection each time, for CASE_SECONDS or MAX_REQUESTS requests. The others run in a process of
their own, and end with the case:

    alone        nobody else
    half open    300 connections, each with half a header and without a token, which stay as they are
    reopened     the same, but each connection that the server drops is opened again
    clients      400 clients with the token at once, each with one inspection after another
"""

import asyncio
import http.client
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.harness import RESULTS, commit, machine
from benchmarks.studio import Server

MAX_FILES, NUM_HALF, NUM_CLIENTS = 256, 300, 400
CASE_SECONDS, MAX_REQUESTS, PAUSE, TIMEOUT, START_SECONDS = 10.0, 200, 0.02, 15.0, 120.0
HALF = b"GET /api/state HTTP/1.1\r\nHost: 127.0.0.1\r\n"
REOPEN_PAUSE = 0.1
"""Seconds before a dropped connection is opened again: without them the crowd alone would use a core."""


async def stay_half_open(port: int, until: float, counts: Counter[str], *, reopen: bool) -> None:
    """One connection with half a request."""
    while time.time() < until:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HALF)
            counts["opened"] += 1
            # ends when the server closes the connection
            await asyncio.wait_for(reader.read(), max(until - time.time(), 0.01))
            counts["dropped"] += 1
        except TimeoutError:
            counts["open at the end"] += 1
        except OSError as error:
            counts[type(error).__name__] += 1
        else:
            writer.close()
        if not reopen:
            return
        await asyncio.sleep(REOPEN_PAUSE)


async def inspect_often(port: int, token: str, until: float, counts: Counter[str], number: int) -> None:
    """One client with the token."""
    while time.time() < until:
        body = json.dumps({"model": "bahdanau", "text": f"{number % 28 + 1} May {1900 + number % 200}"}).encode()
        head = (
            f"POST /api/inspections HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode() + body)
            answer = await asyncio.wait_for(reader.read(), max(until - time.time(), 0.01))
            counts[answer[9:12].decode() or "closed"] += 1
            writer.close()
        except (TimeoutError, OSError) as error:
            counts[type(error).__name__] += 1


def crowd(case: str, port: int, token: str, results: "Queue[dict[str, int]]") -> None:
    """The others of a case, in a process of their own; the first result says that they begin."""
    counts: Counter[str] = Counter()
    # importing takes seconds on a busy machine
    results.put({})
    until = time.time() + CASE_SECONDS

    async def main() -> None:
        if case == "clients":
            await asyncio.gather(*(inspect_often(port, token, until, counts, one) for one in range(NUM_CLIENTS)))
        elif case != "alone":
            reopen = case == "reopened"
            await asyncio.gather(*(stay_half_open(port, until, counts, reopen=reopen) for _ in range(NUM_HALF)))

    asyncio.run(main())
    results.put(dict(counts))


def owner(server: Server, until: float) -> dict[str, Any]:
    """Latencies of the owner."""
    host = urlsplit(server.address).netloc
    seconds: list[float] = []
    codes: Counter[str] = Counter()
    while time.time() < until and len(seconds) < MAX_REQUESTS:
        began = time.perf_counter()
        connection = http.client.HTTPConnection(host, timeout=TIMEOUT)
        try:
            connection.request("GET", "/api/state", headers=server.headers)
            response = connection.getresponse()
            response.read()
            codes[str(response.status)] += 1
        except (OSError, http.client.HTTPException) as error:
            codes[type(error).__name__] += 1
        finally:
            connection.close()
        seconds.append(time.perf_counter() - began)
        time.sleep(PAUSE)
    return {
        "requests": len(seconds),
        "codes": dict(codes),
        "median, ms": round(statistics.median(seconds) * 1e3, 1),
        "slowest, ms": round(max(seconds) * 1e3, 1),
    }


def measure(server: Server, case: str) -> dict[str, Any]:
    """One case: the owner's latencies, and what the others saw."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    port, token = urlsplit(server.address).port, server.headers["Authorization"].removeprefix("Bearer ")
    others = context.Process(target=crowd, args=(case, port, token, results), daemon=True)
    others.start()
    try:
        results.get(timeout=START_SECONDS)
        # the owner's requests begin while the connections are opened
        record = owner(server, time.time() + CASE_SECONDS)
        record["others"] = results.get(timeout=TIMEOUT + CASE_SECONDS)
    finally:
        others.join(TIMEOUT)
        if others.is_alive():
            others.kill()
    return record


def run(demo: Path) -> dict[str, Any]:
    """All cases on one server."""
    with tempfile.TemporaryDirectory() as home:
        server = Server.start(demo, home, max_files=MAX_FILES)
        try:
            measured = {case: measure(server, case) for case in ("alone", "half open", "reopened", "clients")}
        finally:
            server.process.terminate()
            server.process.wait(30)
    return {
        "machine": machine(),
        "commit": commit(),
        "command": "python -m benchmarks.studio_load DEMO",
        "files that the server may open": MAX_FILES,
        "half requests": NUM_HALF,
        "clients": NUM_CLIENTS,
        "owner": measured,
    }


def main() -> None:
    """Print the record and keep it."""
    text = json.dumps(run(Path(sys.argv[1])), indent=2) + "\n"
    print(text)
    (RESULTS / "studio_load.json").write_text(text)


if __name__ == "__main__":
    main()
