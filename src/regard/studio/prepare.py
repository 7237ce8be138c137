"""With nothing to look at, the systems of `regard demo` train in the background, in a process of their own."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.models import MODELS
from regard.recipes.folder import read_run
from regard.storage import Checkpoint
from regard.studio.runs import last_step
from regard.studio.schema import Preparing

SYSTEMS = ("seq2seq", "bahdanau", "transformer")


class Preparation:
    """A demo that runs, and how far it is."""

    def __init__(self, folder: Path, command: Sequence[str] | None = None) -> None:
        self.folder = folder
        made = (sys.executable, "-m", "regard", "demo", "--out", str(folder), "--overwrite")
        self.command = tuple(made if command is None else command)
        self._process: subprocess.Popen[bytes] | None = None
        self._said = ""

    def start(self) -> None:
        """Begin, once."""
        if self._process is None:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )

    def stop(self) -> None:
        """End it with the studio; what is finished stays."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def report(self) -> Preparing | None:
        """How far it is; None before the start and after a good end."""
        if self._process is None or self._process.poll() == 0:
            return None
        shares = [self.share_of(name) for name in SYSTEMS]
        number = next((place for place, share in enumerate(shares) if share < 1), len(SYSTEMS) - 1)
        return Preparing(
            system=SYSTEMS[number],
            title=MODELS[SYSTEMS[number]].title,
            number=number + 1,
            count=len(SYSTEMS),
            share=sum(shares) / len(shares),
            problem=self.problem(),
        )

    def share_of(self, name: str) -> float:
        """How much of a system's training is done."""
        checkpoint = Checkpoint(self.folder / name)
        try:
            steps = read_run(checkpoint).training.steps
        except (ValueError, OSError):
            return 0.0
        return min(last_step(checkpoint.metrics) / steps, 1.0) if steps else 0.0

    def problem(self) -> str | None:
        """What its process said last, if it failed."""
        if self._process is None or self._process.poll() in (None, 0):
            return None
        stream = self._process.stderr
        said = "" if stream is None or stream.closed else stream.read().decode("utf-8", "replace").strip()
        self._said = said or self._said
        last = self._said.splitlines()[-1] if self._said else f"exit code {self._process.returncode}"
        return f"the training ended early: {last}. Run `regard demo` in a terminal to see more."
