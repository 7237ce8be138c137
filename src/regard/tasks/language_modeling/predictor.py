"""A trained model that continues text.

Ids to text as they come: each new token adds to the text, and nothing that was said is taken back.

A trained model that continues a text.

writer = regard.load("runs/gpt")
print(writer.generate(["ROMEO:"], temperature=0.8, top_p=0.95, max_tokens=200)[0])
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.contracts import EOS, Around, Inspection, Report, Response, device_of
from regard.data.corpora import samples_of
from regard.data.text import Tokenizer, encode_text, make_stream, unknown_in
from regard.decoding import Generation, score_continuation, stream
from regard.fused import fuse
from regard.metrics import Likelihood, SpanMass
from regard.tasks.base import check_pairs, check_texts, parse_text
from regard.tasks.language_modeling.evaluate import evaluate_language, finite_likelihood, spans
from regard.tasks.language_modeling.inspection import inspect_text, respond_text
from regard.tasks.language_modeling.run import LanguageModelingRun


class IncrementalDetokenizer:
    """The text of a stream of ids, line by line; what a token adds depends on the token before it in its line."""

    def __init__(self, tokenizer: Tokenizer, ids: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._last = [token for token in ids[-1:] if token != EOS]

    def add(self, token: int) -> str:
        """What the token adds to the text; <eos> is a line's end."""
        if token == EOS:
            self._last = []
            return "\n"
        before, both = (self._tokenizer.decode(ids) for ids in (self._last, [*self._last, token]))
        self._last = [token]
        return both[len(before) :]


class StoppedText:
    """A text that ends before the first of some words; what may yet become one of them is held back."""

    def __init__(self, stop: Sequence[str]) -> None:
        if any(not word for word in stop):
            raise ValueError("a stop string is empty, before which every text would end. Give at least one character.")
        self._stop, self._held = stop, ""
        self.ended = False

    def add(self, text: str) -> str:
        """What can be shown now."""
        whole = self._held + text
        # the word that is whole first, however the text was cut into tokens
        found = [(place + len(word), place) for word in self._stop if (place := whole.find(word)) >= 0]
        if found:
            self.ended, self._held = True, ""
            return whole[: min(found)[1]]
        kept = max((overlap(whole, word) for word in self._stop), default=0)
        self._held = whole[len(whole) - kept :]
        return whole[: len(whole) - kept]

    def rest(self) -> str:
        """What was held back, once nothing more comes."""
        held, self._held = self._held, ""
        return "" if self.ended else held


def overlap(text: str, word: str) -> int:
    """How many characters at the end of the text are the beginning of the word."""
    return next((count for count in range(min(len(word) - 1, len(text)), 0, -1) if text.endswith(word[:count])), 0)


PROMPTS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """How a text goes on. `ended` says why it ended: "tokens", for it has as many as it may, or "stop".

    `log_probs` are the model's own, one a token. `unknown` is what of the prompt the vocabulary does not know.
    """

    prompt: str
    text: str
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    ended: str
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.prompt + self.text


@dataclass(frozen=True)
class TokenOutput:
    """Text that was added to one of several continuations, and whether that ended there."""

    number: int
    text: str
    token: str
    log_prob: float
    ended: str | None


