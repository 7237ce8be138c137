"""Classifiers from sentences to folder to classes, for every model; and the splits of sentences."""

import json
import math
from dataclasses import fields

import pytest
import torch
from rich.console import Console

from regard._utils import VERSION, override
from regard.checkpoint import load_tensors
from regard.data.corpora.sentences import FileSentenceCorpus, find_file
from regard.data.text.sentences import read_sentences
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.recipes import make_run
from regard.tasks import fit, load
from regard.tasks.load import from_config, to_config
from regard.tasks.text_classification import TextClassifier
from tests.recipes.texts import CPU, SENTENCES, TINY_SENTENCES

QUIET = Console(quiet=True)


def tiny(model, path, *changes):
    run = make_run("sentences", model, data=path)
    has = {field.name for field in fields(run.model)}
    sizes = [f"model.{name}={value}" for name, value in TINY_SENTENCES.items() if name in has]
    return override(run, *sizes, *CPU, "training.steps=4", "training.epochs=none", *changes)


@pytest.fixture(scope="module")
def sentence_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "animals.all"
    path.write_text(SENTENCES)
    return path


@pytest.fixture(scope="module", params=TEXT_CLASSIFICATION_MODELS)
def fitted(request, sentence_file, tmp_path_factory):
    return fit(tiny(request.param, sentence_file), tmp_path_factory.mktemp("runs") / "run", console=QUIET)


def test_a_loaded_folder_equals_the_trained_model(fitted):
    folder = fitted.result.folder
    again = load(folder, device="cpu")
    assert isinstance(again, TextClassifier) and again.run.classes == ("CAT", "DOG", "NONE")
    first, second = fitted.system.model.state_dict(), again.model.state_dict()
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    config = json.loads((folder / "config.json").read_text())
    assert from_config(config, "config.json") == again.run
    # the other entries are checksums
    assert json.loads(json.dumps(to_config(again.run, VERSION))).items() <= config.items()
    assert config["model"]["num_classes"] == 3 and set(fitted.result.metrics) == {"loss", "accuracy"}


def test_a_loaded_folder_classifies(fitted):
    classifier = fitted.system
    given = ["the cat sat", "", "the ☃ dog", fitted.example, *["by the small dog"] * 70]
    actual = classifier.classify(given, return_weights=True)
    assert len(actual) == len(given)
    for one in actual:
        assert sum(one.probabilities.values()) == pytest.approx(1.0) and one.probability == max(
            one.probabilities.values()
        )
        assert str(one) == one.label in classifier.run.classes and one.num_dropped == 0
        if one.weights is not None:
            assert one.weights.shape[1] == len(one.tokens)
    assert actual[1].tokens == () and actual[2].tokens == ("the", "<unk>", "dog")
    # a prediction does not depend on its batch of 64
    (alone,) = classifier.classify(["the cat sat"])
    assert alone.probabilities == pytest.approx(actual[0].probabilities, abs=1e-5) and alone.weights is None
    assert actual[4].probabilities == pytest.approx(actual[-1].probabilities, abs=1e-5)


def test_a_loaded_folder_is_evaluated(fitted, tmp_path):
    (tmp_path / "more.all").write_text("CAT a cat 1\nDOG dog\nNONE mat\nBIRD the bird\n")
    report = fitted.system.evaluate(read_sentences(tmp_path / "more.all"), split="test", steps=4)
    assert report.info.examples == 4 and 0.0 <= report.metric("accuracy").value <= 0.75
    confusion = report.table("confusion")
    assert confusion.rows[-1][0] == "BIRD" and sum(confusion.rows[-1][1:4]) == 1
    assert [row[0] for row in report.table("classes").rows] == ["CAT", "DOG", "NONE"]
    assert report.warnings == ("training never saw the classes of 1 sentences: 'BIRD' (1).",)


def test_the_score_of_a_class_is_its_log_probability(fitted):
    (answer,) = fitted.system.predict(["the cat sat"])
    expected = {label: math.log(share) for label, share in answer.probabilities.items()}
    actual = fitted.system.score(["the cat sat"] * 3, list(expected))
    assert actual == pytest.approx(list(expected.values()), abs=1e-6)
    with pytest.raises(ValueError, match="there is no class 'BIRD'"):
        fitted.system.score(["a"], ["BIRD"])


def test_long_sentences_are_truncated_and_reported(sentence_file, tmp_path):
    console = Console(record=True, quiet=False, file=(tmp_path / "told").open("w"), width=200)
    run = tiny("bilstm", sentence_file, "batch.max_length=3")
    classifier = fit(run, tmp_path / "run", console=console).system
    assert "sentences to 3 tokens." in console.export_text()
    (actual,) = classifier.classify(["the cat sat on the mat"])
    assert actual.num_dropped == 3 and actual.tokens == ("the", "cat", "sat")


