"""Without a model, the studio trains those of `regard demo` in a background process."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from regard._utils import DEMO_SYSTEMS, make_folder
from regard.checkpoint import RunFolder
from regard.models.translation import TRANSLATION_MODELS
from regard.studio.runs import last_step
from regard.studio.schema.models import DemoProgress
from regard.tasks import read_run

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

ENDS_WITH_PARENT = """
import os, runpy, sys, threading

def watch():
    sys.stdin.buffer.read()
    os._exit(1)

threading.Thread(target=watch, daemon=True).start()
sys.argv[0] = "regard"
runpy.run_module("regard", run_name="__main__")
"""
"""A program that exits with its parent: the end of the parent closes its standard input."""


class DemoTraining:
    """A demo in training, and its progress. If several studios need it, only the first trains it."""

    def __init__(self, folder: Path, command: Sequence[str] | None = None) -> None:
        self.folder = folder
        # --overwrite: what an earlier version began may have other settings, and could not be continued
        default = (sys.executable, "-c", ENDS_WITH_PARENT, "demo", "--out", str(folder), "--overwrite")
        self.command = tuple(default if command is None else command)
        # beside the folder, whose content the training replaces
        self.lock, self.log = folder.with_name("demo.training"), folder.with_name("demo.log")
        self.started_at = time.time()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock_file: IO[bytes] | None = None
        self._start_error = ""

    def start(self) -> None:
        """Start the training, unless another studio trains the demo or the folder is not writable."""
        try:
            make_folder(self.folder.parent)
            if not self.take_lock():
                self.started_at = min(self.started_at, self.lock.stat().st_mtime)
                return
            # the log of an earlier training is of no use
            with self.log.open("wb") as log:
                # stdin is a pipe that stays open until this process ends, see ENDS_WITH_PARENT
                # the last line of stderr is the reason of a failure
                self._process = subprocess.Popen(
                    self.command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log
                )
        except (OSError, ValueError) as error:
            self._start_error = f"no model can be trained in {self.folder}: {error}. Name a folder of checkpoints."

    def take_lock(self) -> bool:
        """True if no other process trains the demo; the lock is released when its process ends."""
        # appending leaves the time of the file alone, from which another studio reads when the training began
        file = self.lock.open("ab")
        # without fcntl two studios may train the demo at the same time
        if fcntl is not None:
            try:
                # LOCK_NB: an error at once instead of waiting until the lock is free
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                return False
        # the lock is held as long as the file is open
        self._lock_file = file
        return True

    @property
    def is_done(self) -> bool:
        """True if every model is trained."""
        return all(RunFolder(self.folder / name).weights.is_file() for name in DEMO_SYSTEMS)

    def stop(self) -> None:
        """End the training; finished models stay."""
        if self._process is None:
            return
        if self._process.poll() is None:
            # SIGTERM: the training ends after its step
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            # a process that ignores the signal
            except subprocess.TimeoutExpired:
                self._process.kill()
        if self._lock_file is not None:
            # after the process has ended, so that no second one writes into the same folder
            self._lock_file.close()

    def report(self) -> DemoProgress | None:
        """The progress; None when all models are trained."""
        if self._process is None and not self._start_error and not self.is_done:
            # another studio may have trained the demo and ended
            self.start()
        # without a process of its own, another studio trains the demo
        running = self._process.poll() is None if self._process is not None else not self.is_done
        problem = self.problem()
        if not running and problem is None:
            return None
        shares = [self.share_of(name) for name in DEMO_SYSTEMS]
        # the last one if all are trained
        current = next((index for index, share in enumerate(shares) if share < 1), len(shares) - 1)
        return DemoProgress(
            system=DEMO_SYSTEMS[current],
            title=TRANSLATION_MODELS[DEMO_SYSTEMS[current]].title,
            number=current + 1,
            count=len(shares),
            share=sum(shares) / len(shares),
            problem=problem,
        )

    def share_of(self, name: str) -> float:
        """The share of a model's training steps; metrics from before the start do not count."""
        checkpoint = RunFolder(self.folder / name)
        try:
            steps = read_run(checkpoint).training.steps
            # file systems may store times in seconds
            is_new = checkpoint.metrics.stat().st_mtime >= self.started_at - 1
        # before its training, a model has no config or no metrics
        except (ValueError, OSError):
            return 0.0
        return min(last_step(checkpoint.metrics) / steps, 1.0) if steps and is_new else 0.0

    def problem(self) -> str | None:
        """Why the training did not start, or the last line of its log if it failed."""
        if self._start_error:
            return self._start_error
        if self._process is None or self._process.poll() in (None, 0):
            # it runs, or has ended without an error
            return None
        text = self.log.read_text(encoding="utf-8", errors="replace").strip() if self.log.is_file() else ""
        last = text.splitlines()[-1] if text else f"exit code {self._process.returncode}"
        return f"the training ended early: {last}. Run `regard demo` in a terminal to see more."
