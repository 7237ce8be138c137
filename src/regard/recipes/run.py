"""A run: everything that decides what is trained, on what, and how. Frozen, complete, JSON and back.

config.json = {"regard": version, "recipe": .., "model_name": .., "model": {..}, "data": {..}, ..}
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from regard.contracts import nearest
from regard.data import Batching, Tokenizers, TokenizerSettings
from regard.models import MODELS
from regard.recipes.corpora import Corpus
from regard.recipes.typed import from_plain, to_plain
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


def to_config(run: Run, version: str) -> dict[str, Any]:
    """What config.json holds."""
    return {"regard": version, **to_plain(run)}


def from_config(config: Mapping[str, Any], corpora: Mapping[str, type], where: str) -> Run:
    """The run that a config.json tells of; `corpora` has the data settings of each recipe."""
    if "regard" not in config or "model_name" not in config:
        raise ValueError(f"{where} was not written by regard. Name a folder that `regard train` wrote.")
    given = {name: value for name, value in config.items() if name != "regard"}
    hints = {one.name: one.type for one in fields(Run)}
    hints["data"] = find(corpora, given.get("recipe"), f"{where}: recipe")
    hints["model"] = find(MODELS, given.get("model_name"), f"{where}: model_name").config
    for name in given:
        if name not in hints:
            raise ValueError(f"{where} has no setting {name!r}; the nearest is {nearest(name, hints)!r}.")
    for name in hints:
        if name not in given:
            raise ValueError(f"{where} has no {name}, and needs one.")
    return Run(**{name: from_plain(hint, given[name], f"{where}: {name}") for name, hint in hints.items()})


def find(table: Mapping[str, Any], name: Any, what: str) -> Any:
    """The entry of a table, or the nearest one named."""
    if name not in table:
        raise ValueError(
            f"{what} is {name!r}; the nearest is {nearest(str(name), table)!r}. Known: {', '.join(table)}."
        )
    return table[name]


def flat(plain: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting by its path."""
    for name, value in plain.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def differences(old: Run, new: Run) -> list[str]:
    """What differs between two runs, as `path: old -> new`; what a resumed run may change is left out."""
    before, after = dict(flat(to_plain(old))), dict(flat(to_plain(new)))
    paths = [path for path in {**before, **after} if not path.startswith(MAY_DIFFER)]
    missing = "nothing"
    return [
        f"{path}: {before.get(path, missing)} -> {after.get(path, missing)}"
        for path in paths
        if before.get(path, missing) != after.get(path, missing)
    ]
