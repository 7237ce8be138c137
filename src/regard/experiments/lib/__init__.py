"""What the experiments share."""

from regard.experiments.lib.finding import Experiment, Finding, Measured, check_record, record, shown

__all__ = [
    "Experiment",
    "Finding",
    "Measured",
    "check_record",
    "record",
    "shown",
]
