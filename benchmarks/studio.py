"""How fast does the studio's page load, how fast does it respond, also with fifty clients for a minute?

    python -m benchmarks.studio DEMO [SECONDS]

DEMO is a folder that `regard demo` wrote. Clients look, ask for weights, rows and numbers, swap and ablate, each as
fast as it is answered; all of it on loopback.
"""

import asyncio
import json
import os
import random
import re
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.harness import RESULTS, commit, machine
from regard._utils import DEMO_SYSTEMS

CLIENTS, SECONDS = 50, 60.0
BUSY = (503,)


@dataclass
class Server:
    """A studio in a separate process."""

    process: subprocess.Popen[str]
    address: str
    headers: dict[str, str]
    page_after: float

    @classmethod
    def start(cls, demo: Path, home: str, *, max_files: int | None = None) -> "Server":
        """From the command to the first page that can be fetched; `max_files` limits the files that it may open."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        began = time.perf_counter()
        command = [sys.executable, "-m", "regard", "studio", str(demo), "--no-browser", "--port", str(port)]
        if max_files is not None:
            command = ["sh", "-c", f"ulimit -n {max_files}; exec {shlex.join(command)}"]
        environment = os.environ | {"XDG_DATA_HOME": home}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        match = re.search(r"(http://\S+)/\?token=(\w+)", process.stdout.readline())
        assert match, "the studio did not start"
        while True:
            try:
                httpx.get(match[1])
                break
            except httpx.ConnectError:
                time.sleep(0.005)
        page_after = time.perf_counter() - began
        return cls(process, match[1], {"Authorization": f"Bearer {match[2]}"}, page_after)

    def memory(self) -> float:
        """Resident MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


@dataclass
class Tally:
    """Times and errors of all clients."""

    codes: Counter[int] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    async def ask(self, client: httpx.AsyncClient, method: str, path: str, **more: Any) -> httpx.Response:
        """One request; its time and errors are counted."""
        began = time.perf_counter()
        answer = await client.request(method, path, **more)
        self.seconds.append(time.perf_counter() - began)
        self.codes[answer.status_code] += 1
        if answer.status_code >= 400 and answer.status_code not in BUSY:
            self.errors.append(f"{method} {path} {answer.status_code} {answer.text[:100]}")
        return answer


async def visit(server: Server, tally: Tally, number: int, until: float) -> None:
    """One client."""
    chance = random.Random(number)
    async with httpx.AsyncClient(base_url=server.address, headers=server.headers, timeout=60) as client:
        while time.perf_counter() < until:
            text = f"{chance.randint(1, 28)} May {chance.randint(1900, 2099)}"
            request = {"model": chance.choice(DEMO_SYSTEMS), "text": text}
            answer = await tally.ask(client, "POST", "/api/inspections", json=request)
            if answer.status_code != 200 or not answer.json()["sites"]:
                continue
            inspection = answer.json()
            site = chance.choice(inspection["sites"][1:])["path"]
            place = f"/api/inspections/{inspection['id']}"
            for path, more in (
                ("weights", {"head": -1}), ("row", {"query": 1}), ("compute", {"query": 1}),
                ("number", {"query": 1, "quantity": "weight", "key": 0}), ("heads", {}), ("thumbnails", {}),
            ):  # fmt: skip
                await tally.ask(client, "GET", f"{place}/{path}", params={"site": site, **more})
            if chance.random() < 0.2:
                await tally.ask(client, "POST", f"{place}/swap", json={"site": site, "align": "sparsemax"})
                await tally.ask(client, "POST", f"{place}/ablate", json={"site": site, "head": 0})


async def crowd(server: Server, seconds: float) -> tuple[Tally, list[float]]:
    """All clients at once, and samples of the server's memory."""
    tally, until = Tally(), time.perf_counter() + seconds
    visits = [asyncio.create_task(visit(server, tally, number, until)) for number in range(CLIENTS)]
    memory = []
    while time.perf_counter() < until:
        await asyncio.sleep(seconds / 12)
        memory.append(server.memory())
    await asyncio.gather(*visits)
    return tally, memory


def answers(server: Server) -> dict[str, float]:
    """Milliseconds from a text to the inspection and its first weights, with a single client."""
    medians = {}
    with httpx.Client(base_url=server.address, headers=server.headers, timeout=60) as client:
        for system in DEMO_SYSTEMS:
            times = []
            for day in range(1, 21):
                began = time.perf_counter()
                request = {"model": system, "text": f"Thursday, {day} March 1953"}
                inspection = client.post("/api/inspections", json=request).json()
                if inspection["sites"]:
                    client.get(f"/api/inspections/{inspection['id']}/weights", params={"site": "alignment"})
                times.append((time.perf_counter() - began) * 1e3)
            medians[system] = round(statistics.median(times[1:]), 1)
    return medians


def run(demo: Path, seconds: float = SECONDS) -> dict[str, Any]:
    """All three measurements, in one record."""
    with tempfile.TemporaryDirectory() as home:
        server = Server.start(demo, home)
        try:
            alone = answers(server)
            tally, memory = asyncio.run(crowd(server, seconds))
        finally:
            server.process.terminate()
            server.process.wait(30)
    return {
        "machine": machine(),
        "commit": commit(),
        "command": f"python -m benchmarks.studio DEMO {seconds:g}",
        "page after, s": round(server.page_after, 2),
        "text to weights, ms": alone,
        "clients": CLIENTS,
        "seconds": seconds,
        "requests": sum(tally.codes.values()),
        "codes": {str(code): count for code, count in sorted(tally.codes.items())},
        "errors but busy": tally.errors[:10],
        "median, ms": round(statistics.median(tally.seconds) * 1e3, 1),
        "slowest, ms": round(max(tally.seconds) * 1e3, 1),
        "resident MiB, every twelfth": [round(one) for one in memory],
    }


def main() -> None:
    """Print and save the record."""
    record = run(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS)
    text = json.dumps(record, indent=2) + "\n"
    print(text)
    (RESULTS / "studio.json").write_text(text)


if __name__ == "__main__":
    main()
