"""Checks that an object of one's own keeps a contract of the package; they raise AssertionError with a sentence."""

from regard.testing.alignments import ALIGNMENT_CHECKS
from regard.testing.attention import GRID_CHECKS, check_alignment, check_score
from regard.testing.cases import DTYPES, AttentionCase, Combination
from regard.testing.classifiers import CLASSIFIER_CHECKS, ClassifierCase, check_classifier
from regard.testing.execution import CASE_CHECKS
from regard.testing.language_models import LANGUAGE_MODEL_CHECKS, LanguageModelCase, check_language_model
from regard.testing.masks import MASK_CHECKS, MaskCase, check_mask
from regard.testing.models import MODEL_CHECKS, TranslationCase, check_model
from regard.testing.scores import SCORE_CHECKS
from regard.testing.tasks import check_task

__all__ = [
    "ALIGNMENT_CHECKS",
    "CASE_CHECKS",
    "CLASSIFIER_CHECKS",
    "DTYPES",
    "GRID_CHECKS",
    "LANGUAGE_MODEL_CHECKS",
    "MASK_CHECKS",
    "MODEL_CHECKS",
    "SCORE_CHECKS",
    "AttentionCase",
    "ClassifierCase",
    "Combination",
    "LanguageModelCase",
    "MaskCase",
    "TranslationCase",
    "check_alignment",
    "check_classifier",
    "check_language_model",
    "check_mask",
    "check_model",
    "check_score",
    "check_task",
]
