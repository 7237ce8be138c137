"""Packed sequences inside the heads, with a plain loop in the place of the CUDA kernel."""

import pytest
import torch

import regard
from regard import MultiHeadAttention, attend
from regard.attention import multi_head
from regard.attention.masks import causal
from regard.contracts import PackedTokens

QUERIES, KEYS = PackedTokens.from_lists([[4, 5, 6], [7, 8]]), PackedTokens.from_lists([[4, 5], [6, 7, 8, 9]])


def attend_one_by_one(request):
    context = torch.zeros_like(request.queries)
    queries, keys = request.query_rows.cu_seqlens.tolist(), request.key_rows.cu_seqlens.tolist()
    for index in range(len(queries) - 1):
        rows, columns = slice(*queries[index : index + 2]), slice(*keys[index : index + 2])
        parts = (request.queries[rows], request.keys[columns], request.values[columns])
        mask = causal() if request.causal else None
        context[rows] = attend(*(part.transpose(0, 1) for part in parts), mask=mask).context.transpose(0, 1)
    return context


@pytest.fixture
def requests(monkeypatch):
    """Requests to the kernel for packed sequences."""
    received = []

    def listen(request):
        received.append(request)
        return attend_one_by_one(request)

    monkeypatch.setattr(multi_head, "packed_unsupported_reasons", lambda heads, packed: iter(()))
    monkeypatch.setattr(multi_head, "attend_packed", listen)
    return received


@pytest.mark.parametrize("mask", [None, causal()])
def test_packed_self_attention_equals_the_padded_one(requests, mask):
    heads, states = MultiHeadAttention(8, 2), torch.randn(5, 8)
    assert regard.which_backend(heads, states, packed=QUERIES, mask=mask).backend == "packed"
    packed = heads(states, packed=QUERIES, mask=mask).context
    assert len(requests) == 1
    choice = regard.which_backend(heads, states, packed=QUERIES, mask=mask, return_weights=True)
    assert choice.backend == "plain"
    assert choice.refused[0] == ("packed", ("the weights are needed",))
    padded = heads(states, packed=QUERIES, mask=mask, return_weights=True)
    assert len(requests) == 1
    assert padded.weights.shape == (2, 2, 3, 3)
    assert packed.allclose(padded.context, atol=1e-6)


def test_a_packed_memory_accepts_packed_and_padded_queries(requests):
    heads, states = MultiHeadAttention(8, 2), torch.randn(5, 8)
    memory = heads.prepare_memory(torch.randn(6, 8), packed=KEYS)
    assert memory.packed is KEYS
    packed = heads(states, memory, packed=QUERIES).context
    assert len(requests) == 1
    assert packed.allclose(heads(states, memory, packed=QUERIES, weights_for_queries=[0]).context, atol=1e-6)
    padded = heads(states[:3].expand(2, 3, 8), memory)
    assert len(requests) == 1
    assert padded.context[0].allclose(packed[:3], atol=1e-6)
