"""How good a translator is, from the evaluation file in its folder."""

from regard.evaluation import Report
from regard.recipes import Run
from regard.recipes.measure import quality_of
from regard.storage import Checkpoint, read_text
from regard.studio.schema import Bucket, Quality

SPLITS = ("test", "test-beam-1", "validation")


def quality_or_none(checkpoint: Checkpoint, run: Run) -> Quality | None:
    """An evaluation that cannot be read is none; its system still serves."""
    try:
        return find_quality(checkpoint, run)
    except (ValueError, OSError, RecursionError):
        return None


def find_quality(checkpoint: Checkpoint, run: Run) -> Quality | None:
    """The one figure that tells how good translations are, with its circumstances, from an evaluation file."""
    path = next((path for split in SPLITS if (path := checkpoint.evaluation(split)).is_file()), None)
    if path is None:
        return None
    report = Report.from_json(read_text(path))
    exact = quality_of(run.data)[0] == "exact_match"
    score = report.bleu or report.bleu_tokenised
    if exact and report.exact_match is not None:
        metric, value, signature, scale = "exact match", 100 * report.exact_match, "", 100.0
    elif score is not None:
        metric, value, signature, scale = score.name, score.score, score.signature, 1.0
    else:
        return None
    buckets = [
        Bucket(label=one.label, count=one.count, value=None if one.value is None else scale * one.value)
        for one in report.by_length
        if one.count
    ]
    about = report.circumstances
    return Quality(
        metric=metric,
        value=value,
        split=about.split,
        sentences=about.sentences,
        signature=signature,
        unit="%" if exact else "",
        by_length=buckets,
    )
