"""What the studio's timeline says of our systems: src/regard/studio/figures.json out of results/.

    python -m benchmarks.studio_figures

The package is installed without benchmarks, so it carries the few figures that it shows.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks import language_page, sentences_page
from benchmarks.harness import RESULTS
from benchmarks.markdown import figure_of, seeds_by_name
from benchmarks.results_page import MULTI30K, TATOEBA, bleu_metric, reports, systems_of
from regard.contracts.report import RunInfo

FIGURES = Path(__file__).parents[1] / "src" / "regard" / "studio" / "figures.json"
SOURCES = ("systems", "language", "sentences")

Runs = dict[str, Any]
Found = dict[str, list[dict[str, Any]]]


def figure(told: Sequence[RunInfo], *, metric: str, scores: Sequence[float], how: Sequence[str]) -> Any:
    """A mean over the seeds, with what it was measured on; `how` is all that it depends on besides."""
    first = told[0]
    return {
        "metric": metric,
        "score": fmean(scores),
        "data": first.data,
        "split": first.split,
        "sentences": first.examples,
        "parameters": first.parameters,
        "steps": round(fmean(one.steps for one in told)),
        "seeds": [one.seed for one in told],
        "how": [one for one in how if one],
    }


def of_translation(runs: Runs) -> Found:
    """The plain run of every system, one figure for each of the data sets it was trained on."""
    found: Found = {}
    for data in (MULTI30K, TATOEBA):
        for name in systems_of(runs, data):
            test = reports(runs[name])["test"]
            quality = bleu_metric(test)
            how = (test.info.search, quality.signature)
            one = figure([test.info], metric=quality.title, scores=[quality.value], how=how)
            found.setdefault(f"translation/{runs[name]['config']['model_name']}", []).append(one)
    return found


def of_language(runs: Runs) -> Found:
    """Every language model as it is trained by itself, or else as it is compared at equal size."""
    found: Found = {}
    for equal in (False, True):
        for group in language_page.on_treebank(runs, equal=equal).values():
            tests = language_page.reports(group, "test")
            scores = [figure_of(test, "perplexity") for test in tests]
            told = [test.info for test in tests]
            one = figure(told, metric="Perplexity per word", scores=scores, how=[language_page.reading_of(tests[0])])
            found.setdefault(f"language_modeling/{group[0]['config']['model_name']}", [one])
    return found


def of_sentences(runs: Runs) -> Found:
    """Every classifier on each of the sets; structured self-attention with its penalty."""
    found: Found = {}
    for name, group in seeds_by_name(runs).items():
        tests = sentences_page.reports(group, "test")
        if tests and not name.endswith(sentences_page.WITHOUT):
            told, scores = [test.info for test in tests], [100 * figure_of(test, "accuracy") for test in tests]
            one = figure(told, metric="Accuracy, %", scores=scores, how=())
            found.setdefault(f"text_classification/{group[0]['config']['model_name']}", []).append(one)
    return found


def written(runs: dict[str, Runs]) -> str:
    """The file's text, out of the runs of every source."""
    found = of_translation(runs["systems"]) | of_language(runs["language"]) | of_sentences(runs["sentences"])
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def recorded() -> dict[str, Runs]:
    """The runs on record; none where nothing was run."""
    files = {name: RESULTS / f"{name}.json" for name in SOURCES}
    return {name: json.loads(file.read_text()) if file.exists() else {} for name, file in files.items()}


def main() -> None:
    """Write the file."""
    FIGURES.write_text(written(recorded()), encoding="utf-8")


if __name__ == "__main__":
    main()
