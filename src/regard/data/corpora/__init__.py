"""Corpora: dataclasses of settings that read the splits of a data set."""

from regard.data.corpora.base import SPLITS, samples_of, split_of
from regard.data.corpora.dates import Dates
from regard.data.corpora.descriptions import description_of
from regard.data.corpora.invented import InventedLanguage
from regard.data.corpora.parallel import Corpus, FileCorpus, Multi30kCorpus, TatoebaCorpus, read_files
from regard.data.corpora.published_sentences import ClassName, published_set
from regard.data.corpora.sentences import FileSentenceCorpus, SentenceCorpus, class_titles, find_file
from regard.data.corpora.synthetic import DATASETS, Copy, Reverse, SyntheticCorpus
from regard.data.corpora.table import CORPORA, corpus_name, find_corpus
from regard.data.corpora.text import FileTextCorpus, PTBCorpus, ShakespeareCorpus, TextCorpus, TopicsCorpus, read_text

__all__ = [
    "CORPORA",
    "DATASETS",
    "SPLITS",
    "ClassName",
    "Copy",
    "Corpus",
    "Dates",
    "FileCorpus",
    "FileSentenceCorpus",
    "FileTextCorpus",
    "InventedLanguage",
    "Multi30kCorpus",
    "PTBCorpus",
    "Reverse",
    "SentenceCorpus",
    "ShakespeareCorpus",
    "SyntheticCorpus",
    "TatoebaCorpus",
    "TextCorpus",
    "TopicsCorpus",
    "class_titles",
    "corpus_name",
    "description_of",
    "find_corpus",
    "find_file",
    "published_set",
    "read_files",
    "read_text",
    "samples_of",
    "split_of",
]
