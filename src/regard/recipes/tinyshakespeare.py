"""Tiny Shakespeare, as characters.

    regard train tinyshakespeare --model gpt --data <folder> --out runs/gpt           # minutes on a GPU
    regard train tinyshakespeare-small --model gpt --data <folder> --out runs/small   # minutes on two CPU cores

Both use the sizes and schedules of nanoGPT, https://github.com/karpathy/nanoGPT, the second with three times its
learning rate. nanoGPT reports a validation loss of 1.4697 nats per character for the first and 1.88 for the second, on
crops of the context's length.
"""

from typing import Any

from regard.data.batching import SegmentSettings
from regard.data.corpora import ShakespeareCorpus
from regard.data.text import TokenizerSettings
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.tasks import configure
from regard.tasks.language_modeling import LanguageModelingRun, LanguageValidationSettings
from regard.training import AdamSettings, EverySettings, ScheduleSettings, SelectionSettings, TrainingSettings

CHARACTERS = TokenizerSettings(kind="characters", vocab_size=1000, spaces="kept")

SIZES: dict[str, dict[str, Any]] = {
    "mlp": {"embedding_size": 32, "hidden_size": 256, "order": 12},
    "lstm": {"embedding_size": 128, "hidden_size": 512, "dropout": 0.3},
    "lstmn": {"embedding_size": 64, "hidden_size": 256, "dropout": 0.2},
    "attention": {"embedding_size": 64, "hidden_size": 384, "dropout": 0.2},
    "key_value": {"embedding_size": 64, "hidden_size": 256, "dropout": 0.2},
    "key_value_predict": {"embedding_size": 64, "hidden_size": 192, "dropout": 0.2},
    "ngram_rnn": {"embedding_size": 64, "hidden_size": 192, "dropout": 0.2},
    "gpt": {
        "hidden_size": 384,
        "num_layers": 6,
        "num_heads": 6,
        "feed_forward_size": 1536,
        "context": 256,
        "dropout": 0.2,
    },
    "ttt": {"hidden_size": 256, "num_layers": 4, "num_heads": 4, "feed_forward_size": 1024, "dropout": 0.2},
}
SMALL: dict[str, dict[str, Any]] = {
    **SIZES,
    "lstm": {"embedding_size": 64, "hidden_size": 256, "num_layers": 1, "dropout": 0.0},
    "gpt": {
        "hidden_size": 128,
        "num_layers": 4,
        "num_heads": 4,
        "feed_forward_size": 512,
        "context": 64,
        "dropout": 0.0,
    },
    "ttt": {"hidden_size": 96, "num_layers": 2, "num_heads": 4, "feed_forward_size": 384, "dropout": 0.0},
}
IN_PARALLEL = ("gpt", "ttt")
"""Models that are trained on crops; the others carry their state."""


def schedule(steps: int, *, ema: float | None, learning_rate: float = 1e-3) -> TrainingSettings:
    """A short warm-up, then a cosine decay to a tenth of the learning rate."""
    # 20 validations, at least 50 steps apart
    interval = max(steps // 20, min(steps, 50), 1)
    return TrainingSettings(
        steps=steps,
        label_smoothing=0.0,
        # beta2, weight decay and clipping are those of nanoGPT
        optimizer=AdamSettings(learning_rate=learning_rate, beta2=0.99, eps=1e-8, weight_decay=0.1, clip_norm=1.0),
        # 100 steps of warm-up and a floor of a tenth, as in nanoGPT; a shorter warm-up for short trainings
        schedule=ScheduleSettings(name="cosine", warmup_steps=min(100, max(steps // 10, 1)), floor=0.1),
        every=EverySettings(log=min(50, interval), validate=interval, save=interval),
        # the average of the weights is an addition to nanoGPT
        selection=SelectionSettings(metric="loss", better="lower", ema=ema),
    )


def tinyshakespeare(model: str = "gpt", *, folder: str | None = None, steps: int | None = None) -> LanguageModelingRun:
    """A million letters of Shakespeare, at a size for a GPU."""
    crops = model in IN_PARALLEL
    return LanguageModelingRun(
        recipe="tinyshakespeare",
        model_name=model,
        model=configure(model, SIZES, LANGUAGE_MODELS),
        data=ShakespeareCorpus(folder=folder),
        tokenizer=CHARACTERS,
        # 64 crops of 256 characters, as in nanoGPT on a GPU
        batch=SegmentSettings(rows=64, length=256 if crops else 64, cut="crops" if crops else "stream"),
        validation=LanguageValidationSettings(rows=64),
        training=schedule(steps or 5000, ema=0.995),
    )


def tinyshakespeare_small(
    model: str = "gpt", *, folder: str | None = None, steps: int | None = None
) -> LanguageModelingRun:
    """A million letters of Shakespeare, at a size for two CPU cores."""
    return LanguageModelingRun(
        recipe="tinyshakespeare_small",
        model_name=model,
        model=configure(model, SMALL, LANGUAGE_MODELS),
        data=ShakespeareCorpus(folder=folder),
        tokenizer=CHARACTERS,
        # 12 crops of 64 characters, as in nanoGPT on a CPU
        batch=SegmentSettings(rows=12, length=64, cut="crops" if model in IN_PARALLEL else "stream"),
        validation=LanguageValidationSettings(rows=64),
        training=schedule(steps or 2000, ema=0.99, learning_rate=3e-3),
    )
