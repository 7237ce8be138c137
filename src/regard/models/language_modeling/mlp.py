"""MLP language model: a hidden layer over the embeddings of the last few words.

    x_t = [C(w_{t-n+2}); ..; C(w_t)],   h_t = tanh(d + H x_t),   p(w_{t+1}) = softmax(b + U h_t (+ W x_t))

Bengio, Ducharme, Vincent and Jauvin 2003, section 2. https://jmlr.org/papers/v3/bengio03a.html
The features are h_t, with direct connections [h_t; x_t]: one output layer holds U and W. <eos> precedes the first word.

Departs from the paper: dropout (on the words and on h_t) is ours; initial weights are torch's, except the embeddings,
which are small; the best published figures are of a mixture with a trigram, which is not part of this model.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.contracts import EOS, ModelOutput
from regard.layers import Readout
from regard.models.language_modeling.base import LanguageModelBase

BOUND = 0.1
"""Bound of the initial embeddings."""


@dataclass(frozen=True, kw_only=True)
class MLPLanguageConfig:
    """Defaults are the published sizes of the best model of the Brown corpus (table 1, MLP10)."""

    vocab_size: int = 16_383
    embedding_size: int = 30
    hidden_size: int = 100
    order: int = 5
    direct: bool = False
    dropout: float = 0.0


class MLPLanguageModel(LanguageModelBase):
    """Predicts from the last `order` - 1 words."""

    def __init__(self, config: MLPLanguageConfig) -> None:
        super().__init__()
        if config.order < 2:
            raise ValueError(f"order is {config.order}, expected 2 or more: the input is order - 1 words.")
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        nn.init.uniform_(self.embedding.weight, -BOUND, BOUND)
        window_size = (config.order - 1) * config.embedding_size
        self.hidden = nn.Linear(window_size, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        size = config.hidden_size + (window_size if config.direct else 0)
        self.readout = Readout(hidden_size=size, vocab_size=config.vocab_size)

    def start(self, batch_size: int) -> Int[Tensor, "B seen"]:
        """A window of <eos>."""
        return torch.full((batch_size, self.config.order - 1), EOS, device=self.embedding.weight.device)

    def features(self, tokens: Int[Tensor, "B T"], state: Int[Tensor, "B seen"]) -> ModelOutput:
        """All positions in parallel; the state is the last words."""
        ids = torch.cat([state, tokens], dim=1)
        # the state has order - 1 words; the oldest is in no window that ends at a new token
        # without tokens, one window over the state keeps `unfold` valid; it is removed again below
        words = self.dropout(self.embedding(ids[:, 1:] if tokens.shape[1] else ids))
        # (B, T, order - 1, embedding) -> (B, T, (order - 1) x embedding)
        windows = words.unfold(1, self.config.order - 1, 1).transpose(2, 3).flatten(2)[:, : tokens.shape[1]]
        features = self.dropout(torch.tanh(self.hidden(windows)))
        # the direct connections are columns of the same output layer; both parts in one precision under autocast
        if self.config.direct:
            features = torch.cat([features, windows.to(features.dtype)], dim=-1)
        return ModelOutput(features=features, state=ids[:, tokens.shape[1] :])
