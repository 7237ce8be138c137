"""Sentences with classes: every form of file, what is dropped, and examples of classes outside the training data."""

import gzip
import json

import pytest

from regard.contracts import PAD, UNK
from regard.data.batching import IGNORED_LABEL, Batching, make_classification_examples
from regard.data.text import (
    Sentence,
    Tokenizer,
    TokenizerSettings,
    classes_of,
    read_sentence_json,
    read_sentence_lines,
    read_sentences,
)

WANTED = [Sentence("how far is it ?", "NUM"), Sentence("who wrote it", "HUM")]
FORMS = {
    "a.all": "NUM how far is it ?\nHUM who wrote it\n",
    "b.tsv": "NUM\thow far is it ?\nHUM\twho wrote it\n",
    "c.tsv": "id\tSentence\tlabel\r\n1\thow far is it ?\tNUM\r\n2\twho wrote it\tHUM\r\n",
    "d.jsonl": '{"text": "how far is it ?", "label": "NUM"}\n{"label": "HUM", "text": "who wrote it", "id": 4}',
}


def write_file(folder, name, content):
    path = folder / name
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_file(tmp_path, name, packed):
    sentences = read_sentences(write_file(tmp_path, name + packed, FORMS[name]))
    assert list(sentences) == WANTED and sentences.report == ""
    assert sentences[-1].label == "HUM" and sentences[:1] == (WANTED[0],)


def test_incomplete_lines_are_dropped_and_counted(tmp_path):
    sentences = read_sentences(write_file(tmp_path, "a", "1 good\n0\n\n0  \n1 also good\n"))
    assert [sentence.text for sentence in sentences] == ["good", "also good"]
    assert sentences.dropped == {"without a text": 2, "with neither": 1}
    assert sentences.report == "dropped 3 sentences: 2 without a text, 1 with neither."
    table = read_sentences(write_file(tmp_path, "a.tsv", "1\t\n\tno label\n\n0\tgood\n"))
    assert table.dropped == {"without a text": 1, "without a label": 1, "with neither": 1}


def test_lines_that_are_not_utf8_are_decoded_as_latin_1_and_counted(tmp_path):
    content = b"\xef\xbb\xbf0 good\n1 na\xefve\n0 na\xc3\xafve\r\n"
    sentences = read_sentences(write_file(tmp_path, "a", content))
    assert [sentence.text for sentence in sentences] == ["good", "naïve", "naïve"]
    assert sentences[0].label == "0", "a byte order mark is not part of the text"
    assert sentences.latin == 1 and sentences.report == "1 lines are not UTF-8 and were read as Latin-1."
    both = read_sentences(write_file(tmp_path, "b", b"1 \xe9t\xe9\n0\n"))
    assert both.report.startswith("dropped 1 sentences") and both.report.endswith("read as Latin-1.")


def test_json_labels_may_be_numbers(tmp_path):
    path = write_file(tmp_path, "a.jsonl", '{"text": "a", "label": 1}\n\n{"text": "b", "label": 0}\n')
    sentences = read_sentences(path)
    assert [sentence.label for sentence in sentences] == ["1", "0"] and sentences.dropped == {"with neither": 1}
    other = write_file(tmp_path, "b.jsonl", '{"question": "a", "kind": "x"}')
    assert read_sentence_json(other, text_key="question", label_key="kind")[0] == Sentence("a", "x")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "line 2 of .* is not JSON"),
        ('["a", "b"]', "line 2 of .* is not an object such as"),
        ('{"text": "a"}', "line 2 of .* has no key 'label'. Its keys: 'text'"),
        ('{"text": 3, "label": "b"}', "line 2 of .* has a int under 'text', expected a string"),
        ('{"text": "a", "label": 0.5}', "has a float under 'label', expected a string or a whole number"),
        ('{"text": "\\ud800", "label": "b"}', "line 2 of .* has an unpaired surrogate"),
        ("[" * 100_000, "line 2 of .* is not JSON|line 2 of .* is not an object"),
    ],
    ids=["cut off", "list", "no label", "number", "share", "surrogate", "deep"],
)
def test_broken_json(tmp_path, line, message):
    good = json.dumps({"text": "a", "label": "b"})
    with pytest.raises(ValueError, match=message):
        read_sentences(write_file(tmp_path, "a.jsonl", f"{good}\n{line}\n"))


