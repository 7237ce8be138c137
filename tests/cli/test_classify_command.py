"""`regard classify`, and `train` and `evaluate` of classifiers: every invalid input raises a clear error."""

import json

import pytest

from regard.tasks import read_report
from tests.recipes.texts import CPU, SENTENCES, spoil

TINY = [*(f"--set={one}" for one in CPU), "--set=model.embedding_size=8", "--set=model.maps=4"]
CLASSES = {"CAT", "DOG", "NONE"}


def flat(text):
    return " ".join(text.split())


def test_a_line_of_output_is_label_probability_and_sentence(command, classifier, capsys):
    assert command("classify", classifier, "the cat sat", "a dog") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[2] for row in rows] == ["the cat sat", "a dog"]
    assert all(row[0] in CLASSES and 1 / 3 <= float(row[1]) <= 1 for row in rows)
    assert command("classify", classifier, stdin=b"the cat sat\r\na dog\n") == 0
    assert [line.split("\t") for line in capsys.readouterr().out.splitlines()] == rows, "lines are sentences"


def test_json_has_every_field(command, classifier, capsys):
    assert command("classify", classifier, "the ☃ cat", "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert (
        output["tokens"] == ["the", "<unk>", "cat"]
        and set(output["probabilities"]) == CLASSES
        and "weights" not in output
    )
    assert command("classify", classifier, "the ☃ cat", "--json", "--explain") == 0
    weights = json.loads(capsys.readouterr().out)["weights"]
    assert len(weights) == 2 and all(sum(row) == pytest.approx(1, abs=1e-5) for row in weights)


def test_rows_of_attention_are_shown_over_the_words(command, classifier, capsys):
    assert command("classify", classifier, "the [cat] sat", "--explain") == 0
    output = capsys.readouterr().out
    assert "the [cat] sat" in output and "  1  the" in output and "  2  the" in output and "%" in output


def test_unknown_words_give_a_warning(command, classifier, capsys):
    assert command("classify", classifier, "zzz ☃", "the cat") == 0
    output = capsys.readouterr().err
    assert "sentence 1 has no word of the vocabulary" in flat(output) and "sentence 2" not in output
    assert command("classify", classifier, "the ☃ cat") == 0
    assert "sentence 1 has '☃', not in the vocabulary" in flat(capsys.readouterr().err)
    assert command("classify", classifier, "the ☃ cat", "--explain") == 0
    assert "read as <unk>: ☃" in flat(capsys.readouterr().out)


@pytest.mark.parametrize("options", [[], ["--explain"], ["--json", "--explain"]])
def test_an_empty_sentence_is_classified(command, classifier, options, capsys):
    assert command("classify", classifier, "", *options) == 0
    output = capsys.readouterr().out
    assert any(label in output for label in CLASSES)
    assert command("classify", classifier, *options, stdin=b"a cat\n\na dog\n") == 0
    assert capsys.readouterr().err == ""


def test_no_input_gives_no_output(command, classifier, capsys):
    assert command("classify", classifier, stdin=b"") == 0
    assert capsys.readouterr().out == ""


def test_a_long_sentence_is_truncated_with_a_warning(command, classifier, capsys):
    assert command("classify", classifier, "a cat " * 10) == 0
    captured = capsys.readouterr()
    assert "the last 8 tokens of sentence 1 were not read" in flat(captured.err)
    assert captured.out.split("\t")[0] in CLASSES


def test_input_that_is_not_utf8_raises_a_clear_error(command, classifier, capsys):
    assert command("classify", classifier, stdin=b"a cat\n\xff\n") == 2
    assert "line 2 of the input is not UTF-8: byte 1 is 0xff" in flat(capsys.readouterr().err)
    assert command("classify", classifier, "a\udcff") == 2
    assert "contains an unpaired surrogate" in flat(capsys.readouterr().err)


def test_an_evaluation_is_printed_and_saved(command, classifier, tmp_path, capsys):
    assert command("evaluate", classifier) == 0
    output = capsys.readouterr().out
    for part in ("accuracy", "macro F1", "log-loss", "overlap", "true \\ predicted", "validation", "test"):
        assert part in output
    assert json.loads((classifier / "evaluation-test.json").read_text())["info"]["split"] == "test"
    assert command("evaluate", classifier, "--split", "dev") == 2
    assert "there is no split 'dev'" in flat(capsys.readouterr().err)
    assert command("evaluate", classifier, "--data", tmp_path) == 2
    assert "Name it with --source" in flat(capsys.readouterr().err)


def test_a_class_outside_the_training_data_gives_a_warning(command, classifier, tmp_path, capsys):
    (tmp_path / "mine.all").write_text("BIRD a bird\nCAT a cat\n")
    assert command("evaluate", classifier, "--source", tmp_path / "mine.all") == 0
    captured = capsys.readouterr()
    assert "BIRD" in captured.out and "never seen" in captured.out
    assert "file-mine.all: training never saw the classes of 1 sentences: 'BIRD' (1)." in flat(captured.err)
    report = read_report((classifier / "evaluation-file-mine.all.json").read_text())
    assert report.table("confusion").rows[-1][0] == "BIRD" and report.metric("accuracy").value <= 0.5
    (tmp_path / "birds.all").write_text("BIRD a bird\n")
    assert command("evaluate", classifier, "--source", tmp_path / "birds.all") == 0
    assert "0.00%" in capsys.readouterr().out


