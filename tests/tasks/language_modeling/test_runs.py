"""Language models from text to folder to text: every kind of training, and the predictor of a folder."""

import json

import pytest
import torch
from rich.console import Console

from regard._utils import VERSION, override, read_lines
from regard.checkpoint import load_tensors
from regard.data.corpora.text import FileTextCorpus, PTBCorpus, ShakespeareCorpus, TopicsCorpus, find_split_point
from regard.data.text.streams import encode_text
from regard.recipes import make_run
from regard.tasks import fit, load
from regard.tasks.language_modeling import LanguageModelingRun, TextGenerator
from regard.tasks.language_modeling import predictor as writer
from regard.tasks.language_modeling.predictor import IncrementalDetokenizer, StoppedText
from regard.tasks.load import from_config, to_config
from tests.recipes.texts import CPU, SIZES, TEXT

QUIET = Console(quiet=True)
MODELS = ("ngram", "lstm", "key_value_predict", "gpt")


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module", params=MODELS)
def fitted(request, text_file, tmp_path_factory):
    run = override(make_run("text", request.param, data=text_file, steps=6), *SIZES[request.param], *CPU)
    return fit(run, tmp_path_factory.mktemp("runs") / "run", console=QUIET)


def test_a_loaded_folder_equals_the_trained_model(fitted):
    folder = fitted.result.folder
    again = load(folder, device="cpu")
    assert isinstance(again, TextGenerator) and isinstance(again.run, LanguageModelingRun)
    first, second = fitted.system.model.state_dict(), again.model.state_dict()
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    config = json.loads((folder / "config.json").read_text())
    assert from_config(config, "config.json") == again.run
    # the other entries are checksums
    assert json.loads(json.dumps(to_config(again.run, VERSION))).items() <= config.items()
    assert config["model"]["vocab_size"] == again.tokenizer.vocab_size
    assert set(fitted.result.metrics) == {"loss", "perplexity", "bits_per_character"}
    assert fitted.result.metrics == pytest.approx(read_lines(folder / "metrics.jsonl")[-1]["validation"], rel=0.5)
    card = (folder / "README.md").read_text()
    assert f"{again.run.model_name} on text" in card


def test_a_loaded_folder_generates(fitted):
    writer = fitted.system
    options = {"max_tokens": 12, "temperature": 0.7, "top_p": 0.9, "seed": 3}
    prompts = [fitted.example, "", "the cat\nsat"]
    actual = writer.generate(prompts, **options)
    assert [one.prompt for one in actual] == prompts
    for one, prompt in zip(actual, prompts, strict=True):
        assert one.ended == "tokens" and len(one.tokens) == len(one.log_probs) == 12
        assert str(one) == prompt + one.text and all(value <= 0 for value in one.log_probs)
    assert actual == writer.generate(prompts, **options), "the same seed draws the same"
    pieces = list(writer.stream(prompts, **options))
    assert ["".join(piece.text for piece in pieces if piece.number == n) for n in range(3)] == [
        one.text for one in actual
    ]


def test_prompts_in_groups_are_continued_as_alone(fitted, monkeypatch):
    prompts = ["the cat sat", "the", "", "a dog sat on the mat", "the dog"]
    options = {"max_tokens": 6, "temperature": 0.9, "seed": 5}
    whole = fitted.system.generate(prompts, **options)
    monkeypatch.setattr(writer, "PROMPTS_AT_ONCE", 2)
    groups = fitted.system.generate(prompts, **options)
    assert [(one.prompt, one.text) for one in groups] == [(one.prompt, one.text) for one in whole]


def test_a_loaded_folder_evaluates_texts(fitted):
    writer, text = fitted.system, TEXT[:90]
    report = writer.evaluate(text, split="test", steps=6)
    actual = writer.likelihood(text)
    counts = dict(
        zip((one.name for one in report.table("counts").columns), report.table("counts").rows[0], strict=True)
    )
    assert (counts["tokens"], counts["nats"]) == (actual.tokens, actual.nats)
    assert report.metrics[0].value == actual.perplexity and report.metrics[0].name == "perplexity"
    assert (actual.characters, actual.words) == (90, len(text.split()) + text.count("\n"))
    assert report.info.steps == 6 and report.metrics[0].signature == "one stream, the state carried"
    attends = writer.run.model_name in ("key_value_predict", "gpt")
    distances = report.table("attention_distance")
    assert (distances is not None) == attends
    for _, *within, _, queries in distances.rows if distances else ():
        assert within == sorted(within) and within[-1] <= 1 + 1e-6
        heads = 2 if writer.run.model_name == "gpt" else 1
        # the very first token of some has nothing to attend to
        assert actual.tokens - 1 <= queries / heads <= actual.tokens
    rows = writer.evaluate(text, split="test", rows=3)
    crops = writer.evaluate(text, split="test", crops=8)
    assert "3 streams side by side" in rows.metrics[0].signature and "crops of 8 tokens" in crops.metrics[0].signature
    assert rows.table("counts").rows[0][0] == crops.table("counts").rows[0][0] == actual.tokens


