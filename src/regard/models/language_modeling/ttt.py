"""TTT-Linear: a Transformer with attention replaced by small models that are trained on the sequence.

    x = x + TTT(norm(x));   x = x + FFN(norm(x));   p(next | x) = softmax(E norm(x))
    TTT: W_t = W_{t-1} - eta_t grad ||f(W_K x_t; W) - W_V x_t||^2,   output f(W_Q x_t; W_t),   f(x) = x + LN(W x + b)

Sun et al. 2024. https://arxiv.org/abs/2407.04620
The state is the inner weights W of each layer; its size does not depend on the length. `regard.layers.ttt` has the
learner.

Departs from the paper: LayerNorm instead of RMSNorm, no rotary positions, and the Transformer backbone without the
convolutions of the Mamba backbone. `inner="bare"` uses f(x) = W x.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard._utils import find_variant
from regard.contracts import ModelOutput
from regard.layers import (
    TTT,
    BareLinear,
    GatedFeedForward,
    GradientLearner,
    NormedLinear,
    PreNorm,
    Readout,
    check_heads,
)
from regard.models.language_modeling.base import LanguageModelBase

INNER_MODELS: Mapping[str, type[NormedLinear] | type[BareLinear]] = {"normed": NormedLinear, "bare": BareLinear}


@dataclass(frozen=True, kw_only=True)
class TTTLanguageConfig:
    """Defaults are the published model of 125M parameters (appendix C)."""

    vocab_size: int = 32_000
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    feed_forward_size: int = 2048
    mini_batch: int = 16
    base_rate: float = 1.0
    inner: str = "normed"
    dropout: float = 0.0


class TTTBlock(nn.Module):
    """A TTT layer and a feed-forward network, each with a pre-norm residual connection."""

    def __init__(self, config: TTTLanguageConfig) -> None:
        super().__init__()
        size, heads = config.hidden_size, config.num_heads
        # a size that heads do not divide would fail later, with a message about shapes
        check_heads(size, heads)
        sizes = {"num_heads": heads, "head_size": size // heads}
        learner = GradientLearner(
            model=find_variant(config.inner, INNER_MODELS, "inner")(**sizes), mini_batch=config.mini_batch, **sizes
        )
        self.mixer = TTT(hidden_size=size, num_heads=heads, learner=learner, base_rate=config.base_rate)
        self.feed_forward = GatedFeedForward(hidden_size=size, feed_forward_size=config.feed_forward_size)
        self.mixer_norm, self.feed_forward_norm = (PreNorm(hidden_size=size, dropout=config.dropout) for _ in range(2))

    def forward(self, states: Float[Tensor, "B T size"], state: Any) -> tuple[Float[Tensor, "B T size"], Any]:
        """States of the next layer, and the state of this layer's learners after the last position."""
        # the norm calls `mix` for its outputs only; the state leaves through this list
        ends: list[Any] = []

        def mix(normed: Tensor) -> Tensor:
            output = self.mixer(normed, state)
            ends.append(output.state)
            return output.outputs

        states = self.mixer_norm(states, mix)
        return self.feed_forward_norm(states, self.feed_forward), ends[0]


class TTTLanguageModel(LanguageModelBase):
    """A stack of pre-norm blocks; embedding and output layer share their weights."""

    def __init__(self, config: TTTLanguageConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(TTTBlock(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.hidden_size)
        self.readout = Readout(hidden_size=config.hidden_size, vocab_size=config.vocab_size, tied=self.embedding.weight)
        # after all modules exist; the tied output layer has no weight of its own
        self.apply(init_small)

    def start(self, batch_size: int) -> tuple[Any, ...]:
        """The learned initial state of every layer."""
        return tuple(block.mixer.start(batch_size) for block in cast(Iterable[TTTBlock], self.blocks))

    def features(self, tokens: Int[Tensor, "B T"], state: tuple[Any, ...]) -> ModelOutput:
        """Process many tokens, in parallel within each mini-batch."""
        states, ends = self.dropout(self.embedding(tokens)), []
        for block, block_state in zip(self.blocks, state, strict=True):
            states, end = block(states, block_state)
            ends.append(end)
        return ModelOutput(features=self.norm(states), state=tuple(ends))


def init_small(module: nn.Module) -> None:
    """The authors' initialisation: standard deviation 0.02 and zero biases."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
