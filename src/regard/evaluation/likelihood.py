"""How likely a language model finds a text: every token given all before it, each predicted once.

    perplexity per word = exp(nats / words),   bits per character = nats / (characters ln 2)

A line's end is a token, a word and a character, and is predicted like any other. The first token is predicted behind an
<eos>. The state is carried through the whole text, so that the figure does not depend on how the text is cut; pieces
that are read side by side (`rows` over 1) begin cold, which costs a little. Of pieces, the likelihood of a word is that
of its pieces: per word, models with different vocabularies compare, as long as neither calls words <unk>.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.contracts import EOS, PAD, LanguageModel
from regard.decoding import device_of, evaluating

PIECE = 256
"""Tokens that are read at once."""


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """Negative log-likelihood in nats, summed, and over how much text: exact counts of each."""

    nats: float
    tokens: int
    words: int
    characters: int
    unknown: int = 0

    def __post_init__(self) -> None:
        if min(self.tokens, self.words, self.characters) < 1:
            raise ValueError(f"the likelihood of {self.tokens} tokens is undefined. Give a text with at least one.")

    @property
    def loss(self) -> float:
        """Nats a token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """Between how many words the model hesitates."""
        return _exp(self.nats / self.words)

    @property
    def perplexity_per_token(self) -> float:
        """Between how many tokens of its vocabulary."""
        return _exp(self.loss)

    @property
    def bits_per_character(self) -> float:
        """What a character costs."""
        return self.nats / (self.characters * math.log(2.0))


def nats_of(
    model: LanguageModel,
    ids: Int[Tensor, " N"],
    *,
    rows: int = 1,
    piece: int = PIECE,
    fresh: bool = False,
) -> float:
    """Summed over all tokens; `fresh` begins every piece with the model's start, as training on crops does."""
    if not len(ids):
        raise ValueError("there is no token to predict. Give a text with at least one.")
    nats: list[Tensor] = []
    with evaluating(model):
        state: Any = None
        for tokens, labels in pieces(ids.to(device_of(model)), rows=rows, piece=piece, fresh=fresh):
            if state is None or fresh:
                state = model.start(tokens.shape[0])
            done = model.read(tokens, state)
            state = done.state
            nats.append(model.readout.loss(done.features, labels).double())
        return math.fsum(torch.stack(nats).tolist())


def pieces(
    ids: Int[Tensor, " N"], *, rows: int, piece: int, fresh: bool
) -> Iterator[tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]]:
    """What is read and what is predicted, piece by piece; what a row lacks at its end is <pad>."""
    before = torch.cat([ids.new_tensor([EOS]), ids[:-1]])
    rows = min(rows, len(ids))
    longest = piece if fresh else -(-len(ids) // rows)
    count = -(-len(ids) // longest)
    read, said = (
        torch.nn.functional.pad(part, (0, count * longest - len(ids)), value=PAD).view(count, longest)
        for part in (before, ids)
    )
    if fresh:
        yield from zip(read.split(rows), said.split(rows), strict=True)
    else:
        yield from zip(read.split(piece, dim=1), said.split(piece, dim=1), strict=True)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