def test_wrong_files(tmp_path):
    with pytest.raises(ValueError, match="a is empty"):
        read_sentences(write_file(tmp_path, "a", ""))
    with pytest.raises(ValueError, match=r"line 2 of .*a\.tsv is not UTF-8: byte 5 of the line is 0xef"):
        read_sentences(write_file(tmp_path, "a.tsv", b"0\tgood\n1\tna\xefve\n"))
    with pytest.raises(ValueError, match="holds no sentence to learn from: dropped 2 sentences: 2 without a text"):
        read_sentence_lines(write_file(tmp_path, "a", "1\n0\n"))
    with pytest.raises(ValueError, match=r"holds no sentence to learn from: there is none\."):
        read_sentences(write_file(tmp_path, "a.tsv", "label\ttext\n"))
    with pytest.raises(ValueError, match=r"line 2 of .*a\.tsv has 1 of the 2 cells that are needed: 'no tab'"):
        read_sentences(write_file(tmp_path, "a.tsv", "1\tgood\nno tab\n"))
    with pytest.raises(ValueError, match=r"line 1 of .*a has a zero byte: the file is UTF-16 or not text"):
        read_sentences(write_file(tmp_path, "a", "1 good\n".encode("utf-16")))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_sentences(tmp_path / "nothing.tsv")


def test_classes_are_in_order():
    assert classes_of([Sentence("", label) for label in ("10", "9", "0", "9")]) == ("0", "9", "10")
    assert classes_of([Sentence("", label) for label in ("b", "a", "10")]) == ("10", "a", "b")


TRAINED = [Sentence("a b c d", "yes"), Sentence("a", "no")]
TOKENIZER = Tokenizer.train([sentence.text for sentence in TRAINED], TokenizerSettings(kind="words"))


def test_examples_and_batches():
    examples = make_classification_examples(
        [*TRAINED, Sentence("b q", "no"), Sentence("▁", "yes")], TOKENIZER, ("no", "yes")
    )
    assert len(examples) == 4 and examples.report == ""
    assert examples.lengths.tolist() == [[4, 4], [1, 1], [2, 2], [1, 1]], "an empty sentence has one position too"
    batch = examples.batch([2, 0, 3])
    assert batch.sentences.lengths.tolist() == [2, 4, 0] and batch.labels.tolist() == [0, 1, 1]
    assert batch.sentences.ids[0].tolist() == [*TOKENIZER.encode("b"), UNK, PAD, PAD]
    assert batch.sentences.ids[1].tolist() == TOKENIZER.encode("a b c d") and batch.num_tokens == 3
    assert examples.batch([3]).sentences.ids.shape == (1, 0)
    for batching in (Batching(tokens=4), Batching(rows=3)):
        assert sorted(row for rows in batching.order(examples.lengths).epoch(0) for row in rows) == [0, 1, 2, 3]


def test_long_sentences_are_truncated_and_counted():
    examples = make_classification_examples(TRAINED, TOKENIZER, ("no", "yes"), max_length=3)
    assert examples.ids.lengths.tolist() == [3, 1] and examples.num_truncated == 1
    assert examples.report == "truncated 1 of 2 sentences to 3 tokens."
    with pytest.raises(ValueError, match="max_length is 0, expected 1 token or more"):
        make_classification_examples(TRAINED, TOKENIZER, ("no", "yes"), max_length=0)
    with pytest.raises(ValueError, match="padded batches only"):
        examples.batch([0], packed=True)


def test_a_boolean_label_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a cat", "label": true}\n')
    with pytest.raises(ValueError, match=r"line 1 of .* has a bool under 'label', expected a string or a whole number"):
        read_sentences(tmp_path / "a.jsonl")


def test_a_class_outside_the_training_data_is_counted():
    sentences_of_test = [*TRAINED, Sentence("b", "maybe"), Sentence("c", "maybe")]
    examples = make_classification_examples(sentences_of_test, TOKENIZER, ("no", "yes"))
    assert examples.labels.tolist() == [1, 0, IGNORED_LABEL, IGNORED_LABEL] and examples.truths[2] == "maybe"
    assert examples.unknown_classes == {"maybe": 2} and examples.batch([1, 2]).num_tokens == 1
    assert examples.report == "training never saw the classes of 2 sentences: 'maybe' (2)."


@pytest.mark.parametrize(
    ("sentences", "classes", "message"),
    [
        ([], ("a",), "there are no sentences to encode"),
        (TRAINED, (), r"classes are \(\), expected one or more"),
        (TRAINED, ("a", "a"), "expected one or more different names"),
    ],
    ids=["nothing", "no class", "twice"],
)
def test_wrong_arguments(sentences, classes, message):
    with pytest.raises(ValueError, match=message):
        make_classification_examples(sentences, TOKENIZER, classes)
