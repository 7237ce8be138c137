"""`regard train`: a folder and a table at the end; invalid arguments raise errors before any work."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TINY = [
    "--set=data.content.alphabet=abcd",
    "--set=data.content.max_length=5",
    "--set=data.count=64",
    "--set=data.held_out=8",
    "--set=model.embedding_size=8",
    "--set=model.hidden_size=8",
    "--set=model.layers=1",
]


def flat(text):
    return " ".join(text.split())


def test_training_prints_results_and_commands_to_try(command, tmp_path, capsys):
    out = tmp_path / "run"
    assert command("train", "copy", "--model", "luong", "--out", out, "--steps", 3, "--seed", 7, *TINY) == 0
    output = capsys.readouterr().out
    for part in ("validation exact match", "validation perplexity", "parameters", "regard evaluate", "3 steps"):
        assert part in output
    config = json.loads((out / "config.json").read_text())
    assert config["training"]["seed"] == config["batch"]["seed"] == 7
    assert config["model_name"] == "luong" and config["model"]["num_layers"] == 1


def test_names_may_have_hyphens(command, tmp_path, capsys):
    assert command("train", "copy", "--model", "conv-seq2seq", "--out", tmp_path / "a", "--steps", 1, *TINY) == 0
    assert json.loads((tmp_path / "a" / "config.json").read_text())["model_name"] == "conv_seq2seq"


def test_files_of_a_user(command, tmp_path, capsys):
    (tmp_path / "train.en").write_text("".join(f"the number {n}\n" for n in range(40)))
    (tmp_path / "train.zh").write_text("".join(f"数字{n}\n" for n in range(40)))
    arguments = ["--source", tmp_path / "train.en", "--target", tmp_path / "train.zh", *TINY[-3:], "--steps", 1]
    assert command("train", "pairs", *arguments, "--model", "luong", "--out", tmp_path / "run") == 0
    assert command("evaluate", tmp_path / "run", "--split", "test", "--beam", 1) == 0
    assert "tok:zh" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no recipe is named. Name one of multi30k"),
        (["copi"], "there is no recipe 'copi'; the nearest is 'copy'"),
        (["copy", "--model", "bahdanow"], "there is no model 'bahdanow'; the nearest is 'bahdanau'"),
        (["copy", "--set", "model.hiden_size=3"], "the nearest is 'model.hidden_size'"),
        (["copy", "--set", "training.steps=many"], "training.steps is a whole number"),
        (["copy", "--set", "training.steps"], "sets nothing"),
        (["copy", "--device", "tpu"], "device is 'tpu', expected auto, cpu, cuda, mps"),
        (["copy", "--precision", "fp8"], "'fp32' or 'bf16', and 'fp8' is not"),
        (["copy", "--steps", "0"], "steps is 0, expected more than 0"),
        (["copy", "--source", "x"], "the recipe copy does not accept source"),
        (["copy", "--resume"], "to resume"),
        (["pairs"], "the recipe pairs needs source. Give it with --source."),
        (["pairs", "--source", "no.en", "--target", "no.de"], "there is no file"),
        (["multi30k", "--data", "/no/such"], "does not exist"),
        (["multi30k", "--pair", "en-xx"], "there is no language pair 'en-xx'"),
    ],
)
def test_invalid_arguments_raise_clear_errors(command, arguments, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert command("train", *arguments, "--out", tmp_path / "run") == 2
    captured = capsys.readouterr()
    assert sentence in flat(captured.err)
    assert "Traceback" not in captured.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        (b"", b"a\n", "is empty"),
        (b"a\nb\n", b"a\n", "Line 2 of"),
        (b"a\n\xff\n", b"a\nb\n", "line 2 of"),
        (b"\n\n", b"a\nb\n", "hold no pair"),
        (b"a\nb\n", b"c\nd\n", "too few to hold some out"),
    ],
)
def test_invalid_files_raise_clear_errors(command, source, target, sentence, tmp_path, capsys):
    (tmp_path / "a.en").write_bytes(source)
    (tmp_path / "a.de").write_bytes(target)
    files = ["--source", tmp_path / "a.en", "--target", tmp_path / "a.de"]
    assert command("train", "pairs", *files, "--out", tmp_path / "run") == 2
    assert sentence in flat(capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_a_folder_in_use_is_refused_resumed_or_overwritten(command, tmp_path, capsys):
    train = ["train", "copy", "--model", "luong", "--out", tmp_path / "run", *TINY]
    assert command(*train, "--steps", 2) == 0
    assert command(*train, "--steps", 2) == 2
    assert "is not empty. Choose another --out, resume the run in it (--resume)" in flat(capsys.readouterr().err)
    # the recipe's warm-up is a share of its steps; on resume it is unchanged, as all settings without an option
    for line, steps in ((train, 4), (train, 45), (["train", "--out", tmp_path / "run"], 90)):
        assert command(*line, "--steps", steps, "--resume") == 0
        captured = capsys.readouterr()
        assert f"{steps} steps" in captured.out and "Resuming from step" in captured.err
    assert command("train", "--out", tmp_path / "run", "--resume") == 0
    assert "90 steps" in capsys.readouterr().out
    assert command(*train, "--steps", 90, "--resume", "--set", "model.hidden_size=4") == 2
    assert "model.hidden_size: 8 -> 4" in flat(capsys.readouterr().err)
    for other in (["copy", "--model", "bahdanau"], ["topics", "--model", "lstm"]):
        assert command("train", *other, "--out", tmp_path / "run", "--resume") == 2
        assert "was started with other settings" in flat(capsys.readouterr().err)
    assert command(*train, "--steps", 1, "--overwrite") == 0
    assert "1 steps" in capsys.readouterr().out


def test_a_resumed_run_keeps_eager_steps(command, tmp_path, capsys):
    out, eager = tmp_path / "run", "--set=training.compute.step=eager"
    assert command("train", "copy", "--model", "luong", "--out", out, "--steps", 2, *TINY, eager) == 0
    assert command("train", "--out", out, "--steps", 3, "--resume") == 0
    assert "Training steps" not in capsys.readouterr().err
    assert json.loads((out / "config.json").read_text())["training"]["compute"]["step"] == "eager"


def test_ctrl_c_saves_prints_how_to_resume_and_exits_with_130(tmp_path):
    """In a separate process, for the signal."""
    out = tmp_path / "run"
    line = [Path(sys.executable).with_name("regard"), "train", "copy", "--model=luong", f"--out={out}", "--steps=5000"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "300"}
    with subprocess.Popen([*line, *TINY], stderr=subprocess.PIPE, text=True, env=environment) as process:
        deadline = time.monotonic() + 200
        while not (out / "metrics.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=200)[1]
    assert process.returncode == 130
    assert "is saved in" in error and "--resume" in error
    assert "Traceback" not in error
    assert list((out / "training").glob("step-*"))


def test_a_full_disk_keeps_the_last_checkpoint_and_the_run_resumes_later(command, filling_disk, tmp_path, capsys):
    train = ["train", "copy", "--model", "luong", "--out", tmp_path / "run", "--steps", 8, *TINY]
    train.append("--set=training.every.validate=2")
    with filling_disk(after=6):
        assert command(*train) == 2
        assert "the disk is full" in " ".join(capsys.readouterr().err.split())
    assert command("translate", tmp_path / "run", "--beam", 1, stdin=b"a b\n") == 0
    assert command(*train, "--resume") == 0
    assert "8 steps" in capsys.readouterr().out


def test_a_missing_tensorboard_is_named(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("regard.cli.train.find_spec", lambda name: None)
    assert command("train", "copy", "--out", tmp_path / "run", "--tensorboard") == 2
    assert "pip install tensorboard" in flat(capsys.readouterr().err)


def test_no_fused_is_saved_and_holds_when_the_run_is_resumed(command, tmp_path):
    out = tmp_path / "run"
    assert command("train", "copy", "--model", "luong", "--out", out, "--steps", 1, "--no-fused", *TINY) == 0
    for options, expected in ((["--steps", 2], False), (["--steps", 3, "--fused"], True)):
        assert command("train", "--out", out, "--resume", *options) == 0
        assert json.loads((out / "config.json").read_text())["training"]["compute"]["fused"] is expected
