"""A task in which the answer depends on content or on position alone, and a one-layer model with any mixing of tokens.

Every token has a key, a value, and a requested key. By content, the answer at a token is the value of the token whose
key it requests; by position, the value of the token at the mirrored position. The texts are the same for both.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.positions import Learned
from regard.experiments.lib.sizes import num_parameters
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.lib.training import fit
from regard.layers import FeedForward, PreNorm
from regard.tasks import count_parameters, equal_size

Question = Literal["content", "position"]
MakeAttention = Callable[[int, int], MultiHeadAttention]
"""Builds the attention of a model from its hidden size and its number of heads."""


@dataclass(frozen=True)
class Tokens:
    """Texts of tokens, and the answer at every token to both questions."""

    keys: Int[Tensor, "B L"]
    values: Int[Tensor, "B L"]
    requests: Int[Tensor, "B L"]
    answers: dict[str, Int[Tensor, "B L"]]


@dataclass(frozen=True, kw_only=True)
class LookupTask:
    """`length` tokens with different keys."""

    length: int
    num_values: int

    def draw(self, count: int) -> Tokens:
        """Random texts."""
        keys = torch.rand(count, self.length).argsort(dim=1)
        values = torch.randint(self.num_values, (count, self.length))
        requests = torch.randint(self.length, (count, self.length))
        # the position of every key: the inverse of the permutation
        positions = keys.argsort(dim=1)
        by_content = values.gather(1, positions.gather(1, requests))
        return Tokens(keys, values, requests, {"content": by_content, "position": values.flip(1)})


class LookupModel(nn.Module):
    """Embeddings, one attention and one feed-forward layer, and a readout of the value."""

    def __init__(self, task: LookupTask, attention: MultiHeadAttention) -> None:
        super().__init__()
        size = attention.hidden_size
        self.keys, self.requests = nn.Embedding(task.length, size), nn.Embedding(task.length, size)
        self.values = nn.Embedding(task.num_values, size)
        self.positions = Learned(hidden_size=size, max_length=task.length)
        self.attention, self.attention_norm = attention, PreNorm(hidden_size=size)
        self.feed_forward = FeedForward(hidden_size=size, feed_forward_size=2 * size)
        self.feed_forward_norm = PreNorm(hidden_size=size)
        self.norm, self.readout = nn.LayerNorm(size), nn.Linear(size, task.num_values)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B L values"]:
        """Logits of the answers."""
        states = self.positions(self.keys(tokens.keys) + self.values(tokens.values) + self.requests(tokens.requests))
        # attention also returns weights and caches, of which the residual needs none
        states = self.attention_norm(states, lambda normed: self.attention(normed).context)
        return self.readout(self.norm(self.feed_forward_norm(states, self.feed_forward)))


def without_projections(attention: MultiHeadAttention, *names: str) -> MultiHeadAttention:
    """The same attention with the states themselves in the place of these projections, "key_proj" for example."""
    for name in names:
        setattr(attention, name, nn.Identity())
    return attention


@dataclass(frozen=True, kw_only=True)
class LookupResult:
    """A trained model: its parameters and the share of right answers."""

    parameters: int
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class LookupSystem:
    """A kind of attention, with its sizes."""

    task: LookupTask
    make: MakeAttention
    num_heads: int
    head_size: int

    def build(self) -> LookupModel:
        """A model with random weights."""
        return LookupModel(self.task, self.make(self.num_heads * self.head_size, self.num_heads))

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return num_parameters(self.build)

    def of_equal_size(self, make: MakeAttention) -> "LookupSystem":
        """Another kind of attention, with the head size at which it has about as many parameters."""
        other = replace(self, make=make)
        size = equal_size(self.parameters, lambda size: replace(other, head_size=size).parameters, max_size=256)
        return replace(other, head_size=size)

    def train_and_test(self, seed: int, question: Question, *, steps: int) -> LookupResult:
        """Train on new texts at every step, then answer others."""
        with seeded(seed):
            model = self.build()

            def loss_of(step: int) -> Tensor:
                tokens = self.task.draw(64)
                return F.cross_entropy(model(tokens).flatten(0, 1), tokens.answers[question].flatten())

            fit(model, loss_of, steps=steps)
            tokens = self.task.draw(500)
            with torch.no_grad():
                right = model(tokens).argmax(dim=-1) == tokens.answers[question]
        return LookupResult(parameters=count_parameters(model), accuracy=right.double().mean().item())
