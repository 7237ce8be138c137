"""The systems on the shelf, and a plain translation."""

from typing import Annotated

from pydantic import Field

from regard.studio.schema.base import Kind, Message, Name, Problem, Text


class Bucket(Message):
    """Quality of the sources of some lengths."""

    label: str
    count: int
    value: float | None


class Quality(Message):
    """How good a system is, from the evaluation file in its folder."""

    metric: str
    value: float
    split: str
    sentences: int
    signature: str
    unit: str
    by_length: list[Bucket]


class ModelCard(Message):
    """A system on the shelf; an example has fixed words and answers nothing."""

    name: str
    kind: Kind
    system: str
    title: str
    year: int
    attends: bool
    parameters: int
    recipe: str
    languages: list[str]
    tokens: str
    steps: int
    examples: list[str]
    quality: Quality | None
    example: bool


class Preparing(Message):
    """Systems that train in the background for want of any other."""

    system: str
    title: str
    number: int
    count: int
    share: float
    problem: str | None


class State(Message):
    """What the page asks every few seconds."""

    version: str
    boot: str
    models: list[ModelCard]
    broken: list[Problem]
    preparing: Preparing | None


class TranslateRequest(Message):
    """One text; greedy with a beam of 1."""

    model: Name
    text: Text
    beam: Annotated[int, Field(ge=1, le=10)] = 5


class TranslateAnswer(Message):
    """The answer, and how probable the system finds it (natural logarithm)."""

    text: str
    log_prob: float
    tokens: list[str]
    source_tokens: list[str]
    milliseconds: float
