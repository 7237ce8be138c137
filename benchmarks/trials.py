"""The settings that were tried before those of the recipes were chosen: by validation BLEU alone, one seed each.

    python -m benchmarks.trials --data <folder> --out runs/trials --parallel 15

The recipes' settings before them are those of regard 0.1, which were chosen in the same way. The test set is not read.
results/trials.json has the validation figures of every trial.
"""

from pathlib import Path
from typing import Any

from benchmarks.trainings import Suite, Training, main
from regard._utils import write_text
from regard.checkpoint import RunFolder
from regard.tasks import steps_of, write_report


def trial(model: str, *changes: str) -> Training:
    """A system on Multi30k with changed settings."""
    return Training("multi30k", model, changes)


def rate(value: str) -> str:
    """A learning rate."""
    return f"training.optimizer.learning_rate={value}"


TINY = (
    "model.hidden_size=128",
    "model.feed_forward_size=256",
    "model.norm=post",
    "model.dropout=0.3",
    "training.epochs=75",
)
"""Transformer-Tiny as published: post-norm, 128 wide, 8,000 steps."""

TRIALS = {
    "luong_backward": trial("luong", rate("3e-3"), "model.dropout=0.5", "training.epochs=22"),
    "luong_bidirectional": trial(
        "luong", "model.encoder=bidirectional", rate("3e-3"), "model.dropout=0.5", "training.epochs=22"
    ),
    "luong_bidirectional_slow": trial(
        "luong", "model.encoder=bidirectional", rate("2e-3"), "model.dropout=0.4", "training.epochs=22"
    ),
    "lstmn": trial("lstmn", "training.epochs=26"),
    "lstmn_zero_cell": trial("lstmn", "model.zero_cell=true", "model.dropout=0.4", "training.epochs=26"),
    "conv_seq2seq_paper": trial("conv_seq2seq", "model.scaling=paper"),
    "conv_seq2seq_authors": trial("conv_seq2seq", "model.scaling=authors"),
    "transformer_tiny": trial("transformer", *TINY, rate("5e-3")),
    "transformer_tiny_slow": trial("transformer", *TINY, rate("3e-3"), "model.dropout=0.2"),
    "seq2seq": trial("seq2seq", "model.dropout=0.4"),
    "rnn_encoder_decoder": trial("rnn_encoder_decoder", "model.dropout=0.4"),
    "bahdanau": trial("bahdanau"),
    "rctm": trial("rctm"),
    "rctm_ngrams": trial("rctm", "model.source_model=ngrams"),
    "transformer": trial("transformer"),
    # after the first results
    "bahdanau_dropout": trial("bahdanau", "model.dropout=0.6", "training.epochs=26"),
    "bahdanau_slow": trial("bahdanau", rate("2e-3"), "training.epochs=26"),
    "bahdanau_bias": trial("bahdanau", "training.readout_bias=model"),
    "lstmn_two_layers": trial(
        "lstmn", "model.zero_cell=true", "model.dropout=0.4", "model.num_layers=2", "training.epochs=26"
    ),
    "lstmn_wide": trial(
        "lstmn", "model.zero_cell=true", "model.dropout=0.5", "model.hidden_size=512", "training.epochs=26"
    ),
    "lstmn_fast": trial("lstmn", "model.zero_cell=true", "model.dropout=0.5", rate("3e-3"), "training.epochs=30"),
    "seq2seq_recipe": trial("seq2seq"),
    "seq2seq_wide": trial("seq2seq", "model.hidden_size=512", "model.dropout=0.5"),
    "seq2seq_fast": trial("seq2seq", "model.dropout=0.5", rate("3e-3")),
    "rnn_encoder_decoder_fast": trial("rnn_encoder_decoder", "model.dropout=0.5", rate("2e-3")),
    "rctm_dropout": trial("rctm", "model.dropout=0.4"),
    "rctm_slow": trial("rctm", "model.dropout=0.2", rate("1e-3")),
    "transformer_tiny_fast": trial("transformer", *TINY, rate("5e-3"), "model.dropout=0.2"),
    "conv_seq2seq_dropout": trial("conv_seq2seq", "model.scaling=paper", "model.dropout=0.3"),
}


def judge(fitted: Any, folder: Path) -> None:
    """Evaluate on validation."""
    pairs = fitted.system.run.data.read("validation")
    report = fitted.system.evaluate(pairs, split="validation", beam=5, steps=steps_of(folder))
    write_text(RunFolder(folder).evaluation("validation"), write_report(report))


SUITE = Suite(name="trials", about=__doc__ or "", table=TRIALS, judge=judge)

if __name__ == "__main__":
    main(SUITE)
