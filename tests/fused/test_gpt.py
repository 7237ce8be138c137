"""Fused generation against the readable one: steps, and the buffers and graph of a GPU."""

import gc
import weakref

import pytest
import torch
from torch import nn

from regard import trace
from regard.contracts import LanguageModel, StepFunction, select_batch
from regard.decoding import Generation, generate
from regard.fused import fuse
from regard.fused.decode_graph import MAX_IDLE, GraphSteps, _idle
from regard.fused.gpt import FusedState
from tests.fused.systems import make_gpt


def text(*shape):
    return torch.randint(0, 12, shape)


def take_steps(model, tokens, state):
    logits = []
    for token in tokens.unbind(1):
        step = model.step(token, state)
        state = step.state
        logits.append(step.logits)
    return torch.stack(logits, 1)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-4), (torch.float64, 1e-12)])
def test_fused_steps_equal_readable_ones(positions, dtype, atol):
    model, tokens = make_gpt(positions=positions).to(dtype), text(3, 25)
    readable, fused = take_steps(model, tokens, model.start(3)), fuse(model)
    with torch.inference_mode():
        state = fused.start(3)
        assert isinstance(state, FusedState)
        assert take_steps(fused, tokens, state).allclose(readable, rtol=0, atol=atol)
        state = fused.features(tokens[:, :4], fused.start(3)).state
        assert isinstance(state, FusedState)
        assert take_steps(fused, tokens[:, 4:], state).allclose(readable[:, 4:], rtol=0, atol=atol)


def test_fused_steps_call_no_layer(monkeypatch):
    fused, calls = fuse(make_gpt()), []
    with torch.inference_mode():
        state = fused.start(1)
        monkeypatch.setattr(nn.Linear, "forward", lambda *_: calls.append("linear"))
        fused.step(torch.tensor([5]), state)
    assert not calls


def test_a_fused_gpt_is_a_language_model_with_the_readout_of_its_model():
    model, tokens = make_gpt(), text(2, 5)
    fused = fuse(model)
    assert isinstance(fused, LanguageModel) and vars(fused) == {"model": model}
    assert fused.readout is model.readout
    assert torch.equal(fused.forward(tokens), model(tokens))


def test_edits_and_modes_run_the_models_own_code():
    model = make_gpt()
    fused = fuse(model)
    assert not isinstance(fused.start(1), FusedState)
    with torch.no_grad():
        assert isinstance(fused.start(1), FusedState)
        with trace(model) as maps:
            take_steps(fused, text(1, 3), fused.start(1))
        assert len(maps["layers.0.attention"]) == 3
        with torch.autocast("cpu", torch.bfloat16):
            assert not isinstance(fused.start(1), FusedState)
        hook = model.layers[1].feed_forward.register_forward_hook(lambda *_: None)
        assert not isinstance(fused.start(1), FusedState)
        hook.remove()
        model.layers[0].train()
        assert not isinstance(fused.start(1), FusedState)
        model.eval()
        assert isinstance(fused.start(1), FusedState)
        model.layers[1].feed_forward.activation = nn.GELU()
        assert not isinstance(fused.start(1), FusedState)


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_positions_inside_the_heads_run_the_models_own_code(positions):
    model, tokens = make_gpt(positions=positions), text(2, 12)
    with torch.inference_mode():
        fused = fuse(model)
        state = fused.start(2)
        assert not isinstance(state, FusedState)
        assert take_steps(fused, tokens, state).allclose(model(tokens), rtol=0, atol=1e-12)


def test_readable_and_fused_steps_may_alternate():
    model, tokens = make_gpt(), text(2, 6)
    fused = fuse(model)
    with torch.inference_mode():
        whole = take_steps(fused, tokens, fused.start(2))
        state = fused.step(tokens[:, 2], fused.features(tokens[:, :2], fused.start(2)).state).state
        with trace(model) as maps:
            recorded = fused.step(tokens[:, 3], state)
        assert maps and recorded.logits.allclose(whole[:, 3], rtol=0, atol=1e-12)
        readable = model.step(tokens[:, 4], recorded.state)
        assert fused.step(tokens[:, 5], readable.state).logits.allclose(whole[:, 5], rtol=0, atol=1e-12)
        # a state of the model itself is compared by its first step
        step = fused.step(tokens[:, 2], model.features(tokens[:, :2], model.start(2)).state)
        assert isinstance(step.state, FusedState)
        rows = torch.tensor([1, 1, 0])
        step = fused.step(tokens[rows, 3], select_batch(step.state, rows))
        assert step.logits.allclose(whole[rows, 3], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["query_proj", "key_proj", "value_proj"])
