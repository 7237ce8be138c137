"""Scoring: how probable a model finds a given target, and where it looks while it reads it.

log p(y | x) = sum_t log p(y_t | y_<t, x),    <eos> the last y
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import PAD, Model, Sequences, evaluating
from regard.decoding.rows import own

POSITIONS_AT_ONCE = 1024
"""The logits of so many target positions are written down at a time."""


def score(model: Model, source: Sequences, target: Sequences, labels: Int[Tensor, "B T"]) -> Float[Tensor, " B"]:
    """Log-probability of each row's labels y.. <eos> (<pad> where nothing), the decoder reading <bos> y.. ."""
    with evaluating(model):
        real = labels != PAD
        features, wanted = model.features(source, target)[real], labels[real]
        parts = [
            F.cross_entropy(upcast(model.readout(some)), words, reduction="none").double()
            for some, words in zip(features.split(POSITIONS_AT_ONCE), wanted.split(POSITIONS_AT_ONCE), strict=True)
        ]
        losses = torch.zeros(labels.shape, dtype=torch.float64, device=labels.device)
        losses[real] = torch.cat(parts)
        return own(-losses.sum(dim=1))


def upcast(logits: Float[Tensor, "N vocab"]) -> Float[Tensor, "N vocab"]:
    """At least single precision, whatever autocast chose."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def forced_alignment(model: Model, source: Sequences, target: Sequences) -> list[Float[Tensor, "T source"]] | None:
    """Where the model looks while it reads <bos> y..: a row before each of y.. <eos>; None where it does not attend."""
    steps: list[Tensor] = []
    with evaluating(model):
        encoded = model.encode(source)
        state = model.start(encoded)
        for tokens in target.ids.unbind(dim=1):
            done = model.step(tokens, state, encoded)
            state = done.state
            if done.alignment is None:
                return None
            steps.append(done.alignment)
        looked = torch.stack(steps, dim=1).cpu()
        sizes = zip(target.lengths.tolist(), source.lengths.tolist(), strict=True)
        return [own(row[:rows, :columns]) for row, (rows, columns) in zip(looked, sizes, strict=True)]
