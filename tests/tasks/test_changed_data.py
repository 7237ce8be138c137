"""A run is resumed on the data that it was trained on, unless the user says otherwise; an evaluation names a change."""

import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from regard import load
from regard._utils import override
from regard.cli.main import main
from regard.recipes import make_run
from regard.tasks import fit

QUIET = Console(quiet=True)
LINES = [f"line {number} of the text" for number in range(120)]
SMALL = ("model.hidden_size=8", "model.embedding_size=8", "training.steps=2", "training.epochs=none")
VOCABULARY = ("tokenizer.vocab_size=60", "training.compute.device=cpu")


def write(path, recipe, lines):
    """A file for the recipe, in which every example depends on its line."""
    forms = {"pairs": "{0}\tzeile {1}", "sentences": "{2} {0}", "text": "{0}"}
    numbered = ((line, line.split()[1], "AB"[len(line) % 2]) for line in lines)
    path.write_text("".join(forms[recipe].format(*parts) + "\n" for parts in numbered))


def run_of(recipe, path, *changes):
    model, file = {"pairs": ("luong", "source"), "sentences": ("bilstm", "data"), "text": ("lstm", "data")}[recipe]
    return override(make_run(recipe, model, **{file: path}), *SMALL, *VOCABULARY, *changes)


@pytest.fixture(scope="module", params=["pairs", "sentences", "text"])
def trained(request, tmp_path_factory):
    """A recipe, and the folder of its training with the data beside it."""
    root = tmp_path_factory.mktemp(request.param)
    path = root / ("data.tsv" if request.param == "pairs" else "data.txt")
    write(path, request.param, LINES)
    fit(run_of(request.param, path), root / "run", console=QUIET)
    return request.param, path


def reverse_sources(path, recipe):
    """The sources in the reverse order, so that every pair is wrong; other data are only reordered."""
    write(path, recipe, reversed(LINES))
    if recipe == "pairs":
        sources = [line.split("\t")[0] for line in path.read_text().splitlines()]
        path.write_text("".join(f"{source}\tzeile {n}\n" for n, source in enumerate(sources)))


CHANGES = {
    "appended": lambda path, recipe: write(path, recipe, [*LINES, "line 120 of the text"]),
    "cut to half": lambda path, recipe: write(path, recipe, LINES[:60]),
    "reversed": reverse_sources,
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_data_are_refused_and_a_flag_continues(trained, tmp_path, change):
    recipe, path = trained
    folder = shutil.copytree(path.parent / "run", tmp_path / "run")
    before = (folder / "config.json").read_bytes()
    longer = run_of(recipe, path, "training.steps=3")
    try:
        CHANGES[change](path, recipe)
        with pytest.raises(
            ValueError, match=r"the data of .*run have changed: the splits train.*SHA-256.*--data-changed"
        ):
            fit(longer, folder, resume=True, console=QUIET)
        assert (folder / "config.json").read_bytes() == before
        assert fit(longer, folder, resume=True, data_changed=True, console=QUIET).result.steps == 3
        # the new data are those of the run from now on
        longest = run_of(recipe, path, "training.steps=4")
        assert fit(longest, folder, resume=True, console=QUIET).result.steps == 4
    finally:
        write(path, recipe, LINES)


def test_a_short_text_that_grows_has_more_rows(tmp_path):
    path = tmp_path / "data.txt"
    write(path, "text", LINES[:40])
    # each row of a stream carries a state, and the text of the beginning fills fewer rows
    sizes = ("batch.rows=64", "training.every.validate=1")
    run = run_of("text", path, *sizes, "training.steps=1")
    rows = fit(run, tmp_path / "run", console=QUIET).system.run.batch.rows
    write(path, "text", [*LINES, *(f"another line {number}" for number in range(400))])
    longer = run_of("text", path, *sizes, "training.steps=3")
    assert rows == 64 and fit(longer, tmp_path / "run", resume=True, data_changed=True, console=QUIET).result.steps == 3


def test_the_same_data_resume_and_the_flag_is_for_resuming(trained, tmp_path):
    recipe, path = trained
    folder = shutil.copytree(path.parent / "run", tmp_path / "run")
    assert fit(run_of(recipe, path, "training.steps=3"), folder, resume=True, console=QUIET).result.steps == 3
    with pytest.raises(ValueError, match=r"--data-changed .* needs --resume"):
        fit(run_of(recipe, path), tmp_path / "new", data_changed=True, console=QUIET)


def test_a_run_without_fingerprints_resumes_and_has_them_then(trained, tmp_path):
    _, path = trained
    folder = shutil.copytree(path.parent / "run", tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    fingerprints = config["data_sha256"]
    assert fingerprints.keys() == {"train", "validation", "test"}
    former = {name: value for name, value in config.items() if name not in ("data_sha256", "files", "sha256")}
    (folder / "config.json").write_text(json.dumps(former))
    fit(load(folder, device="cpu").run, folder, resume=True, console=QUIET)
    assert json.loads((folder / "config.json").read_text())["data_sha256"] == fingerprints


def run_command(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return stopped.value.code


def test_an_evaluation_on_changed_data_says_so(trained, tmp_path, capsys):
    recipe, path = trained
    folder = shutil.copytree(path.parent / "run", tmp_path / "run")
    try:
        for lines, is_changed in ((LINES, False), (LINES[:-20], True)):
            write(path, recipe, lines)
            assert run_command("evaluate", folder, "--split", "test") == 0
            warnings = json.loads((folder / "evaluation-test.json").read_text())["warnings"]
            assert any("test data have changed since the training" in warning for warning in warnings) == is_changed
            assert ("test data have changed" in " ".join(capsys.readouterr().err.split())) == is_changed
    finally:
        write(path, recipe, LINES)


def test_the_command_has_the_flag(trained, tmp_path, capsys):
    recipe, path = trained
    folder = shutil.copytree(path.parent / "run", tmp_path / "run")
    try:
        write(path, recipe, LINES[:60])
        assert run_command("train", "--resume", "--out", folder, "--steps", 3) == 2
        assert "--data-changed" in capsys.readouterr().err
        assert run_command("train", "--resume", "--data-changed", "--out", folder, "--steps", 3) == 0
    finally:
        write(path, recipe, LINES)


def test_data_of_a_resumed_run_may_be_named_again(tmp_path):
    """Files elsewhere keep the assignment of the run."""
    write(tmp_path / "a.tsv", "pairs", LINES)
    fit(run_of("pairs", tmp_path / "a.tsv", "data.assignment=rank"), tmp_path / "run", console=QUIET)
    Path(tmp_path / "a.tsv").rename(tmp_path / "b.tsv")
    line = ["train", "pairs", "--resume", "--out", tmp_path / "run", "--source", tmp_path / "b.tsv", "--steps", 3]
    assert run_command(*line, "--data-changed") == 0
    assert load(tmp_path / "run", device="cpu").run.data.assignment == "rank"
