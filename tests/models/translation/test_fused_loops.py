"""The loops that training takes equal the readable steps: outputs and all gradients, with and without dropout."""

import gc
import weakref
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from regard import trace
from regard.attention import Attention
from regard.attention.alignments import ALIGNMENTS
from regard.contracts import PaddedTokens
from regard.layers import GRUUpdate, recurrent, steps, tape
from regard.layers.steps import Steps
from regard.models.translation import (
    LSTMN,
    Bahdanau,
    BahdanauConfig,
    LSTMNConfig,
    Luong,
    LuongConfig,
    bahdanau,
    lstmn,
    luong,
)

SIZES = {"source_vocab_size": 11, "target_vocab_size": 13, "embedding_size": 4, "hidden_size": 5}
BAHDANAU = BahdanauConfig(**SIZES, alignment_size=6, maxout_size=3)
SOURCES = [[4, 7, 5, 9, 3, 8, 2], [9, 2], [2]]
TARGETS = [[1, 9, 12, 4, 7], [1, 3], [1, 5, 6, 6, 6]]


def variants():
    yield pytest.param(Bahdanau, BAHDANAU, id="bahdanau")
    for score in ("dot", "general", "concat"):
        for feeding in (True, False):
            config = LuongConfig(**SIZES, num_layers=2, score=score, input_feeding=feeding, dropout=0.0)
            yield pytest.param(Luong, config, id=f"luong-{score}-{'fed' if feeding else 'unfed'}")
    for fusion in ("shallow", "deep"):
        for layers in (1, 2):
            config = LSTMNConfig(**SIZES, fusion=fusion, num_layers=layers)
            yield pytest.param(LSTMN, config, id=f"lstmn-{fusion}-{layers}")


every_loop = pytest.mark.parametrize(("kind", "config"), list(variants()))


def made(kind, config, dtype, dropout=0.0):
    torch.manual_seed(0)
    model = kind(type(config)(**vars(config) | {"dropout": dropout})).to(dtype)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def weight_of(features):
    """What a loss says to the features: something else at each real place, and nothing to padding."""
    weight = torch.linspace(-1, 1, features.numel(), dtype=features.dtype).view_as(features)
    return weight * PaddedTokens.from_lists(TARGETS).mask.unsqueeze(-1)


def learn(model, *, fused):
    """Features of a batch, and what a loss of them says to every parameter."""
    allowed = (lambda *parts: False) if not fused else tape.may_fuse
    with (
        patch.object(bahdanau, "may_fuse", allowed),
        patch.object(luong, "may_fuse", allowed),
        patch.object(lstmn, "may_fuse", allowed),
        patch.object(tape, "may_fuse", allowed),
        patch.object(recurrent, "may_fuse", allowed),
    ):
        features = model.features(PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)).features
    weight = weight_of(features)
    learned = dict(model.named_parameters())
    grads = torch.autograd.grad((features * weight).sum(), learned.values(), allow_unused=True)
    return features, dict(zip(learned, grads, strict=True))


@every_loop
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=str)
def test_the_fused_loop_is_the_readable_one(kind, config, dtype, tolerance):
    model = made(kind, config, dtype)
    with patch.object(model, "advance", side_effect=AssertionError("a readable step")):
        found, ours = learn(model, fused=True)
    expected, theirs = learn(model, fused=False)
    real = PaddedTokens.from_lists(TARGETS).mask
    assert found[real].allclose(expected[real], atol=tolerance, rtol=tolerance)
    assert (found[~real] == 0).all()
    for name, grad in theirs.items():
        assert (ours[name] is None) == (grad is None), name
        assert grad is None or ours[name].allclose(grad, atol=tolerance, rtol=tolerance), name


@every_loop
def test_rows_that_have_ended_change_nothing(kind, config):
    """Dropping out or not: the same features at real places, and the same gradients."""
    model = made(kind, config, torch.float64)
    found, ours = learn(model, fused=True)
    with patch.object(steps, "WORTH_SORTING", 1.0):
        expected, theirs = learn(model, fused=True)
    real = PaddedTokens.from_lists(TARGETS).mask
    assert (found[~real] == 0).all() and not (expected[~real] == 0).all()
    assert found[real].allclose(expected[real], atol=1e-12)
    for name, grad in theirs.items():
        assert grad is None or ours[name].allclose(grad, atol=1e-12), name


