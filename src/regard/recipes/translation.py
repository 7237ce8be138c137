"""A translation: the output of a translator for one sentence."""

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A sentence translated; it prints as its text.

    `score` is what the search ranks by, `log_prob` is log p(text | source). `source_tokens` end with <eos>, and so do
    `tokens` where the model came to an end. `attention` has a row for each of `tokens` and a column for each of
    `source_tokens`; `links` are (source, target) words counted from 0, or characters where the tokens are characters.
    Both are None where not asked for, or where the model does not attend. `alternatives` are the next best.
    `num_dropped` source tokens were past the longest that is read.
    """

    text: str
    score: float = field(default=0.0, repr=False)
    log_prob: float = field(default=0.0, repr=False)
    tokens: tuple[str, ...] = field(default=(), repr=False)
    source_tokens: tuple[str, ...] = field(default=(), repr=False)
    attention: Tensor | None = field(default=None, repr=False, compare=False)
    links: tuple[tuple[int, int], ...] | None = field(default=None, repr=False)
    alternatives: tuple["Translation", ...] = field(default=(), repr=False)
    num_dropped: int = field(default=0, repr=False)

    def __str__(self) -> str:
        return self.text
