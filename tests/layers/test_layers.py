"""The shared layers against their formulas."""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn

from regard import Attention, MultiHeadAttention
from regard.attention.scores import General
from regard.contracts import PaddedTokens, Step, map_tensors, select_batch
from regard.layers import (
    Embedding,
    FeedForward,
    GatedFeedForward,
    ImageSelfAttention,
    Maxout,
    PostNorm,
    PreNorm,
    TaskModel,
    unroll,
)


def test_embedding_is_scaled_and_tied():
    embedding = Embedding(vocab_size=11, hidden_size=64)
    ids = torch.tensor([[1, 2], [3, 4]])
    assert embedding(ids).allclose(8 * embedding.table.weight[ids])
    states = torch.randn(2, 64)
    assert embedding.unembed(states).allclose(states @ embedding.table.weight.T)
    norms = Embedding(vocab_size=500, hidden_size=256).table.weight.norm(dim=-1)
    assert norms.mean().item() == pytest.approx(1.0, abs=0.02)


def test_feed_forward_by_hand():
    layer = FeedForward(hidden_size=3, feed_forward_size=5)
    x = torch.randn(2, 4, 3)
    hidden = (x @ layer.hidden.weight.T + layer.hidden.bias).clamp_min(0)
    assert layer(x).allclose(hidden @ layer.output.weight.T + layer.output.bias, atol=1e-6)
    gated = GatedFeedForward(hidden_size=3, feed_forward_size=5, activation=torch.sigmoid)
    inner = torch.sigmoid(x @ gated.gate.weight.T) * (x @ gated.hidden.weight.T)
    assert gated(x).allclose(inner @ gated.output.weight.T, atol=1e-6)


@pytest.mark.parametrize("kind", [FeedForward, GatedFeedForward])
def test_feed_forward_is_position_wise(kind):
    # enough hidden units that some ReLU is active at every position
    layer, x = kind(hidden_size=3, feed_forward_size=64), torch.randn(4, 3)
    jacobian = torch.autograd.functional.jacobian(layer, x)
    for i in range(4):
        for j in range(4):
            assert (jacobian[i, :, j].abs().sum() > 0) == (i == j)


def test_residual_orders():
    x, double = torch.randn(2, 6), lambda states: 2 * states
    post, pre = PostNorm(hidden_size=6), PreNorm(hidden_size=6)
    assert post(x, double).allclose(nn.functional.layer_norm(3 * x, (6,)))
    assert pre(x, double).allclose(x + 2 * nn.functional.layer_norm(x, (6,)))


def test_maxout_takes_the_larger_of_each_pair():
    layer = Maxout(input_size=3, output_size=4)
    x = torch.randn(5, 3)
    pieces = (x @ layer.proj.weight.T + layer.proj.bias).view(5, 4, 2)
    assert layer(x).allclose(torch.maximum(pieces[..., 0], pieces[..., 1]))


def test_image_attention_starts_as_the_identity_and_then_attends():
    layer, image = ImageSelfAttention(channels=16), torch.randn(2, 16, 3, 5)
    assert torch.equal(layer(image), image)
    nn.init.constant_(layer.gate, 0.5)
    q, k, v = (proj(image).flatten(2) for proj in (layer.query_proj, layer.key_proj, layer.value_proj))
    weights = torch.softmax(q.transpose(1, 2) @ k, dim=-1)
    # queries, keys and values have 16 / 8 channels, and a last 1x1 convolution gives 16 again
    assert q.shape == k.shape == v.shape == (2, 2, 15)
    context = (v @ weights.transpose(1, 2)).view(2, 2, 3, 5)
    output = torch.einsum("oc,bchw->bohw", layer.output_proj.weight[..., 0, 0], context)
    expected = image + 0.5 * (output + layer.output_proj.bias[:, None, None])
    assert layer(image).allclose(expected, atol=1e-5)


def test_image_attention_with_other_channels_keeps_the_image_shape():
    layer = ImageSelfAttention(channels=6, key_channels=3, value_channels=5)
    assert layer(torch.randn(1, 6, 2, 2)).shape == (1, 6, 2, 2)
    assert [layer.query_proj.out_channels, layer.value_proj.out_channels] == [3, 5]
    # fewer than 8 channels: one each
    assert ImageSelfAttention(channels=4).value_proj.out_channels == 1
    nn.init.ones_(layer.gate)
    layer(torch.randn(1, 6, 2, 2)).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in layer.parameters())


def test_the_task_model_composes_its_four_parts():
    general = Attention(General(query_size=4, key_size=6))
    model = TaskModel(
        feature_model=nn.Embedding(9, 6), query_model=nn.Linear(3, 4), attention=general, output_model=nn.Linear(6, 2)
    )
    words, queries = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.randn(2, 1, 3)
    real = torch.tensor([[True] * 3, [True, True, False]])
    output = model(words, queries, mask=real)
    assert output.shape == (2, 1, 2)
    assert output[1].allclose(model(words[1:, :2], queries[1:])[0], atol=1e-6)
    heads = MultiHeadAttention(4, 2, source_size=6)
    many = TaskModel(
        feature_model=nn.Embedding(9, 6), query_model=nn.Linear(3, 4), attention=heads, output_model=nn.Linear(4, 2)
    )
    assert many(words, queries, mask=real).shape == (2, 1, 2)


def echo(vocab):
    """A decoder whose state counts steps and whose next token is always its input plus one."""

    def step(tokens, state, encoded):
        logits = nn.functional.one_hot((tokens + 1) % vocab, vocab).float()
        return Step(logits=logits, state=state + 1)

    return step


def test_unroll_uses_targets_and_own_outputs_on_request():
    tokens = torch.tensor([[0, 5, 2], [3, 3, 3]])
    taught = unroll(echo(10), tokens, state=torch.zeros(2)).argmax(-1)
    assert taught.tolist() == [[1, 6, 3], [4, 4, 4]]
    own = unroll(echo(10), tokens, state=torch.zeros(2), own_output_ratio=1.0).argmax(-1)
    assert own.tolist() == [[1, 2, 3], [4, 5, 6]]


@dataclass(frozen=True)
class State:
    hidden: torch.Tensor
    layers: tuple
    note: Any = None
    table: Any = field(default=None, metadata={"batched": False})


def test_select_batch_reorders_a_pytree_and_leaves_other_values():
    table = torch.arange(7)
    state = State(torch.arange(3), ({"a": torch.arange(6).view(3, 2)}, [None, 4, "x"]), table=table)
    chosen = select_batch(state, torch.tensor([2, 2, 0, 1]))
    assert chosen.hidden.tolist() == [2, 2, 0, 1]
    assert chosen.layers[0]["a"].tolist() == [[4, 5], [4, 5], [0, 1], [2, 3]]
    assert chosen.layers[1] == [None, 4, "x"] and chosen.table is table
    doubled = map_tensors(lambda tensor: tensor * 2, (torch.ones(1), None))
    assert doubled[0].item() == 2


def test_masks_follow_from_lengths():
    sequences = PaddedTokens(ids=torch.zeros(2, 3, dtype=torch.long), lengths=torch.tensor([3, 1]))
    assert sequences.mask.tolist() == [[True, True, True], [True, False, False]]
    assert math.prod(sequences.mask.shape) == 6
