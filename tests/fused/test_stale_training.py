"""A fused training loop uses the current model, including all edits since its last step.

Edits of weights are used by the loop. Edits of modules, methods and hooks make the model's own code run.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from regard import intervene
from regard.attention import Attention
from regard.attention.alignments import ALIGNMENTS
from regard.fused import fuse
from tests.fused.test_stale_weights import (
    class_replaced,
    data_replaced,
    foreach_optimizer,
    forward_hook,
    forward_pre_hook,
    forward_replaced,
    fused_optimizer,
    hooks_written_over,
    numbers,
    parameter_replaced,
    slice_of_data,
)
from tests.fused.training_systems import assert_equal, few_systems, learn


class Parts:
    """The layers that edits touch, under the name that those of test_stale_weights.py use."""

    def __init__(self, system, model):
        self.linears = system.layers(model)


def numpy_edit(model, parts, seed):
    for linear in parts.linears:
        linear.weight.detach().numpy()[0] = numbers(linear.in_features, seed=seed).numpy()


def edited_state(model, parts, seed):
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name, tensor in state.items():
        if any(tensor.equal(linear.weight) for linear in parts.linears):
            state[name][:1] = numbers(*tensor[:1].shape, seed=seed)
    return state


def state_dict_loaded(model, parts, seed):
    model.load_state_dict(edited_state(model, parts, seed))


def state_dict_assigned(model, parts, seed):
    model.load_state_dict(edited_state(model, parts, seed), assign=True)


def embedding_edited(model, parts, seed):
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            part.weight.data[:] = numbers(*part.weight.shape, seed=seed)


WEIGHTS = [
    slice_of_data,
    data_replaced,
    numpy_edit,
    state_dict_loaded,
    state_dict_assigned,
    parameter_replaced,
    fused_optimizer,
    foreach_optimizer,
    embedding_edited,
]


@few_systems
@pytest.mark.parametrize("edit", WEIGHTS, ids=lambda edit: edit.__name__)
def test_an_edited_weight_is_used_by_the_loop(system, edit, loops_on_cpu):
    model = system.make()
    before = learn(system, model, fused=True)[0]
    for seed in range(2):
        edit(model, Parts(system, model), seed)
        loops_on_cpu.clear()
        after = learn(system, model, fused=True)
        assert loops_on_cpu
        assert_equal(after, learn(system, model, fused=False), 1e-10)
        assert not all(old.equal(new) for old, new in zip(before, after[0], strict=True))
        before = after[0]


class Doubled(nn.Linear):
    """Twice a linear layer."""

    def forward(self, inputs):
        return 2 * F.linear(inputs, self.weight, self.bias)


def module_of_another_kind(model, parts, seed):
    for part in list(model.modules()):
        for name, child in part.named_children():
            if any(child is linear for linear in parts.linears):
                new = Doubled(child.in_features, child.out_features, bias=child.bias is not None).double()
                setattr(part, name, new)


def alignment_of_another_kind(model, parts, seed):
    for part in model.modules():
        if isinstance(part, Attention):
            part.align = ALIGNMENTS["sparsemax"].build()


def attention_with_dropout(model, parts, seed):
    for part in model.modules():
        if isinstance(part, Attention):
            part.dropout = 0.5


def dropout_of_another_kind(model, parts, seed):
    model.dropout = nn.AlphaDropout(0.5)


def subclass_of_a_parameter(model, parts, seed):
    class Tripled(nn.Parameter):
        @classmethod
        def __torch_function__(cls, function, types, arguments=(), named=None):
            output = super().__torch_function__(function, types, arguments, named or {})
            return 3 * output if function is F.linear else output

    for linear in parts.linears:
        linear.weight = Tripled(linear.weight.detach())


STRUCTURE = [
    forward_replaced,
    forward_hook,
    forward_pre_hook,
    hooks_written_over,
    class_replaced,
    module_of_another_kind,
    alignment_of_another_kind,
    attention_with_dropout,
    dropout_of_another_kind,
    subclass_of_a_parameter,
]


@few_systems
@pytest.mark.parametrize("edit", STRUCTURE, ids=lambda edit: edit.__name__)
def test_an_edited_structure_runs_the_models_own_code(system, edit, loops_on_cpu):
    model = system.make().train()
    before = learn(system, model, fused=True)[0]
    assert loops_on_cpu
    loops_on_cpu.clear()
    edit(model, Parts(system, model), 0)
    outputs = []
    for runner in (fuse(model), model):
        torch.manual_seed(5)
        outputs.append(system.run(runner))
    assert not loops_on_cpu and fuse(model).unsupported_reasons()
    assert all(ours.equal(theirs) for ours, theirs in zip(*outputs, strict=True))
    assert not all(old.equal(new) for old, new in zip(before, outputs[0], strict=True))


@few_systems
def test_the_loop_runs_again_after_a_hook_is_removed(system, loops_on_cpu):
    model, calls = system.make(), []
    for linear in system.layers(model):
        handle = linear.register_forward_hook(lambda *_: calls.append(1))
        system.run(fuse(model))
        assert calls and not loops_on_cpu
        handle.remove()
        calls.clear()
    system.run(fuse(model))
    assert not calls and loops_on_cpu


@few_systems
@pytest.mark.parametrize("register", [register_module_forward_hook, register_module_forward_pre_hook])
def test_a_global_hook_is_called(system, register, loops_on_cpu):
    model, modules = system.make(), []
    handle = register(lambda module, *_: modules.append(module))
    try:
        system.run(fuse(model))
    finally:
        handle.remove()
    assert not loops_on_cpu and all(linear in modules for linear in system.layers(model))


@few_systems
@pytest.mark.parametrize("name", ["advance", "features", "read", "forward", "encode"])
def test_a_method_that_was_replaced_is_called(system, name, loops_on_cpu, monkeypatch):
    model, calls = system.make(), []
    original = getattr(type(model), name, None)
    if original is None or (name == "forward" and hasattr(model, "step")):
        pytest.skip("the model has no such method, or a training step does not call it")

    def counting(self, *arguments, **named):
        calls.append(name)
        return original(self, *arguments, **named)

    monkeypatch.setattr(type(model), name, counting)
    system.run(fuse(model))
    assert calls and not loops_on_cpu


@few_systems
def test_weights_that_an_intervention_replaces_are_used(system, loops_on_cpu):
    model = system.make()
    before = system.run(fuse(model))
    loops_on_cpu.clear()
    with intervene(model, lambda path, attended: torch.ones_like(attended.weights)):
        after = system.run(fuse(model))
    assert not loops_on_cpu
    assert not all(old.equal(new) for old, new in zip(before, after, strict=True))


@few_systems
def test_a_model_in_another_precision_is_used(system, loops_on_cpu):
    model = system.make()
    system.run(fuse(model))
    model.float()
    assert_equal(learn(system, model, fused=True), learn(system, model, fused=False), 2e-5)
    assert loops_on_cpu
