"""The context as a sum of f_out(weight times value)."""

import pytest
import torch
from torch import nn

from regard import Attention, attend, intervene, trace, which_backend
from regard.attention.aggregations import MappedSum, WeightedSum
from regard.attention.alignments import Sparsemax
from regard.attention.masks import causal, padding
from regard.attention.scores import Dot
from regard.attention.scores.with_bias import Biased

FUNCTIONS = {"tanh": torch.tanh, "exp": torch.exp, "cube": lambda tensor: tensor**3}


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inputs():
    return draw(2, 3, 4), draw(2, 5, 4, seed=1), draw(2, 5, 6, seed=2)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_context_is_the_sum_of_the_formula(name):
    attended = attend(*inputs(), aggregate=MappedSum(FUNCTIONS[name]), return_weights=True)
    values = inputs()[2]
    for batch in range(2):
        for query in range(3):
            terms = [FUNCTIONS[name](attended.weights[batch, query, key] * values[batch, key]) for key in range(5)]
            assert attended.context[batch, query].allclose(sum(terms), atol=1e-12)


def test_the_identity_is_the_weighted_sum():
    mask = causal() & padding(torch.tensor([5, 2]))
    expected = attend(*inputs(), mask=mask)
    for aggregate in (MappedSum(lambda tensor: tensor), WeightedSum()):
        assert attend(*inputs(), mask=mask, aggregate=aggregate).context.allclose(expected.context, atol=1e-12)


@pytest.mark.parametrize("function", [torch.exp, torch.cos, nn.Linear(6, 2).double()], ids=["exp", "cos", "linear"])
def test_masked_keys_contribute_exactly_nothing(function):
    """f_out(0) is not 0 here, so that a masked key would be seen."""
    queries, keys, values = inputs()
    lengths, aggregate = torch.tensor([5, 2]), MappedSum(function)
    batch = attend(queries, keys, values, mask=padding(lengths), aggregate=aggregate).context
    for element, length in enumerate(lengths):
        short = queries[element], keys[element, :length], values[element, :length]
        assert batch[element].allclose(attend(*short, aggregate=aggregate).context, atol=1e-12)
    # whatever a masked value holds
    values[1, 2:] = torch.nan
    leaf = values.requires_grad_()
    again = attend(queries, keys, leaf, mask=padding(lengths), aggregate=aggregate).context
    assert torch.equal(again, batch)
    (gradient,) = torch.autograd.grad(again.sum(), leaf)
    assert (gradient[1, 2:] == 0).all() and gradient.isfinite().all()


def test_a_query_without_keys_gets_zeros():
    empty = torch.zeros(3, 5, dtype=torch.bool)
    empty[1, 2] = True
    queries = inputs()[0].requires_grad_()
    context = attend(queries, *inputs()[1:], mask=empty, aggregate=MappedSum(torch.exp)).context
    assert (context[:, [0, 2]] == 0).all() and (context[:, 1] > 0).all()
    (gradient,) = torch.autograd.grad(context.sum(), queries)
    assert gradient.isfinite().all() and (gradient[:, [0, 2]] == 0).all()
    without = attend(inputs()[0], inputs()[1][:, :0], inputs()[2][:, :0], aggregate=MappedSum(torch.exp))
    assert torch.equal(without.context, torch.zeros(2, 3, 6, dtype=torch.float64))


def test_a_score_of_minus_infinity_masks_and_a_weight_of_zero_does_not():
    queries, keys, values = inputs()
    bias = torch.zeros(5, dtype=torch.float64)
    bias[3] = float("-inf")
    biased = attend(queries, keys, values, score=Biased(Dot(), bias), aggregate=MappedSum(torch.exp)).context
    rest = torch.arange(5) != 3
    assert biased.allclose(
        attend(queries, keys, values, score=Dot(), mask=rest, aggregate=MappedSum(torch.exp)).context
    )
    sparse = attend(10 * queries, keys, values, align=Sparsemax(), aggregate=MappedSum(torch.exp), return_weights=True)
    zeros = sparse.weights == 0
    assert zeros.any()
    terms = torch.exp(sparse.weights[..., None] * values[:, None])
    assert sparse.context.allclose(terms.sum(-2)) and (terms[zeros] == 1).all()


