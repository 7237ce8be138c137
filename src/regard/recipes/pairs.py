"""Sentence pairs from a user's own files."""

from pathlib import Path
from typing import Any

from regard.data.corpora import FileCorpus
from regard.models.translation import TRANSLATION_MODELS
from regard.recipes.tatoeba import RECURRENT, SIZES, TRAINING
from regard.tasks import BatchSettings, configure
from regard.tasks.translation import TranslationRun, ValidationSettings, VocabularySettings


def pairs(
    model: str = "transformer",
    *,
    source: str | Path,
    target: str | Path | None = None,
    valid_source: str | Path | None = None,
    valid_target: str | Path | None = None,
    test_source: str | Path | None = None,
    test_target: str | Path | None = None,
    pair: str = "",
) -> TranslationRun:
    """Your own files: two text files, or one .tsv or .jsonl; absolute paths are recorded."""
    files = {
        "target": target,
        "valid_source": valid_source,
        "valid_target": valid_target,
        "test_source": test_source,
        "test_target": test_target,
    }
    # absolute paths, because config.json is read in other working directories
    paths: dict[str, Any] = {name: None if path is None else str(Path(path).resolve()) for name, path in files.items()}
    return TranslationRun(
        recipe="pairs",
        model_name=model,
        # the sizes and schedules of tatoeba.py
        model=configure(model, SIZES),
        data=FileCorpus(source=str(Path(source).resolve()), pair=pair, **paths),
        # separate vocabularies, since two languages may use different scripts
        tokenizer=VocabularySettings(kind="bpe", vocab_size=16_000),
        # longer than for Tatoeba, whose sentences are short
        batch=BatchSettings(tokens=4096, max_length=256, packed=TRANSLATION_MODELS[model].packs),
        validation=ValidationSettings(sentences=200),
        training=TRAINING.get(model, RECURRENT),
    )
