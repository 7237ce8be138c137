"""Metrics of outputs: BLEU, chrF, perplexity, accuracy, quality by length, alignment error rate. Runs no model."""

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
    ClassificationQuality,
    ClassQuality,
    ConfusionRow,
    Overlap,
    classification_quality,
    overlap_sums,
)
from regard.evaluation.lengths import LengthBucket, by_length
from regard.evaluation.likelihood import Likelihood
from regard.evaluation.perplexity import Perplexity
from regard.evaluation.spans import SPANS, SpanMass, SpanSums, span_sums

__all__ = [
    "SPANS",
    "AlignmentQuality",
    "Answers",
    "ClassQuality",
    "ClassificationQuality",
    "ConfusionRow",
    "Detokenised",
    "Diagonal",
    "Form",
    "Gold",
    "IBMModel1",
    "LengthBucket",
    "Likelihood",
    "Overlap",
    "Perplexity",
    "Quality",
    "SpanMass",
    "SpanSums",
    "TokenisedLowercase",
    "alignment_error_rate",
    "alignment_quality",
    "bleu",
    "by_length",
    "chrf",
    "classification_quality",
    "exact_match",
    "overlap_sums",
    "read_gold",
    "read_numbered_gold",
    "read_pharaoh",
    "span_sums",
    "swap",
]
