"""Multi-head attention with any score, alignment, grouping, positions and cache."""

import pytest
import torch

from regard import MultiHeadAttention, attend
from regard.attention import FixedCache, GrowingCache, WindowCache
from regard.attention.alignments import ALIGNMENTS
from regard.attention.masks import causal, padding, window
from regard.attention.positions import POSITIONS
from regard.attention.prepared import combined_mask
from regard.attention.scores import SCORES, Additive
from regard.contracts import PositionInfo, select_batch
from tests.contracts.cases import build

HIDDEN, HEADS, LENGTH = 12, 6, 9
HEAD = HIDDEN // HEADS


def make(score="scaled_dot", align="softmax", positions=None, **options):
    torch.manual_seed(4)
    sizes = {
        "query_size": HEAD,
        "key_size": HEAD,
        "hidden_size": 3,
        "max_length": 20,
        "head_size": HEAD,
        "num_heads": HEADS,
    }
    return (
        MultiHeadAttention(
            HIDDEN,
            HEADS,
            score=build(SCORES[score], **sizes),
            align=build(ALIGNMENTS[align], **sizes),
            positions=None if positions is None else build(POSITIONS[positions], **sizes),
            **options,
        )
        .double()
        .eval()
    )


def states(batch=2, length=LENGTH):
    torch.manual_seed(7)
    return torch.randn(batch, length, HIDDEN, dtype=torch.float64)


