"""The text generator: a trained language model with its tokenizer.

generator = regard.load("runs/gpt")
print(generator.generate(["ROMEO:"], temperature=0.8, top_p=0.95, max_tokens=200)[0])
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.contracts import EOS, Around, Description, Inspection, Report, Response, device_of
from regard.data.corpora import description_of, samples_of
from regard.data.text import Tokenizer, encode_text, make_stream, unknown_in
from regard.decoding import Generation, score_continuation, stream
from regard.fused import fuse
from regard.metrics import Likelihood, SpanMass
from regard.tasks.base import check_pairs, check_texts, parse_text
from regard.tasks.language_modeling.evaluate import evaluate_text, finite_likelihood, spans
from regard.tasks.language_modeling.inspection import inspect_text, respond_text
from regard.tasks.language_modeling.run import LanguageModelingRun


class IncrementalDetokenizer:
    """Converts a stream of ids to text. A token is decoded together with the previous token of its line."""

    def __init__(self, tokenizer: Tokenizer, ids: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        # at the beginning of a line no token comes before
        self._last = [token for token in ids[-1:] if token != EOS]

    def add(self, token: int) -> str:
        """The text that the token adds; <eos> is a line break."""
        if token == EOS:
            self._last = []
            return "\n"
        # decoded after the previous token, because the space between two tokens depends on both
        before, both = (self._tokenizer.decode(ids) for ids in (self._last, [*self._last, token]))
        self._last = [token]
        return both[len(before) :]


class StoppedText:
    """Ends a stream of text before the first stop string; a possible beginning of one is held back."""

    def __init__(self, stop: Sequence[str]) -> None:
        # str.find would find it everywhere
        if any(not word for word in stop):
            raise ValueError("a stop string is empty, which would end every text. Give at least one character.")
        self._stop, self._held = stop, ""
        self.ended = False

    def add(self, text: str) -> str:
        """The text that can be shown now."""
        # a stop string may be divided between tokens
        whole = self._held + text
        # the stop string that is complete first, so that the result does not depend on token boundaries
        matches = [(start + len(word), start) for word in self._stop if (start := whole.find(word)) >= 0]
        if matches:
            self.ended, self._held = True, ""
            return whole[: min(matches)[1]]
        # the longest end that may become a stop string with the next tokens
        num_held = max((overlap(whole, word) for word in self._stop), default=0)
        self._held = whole[len(whole) - num_held :]
        return whole[: len(whole) - num_held]

    def rest(self) -> str:
        """The text that is still held back; called at the end of the stream."""
        held, self._held = self._held, ""
        return "" if self.ended else held


def overlap(text: str, word: str) -> int:
    """Number of characters at the end of the text that are a proper prefix of the word."""
    # from the longest; a complete word is found before this
    return next((count for count in range(min(len(word) - 1, len(text)), 0, -1) if text.endswith(word[:count])), 0)


PROMPTS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """The continuation of a prompt. `ended` is "tokens" (maximum length) or "stop" (a stop string or token).

    `log_probs` are the model's log-probabilities of the tokens. `unknown` are the parts of the prompt that are not in
    the vocabulary.
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
class StreamedToken:
    """One token of one continuation: its text, and the reason if the continuation ended with it."""

    number: int
    text: str
    token: str
    log_prob: float
    ended: str | None


