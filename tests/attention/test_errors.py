"""Invalid input: an error with the argument, its value and a solution."""

import pytest
import torch

from regard import Attention, MultiHeadAttention, attend, trace
from regard.attention import FixedCache, GrowingCache, WindowCache
from regard.attention.alignments import Diagonal, Entmax, Gumbel, LocalMonotonic, LocalPredictive, Softmax
from regard.attention.masks import as_mask, causal, dilated, padding, predicate, prefix, window
from regard.attention.positions import Alibi, Learned, Relative, Rotary, Sinusoidal
from regard.attention.scores import Additive, Dot, Gaussian, General, ScaledDot
from regard.contracts import PackedTokens, PositionInfo, select_batch
from regard.layers import Maxout, unroll

HEADS = MultiHeadAttention(8, 2)
Q, K, V = torch.randn(2, 3, 8), torch.randn(2, 4, 8), torch.randn(2, 4, 5)


class Short:
    """A score that does not depend on the keys."""

    def prepare(self, keys):
        return keys

    def lower(self, queries, keys):
        return "it does not"

    def __call__(self, queries, keys):
        return queries.sum(-1)


WRONG_VALUES = {
    "sizes differ": (
        lambda: attend(Q, K[..., :6], V, score=Dot()),
        r"keys have size 6 but Dot compares equal sizes: queries have 8\. Use General\(query_size=8, key_size=6\)",
    ),
    "score built for other queries": (
        lambda: attend(Q, K, V, score=General(query_size=7, key_size=8)),
        r"queries have size 8 .* but General\(query_size=7\) was built for size 7",
    ),
    "score built for other keys": (
        lambda: attend(Q, K, V, score=Additive(query_size=8, key_size=5, hidden_size=2)),
        r"keys have size 8 .*Additive\(key_size=5\)",
    ),
    "one value per key": (lambda: attend(Q, K, V[:, :3]), r"4 keys but 3 values"),
    "batch differs": (lambda: attend(Q, K[:1].expand(5, 4, 8), V), r"leading dimensions do not broadcast: queries"),
    "a vector": (lambda: attend(Q[0, 0], K, V), r"queries have shape \(8,\), expected"),
    "devices differ": (lambda: attend(Q, K.to("meta"), V), r"keys are on meta but queries are on cpu"),
    "mask device": (
        lambda: attend(Q, K, V, mask=torch.ones(3, 4, dtype=torch.bool, device="meta")),
        r"mask is on meta but queries are on cpu",
    ),
    "mask shape": (
        lambda: attend(Q, K, V, mask=torch.ones(4, 3, dtype=torch.bool)),
        r"mask has shape \(4, 3\), which does not broadcast to the scores' shape \(2, 3, 4\)",
    ),
    "padding batch": (
        lambda: attend(Q, K, V, mask=padding(torch.tensor([1, 2, 3]))),
        r"padding lengths have shape \(3,\), but leading dimension 0 of the attention has size 2",
    ),
    "padding rank": (
        lambda: attend(Q[0], K[0], V[0], mask=padding(torch.tensor([1]))),
        r"only 0 leading dimensions",
    ),
    "padding below 0": (lambda: padding(torch.tensor([2, -4])), r"padding lengths contain -4, expected 0 or more"),
    "window": (lambda: window(-1), r"window size is -1, expected a whole number, 0 or more"),
    "prefix": (lambda: prefix(-2), r"prefix length is -2"),
    "dilated": (lambda: dilated(2, 0), r"dilated step is 0, expected a whole number, 1 or more"),
    "dropout": (lambda: attend(Q, K, V, dropout=1.5), r"dropout is 1.5, expected a probability"),
    "heads do not divide": (lambda: MultiHeadAttention(10, 4), r"hidden_size 10 is not divisible by num_heads 4"),
    "groups do not divide": (
        lambda: MultiHeadAttention(12, 6, num_kv_heads=4),
        r"num_heads 6 is not divisible by num_kv_heads 4",
    ),
    "no heads": (lambda: MultiHeadAttention(12, 0), r"num_heads is 0"),
    "heads of another size": (lambda: MultiHeadAttention(12, 3)(Q), r"queries have size 8 .*hidden_size=12"),
    "ambiguous mask": (
        lambda: MultiHeadAttention(8, 2)(Q, mask=torch.ones(2, 3, 3, dtype=torch.bool)),
        r"whose first dimension could be the batch or the heads",
    ),
    "cache with memory": (
        lambda: HEADS(Q, HEADS.prepare_memory(K), cache=GrowingCache()),
        r"a cache and positions inside the heads belong to self-attention",
    ),
    "foreign memory": (
        lambda: MultiHeadAttention(8, 2)(Q, Attention().prepare_memory(K)),
        r"Make the memory with this attention's own prepare_memory",
    ),
    "memory mask": (
        lambda: Attention().prepare_memory(K, mask=torch.ones(2, 3, dtype=torch.bool)),
        r"takes one boolean per key, of shape \(2, 4\), True = key exists",
    ),
    "key mask without heads": (
        lambda: Attention().prepare_memory(torch.randn(2, 2, 4, 8), mask=torch.ones(2, 4, dtype=torch.bool)),
        r"takes one boolean per key, of shape \(2, 2, 4\)",
    ),
    "lengths elsewhere": (
        lambda: attend(Q, K, V, mask=padding(torch.tensor([1, 2], device="meta"))),
        r"mask is on meta but queries are on cpu",
    ),
    "score elsewhere": (
        lambda: attend(Q, K, V, score=General(query_size=8, key_size=8).to("meta")),
        r"queries are on cpu but the parameters of General are on meta",
    ),
    "heads of a vector": (lambda: HEADS(Q[0, 0]), r"queries have shape \(8,\), expected"),
    "values of another size": (lambda: HEADS.prepare_memory(K, V), r"values have size 5 .*source_size=8"),
    "relative of another size": (
        lambda: MultiHeadAttention(8, 2, positions=Relative(head_size=8))(Q),
        r"queries have size 4 .*Relative\(head_size=8\)",
    ),
    "a cache of another batch": (
        lambda: HEADS(Q[:1], cache=HEADS(Q, cache=GrowingCache()).cache),
        r"Use one cache per batch, from its first position on",
    ),
    "packed rows and a mask": (
        lambda: HEADS.prepare_memory(
            Q[0], mask=torch.ones(3, dtype=torch.bool), packed=PackedTokens.from_lists([[4, 4, 4]])
        ),
        r"mask and packed were both given, but packed tokens have no padding",
    ),
    "packed queries and a cache": (
        lambda: HEADS(Q[0], packed=PackedTokens.from_lists([[4, 4, 4]]), cache=GrowingCache()),
        r"cache and packed were both given",
    ),
    "packed rows of other states": (
        lambda: HEADS.prepare_memory(Q[0], packed=PackedTokens.from_lists([[4, 4]])),
        r"there are 3 states, but packed has 2 tokens",
    ),
    "packed rows of another count": (
        lambda: HEADS(
            Q[0],
            HEADS.prepare_memory(Q[1], packed=PackedTokens.from_lists([[4], [4, 4]])),
            packed=PackedTokens.from_lists([[4, 4, 4]]),
        ),
        r"the packed queries have 1 sequences, but the memory has 2",
    ),
    "scores of the wrong shape": (
        lambda: attend(Q, K, V, score=Short()),
        r"Short returned scores of shape \(2, 3\), expected \(.., 3 queries, 4 keys\)",
    ),
    "no step over a memory": (
        lambda: MultiHeadAttention(8, 2, align=LocalMonotonic())(Q, MultiHeadAttention(8, 2).prepare_memory(K)),
        r"LocalMonotonic depends on the step",
    ),
    "no hidden size": (lambda: MultiHeadAttention(0, 2), r"hidden_size is 0"),
    "no step": (lambda: attend(Q, K, V, align=LocalMonotonic()), r"LocalMonotonic depends on the step of each query"),
    "wrong steps": (
        lambda: attend(Q, K, V, align=Diagonal(), position_info=PositionInfo(positions=torch.arange(2))),
        r"position_info.positions has 2 steps, but there are 3 queries",
    ),
    "no queries": (
        lambda: LocalPredictive(query_size=8, hidden_size=2)(torch.randn(2, 3, 4)),
        r"LocalPredictive predicts a position from the queries",
    ),
    "alpha": (lambda: Entmax(alpha=1.0), r"alpha is 1.0, expected more than 1"),
    "alpha that is no number": (lambda: Entmax(alpha=float("nan")), r"alpha is nan, expected more than 1"),
    "infinite alpha": (lambda: Entmax(alpha=float("inf")), r"alpha is inf, expected more than 1"),
    "temperature": (lambda: Gumbel(temperature=0), r"temperature is 0"),
    "temperature that is no number": (lambda: Gumbel(temperature=float("nan")), r"temperature is nan"),
    "infinite temperature": (lambda: Gumbel(temperature=float("inf")), r"temperature is inf"),
    "local window": (lambda: LocalMonotonic(window=-1), r"window is -1"),
    "predictive window": (lambda: LocalPredictive(query_size=2, hidden_size=2, window=0), r"window is 0"),
    "diagonal": (lambda: Diagonal(spread=0), r"Diagonal\(ratio=1.0, spread=0\)"),
    "widths": (lambda: attend(Q, K, V, score=Gaussian(width=[1.0, 2.0])), r"size 8, but this Gaussian has 2 widths"),
    "width matrix": (lambda: Gaussian(width=[[1.0]]), r"width has shape \(1, 1\)"),
    "too long": (lambda: Learned(hidden_size=8, max_length=2)(Q), r"length 3, but Learned has 2 positions"),
    "learned size": (
        lambda: Learned(hidden_size=4, max_length=9)(Q),
        r"states have size 8, but Learned was built for size 4",
    ),
    "sinusoidal size": (
        lambda: Sinusoidal(hidden_size=4)(Q),
        r"states have size 8, but Sinusoidal was built for size 4",
    ),
    "odd rotary": (lambda: Rotary(head_size=3), r"head_size is 3, but Rotary rotates pairs"),
    "rotary size": (
        lambda: MultiHeadAttention(8, 2, positions=Rotary(head_size=8))(Q),
        r"vectors have size 4, but Rotary",
    ),
    "alibi heads": (lambda: MultiHeadAttention(8, 2, positions=Alibi(num_heads=4))(Q), r"one slope per head"),
    "no alibi": (lambda: Alibi(num_heads=0), r"num_heads is 0"),
    "relative": (lambda: Relative(head_size=4, max_distance=-1), r"max_distance is -1"),
    "full cache": (
        lambda: FixedCache(capacity=3).append(torch.randn(1, 4, 2), torch.randn(1, 4, 2)),
        r"a capacity of 3 positions, but 4 are needed",
    ),
    "no capacity": (lambda: FixedCache(capacity=0), r"capacity is 0"),
    "no window": (lambda: WindowCache(size=0), r"size is 0"),
    "maxout": (lambda: Maxout(input_size=2, output_size=2, pieces=0), r"pieces is 0"),
    "ratio of own outputs": (
        lambda: unroll(lambda *a: None, torch.zeros(1, 1, dtype=torch.long), state=None, own_output_ratio=2),
        r"own_output_ratio is 2",
    ),
    "no target": (
        lambda: unroll(lambda *a: None, torch.zeros(1, 0, dtype=torch.long), state=None),
        r"a target begins with at least one token",
    ),
}

