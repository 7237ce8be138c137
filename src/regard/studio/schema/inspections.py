"""An inspection: an input, the output for it, every attention on labelled axes, and panels of further results."""

from typing import Literal

from regard.studio.schema.base import LocalizedText, Message, Name, Position, Text


class InspectionRequest(Message):
    """An input for a model; where the model can take one, an output to be forced."""

    model: Name
    text: Text
    output: Text | None = None


class TokenLabel(Message):
    """Tokens first .. last that make whole characters together; a mark such as <eos> is no text."""

    text: str
    first: int
    last: int
    mark: bool


class InspectionAxis(Message):
    """Positions that queries or keys lie on: tokens, cells of a grid (`grid` is rows and columns), or frames.

    Those of an axis that `is_stepwise` are computed one after another.
    """

    name: str
    kind: Literal["tokens", "grid", "frames"]
    title: LocalizedText
    tokens: list[str]
    labels: list[TokenLabel]
    grid: list[int] | None
    is_stepwise: bool


class InspectionSite(Message):
    """One attention inside the model, by its module path, with the axes of its queries and keys.

    Without `has_scores` it is the alignment that the model itself reports, of which the weights alone are known.
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
    """An inspection without its numbers, cached under `id`; the same request gets the same id.

    `forced` says that the output was given. `panels` are the names of further results, each with an endpoint.
    """

    id: str
    model: str
    input: str
    output: str
    forced: bool
    log_prob: float
    num_dropped: int
    axes: list[InspectionAxis]
    sites: list[InspectionSite]
    panels: list[str]
    unknown: list[str]
    milliseconds: float
    milliseconds_per_token: float | None


class TokenPredictions(Message):
    """How probable each token was after those before it; the first has no probability and no rank.

    `rank` counts from 1.
    """

    axis: str
    log_probs: list[float | None]
    ranks: list[int | None]
    perplexity: float | None
    vocab_size: int


class Candidate(Message):
    """A token in the softmax: its logit, e to the power of its distance from the highest, and its probability."""

    id: int
    token: str
    logit: float
    exponential: float
    probability: float
    rank: int


class NextTokens(Message):
    """The most probable tokens after a position, and the one that follows there, if any does.

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
    """One tensor of a model's state: its shape after the last token, and its bytes after each."""

    name: str
    shape: list[int]
    bytes: list[int]


class StateGrowth(Message):
    """Bytes of a model's state after each token: allocated by its tensors, and filled (a cache allocates ahead)."""

    axis: str
    at_start: int
    allocated: list[int]
    filled: list[int]
    parts: list[StateTensor]


class ClassProbability(Message):
    """One class."""

    label: str
    logit: float
    probability: float


class RowOverlap(Message):
    """How alike query rows are: the mean cosine of two of them, that of every pair, and ||A A^T - I||_F^2."""

    cosine: float
    penalty: float
    cosines: list[list[float]]


class ClassProbabilities(Message):
    """The most probable class, all classes in falling order, and the query rows of attention at `site`, if any."""

    label: str
    classes: list[ClassProbability]
    site: str | None
    num_rows: int
    overlap: RowOverlap | None
