"""Messages about models: cards, state, predictions, generated text."""

from typing import Annotated

from pydantic import Field

from regard.studio.schema.base import LocalizedText, Message, Name, Problem, Text

MAX_TOKENS = 200


class QualityBucket(Message):
    """Quality on the inputs of a range of lengths."""

    label: str
    count: int
    value: float | None


class ModelQuality(Message):
    """The main metric of a model, from the evaluation file in its folder."""

    metric: str
    value: float
    split: str
    examples: int
    signature: str
    unit: str
    by_length: list[QualityBucket]


class ModelCard(Message):
    """A model of the studio: its system, task, training and capabilities.

    takes_output: an output may be forced. streams: text is generated token by token. multiline: line ends in the input
    are significant. responds: the output can be recomputed under an intervention. fixed_input: the input is part of
    the model, as in a worked example. reads, writes: what inputs and outputs are, as phrases such as
    `dates in English`. parts: the system as feature, query, attention and output model.
    """

    name: str
    task: str
    task_title: LocalizedText
    verb: str
    input: str
    takes_output: bool
    streams: bool
    multiline: bool
    responds: bool
    fixed_input: bool
    system: str
    title: str
    year: int
    attends: bool
    parameters: int
    recipe: str
    languages: list[str]
    reads: LocalizedText
    writes: LocalizedText
    parts: LocalizedText | None
    tokens: str
    steps: int
    samples: list[str]
    quality: ModelQuality | None


class DemoProgress(Message):
    """Progress of the demo's models, which train in the background."""

    system: str
    title: str
    number: int
    count: int
    share: float
    problem: str | None


class State(Message):
    """The state of the server, which the page polls."""

    version: str
    server_id: str
    models: list[ModelCard]
    problems: list[Problem]
    demo_training: DemoProgress | None


class PredictRequest(Message):
    """One input."""

    model: Name
    text: Text


class PredictAnswer(Message):
    """The output as text, with its log-probability (in nats) and tokens if the model has them."""

    output: str
    log_prob: float | None
    tokens: list[str]
    milliseconds: float


class GenerateRequest(Message):
    """Generate text token by token; temperature 0 takes the most probable token. The text may be empty."""

    model: Name
    text: Text
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] = 20
    temperature: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0


class GeneratedToken(Message):
    """A sampled token, the text that it adds, and its log-probability under the unmodified distribution."""

    token: str
    text: str
    log_prob: float


class GenerateAnswer(Message):
    """The generated text."""

    text: str
    tokens: list[GeneratedToken]
    unknown: list[str]
    milliseconds: float
