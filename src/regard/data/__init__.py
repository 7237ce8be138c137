"""Text, corpora and batches."""

from regard.data.batching import Batching, Example, Examples, LabelledExamples, collate
from regard.data.corpora import CORPORA, Corpus
from regard.data.text import Pair, Pairs, Sentence, Sentences, Tokenizer, Tokenizers, TokenizerSettings

__all__ = [
    "CORPORA",
    "Batching",
    "Corpus",
    "Example",
    "Examples",
    "LabelledExamples",
    "Pair",
    "Pairs",
    "Sentence",
    "Sentences",
    "Tokenizer",
    "TokenizerSettings",
    "Tokenizers",
    "collate",
]
