"""A trained model that takes text and gives text.

translator = regard.load("runs/bahdanau")
print(translator.translate(["a man rides a bike ."])[0])
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.contracts import EOS
from regard.data import Tokenizers
from regard.decoding import Beam, Greedy, Hypothesis, Search, decode_all, device_of, links, score_all
from regard.fused import fuse
from regard.recipes.run import Run
from regard.recipes.translation import Translation

LONGEST_SOURCE = 1000
"""Source tokens that are read of a text."""

TOKENS_PER_BATCH = 4096
"""Source tokens times hypotheses that are searched at once."""


@dataclass(frozen=True, kw_only=True)
class Translator:
    """A model with its tokenizers; `config` is the run that made it. `fused=False` uses the model's own code only."""

    model: Any
    tokenizers: Tokenizers
    config: Run
    fused: bool = True

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int = 5,
        num_best: int = 1,
        return_attention: bool = False,
        search: Search | None = None,
    ) -> list[Translation]:
        """A translation of each text; an empty text gives an empty one.

        `search` takes the place of a beam of this size. A text of over 1,000 tokens is cut off there, with a warning.
        """
        check_texts(texts, "texts")
        chosen = search if search is not None else make_search(beam, num_best)
        found = self.answer(texts, chosen, return_attention=return_attention)
        for number, translation in enumerate(found, start=1):
            if translation.num_dropped:
                warnings.warn(cut_off(f"text {number}", translation.num_dropped), stacklevel=2)
        return found

    def answer(
        self, texts: Sequence[str], search: Search, *, return_attention: bool, first: int = 0
    ) -> list[Translation]:
        """What `translate` gives, without a warning about what was too long; `first` is the first text's number.

        Samples are drawn by number, so that they do not depend on how a long text was cut into blocks.
        """
        rows = self.tokenizers.source.encode_batch(texts)
        numbers = [number for number, row in enumerate(rows) if row]
        hypotheses = decode_all(
            self.decoder,
            [[*rows[number][: LONGEST_SOURCE - 1], EOS] for number in numbers],
            search=search,
            tokens_per_batch=max(TOKENS_PER_BATCH // getattr(search, "size", 1), 1),
            return_alignment=return_attention,
            numbers=[first + number for number in numbers],
        )
        found = [Translation(text="") for _ in texts]
        for number, answers in zip(numbers, hypotheses, strict=True):
            made = [self.say(rows[number], answer) for answer in answers]
            found[number] = replace(made[0], alternatives=tuple(made[1:]))
        return found

    def say(self, row: list[int], hypothesis: Hypothesis) -> Translation:
        """A hypothesis as text."""
        kept = row[: LONGEST_SOURCE - 1]
        source, target = self.tokenizers.source, self.tokenizers.target
        ending = [EOS] if hypothesis.finished else []
        return Translation(
            text=target.decode(hypothesis.ids),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            tokens=tuple(target.tokens([*hypothesis.ids, *ending])),
            source_tokens=tuple(source.tokens([*kept, EOS])),
            attention=hypothesis.alignment,
            links=link_words(hypothesis, kept, self.tokenizers),
            num_dropped=len(row) - len(kept),
        )

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """log p(target | source) of each pair, in nats, the end of the target included."""
        check_texts(sources, "sources")
        check_texts(targets, "targets")
        if len(sources) != len(targets):
            raise ValueError(f"there are {len(sources)} sources and {len(targets)} targets. Give one target a source.")
        read, said = self.tokenizers.source.encode_batch(sources), self.tokenizers.target.encode_batch(targets)
        for number, pair in enumerate(zip(read, said, strict=True), start=1):
            if max(map(len, pair)) >= LONGEST_SOURCE:
                raise ValueError(
                    f"pair {number} has {max(map(len, pair)):,} tokens on a side, and {LONGEST_SOURCE - 1} can be "
                    f"scored. Split it, or leave it out."
                )
        return score_all(self.model, [[*row, EOS] for row in read], said)

    @property
    def decoder(self) -> Any:
        """The model, or its fused implementation."""
        return fuse(self.model) if self.fused else self.model

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)


def make_search(beam: int, num_best: int = 1) -> Search:
    """A beam of this size; of one, greedy search."""
    return Greedy() if beam == 1 and num_best == 1 else Beam(size=beam, num_best=num_best)


def link_words(hypothesis: Hypothesis, row: list[int], tokenizers: Tokenizers) -> tuple[tuple[int, int], ...] | None:
    """Which source word each target word was written from; characters where the tokens are characters."""
    if hypothesis.alignment is None:
        return None
    if "characters" in (tokenizers.source.kind, tokenizers.target.kind):
        return tuple(links(hypothesis))
    words = tokenizers.source.words(row), tokenizers.target.words(hypothesis.ids)
    return tuple(links(hypothesis, source_words=words[0], target_words=words[1]))


def check_texts(texts: Sequence[str], name: str) -> None:
    """A list of sentences, not one sentence, and each of whole characters."""
    if isinstance(texts, str):
        raise ValueError(f"{name} is one string, expected a list of them. Write [{name}].")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise ValueError(f"number {number} of the {name} is a {type(text).__name__}, expected a string.")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = f"character {error.start + 1} of number {number} of the {name} is half a one"
            raise ValueError(f"{half}: {text[error.start]!r}. Give text in UTF-8.") from None


def cut_off(what: str, num_dropped: int) -> str:
    """That a source was too long."""
    return (
        f"{what} has {num_dropped + LONGEST_SOURCE - 1:,} tokens; only the first {LONGEST_SOURCE - 1} were translated."
    )
