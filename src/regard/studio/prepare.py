"""With nothing to look at, the systems of `regard demo` train in the background, in a process of their own."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from regard.contracts import make_folder
from regard.models import MODELS
from regard.recipes import DEMO_SYSTEMS
from regard.recipes.folder import read_run
from regard.storage import Checkpoint
from regard.studio.runs import last_step
from regard.studio.schema import Preparing

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

TENDED = """
import os, runpy, sys, threading

def watch():
    sys.stdin.buffer.read()
    os._exit(1)

threading.Thread(target=watch, daemon=True).start()
sys.argv[0] = "regard"
runpy.run_module("regard", run_name="__main__")
"""
"""A command that ends with whoever began it: then its standard input does."""


class Preparation:
    """A demo that runs, and how far it is. Of several studios that need one, the first alone trains it."""

    def __init__(self, folder: Path, command: Sequence[str] | None = None) -> None:
        self.folder = folder
        made = (sys.executable, "-c", TENDED, "demo", "--out", str(folder), "--overwrite")
        self.command = tuple(made if command is None else command)
        self.claim, self.log = folder.with_name("demo.training"), folder.with_name("demo.log")
        self.began = time.time()
        self._process: subprocess.Popen[bytes] | None = None
        self._held: IO[bytes] | None = None
        self._refused = ""

    def start(self) -> None:
        """Begin, unless another studio has begun, or nothing can be written there."""
        try:
            make_folder(self.folder.parent)
            if not self.take_claim():
                self.began = min(self.began, self.claim.stat().st_mtime)
                return
            with self.log.open("wb") as log:
                self._process = subprocess.Popen(
                    self.command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log
                )
        except (OSError, ValueError) as error:
            self._refused = f"no system can be trained in {self.folder}: {error}. Name a folder of checkpoints."

    def take_claim(self) -> bool:
        """Whether nobody else trains it; the claim ends with whoever holds it, however that happens."""
        held = self.claim.open("wb")
        if fcntl is not None:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                held.close()
                return False
        self._held = held
        return True

    @property
    def is_done(self) -> bool:
        """Whether every system is there."""
        return all(Checkpoint(self.folder / name).weights.is_file() for name in DEMO_SYSTEMS)

    def stop(self) -> None:
        """End it with the studio that began it; what is finished stays."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
        if self._held is not None:
            self._held.close()

    def report(self) -> Preparing | None:
        """How far it is; None when it is done."""
        if self._process is None and not self._refused and not self.is_done:
            # whoever trained may have gone
            self.start()
        running = self._process.poll() is None if self._process is not None else not self.is_done
        problem = self.problem()
        if not running and problem is None:
            return None
        shares = [self.share_of(name) for name in DEMO_SYSTEMS]
        number = next((place for place, share in enumerate(shares) if share < 1), len(shares) - 1)
        return Preparing(
            system=DEMO_SYSTEMS[number],
            title=MODELS[DEMO_SYSTEMS[number]].title,
            number=number + 1,
            count=len(shares),
            share=sum(shares) / len(shares),
            problem=problem,
        )

    def share_of(self, name: str) -> float:
        """How much of a system's training is done; what was there before it began does not count."""
        checkpoint = Checkpoint(self.folder / name)
        try:
            steps = read_run(checkpoint).training.steps
            fresh = checkpoint.metrics.stat().st_mtime >= self.began - 1
        except (ValueError, OSError):
            return 0.0
        return min(last_step(checkpoint.metrics) / steps, 1.0) if steps and fresh else 0.0

    def problem(self) -> str | None:
        """Why it did not begin, or what its process said last if it failed."""
        if self._refused:
            return self._refused
        if self._process is None or self._process.poll() in (None, 0):
            return None
        said = self.log.read_text(encoding="utf-8", errors="replace").strip() if self.log.is_file() else ""
        last = said.splitlines()[-1] if said else f"exit code {self._process.returncode}"
        return f"the training ended early: {last}. Run `regard demo` in a terminal to see more."
