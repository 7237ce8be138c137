"""Runs, the timeline and the lessons."""

from typing import Annotated, Literal

from pydantic import Field

from regard.studio.schema.base import Message, Said


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
    """One line of a run's metrics; what it did not measure is left out."""

    step: int
    values: dict[str, float]


class Lines(Message):
    """Lines from `after` on; ask again with `next`. A file that was begun anew has a new `file`."""

    lines: list[Line]
    next: int
    file: str


class Milestone(Message):
    """One system or mechanism in history; `model` is one on the shelf that can be watched."""

    key: str
    year: int
    title: str
    family: Literal["system", "language", "sentences", "score", "alignment", "mask", "position"]
    idea: Said
    formula: str
    paper: str
    file: str
    figure: Said | None
    model: str | None


class Control(Message):
    """A number that the reader may change."""

    name: str
    label: Said
    low: float
    high: float
    step: float
    value: float


class TextBlock(Message):
    """A paragraph; `code` stands in backticks, formulas between dollar signs."""

    kind: Literal["text"] = "text"
    text: Said


class FormulaBlock(Message):
    """A formula in TeX."""

    kind: Literal["formula"] = "formula"
    tex: str


class MatrixBlock(Message):
    """Numbers in a table that is coloured by size; None is masked."""

    kind: Literal["matrix"] = "matrix"
    title: Said
    rows: list[str]
    columns: list[str]
    values: list[list[float | None]]


class Series(Message):
    """One curve, or points where they are not joined."""

    label: Said
    x: list[float]
    y: list[float]
    points: bool


class ChartBlock(Message):
    """Curves over one axis."""

    kind: Literal["chart"] = "chart"
    title: Said
    x_label: Said
    y_label: Said
    series: list[Series]


class QuestionBlock(Message):
    """Predict, then reveal: the blocks behind a question stay hidden until it is answered."""

    kind: Literal["question"] = "question"
    question: Said
    choices: list[Said]
    right: int
    because: Said


Block = Annotated[TextBlock | FormulaBlock | MatrixBlock | ChartBlock | QuestionBlock, Field(discriminator="kind")]


class LessonCard(Message):
    """A lesson in the list."""

    name: str
    title: Said
    summary: Said
    kind: Literal["lesson", "experiment"]


class Lesson(Message):
    """A guided page, computed with the controls as they stand."""

    name: str
    title: Said
    controls: list[Control]
    blocks: list[Block]


TrialState = Literal["idle", "running", "done", "failed"]


class Experiment(Message):
    """A claim put to the test: idle, running or done; rows as they are printed."""

    name: str
    number: str
    claim: str
    paper: str
    state: TrialState
    columns: list[str]
    rows: list[list[str]]
    verdict: str | None
    holds: bool | None
    figure: str | None
    problem: str | None
