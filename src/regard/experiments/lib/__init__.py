"""Code that the experiments share: findings, their files and report, figures, a training loop and small models."""

from regard.experiments.lib.chinese import chinese_labels, label
from regard.experiments.lib.finding import (
    OUTCOMES,
    Experiment,
    Finding,
    Measured,
    check_record,
    format_cell,
    record,
)
from regard.experiments.lib.report import ReportedFinding, write_findings

__all__ = [
    "OUTCOMES",
    "Experiment",
    "Finding",
    "Measured",
    "ReportedFinding",
    "check_record",
    "chinese_labels",
    "format_cell",
    "label",
    "record",
    "write_findings",
]
