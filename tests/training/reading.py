"""A language model trained on a small stream with a carried state; run as a script it trains into a folder."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torch import nn

from regard.contracts import EOS
from regard.data.batching.segments import SegmentData, SegmentSettings
from regard.data.text.streams import Stream
from regard.models.language_modeling.lstm import LSTMLanguageConfig, LSTMLanguageModel
from regard.training import (
    AdamSettings,
    ComputeSettings,
    EverySettings,
    ScheduleSettings,
    StreamObjective,
    TrainingSettings,
    train,
)

VOCAB = 9


def lstm(dropout=0.0):
    torch.manual_seed(1)
    sizes = {"embedding_size": 6, "hidden_size": 6, "num_layers": 2}
    model = LSTMLanguageModel(LSTMLanguageConfig(vocab_size=VOCAB, dropout=dropout, **sizes))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def data_of(rows=3, length=4, tokens=40, cut="stream"):
    ids = np.random.default_rng(0).integers(4, VOCAB, tokens).astype(np.int32)
    ids[::7] = EOS
    stream = Stream(ids=ids, num_words=tokens, num_characters=tokens)
    return SegmentData(stream, SegmentSettings(rows=rows, length=length, cut=cut))


def settings(**changes):
    chosen = {
        "steps": 10,
        "label_smoothing": 0.0,
        "optimizer": AdamSettings(learning_rate=0.02, clip_norm=1.0),
        "schedule": ScheduleSettings(name="constant", warmup_steps=0),
        "every": EverySettings(log=1, save=4),
        "compute": ComputeSettings(device="cpu", precision="fp32"),
    }
    return TrainingSettings(**(chosen | changes))


def main(folder, arguments):
    model = lstm()
    chosen, console = settings(steps=arguments["steps"]), Console(file=sys.stdout, width=200)
    train(model, data_of(), chosen, Path(folder), objective=StreamObjective, resume=True, console=console)
    return model


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
