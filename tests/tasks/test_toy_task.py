"""A task of another package, in one folder: trained, loaded, evaluated, listed and used without an edit of regard."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import regard
from regard._utils import override
from regard.recipes import find_recipe, make_run
from regard.tasks import TASKS, find_task, load, read_report, task_of
from regard.tasks.translation import Translator
from regard.testing import check_task
from tests.recipes.texts import CPU, TEXT

FOLDER = Path(__file__).parent / "toy_task"
ENTRY_POINTS = """\
[regard.tasks]
last_letter = toy_task.task:TASK
[regard.recipes]
words = toy_task.recipe:words
[regard.corpora]
random_words = toy_task.run:WordCorpus
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The toy as an installed package with entry points."""
    info = tmp_path / "site" / "toy_task-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-task\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    monkeypatch.syspath_prepend(str(info.parent))


def test_a_task_of_a_file_keeps_the_contract(tmp_path):
    task = find_task(f"{FOLDER / 'task.py'}:TASK")
    run = make_run(f"{FOLDER / 'recipe.py'}:words")
    assert task_of(run) is task and task.name not in TASKS
    check_task(task, run, tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["task"] == f"{FOLDER / 'task.py'}:TASK" and config["corpus"] == f"{FOLDER / 'run.py'}:WordCorpus"


def test_a_task_of_an_installed_package_keeps_the_contract(installed, tmp_path):
    check_task(find_task("last_letter"), make_run("words"), tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["task"], config["corpus"]) == ("last_letter", "random_words")


def test_a_task_has_a_verb_of_its_own(installed, monkeypatch, tmp_path):
    module = importlib.import_module("toy_task.task")
    monkeypatch.setattr(module, "TASK", replace(module.TASK, verb="judge"))
    check_task(find_task("last_letter"), make_run("words"), tmp_path / "run")
    judge = regard.load(tmp_path / "run", verb="judge")
    assert str(judge.predict(["banana"])[0]) in ("vowel", "consonant")
    # no command has the verb, so the error names the task's own example of a command
    with pytest.raises(ValueError, match=r"which cannot translate\. Use it with: regard classify .*run"):
        regard.load(tmp_path / "run", verb="translate")
    with pytest.raises(AssertionError, match="the verb 'judge it' is no identifier"):
        check_task(replace(module.TASK, verb="judge it"), make_run("words"), tmp_path / "other")


@pytest.fixture
def command(monkeypatch):
    """Run a command in this process; its exit code."""
    from regard.cli import main

    def run(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        return stopped.value.code

    return run


def test_the_command_line_trains_evaluates_and_classifies(command, installed, tmp_path, capsys):
    out = tmp_path / "run"
    assert command("train", "words", "--out", out, "--steps", 30, "--set", "data.count=256") == 0
    captured = capsys.readouterr()
    assert (
        f"regard classify {out}" in captured.out and "words/s" in captured.out and "train: 256 words." in captured.err
    )
    assert command("classify", out, "banana", "moon") == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[2] for line in lines] == ["banana", "moon"]
    assert {line[0] for line in lines} <= {"vowel", "consonant"}
    assert command("evaluate", out) == 0
    assert "last_letter on last_letter, test: 256 examples" in capsys.readouterr().out
    report = read_report((out / "evaluation-test.json").read_text())
    assert report.info.task == "last_letter" and report.metrics[0].value > 0.5
    assert command("evaluate", out, "--beam", 2) == 2
    assert "--beam is no option of last letter" in capsys.readouterr().err
    assert command("translate", out) == 2
    assert "a model for last letter, which cannot translate" in " ".join(capsys.readouterr().err.split())


def test_the_task_is_listed(command, installed, capsys):
    assert command("list", "tasks", "--json") == 0
    tasks = json.loads(capsys.readouterr().out)["tasks"]
    assert tasks["last_letter"] == {"verb": "classify", "title": "Last letter", "models": "last_letter"}
    assert command("list", "last-letter") == 0
    assert "W embedding(x_T)" in capsys.readouterr().out
    assert command("list", "recipes") == 0
    assert "words" in capsys.readouterr().out


def test_a_task_of_a_file_is_trained_and_used_in_another_process(tmp_path):
    line = [sys.executable, "-m", "regard"]
    recipe = f"{FOLDER / 'recipe.py'}:words"
    subprocess.run([*line, "train", recipe, "--out", tmp_path / "run", "--steps", "4"], check=True)
    resumed = [*line, "train", recipe, "--out", tmp_path / "run", "--steps", "6", "--resume"]
    subprocess.run(resumed, check=True)
    used = subprocess.run([*line, "classify", tmp_path / "run", "tree"], check=True, capture_output=True, text=True)
    assert used.stdout.endswith("\ttree\n")


def test_a_package_that_cannot_be_imported_is_named(installed, tmp_path):
    info = tmp_path / "site" / "toy_task-1.0.dist-info"
    (info / "entry_points.txt").write_text(
        "[regard.tasks]\nlost = lost_package:TASK\n[regard.recipes]\nodd = json:dumps\n"
    )
    with pytest.raises(ValueError, match=r"toy-task offers lost .* which cannot be imported: ModuleNotFoundError"):
        find_task("lost")
    with pytest.raises(ValueError, match="there is no task 'lots'; the nearest is 'lost'"):
        find_task("lots")
    assert find_recipe("odd").task == ""


@pytest.mark.skipif(not hasattr(Translator, "inspect"), reason="the predictors have no inspect yet")
@pytest.mark.parametrize(("recipe", "model"), [("copy", "luong"), ("text", "lstm"), ("sentences", "cnn")])
def test_every_task_of_the_table_keeps_the_contract(recipe, model, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "lines.all").write_text("".join(f"{'AB'[n % 2]} word {n}\n" for n in range(40)))
    files = {"text": {"data": tmp_path / "text.txt"}, "sentences": {"data": tmp_path / "lines.all"}}
    run = make_run(recipe, model, **files.get(recipe, {}))
    small = ["data.count=40", "data.held_out=8"] if recipe == "copy" else []
    run = override(run, "training.steps=3", "training.epochs=none", "model.embedding_size=8", *small, *CPU)
    check_task(task_of(run), run, tmp_path / "run")
    assert load(tmp_path / "run").run.model_name == model
