"""Perplexity and likelihood as values, from summed log-probabilities.

    perplexity          = exp( - 1/N  sum_t log p(y_t | y_<t, x) )
    perplexity per word = exp(nats / words),   bits per character = nats / (characters ln 2)

`Perplexity` is that of translations: N counts target tokens, including each sentence's <eos> but not <bos> and padding.
The tokens are the vocabulary's own (words, pieces or characters), so only models with the same target tokenizer
compare.

`Likelihood` is that of a text under a language model, where every token is predicted once from all before it. A line
end is a token, a word and a character, and is predicted like any other; the first token is predicted after an <eos>.
The state is carried through the whole text, so the figure does not depend on how the text is split. Parts that are
processed in parallel (`rows` over 1) each start with an empty state, which costs a little. The likelihood of a word is
that of its pieces: per word, models with different vocabularies compare, as long as neither has words as <unk>.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Perplexity:
    """Summed negative log-likelihood in nats, the number of tokens, and exp of their quotient."""

    nats: float
    tokens: int
    perplexity: float

    @classmethod
    def of(cls, *, nats: float, tokens: int) -> "Perplexity":
        """From the sums; infinity if the quotient is too large for exp."""
        if tokens < 1:
            raise ValueError(f"perplexity over {tokens} tokens is undefined. Give at least one batch with a target.")
        return cls(nats, tokens, exp_or_infinity(nats / tokens))


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """Summed negative log-likelihood of a text in nats, and its numbers of tokens, words and characters.

    `unknown` is the number of tokens that are <unk>.
    """

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
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """Perplexity per word."""
        return exp_or_infinity(self.nats / self.words)

    @property
    def perplexity_per_token(self) -> float:
        """Perplexity per token of the model's vocabulary."""
        return exp_or_infinity(self.loss)

    @property
    def bits_per_character(self) -> float:
        """Bits per character."""
        return self.nats / (self.characters * math.log(2.0))


def exp_or_infinity(value: float) -> float:
    """exp(value); infinity above float64's range, where math.exp raises."""
    # a diverged model still gets a report
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
