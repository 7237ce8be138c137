"""Reports as JSON and back; reports of 0.1 are converted on reading.

A report of 0.1 has one of three formats, one per task, which are recognised by their keys.
"""

import json
from collections.abc import Mapping
from typing import Any

from regard._utils import from_plain, to_plain
from regard.contracts import Report, RunInfo, Speed
from regard.metrics import (
    ClassificationQuality,
    ClassQuality,
    ConfusionRow,
    LengthBucket,
    Likelihood,
    Overlap,
    Perplexity,
    Quality,
    SpanMass,
)
from regard.tasks.language_modeling import evaluate as language_modeling
from regard.tasks.text_classification import evaluate as text_classification
from regard.tasks.translation import evaluate as translation

EXACT_0_1 = ("dates", "reverse", "copy")
"""Recipes of 0.1 whose systems are compared by exact match."""


def write_report(report: Report) -> str:
    """Indented JSON, keys in the order of the fields; NaN and infinity are the strings "nan" and "inf"."""
    return json.dumps(to_plain(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_report(text: str) -> Report:
    """Parse a report; errors name the missing, unknown or mistyped key."""
    try:
        plain = json.loads(text)
    # json raises RecursionError for values that are nested too deeply
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the report is not valid JSON: {error}. Evaluate the system again.") from None
    try:
        return report_of(plain)
    except ValueError as error:
        raise ValueError(f"{error} Evaluate the system again.") from None


def report_of(plain: Any) -> Report:
    """The report of a JSON value, in the current format or one of 0.1."""
    # only reports of 0.1 have this key
    if not isinstance(plain, dict) or "circumstances" not in plain:
        report: Report = from_plain(Report, plain, "report")
        return report
    try:
        # only language models have a likelihood, and only classifiers a confusion table
        if "likelihood" in plain:
            return language_report_0_1(plain)
        return classification_report_0_1(plain) if "confusion" in plain else translation_report_0_1(plain)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the report is incomplete ({type(error).__name__}: {error}).") from None


def translation_report_0_1(plain: Mapping[str, Any]) -> Report:
    """A report of a translation model."""
    info = info_0_1(plain, "translation")
    scores = {
        name: from_plain(Quality, plain[name], f"report.{name}")
        for name in ("bleu", "bleu_tokenised", "chrf")
        # null where the corpus has one variant of BLEU
        if plain[name] is not None
    }
    likelihood = plain["perplexity"]
    return translation.make_report(
        info,
        scores=scores,
        exact=from_plain(float | None, plain["exact_match"], "report.exact_match"),
        perplexity=None if likelihood is None else from_plain(Perplexity, likelihood, "report.perplexity"),
        buckets=from_plain(tuple[LengthBucket, ...], plain["by_length"], "report.by_length"),
        # 0.1 did not record whether the corpus is synthetic; its data begin with the name of the recipe
        by_exact_match=info.data.split()[0] in EXACT_0_1,
        speed=speed_0_1(plain),
    )


def language_report_0_1(plain: Mapping[str, Any]) -> Report:
    """A report of a language model; perplexities are computed from the likelihood."""
    reaches = {
        # 0.1 counted queries as `looks`
        reach["path"]: SpanMass(within=tuple(reach["within"]), distance=reach["distance"], count=reach["looks"])
        for reach in plain["reaches"]
    }
    return language_modeling.make_report(
        info_0_1(plain, "language_modeling"),
        from_plain(Likelihood, plain["likelihood"], "report.likelihood"),
        reading=plain["reading"],
        distances=reaches,
        speed=speed_0_1(plain),
    )


def classification_report_0_1(plain: Mapping[str, Any]) -> Report:
    """A report of a classifier."""
    classes = [
        # the names of the counts in 0.1
        ClassQuality.of(one["label"], num_true=one["there"], num_predicted=one["said"], num_correct=one["right"])
        for one in plain["classes"]
    ]
    quality = ClassificationQuality(
        accuracy=from_plain(float, plain["accuracy"], "report.accuracy"),
        log_loss=from_plain(float | None, plain["log_loss"], "report.log_loss"),
        classes=tuple(classes),
        confusion=from_plain(tuple[ConfusionRow, ...], plain["confusion"], "report.confusion"),
        unseen=from_plain(tuple[ConfusionRow, ...], plain["unseen"], "report.unseen"),
        overlap=None if plain["overlap"] is None else from_plain(Overlap, plain["overlap"], "report.overlap"),
    )
    return text_classification.make_report(info_0_1(plain, "text_classification"), quality, speed=speed_0_1(plain))


def info_0_1(plain: Mapping[str, Any], task: str) -> RunInfo:
    """The `circumstances` of 0.1."""
    # 0.1 had one name that differs
    renamed = {"sentences": "examples"}
    settings = {renamed.get(name, name): value for name, value in plain["circumstances"].items()}
    info: RunInfo = from_plain(RunInfo, {"task": task, **settings}, "report.circumstances")
    return info


def speed_0_1(plain: Mapping[str, Any]) -> Speed | None:
    """The speed, which 0.1 measured in tokens for every task."""
    speed = plain["speed"]
    if speed is None:
        return None
    return Speed(seconds=speed["seconds"], count=speed["tokens"], unit="tokens", hardware=speed["hardware"])
