"""Code that the experiments share: findings, their files, figures and small models."""

from regard.experiments.lib.chinese import chinese_labels, label
from regard.experiments.lib.finding import Experiment, Finding, Measured, check_record, format_cell, record

__all__ = [
    "Experiment",
    "Finding",
    "Measured",
    "check_record",
    "chinese_labels",
    "format_cell",
    "label",
    "record",
]
