"""What the studio's timeline says of our systems: src/regard/studio/figures.json out of results/systems.json.

    python -m benchmarks.studio_figures

The package is installed without benchmarks, so it carries the few figures that it shows.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS
from benchmarks.results_page import MULTI30K, TATOEBA, reports, systems_of

FIGURES = Path(__file__).parents[1] / "src" / "regard" / "studio" / "figures.json"


def figure(run: dict[str, Any]) -> dict[str, Any]:
    """A run's test figure, with what it was measured on."""
    test = reports(run)["test"]
    told, quality = test.circumstances, test.bleu_tokenised or test.bleu
    assert quality is not None
    return {
        "metric": quality.name,
        "score": quality.score,
        "signature": quality.signature,
        "data": told.data,
        "split": told.split,
        "sentences": told.sentences,
        "search": told.search,
        "parameters": told.parameters,
        "steps": told.steps,
        "seed": told.seed,
    }


def figures(runs: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The plain run of every system, one figure for each of the data sets it was trained on."""
    found: dict[str, list[dict[str, Any]]] = {}
    for data in (MULTI30K, TATOEBA):
        for name in systems_of(runs, data):
            found.setdefault(runs[name]["config"]["model_name"], []).append(figure(runs[name]))
    return found


def written(runs: dict[str, Any]) -> str:
    """The file's text."""
    return json.dumps(figures(runs), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the file."""
    FIGURES.write_text(written(json.loads((RESULTS / "systems.json").read_text())), encoding="utf-8")


if __name__ == "__main__":
    main()
