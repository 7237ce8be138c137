"""A run: everything that decides what is trained, on what, and how. Frozen and complete.

This is the run of a translation; other tasks have their own, with the same names for the same things.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from regard.data import Batching, Tokenizers, TokenizerSettings
from regard.recipes.corpora import Corpus
from regard.recipes.typed import to_plain
from regard.training import TrainingSettings

MAY_DIFFER = (
    "training.steps",
    "training.epochs",
    "training.every.",
    "training.compute.",
    "training.selection.patience",
    "training.selection.average_last",
    "validation.",
)
"""Settings that a resumed run may change: they say how long, where and what is shown, not what is learned."""


@dataclass(frozen=True, kw_only=True)
class VocabularySettings(TokenizerSettings):
    """What to learn a vocabulary with; `joint` is one for both languages."""

    joint: bool = False


@dataclass(frozen=True, kw_only=True)
class BatchSettings(Batching):
    """How much is learned from at once; pairs with more than `max_length` tokens on a side are left out of training."""

    max_length: int = 256

    def __post_init__(self) -> None:
        if self.max_length < 1:
            raise ValueError(f"batch.max_length is {self.max_length}, expected 1 token or more.")


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
class Run:
    """Everything that makes a trained model."""

    recipe: str
    model_name: str
    model: Any
    data: Corpus
    tokenizer: VocabularySettings = field(default_factory=VocabularySettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    training: TrainingSettings


def fit_to(run: Run, tokenizers: Tokenizers) -> Run:
    """The run with the vocabulary sizes that its tokenizers came to; embeddings are shared only if the text's are."""
    sizes: dict[str, Any] = {
        "source_vocab_size": tokenizers.source.vocab_size,
        "target_vocab_size": tokenizers.target.vocab_size,
    }
    if not tokenizers.joint and getattr(run.model, "shared_embeddings", False):
        sizes["shared_embeddings"] = False
    return replace(run, model=replace(run.model, **sizes))


def flat(plain: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting by its path."""
    for name, value in plain.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def differences(old: Any, new: Any) -> list[str]:
    """What differs between two runs, as `path: old -> new`; what a resumed run may change is left out."""
    before, after = dict(flat(to_plain(old))), dict(flat(to_plain(new)))
    paths = [path for path in {**before, **after} if not path.startswith(MAY_DIFFER)]
    missing = "nothing"
    return [
        f"{path}: {before.get(path, missing)} -> {after.get(path, missing)}"
        for path in paths
        if before.get(path, missing) != after.get(path, missing)
    ]
