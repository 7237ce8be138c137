"""Tracing any module that contains our attention."""

import threading

import pytest
import torch
from torch import nn

from regard import Attention, MultiHeadAttention, attend, intervene, trace
from regard.attention.alignments import Sparsemax
from regard.attention.masks import causal
from regard.attention.positions import Alibi, Relative, Rotary
from regard.attention.scores import Additive, Gaussian
from regard.contracts import active_recorders


class Block(nn.Module):
    """Two kinds of attention, and a bare call of attend."""

    def __init__(self):
        super().__init__()
        self.heads = MultiHeadAttention(8, 2, num_kv_heads=1)
        self.single = Attention(Additive(query_size=8, key_size=8, hidden_size=4), Sparsemax())

    def forward(self, states):
        states = self.heads(states, mask=causal()).context
        states = self.single(states, self.single.prepare_memory(states)).context
        return attend(states, states, states, score=Gaussian()).context


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, states):
        for layer in self.layers:
            states = layer(states)
        return states


def test_collects_every_attention_by_module_path():
    model, states = Model(), torch.randn(3, 5, 8)
    with trace(model) as maps:
        model(states)
    assert list(maps) == [
        "layers.0.heads", "layers.0.single", "layers.0", "layers.1.heads", "layers.1.single", "layers.1",
    ]  # fmt: skip
    one = maps["layers.1.heads"][0]
    assert one.weights.shape == one.scores.shape == (3, 2, 5, 5)
    assert one.queries.shape == one.keys.shape == one.context.shape == (3, 2, 5, 4)
    assert not one.weights.requires_grad
    assert one.weights.triu(1).sum() == 0
    assert one.scores.allclose(one.queries @ one.keys.mT / 2, atol=1e-5)
    ahead = torch.ones(5, 5).triu(1) > 0
    assert one.weights.allclose(torch.softmax(one.scores.masked_fill(ahead, -1e9), -1), atol=1e-6)


@pytest.mark.parametrize("positions", [None, Relative(head_size=4), Rotary(head_size=4), Alibi(num_heads=2)])
def test_the_recorded_context_is_the_one_used(positions):
    heads, states = MultiHeadAttention(8, 2, positions=positions), torch.randn(3, 5, 8)
    with trace(heads) as maps:
        output = heads(states, mask=causal()).context
    context = maps[""][0].context
    assert heads.output_proj(context.transpose(1, 2).flatten(2)).allclose(output, atol=1e-6)


def test_a_trace_does_not_change_results():
    model, states = Model(), torch.randn(3, 5, 8)
    outside = model(states)
    with trace(model):
        inside = model(states)
    assert inside.allclose(outside, atol=1e-5)


def test_calls_are_recorded_in_order_and_none_after_the_block():
    attention = Attention()
    states = torch.randn(1, 4, 8)
    with trace(attention) as maps:
        for step in range(3):
            attention(states[:, : step + 1], attention.prepare_memory(states))
    attention(states, attention.prepare_memory(states))
    assert [one.weights.shape[-2] for one in maps[""]] == [1, 2, 3]
    assert not attention._forward_hooks and not attention._forward_pre_hooks
    assert active_recorders() == ()


def test_an_error_inside_leaves_no_hooks_and_restores_the_path():
    model = Model()
    with trace(model) as maps:
        with pytest.raises(ValueError, match="queries have size 3"):
            model(torch.randn(1, 2, 3))
        model(torch.randn(1, 2, 8))
    assert "layers.0.heads" in maps and "" not in maps
    assert all(not module._forward_hooks for module in model.modules())


def test_calls_of_another_thread_are_not_recorded():
    attention, states = Attention(), torch.randn(1, 2, 8)
    with trace(attention) as maps:
        other = threading.Thread(target=lambda: attend(states, states, states))
        other.start()
        other.join()
    assert len(maps) == 0


def test_a_trace_records_only_the_thread_that_opened_it():
    model, states = Model(), torch.randn(1, 3, 8)
    failures, done = [], threading.Event()

    def serve():
        while not done.is_set():
            try:
                model(states)
            except Exception as error:
                failures.append(error)

    servers = [threading.Thread(target=serve) for _ in range(2)]
    for server in servers:
        server.start()
    for _ in range(20):
        with trace(model) as maps:
            model(states)
        assert [len(maps[path]) for path in maps] == [1] * 6
        assert next(iter(maps)) == "layers.0.heads"
    done.set()
    for server in servers:
        server.join()
    assert not failures


def test_traces_may_be_nested():
    model, states = Model(), torch.randn(1, 3, 8)
    with trace(model) as outer, trace(model.layers[0]) as inner:
        model(states)
    assert "heads" in inner and "layers.0.heads" in outer
    assert torch.equal(inner["heads"][0].weights, outer["layers.0.heads"][0].weights)


