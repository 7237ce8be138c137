"""Messages of an inspection: input, output, every attention on labelled axes, and panels of further results."""

from typing import Literal

from regard.studio.schema.base import LocalizedText, Message, Name, Position, Text


class InspectionRequest(Message):
    """An input for a model, and optionally an output to force."""

    model: Name
    text: Text
    output: Text | None = None


class TokenLabel(Message):
    """Tokens first .. last that form whole characters; a mark is a special token such as <eos>."""

    text: str
    first: int
    last: int
    mark: bool


class InspectionAxis(Message):
    """The positions of queries or keys: tokens, cells of a grid (`grid` is rows and columns), or frames.

    The positions of a stepwise axis are computed one after another. `unknown` are the positions of tokens outside the
    vocabulary (<unk>). `texts` are the characters that the user wrote for each token, '' for a special token; it is
    empty if the tokens were predicted.
    """

    name: str
    kind: Literal["tokens", "grid", "frames"]
    title: LocalizedText
    tokens: list[str]
    texts: list[str]
    unknown: list[int]
    labels: list[TokenLabel]
    grid: list[int] | None
    is_stepwise: bool


class InspectionSite(Message):
    """An attention of the model by module path, with the axes of its queries and keys.

    Without `has_scores` it is the alignment that the model reports, which has weights only.
    """

    path: str
    layer: str
    heads: int
    queries: str
    keys: str
    score: str | None
    align: str | None
    is_causal: bool
    is_stepwise: bool
    has_scores: bool


class InspectionMessage(Message):
    """An inspection without its numbers, cached under `id`; the same request has the same id.

    `forced`: the output was given in the request. `num_dropped`: tokens that were left out of a text that is too long,
    the first ones if `drops_start`, otherwise the last. `panels` names further results, each with an endpoint.
    """

    id: str
    model: str
    input: str
    output: str
    forced: bool
    log_prob: float
    num_dropped: int
    drops_start: bool
    axes: list[InspectionAxis]
    sites: list[InspectionSite]
    panels: list[str]
    unknown: list[str]
    milliseconds: float
    milliseconds_per_token: float | None


class TokenPredictions(Message):
    """The log-probability and rank of each token given those before it; None for the first. Ranks count from 1."""

    axis: str
    log_probs: list[float | None]
    ranks: list[int | None]
    perplexity: float | None
    vocab_size: int


class Candidate(Message):
    """A token of the vocabulary with its logit, e^(logit - highest), and probability."""

    id: int
    token: str
    logit: float
    exponential: float
    probability: float
    rank: int


class NextTokens(Message):
    """The most probable tokens after a position, and the token that follows in the text, if any.

    exponential = e^(logit - highest), probability = exponential / total; `total` is over the whole vocabulary, and the
    entropy is in nats.
    """

    position: Position
    highest: float
    total: float
    entropy: float
    vocab_size: int
    candidates: list[Candidate]
    true: Candidate | None
    address: str
    snippet: str | None


class StateTensor(Message):
    """A tensor of the state: its shape after the last token, and its bytes after each token."""

    name: str
    shape: list[int]
    bytes: list[int]


class StateGrowth(Message):
    """Bytes of the state after each token: allocated, and filled (a preallocated cache is filled gradually)."""

    axis: str
    at_start: int
    allocated: list[int]
    filled: list[int]
    parts: list[StateTensor]


class ClassProbability(Message):
    """A class with its logit and probability; `name` is None for a class that has a label only."""

    label: str
    name: LocalizedText | None
    logit: float
    probability: float


class RowOverlap(Message):
    """The similarity of query rows: their mean cosine, that of every pair, and ||A A^T - I||_F^2."""

    cosine: float
    penalty: float
    cosines: list[list[float]]


class ClassProbabilities(Message):
    """The most probable class, all classes in falling order, and the query rows of attention at `site`, if any."""

    label: str
    name: LocalizedText | None
    classes: list[ClassProbability]
    site: str | None
    num_rows: int
    overlap: RowOverlap | None
