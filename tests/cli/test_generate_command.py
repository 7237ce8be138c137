"""`regard generate`, and `train` and `evaluate` of language models: every invalid input raises a clear error."""

import json
import random

import pytest

from regard.tasks import load, read_report
from tests.recipes.texts import CPU, SIZES, WORDS, spoil

SETS = {model: [f"--set={one}" for one in (*SIZES[model], *CPU)] for model in SIZES}


def flat(text):
    return " ".join(text.split())


def test_prompts_are_continued(command, writers, capsys):
    line = ["generate", writers["lstm"], "--prompt", "the cat", "--prompt", "a dog", "--max-tokens", 6, "--seed", 2]
    assert command(*line) == 0
    first = capsys.readouterr()
    assert first.out.startswith("the cat") and "\n\na dog" in first.out and first.err == ""
    assert command(*line) == 0 and capsys.readouterr().out == first.out, "the same seed draws the same"
    assert command(*line[:2], *line[6:], stdin=b"the cat\na dog\n") == 0
    assert capsys.readouterr().out == first.out, "lines are prompts"


def test_json_and_streaming_give_the_same_text(command, writers, capsys):
    line = ["generate", writers["gpt"], "--prompt", "the cat", "--max-tokens", 40, "--temperature", 0.9]
    assert command(*line, "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert set(output) == {"prompt", "text", "ended", "tokens", "log_probs"} and output["ended"] == "tokens"
    assert len(output["tokens"]) == len(output["log_probs"]) == 40
    assert command(*line, "--stream") == 0
    assert capsys.readouterr().out == output["prompt"] + output["text"] + "\n"


def test_an_empty_prompt_begins_a_text_and_no_prompt_gives_no_output(command, writers, capsys):
    assert command("generate", writers["lstm"], "--prompt", "", "--max-tokens", 4, "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert output["prompt"] == "" and len(output["tokens"]) == 4
    assert command("generate", writers["lstm"], stdin=b"") == 0 and capsys.readouterr().out == ""


def test_a_temperature_of_0_is_deterministic(command, writers, capsys):
    output = []
    for seed in (0, 1):
        line = ["generate", writers["gpt"], "--prompt", "the", "--temperature", 0, "--max-tokens", 8, "--seed", seed]
        assert command(*line) == 0
        output.append(capsys.readouterr().out)
    assert output[0] == output[1]


def test_a_prompt_longer_than_the_context_gives_a_warning(command, writers, capsys):
    assert command("generate", writers["gpt"], "--prompt", "the cat sat " * 30, "--max-tokens", 3) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("the cat sat the cat")
    assert "tokens and the context of the model is 16: only the last 16 are used" in flat(captured.err)
    assert command("generate", writers["lstm"], "--prompt", "the cat sat " * 30, "--max-tokens", 3) == 0
    assert capsys.readouterr().err == "", "an LSTM has no limited context"


def test_unknown_characters_give_a_warning_and_become_unknown(command, writers, capsys):
    line = ["generate", writers["lstm"], "--prompt", "the cat", "--prompt", "☃☃ [b] Ω", "--max-tokens", 2]
    assert command(*line) == 0
    captured = capsys.readouterr()
    assert "Warning: prompt 2 has" in captured.err and "☃" in captured.err and "'Ω'" in captured.err
    assert "read as <unk>" in flat(captured.err) and "☃☃ [b] Ω" in captured.out


def test_a_stop_string_may_span_tokens(command, writers, capsys):
    line = ["generate", writers["lstm"], "--prompt", "the", "--max-tokens", 60, "--json"]
    assert command(*line) == 0
    free = json.loads(capsys.readouterr().out)
    # a part of its own output, over at least three tokens
    place = len("".join(free["tokens"][:20]))
    stop = free["text"][place : place + 12]
    assert len(stop) == 12
    assert command(*line, "--stop", stop) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["ended"] == "stop" and output["text"] == free["text"][: free["text"].index(stop)]
    assert command(*line, "--stop", r"\n", "--stop", "ÿ\\") == 0
    assert "\n" not in json.loads(capsys.readouterr().out)["text"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--temperature", -1], "temperature is -1.0, expected 0, which always takes the best token"),
        (["--temperature", "nan"], "temperature is nan"),
        (["--top-p", 0], "top_p is 0.0, expected a share above 0"),
        (["--top-p", 1.5], "top_p is 1.5"),
        (["--min-p", 1.1], "min_p is 1.1, expected a share of the best token's"),
        (["--min-p", -0.1], "min_p is -0.1"),
        (["--top-k", 0], "top_k is 0, expected 1 token or more"),
        (["--repetition-penalty", 0], "repetition_penalty is 0.0, expected a number above 0"),
        (["--repetition-penalty", "1e300"], "repetition_penalty is 1e+300, expected a number above 0, from 1e-06"),
        (["--max-tokens", 0], "max_tokens is 0, expected 1 token or more"),
        (["--stop", ""], "a stop string is empty"),
        (["--device", "tpu"], "device is 'tpu', expected auto, cpu, cuda, mps"),
        (["--stream", "--json"], "--stream prints the tokens of one text"),
        (["--stream", "--prompt", "b"], "give one prompt"),
        (["--prompt", "a\udcff"], "contains an unpaired surrogate"),
    ],
)
def test_invalid_options_print_one_error(command, writers, options, sentence, capsys):
    assert command("generate", writers["gpt"], "--prompt", "the", *options) == 2
    captured = capsys.readouterr()
    assert sentence in flat(captured.err) and "Traceback" not in captured.err
    assert captured.out == ""
    if "--stream" not in options:
        assert command("generate", writers["gpt"], "--prompt", "the", "--stream", *options) == 2
        assert capsys.readouterr().out == ""


def test_lines_that_are_not_utf8_raise_a_clear_error(command, writers, capsys):
    assert command("generate", writers["gpt"], stdin=b"the\n\xff\n") == 2
    assert "line 2 of the input is not UTF-8" in flat(capsys.readouterr().err)


def test_a_folder_of_another_task_names_its_command(command, trained, writers, classifier, tmp_path, capsys):
    (tmp_path / "a").write_text("a\n")
    score = ["--source", tmp_path / "a", "--target", tmp_path / "a"]
    for line, sentence in [
        (
            ["generate", trained],
            "a bahdanau, a model for translation, which cannot generate. Use it with: echo ... | regard translate",
        ),
        (
            ["generate", classifier],
            "for text classification, which cannot generate. Use it with: regard classify",
        ),
        (["classify", trained, "a"], "a model for translation, which cannot classify"),
        (["classify", writers["gpt"], "a"], "holds a gpt, a model for language modeling, which cannot classify"),
        (["translate", writers["gpt"]], "which cannot translate. Use it with: regard generate"),
        (["translate", classifier, "--alignments"], "which cannot translate. Use it with: regard classify"),
        (["score", classifier, *score], "there is no class 'a'"),
        (["generate", tmp_path], "has no config.json"),
        (
            ["evaluate", writers["gpt"], "--source", tmp_path / "a", "--target", tmp_path / "a"],
            "--target names translations, and a gpt makes none",
        ),
    ]:
        assert command(*line, stdin=b"a\n") == 2
        captured = capsys.readouterr()
        assert sentence in flat(captured.err) and "Traceback" not in captured.err


def test_an_evaluation_is_printed_and_saved(command, writers, text_file, capsys):
    folder = writers["gpt"]
    assert command("evaluate", folder) == 0
    output = capsys.readouterr().out
    for part in (
        "perplexity",
        "bits per character",
        "validation",
        "test",
        "weight within the last n tokens",
        "the state carried",
    ):
        assert part in output
    report = json.loads((folder / "evaluation-test.json").read_text())
    assert report["info"]["task"] == "language_modeling" and (folder / "evaluation-validation.json").exists()
    assert command("evaluate", folder, "--beam", 3) == 2
    assert "--beam is no option of language modeling" in flat(capsys.readouterr().err)
    assert command("evaluate", folder, "--split", "tests") == 2
    assert "the nearest is 'test'" in flat(capsys.readouterr().err)
    assert command("evaluate", folder, "--data", "x") == 2
    assert "has no data folder" in flat(capsys.readouterr().err)


def test_other_texts_can_be_evaluated_on_and_unknown_words_are_counted(command, writers, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("the ☃ sat\n")
    assert command("evaluate", writers["lstm"], "--source", tmp_path / "mine.txt") == 0
    report = read_report((writers["lstm"] / "evaluation-file-mine.txt.json").read_text())
    assert report.table("counts").rows[0][1] == 4 and report.table("counts").rows[0][3] == 1
    for content, sentence in ((b"", "is empty"), (b"\n", "the text is empty"), (b"\xff", "is not UTF-8")):
        (tmp_path / "bad.txt").write_bytes(content)
        assert command("evaluate", writers["lstm"], "--source", tmp_path / "bad.txt") == 2
        assert sentence in flat(capsys.readouterr().err)
    assert command("evaluate", writers["lstm"], "--source", tmp_path / "none.txt") == 2
    assert "there is no file" in flat(capsys.readouterr().err)


def test_names_are_shown_unchanged(command, writers, tmp_path, capsys):
    (tmp_path / "mine[bold].txt").write_text("the cat sat\n")
    assert command("evaluate", writers["gpt"], "--source", tmp_path / "mine[bold].txt") == 0
    assert "gpt on text text.txt, file-mine[bold].txt: 1 examples" in flat(capsys.readouterr().out)


def test_a_model_with_nan_weights_raises_a_clear_error(command, writers, tmp_path, capsys):
    spoil(writers["gpt"], tmp_path / "run")
    for line in (["evaluate", tmp_path / "run"], ["generate", tmp_path / "run", "--prompt", "the"]):
        assert command(*line) == 2
        assert "the model gives NaN for" in flat(capsys.readouterr().err)


def test_tiny_shakespeare_has_no_test_split(command, tmp_path, capsys):
    (tmp_path / "input.txt").write_text("to be or not to be\n" * 40)
    sizes = [one for one in SETS["gpt"] if "vocab" not in one]
    line = ["train", "tinyshakespeare-small", "--data", tmp_path, "--out", tmp_path / "run", "--steps", 1, *sizes]
    assert command(*line) == 0
    output = capsys.readouterr().out
    assert "regard generate" in output and "regard evaluate" in output and "--split" not in output
    assert command("evaluate", tmp_path / "run", "--split", "test") == 2
    assert "tiny Shakespeare has no test. Evaluate on validation." in flat(capsys.readouterr().err)
    assert command("evaluate", tmp_path / "run") == 0


def test_a_run_is_resumed(command, text_file, tmp_path, capsys):
    line = ["train", "text", "--data", text_file, "--model", "lstm", "--out", tmp_path / "run", *SETS["lstm"]]
    line += ["--set=training.schedule.warmup_steps=1"]
    assert command(*line, "--steps", 2) == 0
    assert command(*line, "--steps", 2) == 2
    assert "is not empty" in flat(capsys.readouterr().err)
    assert command(*line, "--steps", 4, "--resume") == 0
    assert "4 steps" in capsys.readouterr().out
    assert command(*line, "--steps", 4, "--resume", "--set", "tokenizer.kind=characters") == 2
    assert "tokenizer.kind: bpe -> characters" in flat(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["text"], "the recipe text needs data. Give it with --data."),
        (["text", "--data", "no.txt"], "there is no file"),
        (["text", "--data", "."], "is a folder. Name a file in it"),
        (["text", "--data", "{text}", "--model", "transformer"], "transformer is for translation, and the recipe text"),
        (["copy", "--model", "gpt"], "gpt is for language modeling, and the recipe copy is for translation"),
        (
            ["sentences", "--data", "{text}", "--model", "gpt"],
            "gpt is for language modeling, and the recipe sentences is for text",
        ),
        (["text", "--data", "{text}", "--model", "gtp"], "there is no model 'gtp'; the nearest is 'gpt'"),
        (["text", "--data", "{text}", "--valid-source", "no.txt"], "there is no file"),
        (["text", "--data", "{text}", "--source", "{text}"], "the recipe text does not accept source"),
        (["text", "--data", "{text}", "--steps", "0"], "steps is 0, expected more than 0"),
        (["text", "--data", "{text}", "--set", "batch.rows=0"], "batch.rows is 0, expected 1 or more"),
        (["text", "--data", "{text}", "--set", "model.vocab_size=9"], "set tokenizer.vocab_size"),
        (["text", "--data", "{text}", "--set", "model.num_heads=5"], "5"),
        (
            ["text", "--data", "{text}", "--model", "ngram", "--set", "model.order=1000000000"],
            "order is 1000000000, expected 1 word or more, such as 5, and 1,000 at most",
        ),
        (["topics", "--data", "x"], "the recipe topics does not accept folder"),
        (["ptb", "--data", "/no/such"], "does not exist"),
    ],
)
def test_invalid_trainings_raise_clear_errors(command, arguments, sentence, text_file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = [str(text_file) if one == "{text}" else one for one in arguments]
    assert command("train", *inputs, "--out", tmp_path / "run") == 2
    captured = capsys.readouterr()
    assert sentence in flat(captured.err) and "Traceback" not in captured.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n", "too short to hold out a part"),
        (b"word", "too short to hold out a part"),
        (b"a\n\xfe\n", "line 2 of"),
        (b"a\n\x00\n", "has a zero byte: the file is UTF-16 or not text"),
    ],
)
def test_invalid_texts_raise_clear_errors(command, content, sentence, tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes(content)
    assert command("train", "text", "--data", tmp_path / "a.txt", "--out", tmp_path / "run") == 2
    assert sentence in flat(capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("model", ["lstm", "ngram"])
def test_a_text_of_one_word_trains_with_a_validation_file(command, model, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("word")
    files = ["--data", tmp_path / "a.txt", "--valid-source", tmp_path / "a.txt"]
    assert (
        command("train", "text", *files, "--model", model, "--out", tmp_path / "run", "--steps", 1, *SETS[model]) == 0
    )
    assert command("generate", tmp_path / "run", "--prompt", "word", "--max-tokens", 3) == 0
    assert capsys.readouterr().out


def test_one_line_of_many_words_trains(command, tmp_path, capsys):
    (tmp_path / "a.txt").write_text(" ".join(random.Random(0).choices(WORDS, k=200_000)))
    line = ["train", "text", "--data", tmp_path / "a.txt", "--model", "lstm", "--out", tmp_path / "run", "--steps", 3]
    # validation in many rows, for speed
    assert (
        command(*line, *SETS["lstm"], "--set=validation.rows=512", "--set=batch.rows=64", "--set=data.assignment=end")
        == 0
    )
    assert load(tmp_path / "run").run.recipe == "text"


def test_running_out_of_memory_raises_a_clear_error(command, text_file, tmp_path, capsys):
    sets = [*SETS["key_value_predict"], f"--set=model.window={10**13}"]
    line = ["train", "text", "--data", text_file, "--model", "key_value_predict", "--out", tmp_path / "run"]
    assert command(*line, "--steps", 1, *sets) == 2
    assert "the memory is full" in flat(capsys.readouterr().err)


def test_one_word_of_many_letters_trains(command, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("x" * 20_000)
    line = ["train", "text", "--data", tmp_path / "a.txt", "--model", "lstm", "--out", tmp_path / "run", "--steps", 2]
    # frequencies alone predict a text of one letter, with a finite perplexity
    sets = ("--set=tokenizer.kind=characters", "--set=validation.rows=64", "--set=training.readout_bias=model")
    assert command(*line, *SETS["lstm"], *sets) == 2
    assert "--set data.assignment=end" in flat(capsys.readouterr().err), "one line cannot be in several splits"
    assert command(*line, *SETS["lstm"], *sets, "--set=data.assignment=end") == 0
    captured = capsys.readouterr()
    # the perplexity per word is infinite, and not reported as NaN
    assert "perplexity not finite" in flat(captured.err) and "nan" not in captured.err
    assert max(map(len, captured.out.splitlines())) < 500


def test_continuations_and_classes_are_scored_like_translations(command, writers, classifier, tmp_path, capsys):
    (tmp_path / "texts").write_text("the cat\na dog\n")
    (tmp_path / "outputs").write_text("CAT\nDOG\n")
    for folder in (writers["lstm"], classifier):
        files = ["--source", tmp_path / "texts", "--target", tmp_path / "outputs"]
        assert command("score", folder, *files) == 0
        values = [float(line) for line in capsys.readouterr().out.splitlines()]
        assert len(values) == 2 and max(values) < 0
