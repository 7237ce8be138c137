"""The run of a text classifier: its model, data, tokenizer, batches and training settings."""

from dataclasses import dataclass, field
from typing import Any

from regard.data.corpora import SentenceCorpus
from regard.data.text import TokenizerSettings
from regard.tasks.base import BatchSettings
from regard.training import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class TextClassificationRun:
    """Complete settings of the training of a classifier; `classes` are the labels of the training sentences."""

    recipe: str
    model_name: str
    model: Any
    data: SentenceCorpus
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    training: TrainingSettings
    classes: tuple[str, ...] = ()
