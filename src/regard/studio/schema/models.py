"""The models of the studio, and what they predict and generate."""

from typing import Annotated

from pydantic import Field

from regard.studio.schema.base import LocalizedText, Message, Name, Problem, Text

MAX_TOKENS = 200


class QualityBucket(Message):
    """Quality on the inputs of some lengths."""

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
    """A model of the studio: what it is, what it was trained to do, and what may be asked of it.

    takes_output: an output may be forced. streams: text is generated token by token. multiline: the ends of lines in
    the input matter. responds: an intervention may change an output. fixed_input: the input is part of the model, as
    in a worked example.
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
    tokens: str
    steps: int
    samples: list[str]
    quality: ModelQuality | None


class Preparing(Message):
    """Models that train in the background because there is none yet."""

    system: str
    title: str
    number: int
    count: int
    share: float
    problem: str | None


class State(Message):
    """What the page asks for every few seconds."""

    version: str
    boot: str
    models: list[ModelCard]
    broken: list[Problem]
    preparing: Preparing | None


class PredictRequest(Message):
    """One input."""

    model: Name
    text: Text


class PredictAnswer(Message):
    """The output as text; its log-probability (in nats) and tokens where the model's outputs have them."""

    output: str
    log_prob: float | None
    tokens: list[str]
    milliseconds: float


class GenerateRequest(Message):
    """Generate text token by token; a temperature of 0 always takes the most probable. An empty text starts anew."""

    model: Name
    text: Text
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] = 20
    temperature: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0


class GeneratedToken(Message):
    """A token that was sampled, the text that it adds, and its log-probability under the model itself."""

    token: str
    text: str
    log_prob: float


class GenerateAnswer(Message):
    """The text that was generated."""

    text: str
    tokens: list[GeneratedToken]
    unknown: list[str]
    milliseconds: float
