"""Sections of docs/results.md on text classifiers, from results/sentences.json."""

from collections.abc import Sequence
from typing import Any

from benchmarks.markdown import figure_of, hardware, over_seeds, seeds_by_name, table
from regard.contracts.report import Report
from regard.experiments.lib.finding import clearly_above
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.tasks import report_of

SETS = {
    "trec": (
        "TREC: types of questions",
        "6 classes. Validation is a tenth of the training file, held out.",
        "CNN-rand 88.2 (reported)",
    ),
    "sst2": (
        "SST-2: sentiment of film reviews",
        "2 classes. Trained on whole sentences.",
        "CNN-rand 83.5 (reported, trained on phrases too, which is more data)",
    ),
}
"""Title, notes, and the figure that <https://github.com/harvardnlp/sent-conv-torch> reports."""

CHOSEN = "Settings were chosen by validation figures in trials with a few seeds, which also printed test figures."
WITH, WITHOUT = "structured", "structured_no_penalty"
Runs = dict[str, Any]


def sections(runs: Runs) -> list[str]:
    """One section per data set with recorded runs."""
    groups = seeds_by_name(runs)
    texts = [of_set(name, groups) for name in SETS]
    return [text for text in texts if text]


def reports(runs: Sequence[Any], split: str) -> list[Report]:
    """The evaluations on a split."""
    return [report_of(run[split]) for run in runs if split in run]


def of_set(name: str, groups: dict[str, list[Any]]) -> str:
    """Accuracy of every system, and the overlap of its rows of attention."""
    own = {key.removeprefix(f"{name}_"): runs for key, runs in groups.items() if key.startswith(f"{name}_")}
    rows = []
    for runs in own.values():
        test = reports(runs, "test")
        overlapping = [report for report in test if report.metric("overlap") is not None]
        rows.append(
            (
                title(runs),
                f"{test[0].info.parameters / 1e6:.2f} M",
                accuracy(runs, "validation"),
                f"**{accuracy(runs, 'test')}**",
                over_seeds([100 * figure_of(report, "macro_f1") for report in test], 1),
                over_seeds([figure_of(report, "overlap") for report in overlapping], 3),
                over_seeds([figure_of(report, "overlap_penalty") for report in overlapping], 3),
                str(len(runs)),
            )
        )
    if not rows:
        return ""
    heading, about, reported = SETS[name]
    counts = [f"{reports(runs, split)[0].info.examples:,} of {split}" for split in ("validation", "test")]
    head = ("system", "parameters", "validation", "test", "macro F1", "overlap", "‖AAᵀ − I‖²", "seeds")
    return (
        f"## {heading}\nAccuracy in per cent; sentences: {', '.join(counts)}. {about} No pretrained word vectors. "
        f"Mean ± standard deviation over the seeds. `overlap`: mean cosine of two rows of attention, on the test. "
        f"Trained on {hardware(next(iter(own.values()))[0]['machine'])}. {CHOSEN}\n\n"
        f"{table(head, rows)}\n<https://github.com/harvardnlp/sent-conv-torch>: {reported}.{penalty(own)}\n"
    )


def title(runs: Sequence[Any]) -> str:
    """The title of a system, with the coefficient of its penalty."""
    system = TEXT_CLASSIFICATION_MODELS[runs[0]["config"]["model_name"]].title
    coefficient = runs[0]["config"]["model"].get("penalty")
    if coefficient is None:
        return system
    return f"{system}, penalty {coefficient:g}" if coefficient else f"{system}, no penalty"


def accuracy(runs: Sequence[Any], split: str) -> str:
    """In per cent, over the seeds."""
    return over_seeds([100 * figure_of(report, "accuracy") for report in reports(runs, split)], 1)


def penalty(own: dict[str, list[Any]]) -> str:
    """The effect of the penalty, over the seeds with runs with and without it."""
    pair = [{report.info.seed: report for report in reports(own.get(key, ()), "test")} for key in (WITH, WITHOUT)]
    seeds = sorted(set(pair[0]) & set(pair[1]))
    if len(seeds) < 2:
        return ""
    penalised, unpenalised = ([reports[seed] for seed in seeds] for reports in pair)
    rows_apart, better, worse = (
        clearly_above([of(one) for one in more], [of(one) for one in less])
        for of, more, less in (
            (cosine, unpenalised, penalised),
            (share_correct, penalised, unpenalised),
            (share_correct, unpenalised, penalised),
        )
    )
    gain = "clearly better" if better else "clearly worse" if worse else "not clearly different"
    return (
        f" With the penalty, rows of attention overlap {'clearly less' if rows_apart else 'not clearly less'}; "
        f"accuracy is {gain} (two standard errors, seed by seed)."
    )


def cosine(report: Report) -> float:
    """The mean cosine of two rows of attention; 0 for a system without rows."""
    metric = report.metric("overlap")
    return 0.0 if metric is None else metric.value


def share_correct(report: Report) -> float:
    """Accuracy."""
    return figure_of(report, "accuracy")
