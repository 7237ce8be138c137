"""A studio in a separate process, which can be killed and restarted at the same address."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/\?token=(\w+)")
START_SECONDS = 90
"""Seconds, because a busy machine imports torch slowly."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class StudioProcess:
    """`regard studio FOLDER --no-browser --port N` with a separate home; `program` is what Python runs as `regard`."""

    def __init__(self, home: Path, folder: Path | None, program: tuple[str, ...] = ("-m", "regard")):
        self.home, self.folder, self.program, self.port = home, folder, program, free_port()
        home.mkdir(parents=True, exist_ok=True)
        self.origin = self.token = ""
        self.start()

    def start(self):
        folders = [] if self.folder is None else [str(self.folder.resolve())]
        command = [sys.executable, *self.program, "studio", *folders, "--no-browser", "--port", str(self.port)]
        # a separate session, so that a training that it starts is killed with it
        self.process = subprocess.Popen(
            command,
            cwd=self.home,
            env={**os.environ, "XDG_DATA_HOME": str(self.home), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.origin, self.token = self.printed()
        self.wait()

    def printed(self):
        output, until = "", time.monotonic() + START_SECONDS
        stream = self.process.stdout
        while time.monotonic() < until and self.process.poll() is None:
            if select.select([stream], [], [], 0.5)[0]:
                output += stream.readline().decode()
            if match := ADDRESS.search(output):
                return match.groups()
        raise RuntimeError(f"the studio printed no address:\n{output}")

    def wait(self):
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.get("/api/state")
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def kill(self):
        """Kill it with SIGKILL, as the out-of-memory killer does."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def request(self, path, body=None, **parameters):
        address = f"{self.origin}{path}" + (f"?{urlencode(parameters)}" if parameters else "")
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=30)

    def get(self, path, **parameters):
        return json.load(self.request(path, **parameters))

    def inspect(self, model, text, output=None):
        return json.load(self.request("/api/inspections", {"model": model, "text": text, "output": output}))

    def weights(self, inspection, site, head):
        """The exact weights of a head."""
        where = f"/api/inspections/{inspection['id']}"
        count = int(self.request(f"{where}/weights", site=site, head=head).headers["x-queries"])
        rows = [self.request(f"{where}/row", site=site, head=head, query=query).read() for query in range(count)]
        return np.stack([np.frombuffer(row, "<f4") for row in rows])
