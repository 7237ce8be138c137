"""Language modeling on Python's own documentation, which needs no download, and on the user's text files.

    regard train topics --model gpt --out runs/topics
    regard train text --data book.txt --model lstm --out runs/book

Sizes are for texts of 100,000 to a few million words, and for two CPU cores.
"""

from pathlib import Path
from typing import Any

from regard.data.batching import SegmentSettings
from regard.data.corpora import FileTextCorpus, TopicsCorpus
from regard.data.text import TokenizerSettings
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.recipes.tinyshakespeare import CHARACTERS, IN_PARALLEL, SMALL, schedule
from regard.tasks import configure
from regard.tasks.language_modeling import LanguageModelingRun, LanguageValidationSettings

RECURRENT_SIZES: dict[str, Any] = {"embedding_size": 128, "hidden_size": 128, "dropout": 0.3}
SIZES: dict[str, dict[str, Any]] = {
    "mlp": {"embedding_size": 64, "hidden_size": 128, "dropout": 0.3},
    "lstm": {"embedding_size": 128, "hidden_size": 256, "num_layers": 1, "dropout": 0.3},
    **dict.fromkeys(("lstmn", "attention", "key_value", "key_value_predict", "ngram_rnn"), RECURRENT_SIZES),
    "gpt": {
        "hidden_size": 192,
        "num_layers": 4,
        "num_heads": 4,
        "feed_forward_size": 768,
        "context": 128,
        "dropout": 0.1,
    },
    "ttt": {"hidden_size": 128, "num_layers": 2, "num_heads": 4, "feed_forward_size": 512, "dropout": 0.1},
}


def batch_of(model: str, length: int) -> SegmentSettings:
    """Crops for models that process tokens in parallel, a stream for recurrent models."""
    return SegmentSettings(rows=16, length=length, cut="crops" if model in IN_PARALLEL else "stream")


def topics(model: str = "gpt", *, steps: int | None = None) -> LanguageModelingRun:
    """Python's documentation: as characters for models with a long context, as words for recurrent models."""
    by_character = model in IN_PARALLEL
    return LanguageModelingRun(
        recipe="topics",
        model_name=model,
        # SMALL is for characters, SIZES for words and subwords
        model=configure(model, SMALL if by_character else SIZES, LANGUAGE_MODELS),
        data=TopicsCorpus(),
        # words that occur once become <unk>
        tokenizer=CHARACTERS if by_character else TokenizerSettings(kind="words", vocab_size=5000, min_count=2),
        batch=batch_of(model, 64 if by_character else 32),
        validation=LanguageValidationSettings(rows=16),
        training=schedule(steps or (2000 if by_character else 1000), ema=0.99),
    )


def text(
    model: str = "gpt",
    *,
    data: str | Path,
    valid: str | Path | None = None,
    test: str | Path | None = None,
    steps: int | None = None,
) -> LanguageModelingRun:
    """Your own text files; absolute paths are recorded."""
    files = {"valid": valid, "test": test}
    # absolute paths, because config.json is read in other working directories
    paths: dict[str, Any] = {name: None if path is None else str(Path(path).resolve()) for name, path in files.items()}
    return LanguageModelingRun(
        recipe="text",
        model_name=model,
        model=configure(model, SIZES, LANGUAGE_MODELS),
        data=FileTextCorpus(data=str(Path(data).resolve()), **paths),
        # spaces are kept, so that generated text has the layout of the file
        tokenizer=TokenizerSettings(kind="bpe", vocab_size=8000, spaces="kept"),
        batch=batch_of(model, 128 if model in IN_PARALLEL else 32),
        validation=LanguageValidationSettings(rows=16),
        training=schedule(steps or 3000, ema=0.99),
    )
