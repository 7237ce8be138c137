"""NaN is neither hidden nor created, and a query that may attend to nothing gets zeros, however attention runs."""

import pytest
import torch
from torch import nn

from regard import attend
from regard.attention.alignments import ALIGNMENTS
from regard.attention.masks import causal, padding
from regard.attention.scores import SCORES, Biased, Cosine, Dot
from regard.kernels.additive import operator
from regard.kernels.dot import blocked
from tests.contracts.cases import key_size_of, make_alignment, make_score, position_info

NAN, INFINITY = float("nan"), float("inf")
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
LOWERED = ("dot", "cosine", "gaussian", "general")


def tensors(score_name, dtype, num_queries=5, num_keys=7):
    sizes = (num_queries, 8), (num_keys, key_size_of(score_name)), (num_keys, 4)
    return [torch.randn(2, *size, dtype=torch.float64).to(dtype) for size in sizes]


def formed(queries, keys, values, **options):
    return attend(queries, keys, values, return_weights=True, **options).context


def fused(queries, keys, values, **options):
    return attend(queries, keys, values, **options).context


def mapped(queries, keys, values, mask=None, **options):
    """torch.vmap over a batch of two, with masks that are the same for both."""
    return torch.func.vmap(lambda *sides: attend(*sides, mask=mask, **options).context)(queries, keys, values)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("run", [formed, fused, mapped])
@pytest.mark.parametrize("score_name", SCORES)
def test_a_query_that_is_nan_gives_nan_and_no_other_query_does(score_name, run, dtype, monkeypatch):
    monkeypatch.setitem(operator.WORTH_IT, "cpu", 0)
    monkeypatch.setattr(operator, "FEWEST", 1)
    queries, keys, values = tensors(score_name, dtype)
    queries[1, 2, 3] = NAN
    context = run(queries, keys, values, score=make_score(score_name, dtype))
    assert context[1, 2].isnan().all()
    assert context.isnan().sum() == 4


@pytest.mark.parametrize("num_keys", [7, 600])
@pytest.mark.parametrize("score_name", LOWERED)
@pytest.mark.parametrize("run", [formed, fused, mapped])
def test_a_key_that_is_nan_reaches_the_queries_that_may_attend_to_it(run, score_name, num_keys):
    queries, keys, values = tensors(score_name, torch.float32, num_keys, num_keys)
    keys[1, 4, 0] = NAN
    score, masks = make_score(score_name, torch.float32), {"all": None, "causal": causal(), "not": ~causal()}
    reached = {"all": slice(None), "causal": slice(4, None), "not": slice(0, 4)}
    for name, mask in masks.items():
        context = run(queries, keys, values, score=score, mask=mask)
        expected = torch.zeros_like(context, dtype=torch.bool)
        expected[1, reached[name]] = True
        assert torch.equal(context.isnan(), expected), name


@pytest.mark.parametrize("run", [fused, mapped])
def test_scores_that_overflow_are_not_zeros(run):
    queries, keys, values = (1e20 * side for side in tensors("dot", torch.float32))
    expected = formed(queries, keys, values, score=Dot())
    actual = run(queries, keys, values, score=Dot())
    # where the formula is NaN, so is this; where it is a number, this is that number or NaN
    assert actual[expected.isnan()].isnan().all()
    assert ((actual == expected) | actual.isnan()).all()


@pytest.mark.parametrize("run", [formed, fused, mapped])
def test_a_bias_that_is_nan_is_not_hidden(run):
    queries, keys, values = tensors("dot", torch.float32)
    bias = torch.zeros(5, 7)
    bias[0, 1], bias[1], bias[3, 2] = NAN, -INFINITY, -INFINITY
    context = run(queries, keys, values, score=Biased(Dot(), bias))
    assert context[:, 0].isnan().all() and not context[:, 1:].isnan().any()
    assert (context[:, 1] == 0).all()


@pytest.mark.parametrize("run", [formed, fused, mapped])
@pytest.mark.parametrize("score_name", LOWERED)
def test_a_query_that_may_attend_to_nothing_gets_zeros_whatever_it_is(run, score_name):
    queries, keys, values = tensors(score_name, torch.float32)
    queries[0, 1], queries[1, 4] = NAN, INFINITY
    allowed = torch.ones(5, 7, dtype=torch.bool)
    allowed[1] = allowed[4] = False
    leaves = [side.requires_grad_() for side in (queries, keys, values)]
    context = run(*leaves, score=make_score(score_name, torch.float32), mask=allowed)
    assert (context[:, [1, 4]] == 0).all() and context.isfinite().all()
    query_grad, _, value_grad = torch.autograd.grad(context.square().sum(), leaves)
    # the keys' gradient is a sum over all queries, in which 0 times NaN is NaN, as in torch
    assert query_grad[:, [0, 2, 3]].isfinite().all() and value_grad.isfinite().all()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("align_name", ALIGNMENTS)
