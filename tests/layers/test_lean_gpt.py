"""The fast paths of generation against the readable one: lean steps, and a board for a CUDA graph."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard import trace
from regard.kernels.linear import ReadyLinear
from regard.layers.lean_gpt_graph import MOST_BOARDS
from regard.layers.ready import READY
from regard.models.language.gpt import GPT, GPTConfig

SIZES = {"vocab_size": 29, "hidden_size": 16, "num_layers": 2, "num_heads": 4, "feed_forward_size": 24, "context": 9}


def tiny(**changes):
    model = GPT(GPTConfig(**(SIZES | changes))).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def stepped(model, tokens, state):
    found = []
    for token in tokens.unbind(1):
        step = model.step(token, state)
        state = step.state
        found.append(step.logits)
    return torch.stack(found, 1)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_lean_steps_equal_readable_ones(positions, dtype, atol):
    model, tokens = tiny(positions=positions).to(dtype), torch.randint(0, 29, (3, 25))
    readable = stepped(model, tokens, model.start(3))
    with torch.inference_mode():
        state = model.start(3)
        assert model._lean_for(state) is not None
        assert stepped(model, tokens, state).allclose(readable, rtol=0, atol=atol)
        state = model.read(tokens[:, :4], model.start(3)).state
        assert stepped(model, tokens[:, 4:], state).allclose(readable[:, 4:], rtol=0, atol=atol)


def test_lean_only_where_nobody_learns_or_listens():
    model = tiny()
    assert model._lean_for(model.start(1)) is None
    with torch.no_grad():
        assert model._lean_for(model.start(1)) is model._lean_for(model.start(1)) is not None
        with trace(model) as maps:
            stepped(model, torch.randint(0, 29, (1, 3)), model.start(1))
        assert len(maps["layers.0.attention"]) == 3
        with torch.autocast("cpu", torch.bfloat16):
            assert model._lean_for(model.start(1)) is None
        hook = model.layers[1].feed_forward.register_forward_hook(lambda *_: None)
        assert model._lean_for(model.start(1)) is None
        hook.remove()
        model.layers[0].train()
        assert model._lean_for(model.start(1)) is None
        model.eval()
        model.layers[1].feed_forward.activation = nn.GELU()
        assert model._lean_for(model.start(1)) is None
        turned = tiny(positions="rotary")
        assert turned._lean_for(turned.start(1)) is None


def test_a_reading_makes_nothing_ready_for_steps():
    model, tokens = tiny(), torch.randint(0, 29, (1, 3))
    with torch.inference_mode():
        state = model.read(tokens, model.start(1)).state
        assert state.lean is None and model not in READY
        assert model.step(tokens[:, 0], state).state.lean is READY[model][1]


def test_a_trace_may_begin_in_the_middle():
    model, tokens = tiny().double(), torch.randint(0, 29, (2, 6))
    with torch.inference_mode():
        whole = stepped(model, tokens, model.start(2))
        state = model.read(tokens[:, :2], model.start(2)).state
        state = model.step(tokens[:, 2], state).state
        with trace(model):
            step = model.step(tokens[:, 3], state)
        assert step.logits.allclose(whole[:, 3], rtol=0, atol=1e-12)
        assert stepped(model, tokens[:, 4:], step.state).allclose(whole[:, 4:], rtol=0, atol=1e-12)


def test_changed_weights_are_seen():
    model, tokens = tiny(), torch.randint(0, 29, (1, 4))
    with torch.no_grad():
        before = stepped(model, tokens, model.start(1))
        model.layers[0].feed_forward.hidden.weight.mul_(2.0)
        after = stepped(model, tokens, model.start(1))
    assert not after.allclose(before, atol=1e-3)
    assert after.allclose(model(tokens), atol=1e-5)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_a_board_equals_steps(positions):
    model, tokens = tiny(positions=positions).double(), torch.randint(0, 29, (3, 30))
    whole = model(tokens).detach()
    with torch.inference_mode():
        for first in (1, 5, 9, 13):
            state = model.read(tokens[:, :first], model.start(3)).state
            stepper = model._on_board(state, model._lean_for(state), 30 - first)
            for place in range(first, 30):
                found = stepper(tokens[:, place])
                assert found.allclose(whole[:, place], rtol=0, atol=1e-12)
            stepper.close()
        assert len(model._lean_for(state).boards) == 1


def test_boards_are_nobodys_but_their_steppers():
    model, tokens = tiny(context=100), torch.randint(0, 29, (1, 6))
    with torch.inference_mode():
        state = model.read(tokens[:, :2], model.start(1)).state
        one, other, third, large = (model._on_board(state, model._lean_for(state), most) for most in (4, 4, 4, 90))
        assert one.board is not other.board
        assert (one.board.room, large.board.room) == (64, 128)
        expected = model.step(tokens[:, 2], state).logits
        other(tokens[:, 3])
        assert one(tokens[:, 2]).allclose(expected, atol=1e-5)
        for stepper in (one, other, third, large):
            stepper.close()
        assert len(model._lean_for(state).boards) == MOST_BOARDS
        again = model._on_board(state, model._lean_for(state), 4)
        assert again.board in (one.board, other.board, third.board)
        assert again(tokens[:, 2]).allclose(expected, atol=1e-5)
    assert model.stepper(state, most=4) is None


@pytest.mark.cuda
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-10), (torch.float32, 1e-3), (torch.bfloat16, 0.3)])
def test_a_graph_equals_steps(dtype, atol):
    model, tokens = tiny(context=70).to("cuda", dtype), torch.randint(0, 29, (3, 100), device="cuda")
    with torch.inference_mode():
        whole = model(tokens)
        for _ in range(2):
            state = model.read(tokens[:, :5], model.start(3)).state
            stepper = model.stepper(state, most=95)
            for place in range(5, 100):
                assert stepper(tokens[:, place]).allclose(whole[:, place], rtol=0, atol=atol)
            stepper.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gelu_in_one_pass(dtype):
    layer, inputs = nn.Linear(16, 24).to(dtype), 3 * torch.randn(5, 16, dtype=dtype)
    with torch.no_grad():
        expected = F.gelu(layer(inputs), approximate="tanh")
        assert ReadyLinear.of(layer).gelu(inputs).allclose(expected, atol=1e-6)