def test_a_continuation_is_scored_as_it_was_generated(fitted):
    writer = fitted.system
    prompts = ["the cat", ""]
    for one, prompt in zip(writer.predict(prompts, max_tokens=6, temperature=0), prompts, strict=True):
        (score,) = writer.score([prompt], [one.text])
        if len(writer.tokenizer.tokens(encode_text(one.text, writer.tokenizer))) == len(one.tokens):
            assert score == pytest.approx(sum(one.log_probs), rel=1e-3)
    assert writer.score(["the"], [""]) == [0.0]
    with pytest.raises(ValueError, match="2 prompts and 1 continuations"):
        writer.score(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="return_weights"):
        writer.predict(["a"], return_weights=True)


def test_unknown_words_count_as_unknown(fitted):
    actual = fitted.system.likelihood("the ☃ sat ☃\n")
    assert actual.unknown == 2 and actual.words == 5
    assert fitted.system.unknown_in("a ☃ b") == ["☃"]


def test_inputs_that_are_not_text_raise_errors(fitted):
    for ask in (fitted.system.likelihood, fitted.system.spans, fitted.system.unknown_in):
        with pytest.raises(ValueError, match=r"texts\[0\] contains an unpaired surrogate at index 1"):
            ask("a\udcff")
    with pytest.raises(ValueError, match="stop is one string, expected a list of them"):
        fitted.system.generate(["the"], stop="the", max_tokens=2)


@pytest.mark.unchecked
def test_a_prompt_that_is_not_a_string_raises_an_error(fitted):
    with pytest.raises(ValueError, match=r"prompts\[1\] is a int, expected a string"):
        fitted.system.generate(["the", 5], max_tokens=2)


def test_topics_are_read_from_the_standard_library(tmp_path):
    changes = ["model.hidden_size=8", "model.embedding_size=8", "tokenizer.vocab_size=200", *CPU]
    fitted = fit(override(make_run("topics", "lstm", steps=2), *changes), tmp_path / "run", console=QUIET)
    assert fitted.system.generate([fitted.example], max_tokens=3)[0].text
    corpus = TopicsCorpus()
    parts = {split: set(corpus.read(split).split("\n")) for split in corpus.splits}
    assert len(corpus.read("train")) > 200_000 and all(map(corpus.read, corpus.splits)) and len(parts) == 3


def test_a_resumed_run_equals_an_uninterrupted_one(text_file, tmp_path):
    run = override(make_run("text", "lstm", data=text_file, steps=6), *SIZES["lstm"], *CPU, "model.dropout=0.3")
    fit(run, tmp_path / "whole", console=QUIET)
    # the learning rate falls towards the last step, which only the first run had
    short = override(run, "training.schedule.decay_steps=6", "training.steps=3")
    long = override(short, "training.steps=6")
    fit(short, tmp_path / "cut", console=QUIET)
    fit(long, tmp_path / "cut", resume=True, console=QUIET)
    for name in ("weights", "running", "carried"):
        last = f"training/step-00000006/{name}.safetensors"
        one, other = (load_tensors(tmp_path / folder / last) for folder in ("whole", "cut"))
        assert all(torch.equal(one[key], other[key]) for key in one)
    with pytest.raises(ValueError, match=r"started with other settings: batch\.length: 8 -> 9"):
        fit(override(long, "batch.length=9"), tmp_path / "cut", resume=True, console=QUIET)


def test_counted_models_need_one_process_and_report_their_time(text_file, tmp_path, monkeypatch):
    run = override(make_run("text", "ngram", data=text_file), *SIZES["ngram"], *CPU)
    assert fit(run, tmp_path / "one", console=QUIET).result.seconds > 0
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="ngram is built by one process"):
        fit(run, tmp_path / "two", console=QUIET)
    assert not (tmp_path / "two").exists()


def test_counted_models_are_counted_again_on_resume(text_file, tmp_path):
    run = make_run("text", "ngram", data=text_file)
    first = fit(run, tmp_path / "run", console=QUIET)
    again = fit(run, tmp_path / "run", resume=True, console=QUIET)
    assert first.result.metrics == again.result.metrics
    assert len(read_lines(tmp_path / "run" / "metrics.jsonl")) == 1


