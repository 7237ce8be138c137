"""The training loop: results, files, selection of weights, errors and resumption."""

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import pytest
import torch
from rich.console import Console
from torch import nn

from regard._utils import load_json, read_lines, save_json
from regard.checkpoint import RunFolder, load_metadata, load_tensors, load_weights
from regard.contracts import ModelOutput
from regard.training import (
    AdamSettings,
    ComputeSettings,
    Diverged,
    EverySettings,
    Interrupted,
    ScheduleSettings,
    SelectionSettings,
    rename_settings,
    train,
)
from regard.training.selection import RunningAverage
from tests.training.toy import Letters, Toy, loss_of, settings

QUIET = Console(quiet=True)


def fit(folder, *, model=None, data=None, validate=True, chosen=None, **options):
    data = data or Letters()
    judge = (lambda module: loss_of(module, data)) if validate is True else validate
    return train(model or Toy(), data, chosen or settings(), folder, validate=judge, console=QUIET, **options)


def test_the_loss_decreases_and_is_reported(tmp_path):
    model, output = Toy(), StringIO()
    before = loss_of(model, Letters())["loss"]
    data = Letters()
    result = train(
        model,
        data,
        settings(steps=40),
        tmp_path,
        validate=lambda module: loss_of(module, data),
        console=Console(file=output, width=200),
    )
    assert result.steps == 40 and result.epochs == 8 and result.stopped == "steps" and result.chosen == "best"
    assert result.metrics["loss"] < 0.8 * before
    assert loss_of(model, data) == pytest.approx(result.metrics)
    assert "step 40/40" in output.getvalue() and "tokens/s" in output.getvalue()
    lines = read_lines(tmp_path / "metrics.jsonl")
    assert set(lines[-1]) >= {"step", "epoch", "loss", "learning_rate", "tokens_per_second", "seconds", "validation"}
    steps = [line["step"] for line in lines]
    assert steps == sorted(set(steps)) and steps[-1] == 40
    assert result.tokens == sum(data.num_tokens(batch) for epoch in range(8) for batch in data.order.epoch(epoch))


def test_the_model_has_the_weights_of_the_saved_file(tmp_path):
    model, again = Toy(), Toy()
    fit(tmp_path, model=model)
    RunFolder(tmp_path).load_weights(again)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])
    assert load_metadata(tmp_path / "model.safetensors") == {"step": 12}


def test_the_best_weights_are_saved_and_patience_stops_training(tmp_path):
    scores = iter([3.0, 1.0, 2.0, 2.5])
    chosen = settings(
        steps=None,
        epochs=50,
        every=EverySettings(validate=2, save=5),
        selection=SelectionSettings(patience=2),
    )
    result = fit(tmp_path, chosen=chosen, validate=lambda module: {"loss": next(scores)})
    assert (result.stopped, result.steps, result.chosen, result.chosen_step) == ("patience", 8, "best", 4)
    assert load_metadata(tmp_path / "model.safetensors")["step"] == 4


def test_a_higher_metric_can_be_better(tmp_path):
    scores = iter([30.0, 10.0, 20.0])
    selection = SelectionSettings(metric="bleu", better="higher")
    result = fit(tmp_path, chosen=settings(selection=selection), validate=lambda module: {"bleu": next(scores)})
    assert result.chosen_step == 4 and result.metrics == {"bleu": 30.0}


def test_equal_metrics_are_decided_by_the_lower_loss(tmp_path):
    metrics = iter([{"accuracy": 1.0, "loss": loss} for loss in (0.5, 0.1, 0.2)])
    selection = SelectionSettings(metric="accuracy", better="higher")
    result = fit(tmp_path, chosen=settings(selection=selection), validate=lambda module: next(metrics))
    assert result.chosen_step == 8 and result.metrics["loss"] == 0.1


