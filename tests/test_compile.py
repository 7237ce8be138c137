"""torch.compile(fullgraph=True): every score with every alignment as one graph, the heads, and the real compiler."""

import pytest
import torch

from regard import MultiHeadAttention, attend
from regard.attention import FixedCache, GrowingCache
from regard.attention.alignments import ALIGNMENTS
from regard.attention.masks import causal, window
from regard.attention.positions import Alibi, Relative, Rotary
from regard.attention.scores import SCORES
from regard.kernels.dot import blocked
from regard.testing.execution import check_compiled
from tests.contracts.cases import make_case

pytestmark = pytest.mark.unchecked


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize("align_name", ALIGNMENTS)
@pytest.mark.parametrize("score_name", SCORES)
def test_attend_compiles_to_one_graph_forward_and_backward(score_name, align_name):
    check_compiled(make_case(score_name, align_name))


@pytest.mark.parametrize("return_weights", [True, False])
@pytest.mark.parametrize("positions", [None, Rotary(head_size=4), Alibi(num_heads=4), Relative(head_size=4)], ids=str)
def test_heads_compile_to_one_graph(positions, return_weights):
    attention = MultiHeadAttention(16, 4, num_kv_heads=2, positions=positions)
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    states = torch.randn(2, 6, 16)
    mask = causal() & window(3)
    actual = compiled(states, mask=mask, return_weights=return_weights)
    assert actual.context.allclose(attention(states, mask=mask).context, atol=1e-5)
    assert (actual.weights is not None) == return_weights


@pytest.mark.parametrize("cache", [GrowingCache(), FixedCache(capacity=8)], ids=["growing", "fixed"])
def test_cached_steps_compile_to_one_graph(cache):
    attention = MultiHeadAttention(16, 4, num_kv_heads=2).eval()
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager", dynamic=True)
    states = torch.randn(2, 5, 16)
    outputs = []
    with torch.no_grad():
        for step in range(5):
            attended = compiled(states[:, step : step + 1], mask=causal(), cache=cache)
            cache = attended.cache
            outputs.append(attended.context)
        assert torch.cat(outputs, 1).allclose(attention(states, mask=causal()).context, atol=1e-5)


def test_inductor_compiles_attention():
    attention = MultiHeadAttention(16, 4)
    states = torch.randn(2, 6, 16)
    compiled = torch.compile(attention, fullgraph=True)
    assert compiled(states, mask=causal()).context.allclose(attention(states, mask=causal()).context, atol=1e-5)


def test_attend_under_vmap():
    q, k, v = (torch.randn(3, 2, 5, 8) for _ in range(3))
    mapped = torch.func.vmap(lambda a, b, c: attend(a, b, c, mask=causal()).context)(q, k, v)
    assert mapped.allclose(attend(q, k, v, mask=causal()).context, atol=1e-6)


def test_attend_under_grad_on_the_blocked_path(monkeypatch):
    monkeypatch.setattr(blocked, "WORTH_IT", 0)
    monkeypatch.setattr(blocked, "BLOCK", 4)
    x = torch.randn(9, 8)

    def loss(states):
        return attend(states, states, states, mask=causal() & window(2)).context.square().sum()

    reference = x.clone().requires_grad_()
    loss(reference).backward()
    assert torch.func.grad(loss)(x).allclose(reference.grad, atol=1e-5)
