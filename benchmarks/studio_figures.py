"""The results of our systems in the studio's timeline: writes src/regard/studio/figures.json from results/.

    python -m benchmarks.studio_figures

The package is installed without benchmarks, so it contains the few results that the timeline shows.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks import language_page, sentences_page
from benchmarks.harness import RESULTS
from benchmarks.markdown import figure_of, seeds_by_name
from benchmarks.results_page import MULTI30K, TATOEBA, bleu_metric, bleu_of, reports_of, systems_of
from regard.contracts.report import RunInfo

FIGURES = Path(__file__).parents[1] / "src" / "regard" / "studio" / "figures.json"
SOURCES = ("systems", "language", "sentences")

Runs = dict[str, Any]
Figures = dict[str, list[dict[str, Any]]]


def figure(infos: Sequence[RunInfo], *, metric: str, scores: Sequence[float], how: Sequence[str]) -> Any:
    """A mean over the seeds with its data and model; `how` lists further conditions."""
    first = infos[0]
    return {
        "metric": metric,
        "score": fmean(scores),
        "data": first.data,
        "split": first.split,
        "sentences": first.examples,
        "parameters": first.parameters,
        "steps": round(fmean(entry.steps for entry in infos)),
        "seeds": [entry.seed for entry in infos],
        "how": [entry for entry in how if entry],
    }


def of_translation(runs: Runs) -> Figures:
    """The plain runs of every system, one result per data set."""
    figures: Figures = {}
    for data in (MULTI30K, TATOEBA):
        for group in systems_of(runs, data).values():
            tests = reports_of(group)
            quality = bleu_metric(tests[0])
            how = (tests[0].info.search, quality.signature)
            infos = [test.info for test in tests]
            entry = figure(infos, metric=quality.title, scores=bleu_of(group), how=how)
            figures.setdefault(f"translation/{group[0]['config']['model_name']}", []).append(entry)
    return figures


def of_language(runs: Runs) -> Figures:
    """Every language model at its own size, or else at the equal size of the comparison."""
    figures: Figures = {}
    for equal in (False, True):
        for group in language_page.on_treebank(runs, equal=equal).values():
            tests = language_page.reports(group, "test")
            scores = [figure_of(test, "perplexity") for test in tests]
            infos = [test.info for test in tests]
            entry = figure(infos, metric="Perplexity per word", scores=scores, how=[language_page.reading_of(tests[0])])
            figures.setdefault(f"language_modeling/{group[0]['config']['model_name']}", [entry])
    return figures


def of_sentences(runs: Runs) -> Figures:
    """Every classifier on each data set; structured self-attention with its penalty."""
    figures: Figures = {}
    for name, group in seeds_by_name(runs).items():
        tests = sentences_page.reports(group, "test")
        if tests and not name.endswith(sentences_page.WITHOUT):
            infos, scores = [test.info for test in tests], [100 * figure_of(test, "accuracy") for test in tests]
            entry = figure(infos, metric="Accuracy, %", scores=scores, how=())
            figures.setdefault(f"text_classification/{group[0]['config']['model_name']}", []).append(entry)
    return figures


def to_json(runs: dict[str, Runs]) -> str:
    """The content of the file, from the runs of every source."""
    figures = of_translation(runs["systems"]) | of_language(runs["language"]) | of_sentences(runs["sentences"])
    return json.dumps(figures, indent=1, ensure_ascii=False) + "\n"


def load_records() -> dict[str, Runs]:
    """The recorded runs by source; empty without a results file."""
    files = {name: RESULTS / f"{name}.json" for name in SOURCES}
    return {name: json.loads(file.read_text()) if file.exists() else {} for name, file in files.items()}


def main() -> None:
    FIGURES.write_text(to_json(load_records()), encoding="utf-8")


if __name__ == "__main__":
    main()
