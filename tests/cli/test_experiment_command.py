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
        def run(*, seed, size=1):
            seeds[name] = seed * size
            rows = ({"method": "[b]one[/b]", "error": Measured(0.123456, 0.01), "ratio": 0.98765, "size": 12345},)
            draw = lambda figure: figure.subplots().plot([1, 2])  # noqa: E731
            holds = {"scaling": False, "causal_mask": None}.get(name, True)
            return Finding(
                name=name,
                claim=Title(en=f"Claim of {name}.", zh=f"{name} 的说法。"),
                rows=rows,
                verdict=Title(en="Seen.", zh="已见。"),
                holds=holds,
                draw=draw,
            )

        return run

    for name, entry in list(EXPERIMENTS.items()):
        monkeypatch.setitem(EXPERIMENTS, name, dataclasses.replace(entry, run=stand_in(name), full={"size": 10}))
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
    assert run("experiment", "--all", "--out", str(tmp_path)) == 0
    assert list(quick) == list(EXPERIMENTS)
    assert set(quick.values()) == {0}
    out = capsys.readouterr().out
    assert "Does not hold. Seen." in out
    assert "Not decidable here. Seen." in out
    assert f"{len(EXPERIMENTS) - 2} of {len(EXPERIMENTS)} claims hold." in out
    # three files of each experiment, and the report in two languages
    assert len(list(tmp_path.iterdir())) == 3 * len(EXPERIMENTS) + 2


def test_the_report_of_all_has_each_verdict_table_and_figure(quick, tmp_path):
    assert run("experiment", "all", "--out", str(tmp_path), "--seed", "3") == 0
    english, chinese = ((tmp_path / name).read_text() for name in ("report.md", "report.zh.md"))
    assert f"{len(EXPERIMENTS) - 2} claims hold, 1 do not, 1 cannot be decided" in english
    assert "seed 3" in english
    for name, entry in EXPERIMENTS.items():
        assert f"## {entry.number} {entry.title.en}" in english
        assert f"## {entry.number} {entry.title.zh}" in chinese
        assert f"]({name}.png)" in english
        assert f"> {name} 的说法。" in chinese
    assert english.count("**Holds.** Seen.") == len(EXPERIMENTS) - 2
    assert "**Does not hold.** Seen." in english
    assert "**Not decidable here.** Seen." in english
    assert "**在此无法判定。** 已见。" in chinese
    assert "| [b]one[/b] | 0.123±0.01 | 0.988 | 12345 |" in english


def test_an_existing_report_is_refused_before_anything_runs(quick, tmp_path, capsys):
    (tmp_path / "report.zh.md").write_text("mine")
    assert run("experiment", "--all", "--out", str(tmp_path)) == 2
    assert "report.zh.md exists" in capsys.readouterr().err.replace("\n", "")
    assert quick == {}
    assert (tmp_path / "report.zh.md").read_text() == "mine"


def test_full_runs_with_the_arguments_of_the_recorded_version(quick, tmp_path):
    assert run("experiment", "pooling", "--out", str(tmp_path), "--seed", "7", "--full") == 0
    assert quick == {"pooling": 70}


def test_a_name_or_all_is_needed(quick, tmp_path, capsys):
    for arguments in ([], ["pooling", "--all"]):
        assert run("experiment", *arguments, "--out", str(tmp_path)) == 2
        assert "the name of one experiment, or --all" in " ".join(capsys.readouterr().err.split())
    assert quick == {}


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
