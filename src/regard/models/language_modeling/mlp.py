"""MLP language model: the first words turned into vectors, and a hidden layer over the last few of them.

    x_t = [C(w_{t-n+2}); ..; C(w_t)],   h_t = tanh(d + H x_t),   p(w_{t+1}) = softmax(b + U h_t (+ W x_t))

Bengio, Ducharme, Vincent and Jauvin 2003, section 2. https://jmlr.org/papers/v3/bengio03a.html
The features are h_t, with direct connections [h_t; x_t]: one readout holds U and W. Before the first word stands <eos>.

Departs from the paper: dropout (on the words and on h_t) is ours, initial weights are torch's but for the words', which
are small, and the best published figures are of a mixture with a trigram, which is left to whoever evaluates.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.contracts import EOS, ModelOutput
from regard.layers import Readout
from regard.models.language_modeling.base import Reader

BOUND = 0.1
"""Of the words' first vectors."""


@dataclass(frozen=True, kw_only=True)
class MLPLanguageConfig:
    """Defaults are the published sizes of the best model of the Brown corpus (table 1, MLP10)."""

    vocab_size: int = 16_383
    embedding_size: int = 30
    hidden_size: int = 100
    order: int = 5
    direct: bool = False
    dropout: float = 0.0


class MLPLanguageModel(Reader):
    """Sees the last `order` - 1 words and nothing else."""

    def __init__(self, config: MLPLanguageConfig) -> None:
        super().__init__()
        if config.order < 2:
            raise ValueError(f"order is {config.order}, expected 2 or more: order - 1 words are seen.")
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        nn.init.uniform_(self.embedding.weight, -BOUND, BOUND)
        seen_size = (config.order - 1) * config.embedding_size
        self.hidden = nn.Linear(seen_size, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        size = config.hidden_size + (seen_size if config.direct else 0)
        self.readout = Readout(hidden_size=size, vocab_size=config.vocab_size)

    def start(self, num_rows: int) -> Int[Tensor, "B seen"]:
        """Nothing but ends of lines."""
        return torch.full((num_rows, self.config.order - 1), EOS, device=self.embedding.weight.device)

    def read(self, tokens: Int[Tensor, "B T"], state: Int[Tensor, "B seen"]) -> ModelOutput:
        """All places at once; the state is the last words."""
        ids = torch.cat([state, tokens], dim=1)
        # of no tokens the window over the state alone, which is cut off again
        words = self.dropout(self.embedding(ids[:, 1:] if tokens.shape[1] else ids))
        seen = words.unfold(1, self.config.order - 1, 1).transpose(2, 3).flatten(2)[:, : tokens.shape[1]]
        features = self.dropout(torch.tanh(self.hidden(seen)))
        if self.config.direct:
            features = torch.cat([features, seen.to(features.dtype)], dim=-1)
        return ModelOutput(features=features, state=ids[:, tokens.shape[1] :])
