"""Splits are disjoint, deterministic and in the right languages; missing files are named."""

import os
from pathlib import Path

import pytest

from regard.data.corpora.parallel import FileCorpus, Multi30kCorpus, TatoebaCorpus, part_of, read_files
from regard.data.corpora.synthetic import SyntheticCorpus
from regard.recipes.pairs import pairs as pairs_recipe

FOLDER = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[4] / "shared" / "data"))
needs_data = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the data folder (REGARD_DATA)")


@pytest.fixture
def lines(tmp_path):
    """A hundred numbered pairs, one source twice."""
    (tmp_path / "a.en").write_text("".join(f"number {n}\n" for n in range(100)) + "number 7\n")
    (tmp_path / "a.zh").write_text("".join(f"数 {n}\n" for n in range(100)) + "数七\n")
    return tmp_path


@pytest.mark.parametrize(
    ("assignment", "sizes"),
    [
        ("hash", {"train": 89, "validation": 2, "test": 9}),
        # the exact share of runs before there was a choice
        ("rank", {"train": 90, "validation": 5, "test": 5}),
    ],
)
def test_files_without_validation_are_split_by_their_sources(lines, assignment, sizes):
    corpus = FileCorpus(source=str(lines / "a.en"), target=str(lines / "a.zh"), assignment=assignment)
    assert corpus.languages == ("en", "zh")
    splits = {name: corpus.read(name) for name in ("train", "validation", "test")}
    sources = {name: {pair.source for pair in actual} for name, actual in splits.items()}
    assert sum(len(actual) for actual in splits.values()) == 101
    assert {name: len(actual) for name, actual in sources.items()} == sizes
    assert not sources["train"] & sources["validation"] and not sources["validation"] & sources["test"]
    assert corpus.read("validation") == splits["validation"]


def test_named_split_files_are_used_and_the_rest_is_training_data(lines):
    (lines / "v.en").write_text("five\n")
    (lines / "v.zh").write_text("五\n")
    corpus = FileCorpus(
        source=str(lines / "a.en"),
        target=str(lines / "a.zh"),
        valid_source=str(lines / "v.en"),
        valid_target=str(lines / "v.zh"),
    )
    assert len(corpus.read("train")) == 101
    assert [pair.target for pair in corpus.read("validation")] == ["五"]
    with pytest.raises(ValueError, match="this run has no test files"):
        corpus.read("test")


def test_a_table_and_json_lines_have_both_sides(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\n")
    (tmp_path / "a.jsonl").write_text('{"source": "a", "target": "b"}\n')
    for name in ("a.tsv", "a.jsonl"):
        actual = read_files(str(tmp_path / name), None)
        assert [(pair.source, pair.target) for pair in actual] == [("a", "b")]
    with pytest.raises(ValueError, match="has one side only"):
        read_files(str(tmp_path / "a.en"), None)
    with pytest.raises(ValueError, match="none of sources"):
        read_files(None, "a.zh")


def test_too_few_to_hold_out(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\nc\td\n")
    with pytest.raises(ValueError, match="2 different sources are too few"):
        FileCorpus(source=str(tmp_path / "a.tsv")).read("train")


def test_paths_are_stored_as_absolute(lines, monkeypatch):
    monkeypatch.chdir(lines)
    run = pairs_recipe("luong", source="a.en", target="a.zh")
    assert run.data.source == str(lines / "a.en")


def test_missing_published_data_sets_raise_errors_with_their_origin(monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(ValueError, match="Give its folder with --data"):
        Multi30kCorpus().read("train")
    with pytest.raises(ValueError, match="does not exist"):
        TatoebaCorpus(folder="/no/such/folder").read("train")


@pytest.mark.parametrize(
    ("corpus", "given", "sentence"),
    [
        (Multi30kCorpus, {"pair": "en-dee"}, "there is no language pair 'en-dee'; the nearest is 'en-de'"),
        (TatoebaCorpus, {"pair": "fr-de"}, "there is no language pair 'fr-de'"),
        (FileCorpus, {"source": "x", "pair": "english"}, "Write it as en-de"),
    ],
)
def test_unknown_pairs(corpus, given, sentence):
    with pytest.raises(ValueError, match="language pair") as error:
        corpus(**given)
    assert sentence in str(error.value)


def test_an_unknown_split_suggests_the_nearest():
    from regard.data.corpora import Copy

    with pytest.raises(ValueError, match="there is no split 'testing'; the nearest is 'test'"):
        SyntheticCorpus(content=Copy()).read("testing")


def test_synthetic_splits_are_disjoint():
    from regard.data.corpora import Copy

    corpus = SyntheticCorpus(content=Copy(), count=200, held_out=50)
    train, test = ({pair.source for pair in corpus.read(name)} for name in ("train", "test"))
    assert len(corpus.read("train")) == 200 and len(corpus.read("test")) == 50
    assert not train & test


def test_the_hash_equals_the_prescribed_one():
    assert part_of("Hi.", 20) == 0xDFE655B94C4F8EA95FF710039385C96B2A65613D % 20


@needs_data
@pytest.mark.parametrize(("pair", "form"), [("en-de", "tok"), ("de-en", "raw"), ("en-fr", "tok")])
def test_multi30k_has_the_published_sizes(pair, form):
    corpus = Multi30kCorpus(pair=pair, form=form, folder=str(FOLDER))
    assert len(corpus.read("validation")) == 1014
    assert len(corpus.read("test")) == 1000
    first = corpus.read("test")[0]
    english = first.source if pair.startswith("en") else first.target
    assert english.lower().startswith("a man in an orange hat")


@needs_data
def test_tatoeba_is_split_by_its_english_side():
    corpus = TatoebaCorpus(pair="en-zh", folder=str(FOLDER))
    assert sum(len(corpus.read(name)) for name in ("train", "validation", "test")) == 29155


@pytest.mark.parametrize("pair", ["en-zh", "zh-en"])
def test_both_directions_of_tatoeba_are_split_alike(pair, tmp_path):
    from regard.data.corpora.parallel import TATOEBA_FILES

    table = tmp_path / "tatoeba" / TATOEBA_FILES["zh"]
    table.parent.mkdir(parents=True)
    table.write_text("".join(f"Number {n}.\t第{n}。\tby me\n" for n in range(200)), encoding="utf-8")
    corpus = TatoebaCorpus(pair=pair, folder=str(tmp_path))
    splits = {name: corpus.read(name) for name in ("train", "validation", "test")}
    english = {
        name: {getattr(one, "source" if pair == "en-zh" else "target") for one in splits[name]} for name in splits
    }
    assert {part_of(one, 20) for one in english["test"]} == {0}
    assert {part_of(one, 20) for one in english["validation"]} == {1}
    assert {part_of(one, 20) for one in english["train"]} == set(range(2, 20))
    assert sum(map(len, english.values())) == 200
