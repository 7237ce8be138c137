"""How well does each language model predict? All of them on Penn Treebank, those of Daniluk et al. at equal size.

    python -m benchmarks.language --data <folder> --out runs/language --seed 0 1 2 equal_lstm equal_attention

`equal_` systems have as many parameters as a Key-Value-Predict of 300 units, found by trying hidden sizes. Tiny
Shakespeare is judged on crops of the context's length, as nanoGPT is. What each run wrote of itself is gathered into
results/language.json, from which benchmarks.results_page writes docs/results.md.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.trainings import Suite, Training, main
from regard._utils import write_text
from regard.checkpoint import RunFolder
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.recipes import make_run
from regard.tasks import count_parameters, steps_of, write_report
from regard.tasks.base import equal_size

VOCABULARY = 10_002
LIKE, HIDDEN_SIZE = "key_value_predict", 300
EQUAL = ("lstm", "attention", "key_value", "key_value_predict", "ngram_rnn")
ALIKE = ("model.embedding_size=300", "model.num_layers=1", "model.dropout=0.5")
ADAM = (
    "batch.rows=32",
    "training.epochs=10",
    "training.optimizer=AdamSettings",
    "training.optimizer.learning_rate=2e-3",
    "training.optimizer.beta2=0.999",
    "training.optimizer.eps=1e-8",
    "training.optimizer.clip_norm=0.5",
    "training.schedule.name=cosine",
    "training.schedule.warmup_steps=200",
    "training.schedule.decay_steps=none",
    "training.selection.ema=0.999",
)
"""Training settings of the systems of equal size; they replace those of the recipe."""


def parameters_of(model: str, hidden_size: int) -> int:
    """Number of parameters of a system of equal size on Penn Treebank."""
    config = make_run("ptb", model).model
    sized = replace(config, vocab_size=VOCABULARY, embedding_size=300, num_layers=1, hidden_size=hidden_size)
    with torch.device("meta"):
        return count_parameters(LANGUAGE_MODELS[model].build(sized))


def equal(model: str) -> Training:
    """A system of the common size, trained like the others."""
    open_gates = ("model.forget_bias=1",) if model == "lstm" else ()
    size = equal_size(parameters_of(LIKE, HIDDEN_SIZE), partial(parameters_of, model))
    return Training("ptb", model, (*ALIKE, *ADAM, *open_gates, f"model.hidden_size={size}"))


SYSTEMS = {
    "ngram": Training("ptb", "ngram"),
    "mlp": Training("ptb", "mlp"),
    "lstm": Training("ptb", "lstm"),
    "lstmn": Training("ptb", "lstmn"),
    "gpt": Training("ptb", "gpt"),
    "ttt": Training("ptb", "ttt"),
    **{f"equal_{model}": equal(model) for model in EQUAL},
    "shakespeare": Training("tinyshakespeare", "gpt"),
    "shakespeare_small": Training("tinyshakespeare_small", "gpt"),
}


ROWS = {"lstmn": 16}
"""Streams evaluated in parallel where a single one takes too long; with 16, few words lack context."""


def judge(fitted: Any, folder: Path) -> None:
    """Read every split but the training text, the state carried; models trained on crops also on crops."""
    writer, run = fitted.system, fitted.system.run
    for split in run.data.splits[1:]:
        text, steps = run.data.read(split), steps_of(folder)
        report = writer.evaluate(text, split=split, steps=steps, rows=ROWS.get(run.model_name, 1))
        write_text(RunFolder(folder).evaluation(split), write_report(report))
        if run.batch.cut == "crops":
            report = writer.evaluate(text, split=split, steps=steps, rows=64, crops=run.batch.length)
            write_text(RunFolder(folder).evaluation(f"{split}-crops"), write_report(report))


SUITE = Suite(name="language", about=__doc__ or "", table=SYSTEMS, judge=judge)

if __name__ == "__main__":
    main(SUITE)
