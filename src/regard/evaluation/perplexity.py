"""Perplexity: how many tokens a model hesitates between, given the true ones before.

    perplexity = exp( - 1/N  sum log p(y_t | y_<t, x) )

N counts target tokens, each sentence's <eos> among them and <bos> and padding not. The tokens are the vocabulary's own
(words, pieces, characters): two models compare only with the same target tokenizer.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from regard.contracts import Batch, Model, map_tensors
from regard.decoding import device_of, evaluating


@dataclass(frozen=True)
class Perplexity:
    """Negative log-likelihood in nats, summed; over how many tokens; and exp of their quotient."""

    nats: float
    tokens: int
    perplexity: float

    @classmethod
    def of(cls, *, nats: float, tokens: int) -> "Perplexity":
        """From the sums; a quotient too large for exp gives infinity."""
        if tokens < 1:
            raise ValueError(f"perplexity over {tokens} tokens is undefined. Give at least one batch with a target.")
        try:
            return cls(nats, tokens, math.exp(nats / tokens))
        except OverflowError:
            return cls(nats, tokens, math.inf)


def perplexity(model: Model, batches: Iterable[Batch]) -> Perplexity:
    """Teacher-forced, without label smoothing; batches are moved to the model's device."""
    device = device_of(model)
    nats: list[torch.Tensor] = []
    tokens = 0
    with evaluating(model):
        for given in batches:
            batch = map_tensors(lambda tensor: tensor.to(device), given)
            features = model.features(batch.source, batch.target)
            nats.append(model.readout.loss(features, batch.labels))
            tokens += batch.num_tokens
        # one transfer at the end: the device need not wait for the host after every batch
        total = math.fsum(torch.stack(nats).tolist()) if nats else 0.0
    return Perplexity.of(nats=total, tokens=tokens)
