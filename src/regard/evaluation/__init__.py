"""How good a system is: BLEU, chrF, perplexity, quality by length, alignment error rate, and a report of them all."""

from regard.evaluation.aligner import Diagonal, IBMModel1
from regard.evaluation.alignment import (
    AlignmentQuality,
    Gold,
    alignment_error_rate,
    alignment_quality,
    read_gold,
    read_numbered_gold,
    read_pharaoh,
    swap,
)
from regard.evaluation.bleu import Detokenised, Form, Quality, TokenisedLowercase, bleu, chrf, exact_match
from regard.evaluation.classification import (
    Answers,
    ClassificationReport,
    ClassQuality,
    ConfusionRow,
    Overlap,
    classification_report,
    classify,
)
from regard.evaluation.lengths import LengthBucket, by_length
from regard.evaluation.perplexity import Perplexity, perplexity
from regard.evaluation.report import Circumstances, Report, Speed

__all__ = [
    "AlignmentQuality",
    "Answers",
    "Circumstances",
    "ClassQuality",
    "ClassificationReport",
    "ConfusionRow",
    "Detokenised",
    "Diagonal",
    "Form",
    "Gold",
    "IBMModel1",
    "LengthBucket",
    "Overlap",
    "Perplexity",
    "Quality",
    "Report",
    "Speed",
    "TokenisedLowercase",
    "alignment_error_rate",
    "alignment_quality",
    "bleu",
    "by_length",
    "chrf",
    "classification_report",
    "classify",
    "exact_match",
    "perplexity",
    "read_gold",
    "read_numbered_gold",
    "read_pharaoh",
    "swap",
]
