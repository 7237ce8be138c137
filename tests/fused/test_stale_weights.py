"""Decoding uses the current model, including all edits since its first output.

Every edit is made twice to a model that has decoded already. Each time its answer is the readable code's, and exactly
that of a new model with the same edits. A hook of the model that does nothing makes the readable code run.
"""

import functools
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from regard import intervene, trace
from regard.attention.positions import Sinusoidal
from regard.attention.scores import Dot
from regard.contracts import unwrap
from regard.layers import FeedForward, GatedFeedForward
from tests.fused.systems import SYSTEMS


def numbers(*shape, seed):
    return 0.5 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slice_of_data(model, parts, seed):
    for linear in parts.linears:
        # the first rows: those of the first head
        linear.weight.data[:2] = numbers(2, linear.in_features, seed=seed)


def data_replaced(model, parts, seed):
    for linear in parts.linears:
        linear.weight.data = numbers(*linear.weight.shape, seed=seed)


def numpy_edit(model, parts, seed):
    for linear in parts.linears:
        linear.weight.detach().numpy()[0] = numbers(linear.in_features, seed=seed).numpy()


def numpy_edit_of_a_bias(model, parts, seed):
    for linear in parts.linears:
        linear.bias.detach().numpy()[1] += seed + 0.5


def state_dict_edited(model, parts, seed):
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name, tensor in weights.items():
        if name.endswith("value_proj.weight"):
            tensor[:1] = numbers(*tensor[:1].shape, seed=seed)
    return weights


def state_dict_loaded(model, parts, seed):
    model.load_state_dict(state_dict_edited(model, parts, seed))


def state_dict_assigned(model, parts, seed):
    model.load_state_dict(state_dict_edited(model, parts, seed), assign=True)


def parameter_replaced(model, parts, seed):
    for linear in parts.linears:
        linear.weight = nn.Parameter(numbers(*linear.weight.shape, seed=seed))


def optimizer_step(model, parts, **settings):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **settings)
    sum(linear.weight.pow(3).sum() + linear.weight.sum() for linear in parts.linears).backward()
    optimizer.step()
    model.zero_grad()


def fused_optimizer(model, parts, seed):
    optimizer_step(model, parts, fused=True)


def foreach_optimizer(model, parts, seed):
    optimizer_step(model, parts, foreach=True)


def inference_tensors(model, parts, seed):
    with torch.inference_mode():
        for linear in parts.linears:
            if linear.weight.is_inference():
                linear.weight[:1] = numbers(1, linear.in_features, seed=seed)
            else:
                linear.weight = nn.Parameter(numbers(*linear.weight.shape, seed=seed), requires_grad=False)


def module_replaced_in_kind(model, parts, seed):
    old = parts.layer.feed_forward
    new = nn.Linear(old.hidden.in_features, old.hidden.out_features).double()
    with torch.no_grad():
        new.weight.copy_(numbers(*new.weight.shape, seed=seed))
        new.bias.copy_(numbers(*new.bias.shape, seed=seed))
    old.hidden = new


def forward_replaced(model, parts, seed):
    for linear in parts.linears:
        linear.forward = lambda inputs, linear=linear: (seed + 2) * F.linear(inputs, linear.weight, linear.bias)


def accelerate_hook(model, parts, seed):
    hooks = pytest.importorskip("accelerate.hooks")

    class Scaled(hooks.ModelHook):
        def post_forward(self, module, output):
            return (seed + 2) * output

    for linear in parts.linears:
        hooks.add_hook_to_module(linear, Scaled())


def module_of_another_kind(model, parts, seed):
    new = GatedFeedForward(hidden_size=8, feed_forward_size=16).double()
    with torch.no_grad():
        for parameter in new.parameters():
            parameter.copy_(numbers(*parameter.shape, seed=seed))
    parts.layer.feed_forward = new


class Backwards(Sinusoidal):
    """Positions that count down."""

    def encode(self, positions, dtype=torch.float32):
        return super().encode(-positions, dtype)


def positions_of_another_kind(model, parts, seed):
    model.positions = Backwards(hidden_size=8) if seed else Sinusoidal(hidden_size=8, base=50.0)


def score_of_another_kind(model, parts, seed):
    parts.attention.score = Dot()


def eps_changed(model, parts, seed):
    for norm in parts.norms:
        norm.eps = 0.5 + seed


def positions_base_changed(model, parts, seed):
    # learned positions have no base; they are replaced by sinusoidal ones of another base
    model.positions = Sinusoidal(hidden_size=8)
    model.positions.base = 30.0 + seed


def heads_changed(model, parts, seed):
    attention = parts.attention
    heads = 4 >> (2 * seed)
    attention.num_heads = attention.num_kv_heads = heads
    attention.head_size = 8 // heads


def forward_hook(model, parts, seed):
    for linear in parts.linears:
        linear.register_forward_hook(lambda module, inputs, output: (seed + 2) * output)


def forward_pre_hook(model, parts, seed):
    for linear in parts.linears:
        linear.register_forward_pre_hook(lambda module, inputs: ((seed + 2) * inputs[0],))


def hooks_written_over(model, parts, seed):
    for linear in parts.linears:
        linear._forward_hooks = type(linear._forward_hooks)()
        linear.register_forward_hook(lambda module, inputs, output: (seed + 2) * output)


def class_replaced(model, parts, seed):
    class Scaled(nn.Linear):
        def forward(self, inputs):
            return (seed + 2) * super().forward(inputs)

    for linear in parts.linears:
        linear.__class__ = Scaled


