"""Tatoeba: short everyday sentences; the sizes and schedules also serve the user's own files (pairs.py).

    regard train tatoeba --model luong --data <folder> --out runs/luong
    regard train pairs --source train.en --target train.zh --model transformer --out runs/en-zh

Sizes are for 10,000 to 200,000 sentences; for millions, choose larger ones with --set.
"""

from dataclasses import replace
from typing import Any

from regard.data.corpora import TatoebaCorpus
from regard.models.translation import TRANSLATION_MODELS
from regard.tasks import BatchSettings, configure
from regard.tasks.translation import TranslationRun, ValidationSettings, VocabularySettings
from regard.training import AdamSettings, EverySettings, ScheduleSettings, SelectionSettings, TrainingSettings

SIZES: dict[str, dict[str, Any]] = {
    "rctm": {"embedding_size": 512, "hidden_size": 512, "dropout": 0.2},
    "rnn_encoder_decoder": {"embedding_size": 256, "hidden_size": 512, "maxout_size": 256, "dropout": 0.2},
    "seq2seq": {"embedding_size": 512, "hidden_size": 512, "num_layers": 2, "dropout": 0.2},
    "bahdanau": {
        "embedding_size": 256,
        "hidden_size": 512,
        "alignment_size": 512,
        "maxout_size": 512,
        "dropout": 0.3,
    },
    "luong": {"embedding_size": 256, "hidden_size": 512, "num_layers": 2, "dropout": 0.2},
    "lstmn": {"embedding_size": 256, "hidden_size": 384, "dropout": 0.2},
    "conv_seq2seq": {"embedding_size": 256, "hidden_size": 384, "num_layers": 8, "dropout": 0.2},
    "transformer": {
        "hidden_size": 256,
        "num_layers": 4,
        "num_heads": 4,
        "feed_forward_size": 1024,
        "dropout": 0.3,
        "norm": "pre",
    },
}

RECURRENT = TrainingSettings(
    epochs=20,
    label_smoothing=0.1,
    optimizer=AdamSettings(learning_rate=2e-3, beta2=0.999, eps=1e-8, clip_norm=1.0),
    schedule=ScheduleSettings(name="cosine", warmup_steps=500),
    # validated at the end of each epoch, because sizes of data sets vary
    every=EverySettings(log=50),
    # patience: the user's own files may overfit earlier
    selection=SelectionSettings(metric="loss", better="lower", patience=5),
)

PARALLEL = replace(
    RECURRENT,
    epochs=30,
    # the values of Vaswani et al. 2017, section 5.3
    optimizer=AdamSettings(learning_rate=2e-3, beta2=0.98, eps=1e-9),
    schedule=ScheduleSettings(name="inverse_sqrt", warmup_steps=2000),
    selection=SelectionSettings(metric="loss", better="lower", patience=5, average_last=5),
)

# convolutions train with the clipping of the recurrent models
TRAINING = {"transformer": PARALLEL, "conv_seq2seq": replace(PARALLEL, optimizer=RECURRENT.optimizer)}


def tatoeba(model: str = "transformer", *, pair: str = "en-zh", folder: str | None = None) -> TranslationRun:
    """Everyday sentences, between English and Chinese, French or German."""
    return TranslationRun(
        recipe="tatoeba",
        model_name=model,
        model=configure(model, SIZES),
        data=TatoebaCorpus(pair=pair, folder=folder),
        # separate vocabularies: English and Chinese, the default, have no words in common
        tokenizer=VocabularySettings(kind="bpe", vocab_size=8_000),
        batch=BatchSettings(tokens=4096, max_length=100, packed=TRANSLATION_MODELS[model].packs),
        validation=ValidationSettings(sentences=500),
        training=TRAINING.get(model, RECURRENT),
    )
