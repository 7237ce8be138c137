"""How good a translator is, from the evaluation file in its folder."""

from regard.recipes import Run, read_report
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
    report = read_report(read_text(path))
    exact = quality_of(run.data)[0] == "exact_match"
    best = report.metrics[0]
    scale = 100.0 if exact else 1.0
    lengths = report.table("by_length")
    buckets = [
        Bucket(label=str(label), count=int(count or 0), value=None if value is None else scale * float(value))
        for label, count, value in (lengths.rows if lengths is not None else ())
    ]
    return Quality(
        metric=best.title,
        value=scale * best.value,
        split=report.info.split,
        sentences=report.info.examples,
        signature=best.signature,
        unit="%" if exact else "",
        by_length=buckets,
    )