def test_steps_put_everything_back():
    lengths, rows = torch.tensor([1, 3, 0, 2]), torch.randn(4, 5, 2, dtype=torch.float64, requires_grad=True)
    steps = Steps.of(lengths, 5)
    # a row without a token takes the first step with the others
    assert steps.sizes == [4, 2, 1] and steps.order.tolist() == [1, 3, 0, 2]
    real = torch.arange(5) < lengths[:, None].clamp(min=1)
    assert steps.pack(rows).shape == (7, 2) and steps.pack(rows)[4].equal(rows[1, 1])
    assert steps.unpack(steps.pack(rows)).equal(rows * real[..., None])
    assert steps.restore(steps.sort(rows)).equal(rows)
    assert gradcheck(lambda rows: steps.unpack(steps.pack(rows).sin()), rows)
    assert gradcheck(lambda rows: steps.restore(steps.sort(rows).sin()), rows)
    whole = Steps.of(torch.tensor([5, 5, 5, 5]), 5)
    assert whole.sizes == [4] * 5 and whole.order is None
    assert whole.unpack(whole.pack(rows)).equal(rows)
    assert Steps.of(torch.zeros(4, dtype=torch.long), 5).sizes == [4]


@every_loop
def test_a_target_without_a_token_changes_nothing(kind, config):
    model, source = made(kind, config, torch.float64), PaddedTokens.from_lists(SOURCES)
    ids = PaddedTokens.from_lists(TARGETS).ids
    found = []
    for rows in ([0, 1, 2], [0, 2]):
        given = PaddedTokens(source.ids[rows], source.lengths[rows])
        target = PaddedTokens(ids[rows], torch.tensor([5, 0, 5])[rows])
        features = model.features(given, target).features[target.mask]
        found.append([features, *torch.autograd.grad(features.sum(), list(model.parameters()), allow_unused=True)])
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        assert one is None or one.allclose(other, atol=1e-12)


@every_loop
def test_float64_stays_so_under_autocast(kind, config):
    model = made(kind, config, torch.float64)
    expected, _ = learn(model, fused=True)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = learn(model, fused=True)
    assert found.dtype == torch.float64 and found.allclose(expected, atol=1e-12)


def test_dropout_goes_by_its_own_flag():
    config = LuongConfig(**SIZES, num_layers=2, dropout=0.5)
    model = made(Luong, config, torch.float32, dropout=0.5)
    source, target = PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    model.train()
    for part in (model.dropout, model.encoder):
        part.eval()
    assert model.features(source, target).features.equal(model.features(source, target).features)
    model.eval()
    model.dropout.train()
    assert not model.features(source, target).features.equal(model.features(source, target).features)


def test_what_others_made_is_called():
    class Decoder(GRUUpdate):
        def forward(self, gates, state):
            raise ZeroDivisionError

    model = made(Bahdanau, BAHDANAU, torch.float32)
    model.decoder.__class__ = Decoder
    with pytest.raises(ZeroDivisionError):
        model.features(PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS))


def test_a_hook_on_all_modules_is_heard():
    model, heard = made(Bahdanau, BAHDANAU, torch.float32), []
    hook = nn.modules.module.register_module_forward_hook(lambda module, *_: heard.append(module))
    try:
        model.features(PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS))
    finally:
        hook.remove()
    assert heard.count(model.decoder) == 5


@every_loop
def test_dropout_is_the_same_forward_and_backward(kind, config):
    """One step along the gradient changes the loss as the gradient says, the same numbers being dropped."""
    model = made(kind, config, torch.float64, dropout=0.4).train()
    torch.manual_seed(3)
    features, grads = learn(model, fused=True)
    weight = weight_of(features)
    losses, little = [], 1e-6
    for sign in (1, -1):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if grads[name] is not None:
                    parameter.add_(grads[name], alpha=little if sign > 0 else -2 * little)
        torch.manual_seed(3)
        losses.append((learn(model, fused=True)[0] * weight).sum().item())
    expected = sum(grad.square().sum().item() for grad in grads.values() if grad is not None)
    assert (losses[0] - losses[1]) / (2 * little) == pytest.approx(expected, rel=1e-4)


