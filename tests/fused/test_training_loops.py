"""Fused training loops equal the readable ones: outputs and all gradients, with and without dropout."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard import trace
from regard.contracts import PaddedTokens
from regard.fused import FUSED, fuse, which
from regard.fused.luong import dropout_masks
from regard.models.translation import LuongConfig
from tests.fused.training_systems import (
    SOURCES,
    SYSTEMS,
    TARGETS,
    assert_equal,
    every_system,
    few_systems,
    learn,
    translate,
)


@every_system
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-11)], ids=str)
def test_a_fused_loop_equals_the_readable_one(system, dtype, tolerance, loops_on_cpu):
    model = system.make(dtype)
    actual = learn(system, model, fused=True)
    assert loops_on_cpu
    loops_on_cpu.clear()
    expected = learn(system, model, fused=False)
    assert not loops_on_cpu
    assert_equal(actual, expected, tolerance)


@every_system
def test_a_loop_runs_without_gradients_too(system, loops_on_cpu):
    model = system.make().eval()
    expected = system.run(model)
    with torch.inference_mode():
        actual = system.run(fuse(model))
    assert loops_on_cpu
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs.detach())


@few_systems
def test_on_a_cpu_the_readable_loop_runs(system, loops):
    model = system.make()
    system.run(fuse(model))
    assert not loops
    name = type(model).__name__
    reason = "the device is cpu, where fused loops are not faster"
    assert which(model) == which(fuse(model)) == f"{name} trains with its own code: {reason}."


def test_which_names_the_fused_loop(loops_on_cpu):
    assert which(SYSTEMS["bahdanau"].make()) == "Bahdanau trains with FusedBahdanau."
    assert {kind.verb for kind in FUSED.values()} == {"trains", "decodes"}


def test_an_alignment_that_the_loop_does_not_support_is_a_reason_in_every_system(loops_on_cpu):
    for name in ("bahdanau", "lstmn-deep-1", "lstmn-shallow-1"):
        system = SYSTEMS[name]
        model = system.kind(replace(system.config, alignment="sparsemax"))
        assert "the alignment is Sparsemax, and the fused loop supports Softmax" in which(model)
        system.run(fuse(model))
    assert not loops_on_cpu


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"score": "location"}, "the score is Location, and the fused loop supports Dot, General, Concat"),
        ({"alignment": "local_predictive"}, "the alignment is LocalPredictive, and the fused loop supports Softmax"),
        ({"alignment": "local_monotonic"}, "the alignment is LocalMonotonic, and the fused loop supports Softmax"),
    ],
)
def test_settings_that_luongs_loop_does_not_support_are_reasons(change, reason, loops_on_cpu):
    system = SYSTEMS["luong-general-fed"]
    model = system.kind(LuongConfig(**vars(system.config) | change))
    assert fuse(model).unsupported_reasons() == [reason]
    source, target = PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    model.eval()
    assert fuse(model).features(source, target).features.equal(model.features(source, target).features)
    assert not loops_on_cpu


@every_system
def test_dropout_is_the_same_forward_and_backward(system, loops_on_cpu):
    """A small step along the gradient changes the loss by the gradient, with the same random numbers."""
    model, small = system.make(dropout=0.4).train(), 1e-6
    torch.manual_seed(3)
    outputs, grads = learn(system, model, fused=True)
    weights = [torch.linspace(-1, 1, output.numel()).double().view_as(output) for output in outputs]
    losses = []
    for sign in (1, -1):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if grads[name] is not None:
                    parameter.add_(grads[name], alpha=small if sign > 0 else -2 * small)
        torch.manual_seed(3)
        with torch.no_grad():
            outputs = system.run(fuse(model))
        losses.append(sum((output * weight).sum().item() for output, weight in zip(outputs, weights, strict=True)))
    assert len(loops_on_cpu) >= 3
    expected = sum(grad.square().sum().item() for grad in grads.values() if grad is not None)
    assert (losses[0] - losses[1]) / (2 * small) == pytest.approx(expected, rel=1e-4)


def test_dropout_keeps_the_mean_of_a_state_that_is_fed_back():
    model = SYSTEMS["luong-general-fed"].make(torch.float32, dropout=0.4).train()
    word_gates = torch.zeros(40, 50, 20)
    masks = torch.stack(dropout_masks(model, word_gates))
    assert masks.shape == (40, 2, 50, 5) and masks.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert masks.mean().item() == pytest.approx(1.0, abs=0.05)
    assert list(dropout_masks(model.eval(), word_gates)) == [None] * 40


def test_dropout_follows_the_mode_of_its_module(loops_on_cpu):
    model = SYSTEMS["luong-dot-fed"].make(dropout=0.5)
    model.train()
    for part in (model.dropout, model.encoder):
        part.eval()
    first, second = (translate(fuse(model))[0] for _ in range(2))
    assert first.equal(second) and len(loops_on_cpu) == 2
    model.eval()
    model.dropout.train()
    first, second = (translate(fuse(model))[0] for _ in range(2))
    assert not first.equal(second) and len(loops_on_cpu) == 4


@every_system
def test_float64_stays_so_under_autocast(system, loops_on_cpu):
    model = system.make().eval()
    expected = system.run(fuse(model))
    with torch.autocast("cpu", torch.bfloat16):
        actual = system.run(fuse(model))
    assert len(loops_on_cpu) >= 2
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == torch.float64
        torch.testing.assert_close(ours, theirs)


@every_system
def test_under_autocast_the_loop_is_near_the_readable_one(system, loops_on_cpu):
    model = system.make(torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    with torch.autocast("cpu", torch.bfloat16):
        actual, expected = (learn(system, model, fused=fused) for fused in (True, False))
    assert loops_on_cpu
    for ours, theirs in zip(actual[0], expected[0], strict=True):
        torch.testing.assert_close(ours.float(), theirs.float(), atol=0.05, rtol=0.1)
    for name, grad in expected[1].items():
        if grad is not None:
            assert actual[1][name].dtype == torch.float32
            torch.testing.assert_close(actual[1][name], grad, atol=0.1, rtol=0.2, msg=name)


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.run is translate])
def test_a_target_without_a_token_changes_nothing(name, loops_on_cpu):
    system = SYSTEMS[name]
    model, source, ids = system.make(), PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS).ids
    results = []
    for chosen in ([0, 1, 2], [0, 2]):
        target = PaddedTokens(ids[chosen], torch.tensor([5, 0, 5])[chosen])
        features = (
            fuse(model).features(PaddedTokens(source.ids[chosen], source.lengths[chosen]), target).features[target.mask]
        )
        grads = torch.autograd.grad(features.sum(), list(model.parameters()), allow_unused=True)
        results.append([features, *grads])
    assert loops_on_cpu
    for one, other in zip(*results, strict=True):
        assert (one is None) == (other is None)
        assert one is None or one.allclose(other, atol=1e-12)


@few_systems
def test_a_trace_records_every_step(system, loops_on_cpu):
    model = system.make().eval()
    expected = system.run(model)
    with trace(model) as maps:
        actual = system.run(fuse(model))
    assert not loops_on_cpu and maps
    # attention forms its weights for the trace, which rounds otherwise
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_second_derivative_is_refused(loops_on_cpu):
    model = SYSTEMS["bahdanau"].make()
    (features,) = translate(fuse(model))
    with pytest.raises(RuntimeError, match=r"leave out regard\.fused\.fuse"):
        torch.autograd.grad(features.sum(), model.decoder.candidate.weight, create_graph=True)


@few_systems
def test_the_graph_of_a_loop_is_freed(system, loops_on_cpu):
    """The lists of a loop contain no graph, so that memory does not depend on the garbage collector."""
    model = system.make()
    fused = fuse(model)
    system.run(fused)
    gc.collect()
    gc.disable()
    try:
        outputs = system.run(fused)
        node = weakref.ref(outputs[0])
        outputs[0].sum().backward()
        del outputs
        assert node() is None
        before = sum(type(held) is torch.Tensor for held in gc.get_objects())
        for _ in range(3):
            system.run(fused)
        after = sum(type(held) is torch.Tensor for held in gc.get_objects())
    finally:
        gc.enable()
    assert loops_on_cpu and after <= before


class NoSynchronization(TorchDispatchMode):
    """Refuses operations that make the host wait for a device, or whose shape depends on values."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        refused = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "_pack_padded_sequence")
        assert name not in refused, name
        return func(*args, **kwargs or {})


