"""How well does each system translate? Every system and Luong's variants, trained and scored in the same way.

    python -m benchmarks.systems --data <folder> --out runs/systems            # all of them
    python -m benchmarks.systems --data <folder> --out runs/systems bahdanau   # only some

What each run wrote of itself is gathered into results/systems.json, from which benchmarks.results_page writes
docs/results.md.
"""

from pathlib import Path
from typing import Any

from benchmarks.trainings import SPLITS, Suite, Training, main
from regard._utils import write_text
from regard.checkpoint import RunFolder
from regard.tasks import steps_of, write_report


def luong(score: str, alignment: str) -> Training:
    """One of the paper's forms, with its one-way encoder."""
    changes = (f"model.score={score}", f"model.alignment={alignment}", "model.encoder=backward")
    return Training("multi30k", "luong", changes)


TINY = (
    "model.hidden_size=128",
    "model.feed_forward_size=256",
    "model.norm=post",
    "model.dropout=0.2",
    "training.epochs=75",
    "training.optimizer.learning_rate=5e-3",
)
"""Transformer-Tiny at its published sizes, post-norm."""
CONTROLS = ("uniform", "random", "diagonal", "hard", "hard_gumbel", "sparsemax", "entmax", "sigmoid")
"""Alignments of RNNsearch in place of the softmax; the first three do not depend on the words."""


ALIGNING = ("bahdanau", "luong", "lstmn", "conv_seq2seq", "transformer")
"""The systems that attend to the source."""

SYSTEMS = {
    "rctm": Training("multi30k", "rctm"),
    "rctm_ngrams": Training("multi30k", "rctm", ("model.source_model=ngrams",)),
    "rctm_none": Training("multi30k", "rctm", ("model.source_model=none",)),
    "rnn_encoder_decoder": Training("multi30k", "rnn_encoder_decoder"),
    "seq2seq": Training("multi30k", "seq2seq"),
    "bahdanau": Training("multi30k", "bahdanau"),
    **{f"bahdanau_{name}": Training("multi30k", "bahdanau", (f"model.alignment={name}",)) for name in CONTROLS},
    "luong": Training("multi30k", "luong"),
    "luong_general": luong("general", "global"),
    "lstmn": Training("multi30k", "lstmn"),
    "lstmn_shallow": Training("multi30k", "lstmn", ("model.fusion=shallow",)),
    "conv_seq2seq": Training("multi30k", "conv_seq2seq"),
    "transformer": Training("multi30k", "transformer"),
    "transformer_tiny": Training("multi30k", "transformer", TINY),
    "luong_dot": luong("dot", "global"),
    "luong_concat": luong("concat", "global"),
    "luong_location": luong("location", "global"),
    "luong_local_m": luong("general", "local_monotonic"),
    "luong_local_p": luong("general", "local_predictive"),
    "bahdanau_zh": Training("tatoeba", "bahdanau"),
    "transformer_zh": Training("tatoeba", "transformer"),
    # for the alignment with gold links, see benchmarks.alignment
    **{f"{name}_de": Training("tatoeba", name, arguments=(("pair", "en-de"),)) for name in ALIGNING},
    **{f"{name}_invented": Training("invented", name) for name in ALIGNING},
}


def place(folder: str, training: Training) -> dict[str, Any]:
    """The arguments of a recipe; generated data have no folder."""
    return dict(training.arguments) | ({} if training.recipe == "invented" else {"folder": folder})


def judge(fitted: Any, folder: Path) -> None:
    """Evaluate a translator on validation and test."""
    for split in SPLITS:
        pairs = fitted.system.run.data.read(split)
        report = fitted.system.evaluate(pairs, split=split, beam=5, steps=steps_of(folder))
        write_text(RunFolder(folder).evaluation(split), write_report(report))


SUITE = Suite(name="systems", about=__doc__ or "", table=SYSTEMS, judge=judge, place=place)

if __name__ == "__main__":
    main(SUITE)
