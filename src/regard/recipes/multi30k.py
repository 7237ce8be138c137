"""Multi30k: image captions from English to German, or between any two of English, German and French.

    regard train multi30k --model transformer --data <folder> --out runs/transformer

29,000 pairs, 10,000 joint BPE tokens. Most papers report scores on `form="tok"` (lower-cased, normalised, tokenised);
`form="raw"` is the original text. Models are small because the data set is small. Settings were chosen by BLEU on the
validation set; benchmarks/results/trials.json has every setting that was tried.
"""

from dataclasses import replace
from typing import Any, Literal

from regard.data.corpora import Multi30kCorpus
from regard.models.translation import TRANSLATION_MODELS
from regard.tasks import BatchSettings, configure
from regard.tasks.translation import TranslationRun, ValidationSettings, VocabularySettings
from regard.training import AdamSettings, EverySettings, ScheduleSettings, SelectionSettings, TrainingSettings

SIZES: dict[str, dict[str, Any]] = {
    # with the published sigmoids its source has little effect
    "rctm": {"embedding_size": 512, "hidden_size": 512, "activation": "tanh", "dropout": 0.3},
    "rnn_encoder_decoder": {"embedding_size": 256, "hidden_size": 512, "maxout_size": 256, "dropout": 0.5},
    "seq2seq": {"embedding_size": 256, "hidden_size": 384, "num_layers": 2, "dropout": 0.3},
    "bahdanau": {
        "embedding_size": 256,
        "hidden_size": 512,
        "alignment_size": 512,
        "maxout_size": 512,
        "dropout": 0.6,
    },
    # the paper's encoder reads one way: model.encoder=backward
    "luong": {
        "embedding_size": 256,
        "hidden_size": 512,
        "num_layers": 2,
        "encoder": "bidirectional",
        "dropout": 0.5,
    },
    "lstmn": {"embedding_size": 256, "hidden_size": 384, "zero_cell": True, "dropout": 0.4},
    "conv_seq2seq": {"embedding_size": 256, "hidden_size": 256, "num_layers": 4, "dropout": 0.4},
    "transformer": {
        "hidden_size": 256,
        "num_layers": 4,
        "num_heads": 4,
        "feed_forward_size": 1024,
        "dropout": 0.4,
        # pre-norm depends less on the warm-up: Xiong et al. 2020, https://arxiv.org/abs/2002.04745
        "norm": "pre",
    },
}

EVERY = EverySettings(log=50, validate=228)
"""Two epochs."""

RECURRENT = TrainingSettings(
    epochs=22,
    label_smoothing=0.1,
    # clipping, because gradients through many steps may explode
    optimizer=AdamSettings(learning_rate=2e-3, beta2=0.999, eps=1e-8, clip_norm=1.0),
    schedule=ScheduleSettings(name="cosine", warmup_steps=200),
    every=EVERY,
    selection=SelectionSettings(metric="bleu", better="higher", average_last=4),
)

PARALLEL = TrainingSettings(
    epochs=65,
    label_smoothing=0.1,
    # the values of Vaswani et al. 2017, section 5.3
    optimizer=AdamSettings(learning_rate=2e-3, beta2=0.98, eps=1e-9),
    schedule=ScheduleSettings(name="inverse_sqrt", warmup_steps=2000),
    every=EVERY,
    # 10 checkpoints, as for the published Transformer-Tiny
    selection=SelectionSettings(metric="bleu", better="higher", average_last=10),
)

CONVOLUTION = replace(
    PARALLEL,
    epochs=40,
    # the optimizer of PARALLEL with clipping
    optimizer=AdamSettings(learning_rate=2e-3, beta2=0.98, eps=1e-9, clip_norm=1.0),
    schedule=ScheduleSettings(name="inverse_sqrt", warmup_steps=1000),
    selection=SelectionSettings(metric="bleu", better="higher", average_last=5),
)

TRAINING = {
    "transformer": PARALLEL,
    "conv_seq2seq": CONVOLUTION,
    "rctm": replace(RECURRENT, epochs=60),
    "bahdanau": replace(RECURRENT, epochs=26, optimizer=replace(RECURRENT.optimizer, learning_rate=3e-3)),
    "seq2seq": replace(RECURRENT, epochs=30),
    "rnn_encoder_decoder": replace(RECURRENT, epochs=30),
    "lstmn": replace(RECURRENT, epochs=26),
    "luong": replace(RECURRENT, optimizer=replace(RECURRENT.optimizer, learning_rate=3e-3)),
}


def multi30k(
    model: str = "transformer",
    *,
    pair: str = "en-de",
    form: Literal["tok", "raw"] = "tok",
    folder: str | None = None,
) -> TranslationRun:
    """Captions of Flickr images, 29,000 + 1,014 + 1,000 pairs."""
    return TranslationRun(
        recipe="multi30k",
        model_name=model,
        model=configure(model, SIZES),
        data=Multi30kCorpus(pair=pair, form=form, folder=folder),
        # joint, so that embeddings can be shared between the two languages
        tokenizer=VocabularySettings(kind="bpe", vocab_size=10_000, joint=True),
        # packed batches compute nothing for padding
        batch=BatchSettings(tokens=4096, max_length=100, packed=TRANSLATION_MODELS[model].packs),
        # all validation pairs, because BLEU selects the weights
        validation=ValidationSettings(sentences=1014),
        training=TRAINING.get(model, RECURRENT),
    )
