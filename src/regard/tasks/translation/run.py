"""The run of a translation model: its model, data, tokenizer, batches, validation and training settings."""

from dataclasses import dataclass, field, replace
from typing import Any

from regard.contracts import LengthLimit
from regard.data.corpora import Corpus
from regard.data.text import Tokenizers, TokenizerSettings
from regard.tasks.base import BatchSettings
from regard.training import TrainingSettings

LONGEST_SOURCE = 1000
"""Maximum number of source tokens, <eos> included; longer texts are truncated."""
LIMIT = LengthLimit()
"""A translation has at most twice the tokens of its source, and 20 more."""


@dataclass(frozen=True, kw_only=True)
class VocabularySettings(TokenizerSettings):
    """Settings of the vocabulary; `joint` trains one for both languages."""

    joint: bool = False


@dataclass(frozen=True, kw_only=True)
class ValidationSettings:
    """Validation during training: the loss of all validation pairs, and the quality of the first `sentences`.

    Quality is measured on greedy translations; 0 sentences disables it.
    """

    sentences: int = 200

    def __post_init__(self) -> None:
        if self.sentences < 0:
            raise ValueError(f"validation.sentences is {self.sentences}, expected 0 or more.")


@dataclass(frozen=True, kw_only=True)
class TranslationRun:
    """Complete settings of the training of a translation model."""

    recipe: str
    model_name: str
    model: Any
    data: Corpus
    tokenizer: VocabularySettings = field(default_factory=VocabularySettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    training: TrainingSettings


def fit_to(run: TranslationRun, tokenizers: Tokenizers) -> TranslationRun:
    """The run with the vocabulary sizes of its tokenizers; without a joint vocabulary, embeddings are not shared."""
    sizes: dict[str, Any] = {
        "source_vocab_size": tokenizers.source.vocab_size,
        "target_vocab_size": tokenizers.target.vocab_size,
    }
    # one embedding for two vocabularies would mix up their ids
    if not tokenizers.joint and getattr(run.model, "shared_embeddings", False):
        sizes["shared_embeddings"] = False
    return replace(run, model=replace(run.model, **sizes))
