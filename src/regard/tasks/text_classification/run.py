"""A run of a classifier: which sentences, which words, and how it is learned."""

from dataclasses import dataclass, field
from typing import Any

from regard.data.corpora import SentenceCorpus
from regard.data.text import TokenizerSettings
from regard.tasks.base import BatchSettings
from regard.training import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class TextClassificationRun:
    """Everything that makes a trained classifier; `classes` are the labels of its training sentences."""

    recipe: str
    model_name: str
    model: Any
    data: SentenceCorpus
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    training: TrainingSettings
    classes: tuple[str, ...] = ()
