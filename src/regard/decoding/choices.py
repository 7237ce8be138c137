"""How the next token of a text is chosen: what the user asks for, and the choice itself.

Repetition penalty: what the text has already said is made less likely, positive logits divided by it, negative ones
multiplied. Keskar et al. 2019, section 4.1 (CTRL). https://arxiv.org/abs/1909.05858
The order is: penalty, temperature, top_k, top_p, min_p.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.contracts import EOS
from regard.decoding.sample import Sample
from regard.decoding.top import best

STRONGEST = 1e6
"""Of a penalty; more of it, or of its inverse, makes infinities of logits."""


@dataclass(frozen=True, kw_only=True)
class Generation:
    """How to go on with a text. A temperature of 0 always takes the best token, whatever the others say.

    A text ends behind `max_tokens` new tokens, or with one of `stop_ids`.
    """

    max_tokens: int = 128
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    seed: int = 0
    stop_ids: tuple[int, ...] = (EOS,)

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens is {self.max_tokens}, expected 1 token or more.")
        if not 0 <= self.temperature < math.inf:
            raise ValueError(
                f"temperature is {self.temperature}, expected 0, which always takes the best token, or a number above, "
                f"such as 0.7."
            )
        if not 1 / STRONGEST <= self.repetition_penalty <= STRONGEST:
            raise ValueError(
                f"repetition_penalty is {self.repetition_penalty}, expected a number above 0, from "
                f"{1 / STRONGEST:g} to {STRONGEST:g}: 1.0 changes nothing, 1.2 repeats less."
            )
        self.sample()

    def sample(self) -> Sample:
        """The draw; a sentence for shares and counts that are none."""
        temperature = self.temperature or 1.0
        return Sample(temperature=temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p, seed=self.seed)


class Chooser:
    """Chooses for rows side by side, and remembers what each has said where that is held against it."""

    def __init__(
        self, options: Generation, *, numbers: Int[Tensor, " n"], texts: Int[Tensor, "n L"], vocab_size: int
    ) -> None:
        self.options, self.sample, self.numbers = options, options.sample(), numbers
        self.said: Bool[Tensor, "n vocab"] | None = None
        if options.repetition_penalty != 1:
            none = torch.zeros(len(texts), vocab_size, dtype=torch.bool, device=texts.device)
            # rows are filled up with <pad>, which is never said anyway
            self.said = none.scatter_(1, texts, True)

    def __call__(self, logits: Float[Tensor, "n vocab"], steps: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """The next token of each row; `steps` count its own new tokens, so that a row draws alike in any batch."""
        if self.said is not None:
            logits = torch.where(self.said, penalised(logits, self.options.repetition_penalty), logits)
        if self.options.temperature == 0:
            return best(logits[:, EOS:]) + EOS
        return self.sample.draw(logits, self.numbers, steps)

    def hear(self, tokens: Int[Tensor, " n"]) -> None:
        """What each row goes on with."""
        if self.said is not None:
            self.said.scatter_(1, tokens[:, None], True)

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Only these rows go on."""
        self.numbers = self.numbers.index_select(0, rows)
        if self.said is not None:
            self.said = self.said.index_select(0, rows)


def penalised(logits: Float[Tensor, "n vocab"], penalty: float) -> Float[Tensor, "n vocab"]:
    """Every logit as if its token had been said."""
    return torch.where(logits > 0, logits / penalty, logits * penalty)