WRONG_TYPES = {
    "not a tensor": (lambda: attend(Q.tolist(), K, V), r"queries must be a tensor .* not list"),
    "integers": (lambda: attend(Q.long(), K, V), r"queries have dtype torch.int64, expected a floating-point"),
    "dtypes differ": (
        lambda: attend(Q, K.double(), V),
        r"keys have dtype torch.float64 but queries have torch.float32",
    ),
    "float mask": (
        lambda: attend(Q, K, V, mask=torch.zeros(3, 4)),
        r"mask has dtype torch.float32, expected torch.bool",
    ),
    "mask is a list": (lambda: attend(Q, K, V, mask=[True]), r"mask must be a boolean tensor or a mask such as causal"),
    "mask rank": (lambda: as_mask("causal"), r"not str"),
    "padding of booleans": (lambda: padding(torch.tensor([True])), r"padding takes an integer tensor of lengths"),
    "predicate": (
        lambda: attend(Q, K, V, mask=predicate(lambda i, j: i - j)),
        r"the predicate returned torch.int64, expected a boolean tensor",
    ),
    "score is a class": (lambda: attend(Q, K, V, score=ScaledDot), r"score is the class ScaledDot, expected an object"),
    "score is a name": (lambda: Attention("dot"), r"score is 'dot', expected an object such as ScaledDot\(\)"),
    "align is a class": (lambda: Attention(Dot(), Softmax), r"align is the class Softmax"),
    "rule as a key mask": (
        lambda: Attention().prepare_memory(K, mask=padding(torch.tensor([1, 2]))),
        r"mask is a Padding, but",
    ),
    "and between masks": (lambda: causal() and window(1), r"masks combine with &, \| and ~"),
    "half a window": (lambda: window(1.5), r"window size is 1.5"),
    "float prefix": (lambda: prefix(torch.tensor([1.5])), r"padding takes an integer tensor"),
    "score of another dtype": (
        lambda: attend(Q.double(), K.double(), V.double(), score=General(query_size=8, key_size=8)),
        r"queries have dtype torch.float64 but the parameters of General have torch.float32",
    ),
    "heads of another dtype": (
        lambda: HEADS(Q.double()),
        r"torch.float64 but the parameters of MultiHeadAttention",
    ),
    "heads of integers": (lambda: HEADS(Q.long()), r"queries have dtype torch.int64, expected a floating-point"),
    "heads of a list": (lambda: HEADS([1.0]), r"queries must be a tensor .* not list"),
    "a tensor for a memory": (lambda: HEADS(Q, K), r"memory is a Tensor, but MultiHeadAttention takes a Memory"),
    "a tensor for Attention": (lambda: Attention()(Q, K), r"attention\(queries, attention.prepare_memory\(states\)\)"),
    "added positions inside": (
        lambda: MultiHeadAttention(8, 2, positions=Sinusoidal(hidden_size=8)),
        r"Sinusoidal and Learned are added to the states first",
    ),
    "a dict for a cache": (lambda: HEADS(Q, cache={}), r"cache is a dict, expected an object such as GrowingCache"),
    "not a module": (lambda: trace(attend).__enter__(), r"trace takes a torch.nn.Module, not function"),
    "not a pytree": (lambda: select_batch(object(), torch.zeros(1, dtype=torch.long)), r"not a object"),
}


@pytest.mark.unchecked
@pytest.mark.parametrize("case", WRONG_VALUES)
def test_a_wrong_value_raises_value_error_with_value_and_solution(case):
    wrong, sentence = WRONG_VALUES[case]
    with pytest.raises(ValueError, match=sentence):
        wrong()


@pytest.mark.unchecked
@pytest.mark.parametrize("case", WRONG_TYPES)
def test_a_wrong_type_raises_type_error_with_a_solution(case):
    wrong, sentence = WRONG_TYPES[case]
    with pytest.raises(TypeError, match=sentence):
        wrong()
