"""Made sets: dates from one language to another, strings to reverse or copy. No files, a minute or two on two cores.

    regard train dates --model bahdanau --out runs/dates
    regard train reverse --model transformer --set data.content.max_length=40 --out runs/reverse

Tokens are characters. All systems have some 300,000 parameters.
"""

from dataclasses import dataclass
from typing import Any

from regard.data.corpora import Copy, Dates, MadeCorpus, Reverse
from regard.models.translation import TRANSLATION_MODELS
from regard.tasks import BatchSettings, configure
from regard.tasks.translation import TranslationRun, ValidationSettings, VocabularySettings
from regard.training import AdamSettings, EverySettings, ScheduleSettings, SelectionSettings, TrainingSettings

SIZES: dict[str, dict[str, Any]] = {
    "rctm": {"embedding_size": 256, "hidden_size": 256},
    "rnn_encoder_decoder": {"embedding_size": 48, "hidden_size": 144, "maxout_size": 64},
    "seq2seq": {"embedding_size": 64, "hidden_size": 160, "num_layers": 1},
    "bahdanau": {"embedding_size": 48, "hidden_size": 112, "alignment_size": 112, "maxout_size": 64},
    "luong": {"embedding_size": 64, "hidden_size": 128, "num_layers": 1, "dropout": 0.0},
    "lstmn": {"embedding_size": 64, "hidden_size": 112},
    "conv_seq2seq": {"embedding_size": 64, "hidden_size": 72, "num_layers": 3, "dropout": 0.0},
    "transformer": {
        "hidden_size": 96,
        "num_layers": 2,
        "num_heads": 4,
        "feed_forward_size": 192,
        "dropout": 0.0,
    },
}


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How many steps of how many tokens, and how large they are."""

    steps: int
    tokens: int
    learning_rate: float


LOOKING_BACK = Pace(steps=700, tokens=1024, learning_rate=4e-3)
ONE_VECTOR = Pace(steps=2500, tokens=512, learning_rate=4e-3)
"""To keep the whole source in one place is learned by many small steps."""

PARALLEL = Pace(steps=2600, tokens=1024, learning_rate=2e-3)
PACES = {
    "rctm": ONE_VECTOR,
    "rnn_encoder_decoder": ONE_VECTOR,
    "seq2seq": ONE_VECTOR,
    "conv_seq2seq": PARALLEL,
    "transformer": PARALLEL,
}


def training_of(pace: Pace, steps: int | None) -> TrainingSettings:
    """A warm-up, then half a cosine down to nothing at the last step."""
    count = pace.steps if steps is None else steps
    often = max(count // 4, 1)
    return TrainingSettings(
        steps=count,
        label_smoothing=0.0,
        optimizer=AdamSettings(learning_rate=pace.learning_rate, beta2=0.98, eps=1e-9, clip_norm=1.0),
        schedule=ScheduleSettings(name="cosine", warmup_steps=max(count // 20, 1)),
        every=EverySettings(log=min(50, often), validate=often, save=often),
        selection=SelectionSettings(metric="loss", better="lower"),
    )


def toy(name: str, model: str, corpus: MadeCorpus, steps: int | None) -> TranslationRun:
    """A run over a made set, character by character."""
    pace = PACES.get(model, LOOKING_BACK)
    return TranslationRun(
        recipe=name,
        model_name=model,
        model=configure(model, SIZES),
        data=corpus,
        tokenizer=VocabularySettings(kind="characters", vocab_size=1000),
        batch=BatchSettings(tokens=pace.tokens, packed=TRANSLATION_MODELS[model].packs),
        validation=ValidationSettings(sentences=200),
        training=training_of(pace, steps),
    )


def dates(model: str = "bahdanau", *, pair: str = "en-zh", steps: int | None = None) -> TranslationRun:
    """Dates as people write them, one or two in a text; en-zh, all-iso, or between any of 22 languages."""
    source, _, target = pair.partition("-")
    content = Dates(source=source, target=target, max_dates=2)
    return toy("dates", model, MadeCorpus(content=content, count=20_000), steps)


def reverse(model: str = "bahdanau", *, steps: int | None = None) -> TranslationRun:
    """Letters, the last one first."""
    return toy("reverse", model, MadeCorpus(content=Reverse()), steps)


def copy(model: str = "bahdanau", *, steps: int | None = None) -> TranslationRun:
    """Letters as they are."""
    return toy("copy", model, MadeCorpus(content=Copy()), steps)
