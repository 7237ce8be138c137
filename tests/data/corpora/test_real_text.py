"""Real text: Multi30k and Tatoeba are read completely and survive encoding and decoding."""

import os
from pathlib import Path

import pytest

from regard.data.batching import BucketedOrder, TokenBudget, make_examples
from regard.data.text import Tokenizer, Tokenizers, TokenizerSettings, read_parallel, read_tsv

FOLDER = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[4] / "shared" / "data"))

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="needs the data folder (REGARD_DATA), and there is none")


@pytest.fixture(scope="module")
def captions():
    return read_parallel(*(FOLDER / "multi30k" / "tok" / f"train.lc.norm.tok.{side}.gz" for side in ("en", "de")))


def test_multi30k(captions):
    assert len(captions) == 29_000 and captions.report == ""
    tokenizers = Tokenizers.train(captions[:5000], TokenizerSettings(kind="bpe", vocab_size=4000), joint=True)
    examples = make_examples(captions[:5000], tokenizers, max_length=60)
    assert tokenizers.target.decode(examples[7].target) == captions[7].target
    batches = BucketedOrder(examples.lengths, budget=TokenBudget(2048)).epoch(0)
    tokens = examples.lengths.max(axis=1)
    assert tokens.sum() / sum(len(batch) * tokens[batch].max() for batch in batches) > 0.95


def test_words_of_tokenised_text_survive_encoding_and_decoding(captions):
    tokenizer = Tokenizer.train([pair.source for pair in captions], TokenizerSettings(kind="words"))
    assert tokenizer.vocab_size == 10_000
    text = "a man rides a bike ."
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_chinese_text_survives_encoding_and_decoding(kind):
    pairs = read_tsv(FOLDER / "tatoeba" / "cmn-eng.tsv.gz")
    assert len(pairs) == 29_155
    lines = [pair.target for pair in pairs[::15]]
    tokenizer = Tokenizer.train(lines, TokenizerSettings(kind=kind, vocab_size=4000))
    for line, ids in zip(lines, tokenizer.encode_batch(lines), strict=True):
        assert tokenizer.decode(ids) == " ".join(line.split())
