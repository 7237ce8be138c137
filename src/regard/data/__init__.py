"""Text to learn from: readers, tokenizers, batches by length, and sets that need no download."""

from regard.data.collate import collate
from regard.data.dates import Dates
from regard.data.examples import Example, Examples, make_examples
from regard.data.learn import TokenizerSettings
from regard.data.order import Batching, Budget, Order, RowBudget, TokenBudget, Turn, batches_by_length, share
from regard.data.pairs import Pair, Pairs, Span
from regard.data.readers import read_json_lines, read_lines, read_parallel, read_partners, read_tsv
from regard.data.splits import SPLITS, split_of
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.data.toys import Copy, Reverse

DATASETS = {"dates": Dates, "reverse": Reverse, "copy": Copy}
"""Sets that are made, not loaded: settings whose `pairs(count, split=.., seed=..)` never runs out."""

__all__ = [
    "DATASETS",
    "SPLITS",
    "Batching",
    "Budget",
    "Copy",
    "Dates",
    "Example",
    "Examples",
    "Order",
    "Pair",
    "Pairs",
    "Reverse",
    "RowBudget",
    "Span",
    "TokenBudget",
    "Tokenizer",
    "TokenizerSettings",
    "Tokenizers",
    "Turn",
    "batches_by_length",
    "collate",
    "make_examples",
    "read_json_lines",
    "read_lines",
    "read_parallel",
    "read_partners",
    "read_tsv",
    "share",
    "split_of",
]
