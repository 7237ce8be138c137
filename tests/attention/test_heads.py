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
    given = states()

    def split(projected, heads):
        return projected.unflatten(-1, (heads, HEAD)).transpose(1, 2)

    queries = split(attention.query_proj(given), HEADS)
    keys, values = (
        split(proj(given), num_kv_heads).repeat_interleave(HEADS // num_kv_heads, dim=1)
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
    formed, fused = attention(given, return_weights=True, **options), attention(given, **options)
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
    given = states()
    mask = causal() & window(3) if cache_name == "window" else causal()
    whole = attention(given, mask=mask).context
    for pieces in ((1,) * LENGTH, (4, 1, 4), (LENGTH,)):
        cache, outputs, start = CACHES[cache_name](), [], 0
        for piece in pieces:
            read = attention(given[:, start : start + piece], mask=mask, cache=cache, return_weights=start % 2 == 0)
            cache, start = read.cache, start + piece
            outputs.append(read.context)
        assert torch.cat(outputs, dim=1).allclose(whole, atol=1e-9)
        assert cache.length == LENGTH


def test_a_window_cache_drops_keys_outside_the_window():
    attention, given, cache = make(), states(), WindowCache(size=4)
    for step in range(LENGTH):
        cache = attention(given[:, step : step + 1], mask=causal() & window(3), cache=cache).cache
    assert cache.keys.shape[-2] == 4
    assert (cache.first, cache.length) == (LENGTH - 4, LENGTH)


@pytest.mark.parametrize("cache_name", CACHES)
def test_caches_may_be_branched_and_reordered(cache_name):
    attention, given = make(), states(batch=3)
    start = attention(given[:, :2], mask=causal(), cache=CACHES[cache_name]()).cache
    left = attention(given[:, 2:3], mask=causal(), cache=start)
    right = attention(given[:, 5:6], mask=causal(), cache=start)
    again = attention(given[:, 2:3], mask=causal(), cache=start)
    assert torch.equal(left.context, again.context), "the second branch wrote over the first"
    both = [attention(given[:, 3:4], mask=causal(), cache=branch.cache).context for branch in (left, right)]
    path = torch.cat([given[:, :2], given[:, 2:3], given[:, 3:4]], dim=1)
    assert both[0].allclose(attention(path, mask=causal()).context[:, -1:], atol=1e-10)
    rows = torch.tensor([2, 0, 0])
    chosen = select_batch(left.cache, rows)
    moved = attention(given[rows, 3:4], mask=causal(), cache=chosen).context
    assert moved.allclose(both[0][rows], atol=1e-10)


def test_a_fixed_cache_lets_gradients_through():
    attention = make()
    given = states().requires_grad_()
    first = attention(given[:, :4], mask=causal(), cache=FixedCache(capacity=LENGTH))
    second = attention(given[:, 4:], mask=causal(), cache=first.cache)
    (cached,) = torch.autograd.grad(first.context.sum() + second.context.square().sum(), given)
    whole = attention(given, mask=causal()).context
    (wanted,) = torch.autograd.grad(whole[:, :4].sum() + whole[:, 4:].square().sum(), given)
    assert cached.allclose(wanted, atol=1e-10)


def test_a_fixed_cache_supports_frozen_keys_and_inference_mode():
    attention = make()
    attention.key_proj.requires_grad_(False)
    attention.value_proj.requires_grad_(False)
    given = states()
    first = attention(given[:, :4], mask=causal(), cache=FixedCache(capacity=LENGTH))
    second = attention(given[:, 4:], mask=causal(), cache=first.cache)
    (first.context.sum() + second.context.sum()).backward()
    assert attention.query_proj.weight.grad.isfinite().all()
    with torch.inference_mode():
        cache = attention(given[:, :4], mask=causal(), cache=FixedCache(capacity=LENGTH)).cache
    with torch.no_grad():
        after = attention(given[:, 4:], mask=causal(), cache=cache).context
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
    given = states()
    expected = exact(given, mask=causal()).context
    low = make(positions=positions, num_kv_heads=3).to(dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    for return_weights in (True, False):
        found = low(given.to(dtype), mask=causal(), return_weights=return_weights).context
        assert found.double().allclose(expected, atol=tolerance)
    with torch.autocast("cpu", torch.bfloat16):
        found = exact.float()(given.float(), mask=causal()).context
    assert found.double().allclose(expected, atol=0.05)


def test_cross_attention_over_a_memory_of_another_size():
    attention = MultiHeadAttention(HIDDEN, HEADS, source_size=5).double()
    source, real = torch.randn(2, 4, 5, dtype=torch.float64), torch.tensor([[True] * 4, [True, True, False, False]])
    memory = attention.prepare_memory(source, mask=real)
    read = attention(states(), memory, return_weights=True)
    assert read.weights.shape == (2, HEADS, LENGTH, 4)
    assert (read.weights[1, ..., 2:] == 0).all()
    shorter = attention(states()[1:], attention.prepare_memory(source[1:, :2]))
    assert shorter.context.allclose(read.context[1:], atol=1e-10)


def test_mask_per_row_and_per_head():
    attention, given = make(), states()
    per_head = torch.rand(1, HEADS, LENGTH, LENGTH) > 0.3
    weights = attention(given, mask=per_head, return_weights=True).weights
    assert (weights[:, :][~per_head.expand_as(weights)] == 0).all()
    assert attention(given, mask=per_head).context.allclose(
        attention(given, mask=per_head, return_weights=True).context, atol=1e-10
    )


def test_dropout_only_in_training():
    attention = MultiHeadAttention(HIDDEN, HEADS, dropout=0.5).double()
    given = states()
    assert (attention.train()(given, return_weights=True).weights == 0).any()
    assert (attention.eval()(given, return_weights=True).weights > 0).all()


def test_scores_inside_heads_may_be_additive():
    attention = MultiHeadAttention(HIDDEN, 2, score=Additive(query_size=6, key_size=6, hidden_size=4)).double()
    assert attention(states()).context.shape == (2, LENGTH, HIDDEN)
    assert {name for name, _ in attention.named_parameters() if name.startswith("score")} == {
        "score.energy", "score.query_proj.weight", "score.key_proj.weight",
    }  # fmt: skip


@pytest.mark.parametrize("shape", [(LENGTH, HIDDEN), (2, 3, LENGTH, HIDDEN), (0, LENGTH, HIDDEN), (2, 0, HIDDEN)])
def test_any_leading_dimensions_and_none(shape):
    attention = make(num_kv_heads=2)
    given = torch.randn(shape, dtype=torch.float64)
    formed = attention(given, mask=causal(), return_weights=True)
    assert formed.weights.shape == (*shape[:-2], HEADS, shape[-2], shape[-2])
    assert attention(given, mask=causal()).context.allclose(formed.context, atol=1e-10)


def test_a_predicted_position_does_not_depend_on_the_future():
    attention, given = make(align="local_predictive"), states()
    whole = attention(given, mask=causal()).context
    assert attention(given[:, :4], mask=causal()).context.allclose(whole[:, :4], atol=1e-10)
    cache, outputs = GrowingCache(), []
    for step in range(LENGTH):
        read = attention(given[:, step : step + 1], mask=causal(), cache=cache)
        cache = read.cache
        outputs.append(read.context)
    assert torch.cat(outputs, dim=1).allclose(whole, atol=1e-9)


def test_a_memory_mask_is_structured():
    attention = MultiHeadAttention(HIDDEN, HEADS).double()
    real = torch.rand(2, LENGTH) > 0.4
    rule = combined_mask(causal(), real, num_head_axes=1)
    assert rule.structured
    memory = attention.prepare_memory(states(), mask=real)
    read = attention(states(), memory, mask=causal(), return_weights=True)
    may = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril() & real[:, None, None, :]
    assert ((read.weights > 0) == may).all()
    assert attention(states(), memory, mask=causal()).context.allclose(read.context, atol=1e-10)
