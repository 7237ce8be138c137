"""Runs, the timeline and the lessons."""

from typing import Annotated, Literal

from pydantic import Field

from regard.studio.schema.base import LocalizedText, Message


class RunCard(Message):
    """A run's folder; `steps` is 0 where it is not known when the training ends."""

    name: str
    system: str
    title: str
    step: int
    steps: int
    live: bool
    problem: str | None


class Line(Message):
    """One line of a run's metrics; what was not measured is left out."""

    step: int
    values: dict[str, float]


class Lines(Message):
    """Lines from `after` on; the next request has `next`. A file that was started again has a new `file`."""

    lines: list[Line]
    next: int
    file: str


class Milestone(Message):
    """One system or mechanism in history; `model` is one in the studio that can be inspected.

    The family of a system is the name of its task, that of a mechanism a part of attention; `lane` counts the
    families. `command` trains the system.
    """

    key: str
    year: int
    title: str
    family: str
    family_title: LocalizedText
    lane: int
    is_system: bool
    command: str | None
    explanation: LocalizedText
    formula: str
    paper: str
    file: str
    figure: LocalizedText | None
    model: str | None


class Control(Message):
    """A number that the user may change."""

    name: str
    label: LocalizedText
    low: float
    high: float
    step: float
    value: float


class TextBlock(Message):
    """A paragraph; `code` stands in backticks, formulas between dollar signs."""

    kind: Literal["text"] = "text"
    text: LocalizedText


class FormulaBlock(Message):
    """A formula in TeX."""

    kind: Literal["formula"] = "formula"
    tex: str


class MatrixBlock(Message):
    """Numbers in a table that is coloured by size; None is masked."""

    kind: Literal["matrix"] = "matrix"
    title: LocalizedText
    rows: list[str]
    columns: list[str]
    values: list[list[float | None]]


class Series(Message):
    """One curve, or points where they are not joined."""

    label: LocalizedText
    x: list[float]
    y: list[float]
    points: bool


class ChartBlock(Message):
    """Curves over one axis."""

    kind: Literal["chart"] = "chart"
    title: LocalizedText
    x_label: LocalizedText
    y_label: LocalizedText
    series: list[Series]


class QuestionBlock(Message):
    """Predict, then reveal: the blocks after a question stay hidden until it is answered."""

    kind: Literal["question"] = "question"
    question: LocalizedText
    choices: list[LocalizedText]
    correct: int
    reason: LocalizedText


Block = Annotated[TextBlock | FormulaBlock | MatrixBlock | ChartBlock | QuestionBlock, Field(discriminator="kind")]


class LessonCard(Message):
    """A lesson in the list."""

    name: str
    title: LocalizedText
    summary: LocalizedText
    kind: Literal["lesson", "experiment"]


class Lesson(Message):
    """A guided page, computed with the current values of the controls."""

    name: str
    title: LocalizedText
    controls: list[Control]
    blocks: list[Block]


JobState = Literal["idle", "running", "done", "failed"]


class Experiment(Message):
    """An experiment: its claim, its job, and the rows of its table as they are printed."""

    name: str
    number: str
    claim: str
    paper: str
    state: JobState
    columns: list[str]
    rows: list[list[str]]
    verdict: str | None
    holds: bool | None
    figure: str | None
    problem: str | None
