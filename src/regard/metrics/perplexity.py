"""Perplexity and likelihood as values, from summed log-probabilities.

Perplexity: how many tokens a model hesitates between, given the true ones before.

    perplexity = exp( - 1/N  sum log p(y_t | y_<t, x) )

N counts target tokens, each sentence's <eos> among them and <bos> and padding not. The tokens are the vocabulary's own
(words, pieces, characters): two models compare only with the same target tokenizer.

How likely a language model finds a text: every token given all before it, each predicted once.

    perplexity per word = exp(nats / words),   bits per character = nats / (characters ln 2)

A line's end is a token, a word and a character, and is predicted like any other. The first token is predicted behind an
<eos>. The state is carried through the whole text, so that the figure does not depend on how the text is cut; pieces
that are read side by side (`rows` over 1) begin cold, which costs a little. Of pieces, the likelihood of a word is that
of its pieces: per word, models with different vocabularies compare, as long as neither calls words <unk>.
"""

import math
from dataclasses import dataclass


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


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