def test_gradients_are_the_numerical_ones():
    tensors = tuple(tensor.requires_grad_() for tensor in inputs())

    def context(*tensors):
        return attend(*tensors, mask=causal(), aggregate=MappedSum(torch.tanh)).context

    assert torch.autograd.gradcheck(context, tensors)


def test_nan_is_shown():
    queries, keys, values = inputs()
    queries[1, 2] = torch.nan
    context = attend(queries, keys, values, aggregate=MappedSum(torch.tanh)).context
    assert context[1, 2].isnan().all() and context.isnan().sum() == 6


def test_an_attention_with_a_learned_function_is_traced_and_intervened_on():
    torch.manual_seed(0)
    attention = Attention(Dot(), aggregate=MappedSum(nn.Sequential(nn.Linear(6, 3), nn.ReLU()))).double()
    assert list(attention.state_dict()) == ["aggregate.function.0.weight", "aggregate.function.0.bias"]
    queries, keys, values = inputs()
    memory = attention.prepare_memory(keys, values)
    with trace(attention) as maps:
        attended = attention(queries, memory)
    assert attended.context.shape == (2, 3, 3)
    assert torch.equal(maps[""][0].context, attended.context)

    def first_key(path, attention_map):
        return torch.zeros_like(attention_map.weights).index_fill(-1, torch.tensor([0]), 1.0)

    with intervene(attention, first_key):
        context = attention(queries, memory).context
    weights = torch.zeros(2, 3, 5, dtype=torch.float64).index_fill(-1, torch.tensor([0]), 1.0)
    assert context.allclose(attention.aggregate(weights, values), atol=1e-12)
    attended.context.sum().backward()
    assert attention.aggregate.function[0].weight.grad.norm() > 0


def test_the_reason_against_fused_kernels():
    choice = which_backend(*inputs(), aggregate=MappedSum(torch.tanh))
    assert choice.backend == "plain" and "MappedSum is not WeightedSum" in str(choice)
    attention = Attention(Dot(), aggregate=MappedSum(torch.tanh))
    memory = attention.prepare_memory(*inputs()[1:])
    assert "MappedSum is not WeightedSum" in str(which_backend(attention, inputs()[0], memory))
    assert which_backend(*inputs(), aggregate=WeightedSum()).backend == which_backend(*inputs()).backend != "plain"


def test_weights_of_a_few_queries_and_dropout():
    attended = attend(*inputs(), aggregate=MappedSum(torch.tanh), weights_for_queries=[2])
    whole = attend(*inputs(), aggregate=MappedSum(torch.tanh), return_weights=True)
    assert torch.equal(attended.weights, whole.weights[:, 2:]) and torch.equal(attended.context, whole.context)
    torch.manual_seed(3)
    dropped = attend(*inputs(), aggregate=MappedSum(torch.exp), dropout=0.5, return_weights=True)
    # the function of the weights after dropout
    assert dropped.context.allclose(torch.exp(dropped.weights[..., None] * inputs()[2][:, None]).sum(-2), atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_precisions_and_autocast(dtype):
    aggregate = MappedSum(torch.tanh)
    exact = attend(*inputs(), aggregate=aggregate).context
    low = attend(*(tensor.to(dtype) for tensor in inputs()), aggregate=aggregate).context
    assert low.dtype == dtype and low.double().allclose(exact, atol=1e-6 if dtype == torch.float32 else 0.05)
    with torch.autocast("cpu", torch.bfloat16):
        assert attend(*(tensor.float() for tensor in inputs()), aggregate=aggregate).context.isfinite().all()


def test_print():
    assert repr(MappedSum(torch.tanh)) == "MappedSum(tanh)"
    assert repr(Attention(Dot())) == repr(Attention(Dot(), aggregate=WeightedSum()))


@pytest.mark.unchecked
def test_errors():
    with pytest.raises(TypeError, match="function is 3, expected a function of tensors"):
        MappedSum(3)
    with pytest.raises(TypeError, match="aggregate is the class MappedSum, expected an object such as MappedSum"):
        attend(*inputs(), aggregate=MappedSum)


@pytest.mark.unchecked
def test_it_compiles_to_one_graph():
    aggregate = MappedSum(torch.tanh)

    def context(*tensors):
        return attend(*tensors, mask=causal(), aggregate=aggregate).context

    compiled = torch.compile(context, fullgraph=True, backend="aot_eager")
    assert compiled(*inputs()).allclose(context(*inputs()), atol=1e-12)
