"""Small language models on a text of words: the streams, the output bias at the start, and the training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batching import SegmentData, SegmentSettings
from regard.data.text import Stream, Tokenizer, TokenizerSettings, make_stream
from regard.experiments.lib.training import fit
from regard.training import CropObjective, StreamObjective

SEGMENT = 32
"""Words of a segment."""


def word_streams(training: str, others: Sequence[str], *, vocab_size: int) -> tuple[Stream, list[Stream], int]:
    """A training text and others as streams of words, and the size of the vocabulary, which is that of the first."""
    # the vocabulary is that of the training text only, so words of the others may be unknown
    tokenizer = Tokenizer.train(training.split("\n"), TokenizerSettings(kind="words", vocab_size=vocab_size))
    return make_stream(training, tokenizer), [make_stream(text, tokenizer) for text in others], tokenizer.vocab_size


def set_frequencies(model: Any, stream: Stream, vocab_size: int) -> None:
    """Initialise the readout with the frequencies of the words of a text."""
    model.readout.set_frequencies(torch.from_numpy(np.bincount(stream.ids, minlength=vocab_size)))


def fit_stream(
    model: Any,
    stream: Stream,
    *,
    epochs: int,
    learning_rate: float = 1e-2,
    objective_class: type[CropObjective] = StreamObjective,
) -> None:
    """Train over the text in order; StreamObjective carries the state, CropObjective starts each segment without."""
    data = SegmentData(stream, SegmentSettings(rows=16, length=SEGMENT))
    # with a carried state, row r of a segment continues row r of the segment before
    objective = objective_class(model)
    starts = [start for epoch in range(epochs) for start in data.order.epoch(epoch)]

    def loss_of(step: int) -> Tensor:
        segment = data.make(starts[step])
        # the objective is a sum over tokens; the mean makes the learning rate independent of the segment size
        loss: Tensor = objective(segment) / segment.num_tokens
        return loss

    fit(model, loss_of, steps=len(starts), learning_rate=learning_rate)
