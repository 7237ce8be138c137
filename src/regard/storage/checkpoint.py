"""A checkpoint folder: where everything lies, with errors that say what is missing.

    config.json  model.safetensors  tokenizer.json [tokenizer.target.json]  README.md  evaluation-<split>.json
    metrics.jsonl  training/ (what a resumed run needs)

It knows no model class: whoever knows one builds it from the config and asks for the weights.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.storage.documents import load_json, save_json
from regard.storage.files import tidy
from regard.storage.points import Points
from regard.storage.weights import load_weights


@dataclass(frozen=True)
class Checkpoint:
    """The files of one trained model."""

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> "Checkpoint":
        """A folder that holds a model with its config."""
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is not a folder. Name the folder that training wrote.")
        checkpoint = cls(folder)
        for path in (checkpoint.config, checkpoint.weights):
            if not path.is_file():
                raise FileNotFoundError(
                    f"{folder} has no {path.name}, so it is no finished checkpoint. Name the folder that training "
                    f"wrote, or let the training go on until its first save."
                )
        return checkpoint

    @property
    def config(self) -> Path:
        """What the model is, for whoever builds it."""
        return self.folder / "config.json"

    @property
    def weights(self) -> Path:
        """The best weights so far, or those that training chose at its end."""
        return self.folder / "model.safetensors"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer of the source, or of both sides."""
        return self.folder / "tokenizer.json"

    @property
    def target_tokenizer(self) -> Path:
        """The tokenizer of the target, where it has its own."""
        return self.folder / "tokenizer.target.json"

    @property
    def card(self) -> Path:
        """The model card."""
        return self.folder / "README.md"

    @property
    def metrics(self) -> Path:
        """One JSON object a line, as training went."""
        return self.folder / "metrics.jsonl"

    @property
    def points(self) -> Points:
        """What a training resumes from."""
        return Points(self.folder / "training")

    def evaluation(self, split: str) -> Path:
        """The evaluation of a split."""
        return self.folder / f"evaluation-{split}.json"

    def save_config(self, config: dict[str, Any]) -> None:
        """Write the config."""
        save_json(self.config, config)

    def load_config(self) -> dict[str, Any]:
        """Read the config."""
        config = load_json(self.config)
        if not isinstance(config, dict):
            raise ValueError(f"{self.config} holds a {type(config).__name__}, expected an object of settings.")
        return config

    def load_weights(self, model: nn.Module) -> None:
        """Read the weights into a model built from the config."""
        load_weights(self.weights, model)

    def tidy(self) -> None:
        """Remove what a killed training left half written; files of others stay."""
        tidy(self.folder, (path.name for path in (self.config, self.weights, self.card, self.metrics)))
        self.points.tidy()
