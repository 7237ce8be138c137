"""What a corpus says of its inputs and outputs, and the names of published classes."""

import os
from pathlib import Path

import pytest

from regard.contracts import Description
from regard.data.corpora import (
    CORPORA,
    DATASETS,
    Dates,
    FileCorpus,
    FileSentenceCorpus,
    FileTextCorpus,
    SyntheticCorpus,
    class_titles,
    description_of,
)
from regard.data.corpora.published_sentences import PUBLISHED_SENTENCES
from regard.data.text import classes_of, read_sentences
from regard.recipes import make_run
from regard.tasks import task_of

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[4] / "shared" / "data")) / "sentence-classification"
ARGUMENTS = {
    "parallel_files": {"source": "a/talk.en", "target": "a/talk.zh"},
    "synthetic": {"content": Dates()},
    "text_files": {"data": "a/novel.txt"},
    "labelled_files": {"data": "a/mail.tsv"},
}


@pytest.mark.parametrize("name", CORPORA)
def test_every_corpus_of_the_table_says_what_it_reads_and_writes(name):
    description = CORPORA[name](**ARGUMENTS.get(name, {})).description
    assert isinstance(description, Description)
    for title in (description.reads, description.writes):
        assert title.en and any("\u4e00" <= letter <= "\u9fff" for letter in title.zh)


@pytest.mark.parametrize("name", DATASETS)
def test_a_synthetic_corpus_has_the_description_of_its_content(name):
    content = DATASETS[name]()
    assert SyntheticCorpus(content=content).description == content.description


def test_dates_name_their_languages_and_years():
    description = Dates(max_dates=2).description
    assert description.reads.en == "dates in English from 1900 to 2099, up to 2 in a text"
    assert description.reads.zh == "1900 年至 2099 年的英语日期，每段文本最多 2 个"
    assert (description.writes.en, description.writes.zh) == ("the dates in Chinese", "中文日期")
    assert (description.source_language, description.target_language) == ("en", "zh")
    assert Dates(source="all", target="iso").description.reads.en == "dates in 22 languages from 1900 to 2099"
    assert "English, French or German" in Dates(source="en,fr,de").description.reads.en


def test_files_of_the_user_are_named_without_their_folder():
    assert FileCorpus(source="/home/a/talk.en", target="/home/a/talk.zh").description.reads.en == (
        "text in English like that of talk.en"
    )
    assert FileTextCorpus(data="/home/a/novel.txt").description.reads.en == "text like that of novel.txt"


def test_a_corpus_without_a_description_has_a_general_one():
    assert "training data" in description_of(object()).reads.en


@pytest.mark.parametrize("file", ["TREC.train.all.gz", "stsa.fine.train", "stsa.binary.train", "subj.all"])
def test_examples_fit_a_published_set_and_its_classes_have_names(file):
    corpus = make_run("sentences", "cnn", data=file).data
    is_question = [text.endswith("?") for text in corpus.samples()]
    assert is_question and set(is_question) == {file.startswith("TREC")}
    labels = tuple(one.label for one in corpus.class_names)
    assert len(class_titles(corpus, labels)) == len(labels) >= 2
    # a class that has no name: the file has other labels than the published one
    assert class_titles(corpus, (*labels, "99")) == {}


def test_a_file_of_the_user_offers_no_examples_of_other_data():
    corpus = FileSentenceCorpus(data="mail.tsv")
    assert corpus.samples() == [] and class_titles(corpus, ("1", "2")) == {}


def test_a_classifier_says_what_its_classes_are():
    from dataclasses import replace

    run = replace(make_run("sentences", "cnn", data="TREC.train.all"), classes=("0", "1", "2", "3", "4", "5"))
    description = task_of(run).describe(run)
    assert description.reads.en == "English questions"
    assert description.writes.en.startswith("one of 6 classes: description, entity, abbreviation")
    assert description.writes.zh.startswith("6 个类别之一：描述、实体、缩写")
    assert task_of(run).describe(replace(run, classes=("a", "b"))).writes.en == "one of 2 classes: a, b"


@pytest.mark.skipif(not DATA.is_dir(), reason="the published sets are not in ../shared/data")
@pytest.mark.parametrize("name", PUBLISHED_SENTENCES)
def test_published_classes_are_those_of_the_files(name):
    file = next(iter(sorted(DATA.glob(f"{name}.*train*"))), DATA / f"{name}.all.gz")
    assert classes_of(read_sentences(file)) == tuple(one.label for one in PUBLISHED_SENTENCES[name].classes)


@pytest.mark.skipif(not DATA.is_dir(), reason="the published sets are not in ../shared/data")
def test_the_classes_of_trec_are_those_that_its_original_file_names():
    codes = {"DESC": "description", "ENTY": "entity", "ABBR": "abbreviation", "HUM": "human", "LOC": "location",
             "NUM": "numeric value"}  # fmt: skip
    original = read_sentences(DATA / "raw.TREC.train.gz")
    names = {one.label: one.en for one in PUBLISHED_SENTENCES["TREC"].classes}
    digits = read_sentences(DATA / "TREC.train.all.gz")
    assert len(digits) == len(original) == 5452
    assert all(
        names[digit.label] == codes[code.label.partition(":")[0]] for digit, code in zip(digits, original, strict=True)
    )
