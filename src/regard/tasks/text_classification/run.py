"""The run of a text classifier: its model, data, tokenizer, batches and training settings."""

from dataclasses import dataclass, field, replace
from typing import Any

from regard.contracts import Description, Title
from regard.data.corpora import SentenceCorpus, class_titles, description_of
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


NUM_NAMED = 10
"""Classes that a description names."""


def describe_classifier(run: TextClassificationRun) -> Description:
    """What the sentences of the corpus are, and the names of the classes."""
    titles = class_titles(run.data, run.classes)
    names = [titles.get(label, Title(en=label, zh=label)) for label in run.classes[:NUM_NAMED]]
    count, is_cut = len(run.classes), len(run.classes) > NUM_NAMED
    writes = Title(
        en=f"one of {count} classes: {', '.join(name.en for name in names)}" + ", .." * is_cut,
        zh=f"{count} 个类别之一：{'、'.join(name.zh for name in names)}" + "……" * is_cut,
    )
    return replace(description_of(run.data), writes=writes)
