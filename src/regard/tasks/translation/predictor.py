"""The translator: a trained model with its tokenizers.

translator = regard.load("runs/bahdanau")
print(translator.translate(["a man rides a bike ."])[0])
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.contracts import (
    EOS,
    UNK,
    Around,
    DecodingEngine,
    Description,
    Hypothesis,
    Inspection,
    PaddedTokens,
    Report,
    Response,
    Search,
    device_of,
)
from regard.data.corpora import description_of, samples_of
from regard.data.text import Pair, Tokenizers, unknown_in
from regard.decoding import Beam, Greedy, score_all
from regard.metrics import links
from regard.tasks.base import check_pairs, check_texts, parse_text
from regard.tasks.torch_engine import TorchEngine
from regard.tasks.translation.evaluate import BEAM, evaluate
from regard.tasks.translation.inspection import inspect_translation, respond_translation
from regard.tasks.translation.run import LIMIT, LONGEST_SOURCE, TranslationRun


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A translation of one sentence; `str` gives its text.

    `score` ranks hypotheses in the search, `log_prob` is log p(text | source). `source_tokens` end with <eos>; `tokens`
    do if the search finished. `weights` are attention weights of shape (tokens, source_tokens). `links` are pairs of
    (source, target) word indices, or character indices for character tokenizers. Both are None unless requested, and
    for models without attention. `alternatives` are the next best hypotheses. `num_dropped` is the number of source
    tokens beyond the maximum length. `unknown` are the distinct parts of the source that are not in the vocabulary.
    """

    text: str
    score: float = field(default=0.0, repr=False)
    log_prob: float = field(default=0.0, repr=False)
    tokens: tuple[str, ...] = field(default=(), repr=False)
    source_tokens: tuple[str, ...] = field(default=(), repr=False)
    weights: Tensor | None = field(default=None, repr=False, compare=False)
    links: tuple[tuple[int, int], ...] | None = field(default=None, repr=False)
    alternatives: tuple["Translation", ...] = field(default=(), repr=False)
    num_dropped: int = field(default=0, repr=False)
    unknown: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True)
