"""Every corpus by the name that config.json records; classes of other packages and of a user's own by reference."""

from dataclasses import is_dataclass
from typing import Any

from regard._utils import find_entry_points, import_reference, is_reference, load_entry_point, nearest, reference_of
from regard.data.corpora.labelled import FileSentenceCorpus
from regard.data.corpora.parallel import FileCorpus, Multi30kCorpus, TatoebaCorpus
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
    """What config.json records of a corpus: its name in the table or of an entry point, or where it is defined."""
    for name, known in CORPORA.items():
        if known is corpus:
            return name
    for name, entry in find_entry_points(GROUP).items():
        if entry.attr == corpus.__qualname__ and load_entry_point(entry) is corpus:
            return name
    return reference_of(corpus)


def find_corpus(name: str) -> type:
    """The class of a corpus by what config.json records."""
    found: Any
    if name in CORPORA:
        return CORPORA[name]
    if is_reference(name):
        found = import_reference(name)
    elif name in (entries := find_entry_points(GROUP)):
        found = load_entry_point(entries[name])
    else:
        known = [*CORPORA, *entries]
        raise ValueError(f"there is no corpus {name!r}; the nearest is {nearest(name, known)!r}. Known: {known}.")
    if not (isinstance(found, type) and is_dataclass(found)):
        raise ValueError(f"{name} is no dataclass, and a corpus is one: its fields are the settings in config.json.")
    return found
