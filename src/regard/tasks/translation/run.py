"""The run of a translation model: everything that decides what is trained, on what, and how. Frozen and complete."""

from dataclasses import dataclass, field, replace
from typing import Any

from regard.data.corpora import Corpus
from regard.data.text import Tokenizers, TokenizerSettings
from regard.tasks.base import BatchSettings
from regard.training import TrainingSettings

LONGEST_SOURCE = 1000
"""Source tokens that are read of a text, its end among them."""


@dataclass(frozen=True, kw_only=True)
class VocabularySettings(TokenizerSettings):
    """What to learn a vocabulary with; `joint` is one for both languages."""

    joint: bool = False


@dataclass(frozen=True, kw_only=True)
class ValidationSettings:
    """What is measured as training goes: the loss on all validation pairs, and quality on the first `sentences`.

    They are translated greedily; 0 leaves that out.
    """

    sentences: int = 200

    def __post_init__(self) -> None:
        if self.sentences < 0:
            raise ValueError(f"validation.sentences is {self.sentences}, expected 0 or more.")


@dataclass(frozen=True, kw_only=True)
class TranslationRun:
    """Everything that makes a trained model."""

    recipe: str
    model_name: str
    model: Any
    data: Corpus
    tokenizer: VocabularySettings = field(default_factory=VocabularySettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    training: TrainingSettings


def fit_to(run: TranslationRun, tokenizers: Tokenizers) -> TranslationRun:
    """The run with the vocabulary sizes that its tokenizers came to; embeddings are shared only if the text's are."""
    sizes: dict[str, Any] = {
        "source_vocab_size": tokenizers.source.vocab_size,
        "target_vocab_size": tokenizers.target.vocab_size,
    }
    if not tokenizers.joint and getattr(run.model, "shared_embeddings", False):
        sizes["shared_embeddings"] = False
    return replace(run, model=replace(run.model, **sizes))
