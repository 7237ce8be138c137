"""The kernel for packed sequences against a plain softmax, sequence by sequence."""

import pytest
import torch

from regard import MultiHeadAttention
from regard.attention.masks import causal
from regard.contracts import Memory, PackedTokens, map_tensors
from regard.kernels.dot import PackedRequest, attend_packed, packed_unsupported_reasons
from regard.kernels.dot.packed import HEAD_SIZES, MAX_SEQLEN
from regard.kernels.triton_support import tile_size

HEADS = 3
QUERIES, KEYS = [5, 1, 0, 16, 7, 3], [4, 17, 2, 1, 0, 9]


def rows_of(lengths):
    return PackedTokens.from_lists([[7] * length for length in lengths])


def make_request(query_lengths, key_lengths, *, size, dtype, is_causal=False, device="cpu"):
    torch.manual_seed(0)
    count, key_count = sum(query_lengths), sum(key_lengths)
    tensors = [torch.randn(tokens, HEADS, size, dtype=torch.float64) for tokens in (count, key_count, key_count)]
    queries, keys, values = (tensor.to(device, dtype).requires_grad_() for tensor in tensors)
    rows = [map_tensors(lambda tensor: tensor.to(device), rows_of(given)) for given in (query_lengths, key_lengths)]
    return PackedRequest(
        queries=queries,
        keys=keys,
        values=values,
        query_rows=rows[0],
        key_rows=rows[1],
        scale=size**-0.5,
        causal=is_causal,
    )


def row_by_row(request):
    """The formula."""
    sides = (request.query_rows.lengths.tolist(), request.key_rows.lengths.tolist())
    parts = zip(
        request.queries.split(sides[0]), request.keys.split(sides[1]), request.values.split(sides[1]), strict=True
    )
    contexts = []
    for q, k, v in parts:
        scores = torch.einsum("qhd,khd->hqk", q, k) * request.scale
        if request.causal:
            scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), float("-inf"))
        weights = scores.softmax(dim=-1) if k.shape[0] else scores
        contexts.append(torch.einsum("hqk,khd->qhd", weights, v))
    return torch.cat(contexts)


def results(run, request):
    """The context, and the gradients of a fixed loss."""
    context = run(request)
    torch.manual_seed(1)
    grad = torch.randn(context.shape, dtype=torch.float64).to(context)
    return context, *torch.autograd.grad(context, (request.queries, request.keys, request.values), grad)


def test_tile_sizes_are_powers_of_two():
    assert [tile_size(count) for count in (1, 16, 17, 32, 33, 64, 100, 128)] == [16, 16, 32, 32, 64, 64, 128, 128]


def test_unsupported_inputs_have_reasons():
    heads, rows = torch.randn(130, 1, 24, dtype=torch.float64), rows_of([130])
    reasons = " ".join(packed_unsupported_reasons(heads, rows))
    assert "written in Triton, for CUDA" in reasons and "size 24" in reasons and "torch.float64" in reasons
    assert any("has 130 tokens" in reason for reason in packed_unsupported_reasons(heads.bfloat16(), rows))


@pytest.mark.cuda
@pytest.mark.unchecked
@pytest.mark.parametrize("size", HEAD_SIZES)
@pytest.mark.parametrize("dtype", MAX_SEQLEN, ids=str)
@pytest.mark.parametrize("kind", ["cross", "causal", "self", "longest"])
def test_the_kernel_errs_at_most_as_much_as_plain_torch(kind, dtype, size):
    lengths = {"cross": (QUERIES, KEYS), "causal": (QUERIES, QUERIES), "self": (KEYS, KEYS)}
    lengths["longest"] = ([MAX_SEQLEN[dtype], 2], [MAX_SEQLEN[dtype] - 1, MAX_SEQLEN[dtype]])
    options = {"size": size, "is_causal": kind == "causal", "device": "cuda"}
    truth = results(row_by_row, make_request(*lengths[kind], dtype=torch.float64, **options))
    plain = results(row_by_row, make_request(*lengths[kind], dtype=dtype, **options))
    actual = results(attend_packed, make_request(*lengths[kind], dtype=dtype, **options))
    for name, ours, theirs, true in zip(("context", "q", "k", "v"), actual, plain, truth, strict=True):
        assert not ours.isnan().any(), name
        error, bound = ((tensor.double() - true).norm() / true.norm() for tensor in (ours, theirs))
        assert error <= 2 * bound + 1e-6, f"{name} errs by {error:.2e}, plain torch by {bound:.2e}"


@pytest.mark.cuda
@pytest.mark.unchecked
def test_nan_in_one_row_does_not_reach_others():
    """NaN in one row at a time must not reach the others."""
    for poisoned in range(len(QUERIES)):
        request = make_request(QUERIES, KEYS, size=32, dtype=torch.bfloat16, device="cuda")
        with torch.no_grad():
            request.values[request.key_rows.batch_indices == poisoned] = float("nan")
            context = attend_packed(request)
        clean = request.query_rows.batch_indices != poisoned
        assert not context[clean].isnan().any(), f"row {poisoned}"


@pytest.mark.cuda
@pytest.mark.unchecked
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_packed_rows_equal_padded_rows(compiled, monkeypatch):
    torch._dynamo.reset()
    torch.manual_seed(0)
    heads = MultiHeadAttention(64, 4).cuda()
    rows, others = (map_tensors(torch.Tensor.cuda, rows_of(lengths)) for lengths in ([5, 1, 9], [3, 12, 1]))

    def run(states, source):
        states = states + heads(states, mask=causal(), packed=rows).context
        return heads(states, heads.prepare_memory(source, packed=others), packed=rows).context.pow(2).sum()

    actual = []
    for serves in (True, False):
        if not serves:
            monkeypatch.setattr(
                MultiHeadAttention, "_packed_unsupported_reasons", lambda *_: iter(("tested without it",))
            )
        torch.manual_seed(1)
        states, source = (torch.randn(count, 64, device="cuda", requires_grad=True) for count in (15, 16))
        loss = (torch.compile(run) if compiled and serves else run)(states, source)
        actual.append((loss, *torch.autograd.grad(loss, (states, source, *heads.parameters()))))
    for ours, theirs in zip(*actual, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.cuda
def test_a_packed_memory_is_padded_for_stepwise_queries():
    heads = MultiHeadAttention(64, 4).cuda()
    rows = map_tensors(torch.Tensor.cuda, rows_of([3, 5]))
    states = torch.randn(8, 64, device="cuda")
    memory = heads.prepare_memory(states, packed=rows)
    assert isinstance(memory, Memory) and memory.packed is rows and memory.keys.shape == (8, 4, 16)
    actual = heads(torch.randn(2, 1, 64, device="cuda"), memory, return_weights=True)
    assert actual.weights.shape == (2, 4, 1, 5) and (actual.weights[0, ..., 3:] == 0).all()
