"""Multi-head attention with six independent sizes, against the formula one head at a time."""

from dataclasses import replace

import pytest
import torch

from regard import MultiHeadAttention, which_backend
from regard.attention import FixedCache, GrowingCache, HeadSizes, WindowCache
from regard.attention.alignments import Sparsemax
from regard.attention.masks import causal, window
from regard.attention.positions import Alibi, Relative, Rotary
from regard.attention.scores import Additive, ScaledDot
from regard.contracts import PackedTokens

# d_q, d_k, d_v, p_k, p_v, p_o: all different, and no one a multiple of the number of heads
SIZES = HeadSizes(query_size=7, key_size=5, value_size=11, head_size=4, value_head_size=6, output_size=13)
SELF = replace(SIZES, key_size=7, value_size=7)
HEADS, LENGTHS = 6, (4, 2)


def make(sizes=SIZES, **options):
    torch.manual_seed(3)
    return MultiHeadAttention(sizes, HEADS, **options).double().eval()


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mask():
    return torch.arange(4) < torch.tensor(LENGTHS)[:, None]


def by_hand(attention, queries, states, values, allowed):
    """W_o [head_1; ..; head_H], with one score, softmax and sum for each head, query and batch element."""
    sizes, group = attention.sizes, HEADS // attention.num_kv_heads

    def project(proj, inputs, head, size):
        rows = slice(head * size, (head + 1) * size)
        return inputs @ proj.weight[rows].T + proj.bias[rows]

    heads = []
    for head in range(HEADS):
        q = project(attention.query_proj, queries, head, sizes.head_size)
        k = project(attention.key_proj, states, head // group, sizes.head_size)
        v = project(attention.value_proj, values, head // group, sizes.value_head_size)
        scores = attention.score(q, attention.score.prepare(k)).masked_fill(~allowed, float("-inf"))
        heads.append(torch.softmax(scores, dim=-1) @ v)
    return torch.cat(heads, dim=-1) @ attention.output_proj.weight.T + attention.output_proj.bias


SCORES = {
    "scaled_dot": ScaledDot,
    "additive": lambda: Additive(query_size=4, key_size=4, hidden_size=3),
}


@pytest.mark.parametrize("num_kv_heads", [6, 2, 1])
@pytest.mark.parametrize("name", SCORES)
def test_the_output_is_that_of_the_formula(name, num_kv_heads):
    attention = make(num_kv_heads=num_kv_heads, score=SCORES[name]())
    queries, states, values = draw(2, 3, 7), draw(2, 4, 5, seed=1), draw(2, 4, 11, seed=2)
    memory = attention.prepare_memory(states, values, mask=mask())
    assert memory.keys.shape[:3] == (2, num_kv_heads, 4) and memory.values.shape == (2, num_kv_heads, 4, 6)
    expected = by_hand(attention, queries, states, values, mask()[:, None])
    formed, fused = attention(queries, memory, return_weights=True), attention(queries, memory)
    assert formed.context.shape == (2, 3, 13) and formed.weights.shape == (2, HEADS, 3, 4)
    assert formed.context.allclose(expected, atol=1e-12) and fused.context.allclose(expected, atol=1e-10)


def test_the_parameters_have_the_six_sizes():
    attention = make(num_kv_heads=2)
    shapes = {name: tuple(tensor.shape) for name, tensor in attention.state_dict().items() if name.endswith("weight")}
    assert shapes == {
        "query_proj.weight": (HEADS * 4, 7),
        "key_proj.weight": (2 * 4, 5),
        "value_proj.weight": (2 * 6, 11),
        "output_proj.weight": (13, HEADS * 6),
    }


def test_a_hidden_size_is_the_usual_sizes():
    """The same parameters, numbers and initialisation as before there were six sizes."""
    torch.manual_seed(0)
    plain = MultiHeadAttention(12, 6, source_size=5)
    torch.manual_seed(0)
    sizes = HeadSizes(query_size=12, key_size=5, value_size=5, head_size=2, value_head_size=2, output_size=12)
    six = MultiHeadAttention(sizes, 6)
    assert sizes == HeadSizes.divide(12, 6, source_size=5) and repr(plain) == repr(six)
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, six.state_dict()[name])
    assert (plain.hidden_size, plain.source_size, plain.head_size) == (12, 5, 2)


CACHES = {"growing": GrowingCache, "fixed": lambda: FixedCache(capacity=6), "window": lambda: WindowCache(size=3)}


@pytest.mark.parametrize("positions", [None, Rotary(head_size=4), Alibi(num_heads=HEADS)], ids=str)
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", CACHES)
def test_cached_equals_uncached(name, grad, positions):
    attention = make(SELF, num_kv_heads=3, positions=positions)
    inputs, rule = draw(2, 6, 7), causal() & window(2)
    with torch.set_grad_enabled(grad):
        whole = attention(inputs, mask=rule).context
        cache, outputs = CACHES[name](), []
        for start, stop in ((0, 1), (1, 4), (4, 5), (5, 6)):
            attended = attention(inputs[:, start:stop], mask=rule, cache=cache, return_weights=start == 4)
            cache = attended.cache
            outputs.append(attended.context)
    assert whole.shape == (2, 6, 13) and torch.cat(outputs, dim=1).allclose(whole, atol=1e-10)
    assert cache.keys.shape[-1] == 4 and cache.values.shape[-1] == 6


@pytest.mark.parametrize("sizes", [SELF, replace(SELF, value_head_size=4)], ids=["different", "equal"])
def test_packed_rows_equal_padded_ones(sizes):
    attention = make(sizes)
    tokens = [[3, 1, 2, 5], [4, 6]]
    packed = PackedTokens.from_lists(tokens)
    states = draw(6, 7)
    padded = torch.zeros(2, 4, 7, dtype=torch.float64)
    padded[0], padded[1, :2] = states[:4], states[4:]
    alone = [attention(states[:4], mask=causal()).context, attention(states[4:], mask=causal()).context]
    context = attention(states, packed=packed, mask=causal()).context
    assert context.allclose(torch.cat(alone), atol=1e-10)
    cross = attention(states, attention.prepare_memory(states, packed=packed), packed=packed).context
    expected = attention(padded, attention.prepare_memory(padded, mask=mask())).context
    assert cross.allclose(torch.cat([expected[0], expected[1, :2]]), atol=1e-10)
    reasons = str(which_backend(attention, states, packed=packed))
    assert ("keys and values inside the heads differ in size" in reasons) == (sizes.value_head_size != sizes.head_size)


def test_which_backend_is_the_kernel_that_runs():
    attention = make(num_kv_heads=2)
    queries, memory = draw(2, 3, 7), attention.prepare_memory(draw(2, 4, 5), draw(2, 4, 11))
    assert which_backend(attention, queries, memory).backend == "sdpa"
    assert which_backend(attention, queries, memory, return_weights=True).backend == "plain"
    sparse = make(align=Sparsemax())
    choice = which_backend(sparse, queries, sparse.prepare_memory(draw(2, 4, 5), draw(2, 4, 11)))
    assert choice.backend == "plain" and "Sparsemax is not Softmax" in str(choice)
    rows = attention(queries, memory, weights_for_queries=[1])
    whole = attention(queries, memory, return_weights=True)
    assert rows.weights.allclose(whole.weights[..., 1:2, :], atol=1e-12)


def test_gradients_of_both_paths_are_the_numerical_ones():
    attention = make(num_kv_heads=3)
    inputs = tuple(tensor.requires_grad_() for tensor in (draw(2, 3, 7), draw(2, 4, 5, seed=1), draw(2, 4, 11, seed=2)))
    for return_weights in (True, False):

        def context(queries, states, values, return_weights=return_weights):
            memory = attention.prepare_memory(states, values, mask=mask())
            return attention(queries, memory, return_weights=return_weights).context

        assert torch.autograd.gradcheck(context, inputs, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_precisions_and_autocast(dtype):
    inputs = draw(2, 3, 7), draw(2, 4, 5, seed=1), draw(2, 4, 11, seed=2)

    def context(attention, tensors):
        queries, states, values = tensors
        return attention(queries, attention.prepare_memory(states, values, mask=mask())).context

    exact, tolerance = context(make(), inputs), 1e-5 if dtype == torch.float32 else 0.05
    low = context(make().to(dtype), [tensor.to(dtype) for tensor in inputs])
    assert low.dtype == dtype and low.double().allclose(exact, atol=tolerance)
    with torch.autocast("cpu", torch.bfloat16):
        assert context(make().float(), [tensor.float() for tensor in inputs]).double().allclose(exact, atol=0.05)


def test_print():
    assert repr(make(num_kv_heads=2)).startswith(
        "MultiHeadAttention(\n  HeadSizes(query_size=7, key_size=5, value_size=11, head_size=4, value_head_size=6, "
        "output_size=13), num_heads=6, num_kv_heads=2, dropout=0.0\n"
    )


ERRORS = {
    "self-attention": (
        lambda: make()(draw(2, 3, 7)),
        r"self-attention needs states of one size, but this attention has query_size=7, key_size=5 and value_size=11",
    ),
    "no values": (
        lambda: make().prepare_memory(draw(2, 4, 5)),
        r"values are missing: the states cannot be keys of size 5 and values of size 11\. Call ",
    ),
    "queries": (
        lambda: make()(draw(2, 3, 5), make().prepare_memory(draw(2, 4, 5), draw(2, 4, 11))),
        r"queries have size 5 .*MultiHeadAttention\(query_size=7\) was built for size 7",
    ),
    "keys": (lambda: make().prepare_memory(draw(2, 4, 7), draw(2, 4, 11)), r"states have size 7 .*\(key_size=5\)"),
    "values": (lambda: make().prepare_memory(draw(2, 4, 5), draw(2, 4, 5)), r"values have size 5 .*\(value_size=11\)"),
    "two sources": (lambda: MultiHeadAttention(SIZES, 6, source_size=5), r"source_size=5 and HeadSizes\(.*both given"),
    "no size": (lambda: replace(SIZES, value_head_size=0), r"value_head_size is 0"),
    "relative": (
        lambda: make(SELF, positions=Relative(head_size=4)),
        r"Relative adds vectors of the queries' size to the values, but head_size is 4 and value_head_size 6",
    ),
    "groups": (lambda: MultiHeadAttention(SIZES, 6, num_kv_heads=4), r"num_heads 6 is not divisible by num_kv_heads 4"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, message = ERRORS[name]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.unchecked
def test_it_compiles_to_one_graph():
    attention = make(num_kv_heads=2)
    inputs = draw(2, 3, 7), draw(2, 4, 5, seed=1), draw(2, 4, 11, seed=2)

    def context(queries, states, values):
        return attention(queries, attention.prepare_memory(states, values)).context

    compiled = torch.compile(context, fullgraph=True, backend="aot_eager")
    assert compiled(*inputs).allclose(context(*inputs), atol=1e-12)
