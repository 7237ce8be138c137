"""Text to learn from: readers, tokenizers, batches by length, and sets that need no download."""

from regard.data.collate import collate
from regard.data.dates import Dates
from regard.data.examples import Example, Examples, make_examples
from regard.data.labelled import UNSEEN, ExampleData, LabelledExamples, make_labelled
from regard.data.learn import TokenizerSettings
from regard.data.order import Batching, Budget, Order, RowBudget, TokenBudget, batches_by_length, share
from regard.data.pairs import Pair, Pairs, Span
from regard.data.readers import read_json_lines, read_lines, read_parallel, read_partners, read_tsv
from regard.data.sentences import (
    Sentence,
    Sentences,
    classes_of,
    read_sentence_json,
    read_sentence_lines,
    read_sentence_table,
    read_sentences,
)
from regard.data.splits import SPLITS, split_of
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.data.toys import Copy, Reverse

DATASETS = {"dates": Dates, "reverse": Reverse, "copy": Copy}
"""Sets that are made, not loaded: settings whose `pairs(count, split=.., seed=..)` never runs out."""

__all__ = [
    "DATASETS",
    "SPLITS",
    "UNSEEN",
    "Batching",
    "Budget",
    "Copy",
    "Dates",
    "Example",
    "ExampleData",
    "Examples",
    "LabelledExamples",
    "Order",
    "Pair",
    "Pairs",
    "Reverse",
    "RowBudget",
    "Sentence",
    "Sentences",
    "Span",
    "TokenBudget",
    "Tokenizer",
    "TokenizerSettings",
    "Tokenizers",
    "batches_by_length",
    "classes_of",
    "collate",
    "make_examples",
    "make_labelled",
    "read_json_lines",
    "read_lines",
    "read_parallel",
    "read_partners",
    "read_sentence_json",
    "read_sentence_lines",
    "read_sentence_table",
    "read_sentences",
    "read_tsv",
    "share",
    "split_of",
]
