"""Sampling: the next token is drawn from the model's distribution.

    y_t ~ softmax(logits / temperature), restricted by top_k, top_p and min_p

Top-k, the k most probable tokens: Fan, Lewis and Dauphin 2018. https://arxiv.org/abs/1805.04833
Top-p (nucleus), the fewest most probable tokens that hold a share p of the probability: Holtzman et al. 2020.
https://arxiv.org/abs/1904.09751 With both, top-p applies to what top-k leaves.
Min-p, the tokens at least p times as probable as the best: Nguyen et al. 2024. https://arxiv.org/abs/2407.01082
Repetition penalty: tokens that the text contains become less probable; positive logits are divided by the penalty,
negative ones multiplied. Keskar et al. 2019, section 4.1 (CTRL). https://arxiv.org/abs/1909.05858
The order is: repetition penalty, temperature, top_k, top_p, min_p.

The one random number of a step depends on the seed, the number of the source and the step, and on nothing else: a
source has the same sample in any batch. It is computed by SplitMix64 (Steele, Lea and Flood 2014,
https://doi.org/10.1145/2660193.2660195) in integers, so a CPU and a GPU draw the same number.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.contracts import EOS, Hypothesis, SearchInput
from regard.decoding.greedy import decode_loop
from regard.decoding.ops import best_column


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """One sample for each source. `log_prob` and `score` are the model's own, before temperature and restrictions."""

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

    def run(self, inputs: SearchInput) -> list[list[Hypothesis]]:
        """One hypothesis for each source."""
        return decode_loop(inputs, self.draw)

    def draw(
        self, logits: Float[Tensor, "n vocab"], numbers: Int[Tensor, " n"], step: int | Int[Tensor, " n"]
    ) -> Int[Tensor, " n"]:
        """The next token of each source; never <pad> or <bos>, the first two columns."""
        # double precision: running sums over a large vocabulary keep the digits that decide a draw
        candidates = logits[:, EOS:].double()
        # relative to the best logit: a low temperature makes -inf of the others, never inf of several
        scaled = (candidates - candidates.amax(dim=1, keepdim=True)) / self.temperature
        if self.top_k is None and self.top_p is None and self.min_p is None:
            return invert_cdf(scaled.softmax(dim=1), uniform(self.seed, numbers, step)) + EOS
        # a stable sort: equal logits are ranked by their ids, on a CPU and on a GPU
        ranked = scaled.sort(dim=1, descending=True, stable=True)
        shares = self.restrict(ranked.values.softmax(dim=1))
        ranks = invert_cdf(shares, uniform(self.seed, numbers, step))
        return ranked.indices.gather(1, ranks[:, None])[:, 0] + EOS

    def restrict(self, shares: Float[Tensor, "n V"]) -> Float[Tensor, "n left"]:
        """Shares in descending order, 0 for those left out; they need not sum to 1."""
        if self.top_k is not None:
            # columns are ranked, so the first k are the most probable
            shares = shares[:, : self.top_k]
        if self.top_p is not None:
            # top_k may have left out a part of the probability
            shares = shares / shares.sum(dim=1, keepdim=True)
            # a token stays if the more probable ones hold less than top_p together: the best always stays
            preceding = shares.cumsum(dim=1) - shares
            shares = shares.masked_fill(preceding >= self.top_p, 0.0)
        if self.min_p is not None:
            shares = shares.masked_fill(shares < self.min_p * shares[:, :1], 0.0)
        return shares


