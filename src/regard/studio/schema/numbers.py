"""Messages with numbers of an inspection: the computation of one query, a swap, the heads."""

from typing import Annotated

from pydantic import Field

from regard.studio.schema.base import Head, LocalizedText, Message, Name, Position


class Computation(Message):
    """All stages of attention for one query, for the requested range of keys and dimensions."""

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


class NumberInput(Message):
    """A vector that a number is computed from: its first few `values`, of `count` in all."""

    name: str
    address: str
    values: list[float]
    count: int


class Number(Message):
    """A number with its address, its formula, its inputs, and code that computes it."""

    value: float
    address: str
    formula: str
    inputs: list[NumberInput]
    snippet: str


class Option(Message):
    """An option of a swap, with the reason if it cannot be used."""

    name: str
    formula: str
    year: int | None
    refusal: LocalizedText | None


class SwapOptions(Message):
    """The options for a swap at a site."""

    scores: list[Option]
    aligns: list[Option]
    masks: list[Option]
    positions: list[Option]


class SwapRequest(Message):
    """A swap; `own` leaves a component unchanged."""

    site: Name
    head: Head = -1
    score: Name = "own"
    align: Name = "own"
    mask: Name = "own"
    window: Annotated[int, Field(ge=0, le=1000)] = 2
    # more than 0, because scores are divided by it
    temperature: Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)] = 1.0
    position: Name = "own"


class Outcome(Message):
    """An output, its log-probability, and that of the output of the inspection."""

    output: str
    tokens: list[str]
    log_prob: float
    log_prob_of_first: float


class SwapResult(Message):
    """The result of a swap: measures of each query, and outputs, None if the model does not respond.

    `id` is an inspection whose site has the swapped weights. An entropy, in nats, is that of the weights divided by
    their sum, which is not 1 for alignments such as sigmoid.
    """

    id: str
    entropy_before: list[float]
    entropy_after: list[float]
    sum_before: list[float]
    sum_after: list[float]
    before: Outcome | None
    after: Outcome | None


class HeadMeasures(Message):
    """Measures of a head, averaged over its queries.

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


class HeadOverview(Message):
    """All heads; their thumbnails come in this order, `thumbnail` by `thumbnail` bytes each."""

    thumbnail: int
    heads: list[HeadMeasures]


class AblateRequest(Message):
    """A head to ablate."""

    site: Name
    head: Position


class AblationResult(Message):
    """The output with and without the head."""

    before: Outcome
    after: Outcome
