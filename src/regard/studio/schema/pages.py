"""Messages of runs, the timeline and lessons, and the list of lessons and experiments."""

from typing import Annotated, Literal

from pydantic import Field

from regard.studio.schema.base import LocalizedText, Message


class RunCard(Message):
    """A run; `steps` is 0 if the number of steps is not known."""

    name: str
    system: str
    title: str
    step: int
    steps: int
    live: bool
    problem: str | None


class MetricsLine(Message):
    """One line of a run's metrics, with the values that it has."""

    step: int
    values: dict[str, float]


class MetricsLines(Message):
    """Lines from byte `after` on; `next` is the next `after`. A restarted or shortened run has another `file`."""

    lines: list[MetricsLine]
    next: int
    file: str


class Milestone(Message):
    """A system or mechanism of the timeline; `model` is the name of a model in the studio.

    The family of a system is its task, that of a mechanism its table; `lane` numbers the families. `command` trains
    the system, `figure` has its results. Without `file` the package does not build it. parts: the system as feature,
    query, attention and output model. lesson: the lesson that tells more.
    """

    key: str
    year: int
    title: LocalizedText
    family: str
    family_title: LocalizedText
    lane: int
    is_system: bool
    command: str | None
    explanation: LocalizedText
    formula: str
    paper: str
    file: str | None
    figure: LocalizedText | None
    model: str | None
    parts: LocalizedText | None
    lesson: str | None


class Control(Message):
    """A number that the reader may change."""

    name: str
    label: LocalizedText
    low: float
    high: float
    step: float
    value: float


class TextBlock(Message):
    """A paragraph, with code in backticks and formulas between dollar signs."""

    kind: Literal["text"] = "text"
    text: LocalizedText


class FormulaBlock(Message):
    """A formula in TeX."""

    kind: Literal["formula"] = "formula"
    tex: str


class MatrixBlock(Message):
    """A table of numbers, coloured by size; None is masked."""

    kind: Literal["matrix"] = "matrix"
    title: LocalizedText
    rows: list[LocalizedText]
    columns: list[LocalizedText]
    values: list[list[float | None]]


class ChartSeries(Message):
    """A curve, or with `points` separate points."""

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
    series: list[ChartSeries]


class QuestionBlock(Message):
    """A question; the blocks after it are hidden until it is answered."""

    kind: Literal["question"] = "question"
    question: LocalizedText
    choices: list[LocalizedText]
    correct: int
    reason: LocalizedText


LessonBlock = Annotated[
    TextBlock | FormulaBlock | MatrixBlock | ChartBlock | QuestionBlock, Field(discriminator="kind")
]


class LessonCard(Message):
    """A lesson or an experiment in the list; `number` is that of an experiment, such as G4."""

    name: str
    title: LocalizedText
    summary: LocalizedText
    kind: Literal["lesson", "experiment"]
    number: str | None


class LessonPage(Message):
    """A lesson, computed with the current values of its controls.

    code: the files that compute its numbers. experiment: the experiment that tests its claim.
    """

    name: str
    title: LocalizedText
    controls: list[Control]
    blocks: list[LessonBlock]
    code: list[str]
    experiment: str | None
