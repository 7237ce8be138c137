"""A toy to train: copy a few letters with a GRU encoder-decoder; run as a script it trains into a folder."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from torch import nn

from regard.contracts import BOS, EOS, PAD, Batch, ModelOutput, PaddedTokens, Step
from regard.layers import Readout
from regard.training import (
    AdamSettings,
    ComputeSettings,
    EverySettings,
    ScheduleSettings,
    SelectionSettings,
    TrainingSettings,
    train,
)

VOCAB = 12


@dataclass(frozen=True)
class Shuffled:
    count: int
    rows: int
    seed: int = 0

    def epoch(self, number):
        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(1000 * self.seed + number)).tolist()
        return [order[first : first + self.rows] for first in range(0, self.count, self.rows)]


class Letters:
    """Sentences of different lengths; the target is the source."""

    def __init__(self, count=40, rows=8, delay=0.0):
        generator = torch.Generator().manual_seed(7)
        lengths = torch.randint(1, 6, (count,), generator=generator).tolist()
        self.rows = [torch.randint(4, VOCAB, (length,), generator=generator).tolist() for length in lengths]
        self.order = Shuffled(count, rows)
        self.delay = delay

    def share(self, indices, part, of):
        return list(indices[part::of])

    def num_tokens(self, indices):
        return sum(len(self.rows[index]) + 1 for index in indices)

    def make(self, indices):
        time.sleep(self.delay)
        rows = [self.rows[index] for index in indices]
        return Batch(
            source=PaddedTokens.from_lists([[*row, EOS] for row in rows]),
            target=PaddedTokens.from_lists([[BOS, *row] for row in rows]),
            labels=PaddedTokens.from_lists([[*row, EOS] for row in rows]).ids,
            num_tokens=self.num_tokens(indices),
        )


class Toy(nn.Module):
    """A fixed vector, a GRU each side, dropout between; the readout has the weights of the embedding."""

    def __init__(self, *, dropout=0.0, size=16, tied=True):
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(VOCAB, size, padding_idx=PAD)
        self.encoder = nn.GRU(size, size, batch_first=True)
        self.decoder = nn.GRU(size, size, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.readout = Readout(hidden_size=size, vocab_size=VOCAB, tied=self.embedding.weight if tied else None)

    def encode(self, source):
        states, _ = self.encoder(self.dropout(self.embedding(source.ids)))
        return states[torch.arange(len(states)), source.lengths - 1]

    def start(self, encoded):
        return encoded

    def step(self, tokens, state, encoded):
        features, state = self.decoder(self.embedding(tokens)[:, None], state[None])
        return Step(logits=self.readout(features[:, 0]), state=state[0])

    def features(self, source, target):
        states, _ = self.decoder(self.dropout(self.embedding(target.ids)), self.encode(source)[None])
        return ModelOutput(features=self.dropout(states))

    def forward(self, source, target):
        return self.readout(self.features(source, target).features)


def loss_of(model, data):
    """Mean loss over all rows, as a validation gives it."""
    batch = data.make(range(len(data.rows)))
    features = model.features(batch.source, batch.target).features
    return {"loss": model.readout.loss(features, batch.labels).item() / batch.num_tokens}


def settings(**changes):
    """A short run that logs, validates and saves often."""
    chosen = {
        "steps": 12,
        "label_smoothing": 0.1,
        "optimizer": AdamSettings(learning_rate=0.01, clip_norm=1.0),
        "schedule": ScheduleSettings(name="inverse_sqrt", warmup_steps=4),
        "every": EverySettings(log=2, validate=4, save=3),
        "compute": ComputeSettings(device="cpu", precision="fp32"),
    }
    return TrainingSettings(**(chosen | changes))


def main(folder, arguments):
    torch.set_num_threads(1)
    data = Letters(count=64, delay=arguments.get("delay", 0.0))
    chosen = settings(
        steps=arguments["steps"],
        every=EverySettings(log=2, validate=5, save=3),
        selection=SelectionSettings(average_last=3, ema=arguments.get("ema")),
        compute=ComputeSettings(device="cpu", precision="fp32", accumulation=arguments.get("accumulation", 1)),
    )
    train(
        Toy(dropout=arguments["dropout"], size=arguments.get("size", 16)),
        data,
        chosen,
        Path(folder),
        validate=lambda model: loss_of(model, data),
        resume=True,
        console=Console(file=sys.stdout, width=200),
    )


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