class Translator:
    """A model with its tokenizers and the run that trained it.

    Without an `engine`, torch decodes; `fused=False` then disables fused implementations.
    """

    model: Any
    tokenizers: Tokenizers
    run: TranslationRun
    fused: bool = True
    engine: DecodingEngine | None = None

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int = BEAM,
        num_best: int = 1,
        return_weights: bool = False,
        search: Search | None = None,
    ) -> list[Translation]:
        """Translate each text; an empty text gives an empty translation.

        `search` overrides `beam` and `num_best`. A text over 1,000 tokens is truncated, with a warning.
        """
        translations = self.predict(texts, beam=beam, num_best=num_best, return_weights=return_weights, search=search)
        for number, translation in enumerate(translations, start=1):
            if translation.num_dropped:
                # stacklevel 2: the warning names the line of the caller
                warnings.warn(truncation_warning(f"text {number}", translation.num_dropped), stacklevel=2)
        return translations

    def predict(
        self,
        inputs: Sequence[str],
        *,
        return_weights: bool = False,
        beam: int = BEAM,
        num_best: int = 1,
        search: Search | None = None,
        first: int = 0,
    ) -> list[Translation]:
        """Like `translate`, without a warning about truncated texts; `first` is the index of the first text.

        The index seeds sampling, so that samples do not depend on how a file is split into blocks.
        """
        check_texts(inputs, "texts")
        rows = self.tokenizers.source.encode_batch(inputs)
        # an empty text has no tokens to encode
        numbers = [number for number, row in enumerate(rows) if row]
        hypotheses = self.decoding_engine.decode(
            # one position is for <eos>
            [[*rows[number][: LONGEST_SOURCE - 1], EOS] for number in numbers],
            search if search is not None else make_search(beam, num_best),
            LIMIT,
            return_weights=return_weights,
            # positions among all texts, so that empty ones do not change the samples of others
            numbers=[first + number for number in numbers],
        )
        # empty texts are not decoded
        translations = [Translation(text="") for _ in inputs]
        for number, best in zip(numbers, hypotheses, strict=True):
            outputs = [self.make_translation(rows[number], hypothesis) for hypothesis in best]
            # only sources with <unk> can have unknown parts
            unknown = self.unknown_in(inputs[number]) if UNK in rows[number] else ()
            translations[number] = replace(outputs[0], alternatives=tuple(outputs[1:]), unknown=tuple(unknown))
        return translations

    def make_translation(self, row: list[int], hypothesis: Hypothesis) -> Translation:
        """The translation of a hypothesis; `row` are the source ids before truncation."""
        used = row[: LONGEST_SOURCE - 1]
        source, target = self.tokenizers.source, self.tokenizers.target
        ending = [EOS] if hypothesis.finished else []
        return Translation(
            text=target.decode(hypothesis.ids),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            tokens=tuple(target.tokens([*hypothesis.ids, *ending])),
            source_tokens=tuple(source.tokens([*used, EOS])),
            weights=hypothesis.weights,
            links=link_words(hypothesis, used, self.tokenizers),
            num_dropped=len(row) - len(used),
        )

    def score(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[float]:
        """log p(target <eos> | source) of each pair, in nats."""
        check_pairs(inputs, outputs, ("sources", "targets"))
        sources = self.tokenizers.source.encode_batch(inputs)
        targets = self.tokenizers.target.encode_batch(outputs)
        for number, pair in enumerate(zip(sources, targets, strict=True), start=1):
            # <eos> takes one position on either side
            if max(map(len, pair)) >= LONGEST_SOURCE:
                raise ValueError(
                    f"pair {number} has {max(map(len, pair)):,} tokens on a side, and {LONGEST_SOURCE - 1} can be "
                    f"scored. Split it, or leave it out."
                )
        return score_all(self.model, [[*source, EOS] for source in sources], targets, stack=PaddedTokens.from_lists)

    def evaluate(self, examples: Sequence[Pair], *, split: str, steps: int = 0, beam: int = BEAM) -> Report:
        """BLEU, chrF, exact match, perplexity, and quality by source length."""
        return evaluate(self, examples, self.tokenizers, split=split, beam=beam, steps=steps)

    @property
    def decoding_engine(self) -> DecodingEngine:
        """The given engine, or torch's."""
        return self.engine or TorchEngine(model=self.model, stack=PaddedTokens.from_lists, fused=self.fused)

    def parse(self, data: str | bytes) -> str:
        """A source text; bytes are UTF-8."""
        return parse_text(data)

    def inspect(self, data: str, output: str | None = None, *, max_numbers: int | None = None) -> Inspection:
        """Every attention of the greedy translation, or of a given translation."""
        check_texts([data], "inputs")
        return inspect_translation(self, data, output, max_source=LONGEST_SOURCE, max_numbers=max_numbers)

    def respond(self, inspection: Inspection, around: Around) -> Response:
        """The greedy translation inside `around()`, and the log-probability of the inspection's translation there."""
        return respond_translation(self, inspection, around)

    def samples(self) -> list[str]:
        """Example sources for the corpus of the run."""
        return samples_of(self.run.data)

    def unknown_in(self, text: str, *, is_output: bool = False) -> list[str]:
        """The distinct parts of a source, or of a translation, that are not in its vocabulary."""
        check_texts([text], "texts")
        return unknown_in(text, self.tokenizers.target if is_output else self.tokenizers.source)

    @property
    def description(self) -> Description:
        """What the sources and translations of the corpus are."""
        return description_of(self.run.data)

    @property
    def device(self) -> torch.device:
        """Device of the model's parameters."""
        return device_of(self.model)


def make_search(beam: int, num_best: int = 1) -> Search:
    """Beam search; greedy search for a beam of 1."""
    # a beam of 1 is greedy search with more bookkeeping
    return Greedy() if beam == 1 and num_best == 1 else Beam(size=beam, num_best=num_best)


def link_words(hypothesis: Hypothesis, row: list[int], tokenizers: Tokenizers) -> tuple[tuple[int, int], ...] | None:
    """The source word aligned to each target word; characters for character tokenizers."""
    if hypothesis.weights is None:
        return None
    # links between characters, which are the tokens
    if "characters" in (tokenizers.source.kind, tokenizers.target.kind):
        return tuple(links(hypothesis))
    words = tokenizers.source.words(row), tokenizers.target.words(hypothesis.ids)
    return tuple(links(hypothesis, source_words=words[0], target_words=words[1]))


def truncation_warning(what: str, num_dropped: int) -> str:
    """The warning about a truncated source."""
    return (
        f"{what} has {num_dropped + LONGEST_SOURCE - 1:,} tokens; only the first {LONGEST_SOURCE - 1} were translated."
    )
