"""Perplexity: how many tokens a model hesitates between, given the true ones before.

    perplexity = exp( - 1/N  sum log p(y_t | y_<t, x) )

N counts target tokens, each sentence's <eos> among them and <bos> and padding not. The tokens are the vocabulary's own
(words, pieces, characters): two models compare only with the same target tokenizer.
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