@pytest.mark.parametrize(("at_the_end", "chosen"), [(0.5, "average"), (9.0, "best")])
def test_the_average_is_saved_if_it_is_better(tmp_path, at_the_end, chosen):
    validated, scores = [], iter([3.0, 2.0, 1.0, at_the_end])

    def judge(module):
        validated.append({name: tensor.clone() for name, tensor in module.state_dict().items()})
        return {"loss": next(scores)}

    result = fit(tmp_path, chosen=settings(selection=SelectionSettings(average_last=2)), validate=judge)
    mean = {name: (validated[1][name].double() + validated[2][name].double()) / 2 for name in validated[0]}
    assert result.chosen == chosen
    for name, tensor in validated[3].items():
        torch.testing.assert_close(tensor, mean[name].float())
    weights = load_tensors(tmp_path / "model.safetensors")
    expected = validated[3] if chosen == "average" else validated[2]
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_without_validation_the_last_weights_are_saved(tmp_path):
    model = Toy()
    result = fit(tmp_path, model=model, validate=None)
    assert result.chosen == "last" and result.metrics == {}
    checkpoint = RunFolder(tmp_path).checkpoints.latest()
    load_weights(checkpoint.folder / "weights.safetensors", last := Toy())
    assert all(torch.equal(a, b) for a, b in zip(last.parameters(), model.parameters(), strict=True))


def test_the_running_average_is_validated(tmp_path):
    model = Toy()
    fit(tmp_path, model=model, chosen=settings(selection=SelectionSettings(ema=0.9)))
    checkpoint = RunFolder(tmp_path).checkpoints.latest()
    raw, running = (load_tensors(checkpoint.folder / f"{name}.safetensors") for name in ("weights", "running"))
    assert not torch.equal(raw["encoder.weight_hh_l0"], running["encoder.weight_hh_l0"])
    assert torch.equal(model.state_dict()["encoder.weight_hh_l0"], running["encoder.weight_hh_l0"])


