"""The accuracy, as a report."""

from regard.contracts.report import Column, Metric, Report, ReportTable
from regard.tasks import run_info


def evaluate(predictor, examples, *, split, steps):
    """Accuracy, and how many of each class there are."""
    words, labels = zip(*examples, strict=True)
    answers = [str(answer) for answer in predictor.predict(list(words))]
    accuracy = sum(map(str.__eq__, answers, labels)) / len(labels)
    rows = tuple((label, labels.count(label)) for label in sorted(set(labels)))
    return Report(
        info=run_info(predictor, task="last_letter", split=split, num_examples=len(labels), steps=steps),
        metrics=(Metric(name="accuracy", value=accuracy, title="accuracy", format=".1%"),),
        tables=(
            ReportTable(
                name="classes",
                title="classes",
                columns=(Column(name="label", title="class"), Column(name="count", title="words", format=",")),
                rows=rows,
            ),
        ),
    )