def test_labels_and_names_are_shown_unchanged(command, classifier, tmp_path, capsys):
    (tmp_path / "mine[bold].all").write_text("[/red] a bird\nCAT a cat\n")
    assert command("evaluate", classifier, "--source", tmp_path / "mine[bold].all") == 0
    output = capsys.readouterr().out
    assert "[/red]" in output and "file-mine[bold].all" in output


def test_a_model_with_nan_weights_raises_a_clear_error(command, classifier, tmp_path, capsys):
    spoil(classifier, tmp_path / "run")
    assert command("classify", tmp_path / "run", "a cat") == 2
    captured = capsys.readouterr()
    assert "the model gives NaN for 'a cat'" in flat(captured.err) and captured.out == ""


def test_training_prints_warnings_and_commands_to_try(command, tmp_path, capsys):
    (tmp_path / "a.train.all").write_bytes(SENTENCES.encode() + b"CAT na\xefve cat\nDOG\n")
    (tmp_path / "a.dev.all").write_text("BIRD a bird\nCAT a cat\n")
    line = ["train", "sentences", "--data", tmp_path / "a.train.all", "--model", "cnn", "--out", tmp_path / "run"]
    assert command(*line, "--steps", 2, *TINY) == 0
    captured = capsys.readouterr()
    # a CNN has no rows of attention to explain by, and a sentence may begin with a hyphen
    assert f"regard classify {tmp_path / 'run'} -- 'a bird'" in captured.out and "validation accuracy" in captured.out
    output = flat(captured.err)
    assert "train: dropped 1 sentences: 1 without a text. 1 lines are not UTF-8 and were read as Latin-1." in output
    assert "validation: training never saw the classes of 1 sentences: 'BIRD' (1)." in output
    assert command(*line, "--steps", 3, "--resume", *TINY) == 0
    assert "3 steps" in capsys.readouterr().out
    assert command("classify", tmp_path / "run", "--explain", "the cat") == 0
    assert "This system has no rows of attention over its words." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (
            b"".join(b"A text %d\n" % number for number in range(40)),
            "have the class 'A'. Give sentences of two classes or more",
        ),
        (b"A one\nB two\n", "too few to hold some out"),
        (b"A\nB\n", "holds no sentence to learn from"),
        ("A one\nB two\n".encode("utf-16"), "line 1 of"),
    ],
)
def test_invalid_files_raise_clear_errors(command, content, sentence, tmp_path, capsys):
    (tmp_path / "a.all").write_bytes(content)
    assert command("train", "sentences", "--data", tmp_path / "a.all", "--out", tmp_path / "run", "--steps", 1) == 2
    assert sentence in flat(capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "the recipe sentences needs data. Give it with --data."),
        (["--data", "none.all"], "there is no file"),
        (["--data", "a.all", "--valid-source", "none.all"], "there is no file"),
        (["--data", "a.all", "--model", "bahdanau"], "bahdanau is for translation, and the recipe sentences is for"),
        (["--data", "a.all", "--set", "classes=A"], "they are the labels of the data"),
        (["--data", "a.all", "--set", "model.num_classes=3"], "it follows from the labels of the data"),
        (["--data", "a.all", "--set", "batch.max_length=0"], "max_length is 0"),
    ],
)
def test_invalid_trainings_raise_clear_errors(command, arguments, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.all").write_text(SENTENCES)
    assert command("train", "sentences", *arguments, "--out", tmp_path / "run", "--steps", 1) == 2
    captured = capsys.readouterr()
    assert sentence in flat(captured.err) and "Traceback" not in captured.err
    assert not (tmp_path / "run").exists()


def test_many_unknown_sentences_are_summarised(command, classifier, capsys):
    words = [f"☃{number}" for number in range(20)]
    assert command("classify", classifier, stdin="\n".join(f"the {word}" for word in words).encode()) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "Warning" in line]
    assert len(warnings) == 6 and "15 more texts have '☃5', '☃6', '☃7', '☃8', '☃9' .., not in" in warnings[-1]


def test_a_class_is_printed_by_its_name(command, tmp_path, capsys):
    data = tmp_path / "stsa.binary.train"
    data.write_text("".join(f"{number % 2} a {['bad', 'good'][number % 2]} film {number} .\n" for number in range(20)))
    out = tmp_path / "run"
    sizes = ("--set=training.epochs=1", *TINY)
    assert command("train", "sentences", "--data", data, "--model", "cnn", "--out", out, *sizes) == 0
    assert json.loads((out / "config.json").read_text())["data"]["class_names"][1] == {
        "label": "1", "en": "positive", "zh": "正面",
    }  # fmt: skip
    capsys.readouterr()
    assert command("classify", out, "a good film .") == 0
    assert capsys.readouterr().out.split("\t")[0] in ("positive", "negative")
    assert command("classify", out, "a good film .", "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert output["label"] in "01" and output["name"] in ("positive", "negative")