@dataclass(frozen=True, kw_only=True)
class TextGenerator:
    """A model with its tokenizer; `run` is what it was trained by. `fused=False` runs the model's own code only."""

    model: Any
    tokenizer: Tokenizer
    run: LanguageModelingRun
    fused: bool = True

    def generate(self, prompts: Sequence[str], *, stop: Sequence[str] = (), **options: Any) -> list[Continuation]:
        """How each prompt goes on, each as if alone; an empty one begins a new text.

        `options` are those of regard.decoding.Generation: temperature, top_k, top_p, min_p, repetition_penalty, seed,
        max_tokens. A text ends before the first of the `stop` strings.
        """
        ids, chosen = self._check_inputs(prompts, stop, options)
        texts, said = ["" for _ in prompts], [list[TokenOutput]() for _ in prompts]
        # of like length together: a row whose prompt goes on longer is told its own tokens one by one
        order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        for first in range(0, len(order), PROMPTS_AT_ONCE):
            for piece in self._stream(ids, order[first : first + PROMPTS_AT_ONCE], stop, chosen):
                texts[piece.number] += piece.text
                said[piece.number].append(piece)
        return [
            Continuation(
                prompt=prompt,
                text=text,
                tokens=tuple(piece.token for piece in pieces),
                log_probs=tuple(piece.log_prob for piece in pieces),
                ended=next((piece.ended for piece in pieces if piece.ended), "tokens"),
                unknown=tuple(unknown_in(prompt, self.tokenizer)),
            )
            for prompt, text, pieces in zip(prompts, texts, said, strict=True)
        ]

    def predict(self, inputs: Sequence[str], *, return_weights: bool = False, **options: Any) -> list[Continuation]:
        """As `generate`. The weights of a generation are in `inspect`."""
        if return_weights:
            raise ValueError("a continuation has no weights of its own. Leave return_weights out, or call inspect.")
        return self.generate(inputs, **options)

    def score(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[float]:
        """log p(continuation | prompt) of each pair, in nats; the two are encoded by themselves."""
        check_pairs(inputs, outputs, ("prompts", "continuations"))
        pairs = zip(inputs, outputs, strict=True)
        return [
            score_continuation(self.model, self.encode(prompt), encode_text(text, self.tokenizer))
            for prompt, text in pairs
        ]

    def evaluate(self, examples: str, *, split: str, steps: int = 0, rows: int = 1, crops: int | None = None) -> Report:
        """Perplexity of a text, and how far back the model attends; `rows` and `crops` as of evaluate_language."""
        return evaluate_language(self, examples, self.tokenizer, split=split, steps=steps, rows=rows, crops=crops)

    def stream(self, prompts: Sequence[str], *, stop: Sequence[str] = (), **options: Any) -> Iterator[TokenOutput]:
        """The same as it comes, token by token; pieces of several prompts take turns."""
        ids, chosen = self._check_inputs(prompts, stop, options)
        return self._stream(ids, range(len(ids)), stop, chosen)

    def _check_inputs(
        self, prompts: Sequence[str], stop: Sequence[str], options: dict[str, Any]
    ) -> tuple[list[list[int]], Generation]:
        check_texts(prompts, "prompts")
        check_texts(stop, "stop")
        StoppedText(stop)
        # a line's end is a token like any other; whoever wants one line stops at "\n"
        return [self.encode(prompt) for prompt in prompts], Generation(**{"stop_ids": (), **options})

    def _stream(
        self, ids: list[list[int]], numbers: Sequence[int], stop: Sequence[str], options: Generation
    ) -> Iterator[TokenOutput]:
        """Of those prompts that are numbered, side by side."""
        rows = [ids[number] for number in numbers]
        texts = [(IncrementalDetokenizer(self.tokenizer, row), StoppedText(stop)) for row in rows]
        closed: set[int] = set()
        for step in stream(self.decoder, rows, options, numbers=numbers, closed=closed):
            for said in step:
                unfolding, text = texts[said.row]
                new = text.add(unfolding.add(said.token))
                ended = "stop" if text.ended else said.ended
                if ended is not None:
                    new += text.rest()
                    closed.add(said.row)
                token = self.tokenizer.tokens([said.token])[0]
                yield TokenOutput(numbers[said.row], new, token, float(said.log_prob or 0.0), ended)

    def encode(self, prompt: str) -> list[int]:
        """A prompt's ids; without any it is the end of a line, behind which a text begins."""
        return encode_text(prompt, self.tokenizer) or [EOS]

    def unknown_in(self, text: str) -> list[str]:
        """What of a text the vocabulary does not know, each once."""
        check_texts([text], "texts")
        return unknown_in(text, self.tokenizer)

    def likelihood(self, text: str) -> Likelihood:
        """How likely the model finds a text, every token given all before it."""
        check_texts([text], "texts")
        return finite_likelihood(self.model, make_stream(text, self.tokenizer))

    def spans(self, text: str) -> dict[str, SpanMass]:
        """How far back every attention of the model reaches in the first 4,096 tokens of a text, by module path."""
        check_texts([text], "texts")
        return spans(self.model, make_stream(text, self.tokenizer))

    def parse(self, data: str | bytes) -> str:
        """A text to continue; bytes are UTF-8."""
        return parse_text(data)

    def inspect(self, data: str, output: str | None = None, *, max_numbers: int | None = None) -> Inspection:
        """Every attention over the text, its next-token predictions and the growth of the state."""
        check_texts([data], "inputs")
        if output is not None:
            raise ValueError("a language model has no output beside its text. Leave the output out.")
        return inspect_text(self, data, context=self._context, max_numbers=max_numbers)

    def respond(self, inspection: Inspection, around: Around) -> Response:
        """The next tokens inside `around()`, and the log-probability of the text there."""
        return respond_text(self, inspection, around, context=self._context)

    def samples(self) -> list[str]:
        """Beginnings that fit the corpus."""
        return samples_of(self.run.data)

    @property
    def _context(self) -> int | None:
        return getattr(self.run.model, "context", None)

    @property
    def decoder(self) -> Any:
        """The model, or its fused implementation."""
        return fuse(self.model) if self.fused else self.model

    @property
    def device(self) -> torch.device:
        """Device of the model's parameters."""
        return device_of(self.model)
