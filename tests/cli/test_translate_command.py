"""`regard translate`, `score` and `evaluate`: line numbers are kept, and errors name the file."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from regard.models.translation import TRANSLATION_MODELS


def flat(text):
    return " ".join(text.split())


def test_line_n_of_the_output_translates_line_n(command, trained, capsys):
    inputs = ["a b c", "", "d", "  ", "b b", *["c a"] * 300]
    assert command("translate", trained, "--beam", 2, stdin="\n".join(inputs).encode()) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines.pop() == "" and len(lines) == len(inputs)
    assert lines[1] == lines[3] == ""
    assert len(set(lines[5:])) == 1


def test_alignments_follow_a_tab(command, trained, capsys):
    assert command("translate", trained, "--alignments", stdin=b"a b c\n\n") == 0
    first, second = capsys.readouterr().out.removesuffix("\n").split("\n")
    text, links = first.split("\t")
    assert second == "\t"
    for link in links.split():
        source, target = map(int, link.split("-"))
        assert 0 <= source < 5 and 0 <= target < len(text)


def test_n_best_lists_are_numbered(command, trained, capsys):
    assert command("translate", trained, "--beam", 4, "--num-best", 3, stdin=b"a b\nc\n") == 0
    rows = [line.split(" ||| ") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["0"] * 3 + ["1"] * 3
    assert [float(row[2]) for row in rows[:3]] == sorted((float(row[2]) for row in rows[:3]), reverse=True)
    assert command("translate", trained, "--beam", 2, "--num-best", 3, stdin=b"a\n") == 2


def test_a_sample_does_not_depend_on_the_batching_of_lines(command, trained, capsys, monkeypatch):
    lines = b"a b c d\n\na b c d\nb c d e\na b c d\n"
    outputs = []
    for count in (256, 2, 1):
        monkeypatch.setattr("regard.cli.translate.BATCH_LINES", count)
        assert command("translate", trained, "--sample", "--temperature", 2.0, stdin=lines) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] == outputs[2]
    translations = outputs[0].splitlines()
    assert translations[1] == "" and translations[0] != translations[2]


def test_samples_depend_on_their_seed(command, trained, capsys):
    outputs = []
    for seed in (1, 1, 2):
        assert (
            command("translate", trained, "--sample", "--temperature", 2.0, "--seed", seed, stdin=b"a b c d\n" * 5) == 0
        )
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
    assert command("translate", trained, "--sample", "--num-best", 2, stdin=b"a\n") == 2


@pytest.mark.parametrize("kind", ["html", "png", "svg"])
def test_attention_is_drawn_and_not_overwritten(command, trained, kind, tmp_path, capsys):
    picture = tmp_path / f"look.{kind}"
    assert command("translate", trained, "--attention", picture, stdin=b"\na b c\n") == 0
    assert picture.stat().st_size > 1000
    assert command("translate", trained, "--attention", picture, stdin=b"a\n") == 2
    assert "exists" in flat(capsys.readouterr().err)
    assert command("translate", trained, "--attention", picture, "--overwrite", stdin=b"a\n") == 0


def test_a_long_line_is_truncated_with_a_warning_and_its_number(command, trained, capsys):
    assert command("translate", trained, "--beam", 1, stdin=b"a\n" + b"a " * 10_000 + b"\nb\n") == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 3
    assert "line 2 has 19,999 tokens; only the first 999 were translated" in flat(captured.err)


def test_invalid_input_raises_a_clear_error(command, trained, capsys, tmp_path):
    assert command("translate", trained, stdin=b"a\n\xff\xfe\n") == 2
    assert "line 2 of the input is not UTF-8: byte 1 is 0xff" in flat(capsys.readouterr().err)
    assert command("translate", trained, stdin="a\nb\n".encode("utf-16-le")) == 2
    assert "line 1 of the input has a zero byte: it is UTF-16 or not text" in flat(capsys.readouterr().err)
    assert command("translate", tmp_path, stdin=b"a\n") == 2
    assert "has no config.json" in flat(capsys.readouterr().err)
    assert command("translate", trained, "--attention", tmp_path / "a.gif", stdin=b"a\n") == 2
    assert "expected .png" in flat(capsys.readouterr().err)
    assert command("translate", trained, "--attention", tmp_path / "a.html", stdin=b"\n") == 2
    assert "no line to draw" in flat(capsys.readouterr().err)
    assert command("translate", trained, "--temperature", 0, "--sample", stdin=b"a\n") == 2


def test_a_system_that_does_not_attend_has_no_alignments(command, trained, capsys, monkeypatch):
    monkeypatch.setitem(TRANSLATION_MODELS, "bahdanau", replace(TRANSLATION_MODELS["bahdanau"], attends=False))
    assert command("translate", trained, "--alignments", stdin=b"a\n") == 2
    assert "bahdanau does not attend, so it has no alignments" in flat(capsys.readouterr().err)


def test_no_input_gives_no_output(command, trained, capsys):
    assert command("translate", trained, stdin=b"") == 0
    assert capsys.readouterr().out == ""


def test_a_broken_pipe_is_quiet(trained):
    line = f"{Path(sys.executable).with_name('regard')} translate {trained} --beam 1 | head -n 1"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    inputs = "a b\n" * 3000
    process = subprocess.run(
        ["bash", "-c", line], input=inputs, capture_output=True, text=True, env=environment, check=False, timeout=300
    )
    assert process.returncode == 0
    assert len(process.stdout.splitlines()) == 1
    assert process.stderr == ""


def test_scores_are_log_probabilities_a_line(command, trained, tmp_path, capsys):
    (tmp_path / "a").write_text("a b\nc\n")
    (tmp_path / "b").write_text("a b\nc\n")
    assert command("score", trained, "--source", tmp_path / "a", "--target", tmp_path / "b") == 0
    values = [float(line) for line in capsys.readouterr().out.splitlines()]
    assert len(values) == 2 and all(value < 0 for value in values)


def test_n_best_lists_are_rescored_and_sorted(command, trained, tmp_path, capsys):
    (tmp_path / "a").write_text("a b\nc\n")
    (tmp_path / "list").write_text("0 ||| a b ||| -1.0\n0 ||| a ||| -2.0\n0 ||| a b c d ||| -3.0\n1 ||| c ||| -1.0\n")
    rescore = ["score", trained, "--source", tmp_path / "a", "--hypotheses", tmp_path / "list"]
    assert command(*rescore) == 0
    plain = capsys.readouterr().out.splitlines()
    assert [line.rsplit(" ||| ", 1)[0] for line in plain] == (tmp_path / "list").read_text().splitlines()
    assert command(*rescore, "--rerank") == 0
    ranked = capsys.readouterr().out.splitlines()
    assert sorted(ranked) == sorted(plain)
    first = [float(line.rsplit(" ||| ", 1)[1]) for line in ranked[:3]]
    assert first == sorted(first, reverse=True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("0 a b\n", "line 1 of"), ("7 ||| a\n", "belongs to source 7, but there are 2"), ("x ||| a\n", "line 1 of")],
)
def test_an_invalid_list_raises_a_clear_error(command, trained, content, sentence, tmp_path, capsys):
    (tmp_path / "a").write_text("a b\nc\n")
    (tmp_path / "list").write_text(content)
    assert command("score", trained, "--source", tmp_path / "a", "--hypotheses", tmp_path / "list") == 2
    assert sentence in flat(capsys.readouterr().err)


def test_scoring_needs_something_to_score(command, trained, tmp_path, capsys):
    (tmp_path / "a").write_text("a b\nc\n")
    (tmp_path / "b").write_text("a b\n")
    assert command("score", trained, "--source", tmp_path / "a") == 2
    assert "either --target" in flat(capsys.readouterr().err)
    assert command("score", trained, "--source", tmp_path / "a", "--target", tmp_path / "b") == 2
    assert "has 2 lines" in flat(capsys.readouterr().err)
    assert command("score", trained, "--source", tmp_path / "a", "--target", tmp_path / "a", "--rerank") == 2


def test_an_evaluation_is_printed_and_saved(command, trained, capsys):
    assert command("evaluate", trained, "--split", "test", "--beam", 2) == 0
    output = capsys.readouterr().out
    for part in ("tokenised lower-case", "tok:none", "chrF2", "exact match", "perplexity", "source length"):
        assert part in output
    report = json.loads((trained / "evaluation-test-beam-2.json").read_text())
    assert report["info"]["examples"] == 8
    assert command("evaluate", trained, "--split", "validation") == 0
    assert (trained / "evaluation-validation.json").exists()
    assert command("evaluate", trained, "--split", "tests") == 2
    assert "the nearest is 'test'" in flat(capsys.readouterr().err)
    assert command("evaluate", trained, "--data", "x") == 2
    assert "has no data folder" in flat(capsys.readouterr().err)


def test_other_sentences_can_be_evaluated_on(command, trained, tmp_path, capsys):
    (tmp_path / "mine.tsv").write_text("a b\ta b\nc\tc\n")
    assert command("evaluate", trained, "--source", tmp_path / "mine.tsv", "--beam", 1) == 0
    assert "2 examples" in capsys.readouterr().out
    assert (trained / "evaluation-file-mine.tsv-beam-1.json").exists()


def test_unknown_tokens_are_named_and_many_lines_are_summarised(command, trained, capsys):
    assert command("translate", trained, stdin="a b\n我 a 吃\n".encode()) == 0
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "Warning" in line]
    assert warning == f"Warning: line 2 has '我', '吃', not in the vocabulary of {trained}: read as <unk>."
    assert command("translate", trained, "--beam", 1, stdin="我\n\n".encode() + "a 吃\n".encode() * 300) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "Warning" in line]
    assert len(warnings) == 6 and warnings[1].startswith("Warning: line 3 has '吃'")
    assert warnings[-1] == f"Warning: 296 more texts have '吃', not in the vocabulary of {trained}."


def test_unknown_tokens_of_scored_texts_are_named_on_both_sides(command, trained, tmp_path, capsys):
    for name, text in (("source", "a b\n我 a\n"), ("target", "a ☃\na\n"), ("nbest", "1 ||| 月 ||| 0\n")):
        (tmp_path / name).write_text(text)
    source = ("--source", tmp_path / "source")
    assert command("score", trained, *source, "--target", tmp_path / "target") == 0
    err = capsys.readouterr().err
    assert "source 2 has '我', not in the vocabulary" in err and "target 1 has '☃', not in the vocabulary" in err
    assert command("score", trained, *source, "--hypotheses", tmp_path / "nbest") == 0
    assert "target 1 has '月', not in the vocabulary" in capsys.readouterr().err
