"""The folder of a run: the path of every file, and the checkpoints from which training resumes.

    config.json  model.safetensors  tokenizer.json [tokenizer.target.json]  README.md  evaluation-<split>.json
    metrics.jsonl
    training/step-00000200/     a checkpoint, renamed into place when it is complete
    training/weights/step-...   validated weights, averaged at the end

Checkpoints are consistent after kill -9 at any instant: an older one is removed only after a newer one is on the disk.
The package does not depend on any model class; the caller builds the model from the config and loads the weights.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard._utils import atomic_folder, find_scratch, load_json, remove_folder, remove_scratch
from regard.checkpoint.checksums import digest_file, is_enabled, save_signed_json, verify_files, verify_json
from regard.checkpoint.tensors import load_weights


@dataclass(frozen=True)
class Checkpoint:
    """A complete state on the disk from which training resumes."""

    step: int
    folder: Path


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints in one `training` folder. Only one process may write."""

    folder: Path

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint."""
        checkpoints = self._all()
        return checkpoints[-1] if checkpoints else None

    @contextmanager
    def writing(self, step: int) -> Iterator[Path]:
        """Yield a folder to fill; after the block it is the latest checkpoint, and older ones are removed."""
        with atomic_folder(self.folder / _name(step)) as folder:
            yield folder
        # after the new checkpoint has its name: at every instant at least one complete checkpoint exists
        self._remove_older()

    def weights(self, step: int) -> Path:
        """The file of the validated weights of a step."""
        return self.folder / "weights" / f"{_name(step)}.safetensors"

    def keep_weights(self, steps: list[int]) -> None:
        """Remove the validated weights of all other steps."""
        paths = {self.weights(step) for step in steps}
        for path in (self.folder / "weights").glob("step-*.safetensors"):
            if path not in paths:
                path.unlink()

    def tidy(self) -> None:
        """Remove what a killed process left behind."""
        remove_scratch(self.folder)
        remove_scratch(self.folder / "weights")
        self._remove_older()

    def _remove_older(self) -> None:
        # a process killed between writing and removal leaves several: all but the newest are superseded
        for checkpoint in self._all()[:-1]:
            remove_folder(checkpoint.folder)

    def _all(self) -> list[Checkpoint]:
        # fullmatch excludes names that only begin like a checkpoint's, and is_dir excludes files
        names = ((re.fullmatch(r"step-(\d+)", path.name), path) for path in self.folder.glob("step-*"))
        checkpoints = [Checkpoint(int(match[1]), path) for match, path in names if match and path.is_dir()]
        # by number: names of more than eight digits do not sort as text
        return sorted(checkpoints, key=lambda checkpoint: checkpoint.step)


def _name(step: int) -> str:
    return f"step-{step:08d}"


OWN_FILES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer.target.json",
    "README.md",
    "metrics.jsonl",
    "evaluation-*.json",
)
"""The files that a run writes into its folder."""

OLD = ".old-run"
"""The folder that holds the old run until the new one has saved."""


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> "RunFolder":
        """The folder of a run that has a config and weights; otherwise FileNotFoundError."""
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is not a folder. Name the folder that training wrote.")
        run_folder = cls(folder)
        # both are required: the model is built from the config and filled with the weights
        for path in (run_folder.config, run_folder.weights):
            if not path.is_file():
                raise FileNotFoundError(
                    f"{folder} has no {path.name}, so it is no finished run. Name the folder that training wrote, or "
                    f"continue the training until its first save."
                )
        return run_folder

    @property
    def config(self) -> Path:
        """The settings of the run, from which the model is built."""
        return self.folder / "config.json"

    @property
    def weights(self) -> Path:
        """The best weights so far; after training, the selected weights."""
        return self.folder / "model.safetensors"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer of the source, or of both sides if they share one."""
        return self.folder / "tokenizer.json"

    @property
    def target_tokenizer(self) -> Path:
        """The tokenizer of the target if it has its own."""
        return self.folder / "tokenizer.target.json"

    @property
    def card(self) -> Path:
        """The model card."""
        return self.folder / "README.md"

    @property
    def metrics(self) -> Path:
        """Metrics of the training as JSON lines."""
        return self.folder / "metrics.jsonl"

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints from which training resumes."""
        return Checkpoints(self.folder / "training")

    def evaluation(self, split: str) -> Path:
        """The report of an evaluation on a split."""
        return self.folder / f"evaluation-{split}.json"

    def save_config(self, config: dict[str, Any], files: Iterable[str] = ()) -> None:
        """Write the config with its SHA-256, and the SHA-256 of these files in the folder."""
        digests = {name: digest_file(self.folder / name) for name in files}
        save_signed_json(self.config, {**config, "files": digests})

    def load_config(self) -> dict[str, Any]:
        """Read the config."""
        config = load_json(self.config)
        if not isinstance(config, dict):
            raise ValueError(f"{self.config} holds a {type(config).__name__}, expected an object of settings.")
        return config

    def verify(self) -> None:
        """Raise ValueError if the config, or a file that it names, differs from its SHA-256."""
        if is_enabled():
            config = self.load_config()
            verify_json(self.config, config)
            verify_files(self.folder, config.get("files", {}))

    def load_weights(self, model: nn.Module, *, verify: bool = True) -> None:
        """Load the weights into a model built from the config."""
        load_weights(self.weights, model, verify=verify)

    def scratch(self) -> list[Path]:
        """What killed writers of the run's files left behind; the folder may hold files of the user too."""
        return find_scratch(self.folder, (*OWN_FILES, OLD))

    def tidy(self) -> None:
        """Remove what a killed training left behind; other files are not touched."""
        remove_scratch(self.folder, (*OWN_FILES, OLD))
        self.checkpoints.tidy()
