"""Synthetic sets: dates, an invented language, strings to reverse or copy. No files; one or two minutes on two cores.

    regard train dates --model bahdanau --out runs/dates
    regard train reverse --model transformer --set data.content.max_length=40 --out runs/reverse

Tokens are characters, those of the invented language words. All systems have about 300,000 parameters.
"""

from dataclasses import dataclass
from typing import Any

from regard.data.corpora import Copy, Dates, InventedLanguage, Reverse, SyntheticCorpus
from regard.models.translation import TRANSLATION_MODELS
from regard.tasks import BatchSettings, configure
from regard.tasks.translation import TranslationRun, ValidationSettings, VocabularySettings
from regard.training import AdamSettings, EverySettings, ScheduleSettings, SelectionSettings, TrainingSettings

SIZES: dict[str, dict[str, Any]] = {
    "rctm": {"embedding_size": 256, "hidden_size": 256},
    "rnn_encoder_decoder": {"embedding_size": 48, "hidden_size": 144, "maxout_size": 64},
    "seq2seq": {"embedding_size": 64, "hidden_size": 160, "num_layers": 1},
    "bahdanau": {"embedding_size": 48, "hidden_size": 112, "alignment_size": 112, "maxout_size": 64},
    # without dropout: synthetic data have no noise to overfit
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
class ToySchedule:
    """Number of steps, tokens per step, and learning rate."""

    steps: int
    tokens: int
    learning_rate: float


RECURRENT_ATTENTION = ToySchedule(steps=700, tokens=1024, learning_rate=4e-3)
FIXED_VECTOR = ToySchedule(steps=2500, tokens=512, learning_rate=4e-3)
"""Models that encode the source as one vector need more, smaller steps."""

PARALLEL = ToySchedule(steps=2600, tokens=1024, learning_rate=2e-3)
SCHEDULES = {
    "rctm": FIXED_VECTOR,
    "rnn_encoder_decoder": FIXED_VECTOR,
    "seq2seq": FIXED_VECTOR,
    "conv_seq2seq": PARALLEL,
    "transformer": PARALLEL,
}


def training_of(schedule: ToySchedule, steps: int | None) -> TrainingSettings:
    """A warm-up, then a cosine decay to 0 at the last step."""
    count = schedule.steps if steps is None else steps
    # four validations, however long the training is
    interval = max(count // 4, 1)
    return TrainingSettings(
        steps=count,
        # each source has one correct output, so the labels are not smoothed
        label_smoothing=0.0,
        optimizer=AdamSettings(learning_rate=schedule.learning_rate, beta2=0.98, eps=1e-9, clip_norm=1.0),
        # a twentieth of the training
        schedule=ScheduleSettings(name="cosine", warmup_steps=max(count // 20, 1)),
        every=EverySettings(log=min(50, interval), validate=interval, save=interval),
        selection=SelectionSettings(metric="loss", better="lower"),
    )


def toy(
    name: str, model: str, corpus: SyntheticCorpus, steps: int | None, *, tokens: str = "characters"
) -> TranslationRun:
    """A run on a synthetic set."""
    # the others are recurrent models with attention
    schedule = SCHEDULES.get(model, RECURRENT_ATTENTION)
    return TranslationRun(
        recipe=name,
        model_name=model,
        model=configure(model, SIZES),
        data=corpus,
        # an upper bound: there are far fewer
        tokenizer=VocabularySettings(kind=tokens, vocab_size=1000),
        batch=BatchSettings(tokens=schedule.tokens, packed=TRANSLATION_MODELS[model].packs),
        validation=ValidationSettings(sentences=200),
        training=training_of(schedule, steps),
    )


def dates(model: str = "bahdanau", *, pair: str = "en-zh", steps: int | None = None) -> TranslationRun:
    """One or two dates per text, in written formats; en-zh, all-iso, or between any of 22 languages."""
    source, _, target = pair.partition("-")
    content = Dates(source=source, target=target, max_dates=2)
    return toy("dates", model, SyntheticCorpus(content=content, count=20_000), steps)


def invented(model: str = "bahdanau", *, steps: int | None = None) -> TranslationRun:
    """An invented language into another, with reordering and fertility; the word alignment is known."""
    corpus = SyntheticCorpus(content=InventedLanguage(), count=20_000)
    return toy("invented", model, corpus, steps, tokens="words")


def reverse(model: str = "bahdanau", *, steps: int | None = None) -> TranslationRun:
    """Reverse a string of letters."""
    return toy("reverse", model, SyntheticCorpus(content=Reverse()), steps)


def copy(model: str = "bahdanau", *, steps: int | None = None) -> TranslationRun:
    """Copy a string of letters."""
    return toy("copy", model, SyntheticCorpus(content=Copy()), steps)
