"""A report of several findings as Markdown, in English or Chinese: claim, verdict, table and figure of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regard.contracts import Title
from regard.experiments.lib.chinese import chinese_labels, label
from regard.experiments.lib.finding import OUTCOMES, Experiment, Finding, format_cell

Language = Literal["en", "zh"]
HEADING = Title(en="Claims about attention, tested", zh="检验关于注意力的说法")
COUNTS = Title(
    en="{holds} claims hold, {fails} do not, {open} cannot be decided by these measurements.",
    zh="{holds} 个说法成立，{fails} 个不成立，{open} 个无法由这些测量结果判定。",
)

SECONDS = Title(en=", {:.0f} s", zh="，用时 {:.0f} 秒")


@dataclass(frozen=True, kw_only=True)
class ReportedFinding:
    """A finding with its experiment and the seconds that it took."""

    experiment: Experiment
    finding: Finding
    seconds: float


def write_findings(reported: Sequence[ReportedFinding], *, circumstances: str, language: Language) -> str:
    """The report; figures are linked by the names of their files. `circumstances` names versions, seed and sizes."""
    holds = [one.finding.holds for one in reported]
    counts = getattr(COUNTS, language).format(
        holds=sum(value is True for value in holds),
        fails=sum(value is False for value in holds),
        open=sum(value is None for value in holds),
    )
    parts = [f"# {getattr(HEADING, language)}", circumstances, counts]
    return "\n\n".join([*parts, *(section(one, language) for one in reported)]) + "\n"


def section(one: ReportedFinding, language: Language) -> str:
    """One finding."""
    experiment, finding = one.experiment, one.finding
    text = {name: getattr(getattr(finding, name), language) for name in ("claim", "verdict")}
    outcome = getattr(OUTCOMES[finding.holds], language)
    return "\n\n".join(
        [
            f"## {experiment.number} {getattr(experiment.title, language)}",
            f"> {text['claim']}",
            f"**{outcome}** {text['verdict']}",
            markdown_table(one, language),
            f"![{text['claim']}]({finding.name}.png)",
            f"<{experiment.paper}>{getattr(SECONDS, language).format(one.seconds)}",
        ]
    )


def markdown_table(one: ReportedFinding, language: Language) -> str:
    """The rows of a finding, with Chinese labels in a Chinese report."""
    finding = one.finding
    rows = [list(finding.columns), *([format_cell(cell) for cell in row.values()] for row in finding.rows)]
    if language == "zh":
        with chinese_labels(one.experiment.chinese):
            rows = [[label(text) for text in row] for row in rows]
    # a pipe would end the cell
    lines = ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