def invert_cdf(shares: Float[Tensor, "n V"], quantiles: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The column where the running sum of the shares exceeds this part of their total; never one with share 0."""
    sums = shares.cumsum(dim=1)
    # right=True: a quantile equal to a running sum belongs to the next column, so shares of 0 are skipped
    columns = torch.searchsorted(sums, sums[:, -1:] * quantiles[:, None], right=True)[:, 0]
    # a sum of NaN exceeds nothing: the result is one past the last column
    return columns.clamp(max=shares.shape[1] - 1)


def uniform(seed: int, numbers: Int[Tensor, " n"], step: int | Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """A number in [0, 1) for each source at this step, or each at a step of its own."""
    # int64 wraps around on overflow, which is the arithmetic modulo 2^64 that SplitMix64 needs
    offsets = step * as_int64(GOLDEN) if isinstance(step, Tensor) else as_int64(step * GOLDEN)
    bits = mix(mix(numbers + as_int64(seed * GOLDEN)) + offsets)
    # 52 bits: a product with a sum is still below the sum after rounding
    return shift_right(bits, 12).double() * 2.0**-52


GOLDEN = 0x9E3779B97F4A7C15
"""SplitMix64's increment: 2^64 divided by the golden ratio."""


def as_int64(number: int) -> int:
    """The last 64 bits of a number as a signed integer, which torch's int64 holds."""
    return (number + 2**63) % 2**64 - 2**63


def shift_right(bits: Int[Tensor, " n"], count: int) -> Int[Tensor, " n"]:
    """A logical shift to the right; torch's own is arithmetic."""
    return (bits >> count) & (2 ** (64 - count) - 1)


def mix(bits: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """SplitMix64's finaliser."""
    bits = bits + as_int64(GOLDEN)
    bits = (bits ^ shift_right(bits, 30)) * as_int64(0xBF58476D1CE4E5B9)
    bits = (bits ^ shift_right(bits, 27)) * as_int64(0x94D049BB133111EB)
    return bits ^ shift_right(bits, 31)


MAX_PENALTY = 1e6
"""Of the repetition penalty and of its inverse: larger ones make infinities of logits."""


@dataclass(frozen=True, kw_only=True)
class Generation:
    """How a text is continued. A temperature of 0 always takes the best token, and the restrictions have no effect.

    A text ends after `max_tokens` new tokens, or with one of `stop_ids`.
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
        if not 1 / MAX_PENALTY <= self.repetition_penalty <= MAX_PENALTY:
            raise ValueError(
                f"repetition_penalty is {self.repetition_penalty}, expected a number above 0, from "
                f"{1 / MAX_PENALTY:g} to {MAX_PENALTY:g}: 1.0 changes nothing, 1.2 repeats less."
            )
        # checks the other options
        self.sampling()

    def sampling(self) -> Sampling:
        """The draw of one token."""
        temperature = self.temperature or 1.0
        return Sampling(temperature=temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p, seed=self.seed)


class TokenSampler:
    """Chooses the next token of every text in a batch, and records the tokens of each for the repetition penalty."""

    def __init__(
        self, options: Generation, *, numbers: Int[Tensor, " n"], texts: Int[Tensor, "n L"], vocab_size: int
    ) -> None:
        self.options, self.sampling, self.numbers = options, options.sampling(), numbers
        self.used: Bool[Tensor, "n vocab"] | None = None
        if options.repetition_penalty != 1:
            unused = torch.zeros(len(texts), vocab_size, dtype=torch.bool, device=texts.device)
            # padding marks <pad> as used, which is never chosen anyway
            self.used = unused.scatter_(1, texts, True)

    def __call__(self, logits: Float[Tensor, "n vocab"], steps: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """The next token of each text; `steps` count its own new tokens, so that it has the same draws in any batch."""
        if self.used is not None:
            logits = torch.where(self.used, penalize(logits, self.options.repetition_penalty), logits)
        if self.options.temperature == 0:
            return best_column(logits[:, EOS:]) + EOS
        return self.sampling.draw(logits, self.numbers, steps)

    def record(self, tokens: Int[Tensor, " n"]) -> None:
        """The tokens that the texts continue with: those of `__call__`, or of their prompts."""
        if self.used is not None:
            self.used.scatter_(1, tokens[:, None], True)

    def select(self, rows: Int[Tensor, " left"]) -> None:
        """Leave out all other texts."""
        self.numbers = self.numbers.index_select(0, rows)
        if self.used is not None:
            self.used = self.used.index_select(0, rows)


def penalize(logits: Float[Tensor, "n vocab"], penalty: float) -> Float[Tensor, "n vocab"]:
    """Every logit with the penalty applied."""
    return torch.where(logits > 0, logits / penalty, logits * penalty)