@dataclass(frozen=True, kw_only=True)
class TextGenerator:
    """A model with its tokenizer and the run that trained it. `fused=False` disables fused implementations."""

    model: Any
    tokenizer: Tokenizer
    run: LanguageModelingRun
    fused: bool = True

    def generate(self, prompts: Sequence[str], *, stop: Sequence[str] = (), **options: Any) -> list[Continuation]:
        """Continue each prompt independently; an empty prompt begins a new text.

        `options` are those of regard.decoding.Generation: temperature, top_k, top_p, min_p, repetition_penalty, seed,
        max_tokens. A text ends before the first of the `stop` strings.
        """
        ids, generation = self._check_inputs(prompts, stop, options)
        texts, outputs = ["" for _ in prompts], [list[StreamedToken]() for _ in prompts]
        # batched by length: the rest of a longer prompt is fed token by token, beside generated tokens
        order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        for first in range(0, len(order), PROMPTS_AT_ONCE):
            for output in self._stream(ids, order[first : first + PROMPTS_AT_ONCE], stop, generation):
                texts[output.number] += output.text
                outputs[output.number].append(output)
        return [
            Continuation(
                prompt=prompt,
                text=text,
                tokens=tuple(output.token for output in own),
                log_probs=tuple(output.log_prob for output in own),
                ended=next((output.ended for output in own if output.ended), "tokens"),
                unknown=tuple(unknown_in(prompt, self.tokenizer)),
            )
            for prompt, text, own in zip(prompts, texts, outputs, strict=True)
        ]

    def predict(self, inputs: Sequence[str], *, return_weights: bool = False, **options: Any) -> list[Continuation]:
        """Like `generate`; `inspect` gives the attention weights of a text."""
        if return_weights:
            raise ValueError("a continuation has no weights of its own. Leave return_weights out, or call inspect.")
        return self.generate(inputs, **options)

    def score(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[float]:
        """log p(continuation | prompt) of each pair, in nats; the two are encoded separately."""
        check_pairs(inputs, outputs, ("prompts", "continuations"))
        pairs = zip(inputs, outputs, strict=True)
        return [
            score_continuation(self.model, self.encode(prompt), encode_text(text, self.tokenizer))
            for prompt, text in pairs
        ]

    def evaluate(self, examples: str, *, split: str, steps: int = 0, rows: int = 1, crops: int | None = None) -> Report:
        """Perplexity of a text and attention weight by distance; `rows` and `crops` as in evaluate_text."""
        return evaluate_text(self, examples, self.tokenizer, split=split, steps=steps, rows=rows, crops=crops)

    def stream(self, prompts: Sequence[str], *, stop: Sequence[str] = (), **options: Any) -> Iterator[StreamedToken]:
        """Like `generate`, token by token; the outputs of several prompts are interleaved."""
        ids, generation = self._check_inputs(prompts, stop, options)
        return self._stream(ids, range(len(ids)), stop, generation)

    def _check_inputs(
        self, prompts: Sequence[str], stop: Sequence[str], options: dict[str, Any]
    ) -> tuple[list[list[int]], Generation]:
        check_texts(prompts, "prompts")
        check_texts(stop, "stop")
        # raises ValueError for an empty stop string, before anything is generated
        StoppedText(stop)
        # <eos> is a line break and does not end a text; stop=["\n"] generates one line
        return [self.encode(prompt) for prompt in prompts], Generation(**{"stop_ids": (), **options})

    def _stream(
        self, ids: list[list[int]], numbers: Sequence[int], stop: Sequence[str], options: Generation
    ) -> Iterator[StreamedToken]:
        """Generate for the prompts of these numbers, as one batch."""
        rows = [ids[number] for number in numbers]
        texts = [(IncrementalDetokenizer(self.tokenizer, row), StoppedText(stop)) for row in rows]
        # shared with the stream, which stops generating for the batch elements added to it
        closed: set[int] = set()
        for step in stream(self.decoder, rows, options, numbers=numbers, closed=closed):
            for one in step:
                detokenizer, text = texts[one.row]
                new = text.add(detokenizer.add(one.token))
                ended = "stop" if text.ended else one.ended
                if ended is not None:
                    # nothing follows that could complete a stop string
                    new += text.rest()
                    closed.add(one.row)
                token = self.tokenizer.tokens([one.token])[0]
                yield StreamedToken(numbers[one.row], new, token, float(one.log_prob or 0.0), ended)

    def encode(self, prompt: str) -> list[int]:
        """The ids of a prompt; for an empty prompt a line break, after which a text begins."""
        return encode_text(prompt, self.tokenizer) or [EOS]

    def unknown_in(self, text: str, *, is_output: bool = False) -> list[str]:
        """The distinct parts of a text that are not in the vocabulary, which prompts and continuations share."""
        check_texts([text], "texts")
        return unknown_in(text, self.tokenizer)

    def likelihood(self, text: str) -> Likelihood:
        """The likelihood of a text, each token given all tokens before it."""
        check_texts([text], "texts")
        return finite_likelihood(self.model, make_stream(text, self.tokenizer))

    def spans(self, text: str) -> dict[str, SpanMass]:
        """Attention weight by distance in the first 4,096 tokens of a text, by module path."""
        check_texts([text], "texts")
        return spans(self.model, make_stream(text, self.tokenizer))

    def parse(self, data: str | bytes) -> str:
        """A text to continue; bytes are UTF-8."""
        return parse_text(data)

    def inspect(self, data: str, output: str | None = None, *, max_numbers: int | None = None) -> Inspection:
        """Every attention over the text, next-token predictions, and the size of the state."""
        check_texts([data], "inputs")
        if output is not None:
            raise ValueError("a language model has no output apart from its text. Leave out the output.")
        return inspect_text(self, data, max_numbers=max_numbers)

    def respond(self, inspection: Inspection, around: Around) -> Response:
        """The next tokens inside `around()`, and the log-probability of the text there."""
        return respond_text(self, inspection, around, context=self._context)

    def samples(self) -> list[str]:
        """Example prompts for the corpus of the run."""
        return samples_of(self.run.data)

    @property
    def description(self) -> Description:
        """What the texts of the corpus are."""
        return description_of(self.run.data)

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
