"""A run of a language model: what is read, in which pieces, and how it is learned."""

from dataclasses import dataclass, field
from typing import Any

from regard.data.batching import SegmentSettings
from regard.data.corpora import TextCorpus
from regard.data.text import TokenizerSettings
from regard.training import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class LanguageValidationSettings:
    """What is measured as training goes: the loss of the validation text.

    It is read in `rows` pieces side by side, each from the start, which says a little more than the truth; 1 is exact
    and slow. A model that learns from crops is measured on crops, laid end to end.
    """

    rows: int = 32

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError(f"validation.rows is {self.rows}, expected 1 or more.")


@dataclass(frozen=True, kw_only=True)
class LanguageModelingRun:
    """Everything that makes a trained language model."""

    recipe: str
    model_name: str
    model: Any
    data: TextCorpus
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    batch: SegmentSettings = field(default_factory=SegmentSettings)
    validation: LanguageValidationSettings = field(default_factory=LanguageValidationSettings)
    training: TrainingSettings
