"""Examples and batches: dropped examples are reported, and a batch has the tokens of its examples."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.contracts import BOS, EOS, PAD, PackedTokens, PaddedTokens
from regard.data.batching import Example, collate, make_examples
from regard.data.batching.collate import Ragged
from regard.data.text import Pair, Tokenizers, TokenizerSettings

IDS = st.lists(st.integers(4, 99), max_size=8)
SIDES = st.lists(st.tuples(IDS, IDS), max_size=7)


def examples_of(sides):
    return [Example((*source, EOS), tuple(target)) for source, target in sides]


def of_words(pairs):
    return Tokenizers.train(pairs, TokenizerSettings(kind="words"), joint=True)


def test_sources_end_with_eos_and_targets_have_no_special_tokens():
    pairs = [Pair("a b", "c"), Pair("b", "a c b")]
    tokenizers = of_words(pairs)
    examples = make_examples(pairs, tokenizers)
    a, b, c = tokenizers.source.encode("a b c")
    assert list(examples) == [Example((a, b, EOS), (c,)), Example((b, EOS), (a, c, b))]
    assert examples[-1] == examples[1] and examples[:1] == [examples[0]] and examples.report == ""
    assert examples.lengths.tolist() == [[3, 2], [2, 4]]
    with pytest.raises(IndexError):
        examples[2]


def test_long_pairs_are_dropped_and_counted():
    pairs = [Pair("a", "b"), Pair("a " * 10_000, "b"), Pair("a", "b " * 4), Pair("a a a", "b b b"), Pair("▁", "b")]
    examples = make_examples(pairs, of_words(pairs), max_length=3)
    assert examples.indices.tolist() == [0, 3]
    assert examples.dropped == {"with over 3 tokens on a side": 2, "with a side that has no token": 1}
    expected = "dropped 3 pairs: 2 with over 3 tokens on a side, 1 with a side that has no token."
    assert examples.report == expected
    with pytest.raises(ValueError, match="no pair is left to learn from: dropped 5 pairs"):
        make_examples(pairs, of_words(pairs), max_length=0)
    with pytest.raises(ValueError, match="no pair is left to learn from: there were none"):
        make_examples([], of_words(pairs))


@pytest.mark.parametrize("kind", ["bpe", "words", "characters"])
def test_a_line_of_ten_thousand_words(kind):
    pairs = [Pair("a man rides a bike", "ein Mann"), Pair("man bike " * 5000, "ein")]
    tokenizers = Tokenizers.train(pairs, TokenizerSettings(kind=kind))
    examples = make_examples(pairs, tokenizers)
    assert len(examples) == 2 and len(examples[1].source) > 10_000
    assert tokenizers.source.decode(examples[1].source) == pairs[1].source.strip()


@given(SIDES)
def test_padded_batches(sides):
    examples = examples_of(sides)
    batch = collate(examples)
    assert isinstance(batch.source, PaddedTokens) and isinstance(batch.target, PaddedTokens)
    source = PaddedTokens.from_lists([list(example.source) for example in examples])
    target = PaddedTokens.from_lists([[BOS, *example.target] for example in examples])
    labels = PaddedTokens.from_lists([[*example.target, EOS] for example in examples])
    for side, expected in ((batch.source, source), (batch.target, target)):
        assert torch.equal(side.ids, expected.ids) and torch.equal(side.lengths, expected.lengths)
    assert torch.equal(batch.labels, labels.ids)
    assert batch.num_tokens == int((batch.labels != PAD).sum())


@given(SIDES.filter(len))
def test_packed_batches(sides):
    examples = examples_of(sides)
    batch = collate(examples, packed=True)
    assert isinstance(batch.source, PackedTokens) and isinstance(batch.target, PackedTokens)
    source = PackedTokens.from_lists([list(example.source) for example in examples])
    target = PackedTokens.from_lists([[BOS, *example.target] for example in examples])
    for side, expected in ((batch.source, source), (batch.target, target)):
        for name in ("ids", "cu_seqlens", "batch_indices", "positions"):
            assert torch.equal(getattr(side, name), getattr(expected, name)), name
        assert side.max_seqlen == expected.max_seqlen
    assert batch.labels.tolist() == [token for example in examples for token in (*example.target, EOS)]
    assert batch.num_tokens == len(batch.labels)


@given(st.lists(IDS, min_size=1), st.data())
def test_ragged_rows_can_be_selected(rows, data):
    ragged = Ragged.of(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1)))
    selected = ragged.take(chosen)
    assert [selected.row(place) for place in range(len(selected))] == [tuple(rows[place]) for place in chosen]
    assert ragged.values.dtype == np.int32


@pytest.mark.parametrize("packed", [False, True])
def test_a_batch_equals_one_from_the_arrays(packed):
    pairs = [Pair("a b", "c"), Pair("b", "a c b"), Pair("c c c c", "a")]
    examples = make_examples(pairs, of_words(pairs))
    straight, around = examples.batch([2, 0], packed=packed), collate([examples[2], examples[0]], packed=packed)
    assert torch.equal(straight.source.ids, around.source.ids)
    assert torch.equal(straight.target.ids, around.target.ids)
    assert torch.equal(straight.labels, around.labels)
    assert straight.num_tokens == around.num_tokens == examples.num_tokens([2, 0])
    empty = examples.batch([], packed=packed)
    assert empty.num_tokens == 0 and len(empty.source.lengths) == 0 and empty.labels.numel() == 0
