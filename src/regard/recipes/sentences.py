"""Labelled sentences from the user's own files, such as question types (TREC) or sentiment (SST).

    regard train sentences --data TREC.train.all --model structured_self_attention --out runs/trec

Trained from scratch, without pretrained word vectors. Sizes are for a few thousand sentences, which are overfitted
within a few epochs, so dropout is high, on words and on the classifier's input.
"""

from pathlib import Path
from typing import Any

from regard.data.corpora import FileSentenceCorpus, find_file, published_set
from regard.data.text import TokenizerSettings
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.tasks import BatchSettings, configure
from regard.tasks.text_classification import TextClassificationRun
from regard.training import AdamSettings, EverySettings, ScheduleSettings, SelectionSettings, TrainingSettings

SIZES: dict[str, dict[str, Any]] = {
    "bilstm": {"word_dropout": 0.1},
    "lstmn_encoder": {"word_dropout": 0.1},
    "cnn": {"word_dropout": 0.1},
    "structured_self_attention": {
        "embedding_size": 300,
        "hidden_size": 150,
        "attention_size": 100,
        "num_rows": 6,
        "classifier_size": 256,
        "penalty": 0.03,
        "word_dropout": 0.1,
    },
    "transformer_encoder": {
        "hidden_size": 128,
        "num_layers": 2,
        "num_heads": 4,
        "feed_forward_size": 256,
        "dropout": 0.3,
        "word_dropout": 0.1,
    },
}


def sentences(
    model: str = "structured_self_attention",
    *,
    data: str | Path,
    valid: str | Path | None = None,
    test: str | Path | None = None,
) -> TextClassificationRun:
    """Your own files: `<label> <text>` lines, .tsv or .jsonl; absolute paths are recorded."""
    files = {"valid": valid, "test": test}
    published, file = published_set(str(data)), find_file(data)
    paths: dict[str, Any] = {name: None if path is None else find_file(path) for name, path in files.items()}
    return TextClassificationRun(
        recipe="sentences",
        model_name=model,
        model=configure(model, SIZES, TEXT_CLASSIFICATION_MODELS),
        # absolute paths, as for every file of the user
        data=FileSentenceCorpus(
            data=file,
            # published sets do not grow, and their figures were measured on this validation
            assignment="hash" if published is None else "rank",
            # recorded in config.json, so that a trained folder has the names of its classes
            class_names=() if published is None else published.classes,
            **paths,
        ),
        # fewer distinct words, because the data are small
        tokenizer=TokenizerSettings(kind="words", vocab_size=30_000, lowercase=True),
        # the label belongs to the sentence, so a batch is counted in sentences
        batch=BatchSettings(rows=32, max_length=256),
        training=TrainingSettings(
            epochs=8,
            label_smoothing=0.0,
            optimizer=AdamSettings(learning_rate=2e-3, beta2=0.999, eps=1e-8, clip_norm=1.0),
            schedule=ScheduleSettings(name="cosine", warmup_steps=50),
            every=EverySettings(log=50),
            # an average over about 100 steps, less than an epoch of a few thousand sentences
            selection=SelectionSettings(metric="accuracy", better="higher", ema=0.99),
        ),
    )
