"""How accurate is each text classifier, and do penalised rows of attention attend to different words?

    python -m benchmarks.sentences --data <folder> --out runs/sentences --seed 0 1 2 3 4

TREC and SST-2 from scratch: no word vectors from elsewhere, of SST whole sentences only. All systems are trained alike,
by the recipe and what `SETS` changes in it. What each run wrote of itself is gathered into results/sentences.json, from
which benchmarks.results_page writes docs/results.md.
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.trainings import SPLITS, Suite, Training, main
from regard._utils import write_text
from regard.checkpoint import RunFolder
from regard.tasks import steps_of, write_report

PUBLISHED = "sentence-classification"


@dataclass(frozen=True)
class Set:
    """A file, how all systems are trained on it, and the coefficient of structured self-attention's penalty."""

    file: str
    alike: tuple[str, ...]
    penalty: float


SETS = {
    "trec": Set("TREC.train.all.gz", ("training.epochs=10",), 0.3),
    "sst2": Set("stsa.binary.train.gz", ("training.epochs=5", "batch.rows=50", "model.word_dropout=0.2"), 0.01),
}
"""Chosen by validation accuracy in trials of a few seeds; test figures were visible in them."""

MODELS = {
    "structured": "structured_self_attention",
    "structured_no_penalty": "structured_self_attention",
    "cnn": "cnn",
    "bilstm": "bilstm",
}


def training(of: Set, short: str) -> Training:
    """A system trained on a set, like all others on it."""
    penalty = {"structured": of.penalty, "structured_no_penalty": 0.0}.get(short)
    own = () if penalty is None else (f"model.penalty={penalty}",)
    return Training("sentences", MODELS[short], (*of.alike, *own), (("data", of.file),))


SYSTEMS = {f"{name}_{short}": training(of, short) for (name, of), short in product(SETS.items(), MODELS)}


def place(folder: str, training: Training) -> dict[str, Any]:
    """The training file; validation and test are in the same folder, or held out of it."""
    return {"data": Path(folder) / PUBLISHED / dict(training.arguments)["data"]}


def judge(fitted: Any, folder: Path) -> None:
    """Classify validation and test."""
    for split in SPLITS:
        sentences = fitted.system.run.data.read(split)
        report = fitted.system.evaluate(sentences, split=split, steps=steps_of(folder))
        write_text(RunFolder(folder).evaluation(split), write_report(report))


SUITE = Suite(name="sentences", about=__doc__ or "", table=SYSTEMS, judge=judge, place=place)

if __name__ == "__main__":
    main(SUITE)
