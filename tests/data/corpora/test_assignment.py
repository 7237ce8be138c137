"""The split of an example depends on the example alone: no change of a file moves one into training."""

import random

import pytest

from regard.data.corpora import FileCorpus, FileSentenceCorpus, FileTextCorpus, TatoebaCorpus

LINES = [f"line {number} of the text" for number in range(400)]


def splits_of(recipe, path, lines, **changes):
    """Split -> the lines in it, as the recipe reads them."""
    forms = {"pairs": "{0}\tzeile", "sentences": "A {0}", "text": "{0}"}
    path.write_text("".join(forms[recipe].format(line) + "\n" for line in lines))
    if recipe == "text":
        corpus = FileTextCorpus(data=str(path), **changes)
        return {split: set(corpus.read(split).splitlines()) for split in corpus.splits}
    corpus = FileCorpus(source=str(path)) if recipe == "pairs" else FileSentenceCorpus(data=str(path), **changes)
    side = "source" if recipe == "pairs" else "text"
    return {split: {getattr(example, side) for example in corpus.read(split)} for split in corpus.splits}


@pytest.mark.parametrize("recipe", ["pairs", "sentences", "text"])
def test_no_sentence_changes_its_split(recipe, tmp_path):
    path = tmp_path / "data.tsv" if recipe == "pairs" else tmp_path / "data.txt"
    shuffled = random.Random(0).sample(LINES, len(LINES))
    before = splits_of(recipe, path, LINES)
    assert set().union(*before.values()) == set(LINES) and sum(map(len, before.values())) == len(LINES)
    assert all(2 <= len(before[name]) <= 70 for name in ("validation", "test"))
    others = {
        "appended": [*LINES, *(f"another line {number}" for number in range(300))],
        "the first half": LINES[:200],
        "the second half": LINES[200:],
        "another order": shuffled,
        "every line twice, far apart": [*LINES, *shuffled],
    }
    for change, lines in others.items():
        after = splits_of(recipe, path, lines)
        for name, texts in after.items():
            assert texts <= before[name] | {line for line in lines if line not in LINES}, (change, name)
        assert sum(map(len, after.values())) == len(set(lines)), "no line is in two splits"


def test_held_out_beyond_the_limit_is_not_learned(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.corpora.parallel.MAX_HELD_OUT", 3)
    splits = splits_of("pairs", tmp_path / "data.tsv", LINES)
    assert len(splits["test"]) == len(splits["validation"]) == 3
    monkeypatch.undo()
    assert splits["train"] == splits_of("pairs", tmp_path / "data.tsv", LINES)["train"]


def test_a_file_of_its_own_leaves_the_other_split_where_it_is(tmp_path):
    for recipe, corpus in (("sentences", FileSentenceCorpus), ("text", FileTextCorpus)):
        path, test = tmp_path / f"{recipe}.txt", tmp_path / f"{recipe}.test"
        test.write_text("A another one\n")
        before = splits_of(recipe, path, LINES)
        after = splits_of(recipe, path, LINES, test=str(test))
        assert after["validation"] == before["validation"]
        assert after["train"] == before["train"] | before["test"]
        assert corpus(data=str(path)).assignment == "hash"


def test_short_lines_of_a_text_stay_with_the_line_after_them(tmp_path):
    lines = [part for line in LINES for part in ("", "A:", line)]
    path = tmp_path / "data.txt"
    splits = splits_of("text", path, LINES)
    path.write_text("\n".join(lines) + "\n")
    for split, members in splits.items():
        text = FileTextCorpus(data=str(path)).read(split)
        expected = [line for line in LINES if line in members]
        assert text == "".join(f"\nA:\n{line}\n" for line in expected)


@pytest.mark.parametrize("recipe", ["pairs", "sentences", "text"])
def test_data_in_which_a_split_has_nothing_name_the_way_out(recipe, tmp_path):
    path = tmp_path / "data.tsv" if recipe == "pairs" else tmp_path / "data.txt"
    otherwise = "end" if recipe == "text" else "rank"
    with pytest.raises(ValueError, match=rf"too short to hold out a part for .* --set data\.assignment={otherwise}"):
        splits_of(recipe, path, LINES[:3])


@pytest.mark.unchecked
def test_an_unknown_assignment_is_named():
    for corpus, arguments in ((FileCorpus, {"source": "a"}), (FileSentenceCorpus, {"data": "a"})):
        with pytest.raises(ValueError, match="there is no assignment 'sorted'"):
            corpus(**arguments, assignment="sorted")
    with pytest.raises(ValueError, match="there is no assignment 'rank'"):
        FileTextCorpus(data="a", assignment="rank")
    assert not hasattr(TatoebaCorpus(), "assignment"), "published sets have their own splits"
