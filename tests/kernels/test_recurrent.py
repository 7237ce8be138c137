"""What a loop leaves until its end equals the same loop taken step by step: outputs, and every gradient."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from regard.kernels import masked_softmax
from regard.kernels.product import linear
from regard.kernels.recurrent import (
    TAPE_ORDER,
    TORCH_ORDER,
    AdditiveLook,
    DotLook,
    RepeatedLinear,
    WrittenTape,
    gru_blend,
    gru_reset,
    gru_update,
    lstm_update,
)

STEPS, ROWS, KEYS, SIZE, HIDDEN = 4, 3, 5, 2, 6


def drawn(*shape, dtype=torch.float64, grad=True):
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def repeat(state, weight, bias, given, used=range(STEPS)):
    layer = RepeatedLinear(weight, bias, sizes=[ROWS] * STEPS)
    states = []
    for step in range(STEPS):
        state = torch.tanh(layer(state, given[step]))
        states.append(state)
    return torch.stack([states[step] for step in used])


def repeat_plainly(state, weight, bias, given, used=range(STEPS)):
    states = []
    for step in range(STEPS):
        state = torch.tanh(F.linear(state, weight, bias) + given[step])
        states.append(state)
    return torch.stack([states[step] for step in used])


def layer_inputs(dtype=torch.float64):
    return [drawn(*shape, dtype=dtype) for shape in ((ROWS, SIZE), (SIZE, SIZE), (SIZE,), (STEPS, ROWS, SIZE))]


def assert_same(found, expected, inputs, tolerance):
    assert found.allclose(expected, atol=tolerance, rtol=tolerance)
    weight = torch.randn_like(expected)
    pairs = [torch.autograd.grad((out * weight).sum(), inputs, allow_unused=True) for out in (found, expected)]
    for ours, theirs in zip(*pairs, strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or ours.allclose(theirs, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=str)
@pytest.mark.parametrize("used", [range(STEPS), [0, 1], [2]], ids=str)
def test_a_repeated_layer_is_the_layer(dtype, tolerance, used):
    inputs = layer_inputs(dtype)
    assert_same(repeat(*inputs, used=used), repeat_plainly(*inputs, used=used), inputs, tolerance)


def test_a_repeated_layer_by_finite_differences():
    assert gradcheck(repeat, layer_inputs())


def test_later_steps_may_have_fewer_rows():
    sizes, inputs = [3, 3, 2, 1], [drawn(ROWS, HIDDEN), drawn(HIDDEN, HIDDEN), drawn(ROWS, KEYS, HIDDEN)]
    energy, values = drawn(HIDDEN), drawn(ROWS, KEYS, HIDDEN)

    def shrinking(kind, state, weight, keys, energy, values):
        layer = RepeatedLinear(weight, sizes=sizes)
        mask = mask_of(5, 2, 1)
        if kind == "dot":
            look = DotLook(keys, values, mask, sizes=sizes)
        else:
            look = AdditiveLook(keys, energy, values, mask, sizes=sizes)
        found = []
        for size in sizes:
            state = torch.sin(look(layer(state[:size]))[0])
            found.append(state)
        return torch.cat(found)

    assert gradcheck(lambda *parts: shrinking("additive", *parts), (*inputs, energy, values))
    assert gradcheck(lambda *parts: shrinking("dot", *parts[:3], None, parts[3]), (*inputs, values))


def test_what_needs_no_gradient_gets_none():
    inputs = layer_inputs()
    for index in range(4):
        frozen = [part.detach() if place == index else part for place, part in enumerate(inputs)]
        learned = [part for part in frozen if part.requires_grad]
        assert_same(repeat(*frozen), repeat_plainly(*frozen), learned, 1e-12)
    with torch.no_grad():
        assert not repeat(*inputs).requires_grad
    assert not repeat(*[part.detach() for part in inputs]).requires_grad


def test_gradients_add_up_and_can_be_asked_for_again():
    inputs = layer_inputs()
    found, expected = repeat(*inputs), repeat_plainly(*inputs)
    # first a part of the graph alone, which must leave nothing behind
    torch.autograd.grad(found[0].sum(), inputs[0], retain_graph=True)
    for _ in range(2):
        found.sum().backward(retain_graph=True)
    ours = [part.grad.clone() for part in inputs]
    for part in inputs:
        part.grad = None
    for _ in range(2):
        expected.sum().backward(retain_graph=True)
    assert all(mine.allclose(part.grad) for mine, part in zip(ours, inputs, strict=True))


def test_a_second_derivative_is_refused():
    inputs = layer_inputs()
    # after a sum the gradient that comes in is a constant, which torch's own guard lets pass
    with pytest.raises(RuntimeError, match=r"regard\.trace\(model\)"):
        torch.autograd.grad(repeat(*inputs).sum(), inputs[1], create_graph=True)


def test_a_linear_layer_can_be_differentiated_twice():
    inputs = [drawn(*shape, dtype=torch.float32) for shape in ((3, 4), (5, 4), (5,))]
    found = []
    for layer in (linear, F.linear):
        (first,) = torch.autograd.grad(layer(*inputs).square().sum(), inputs[0], create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), inputs))
    assert all(one.allclose(other, atol=1e-3, rtol=1e-4) for one, other in zip(*found, strict=True))


def test_under_autocast_in_its_precision():
    inputs = layer_inputs(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = repeat(*inputs), repeat_plainly(*inputs)
    pairs = [torch.autograd.grad(out.float().sum(), inputs) for out in (found, expected)]
    assert found.float().allclose(expected.float(), atol=0.05)
    for ours, theirs in zip(*pairs, strict=True):
        assert ours.dtype == torch.float32 and ours.allclose(theirs, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_linear_is_torchs(dtype):
    inputs = [drawn(*shape, dtype=dtype) for shape in ((2, 3, 4), (5, 4), (5,))]
    assert_same(linear(*inputs), F.linear(*inputs), inputs, 1e-5)
    turned = [inputs[0].transpose(0, 1), inputs[1]]
    assert_same(linear(*turned), F.linear(*turned), inputs[:2], 1e-5)


def test_elementwise_steps_by_finite_differences():
    gates, state = drawn(ROWS, 2 * SIZE), drawn(ROWS, SIZE)
    assert gradcheck(gru_reset, (gates, state))
    assert gradcheck(gru_blend, (drawn(ROWS, SIZE), torch.rand(ROWS, SIZE).double().requires_grad_(), state))
    assert gradcheck(gru_update, (drawn(ROWS, 3 * SIZE), drawn(ROWS, 3 * SIZE), state))
    for order in (TORCH_ORDER, TAPE_ORDER):
        for more in (None, drawn(ROWS, SIZE)):
            assert gradcheck(
                lambda *parts, order=order: lstm_update(*parts, order=order), (drawn(ROWS, 4 * SIZE), state, more)
            )


def mask_of(*lengths):
    return torch.arange(KEYS) < torch.tensor(lengths)[:, None]


def reads(look, state, steps=STEPS):
    """Each query is made of what the last read gave; contexts and weights of all."""
    found = []
    for _ in range(steps):
        context, weights = look(state)
        state = torch.sin(F.pad(context, (0, state.shape[1] - context.shape[1])) + state)
        found.append(torch.cat([context, weights], dim=-1))
    return torch.stack(found)


def look_plainly(score, values, mask):
    def look(query):
        scores = score(query)[:, None]
        weights = masked_softmax(scores, None if mask is None else mask[:, None])[:, 0]
        return (weights[:, None] @ values)[:, 0], weights

    return look


@pytest.mark.parametrize("mask", [None, mask_of(5, 2, 1), mask_of(3, 0, 5)], ids=["all", "some", "a row with none"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-12)], ids=str)
@pytest.mark.parametrize("kind", ["dot", "additive"])
def test_a_look_is_the_attention(kind, dtype, tolerance, mask):
    query, keys, values = (
        drawn(*shape, dtype=dtype) for shape in ((ROWS, HIDDEN), (ROWS, KEYS, HIDDEN), (ROWS, KEYS, SIZE))
    )
    energy = drawn(HIDDEN, dtype=dtype)
    if kind == "dot":
        look = DotLook(keys, values, mask, sizes=[ROWS] * (STEPS + 1))
        plain = look_plainly(lambda query: (keys @ query[..., None])[..., 0], values, mask)
        inputs = [query, keys, values]
    else:
        look = AdditiveLook(keys, energy, values, mask, sizes=[ROWS] * (STEPS + 1))
        plain = look_plainly(lambda query: torch.tanh(query[:, None] + keys) @ energy, values, mask)
        inputs = [query, keys, energy, values]
    # one step fewer than there is room for, and the last of them unused
    assert_same(reads(look, query)[:-1], reads(plain, query)[:-1], inputs, tolerance)


def test_a_look_can_be_gone_back_through_twice():
    query, keys, values = drawn(ROWS, HIDDEN), drawn(ROWS, KEYS, HIDDEN), drawn(ROWS, KEYS, SIZE)
    energy = drawn(HIDDEN)
    found = reads(AdditiveLook(keys, energy, values, None, sizes=[ROWS] * STEPS), query).sum()
    inputs = [query, keys, energy, values]
    once, again = (torch.autograd.grad(found, inputs, retain_graph=True) for _ in range(2))
    assert all(torch.equal(left, right) for left, right in zip(once, again, strict=True))


def write_and_read(state, energy, mixed, *, plain):
    """Cells made of reads, reads of cells."""
    tape = WrittenTape(energy, num_rows=ROWS, num_cells=STEPS, size=SIZE)
    keys, cells, found = [], [], []
    for _ in range(STEPS):
        if plain and cells:
            scores = torch.tanh(torch.stack(keys, 1) + state[:, None]) @ energy
            read = (torch.softmax(scores, -1)[:, None] @ torch.stack(cells, 1))[:, 0]
        else:
            read = state.new_zeros(ROWS, SIZE) if plain else tape.read(state)
        state = torch.sin(state + read @ mixed)
        cells.append(torch.cos(state[:, :SIZE] + read))
        keys.append(state * 2)
        if not plain:
            tape.write(keys[-1], cells[-1])
        found.append(read)
    return torch.stack(found)


def test_a_written_tape_is_the_tape_joined_at_every_step():
    inputs = [drawn(ROWS, HIDDEN), drawn(HIDDEN), drawn(SIZE, HIDDEN)]
    assert_same(write_and_read(*inputs, plain=False), write_and_read(*inputs, plain=True), inputs, 1e-12)
    assert gradcheck(lambda *parts: write_and_read(*parts, plain=False), inputs)
