"""Messages of the experiments: their settings, runs and results."""

from typing import Literal

from regard.studio.schema.base import LocalizedText, Message
from regard.studio.schema.pages import Control

RunState = Literal["idle", "waiting", "running", "stopping", "done", "failed"]
"""`idle`: not run with these settings; `stopping`: cancelled, until its next step."""

ExperimentOutcome = Literal["holds", "fails", "undecided"]


class ExperimentVerdict(Message):
    """What the measurements say about the claim; `sentence` is the outcome in words."""

    outcome: ExperimentOutcome
    sentence: LocalizedText
    text: LocalizedText


class ExperimentResult(Message):
    """The table as text, the verdict, and the figure as SVG, or None without matplotlib."""

    columns: list[LocalizedText]
    rows: list[list[LocalizedText]]
    verdict: ExperimentVerdict
    figure: LocalizedText | None


class ExperimentRunCard(Message):
    """A run with its settings. `seconds` is how long it took, or has taken so far; None while it waits."""

    settings: dict[str, float]
    state: RunState
    outcome: ExperimentOutcome | None
    seconds: float | None


class ExperimentReport(Message):
    """An experiment and its run with these settings.

    `result` is None until there is one. `runs` has the runs with all settings, the oldest first. `default_seconds` is
    how long the last run with the default settings took on this machine.
    """

    name: str
    number: str
    claim: LocalizedText
    paper: str
    controls: list[Control]
    settings: dict[str, float]
    state: RunState
    seconds: float | None
    default_seconds: float | None
    result: ExperimentResult | None
    problem: str | None
    runs: list[ExperimentRunCard]
