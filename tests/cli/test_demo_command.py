"""`regard demo`: three systems, a table, a picture, and folders that go on to be used."""

import os
import signal
import sys

import pytest

import regard.cli.demo as demo
from regard._utils import load_last_demo, override
from regard.tasks import fit, read_report


@pytest.fixture
def hurried(monkeypatch):
    """Two steps for each system, and few dates."""
    few = ("data.count=50", "data.held_out=10", "training.steps=2", "batch.tokens=512", "training.every.validate=2")
    monkeypatch.setattr(demo, "override", lambda run, *changes: override(run, *changes, *few))


def test_it_trains_compares_draws_and_leaves_models_behind(hurried, command, tmp_path, capsys):
    assert command("demo", "--quick", "--out", tmp_path / "demo") == 0
    output = capsys.readouterr().out
    for part in ("Seq2Seq", "Bahdanau", "Transformer", "parameters", "rows: target", "regard translate"):
        assert part in output
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    assert names == {*demo.DEMO_SYSTEMS, "alignment.html", "alignment.png", "alignment.svg"}
    assert load_last_demo() == (tmp_path / "demo").resolve()
    report = read_report((tmp_path / "demo" / "bahdanau" / "evaluation-test-beam-1.json").read_text())
    assert report.metrics[0].name == "exact_match" and report.info.system == "bahdanau"
    assert command("translate", tmp_path / "demo" / "bahdanau", "--beam", 1, stdin=b"July 20, 1969\n") == 0
    capsys.readouterr()
    assert command("demo", "--out", tmp_path / "demo") == 2
    assert "exists. Choose another --out, or allow it with --overwrite" in " ".join(capsys.readouterr().err.split())
    assert command("demo", "--quick", "--out", tmp_path / "demo", "--overwrite") == 0


def test_without_matplotlib_there_is_a_page_and_a_word(hurried, command, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert command("demo", "--out", tmp_path) == 0
    assert "pip install matplotlib" in capsys.readouterr().out
    assert not list(tmp_path.glob("*.png")) and (tmp_path / "alignment.html").exists()


def test_without_babel_it_says_so(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    from regard.data.corpora import dates

    dates._load_locale.cache_clear()
    assert command("demo", "--out", tmp_path / "demo") == 2
    assert "Dates needs the babel package" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_an_interrupted_demo_continues_when_the_command_is_given_again(hurried, command, tmp_path, capsys, monkeypatch):
    interrupted = []

    def stop_once(record):
        if not interrupted:
            interrupted.append(record["step"])
            os.kill(os.getpid(), signal.SIGINT)

    def fit_or_stop(run, out, **options):
        # two steps more than those of the other tests, so that the signal arrives between two of them
        run = override(run, "training.steps=4")
        stop = [stop_once] if out.name == "bahdanau" else []
        return fit(run, out, callbacks=stop, **options)

    monkeypatch.setattr(demo, "fit", fit_or_stop)
    words = ("demo", "--quick", "--out", tmp_path / "demo")
    assert command(*words) == 130
    output = " ".join("".join(capsys.readouterr()).split())
    assert interrupted == [2] and "Training stopped after step 3 and is saved." in output
    assert "Give the same command again to continue." in output
    assert "--resume" not in output and "--overwrite" not in output
    finished = (tmp_path / "demo" / "seq2seq" / "model.safetensors").read_bytes()
    assert command(*words) == 0
    output = " ".join("".join(capsys.readouterr()).split())
    # the finished system keeps its weights, the other one continues after the step that was saved
    assert "Resuming from step 3" in output and "parameters" in output
    assert (tmp_path / "demo" / "seq2seq" / "model.safetensors").read_bytes() == finished
    assert (tmp_path / "demo" / "alignment.html").exists()
    assert command(*words) == 2, "a demo that is complete is not trained again"
    assert command(*words[:1], *words[2:]) == 2


def test_other_files_are_not_taken_for_an_interrupted_demo(command, tmp_path, capsys):
    (tmp_path / "demo" / "bahdanau").mkdir(parents=True)
    assert command("demo", "--out", tmp_path / "demo") == 2
    assert "Choose another --out" in capsys.readouterr().err
