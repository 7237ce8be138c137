"""`regard experiment`: runs experiments, writes their results, and refuses before anything runs."""

import dataclasses

import pytest

from regard.cli import main
from regard.contracts import Title
from regard.experiments import EXPERIMENTS
from regard.experiments.lib import Finding, Measured


def run(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


@pytest.fixture
def quick(monkeypatch):
    """Every experiment replaced by one that takes no time; the seeds of their runs."""
    seeds = {}

    def stand_in(name):
        def run(*, seed):
            seeds[name] = seed
            rows = ({"method": "[b]one[/b]", "error": Measured(0.123456, 0.01), "ratio": 0.98765, "size": 12345},)
            draw = lambda figure: figure.subplots().plot([1, 2])  # noqa: E731
            holds = name != "scaling"
            return Finding(
                name=name,
                claim=f"Claim of {name}.",
                rows=rows,
                verdict=Title(en="Seen.", zh="已见。"),
                holds=holds,
                draw=draw,
            )

        return run

    for name, entry in list(EXPERIMENTS.items()):
        monkeypatch.setitem(EXPERIMENTS, name, dataclasses.replace(entry, run=stand_in(name)))
    return seeds


def test_an_experiment_is_run_printed_and_written(quick, tmp_path, capsys):
    assert run("experiment", "embedding-scale", "--out", str(tmp_path), "--seed", "7") == 0
    assert quick == {"embedding_scale": 7}
    out = capsys.readouterr().out
    for part in ("Claim of embedding_scale.", "[b]one[/b]", "0.123±0.01", "0.988", "12345", "Holds. Seen."):
        assert part in out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"embedding_scale.{kind}" for kind in ("csv", "png", "svg")
    ]


def test_all_experiments_are_run_in_order_and_counted(quick, tmp_path, capsys):
    assert run("experiment", "all", "--out", str(tmp_path)) == 0
    assert list(quick) == list(EXPERIMENTS)
    assert set(quick.values()) == {0}
    out = capsys.readouterr().out
    assert "Does not hold. Seen." in out
    assert f"{len(EXPERIMENTS) - 1} of {len(EXPERIMENTS)} claims hold." in out
    assert len(list(tmp_path.iterdir())) == 3 * len(EXPERIMENTS)


def test_files_that_exist_are_refused_before_anything_runs(quick, tmp_path, capsys):
    (tmp_path / "causal_mask.csv").write_text("mine")
    assert run("experiment", "all", "--out", str(tmp_path)) == 2
    assert quick == {}
    assert "causal_mask.csv exists" in capsys.readouterr().err.replace("\n", "")
    assert (tmp_path / "causal_mask.csv").read_text() == "mine"
    assert run("experiment", "all", "--out", str(tmp_path), "--overwrite") == 0
    assert (tmp_path / "causal_mask.csv").read_text() != "mine"


def test_an_unknown_name_suggests_the_nearest(quick, tmp_path, capsys):
    assert run("experiment", "permutaton", "--out", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert "there is no experiment 'permutaton'; the nearest is 'permutation'" in error
    assert "Traceback" not in error


def test_without_matplotlib_there_is_a_verdict_but_no_figure(quick, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert run("experiment", "pooling", "--out", str(tmp_path)) == 0
    output = capsys.readouterr().out
    assert "Holds." in output
    assert "pip install matplotlib" in output
    assert [path.name for path in tmp_path.iterdir()] == ["pooling.csv"]


def test_a_file_in_place_of_a_folder_is_refused_before_anything_runs(quick, tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    assert run("experiment", "pooling", "--out", str(tmp_path / "taken")) == 2
    assert "is a file, and a folder is needed" in capsys.readouterr().err
    assert quick == {}
    assert (tmp_path / "taken").read_text() == "mine"


def test_an_experiment_writes_its_figure(tmp_path, capsys):
    assert run("experiment", "permutation", "--out", str(tmp_path)) == 0
    assert "Holds." in capsys.readouterr().out
    assert (tmp_path / "permutation.png").read_bytes().startswith(b"\x89PNG")
    assert "none" in (tmp_path / "permutation.csv").read_text()
