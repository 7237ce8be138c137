"""Packed sequences: end to end, padded to a shape, converted to the rectangle and back."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.contracts import PAD, PackedTokens, PaddedTokens
from regard.kernels import pack_padded, pad_packed

ROWS = st.lists(st.lists(st.integers(4, 9), min_size=1, max_size=6), min_size=1, max_size=5)


@given(rows=ROWS)
def test_packed_tokens_equal_padded_tokens(rows):
    packed, padded = PackedTokens.from_lists(rows), PaddedTokens.from_lists(rows)
    assert torch.equal(packed.lengths, padded.lengths)
    assert torch.equal(packed.mask, padded.mask)
    assert torch.equal(packed.ids, padded.ids[padded.mask])
    assert torch.equal(padded.ids.flatten()[packed.padded_indices], packed.ids)


@given(rows=ROWS, added=st.integers(0, 3), longer=st.integers(0, 2))
def test_pad_to_keeps_the_sequences_and_adds_only_padding(rows, added, longer):
    packed = PackedTokens.from_lists(rows)
    longest = packed.max_seqlen + longer
    missing = added * longest // 2
    filled = packed.pad_to(batch_size=len(rows) + added, num_tokens=len(packed.ids) + missing, max_seqlen=longest)
    assert filled.ids.shape[0] == len(packed.ids) + missing
    assert filled.lengths.tolist()[: len(rows)] == [len(row) for row in rows]
    assert int(filled.lengths.sum()) == filled.ids.shape[0]
    assert int(filled.lengths.max()) <= longest
    assert (filled.ids[len(packed.ids) :] == PAD).all()
    assert filled.padded_indices.unique().shape == filled.padded_indices.shape


def test_a_shape_too_small_is_refused():
    with pytest.raises(ValueError, match="do not fit into 2 sequences of 4 tokens"):
        PackedTokens.from_lists([[4, 5, 6], [7, 8]]).pad_to(batch_size=2, num_tokens=4, max_seqlen=3)


def test_padded_sequences_keep_their_tokens_and_larger_batches_are_unchanged():
    batch = PaddedTokens.from_lists([[4, 5, 6], [7, 8]])
    padded = batch.pad_to(length=5, batch_size=3)
    assert padded.ids.tolist() == [[4, 5, 6, PAD, PAD], [7, 8, PAD, PAD, PAD], [PAD] * 5]
    assert padded.lengths.tolist() == [3, 2, 1]
    assert batch.pad_to(length=2) is batch
    assert PaddedTokens.from_lists([[], []]).pad_to(length=1).ids.tolist() == [[PAD], [PAD]]


def test_padding_and_packing_are_each_others_gradient():
    packed = PackedTokens.from_lists([[4, 5, 6], [7], [8, 9]])
    states = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    spread = pad_packed(states, packed)
    assert torch.equal(spread[~packed.mask], torch.zeros(3, 3, dtype=torch.float64))
    assert torch.equal(pack_padded(spread, packed), states)
    assert torch.autograd.gradcheck(lambda argument: pad_packed(argument, packed), states)
    assert torch.autograd.gradcheck(lambda argument: pack_padded(argument, packed), spread.detach().requires_grad_())
