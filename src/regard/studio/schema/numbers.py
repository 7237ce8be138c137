"""Numbers of an inspection: one query through the pipeline, a swap, the heads."""

from typing import Annotated

from pydantic import Field

from regard.studio.schema.base import Head, LocalizedText, Message, Name, Position


class Computed(Message):
    """One query through the pipeline. Keys and dimensions that were not asked for are left out."""

    address: str
    score: str
    score_formula: str
    align: str
    align_formula: str
    query: list[float]
    size: int
    value_size: int
    num_keys: int
    first_key: int
    first_dimension: int
    keys: list[list[float]]
    values: list[list[float]]
    scores: list[float]
    allowed: list[bool] | None
    weights: list[float]
    context: list[float]
    projected: bool


class Input(Message):
    """One of the numbers that a number is made of; `values` where it is a vector, cut off after a few."""

    name: str
    address: str
    values: list[float]
    count: int


class Number(Message):
    """A number with where it stands, how it comes about, and code that makes it again."""

    value: float
    address: str
    formula: str
    inputs: list[Input]
    snippet: str


class Option(Message):
    """One choice of a swap, and why not where it cannot be made."""

    name: str
    formula: str
    year: int | None
    refusal: LocalizedText | None


class SwapOptions(Message):
    """What the attention at a site can be swapped for."""

    scores: list[Option]
    aligns: list[Option]
    masks: list[Option]
    positions: list[Option]


class SwapRequest(Message):
    """`own` leaves a part as it is."""

    site: Name
    head: Head = -1
    score: Name = "own"
    align: Name = "own"
    mask: Name = "own"
    window: Annotated[int, Field(ge=0, le=1000)] = 2
    temperature: Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)] = 1.0
    position: Name = "own"


class Outcome(Message):
    """An output, its log-probability, and that of the inspection's own output."""

    output: str
    tokens: list[str]
    log_prob: float
    log_prob_of_first: float


class Swapped(Message):
    """The swap as an inspection of its own, `id`, whose one site has the weights; entropies in nats, a query each.

    There is no outcome where the model does not respond.
    """

    id: str
    entropy_before: list[float]
    entropy_after: list[float]
    before: Outcome | None
    after: Outcome | None


class HeadCard(Message):
    """A head in figures, each a mean over its queries.

    Entropy in nats, distance in tokens, the mass within one token of the diagonal, the largest weight.
    """

    site: str
    queries: str
    keys: str
    layer: str
    head: int
    entropy: float
    distance: float
    diagonal: float
    peak: float


class Heads(Message):
    """All heads; their thumbnails come in this order, `thumbnail` by `thumbnail` bytes each."""

    thumbnail: int
    heads: list[HeadCard]


class AblateRequest(Message):
    """A head whose weights are to be 0."""

    site: Name
    head: Position


class Ablated(Message):
    """With and without the head."""

    before: Outcome
    after: Outcome
