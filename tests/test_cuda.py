"""CUDA gives the same numbers as the CPU, for every entry of the tables and every fused path."""

import pytest
import torch

from regard import MultiHeadAttention, attend
from regard.attention import FixedCache, GrowingCache, WindowCache, which_backend
from regard.attention.alignments import ALIGNMENTS
from regard.attention.masks import causal, padding, prefix, window
from regard.attention.positions import POSITIONS
from regard.attention.scores import SCORES
from regard.contracts import PositionScheme
from regard.testing.execution import check_cuda_equals_cpu
from tests.contracts.cases import LENGTHS, build, inputs, make_case, make_score

pytestmark = [pytest.mark.cuda, pytest.mark.unchecked]


@pytest.mark.parametrize("align_name", ALIGNMENTS)
@pytest.mark.parametrize("score_name", SCORES)
def test_cuda_equals_cpu(score_name, align_name):
    pytest.importorskip("entmax") if align_name in ("sparsemax", "entmax") else None
    check_cuda_equals_cpu(make_case(score_name, align_name))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("score_name", ["scaled_dot", "gaussian", "cosine"])
def test_flex_is_chosen_for_long_structured_masks_and_agrees(score_name, dtype):
    torch.manual_seed(0)
    lengths = torch.tensor([2048, 700], device="cuda")
    score = build(SCORES[score_name], query_size=32, key_size=32).cuda().to(dtype)
    masks = {
        "window": causal() & window(100),
        "padding": causal() & padding(lengths),
        "prefix": causal() | prefix(64),
        "empty rows": padding(torch.tensor([2048, 0], device="cuda")),
    }
    for name, mask in masks.items():
        tensors = [torch.randn(2, 3, 2048, 32, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
        assert which_backend(*tensors, score=score, mask=mask).backend == "flex", name
        fused = attend(*tensors, score=score, mask=mask).context
        exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
        double = score.double()
        formed = attend(*exact, score=double, mask=mask, return_weights=True).context
        score = double.to(dtype)
        upstream = torch.randn_like(formed)
        ours = (fused, *torch.autograd.grad((fused * upstream.to(dtype)).sum(), tensors))
        theirs = (formed, *torch.autograd.grad((formed * upstream).sum(), exact))
        for mine, truth in zip(ours, theirs, strict=True):
            error = (mine.double() - truth).norm() / truth.norm()
            assert error < (3e-3 if dtype == torch.float32 else 3e-2), (name, error)
            assert mine.isfinite().all()


@pytest.mark.parametrize("name", [None, *POSITIONS])
def test_heads_and_caches_equal_the_cpu(name):
    torch.manual_seed(0)
    scheme = None if name is None else build(POSITIONS[name], head_size=4, num_heads=4)
    if not isinstance(scheme, PositionScheme):
        scheme = None
    attention = MultiHeadAttention(16, 4, num_kv_heads=2, positions=scheme).double().eval()
    states = torch.randn(2, 9, 16, dtype=torch.float64)
    expected = attention(states, mask=causal()).context
    attention, states = attention.cuda(), states.cuda()
    assert attention(states, mask=causal()).context.cpu().allclose(expected, atol=1e-9)
    for cache in (GrowingCache(), FixedCache(capacity=9), WindowCache(size=9)):
        outputs, held = [], cache
        for step in range(9):
            attended = attention(states[:, step : step + 1], mask=causal(), cache=held)
            held = attended.cache
            outputs.append(attended.context)
        assert torch.cat(outputs, 1).cpu().allclose(expected, atol=1e-9)


@pytest.mark.parametrize("score_name", ["scaled_dot", "gaussian", "additive"])
def test_compiled_on_cuda(score_name):
    torch._dynamo.reset()
    score = make_score(score_name, torch.float32).cuda()
    tensors = [tensor.cuda() for tensor in inputs(score_name, torch.float32)]
    lengths = LENGTHS.cuda()

    def run(*tensors):
        return attend(*tensors, score=score, mask=causal() & padding(lengths)).context

    assert torch.compile(run, fullgraph=True)(*tensors).allclose(run(*tensors), atol=1e-3)


@pytest.mark.parametrize("score_name", SCORES)
def test_huge_and_empty_on_cuda(score_name):
    for dtype, scale in ((torch.float32, 1e4), (torch.bfloat16, 1e4), (torch.float16, 1e3)):
        score = make_score(score_name, dtype).cuda()
        queries, keys, values = inputs(score_name, torch.float32)
        queries[0, 0, 0], keys[0, 1, 0] = scale, scale
        tensors = [tensor.to("cuda", dtype).requires_grad_() for tensor in (queries, keys, values)]
        for return_weights in (True, False):
            mask = causal() & padding(LENGTHS.cuda())
            context = attend(*tensors, score=score, mask=mask, return_weights=return_weights).context
            assert context.isfinite().all()
            assert (context[2] == 0).all()
            for gradient in torch.autograd.grad(context.float().sum(), tensors, allow_unused=True):
                assert gradient is None or gradient.isfinite().all()