EDITS = [
    slice_of_data,
    data_replaced,
    numpy_edit,
    numpy_edit_of_a_bias,
    state_dict_loaded,
    state_dict_assigned,
    parameter_replaced,
    fused_optimizer,
    foreach_optimizer,
    inference_tensors,
    module_replaced_in_kind,
    forward_replaced,
    accelerate_hook,
    module_of_another_kind,
    positions_of_another_kind,
    score_of_another_kind,
    eps_changed,
    positions_base_changed,
    heads_changed,
    forward_hook,
    forward_pre_hook,
    hooks_written_over,
    class_replaced,
]


@contextmanager
def readable(model):
    """Disable fused code within the block; attention keeps its backends, which a hook on its score would change."""
    handle = unwrap(model).register_forward_hook(lambda module, inputs, output: None)
    try:
        yield
    finally:
        handle.remove()


def check_answer(system, model):
    """The output, which must equal that of the readable code."""
    answer = system.answer(model)
    with readable(model):
        expected = system.answer(model)
    assert [ids for ids, _ in answer] == [ids for ids, _ in expected]
    assert [value for _, value in answer] == pytest.approx([value for _, value in expected], abs=1e-9)
    return answer


@pytest.fixture(params=SYSTEMS)
def system(request):
    return SYSTEMS[request.param]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_an_edit_is_used(system, edit):
    model, new = system.make(), system.make()
    answer = check_answer(system, model)
    for seed in range(2):
        edit(model, system.parts(model), seed)
        edit(new, system.parts(new), seed)
        edited = check_answer(system, model)
        assert edited == system.answer(new)
        # a score of another kind scales by no root: the second time it is that already
        assert edited != answer or (edit is score_of_another_kind and seed)
        answer = edited


def scaled(old):
    def forward(self, *arguments, **named):
        return 2 * old(self, *arguments, **named)

    return forward


@pytest.mark.parametrize("kind", [FeedForward, nn.Linear, nn.LayerNorm])
@pytest.mark.parametrize("wraps", [False, True])
def test_a_method_replaced_on_a_class_is_used(system, kind, wraps, monkeypatch):
    model = system.make()
    answer = check_answer(system, model)
    forward = scaled(kind.forward)
    monkeypatch.setattr(kind, "forward", functools.wraps(kind.forward)(forward) if wraps else forward)
    edited = check_answer(system, model)
    assert edited == system.answer(system.make()) != answer
    monkeypatch.undo()
    assert check_answer(system, model) == answer


@pytest.mark.parametrize("name", ["step", "encode"])
def test_a_method_replaced_on_a_model_is_used(system, name, monkeypatch):
    model, calls = system.make(), []
    if not hasattr(model, name):
        pytest.skip("a language model encodes nothing")
    with readable(model):
        answer = system.answer(model)
    original = getattr(type(model), name)

    def counting(self, *arguments, **named):
        calls.append(name)
        return original(self, *arguments, **named)

    monkeypatch.setattr(type(model), name, counting)
    assert system.answer(model) == answer
    assert calls
    monkeypatch.undo()
    calls.clear()
    setattr(model, name, functools.partial(counting, model))
    assert system.answer(model) == answer
    assert calls


@pytest.mark.parametrize("register", [register_module_forward_hook, register_module_forward_pre_hook])
def test_a_global_hook_is_called(system, register):
    model, kinds = system.make(), set()
    system.answer(model)
    handle = register(lambda module, *_: kinds.add(type(module)))
    try:
        system.answer(model)
    finally:
        handle.remove()
    assert {FeedForward, nn.Linear, nn.LayerNorm} <= kinds


def test_a_trace_records_every_step(system):
    model = system.make()
    answer = system.answer(model)
    with trace(model) as maps:
        traced = system.answer(model)
    assert [ids for ids, _ in traced] == [ids for ids, _ in answer]
    paths = [name for name, module in model.named_modules() if hasattr(module, "query_proj")]
    assert set(maps) == set(paths)
    assert len(maps[paths[-1]]) > 2
    assert check_answer(system, model) == answer


def test_changed_weights_are_used(system):
    model = system.make()
    answer = system.answer(model)
    with intervene(model, lambda path, attended: torch.ones_like(attended.weights)):
        changed = system.answer(model)
    assert changed != answer
    assert check_answer(system, model) == answer


def test_autocast_is_respected(system):
    model = system.make().float()
    system.answer(model)
    with torch.autocast("cpu", torch.bfloat16):
        answer = system.answer(model)
        with readable(model):
            assert system.answer(model) == answer
    assert system.answer(model) != answer


@pytest.mark.unchecked  # torch.compile cannot trace the checks of shapes
def test_a_compiled_part_is_called(system):
    model, calls = system.make(), []
    system.answer(model)

    def backend(graph, inputs):
        def run(*arguments):
            calls.append(graph)
            return graph.forward(*arguments)

        return run

    system.parts(model).layer.feed_forward.compile(backend=backend)
    system.answer(model)
    assert calls


@pytest.mark.unchecked  # the checks refuse the object that torch.compile returns, from Python 3.12
def test_a_compiled_model_decodes(system):
    model = system.make()
    answer = system.answer(model)
    compiled = system.answer(torch.compile(model, backend="eager"))
    assert [ids for ids, _ in compiled] == [ids for ids, _ in answer]
    assert [value for _, value in compiled] == pytest.approx([value for _, value in answer], abs=1e-9)


@pytest.mark.cuda
def test_weights_updated_by_a_replayed_graph_are_used(system):
    model = system.make().cuda()
    answer = system.answer(model)
    graph = torch.cuda.CUDAGraph()
    weights = [linear.weight for linear in system.parts(model).linears]
    with torch.no_grad(), torch.cuda.graph(graph):
        for weight in weights:
            weight.mul_(-1.5)
    graph.replay()
    assert check_answer(system, model) != answer