def test_a_resumed_run_equals_an_uninterrupted_one(sentence_file, tmp_path):
    run = override(tiny("bilstm", sentence_file), "training.schedule.decay_steps=4")
    fit(run, tmp_path / "whole", console=QUIET)
    fit(override(run, "training.steps=2"), tmp_path / "cut", console=QUIET)
    fit(run, tmp_path / "cut", resume=True, console=QUIET)
    last = "training/step-00000004/weights.safetensors"
    whole, resumed = (load_tensors(tmp_path / name / last) for name in ("whole", "cut"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_class_that_occurs_in_the_test_only_is_reported_and_counts_as_an_error(tmp_path):
    (tmp_path / "a.train.all").write_text(SENTENCES)
    (tmp_path / "a.dev.all").write_text("BIRD a bird\nBIRD the bird\n")
    (tmp_path / "a.test.all").write_text("CAT a cat\n")
    console = Console(record=True, file=(tmp_path / "told").open("w"), width=200)
    fitted = fit(tiny("cnn", tmp_path / "a.train.all"), tmp_path / "run", console=console)
    assert "training never saw the classes of 2 sentences: 'BIRD' (2)." in console.export_text()
    assert fitted.result.metrics == {"accuracy": 0.0}
    assert load(tmp_path / "run").run.classes == ("CAT", "DOG", "NONE")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty"),
        (
            "".join(f"A text {number}\n" for number in range(40)),
            "all 35 training sentences have the class 'A'. Give sentences of two classes or more",
        ),
        ("A one\nB two\n", "2 different sentences are too few to hold some out"),
        ("A\nB\n", "holds no sentence to learn from"),
    ],
)
def test_files_without_usable_examples_raise_errors(content, sentence, tmp_path):
    (tmp_path / "a.all").write_text(content)
    with pytest.raises(ValueError, match=sentence):
        fit(tiny("cnn", tmp_path / "a.all"), tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


def test_held_out_sentences_are_a_tenth_and_equal_texts_are_in_one_split(tmp_path):
    lines = [f"{label} text {number % 40}" for number, label in enumerate("AB" * 60)]
    (tmp_path / "a.all").write_text("\n".join(lines))
    corpus = FileSentenceCorpus(data=str(tmp_path / "a.all"), assignment="rank")
    splits = {split: corpus.read(split) for split in corpus.splits}
    assert sum(map(len, splits.values())) == 120
    texts = {split: {one.text for one in sentences} for split, sentences in splits.items()}
    assert {split: len(actual) for split, actual in texts.items()} == {"train": 32, "validation": 4, "test": 4}
    assert len(set.union(*texts.values())) == 40
    # the order of the file has no effect
    (tmp_path / "b.all").write_text("\n".join(reversed(lines)))
    other = FileSentenceCorpus(data=str(tmp_path / "b.all"), assignment="rank")
    assert {one.text for one in other.read("test")} == texts["test"]


def test_split_files_are_detected_by_their_names(tmp_path):
    (tmp_path / "T.train.all").write_text(SENTENCES)
    (tmp_path / "T.valid.all").write_text("A valid one\n")
    corpus = FileSentenceCorpus(data=str(tmp_path / "T.train.all"), assignment="rank")
    assert [one.text for one in corpus.read("validation")] == ["valid one"]
    assert len(corpus.read("train")) == 81 and len(corpus.read("test")) == 9, "a split without a file is held out"
    (tmp_path / "T.test.all").write_text("B test one\n")
    assert len(corpus.read("train")) == 90 and [one.text for one in corpus.read("test")] == ["test one"]
    named = FileSentenceCorpus(data=str(tmp_path / "T.train.all"), test=str(tmp_path / "T.valid.all"))
    assert [one.text for one in named.read("test")] == ["valid one"]
    with pytest.raises(ValueError, match="there is no split 'dev'"):
        corpus.read("dev")


def test_published_data_sets_are_found_below_the_data_folder(tmp_path, monkeypatch):
    (tmp_path / "sentence-classification").mkdir()
    (tmp_path / "sentence-classification" / "TREC.train.all").write_text(SENTENCES)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert find_file("TREC.train.all") == str(tmp_path / "sentence-classification" / "TREC.train.all")
    # figures on published sets were measured with these splits
    assert make_run("sentences", "cnn", data="TREC.train.all").data.assignment == "rank"
    (tmp_path / "mine.all").write_text(SENTENCES)
    assert make_run("sentences", "cnn", data=tmp_path / "mine.all").data.assignment == "hash"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        FileSentenceCorpus(data=find_file("nothing.all")).read("train")
