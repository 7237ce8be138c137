"""Corpora: dataclasses of settings that read the splits of a data set."""

from regard.data.corpora.base import SPLITS, samples_of, split_of
from regard.data.corpora.dates import Dates
from regard.data.corpora.parallel import Corpus, FileCorpus, Multi30kCorpus, TatoebaCorpus, read_files
from regard.data.corpora.sentences import FileSentenceCorpus, SentenceCorpus, find_file, is_published
from regard.data.corpora.synthetic import DATASETS, Copy, Reverse, SyntheticCorpus
from regard.data.corpora.table import CORPORA, corpus_name, find_corpus
from regard.data.corpora.text import FileTextCorpus, PTBCorpus, ShakespeareCorpus, TextCorpus, TopicsCorpus, read_text

__all__ = [
    "CORPORA",
    "DATASETS",
    "SPLITS",
    "Copy",
    "Corpus",
    "Dates",
    "FileCorpus",
    "FileSentenceCorpus",
    "FileTextCorpus",
    "Multi30kCorpus",
    "PTBCorpus",
    "Reverse",
    "SentenceCorpus",
    "ShakespeareCorpus",
    "SyntheticCorpus",
    "TatoebaCorpus",
    "TextCorpus",
    "TopicsCorpus",
    "corpus_name",
    "find_corpus",
    "find_file",
    "is_published",
    "read_files",
    "read_text",
    "samples_of",
    "split_of",
]