@every_system
@pytest.mark.parametrize("fused", [True, False])
def test_a_step_can_be_captured_because_nothing_synchronizes(system, fused, loops_on_cpu):
    model, source, target = (
        system.make(torch.float32),
        PaddedTokens.from_lists(SOURCES),
        PaddedTokens.from_lists(TARGETS),
    )
    runner = fuse(model) if fused else model
    with NoSynchronization():
        # positions are not selected by a mask here, which would need their values on the host
        outputs = [runner.features(source, target).features] if system.run is translate else system.run(runner)
        sum(output.sum() for output in outputs).backward()
    assert all(output.isfinite().all() for output in outputs) and bool(loops_on_cpu) == fused
    with pytest.raises(AssertionError, match="nonzero"), NoSynchronization():
        target.mask.nonzero()


def test_a_fused_model_is_not_a_module():
    model = SYSTEMS["bahdanau"].make()
    assert vars(fuse(model)) == {"model": model} and not isinstance(fuse(model), nn.Module)


@pytest.mark.cuda
@every_system
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)], ids=str)
def test_on_a_gpu_the_fused_loop_equals_the_readable_one(system, dtype, tolerance, loops):
    model = system.make(dtype).cuda()
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        actual = learn(system, model, fused=True, device="cuda")
        assert loops
        assert_equal(actual, learn(system, model, fused=False, device="cuda"), tolerance)