@pytest.mark.parametrize("num_kv_heads", [6, 3, 1])
@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("score", SCORES)
def test_heads_equal_attend_on_projections(score, align, num_kv_heads):
    attention = make(score, align, num_kv_heads=num_kv_heads)
    inputs = states()

    def split(projected, heads):
        return projected.unflatten(-1, (heads, HEAD)).transpose(1, 2)

    queries = split(attention.query_proj(inputs), HEADS)
    keys, values = (
        split(proj(inputs), num_kv_heads).repeat_interleave(HEADS // num_kv_heads, dim=1)
        for proj in (attention.key_proj, attention.value_proj)
    )
    lengths = torch.tensor([LENGTH, 4])
    options = {"mask": causal() & padding(lengths)}
    expected = attend(
        queries,
        keys,
        values,
        score=attention.score,
        align=attention.align,
        position_info=PositionInfo(positions=torch.arange(LENGTH)),
        return_weights=True,
        **options,
    )
    output = attention.output_proj(expected.context.transpose(1, 2).flatten(2))
    formed, fused = attention(inputs, return_weights=True, **options), attention(inputs, **options)
    assert formed.context.allclose(output, atol=1e-10)
    assert formed.weights.allclose(expected.weights, atol=1e-10)
    assert fused.context.allclose(output, atol=1e-9) and fused.weights is None


CACHES = {
    "growing": GrowingCache,
    "fixed": lambda: FixedCache(capacity=LENGTH),
    "window": lambda: WindowCache(size=4),
}
INSIDE = [None, "relative", "rotary", "alibi"]


@pytest.mark.parametrize("positions", INSIDE)
@pytest.mark.parametrize("cache_name", CACHES)
@pytest.mark.parametrize("score", SCORES)
def test_cached_equals_uncached(score, cache_name, positions):
    attention = make(score, positions=positions, num_kv_heads=3)
    if score == "location" and cache_name == "window":
        pytest.skip("Location has no keys: it counts positions from the first key held")
    inputs = states()
    mask = causal() & window(3) if cache_name == "window" else causal()
    whole = attention(inputs, mask=mask).context
    for pieces in ((1,) * LENGTH, (4, 1, 4), (LENGTH,)):
        cache, outputs, start = CACHES[cache_name](), [], 0
        for piece in pieces:
            attended = attention(
                inputs[:, start : start + piece], mask=mask, cache=cache, return_weights=start % 2 == 0
            )
            cache, start = attended.cache, start + piece
            outputs.append(attended.context)
        assert torch.cat(outputs, dim=1).allclose(whole, atol=1e-9)
        assert cache.length == LENGTH


def test_a_window_cache_drops_keys_outside_the_window():
    attention, inputs, cache = make(), states(), WindowCache(size=4)
    for step in range(LENGTH):
        cache = attention(inputs[:, step : step + 1], mask=causal() & window(3), cache=cache).cache
    assert cache.keys.shape[-2] == 4
    assert (cache.first, cache.length) == (LENGTH - 4, LENGTH)


@pytest.mark.parametrize("cache_name", CACHES)
def test_caches_may_be_branched_and_reordered(cache_name):
    attention, inputs = make(), states(batch=3)
    start = attention(inputs[:, :2], mask=causal(), cache=CACHES[cache_name]()).cache
    left = attention(inputs[:, 2:3], mask=causal(), cache=start)
    right = attention(inputs[:, 5:6], mask=causal(), cache=start)
    again = attention(inputs[:, 2:3], mask=causal(), cache=start)
    assert torch.equal(left.context, again.context), "the second branch wrote over the first"
    both = [attention(inputs[:, 3:4], mask=causal(), cache=branch.cache).context for branch in (left, right)]
    path = torch.cat([inputs[:, :2], inputs[:, 2:3], inputs[:, 3:4]], dim=1)
    assert both[0].allclose(attention(path, mask=causal()).context[:, -1:], atol=1e-10)
    rows = torch.tensor([2, 0, 0])
    chosen = select_batch(left.cache, rows)
    reordered = attention(inputs[rows, 3:4], mask=causal(), cache=chosen).context
    assert reordered.allclose(both[0][rows], atol=1e-10)


def test_a_fixed_cache_lets_gradients_through():
    attention = make()
    inputs = states().requires_grad_()
    first = attention(inputs[:, :4], mask=causal(), cache=FixedCache(capacity=LENGTH))
    second = attention(inputs[:, 4:], mask=causal(), cache=first.cache)
    (cached,) = torch.autograd.grad(first.context.sum() + second.context.square().sum(), inputs)
    whole = attention(inputs, mask=causal()).context
    (expected_gradient,) = torch.autograd.grad(whole[:, :4].sum() + whole[:, 4:].square().sum(), inputs)
    assert cached.allclose(expected_gradient, atol=1e-10)


def test_a_fixed_cache_supports_frozen_keys_and_inference_mode():
    attention = make()
    attention.key_proj.requires_grad_(False)
    attention.value_proj.requires_grad_(False)
    inputs = states()
    first = attention(inputs[:, :4], mask=causal(), cache=FixedCache(capacity=LENGTH))
    second = attention(inputs[:, 4:], mask=causal(), cache=first.cache)
    (first.context.sum() + second.context.sum()).backward()
    assert attention.query_proj.weight.grad.isfinite().all()
    with torch.inference_mode():
        cache = attention(inputs[:, :4], mask=causal(), cache=FixedCache(capacity=LENGTH)).cache
    with torch.no_grad():
        after = attention(inputs[:, 4:], mask=causal(), cache=cache).context
    assert after.allclose(second.context, atol=1e-10)


def test_local_attention_over_a_memory_uses_the_given_positions():
    attention = make(align="local_monotonic")
    memory = attention.prepare_memory(torch.randn(2, 30, HIDDEN, dtype=torch.float64))
    for step in (0, 20):
        weights = attention(
            states()[:, :1], memory, position_info=PositionInfo(positions=torch.tensor([step])), return_weights=True
        ).weights
        near = (torch.arange(30) - step).abs() <= 10
        assert (weights[..., near] > 0).all()
        assert (weights[..., ~near] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("positions", [None, "relative", "rotary", "alibi"])
def test_precisions_and_autocast(positions, dtype):
    exact = make(positions=positions, num_kv_heads=3)
    inputs = states()
    expected = exact(inputs, mask=causal()).context
    low = make(positions=positions, num_kv_heads=3).to(dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    for return_weights in (True, False):
        actual = low(inputs.to(dtype), mask=causal(), return_weights=return_weights).context
        assert actual.double().allclose(expected, atol=tolerance)
    with torch.autocast("cpu", torch.bfloat16):
        actual = exact.float()(inputs.float(), mask=causal()).context
    assert actual.double().allclose(expected, atol=0.05)


def test_cross_attention_over_a_memory_of_another_size():
    attention = MultiHeadAttention(HIDDEN, HEADS, source_size=5).double()
    source, real = torch.randn(2, 4, 5, dtype=torch.float64), torch.tensor([[True] * 4, [True, True, False, False]])
    memory = attention.prepare_memory(source, mask=real)
    attended = attention(states(), memory, return_weights=True)
    assert attended.weights.shape == (2, HEADS, LENGTH, 4)
    assert (attended.weights[1, ..., 2:] == 0).all()
    shorter = attention(states()[1:], attention.prepare_memory(source[1:, :2]))
    assert shorter.context.allclose(attended.context[1:], atol=1e-10)


def test_mask_per_row_and_per_head():
    attention, inputs = make(), states()
    per_head = torch.rand(1, HEADS, LENGTH, LENGTH) > 0.3
    weights = attention(inputs, mask=per_head, return_weights=True).weights
    assert (weights[:, :][~per_head.expand_as(weights)] == 0).all()
    assert attention(inputs, mask=per_head).context.allclose(
        attention(inputs, mask=per_head, return_weights=True).context, atol=1e-10
    )


def test_dropout_only_in_training():
    attention = MultiHeadAttention(HIDDEN, HEADS, dropout=0.5).double()
    inputs = states()
    assert (attention.train()(inputs, return_weights=True).weights == 0).any()
    assert (attention.eval()(inputs, return_weights=True).weights > 0).all()


def test_scores_inside_heads_may_be_additive():
    attention = MultiHeadAttention(HIDDEN, 2, score=Additive(query_size=6, key_size=6, hidden_size=4)).double()
    assert attention(states()).context.shape == (2, LENGTH, HIDDEN)
    assert {name for name, _ in attention.named_parameters() if name.startswith("score")} == {
        "score.energy", "score.query_proj.weight", "score.key_proj.weight",
    }  # fmt: skip


@pytest.mark.parametrize("shape", [(LENGTH, HIDDEN), (2, 3, LENGTH, HIDDEN), (0, LENGTH, HIDDEN), (2, 0, HIDDEN)])
def test_any_leading_dimensions_and_none(shape):
    attention = make(num_kv_heads=2)
    inputs = torch.randn(shape, dtype=torch.float64)
    formed = attention(inputs, mask=causal(), return_weights=True)
    assert formed.weights.shape == (*shape[:-2], HEADS, shape[-2], shape[-2])
    assert attention(inputs, mask=causal()).context.allclose(formed.context, atol=1e-10)


def test_a_predicted_position_does_not_depend_on_the_future():
    attention, inputs = make(align="local_predictive"), states()
    whole = attention(inputs, mask=causal()).context
    assert attention(inputs[:, :4], mask=causal()).context.allclose(whole[:, :4], atol=1e-10)
    cache, outputs = GrowingCache(), []
    for step in range(LENGTH):
        attended = attention(inputs[:, step : step + 1], mask=causal(), cache=cache)
        cache = attended.cache
        outputs.append(attended.context)
    assert torch.cat(outputs, dim=1).allclose(whole, atol=1e-9)


def test_a_memory_mask_is_structured():
    attention = MultiHeadAttention(HIDDEN, HEADS).double()
    real = torch.rand(2, LENGTH) > 0.4
    rule = combined_mask(causal(), real, num_head_axes=1)
    assert rule.structured
    memory = attention.prepare_memory(states(), mask=real)
    attended = attention(states(), memory, mask=causal(), return_weights=True)
    may = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril() & real[:, None, None, :]
    assert ((attended.weights > 0) == may).all()
    assert attention(states(), memory, mask=causal()).context.allclose(attended.context, atol=1e-10)