def test_a_running_average_starts_at_the_weights_and_then_decays():
    model = nn.Linear(1, 1, bias=False)
    running, expected = RunningAverage(model, 0.5), None
    for step in range(20):
        nn.init.constant_(model.weight, step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = float(step) if expected is None else decay * expected + (1 - decay) * step
        running.update_parameters(model)
        assert running.module.weight.item() == pytest.approx(expected)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_training_saves_and_resumes(tmp_path, name):
    if not hasattr(signal, name):
        pytest.skip(f"this platform has no {name}")
    whole, resumed, before = Toy(dropout=0.3), Toy(dropout=0.3), signal.getsignal(signal.SIGINT)
    fit(tmp_path / "whole", model=whole)

    def stop(record):
        if record["step"] == 6:
            os.kill(os.getpid(), getattr(signal, name))

    with pytest.raises(Interrupted, match="after step 7 and is saved") as caught:
        fit(tmp_path / "cut", model=Toy(dropout=0.3), callbacks=[stop])
    assert caught.value.step == 7
    assert signal.getsignal(signal.SIGINT) is before
    fit(tmp_path / "cut", model=resumed, resume=True)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this platform has no SIGHUP")
def test_nohup_is_respected_and_a_closed_terminal_loses_no_step(tmp_path, monkeypatch):
    class Terminal(StringIO):
        is_open = True

        def write(self, text):
            if not self.is_open:
                raise OSError(errno.EIO, "Input/output error")
            return super().write(text)

    terminal = Terminal()

    def hang_up(record):
        if record["step"] == 6:
            terminal.is_open = False
            os.kill(os.getpid(), signal.SIGHUP)

    monkeypatch.setitem(globals(), "QUIET", Console(file=terminal))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert fit(tmp_path / "nohup", callbacks=[hang_up]).steps == 12
    finally:
        signal.signal(signal.SIGHUP, before)
    terminal.is_open = True
    with pytest.raises(Interrupted, match="after step 7 and is saved"):
        fit(tmp_path / "closed", callbacks=[hang_up])
    assert RunFolder(tmp_path / "closed").checkpoints.latest().step == 7


def test_a_finished_training_can_be_continued(tmp_path):
    whole, resumed = Toy(dropout=0.3), Toy(dropout=0.3)
    fit(tmp_path / "whole", model=whole, chosen=settings(steps=24))
    fit(tmp_path / "twice", model=Toy(dropout=0.3))
    result = fit(tmp_path / "twice", model=resumed, chosen=settings(steps=24), resume=True)
    assert result.steps == 24
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    assert fit(tmp_path / "twice", model=resumed, chosen=settings(steps=24), resume=True).steps == 24


def test_a_folder_in_use_is_refused(tmp_path):
    fit(tmp_path)
    with pytest.raises(ValueError, match=r"holds a training at step 12\. Resume it"):
        fit(tmp_path)
    with pytest.raises(ValueError, match=r"training\.seed: 0 -> 1"):
        fit(tmp_path, chosen=settings(seed=1), resume=True)
    with pytest.raises(ValueError, match="does not fit the model"):
        fit(tmp_path, model=Toy(size=8), resume=True)


def test_a_checkpoint_with_the_old_names_of_settings_resumes(tmp_path):
    fit(tmp_path)
    path = RunFolder(tmp_path).checkpoints.latest().folder / "state.json"
    state = load_json(path)
    for group, old, new in (("compute", "ahead", "prefetch"), ("schedule", "size", "hidden_size")):
        state["settings"][group][old] = state["settings"][group].pop(new)
    # checkpoints with the old names have no checksum
    save_json(path, {name: value for name, value in state.items() if name != "sha256"})
    assert fit(tmp_path, chosen=settings(steps=14), resume=True).steps == 14


def test_renamed_settings_keep_their_values_and_other_groups_their_names():
    config = {"training": {"compute": {"ahead": 2}, "schedule": {"size": 8}}, "data": {"size": 3}, "ahead": 1}
    renamed = {
        "training": {"compute": {"prefetch": 2}, "schedule": {"hidden_size": 8}},
        "data": {"size": 3},
        "ahead": 1,
    }
    assert rename_settings(config) == renamed == rename_settings(renamed) != config


def test_a_nan_loss_stops_training_and_saves_nothing(tmp_path):
    class Sick(Toy):
        def features(self, source, target):
            self.count = getattr(self, "count", 0) + 1
            features = super().features(source, target).features * (float("nan") if self.count > 5 else 1.0)
            return ModelOutput(features=features)

    with pytest.raises(Diverged, match=r"loss is nan at step 6\. .*a learning rate below 0\.01"):
        fit(tmp_path, model=Sick(), validate=None)
    assert RunFolder(tmp_path).checkpoints.latest().step == 3
    assert torch.isfinite(load_tensors(tmp_path / "model.safetensors")["embedding.weight"]).all()


def test_nan_weights_are_not_saved(tmp_path):
    class Poisoned(Toy):
        def features(self, source, target):
            features = super().features(source, target).features
            if features.requires_grad:
                features.register_hook(lambda gradient: gradient * float("inf"))
            return ModelOutput(features=features)

    with pytest.raises(Diverged, match="weights are not finite at step 1"):
        fit(tmp_path, model=Poisoned(), validate=None, chosen=settings(every=EverySettings(save=1)))
    assert not (tmp_path / "model.safetensors").exists()


def test_validation_does_not_disturb_the_training(tmp_path):
    def noisy(module):
        assert not module.training and not torch.is_grad_enabled()
        return {"loss": torch.rand(()).item()}

    quiet, disturbed = Toy(dropout=0.3), Toy(dropout=0.3)
    fit(tmp_path / "quiet", model=quiet, validate=None)
    fit(tmp_path / "noisy", model=disturbed, validate=noisy)
    first, second = (RunFolder(tmp_path / name).checkpoints.latest().folder for name in ("quiet", "noisy"))
    assert (first / "weights.safetensors").read_bytes() == (second / "weights.safetensors").read_bytes()


def test_the_learning_rate_follows_the_schedule(tmp_path):
    schedule = ScheduleSettings(name="cosine", warmup_steps=4)
    records = []
    fit(tmp_path, chosen=settings(schedule=schedule, every=EverySettings(log=1)), callbacks=[records.append])
    rates = [record["learning_rate"] for record in records]
    assert rates[:4] == pytest.approx([0.0025, 0.005, 0.0075, 0.01]) and rates[-1] == pytest.approx(0.0)


def test_training_ends_after_its_epochs_and_logs_each(tmp_path):
    every = EverySettings(log=100)
    result = fit(tmp_path, chosen=settings(steps=None, epochs=2, every=every))
    assert (result.stopped, result.epochs, result.steps) == ("epochs", 2, 10)
    assert [line["step"] for line in read_lines(tmp_path / "metrics.jsonl")] == [5, 10]


@pytest.mark.parametrize("name", ["bf16", "fp32"])
def test_precision(tmp_path, name):
    chosen = settings(compute=ComputeSettings(device="cpu", precision=name), steps=3)
    model = Toy()
    fit(tmp_path, model=model, chosen=chosen, validate=None)
    assert model.readout.weight.dtype == torch.float32


def test_errors_of_the_data_are_raised_to_the_caller(tmp_path):
    class Broken(Letters):
        def make(self, indices):
            raise ValueError("line 3 is broken")

    with pytest.raises(ValueError, match="line 3 is broken"):
        fit(tmp_path, data=Broken(), validate=None)
    with pytest.raises(ValueError, match="the training data are empty"):
        fit(tmp_path, data=Letters(count=0), validate=None)


@pytest.mark.unchecked
def test_invalid_settings_are_refused(tmp_path):
    with pytest.raises(ValueError, match="give steps or epochs"):
        settings(steps=None)
    with pytest.raises(ValueError, match="better is 'more', expected one of lower, higher"):
        SelectionSettings(better="more")
    with pytest.raises(ValueError, match="learning_rate is 0"):
        AdamSettings(learning_rate=0)
    with pytest.raises(ValueError, match="the nearest is 'cosine'"):
        fit(tmp_path, chosen=settings(schedule=ScheduleSettings(name="cosin")))
    with pytest.raises(ValueError, match="patience needs a validation"):
        fit(tmp_path, chosen=settings(selection=SelectionSettings(patience=1)), validate=None)
    chosen = settings(selection=SelectionSettings(metric="blue"))
    with pytest.raises(ValueError, match=r"validation returns no 'blue'\. Choose the metric from: bleu, loss"):
        fit(tmp_path, chosen=chosen, validate=lambda module: {"bleu": 1.0, "loss": 2.0})


BARE = """
import sys
sys.modules["accelerate"] = None
sys.modules["tensorboard"] = None
from pathlib import Path
from regard.training import TensorBoard, TrainingSettings, train
from regard.training.engine import Engine
import torch
for make in (lambda: Engine(torch.nn.Linear(1, 1), TrainingSettings(steps=1)), lambda: TensorBoard(Path("x"))):
    try:
        make()
    except ImportError as error:
        print(error)
"""


def test_a_missing_package_is_named():
    process = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=False, timeout=200)
    assert process.stdout.splitlines() == [
        "training needs the accelerate package. Install it with: pip install accelerate",
        "TensorBoard needs the tensorboard package. Install it with: pip install tensorboard",
    ], process.stderr


@pytest.mark.cuda
def test_training_on_cuda_equals_training_on_the_cpu(tmp_path):
    models = {"cpu": Toy(), "cuda": Toy()}
    for device, model in models.items():
        chosen = settings(compute=ComputeSettings(device=device, precision="fp32"))
        fit(tmp_path / device, model=model, chosen=chosen, validate=None)
    for ours, theirs in zip(models["cpu"].parameters(), models["cuda"].parameters(), strict=True):
        # Adam magnifies a gradient that is 0 except for rounding
        torch.testing.assert_close(ours, theirs.cpu(), rtol=1e-3, atol=1e-3)


@pytest.mark.cuda
def test_cuda_resumes_in_bf16(tmp_path):
    chosen = settings(compute=ComputeSettings(device="cuda", precision="auto"))
    whole, resumed = Toy(dropout=0.3), Toy(dropout=0.3)
    fit(tmp_path / "whole", model=whole, validate=None, chosen=chosen)
    fit(tmp_path / "cut", model=Toy(dropout=0.3), validate=None, chosen=replace(chosen, steps=6))
    fit(tmp_path / "cut", model=resumed, validate=None, chosen=chosen, resume=True)
    for ours, theirs in zip(whole.parameters(), resumed.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
