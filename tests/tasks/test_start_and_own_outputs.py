"""Two settings of a training: the initial bias of the readout, and the share of the model's own outputs."""

import numpy as np
import pytest
import torch
from rich.console import Console

from regard._utils import override
from regard.checkpoint import RunFolder
from regard.contracts import Batch, PaddedTokens
from regard.fused import fuse
from regard.models.translation import TRANSLATION_MODELS
from regard.recipes import make_run
from regard.tasks import fit
from regard.tasks.fit import build_to_train
from regard.tasks.table import task_of
from regard.tasks.translation.objective import OwnOutputObjective
from regard.training import Objective
from tests.models.translation.test_named_attention import SIZES
from tests.recipes.texts import CPU, TEXT

QUIET = Console(quiet=True)
COPY = ("data.count=24", "data.held_out=8", "training.steps=2", "model.hidden_size=8", *CPU)


def set_up(run, folder):
    return task_of(run).setup(run, RunFolder(folder), resume=False, notify=lambda split, sentence: None)


@pytest.mark.parametrize(("recipe", "model"), [("copy", "luong"), ("text", "lstm"), ("text", "attention")])
def test_a_readout_begins_with_the_frequencies_of_the_labels(recipe, model, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    arguments = {} if recipe == "copy" else {"data": tmp_path / "text.txt"}
    setup = set_up(make_run(recipe, model, **arguments), tmp_path)
    bias = build_to_train(setup).readout.bias.detach().double()
    counts = setup.label_counts
    assert counts.sum() > 100
    torch.testing.assert_close(bias.exp().sum().item(), 1.0, rtol=1e-5, atol=0)
    # the logarithm of the counts, up to a constant
    seen = torch.from_numpy(counts) > 0
    offsets = bias[seen] - torch.from_numpy(np.log(counts[counts > 0] + 0.1))
    assert offsets.max() - offsets.min() < 1e-5
    assert bias[~seen].max() < bias[seen].min()


def test_counts_are_those_of_the_labels(tmp_path):
    setup = set_up(override(make_run("copy", "luong"), *COPY), tmp_path)
    examples = setup.data.examples
    labels = torch.cat([examples.batch([row]).labels.flatten() for row in range(len(examples))])
    expected = torch.bincount(labels, minlength=setup.run.model.target_vocab_size)
    assert torch.from_numpy(setup.label_counts).equal(expected)


def test_the_initialisation_of_the_model_is_a_choice(tmp_path):
    run = override(make_run("copy", "seq2seq"), "training.readout_bias=model")
    assert (build_to_train(set_up(run, tmp_path)).readout.bias != 0).sum() == 0
    with pytest.raises(ValueError, match="readout_bias is 'frequencies' or 'model', and 'zeros' is not"):
        override(run, "training.readout_bias=zeros")


def test_a_tied_readout_has_no_bias(tmp_path):
    run = make_run("copy", "transformer")
    assert build_to_train(set_up(run, tmp_path)).readout.bias is None


@pytest.mark.parametrize("name", SIZES)
def test_a_ratio_of_zero_is_teacher_forcing_and_gradients_flow(name):
    torch.manual_seed(0)
    entry = TRANSLATION_MODELS[name]
    model = entry.build(
        entry.config(**{"source_vocab_size": 11, "target_vocab_size": 13, "dropout": 0.0, **SIZES[name]})
    )
    target = PaddedTokens.from_lists([[1, 9, 12], [1, 3]])
    batch = Batch(
        source=PaddedTokens.from_lists([[4, 7, 2], [9, 2]]),
        target=target,
        labels=torch.tensor([[9, 12, 2], [3, 2, 0]]),
        num_tokens=5,
    )
    expected = Objective(model, label_smoothing=0.1)(batch)
    objective = OwnOutputObjective(model, own_output_ratio=0.0, label_smoothing=0.1, fuse=fuse)
    torch.testing.assert_close(objective(batch), expected)
    other = OwnOutputObjective(model, own_output_ratio=1.0, label_smoothing=0.1, fuse=fuse)(batch)
    assert abs(other.item() - expected.item()) > 1e-5
    other.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_training_on_own_outputs_runs_and_other_tasks_refuse_it(tmp_path):
    run = override(make_run("copy", "seq2seq"), *COPY, "training.own_output_ratio=0.5")
    assert fit(run, tmp_path / "own", console=QUIET).result.steps == 2
    (tmp_path / "text.txt").write_text(TEXT)
    run = override(make_run("text", "lstm", data=tmp_path / "text.txt"), "training.own_output_ratio=0.5", *CPU)
    with pytest.raises(ValueError, match="a lstm trains with its true inputs only"):
        fit(run, tmp_path / "language", console=QUIET)
    run = override(make_run("multi30k", "transformer", folder=str(tmp_path)), "training.own_output_ratio=0.5")
    with pytest.raises(ValueError, match=r"Set batch\.packed=false"):
        fit(run, tmp_path / "packed", console=QUIET)
    with pytest.raises(ValueError, match=r"own_output_ratio is 2\.0, expected a share"):
        override(run, "training.own_output_ratio=2.0")