def test_nan_weights_give_nan_logits(name):
    model = make_gpt()
    with torch.inference_mode():
        getattr(model.layers[0].attention, name).weight.fill_(float("nan"))
        fused = fuse(model)
        assert fused.step(torch.tensor([5]), fused.start(1)).logits.isnan().all()
    with pytest.raises(ValueError, match="the model gives NaN for prompt 0"):
        generate(fused, [[4, 5]], Generation(max_tokens=3))


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_buffers_equal_steps(positions):
    model, tokens = make_gpt(positions=positions), text(3, 30)
    whole = model(tokens).detach()
    with torch.inference_mode():
        for first in (1, 5, 9, 13):
            steps = GraphSteps(model, model.features(tokens[:, :first], model.start(3)).state, 30 - first)
            assert isinstance(steps, StepFunction)
            for position in range(first, 30):
                assert steps(tokens[:, position]).allclose(whole[:, position], rtol=0, atol=1e-12)
            steps.close()
        assert len(_idle[model]) == 1


def test_buffers_are_not_shared_by_texts():
    model, tokens = make_gpt(context=100), text(1, 6)
    with torch.inference_mode():
        state = model.features(tokens[:, :2], model.start(1)).state
        one, other, third, large = (GraphSteps(model, state, limit) for limit in (4, 4, 4, 90))
        assert one.graph is not other.graph
        assert (one.graph.capacity, large.graph.capacity) == (64, 128)
        expected = model.step(tokens[:, 2], state).logits
        other(tokens[:, 3])
        assert one(tokens[:, 2]).allclose(expected, atol=1e-12)
        for steps in (one, other, third, large):
            steps.close()
        assert len(_idle[model]) == MAX_IDLE
        again = GraphSteps(model, state, 4)
        assert again.graph in (one.graph, other.graph, third.graph)
        assert again(tokens[:, 2]).allclose(expected, atol=1e-12)
        assert fuse(model).step_function(state, 4) is None


def test_a_trace_may_be_opened_during_decoding():
    model, tokens = make_gpt(), text(2, 14)
    whole = model(tokens).detach()
    with torch.inference_mode():
        steps = GraphSteps(model, model.features(tokens[:, :3], model.start(2)).state, 11)
        steps(tokens[:, 3])
        with trace(model) as maps:
            assert steps(tokens[:, 4]).allclose(whole[:, 4], rtol=0, atol=1e-12)
        assert len(maps["layers.0.attention"]) == 1
        for position in range(5, 14):
            assert steps(tokens[:, position]).allclose(whole[:, position], rtol=0, atol=1e-12)


def test_buffers_hold_no_reference_to_the_model():
    model = make_gpt()
    with torch.inference_mode():
        steps = GraphSteps(model, model.start(1), 4)
        steps(torch.tensor([5]))
        steps.close()
        fuse(model).start(1)
    dead = weakref.ref(model)
    del model, steps
    gc.collect()
    assert dead() is None


@pytest.mark.cuda
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-10), (torch.float32, 1e-3), (torch.bfloat16, 0.5)])
def test_a_graph_equals_steps(dtype, atol, positions):
    model, tokens = make_gpt(context=70, positions=positions).to("cuda", dtype), text(3, 100).cuda()
    fused = fuse(model)
    with torch.inference_mode():
        whole = model(tokens)
        for _ in range(2):
            steps = fused.step_function(fused.features(tokens[:, :5], fused.start(3)).state, 95)
            for position in range(5, 100):
                assert steps(tokens[:, position]).allclose(whole[:, position], rtol=0, atol=atol)
            assert steps.graph.graph is not None
            steps.close()


def in_place(weight):
    weight.data[:2] = 0.25


def of_another_address(weight):
    weight.data = 0.5 * torch.randn_like(weight)


def transposed(weight):
    weight.data = weight.data.t()


@pytest.mark.cuda
@pytest.mark.parametrize("edit", [in_place, of_another_address, transposed])
def test_a_graph_follows_edits_between_two_tokens(edit):
    model, tokens = make_gpt().cuda(), text(2, 9).cuda()
    with torch.inference_mode():
        fused = fuse(model)
        steps = fused.step_function(fused.start(2), 9)
        state = model.start(2)
        for position, token in enumerate(tokens.unbind(1)):
            if position in (0, 3):
                edit(model.layers[0].attention.value_proj.weight)
            step = model.step(token, state)
            state = step.state
            assert steps(token).allclose(step.logits, atol=1e-10)
        steps.close()


@pytest.mark.cuda
def test_a_replaced_parameter_drops_the_graph():
    model, tokens = make_gpt().cuda(), text(2, 9).cuda()
    with torch.inference_mode():
        fused = fuse(model)
        first = fused.step_function(fused.start(2), 9)
        first(tokens[:, 0])
        first.close()
        again = fused.step_function(fused.start(2), 9)
        assert again.graph is first.graph
        again.close()
        proj = model.layers[0].attention.value_proj
        proj.weight = nn.Parameter(torch.randn_like(proj.weight), requires_grad=False)
        other = fused.step_function(fused.start(2), 9)
        assert other.graph is not first.graph
        assert other(tokens[:, 0]).allclose(model.step(tokens[:, 0], model.start(2)).logits, atol=1e-10)
