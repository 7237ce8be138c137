"""Each path errs at most twice as much as plain torch in the same precision, against float64: outputs and gradients."""

import pytest
import torch

from regard import attend
from regard.attention.masks import causal, padding
from regard.attention.scores import SCORES
from regard.kernels import autograd as query_blocks
from tests.agreement.plain import plain_scores, plain_softmax, relative_error
from tests.contracts.cases import allowed, build

SHAPES = [(2, 33, 47, 16, 16), (1, 64, 64, 64, 24)]
MASKS = {
    "none": lambda batch: None,
    "causal": lambda batch: causal(),
    "padding": lambda batch: causal() & padding(torch.tensor([0, 11][-batch:])),
}


def gradients(context, tensors, upstream):
    return torch.autograd.grad((context * upstream.to(context.dtype)).sum(), tensors, allow_unused=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("return_weights", [True, False], ids=["formed", "fused"])
@pytest.mark.parametrize("score_name", SCORES)
def test_errs_at_most_twice_as_much_as_plain_torch(score_name, return_weights, dtype):
    for batch, num_queries, num_keys, size, value_size in SHAPES:
        for mask_name, make_mask in MASKS.items():
            torch.manual_seed(5)
            score = build(SCORES[score_name], query_size=size, key_size=size, hidden_size=24, max_length=num_keys)
            score = score.to(dtype)
            shapes = ((num_queries, size), (num_keys, size), (num_keys, value_size))
            inputs = [torch.randn(batch, *shape).to(dtype).requires_grad_() for shape in shapes]
            exact_given = [tensor.detach().double().requires_grad_() for tensor in inputs]
            upstream = torch.randn(batch, num_queries, value_size, dtype=torch.float64)
            mask = make_mask(batch)
            may = allowed(mask, batch, num_queries, num_keys)

            def plain(queries, keys, values, score=score, may=may):
                return plain_softmax(plain_scores(score_name, score, queries, keys), may) @ values

            exact, formula = plain(*exact_given), plain(*inputs)
            ours = attend(*inputs, score=score, mask=mask, return_weights=return_weights).context
            compared = zip(
                (ours, *gradients(ours, inputs, upstream)),
                (formula, *gradients(formula, inputs, upstream)),
                (exact, *gradients(exact, exact_given, upstream)),
                strict=True,
            )
            floor = torch.finfo(dtype).eps / 4
            for part, (actual, theirs, truth) in enumerate(compared):
                if truth is None:
                    continue
                allowance = 2 * relative_error(theirs, truth) + floor
                assert relative_error(actual, truth) <= allowance, (mask_name, size, part)


def test_weights_equal_a_loop_written_from_the_formula():
    generator = torch.Generator().manual_seed(0)
    queries, keys, values = (torch.randn(5, 3, generator=generator, dtype=torch.float64) for _ in range(3))
    attended = attend(queries, keys, values, mask=causal(), return_weights=True)
    for i in range(5):
        exponentials = [torch.exp(sum(queries[i, d] * keys[j, d] for d in range(3)) / 3**0.5) for j in range(i + 1)]
        for j in range(5):
            expected = exponentials[j] / sum(exponentials) if j <= i else torch.zeros(())
            assert attended.weights[i, j].allclose(expected.double(), atol=1e-14)
        mixed = sum(attended.weights[i, j] * values[j] for j in range(5))
        assert attended.context[i].allclose(mixed, atol=1e-14)


@pytest.mark.parametrize("return_weights", [True, False], ids=["formed", "fused"])
def test_a_gaussian_is_accurate_between_distant_clusters(return_weights):
    keys = torch.cat([torch.randn(40, 4), torch.randn(40, 4) + 3000])
    queries, values = keys[40:] + 0.1 * torch.randn(40, 4), torch.randn(80, 2)
    score = SCORES["gaussian"].build()
    exact = plain_softmax(plain_scores("gaussian", score, queries.double(), keys.double())) @ values.double()
    formula = plain_softmax(plain_scores("gaussian", score, queries, keys)) @ values
    actual = attend(queries, keys, values, score=score, return_weights=return_weights).context
    assert relative_error(actual, exact) <= 2 * relative_error(formula, exact) + 1e-7


@pytest.mark.parametrize("score_name", ["gaussian", "additive"])
def test_blocks_of_queries_give_the_same(score_name, monkeypatch):
    score = build(SCORES[score_name], query_size=6, key_size=6, hidden_size=5)
    tensors = [torch.randn(2, length, 6, requires_grad=True) for length in (9, 7, 7)]
    results = []
    for cells in (2**24, 200):
        monkeypatch.setattr(query_blocks, "CELLS", cells)
        context = attend(*tensors, score=score, return_weights=True).context
        results.append((context, *torch.autograd.grad(context.square().sum(), (*tensors, *score.parameters()))))
    for whole, blocks in zip(*results, strict=True):
        assert blocks.allclose(whole, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e-7, 1e20, 1e30])
@pytest.mark.parametrize("return_weights", [True, False], ids=["formed", "fused"])
def test_cosine_does_not_depend_on_norms(scale, return_weights):
    queries, keys, values = torch.randn(5, 8), torch.randn(6, 8), torch.randn(6, 3)
    score = SCORES["cosine"].build(scale=5.0)
    usual = attend(queries, keys, values, score=score, return_weights=return_weights).context
    assert attend(queries * scale, keys / scale, values, score=score, return_weights=return_weights).context.allclose(
        usual, atol=1e-5
    )


@pytest.mark.parametrize("return_weights", [True, False], ids=["formed", "fused"])
def test_nan_is_not_hidden(return_weights):
    queries, keys, values = torch.randn(5, 8), torch.randn(6, 8), torch.randn(6, 3)
    queries[2, 3] = float("nan")
    context = attend(queries, keys, values, return_weights=return_weights).context
    assert context[2].isnan().all()
    assert not context[[0, 1, 3, 4]].isnan().any()
