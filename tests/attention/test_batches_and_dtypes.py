"""Leading dimensions that only one of the tensors has, empty inputs in every precision, and tensors of other kinds."""

import pytest
import torch

from regard import Attention, MultiHeadAttention, attend
from regard.attention.masks import causal, padding
from regard.attention.scores import SCORES, Location
from regard.contracts import Lowered
from tests.contracts.cases import build, key_size_of, position_info

LENGTHS = torch.tensor([1, 3, 5])


@pytest.mark.parametrize("mask", [padding(LENGTHS), torch.arange(5) < LENGTHS[:, None, None]], ids=["rule", "tensor"])
@pytest.mark.parametrize(
    "leading",
    [((1,), (1,), (3,)), ((1,), (3,), (1,)), ((3,), (1,), (1,)), ((1,), (1,), (1, 3)), ((), (), (3,))],
    ids=str,
)
def test_a_mask_may_differ_where_only_one_of_the_tensors_has_a_batch(leading, mask):
    queries, keys, values = (
        torch.randn(*lead, length, 4, dtype=torch.float64) for lead, length in zip(leading, (2, 5, 5), strict=True)
    )
    attended = attend(queries, keys, values, mask=mask if values.ndim < 4 else causal(), return_weights=True)
    fused = attend(queries, keys, values, mask=mask if values.ndim < 4 else causal())
    batch = torch.broadcast_shapes(*leading)
    assert attended.weights.shape == (*batch, 2, 5) and attended.context.shape == (*batch, 2, 4)
    assert fused.context.allclose(attended.context, atol=1e-12)
    few = attend(queries, keys, values, mask=mask if values.ndim < 4 else causal(), weights_for_queries=[1])
    assert few.weights.allclose(attended.weights[..., [1], :], atol=1e-12)


@pytest.mark.parametrize("score_name", SCORES)
def test_the_context_has_the_batch_of_the_keys(score_name):
    score = build(SCORES[score_name], key_size=key_size_of(score_name))
    sides = torch.randn(1, 1, 3, 8), torch.randn(2, 1, 5, key_size_of(score_name)), torch.randn(1, 1, 5, 2)
    formed = attend(*sides, score=score, return_weights=True)
    assert formed.context.shape == (2, 1, 3, 2) and formed.weights.shape == (2, 1, 3, 5)
    context = attend(*sides, score=score).context
    assert context.shape == (2, 1, 3, 2) and context.allclose(formed.context, atol=1e-5)


class Popularity:
    """A score of the key alone."""

    def prepare(self, keys):
        return keys

    def __call__(self, queries, keys):
        return keys.sum(-1).unsqueeze(-2).expand(*torch.broadcast_shapes(queries.shape[:-1], (1,)), keys.shape[-2])

    def lower(self, queries, keys):
        return Lowered(queries=torch.ones(queries.shape[-2], keys.shape[-1]), keys=keys)


def test_a_lowering_without_the_batch_of_the_queries_gives_a_context_with_it():
    sides = torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5, 2)
    expected = attend(*sides, score=Popularity(), return_weights=True).context
    context = attend(*sides, score=Popularity()).context
    assert context.shape == (2, 3, 2) and context.allclose(expected, atol=1e-6)


def test_shared_heads_attend_by_position():
    heads = MultiHeadAttention(8, 4, num_kv_heads=2, score=Location(query_size=2, max_length=9))
    states = torch.randn(3, 5, 8)
    expected = heads(states, return_weights=True).context
    assert heads(states).context.allclose(expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("leading", [(), (2,), (0,)], ids=str)
@pytest.mark.parametrize("score_name", SCORES)
def test_no_queries_or_no_keys_give_zeros_in_every_precision(score_name, leading, dtype):
    score = build(SCORES[score_name], key_size=key_size_of(score_name)).to(dtype)
    for num_queries, num_keys in ((0, 3), (3, 0), (0, 0)):
        shapes = (num_queries, 8), (num_keys, key_size_of(score_name)), (num_keys, 2)
        sides = [torch.randn(*leading, *shape).to(dtype) for shape in shapes]
        for options in ({}, {"mask": causal()}, {"return_weights": True}):
            context = attend(*sides, score=score, position_info=position_info(num_queries), **options).context
            assert context.shape == (*leading, num_queries, 2) and context.dtype == dtype
            assert (context == 0).all()


def nested(layout):
    return torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(2, 8)], layout=layout)


DENSE = torch.randn(2, 3, 8)
OTHER_KINDS = {
    "float8": (lambda: DENSE.to(torch.float8_e4m3fn), r"have dtype torch\.float8_e4m3fn, .*\.to\(torch\.bfloat16\)"),
    "float8 of another kind": (lambda: DENSE.to(torch.float8_e5m2), r"have dtype torch\.float8_e5m2"),
    "sparse": (DENSE.to_sparse, r"are sparse \(torch\.sparse_coo\).*\.to_dense\(\)"),
    "rows": (DENSE[0].to_sparse_csr, r"are sparse \(torch\.sparse_csr\).*\.to_dense\(\)"),
    "nested": (lambda: nested(torch.strided), r"are nested, .*\.to_padded_tensor\(0\.0\) with mask=padding\(lengths\)"),
    "jagged": (lambda: nested(torch.jagged), r"are nested, .*\.to_padded_tensor\(0\.0\) with mask=padding\(lengths\)"),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested", "ignore:Sparse CSR tensor support")
@pytest.mark.unchecked
@pytest.mark.parametrize("name", OTHER_KINDS)
def test_a_tensor_of_another_kind_is_refused_by_a_sentence(name):
    make, sentence = OTHER_KINDS[name]
    tensor = make()
    attention, heads = Attention(), MultiHeadAttention(8, 2)
    for run in (
        lambda: attend(tensor, DENSE, DENSE),
        lambda: attend(DENSE, tensor, DENSE),
        lambda: attend(DENSE, DENSE, tensor),
        lambda: attend(tensor, tensor, tensor),
        lambda: attention.prepare_memory(tensor),
        lambda: heads(tensor),
    ):
        with pytest.raises(TypeError, match=sentence):
            run()


@pytest.mark.unchecked
def test_a_sparse_or_nested_mask_is_refused_by_a_sentence():
    allowed = torch.ones(3, 3, dtype=torch.bool)
    for mask in (allowed.to_sparse(), torch.nested.nested_tensor([allowed, allowed[:2]], layout=torch.jagged)):
        with pytest.raises(TypeError, match=r"mask is (sparse|nested).*expected a dense boolean tensor"):
            attend(DENSE, DENSE, DENSE, mask=mask)
