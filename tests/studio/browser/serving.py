"""A studio in a process of its own, as a reader starts it; it can be killed, and begun again at the same address."""

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
STARTS = 90
"""Seconds: a busy machine imports torch slowly."""


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


class Serving:
    """`regard studio FOLDER --no-browser --port N` with a home of its own."""

    def __init__(self, home: Path, folder: Path | None):
        self.home, self.folder, self.port = home, folder, free_port()
        home.mkdir(parents=True, exist_ok=True)
        self.origin = self.token = ""
        self.start()

    def start(self):
        folders = [] if self.folder is None else [str(self.folder.resolve())]
        command = [sys.executable, "-m", "regard", "studio", *folders, "--no-browser", "--port", str(self.port)]
        # a session of its own: what it starts to train ends with it
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
        said, until = "", time.monotonic() + STARTS
        stream = self.process.stdout
        while time.monotonic() < until and self.process.poll() is None:
            if select.select([stream], [], [], 0.5)[0]:
                said += stream.readline().decode()
            if found := ADDRESS.search(said):
                return found.groups()
        raise RuntimeError(f"the studio printed no address:\n{said}")

    def wait(self):
        until = time.monotonic() + STARTS
        while True:
            try:
                return self.get("/api/state")
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def kill(self):
        """As the out-of-memory killer does it."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def ask(self, path, body=None, **parameters):
        address = f"{self.origin}{path}" + (f"?{urlencode(parameters)}" if parameters else "")
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=30)

    def get(self, path, **parameters):
        return json.load(self.ask(path, **parameters))

    def look(self, model, text, answer=None):
        return json.load(self.ask("/api/inspections", {"model": model, "text": text, "answer": answer}))

    def weights(self, look, site, head):
        """The exact weights, row by row."""
        where = f"/api/inspections/{look['id']}"
        count = int(self.ask(f"{where}/weights", site=site, head=head).headers["x-queries"])
        rows = [self.ask(f"{where}/row", site=site, head=head, query=query).read() for query in range(count)]
        return np.stack([np.frombuffer(row, "<f4") for row in rows])
