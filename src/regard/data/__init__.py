"""Text, corpora, and batches of examples."""

from regard.data.batching import Batching, ClassificationExamples, Example, Examples, collate
from regard.data.corpora import CORPORA, Corpus
from regard.data.text import Pair, Pairs, Sentence, Sentences, Tokenizer, Tokenizers, TokenizerSettings

__all__ = [
    "CORPORA",
    "Batching",
    "ClassificationExamples",
    "Corpus",
    "Example",
    "Examples",
    "Pair",
    "Pairs",
    "Sentence",
    "Sentences",
    "Tokenizer",
    "TokenizerSettings",
    "Tokenizers",
    "collate",
]
