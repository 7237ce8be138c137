"""A folder whose process was killed while it overwrote a run: the next command repairs it, and says so."""

import json
import shutil

import pytest
from rich.console import Console

from regard import load
from regard._utils import override
from regard.checkpoint import RunFolder
from regard.checkpoint.overwrite import OLD, move, own_paths
from regard.cli.main import main
from regard.tasks import fit
from regard.tasks.load import save_start

QUIET = Console(quiet=True)


@pytest.fixture
def killed(fitted, tiny_run, tmp_path):
    """The folder of a run with seed 0, killed while one with seed 1 began."""
    folder = shutil.copytree(fitted.result.folder, tmp_path / "run")
    move(own_paths(folder), folder, folder / OLD)
    old = json.loads((folder / OLD / "config.json").read_text())
    files = {name: (folder / OLD / name).read_text() for name in old["files"]}
    save_start(RunFolder(folder), override(fitted.system.run, "training.seed=1"), files, {}, resume=False)
    return folder


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_loading_restores_the_old_run_and_warns(killed, fitted):
    with pytest.warns(UserWarning, match="restored the run that was being overwritten"):
        predictor = load(killed, device="cpu")
    assert predictor.run.training.seed == 0
    assert contents(killed) == contents(fitted.result.folder)


def test_resuming_continues_the_old_run(killed, fitted):
    output = Console(record=True, width=200, quiet=False, file=(killed.parent / "output").open("w"))
    longer = override(fitted.system.run, "training.steps=5")
    assert fit(longer, killed, resume=True, console=output).result.steps == 5
    assert "restored the run that was being overwritten" in output.export_text()
    assert not (killed / OLD).exists()


def test_overwriting_again_overwrites(killed, tiny_run):
    fit(override(tiny_run, "training.seed=2"), killed, overwrite=True, console=QUIET)
    assert load(killed, device="cpu").run.training.seed == 2 and not (killed / OLD).exists()


@pytest.mark.parametrize("arguments", [["evaluate"], ["train", "--resume", "--steps", "5", "--out"]])
def test_commands_repair_in_one_line(killed, arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, str(killed)])
    assert stopped.value.code == 0
    errors = capsys.readouterr().err
    assert "restored the run that was being overwritten" in " ".join(errors.split())
    assert "UserWarning" not in errors
    assert load(killed, device="cpu").run.training.seed == 0


def test_several_processes_leave_the_repair_to_one(killed, tiny_run, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="Repair it with one process"):
        fit(tiny_run, killed, resume=True, console=QUIET)


def test_a_start_that_was_killed_before_its_config_is_begun_again(tiny_run, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".lock").touch()
    (folder / "tokenizer.json").write_text("{")
    assert fit(tiny_run, folder, console=QUIET).result.steps == 4
