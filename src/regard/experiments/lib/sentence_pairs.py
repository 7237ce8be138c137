"""Word-by-word translation of random sentences, and translation models under their own outputs.

A sentence is a row of random words; its translation has one word for each, in the same order. The target ends after as
many words as the source, so that every position of every output has one correct word.

Shapes: B batch, T target positions.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import BOS, EOS, SPECIAL_TOKENS, PaddedTokens
from regard.layers import unroll

FIRST = len(SPECIAL_TOKENS)
"""The id of the first word."""


@dataclass(frozen=True, kw_only=True)
class SentencePairs:
    """Sources of one length, what the decoder is given under teacher forcing, and the words that it should output."""

    source: PaddedTokens
    inputs: PaddedTokens
    labels: Int[Tensor, "B T"]

    @classmethod
    def of(cls, source: Int[Tensor, "B L"], target: Int[Tensor, "B L"]) -> "SentencePairs":
        """From words numbered from 0; both sides end with <eos>."""
        count, length = source.shape
        lengths = torch.full((count,), length + 1)
        begins, ends = (torch.full((count, 1), token) for token in (BOS, EOS))
        return cls(
            source=PaddedTokens(torch.cat([source + FIRST, ends], dim=1), lengths),
            inputs=PaddedTokens(torch.cat([begins, target + FIRST], dim=1), lengths),
            labels=torch.cat([target + FIRST, ends], dim=1),
        )


def copied(num_words: int, length: int, *, count: int) -> SentencePairs:
    """The n-th word of one language is the n-th of the other, so that the translation is a copy."""
    words = torch.randint(num_words, (count, length))
    return SentencePairs.of(words, words)


def summed(num_words: int, length: int, *, count: int) -> SentencePairs:
    """A target word is the one before it where the source has 0, and the next one where it has 1."""
    steps = torch.randint(2, (count, length))
    return SentencePairs.of(steps, steps.cumsum(dim=1) % num_words)


def logits_of(model: Any, pairs: SentencePairs, *, own_output_ratio: float) -> Float[Tensor, "B T vocab"]:
    """Logits at every target position; the first input is always <bos>."""
    encoded = model.encode(pairs.source)
    state = model.start(encoded)
    return unroll(model.step, pairs.inputs.ids, state=state, encoded=encoded, own_output_ratio=own_output_ratio)


def mean_loss(logits: Float[Tensor, "B T vocab"], labels: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
    """Nats per word."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


@torch.no_grad()
def word_accuracy(model: Any, pairs: SentencePairs, *, own_output_ratio: float = 1.0) -> float:
    """The share of positions with the correct word, under the model's own outputs."""
    predicted = logits_of(model, pairs, own_output_ratio=own_output_ratio).argmax(dim=-1)
    return (predicted == pairs.labels).double().mean().item()