def test_an_unknown_path_raises_an_error_with_the_known_ones():
    attention, states = Attention(), torch.randn(1, 2, 8)
    with trace(attention) as maps:
        attention(states, attention.prepare_memory(states))
    with pytest.raises(KeyError, match="no attention was traced at 'decoder'; there is ''"):
        maps["decoder"]


@pytest.mark.unchecked
def test_a_compiled_model_is_traced():
    model, states = Model(), torch.randn(2, 3, 8)
    compiled = torch.compile(model, backend="aot_eager")
    outside = compiled(states)
    with trace(compiled) as maps:
        inside = compiled(states)
    assert inside.allclose(outside, atol=1e-5)
    assert "layers.1.heads" in maps


def test_an_attention_can_be_recomputed_from_its_record():
    model, states = Model(), torch.randn(3, 5, 8)
    with trace(model) as maps:
        model(states)
    for attention_maps in maps.values():
        (attention_map,) = attention_maps
        assert torch.equal(
            attention_map.score(attention_map.queries, attention_map.keys).detach(), attention_map.scores
        )
        assert torch.equal(
            attention_map.align(
                attention_map.scores, attention_map.allowed, attention_map.position_info
            ).weights.detach(),
            attention_map.weights,
        )
        assert torch.equal(attention_map.weights @ attention_map.values, attention_map.context)


def test_an_intervention_replaces_the_weights_of_one_attention_only():
    model, states = Model(), torch.randn(3, 5, 8)
    path_of_intervention = "layers.1.single"

    def evenly(path, attention_map):
        return (
            torch.full_like(attention_map.weights, 1 / attention_map.weights.shape[-1])
            if path == path_of_intervention
            else None
        )

    with trace(model) as before:
        model(states)
    with intervene(model, evenly), trace(model) as within:
        model(states)
    with trace(model) as around, intervene(model, evenly):
        changed = model(states)
    assert torch.equal(before["layers.0"][0].weights, around["layers.0"][0].weights)
    attention_map = around[path_of_intervention][0]
    assert (attention_map.weights == 0.2).all() and attention_map.context.allclose(
        attention_map.values.mean(-2, keepdim=True).expand(3, 5, 8)
    )
    # a trace inside records the model's own weights
    assert torch.equal(within[path_of_intervention][0].weights, before[path_of_intervention][0].weights)
    assert not changed.allclose(model(states))
    assert not active_recorders()


def test_a_head_with_zero_weights_equals_its_removal():
    heads, states = MultiHeadAttention(8, 2), torch.randn(3, 5, 8)

    def ablate(path, attention_map):
        keep = torch.tensor([1.0, 0.0])[:, None, None]
        return attention_map.weights * keep

    with intervene(heads, ablate):
        actual = heads(states).context
    alone = attend(*(part.unflatten(-1, (2, 4)).transpose(1, 2)[:, :1] for part in (
        heads.query_proj(states), heads.key_proj(states), heads.value_proj(states)
    ))).context  # fmt: skip
    expected = heads.output_proj(torch.cat([alone[:, 0], torch.zeros(3, 5, 4)], -1))
    assert actual.allclose(expected, atol=1e-6)


def test_records_hold_no_autograd_graph():
    model, states = Model(), torch.randn(3, 5, 8, requires_grad=True)
    with trace(model) as maps:
        model(states)
    for (attention_map,) in maps.values():
        tensors = [
            value
            for part in (attention_map, attention_map.position_info)
            for value in vars(part).values()
            if torch.is_tensor(value)
        ]
        assert len(tensors) >= 7 and not any(tensor.requires_grad for tensor in tensors)


def test_requested_weights_are_the_replaced_ones():
    heads, states = MultiHeadAttention(8, 2), torch.randn(3, 5, 8)
    with intervene(heads, lambda path, attention_map: torch.zeros_like(attention_map.weights)):
        actual = heads(states, weights_for_queries=[1])
    assert actual.weights.shape == (3, 2, 1, 5) and not actual.weights.any()


def test_two_threads_may_trace_concurrently_and_exit_in_any_order():
    models, entered, left = (Model(), Model()), threading.Event(), threading.Event()

    def other():
        with trace(models[1]):
            entered.set()
            left.wait(10)

    with trace(models[0]):
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait(10)
    left.set()
    thread.join()
    assert torch._dynamo.eval_frame._stance.stance == "default"


def test_traces_inside_and_outside_an_intervention_differ():
    model, states = Model(), torch.randn(2, 4, 8)
    with trace(model) as outer, intervene(model, lambda path, attention: None), trace(model) as inner:
        model(states)
    assert outer != inner
    assert list(outer) == list(inner)
    assert len(outer["layers.0.heads"]) == len(inner["layers.0.heads"]) == 1
