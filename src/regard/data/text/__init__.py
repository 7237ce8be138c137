"""Readers of text files, tokenizers and token streams."""

from regard.data.text.fingerprint import fingerprint
from regard.data.text.pairs import (
    Pair,
    Pairs,
    Span,
    read_json_lines,
    read_lines,
    read_parallel,
    read_partners,
    read_tsv,
)
from regard.data.text.sentences import (
    Sentence,
    Sentences,
    classes_of,
    read_sentence_json,
    read_sentence_lines,
    read_sentence_table,
    read_sentences,
)
from regard.data.text.streams import Stream, decode_text, encode_text, make_stream, token_texts, unknown_in
from regard.data.text.token_labels import label_of, merge_bytes
from regard.data.text.tokenizer import Tokenizer, Tokenizers, TokenizerSettings

__all__ = [
    "Pair",
    "Pairs",
    "Sentence",
    "Sentences",
    "Span",
    "Stream",
    "Tokenizer",
    "TokenizerSettings",
    "Tokenizers",
    "classes_of",
    "decode_text",
    "encode_text",
    "fingerprint",
    "label_of",
    "make_stream",
    "merge_bytes",
    "read_json_lines",
    "read_lines",
    "read_parallel",
    "read_partners",
    "read_sentence_json",
    "read_sentence_lines",
    "read_sentence_table",
    "read_sentences",
    "read_tsv",
    "token_texts",
    "unknown_in",
]