def test_an_alignment_shows_nan_in_its_own_query(align_name, dtype, training):
    queries, keys, values = tensors("dot", dtype)
    queries[1, 2, 3] = NAN
    align = make_alignment(align_name, dtype).train(training)
    allowed = torch.ones(2, 5, 7, dtype=torch.bool)
    allowed[0, 0] = False
    attended = attend(
        queries, keys, values, score=Dot(), align=align, mask=allowed, position_info=position_info(),
        return_weights=True,
    )  # fmt: skip
    # a cursor that is lost stays lost: only under this alignment queries depend on those before them
    end = 5 if align_name == "monotonic" else 3
    assert attended.context[1, 2:end].isnan().all() and attended.context.isnan().sum() == 4 * (end - 2)
    assert (attended.context[0, 0] == 0).all()
    if attended.sample_log_prob is not None:
        assert attended.sample_log_prob[1, 2].isnan() and attended.sample_log_prob.isnan().sum() == 1


@pytest.mark.parametrize("align_name", ALIGNMENTS)
def test_a_query_of_nan_without_keys_gets_zeros_from_every_alignment(align_name):
    queries, keys, values = tensors("dot", torch.float32)
    queries[1, 2] = NAN
    mask, align = torch.arange(5)[:, None] != 2, make_alignment(align_name, torch.float32)
    attended = attend(queries, keys, values, align=align, mask=mask, position_info=position_info())
    assert (attended.context[:, 2] == 0).all() and attended.context.isfinite().all()


def test_a_bias_that_alone_is_mapped_is_not_hidden():
    queries, keys, values = tensors("dot", torch.float32)
    biases = torch.zeros(3, 5, 7)
    biases[1, 4, 2] = NAN
    context = torch.func.vmap(lambda bias: attend(queries, keys, values, score=Biased(Dot(), bias)).context)(biases)
    assert context[1, :, 4].isnan().all() and context.isnan().sum() == 8


@pytest.mark.parametrize("align_name", ["sparsemax", "entmax"])
def test_sparse_alignments_are_refused_under_vmap_by_a_sentence(align_name):
    with pytest.raises(TypeError, match=r"the entmax package, which torch\.func cannot transform\. Use Softmax"):
        mapped(*tensors("dot", torch.float32), align=make_alignment(align_name, torch.float32))


@pytest.mark.parametrize("align_name", ALIGNMENTS)
def test_a_masked_key_that_is_nan_has_no_effect_on_any_alignment(align_name):
    queries, keys, values = tensors("dot", torch.float32)
    mask, align = padding(torch.tensor([4, 7])), make_alignment(align_name, torch.float32)
    options = {"score": Dot(), "align": align, "mask": mask, "position_info": position_info()}
    expected = attend(queries, keys, values, **options).context
    keys[0, 4:] = NAN
    assert attend(queries, keys, values, **options).context.allclose(expected, atol=1e-6)


@pytest.mark.parametrize("align_name", ["sparsemax", "entmax", "hard", "softmax"])
def test_the_gradient_of_a_query_that_is_nan_is_nan(align_name):
    queries, keys, values = (side.requires_grad_() for side in tensors("dot", torch.float32))
    align = make_alignment(align_name, torch.float32)
    broken = torch.where(torch.arange(5)[:, None] == 2, NAN, queries)
    context = attend(broken, keys, values, score=Dot(), align=align).context
    (gradient,) = torch.autograd.grad(context.sum(), values)
    assert gradient.isnan().any()


@pytest.mark.parametrize("mask", [None, causal()], ids=["all", "causal"])
def test_blocks_of_queries_show_nan(mask, monkeypatch):
    monkeypatch.setattr(blocked, "BLOCK", 3)
    monkeypatch.setattr(blocked, "WORTH_IT", 0)
    queries, keys, values = tensors("dot", torch.float32, 7, 7)
    keys[1, 4, 0] = NAN
    first = 4 if mask is not None else 0
    context = mapped(queries, keys, values, mask=mask)
    assert context[1, first:].isnan().all() and not context[1, :first].isnan().any() and not context[0].isnan().any()


@pytest.mark.unchecked
@pytest.mark.parametrize(
    "score", [Dot(), Cosine(scale=-2.0), SCORES["gaussian"].build()], ids=lambda s: type(s).__name__
)
def test_compiled_attention_shows_nan(score):
    torch._dynamo.reset()

    def run(*sides, mask):
        return attend(*sides, score=score, mask=mask).context

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for mask in (None, causal(), padding(torch.tensor([0, 4]))):
        queries, keys, values = tensors("dot", torch.float32, 5, 5)
        queries[1, 2, 3], keys[1, 4, 0] = NAN, NAN
        expected = run(queries, keys, values, mask=mask)
        assert compiled(queries, keys, values, mask=mask).allclose(expected, equal_nan=True, atol=1e-6)


def test_a_gaussian_keeps_its_origin_where_a_masked_key_is_nan():
    queries, keys, values = tensors("gaussian", torch.float32)
    keys += 1000
    queries += 1000
    mask, score = padding(torch.tensor([4, 4])), make_score("gaussian", torch.float32)
    expected = formed(queries, keys, values, score=score, mask=mask)
    keys[:, 4:] = NAN
    shared = torch.arange(7) < 4
    assert mapped(queries, keys, values, score=score, mask=shared).allclose(expected, atol=1e-3)
    assert isinstance(score, nn.Module)
