"""The run of a language model: its model, text, segments, validation and training settings."""

from dataclasses import dataclass, field
from typing import Any

from regard.data.batching import SegmentSettings
from regard.data.corpora import TextCorpus
from regard.data.text import TokenizerSettings
from regard.training import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class LanguageValidationSettings:
    """Validation during training: the loss of the validation text.

    The text is split into `rows` streams that are evaluated in parallel. Each begins from the start state, which
    overestimates the loss slightly; 1 is exact and slow. A model trained on crops is evaluated on consecutive crops.
    """

    rows: int = 32

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError(f"validation.rows is {self.rows}, expected 1 or more.")


@dataclass(frozen=True, kw_only=True)
class LanguageModelingRun:
    """Complete settings of the training of a language model."""

    recipe: str
    model_name: str
    model: Any
    data: TextCorpus
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    batch: SegmentSettings = field(default_factory=SegmentSettings)
    validation: LanguageValidationSettings = field(default_factory=LanguageValidationSettings)
    training: TrainingSettings
