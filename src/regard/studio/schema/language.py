"""A text as a language model reads it: what it expects behind every token, what it keeps, and how it goes on."""

from typing import Annotated

from pydantic import Field

from regard.studio.schema.base import Message, Name, Text

MOST_TOKENS = 200


class StatePart(Message):
    """One tensor of what the model keeps: its shape after the last token, and its bytes after each."""

    name: str
    shape: list[int]
    bytes: list[int]


class Reading(Message):
    """A text, token by token. The first token is expected behind nothing, so it has no probability and no rank.

    `rank` counts from 1. `taken` is what the state's tensors take after each token, `filled` what of it is filled: a
    cache takes room ahead. `unknown` is what of the text the vocabulary does not know.
    """

    log_probs: list[float | None]
    ranks: list[int | None]
    perplexity: float | None
    vocab_size: int
    at_start: int
    taken: list[int]
    filled: list[int]
    parts: list[StatePart]
    unknown: list[str]


class Candidate(Message):
    """A token on its way through the softmax: its logit, e to how far that lies below the highest, and its share."""

    id: int
    token: str
    logit: float
    exponential: float
    probability: float
    rank: int


class NextTokens(Message):
    """What is expected behind one token: the most probable ones, and the one that really follows, if any does.

    exponential = e^(logit - highest), probability = exponential / total; `total` is over the whole vocabulary, and the
    entropy is in nats.
    """

    place: int
    highest: float
    total: float
    entropy: float
    vocab_size: int
    candidates: list[Candidate]
    true: Candidate | None
    address: str
    snippet: str


class GenerateRequest(Message):
    """Go on with a text; a temperature of 0 always takes the most probable token. An empty text begins a new one."""

    model: Name
    text: Text
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 20
    temperature: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0


class WrittenToken(Message):
    """A token that was drawn, the text that it adds, and how probable the model itself finds it."""

    token: str
    text: str
    log_prob: float


class GenerateAnswer(Message):
    """How the text goes on."""

    text: str
    tokens: list[WrittenToken]
    unknown: list[str]
    milliseconds: float