def test_dropout_keeps_the_mean_of_a_fed_state():
    model = made(Luong, LuongConfig(**SIZES, num_layers=2), torch.float32, dropout=0.4).train()
    words, sizes = torch.zeros(2000, 20), [50] * 40
    drops = torch.stack(model._drops(words, sizes))
    assert drops.shape == (40, 2, 50, 5) and drops.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert drops.mean().item() == pytest.approx(1.0, abs=0.05)
    assert model.eval()._drops(words, sizes) == [None] * 40


@every_loop
def test_whoever_listens_or_hooks_in_gets_every_step(kind, config):
    model = made(kind, config, torch.float64).eval()
    source, target = PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    with trace(model) as maps:
        traced = model.features(source, target).features
    assert any(len(seen) == target.ids.shape[1] for seen in maps.values())
    assert traced[target.mask].allclose(model.features(source, target).features[target.mask])
    part = next(part for part in model.modules() if isinstance(part, nn.Linear))
    calls = []
    handle = part.register_forward_hook(lambda *_: calls.append(1))
    assert model.features(source, target).features.allclose(traced) and calls
    handle.remove()


def test_a_replaced_layer_is_not_passed_by():
    class Doubled(nn.Linear):
        def forward(self, inputs):
            return 2 * F.linear(inputs, self.weight, self.bias)

    model = made(Bahdanau, BahdanauConfig(**SIZES, alignment_size=6, maxout_size=3), torch.float64)
    before = model.features(PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)).features
    model.decoder.candidate = Doubled(5, 5, bias=False).double()
    model.decoder.candidate.weight.data.copy_(torch.eye(5))
    with patch.object(model, "advance", wraps=model.advance) as advance:
        after = model.features(PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)).features
        assert not after.allclose(before)
    assert advance.call_count == 5


@pytest.mark.parametrize(("kind", "config"), list(variants())[::3])
def test_the_graph_of_a_loop_is_let_go(kind, config):
    """Lists that a loop keeps hold no graph, so nothing waits for a collector of garbage."""
    model = made(kind, config, torch.float64)
    gc.collect()
    gc.disable()
    try:
        features = model.features(PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)).features
        node = weakref.ref(features)
        features.sum().backward()
        del features
        assert node() is None
        before = sum(type(held) is torch.Tensor for held in gc.get_objects())
        for _ in range(3):
            model.features(PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS))
        after = sum(type(held) is torch.Tensor for held in gc.get_objects())
    finally:
        gc.enable()
    assert after <= before


@every_loop
def test_another_alignment_is_not_passed_by(kind, config):
    model = made(kind, config, torch.float32).eval()
    changed = [part for part in model.modules() if isinstance(part, Attention)]
    assert changed
    source, target = PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    before = model(source, target)
    for attention in changed:
        attention.align = ALIGNMENTS["hard"].build()
    found = model(source, target)
    with trace(model):
        readable = model(source, target)
    assert not found.allclose(before, atol=1e-6)
    assert found[target.mask].allclose(readable[target.mask], atol=1e-5)


class Blind(TorchDispatchMode):
    """Refuses whatever would make a device wait for the host, or a shape depend on numbers."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "_pack_padded_sequence"), (
            name
        )
        return func(*args, **kwargs or {})


@every_loop
def test_a_step_can_be_captured_for_it_looks_at_nothing(kind, config):
    model, source, target = (
        made(kind, config, torch.float32),
        PaddedTokens.from_lists(SOURCES),
        PaddedTokens.from_lists(TARGETS),
    )
    # as on any device but a CPU
    unseen = [patch.object(place, "may_look", lambda lengths: False) for place in (steps, recurrent)]
    with Blind(), unseen[0], unseen[1]:
        features = model.features(source, target).features
        features.sum().backward()
    assert features.isfinite().all()
    with pytest.raises(AssertionError, match="nonzero"), Blind():
        target.mask.nonzero()
