"""Sampling: the next token is drawn from the model's distribution.

Sampling: the next token is drawn from the model's distribution.

    y_t ~ softmax(logits / temperature), of the k best tokens, the nucleus, those not far below the best

Top-k: Fan, Lewis and Dauphin 2018. https://arxiv.org/abs/1805.04833
Nucleus (top-p), the fewest best tokens that hold p of the probability: Holtzman et al. 2020.
https://arxiv.org/abs/1904.09751 Where both are given, top-p is taken of what top-k left.
Min-p, the tokens at least p times as probable as the best: Nguyen et al. 2024. https://arxiv.org/abs/2407.01082

The one random number of a step depends on the seed, the row's number and the step, and on nothing else: a source gets
the same sample in any batch. It comes from SplitMix64 (Steele, Lea and Flood 2014,
https://doi.org/10.1145/2660193.2660195), in whole numbers, so a CPU and a GPU draw alike.

How the next token of a text is chosen: what the user asks for, and the choice itself.

Repetition penalty: what the text has already said is made less likely, positive logits divided by it, negative ones
multiplied. Keskar et al. 2019, section 4.1 (CTRL). https://arxiv.org/abs/1909.05858
The order is: penalty, temperature, top_k, top_p, min_p.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.contracts import EOS, Hypothesis, Task
from regard.decoding.greedy import walk
from regard.decoding.top import best


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One sample a source. `log_prob` and `score` are the model's own, before temperature and what is kept."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature == 0:
            raise ValueError("temperature is 0, which always takes the best token. Use Greedy() for that.")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature is {self.temperature}, expected a number above 0, such as 0.7.")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k is {self.top_k}, expected 1 token or more, or None to keep all.")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}, expected a share above 0 and at most 1, or None to keep all.")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p is {self.min_p}, expected a share of the best token's, from 0 to 1, or None.")

    def run(self, task: Task) -> list[list[Hypothesis]]:
        """One hypothesis for each source."""
        return walk(task, self.draw)

    def draw(
        self, logits: Float[Tensor, "n vocab"], numbers: Int[Tensor, " n"], step: int | Int[Tensor, " n"]
    ) -> Int[Tensor, " n"]:
        """The next token of each row; <pad> and <bos>, the first two columns, are never said."""
        said = logits[:, EOS:].double()
        # below the best, so that no temperature makes infinities of which none is the best
        scaled = (said - said.amax(dim=1, keepdim=True)) / self.temperature
        if self.top_k is None and self.top_p is None and self.min_p is None:
            return invert(scaled.softmax(dim=1), uniform(self.seed, numbers, step)) + EOS
        ranked = scaled.sort(dim=1, descending=True, stable=True)
        share = self.keep(ranked.values.softmax(dim=1))
        place = invert(share, uniform(self.seed, numbers, step))
        return ranked.indices.gather(1, place[:, None])[:, 0] + EOS

    def keep(self, share: Float[Tensor, "n V"]) -> Float[Tensor, "n kept"]:
        """Shares in falling order with what is left out at 0; they need not sum to 1."""
        if self.top_k is not None:
            share = share[:, : self.top_k]
        if self.top_p is not None:
            share = share / share.sum(dim=1, keepdim=True)
            before = share.cumsum(dim=1) - share
            share = share.masked_fill(before >= self.top_p, 0.0)
        if self.min_p is not None:
            share = share.masked_fill(share < self.min_p * share[:, :1], 0.0)
        return share


def invert(share: Float[Tensor, "n V"], at: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The column in which the running sum of the shares passes `at` of their total; never one with share 0."""
    running = share.cumsum(dim=1)
    place = torch.searchsorted(running, running[:, -1:] * at[:, None], right=True)[:, 0]
    # shares that are NaN are passed nowhere
    return place.clamp(max=share.shape[1] - 1)


def uniform(seed: int, numbers: Int[Tensor, " n"], step: int | Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """A number in [0, 1) for each row at this step, or each at its own."""
    steps = step * signed(GOLDEN) if isinstance(step, Tensor) else signed(step * GOLDEN)
    bits = mixed(mixed(numbers + signed(seed * GOLDEN)) + steps)
    # 52 bits: times a sum, the result stays below the sum
    return shifted(bits, 12).double() * 2.0**-52


GOLDEN = 0x9E3779B97F4A7C15


def signed(number: int) -> int:
    """The last 64 bits of a number, as torch counts them."""
    return (number + 2**63) % 2**64 - 2**63


def shifted(bits: Int[Tensor, " n"], by: int) -> Int[Tensor, " n"]:
    """A shift to the right that brings in zeros."""
    return (bits >> by) & (2 ** (64 - by) - 1)


def mixed(bits: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """SplitMix64's finaliser."""
    bits = bits + signed(GOLDEN)
    bits = (bits ^ shifted(bits, 30)) * signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ shifted(bits, 27)) * signed(0x94D049BB133111EB)
    return bits ^ shifted(bits, 31)


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

    def record(self, tokens: Int[Tensor, " n"]) -> None:
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
