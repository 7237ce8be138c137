"""Corpora by the name in config.json: those of the table, of entry points, and of users by reference."""

from dataclasses import is_dataclass

from regard._utils import find_entry_points, find_object, load_entry_point, reference_of
from regard.data.corpora.parallel import FileCorpus, Multi30kCorpus, TatoebaCorpus
from regard.data.corpora.sentences import FileSentenceCorpus
from regard.data.corpora.synthetic import SyntheticCorpus
from regard.data.corpora.text import FileTextCorpus, PTBCorpus, ShakespeareCorpus, TopicsCorpus

GROUP = "regard.corpora"

CORPORA: dict[str, type] = {
    "multi30k": Multi30kCorpus,
    "tatoeba": TatoebaCorpus,
    "parallel_files": FileCorpus,
    "synthetic": SyntheticCorpus,
    "ptb": PTBCorpus,
    "tinyshakespeare": ShakespeareCorpus,
    "python_topics": TopicsCorpus,
    "text_files": FileTextCorpus,
    "labelled_files": FileSentenceCorpus,
}


def corpus_name(corpus: type) -> str:
    """The name of a corpus for config.json: of the table, of an entry point, or a reference."""
    for name, cls in CORPORA.items():
        # identity: a subclass of a corpus has a name of its own
        if cls is corpus:
            return name
    for name, entry in find_entry_points(GROUP).items():
        # compared by name first, so that only the entry point in question is imported
        if entry.attr == corpus.__qualname__ and load_entry_point(entry) is corpus:
            return name
    return reference_of(corpus)


def find_corpus(name: str) -> type:
    """The class of a corpus by its name in config.json."""
    corpus = find_object(name, CORPORA, GROUP, "corpus")
    if not (isinstance(corpus, type) and is_dataclass(corpus)):
        raise ValueError(f"{name} is not a dataclass. A corpus is one: its fields are the settings in config.json.")
    return corpus
