"""Penn Treebank: a standard benchmark of language models.

    regard train ptb --model key_value_predict --data <folder> --out runs/kvp

929,589 training words, 10,000 distinct words, line ends included in both. The state is carried over the whole text.
`lstm` is Zaremba's medium model, trained as published: SGD, with the learning rate divided by 1.2 per epoch from the
sixth epoch on. Two things differ: an exponential moving average of the weights, and 26 epochs instead of the published
39, because later epochs do not improve it. The other recurrent systems are smaller and use Adam. The memory of `lstmn`
is short: with 5, 15 and 50 cells, validation perplexity was 109, 124 and 139 (14 epochs, one H200, seed 0).
"""

from dataclasses import replace
from typing import Any

from regard.data.batching import SegmentSettings
from regard.data.corpora import PTBCorpus
from regard.data.text import TokenizerSettings
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.tasks import configure
from regard.tasks.language_modeling import LanguageModelingRun, LanguageValidationSettings
from regard.training import (
    AdamSettings,
    EverySettings,
    ScheduleSettings,
    SelectionSettings,
    SGDSettings,
    TrainingSettings,
)

SIZES: dict[str, dict[str, Any]] = {
    "mlp": {"embedding_size": 200, "hidden_size": 400, "dropout": 0.4},
    "lstmn": {"embedding_size": 300, "span": 5, "dropout": 0.4},
    "attention": {"dropout": 0.5},
    "key_value": {"dropout": 0.5},
    "key_value_predict": {"dropout": 0.5},
    "ngram_rnn": {"dropout": 0.5},
    "gpt": {
        "hidden_size": 384,
        "num_layers": 8,
        "num_heads": 6,
        "feed_forward_size": 1536,
        "context": 128,
        "dropout": 0.45,
    },
    "ttt": {"hidden_size": 256, "num_layers": 4, "num_heads": 4, "feed_forward_size": 1024, "dropout": 0.3},
}

# Zaremba et al. 2014, section 4.1: 20 rows, unrolled for 35 steps
LENGTH, ROWS = 35, 20
STEPS = 929_589 // ROWS // LENGTH
"""Steps per epoch with Zaremba's segments."""

ZAREMBA = TrainingSettings(
    epochs=26,
    # perplexity is measured without label smoothing
    label_smoothing=0.0,
    # the paper's 1 and 5, rescaled because its gradient is summed over a segment and ours is averaged
    optimizer=SGDSettings(learning_rate=float(LENGTH), clip_norm=5.0 / LENGTH),
    # a factor of 1.2 per epoch halves the rate every 3.8 epochs
    schedule=ScheduleSettings(name="exponential", warmup_steps=6 * STEPS, decay_steps=round(3.8 * STEPS)),
    every=EverySettings(log=200),
    # an average over about 2,000 steps, one and a half epochs
    selection=SelectionSettings(metric="loss", better="lower", ema=0.9995),
)

RECURRENT = TrainingSettings(
    epochs=10,
    label_smoothing=0.0,
    optimizer=AdamSettings(learning_rate=2e-3, beta2=0.999, eps=1e-8, clip_norm=0.5),
    schedule=ScheduleSettings(name="cosine", warmup_steps=200),
    every=EverySettings(log=200),
    # an average over about 1,000 steps, a little more than an epoch
    selection=SelectionSettings(metric="loss", better="lower", ema=0.999),
)

PARALLEL = replace(
    RECURRENT,
    epochs=20,
    optimizer=AdamSettings(learning_rate=1e-3, beta2=0.99, eps=1e-8, weight_decay=0.1, clip_norm=1.0),
    schedule=ScheduleSettings(name="cosine", warmup_steps=400),
)

TRAINING = {"lstm": ZAREMBA, "gpt": PARALLEL, "ttt": PARALLEL}
# crops as long as the context of gpt, which cannot carry its state
CROPS = SegmentSettings(rows=32, length=128, cut="crops")
BATCH = {"lstm": SegmentSettings(rows=ROWS, length=LENGTH), "gpt": CROPS, "ttt": CROPS}


def ptb(model: str = "lstm", *, folder: str | None = None) -> LanguageModelingRun:
    """Words of the Wall Street Journal; rare words are <unk>, numbers are N."""
    return LanguageModelingRun(
        recipe="ptb",
        model_name=model,
        model=configure(model, SIZES, LANGUAGE_MODELS),
        data=PTBCorpus(folder=folder),
        tokenizer=TokenizerSettings(kind="words", vocab_size=10_002),
        batch=BATCH.get(model, SegmentSettings(rows=32, length=LENGTH)),
        # 32 streams are an approximation; `regard evaluate` uses one
        validation=LanguageValidationSettings(rows=32),
        training=TRAINING.get(model, RECURRENT),
    )