@pytest.mark.parametrize(
    ("model", "changes", "sentence"),
    [
        ("gpt", ["batch.length=17"], r"batch\.length is 17, but gpt has a context of 16 tokens"),
        ("gpt", ["batch.cut=stream"], r"a cache that grows.*Set batch\.cut=crops"),
        ("lstm", ["training.compute.accumulation=2"], r"accumulation is 2.*fewer batch\.rows"),
    ],
)
def test_invalid_runs_raise_errors(model, changes, sentence, text_file, tmp_path):
    run = override(make_run("text", model, data=text_file, steps=2), *SIZES[model], *CPU, *changes)
    with pytest.raises(ValueError, match=sentence):
        fit(run, tmp_path / "run", console=QUIET)


def test_held_out_text_is_the_end_and_splits_are_disjoint(text_file):
    corpus = FileTextCorpus(data=str(text_file), assignment="end")
    assert corpus.splits == ("train", "validation", "test")
    parts = [corpus.read(split) for split in corpus.splits]
    assert "".join(parts) == TEXT and all(part.endswith("\n") for part in parts[:2])
    assert 0.88 < len(parts[0]) / len(TEXT) < 0.93


def test_split_files_leave_the_training_text_whole(text_file, tmp_path):
    (tmp_path / "b.txt").write_text("other text")
    valid = FileTextCorpus(data=str(text_file), valid=str(tmp_path / "b.txt"))
    assert valid.splits == ("train", "validation")
    assert (valid.read("train"), valid.read("validation")) == (TEXT, "other text\n")
    with pytest.raises(ValueError, match="this run has no test file"):
        valid.read("test")
    test = FileTextCorpus(data=str(text_file), test=str(tmp_path / "b.txt"), assignment="end")
    assert test.read("test") == "other text\n" and test.read("train") + test.read("validation") == TEXT
    both = FileTextCorpus(data=str(text_file), valid=str(tmp_path / "b.txt"), test=str(tmp_path / "b.txt"))
    assert both.splits == ("train", "validation", "test") and both.read("train") == TEXT


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty. Give a file with at least one line"),
        (b"a\n\xff\n", r"line 2 of .* is not UTF-8: byte 1 of the line is 0xff"),
        (b"a", "is too short to hold out a part for"),
        (b"\n\n\n", "is too short|is empty"),
    ],
)
def test_texts_without_usable_tokens_raise_errors(content, sentence, tmp_path):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        fit(make_run("text", "ngram", data=tmp_path / "a.txt"), tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


def test_splits_are_after_lines_or_else_after_words():
    assert find_split_point("a" * 90 + "\n" + "b" * 9, 0.9) == 91
    assert find_split_point("a" * 91 + " " + "b" * 108, 0.455) == 92
    assert find_split_point("a" * 100, 0.9) == 90


def test_missing_published_texts_raise_errors_with_their_origin(monkeypatch, tmp_path):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    for corpus in (PTBCorpus(), ShakespeareCorpus()):
        with pytest.raises(ValueError, match=r"is not part of regard\. Give its folder with --data"):
            corpus.read("train")
    (tmp_path / "input.txt").write_text("x" * 99 + "\n")
    shakespeare = ShakespeareCorpus(folder=str(tmp_path))
    assert len(shakespeare.read("train")) == 90 and shakespeare.read("validation") == "x" * 9 + "\n"
    with pytest.raises(ValueError, match="tiny Shakespeare has no test"):
        shakespeare.read("test")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        PTBCorpus(folder=str(tmp_path)).read("train")


def test_a_stop_string_may_span_tokens_and_is_never_part_of_the_text():
    text = StoppedText(["END", "ENOUGH"])
    shown_parts = [text.add(piece) for piece in ("a E", "N", "x EN", "D of it", "more")]
    assert shown_parts[:4] == ["a ", "", "ENx ", ""] and text.ended and text.rest() == ""
    for pieces in (["a bbab"], [*"a bbab"]):
        text = StoppedText(["bbab", "ba"])
        assert "".join(map(text.add, pieces)) == "a b", "the first complete stop string ends the text, for any tokens"
    text = StoppedText(["END"])
    assert text.add("the EN") + text.rest() == "the EN", "text that was held back comes at the end"
    with pytest.raises(ValueError, match="a stop string is empty"):
        StoppedText(["x", ""])


def test_incremental_detokenization_equals_decoding(fitted):
    tokenizer = fitted.system.tokenizer
    ids = fitted.system.encode("the  cat ☃ sat\n\n on\tmats, 1 mat.")
    for first in range(len(ids)):
        unfolding = IncrementalDetokenizer(tokenizer, ids[:first])
        added = "".join(unfolding.add(token) for token in ids[first:])
        whole = IncrementalDetokenizer(tokenizer)
        shown_parts = [whole.add(token) for token in ids]
        assert added == "".join(shown_parts[first:])
    assert "".join(shown_parts).replace("<unk>", "☃") == "the  cat ☃ sat\n\n on\tmats, 1 mat."
