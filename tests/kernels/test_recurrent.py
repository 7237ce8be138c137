"""Parts of fused loops equal the same computation in plain torch: outputs, and every gradient."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from regard.kernels import masked_softmax
from regard.kernels.recurrent import (
    LSTMN_ORDER,
    TORCH_ORDER,
    DeferredLinear,
    MemoryBuffer,
    StepwiseAdditiveAttention,
    StepwiseDotAttention,
    WindowedMemoryBuffer,
    gru_blend,
    gru_reset,
    lstm_update,
)

STEPS, ROWS, KEYS, SIZE, HIDDEN = 4, 3, 5, 2, 6


def draw(*shape, dtype=torch.float64, grad=True):
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def run_deferred(state, weight, bias, offsets, used=range(STEPS)):
    layer = DeferredLinear(weight, bias, num_steps=STEPS, batch_size=ROWS)
    states = []
    for step in range(STEPS):
        state = torch.tanh(layer(state, offsets[step]))
        states.append(state)
    return torch.stack([states[step] for step in used])


def run_plain(state, weight, bias, offsets, used=range(STEPS)):
    states = []
    for step in range(STEPS):
        state = torch.tanh(F.linear(state, weight, bias) + offsets[step])
        states.append(state)
    return torch.stack([states[step] for step in used])


def layer_inputs(dtype=torch.float64):
    return [draw(*shape, dtype=dtype) for shape in ((ROWS, SIZE), (SIZE, SIZE), (SIZE,), (STEPS, ROWS, SIZE))]


def assert_same(actual, expected, inputs, tolerance):
    assert actual.allclose(expected, atol=tolerance, rtol=tolerance)
    weight = torch.randn_like(expected)
    pairs = [torch.autograd.grad((out * weight).sum(), inputs, allow_unused=True) for out in (actual, expected)]
    for actual_grad, expected_grad in zip(*pairs, strict=True):
        assert (actual_grad is None) == (expected_grad is None)
        assert actual_grad is None or actual_grad.allclose(expected_grad, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=str)
@pytest.mark.parametrize("used", [range(STEPS), [0, 1], [2]], ids=str)
def test_a_deferred_layer_equals_the_layer(dtype, tolerance, used):
    inputs = layer_inputs(dtype)
    assert_same(run_deferred(*inputs, used=used), run_plain(*inputs, used=used), inputs, tolerance)


def test_a_deferred_layer_by_finite_differences():
    assert gradcheck(run_deferred, layer_inputs())


def test_tensors_without_requires_grad_get_no_gradient():
    inputs = layer_inputs()
    for index in range(4):
        frozen = [part.detach() if place == index else part for place, part in enumerate(inputs)]
        learned = [part for part in frozen if part.requires_grad]
        assert_same(run_deferred(*frozen), run_plain(*frozen), learned, 1e-12)
    with torch.no_grad():
        assert not run_deferred(*inputs).requires_grad
    assert not run_deferred(*[part.detach() for part in inputs]).requires_grad


def test_gradients_add_up_over_several_backward_passes():
    inputs = layer_inputs()
    actual, expected = run_deferred(*inputs), run_plain(*inputs)
    # first a part of the graph alone, which must not change later gradients
    torch.autograd.grad(actual[0].sum(), inputs[0], retain_graph=True)
    for _ in range(2):
        actual.sum().backward(retain_graph=True)
    actual_grad = [part.grad.clone() for part in inputs]
    for part in inputs:
        part.grad = None
    for _ in range(2):
        expected.sum().backward(retain_graph=True)
    assert all(mine.allclose(part.grad) for mine, part in zip(actual_grad, inputs, strict=True))


def test_a_second_derivative_is_refused():
    inputs = layer_inputs()
    # after a sum the incoming gradient is a constant, which torch's own check accepts
    with pytest.raises(RuntimeError, match=r"leave out regard\.fused\.fuse"):
        torch.autograd.grad(run_deferred(*inputs).sum(), inputs[1], create_graph=True)


def test_autocast_precision_is_used():
    inputs = layer_inputs(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        actual, expected = run_deferred(*inputs), run_plain(*inputs)
    pairs = [torch.autograd.grad(out.float().sum(), inputs) for out in (actual, expected)]
    assert actual.float().allclose(expected.float(), atol=0.05)
    for actual_grad, expected_grad in zip(*pairs, strict=True):
        assert actual_grad.dtype == torch.float32 and actual_grad.allclose(expected_grad, atol=0.1)


def test_elementwise_steps_by_finite_differences():
    gates, state = draw(ROWS, 2 * SIZE), draw(ROWS, SIZE)
    assert gradcheck(gru_reset, (gates, state))
    assert gradcheck(gru_blend, (draw(ROWS, SIZE), torch.rand(ROWS, SIZE).double().requires_grad_(), state))
    for order in (TORCH_ORDER, LSTMN_ORDER):
        for more in (None, draw(ROWS, SIZE)):
            assert gradcheck(
                lambda *parts, order=order: lstm_update(*parts, order=order), (draw(ROWS, 4 * SIZE), state, more)
            )


def mask_of(*lengths):
    return torch.arange(KEYS) < torch.tensor(lengths)[:, None]


def attend_in_steps(attention, state, steps=STEPS):
    """Contexts and weights of all steps; each query depends on the last context."""
    outputs = []
    for _ in range(steps):
        context, weights = attention(state)
        state = torch.sin(F.pad(context, (0, state.shape[1] - context.shape[1])) + state)
        outputs.append(torch.cat([context, weights], dim=-1))
    return torch.stack(outputs)


def plain_attention(score, values, mask):
    def attention(query):
        scores = score(query)[:, None]
        weights = masked_softmax(scores, None if mask is None else mask[:, None])[:, 0]
        return (weights[:, None] @ values)[:, 0], weights

    return attention


@pytest.mark.parametrize("mask", [None, mask_of(5, 2, 1), mask_of(3, 0, 5)], ids=["all", "some", "one without keys"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-12)], ids=str)
@pytest.mark.parametrize("kind", ["dot", "additive"])
def test_stepwise_attention_equals_attention(kind, dtype, tolerance, mask):
    query, keys, values = (
        draw(*shape, dtype=dtype) for shape in ((ROWS, HIDDEN), (ROWS, KEYS, HIDDEN), (ROWS, KEYS, SIZE))
    )
    energy = draw(HIDDEN, dtype=dtype)
    if kind == "dot":
        attention = StepwiseDotAttention(keys, values, mask, num_steps=STEPS + 1)
        plain = plain_attention(lambda query: (keys @ query[..., None])[..., 0], values, mask)
        inputs = [query, keys, values]
    else:
        attention = StepwiseAdditiveAttention(keys, energy, values, mask, num_steps=STEPS + 1)
        plain = plain_attention(lambda query: torch.tanh(query[:, None] + keys) @ energy, values, mask)
        inputs = [query, keys, energy, values]
    # one step fewer than there are slots, and the output of the last one unused
    actual, expected = attend_in_steps(attention, query)[:-1], attend_in_steps(plain, query)[:-1]
    assert_same(actual, expected, inputs, tolerance)


@pytest.mark.parametrize("kind", ["dot", "additive"])
def test_stepwise_attention_by_finite_differences(kind):
    mask = mask_of(5, 2, 1)

    def run(query, keys, energy, values):
        if kind == "dot":
            attention = StepwiseDotAttention(keys, values, mask, num_steps=STEPS)
        else:
            attention = StepwiseAdditiveAttention(keys, energy, values, mask, num_steps=STEPS)
        return attend_in_steps(attention, query)

    energy = draw(HIDDEN, grad=kind == "additive")
    assert gradcheck(run, (draw(ROWS, HIDDEN), draw(ROWS, KEYS, HIDDEN), energy, draw(ROWS, KEYS, SIZE)))


def test_a_second_backward_pass_gives_the_same_gradients():
    query, keys, values = draw(ROWS, HIDDEN), draw(ROWS, KEYS, HIDDEN), draw(ROWS, KEYS, SIZE)
    energy = draw(HIDDEN)
    attention = StepwiseAdditiveAttention(keys, energy, values, None, num_steps=STEPS)
    total = attend_in_steps(attention, query).sum()
    inputs = [query, keys, energy, values]
    once, again = (torch.autograd.grad(total, inputs, retain_graph=True) for _ in range(2))
    assert all(torch.equal(left, right) for left, right in zip(once, again, strict=True))


def attend_and_append(memory, state, mixed):
    """Cells that depend on contexts, contexts that depend on cells."""
    contexts = []
    for _ in range(STEPS):
        context = memory.attend(state)
        state = torch.sin(state + context @ mixed)
        memory.append(state * 2, torch.cos(state[:, :SIZE] + context))
        contexts.append(context)
    return torch.stack(contexts)


class PlainMemory:
    """Keys and cells in lists; the last `span` are attended to, those that are valid."""

    def __init__(self, energy, keys=(), cells=(), valid=(), span=None):
        self.energy, self.span = energy, span
        self.keys, self.cells, self.valid = list(keys), list(cells), list(valid)

    def attend(self, query):
        if not self.keys:
            return query.new_zeros(ROWS, SIZE)
        first = 0 if self.span is None else len(self.keys) - self.span
        keys, cells, valid = (torch.stack(part[first:], 1) for part in (self.keys, self.cells, self.valid))
        scores = torch.tanh(keys + query[:, None]) @ self.energy
        return (masked_softmax(scores[:, None], valid[:, None]) @ cells)[:, 0]

    def append(self, key, cell):
        self.keys.append(key)
        self.cells.append(cell)
        self.valid.append(torch.ones(ROWS, dtype=torch.bool))


def test_a_memory_buffer_equals_a_memory_concatenated_at_every_step():
    def run(state, energy, mixed):
        memory = MemoryBuffer(energy, batch_size=ROWS, num_cells=STEPS, cell_size=SIZE)
        return attend_and_append(memory, state, mixed)

    inputs = [draw(ROWS, HIDDEN), draw(HIDDEN), draw(SIZE, HIDDEN)]
    assert_same(run(*inputs), attend_and_append(PlainMemory(inputs[1]), inputs[0], inputs[2]), inputs, 1e-12)
    assert gradcheck(run, inputs)


@pytest.mark.parametrize("lengths", [(3, 3, 3), (0, 2, 3)], ids=str)
def test_a_windowed_buffer_attends_to_the_last_valid_cells(lengths):
    span = 3
    valid = torch.arange(span) >= span - torch.tensor(lengths)[:, None]

    def run(state, energy, mixed, keys, cells):
        memory = WindowedMemoryBuffer(energy, keys, cells, valid, num_cells=STEPS)
        return attend_and_append(memory, state, mixed)

    inputs = [
        draw(ROWS, HIDDEN),
        draw(HIDDEN),
        draw(SIZE, HIDDEN),
        draw(ROWS, span, HIDDEN),
        draw(ROWS, span, SIZE),
    ]
    state, energy, mixed, keys, cells = inputs
    plain = PlainMemory(energy, keys.unbind(1), cells.unbind(1), valid.unbind(1), span=span)
    assert_same(run(*inputs), attend_and_append(plain, state, mixed), inputs, 1e-12)
    assert gradcheck(run, inputs)
