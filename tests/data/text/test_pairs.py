"""Readers: every invalid file raises an error with the file and the line."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.corpora import read_text
from regard.data.text import Pair, read_json_lines, read_lines, read_parallel, read_sentences, read_tsv


def write_file(folder, name, content):
    path = folder / name
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def test_parallel_files_packed_or_not(tmp_path):
    english = write_file(tmp_path, "a.en", "One.\nTwo.\n")
    chinese = write_file(tmp_path, "a.zh.gz", "一。\n二。")
    pairs = read_parallel(english, chinese)
    assert list(pairs) == [Pair("One.", "一。"), Pair("Two.", "二。")]
    assert pairs[-1].target == "二。" and len(pairs[:1]) == 1 and pairs.report == ""


def test_byte_order_mark_carriage_returns_and_other_separators(tmp_path):
    path = write_file(tmp_path, "a", b"\xef\xbb\xbfone\r\ntwo\xe2\x80\xa8still two\x0b\x1e\r\n\r\nlast")
    assert read_lines(path) == ["one", "two\u2028still two\x0b\x1e", "", "last"]


def test_empty_sides_are_dropped_and_counted(tmp_path):
    source = write_file(tmp_path, "a", "x\n\n \ny\nz\n")
    target = write_file(tmp_path, "b", "1\n2\n\n\n5\n")
    pairs = read_parallel(source, target)
    assert [pair.source for pair in pairs] == ["x", "z"]
    assert pairs.dropped == {"with an empty source": 1, "with an empty target": 1, "with both sides empty": 1}
    expected = "dropped 3 pairs: 1 with an empty source, 1 with an empty target, 1 with both sides empty."
    assert pairs.report == expected


def test_unequal_line_counts(tmp_path):
    source, target = write_file(tmp_path, "a.en", "1\n2\n3\n4\n"), write_file(tmp_path, "a.de", "1\n2\n")
    with pytest.raises(ValueError, match=r"a\.en has 4 lines and .*a\.de has 2\. Line 3 of .*a\.en .* partner: '3'"):
        read_parallel(source, target)
    with pytest.raises(ValueError, match=r"Line 3 of .*a\.en is the first"):
        read_parallel(target, source)


@pytest.mark.parametrize("content", ["", "\ufeff"])
def test_empty_file(tmp_path, content):
    with pytest.raises(ValueError, match="a is empty"):
        read_lines(write_file(tmp_path, "a", content))


def test_missing_file_folder_and_broken_gzip(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing"):
        read_lines(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is a folder"):
        read_lines(tmp_path)
    plain = tmp_path / "plain.gz"
    plain.write_bytes(b"not packed")
    with pytest.raises(ValueError, match=r"plain\.gz is named \.gz but cannot be decompressed"):
        read_lines(plain)
    half = tmp_path / "half.gz"
    half.write_bytes(gzip.compress(b"abc\n" * 1000)[:-12])
    with pytest.raises(ValueError, match=r"half\.gz .* cannot be decompressed"):
        read_lines(half)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_not_utf8(tmp_path, mark):
    path = write_file(tmp_path, "a", mark + b"good\nalso good\nna\xefve\n")
    with pytest.raises(ValueError, match=r"line 3 of .*a is not UTF-8: byte 3 of the line is 0xef"):
        read_lines(path)


def test_nothing_but_empty_lines(tmp_path):
    path = write_file(tmp_path, "a", "\n\n")
    with pytest.raises(ValueError, match="hold no pair to learn from: dropped 2 pairs: 2 with both sides empty"):
        read_parallel(path, path)


def test_tsv(tmp_path):
    path = write_file(tmp_path, "a.tsv", 'Hi.\t"嗨。\tCC-BY\r\n\t空\tx\n\n')
    pairs = read_tsv(path)
    assert list(pairs) == [Pair("Hi.", '"嗨。')]
    assert pairs.dropped == {"with an empty source": 1, "with both sides empty": 1}
    assert read_tsv(path, 1, 0)[0].source == '"嗨。'
    with pytest.raises(ValueError, match=r"line 1 of .* has 3 columns, but column 5 is needed"):
        read_tsv(path, 0, 4)
    with pytest.raises(ValueError, match=r"line 2 of .* has 1 column, but column 2"):
        read_tsv(write_file(tmp_path, "b.tsv", "a\tb\nno tab\n"))
    with pytest.raises(ValueError, match="counted from 0, but one of the columns is -1"):
        read_tsv(path, -1, 0)


def test_json_lines(tmp_path):
    path = write_file(
        tmp_path, "a.jsonl", '{"source": "a\\nb", "target": "c", "id": 3}\n\n{"source": "", "target": "d"}\n'
    )
    pairs = read_json_lines(path)
    assert list(pairs) == [Pair("a\nb", "c")]
    assert pairs.dropped == {"with an empty source": 1, "with both sides empty": 1}
    with pytest.raises(ValueError, match=r"line 1 of .* has no key 'en'\. Its keys: 'source', 'target', 'id'"):
        read_json_lines(path, source_key="en")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"source": "a"', "line 2 of .* is not JSON"),
        ('["a", "b"]', "line 2 of .* is not an object"),
        ('{"source": 3, "target": "b"}', "line 2 of .* has a int under 'source'"),
        ('{"source": "\\ud800", "target": "b"}', r"line 2 of .* has an unpaired surrogate under 'source': \\ud800"),
        ("[" * 100_000, "line 2 of .* is not JSON|line 2 of .* is not an object"),
        ('{"source": ' + "9" * 5000 + "}", "line 2 of .* is not JSON"),
    ],
    ids=["cut off", "list", "number", "surrogate", "deep", "huge number"],
)
def test_broken_json_lines(tmp_path, line, message):
    good = json.dumps({"source": "a", "target": "b"})
    with pytest.raises(ValueError, match=message):
        read_json_lines(write_file(tmp_path, "a.jsonl", f"{good}\n{line}\n"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lines")


@given(lines=st.lists(st.text(st.characters(exclude_characters="\0\n\r\ufeff", codec="utf-8")), min_size=1))
def test_lines_survive_writing_and_reading(folder, lines):
    path = folder / "a"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    assert read_lines(path) == lines


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.jsonl", "a.all", "a.escaped.jsonl"])
def test_a_zero_byte_is_refused_by_every_reader(tmp_path, name):
    contents = {
        "a.txt": "good\nb\0ad\n",
        "a.tsv": "good\tgut\nb\0ad\tschlecht\n",
        "a.jsonl": '{"source": "good", "target": "gut"}\n{"source": "b\0ad", "target": "schlecht"}\n',
        "a.all": "A good\nB b\0ad\n",
        "a.escaped.jsonl": '{"text": "good", "label": "A"}\n{"text": "b\\u0000ad", "label": "B"}\n',
    }
    readers = {
        "a.txt": [read_lines, lambda path: read_parallel(path, path), read_text],
        "a.tsv": [read_tsv, read_sentences],
        "a.jsonl": [read_json_lines],
        "a.all": [read_sentences],
        "a.escaped.jsonl": [read_sentences, lambda path: read_json_lines(path, "text", "label")],
    }
    path = write_file(tmp_path, name, contents[name])
    for reader in readers[name]:
        with pytest.raises(ValueError, match=r"line 2 of .* has a zero byte"):
            reader(path)
