"""The decision whether fused code may run, and helpers that unwrap an object that holds a model."""

import functools
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard import trace
from regard.contracts import active_recorders, device_of, evaluating, has_hooks, unsupported_reasons, unwrap
from regard.contracts.execution import build_on_meta
from regard.fused import fuse, which
from regard.layers import FeedForward
from regard.models.language_modeling.lstm import LSTMLanguageConfig, LSTMLanguageModel
from regard.recipes import make_run
from regard.tasks.language_modeling import TextGenerator
from tests.fused.systems import make_gpt, make_tokenizer, make_transformer


class Holder:
    def __init__(self, model):
        self.model = model


def reasons(model):
    with torch.inference_mode():
        return unsupported_reasons(model)


@pytest.mark.parametrize("make", [make_transformer, make_gpt])
def test_a_model_as_built_has_no_reasons(make):
    model = make()
    assert reasons(model) == reasons(model) == reasons(Holder(model)) == []
    assert reasons(make()) == []


def test_the_reference_draws_no_random_numbers_and_takes_no_memory():
    state = torch.get_rng_state()
    build_on_meta.cache_clear()
    model = make_transformer()
    torch.set_rng_state(state)
    assert reasons(model) == []
    assert torch.equal(torch.get_rng_state(), state)
    reference = build_on_meta(type(model), model.config, repr(model.config))
    assert all(parameter.is_meta for parameter in reference.parameters())
    assert reference is build_on_meta(type(model), make_transformer().config, repr(model.config))


def rate(model):
    model.dropout.p = 0.3


def eps(model):
    model.decoder[1].feed_forward_norm.norm.eps = 0.1


def heads(model):
    model.encoder[0].attention.num_heads = 4


def own_forward(model):
    model.encoder[1].feed_forward.forward = lambda states: states


def own_step(model):
    model.step = functools.partial(type(model).step, model)


def another_attribute(model):
    model.readout.scale = 2.0


def lost_attribute(model):
    del model.positions.base


def attribute_that_may_change(model):
    model.positions.base = [10_000.0]


def another_class(model):
    model.positions = nn.Identity()


def another_layer(model):
    model.decoder.append(model.decoder[0])


def lost_layer(model):
    del model.decoder[1]


def lost_bias(model):
    model.decoder[0].feed_forward.hidden.bias = None


def buffer_for_a_weight(model):
    weight = model.readout.weight.detach()
    del model.readout.weight
    model.readout.register_buffer("weight", weight)


def subclass_of_a_parameter(model):
    class Quantized(nn.Parameter):
        pass

    hidden = model.decoder[0].feed_forward.hidden
    hidden.weight = Quantized(hidden.weight.detach())


def hook(model):
    model.encoder[0].register_forward_hook(lambda *_: None)


def backward_hook(model):
    model.encoder[0].register_full_backward_pre_hook(lambda *_: None)


def compiled(model):
    model.encoder[0].compile(backend="eager")


def parametrized(model):
    nn.utils.parametrizations.weight_norm(model.encoder[0].feed_forward.hidden)


EDITS = {
    rate: "dropout.p is 0.3 in place of 0.1",
    eps: "decoder.1.feed_forward_norm.norm.eps is 0.1 in place of 1e-05",
    heads: "encoder.0.attention.num_heads is 4 in place of 2",
    own_forward: "encoder.1.feed_forward has an attribute of its own, forward",
    own_step: "the model has an attribute of its own, step",
    another_attribute: "readout has an attribute of its own, scale",
    lost_attribute: "positions.base was deleted",
    attribute_that_may_change: "positions.base is a list, which may change without notice",
    another_class: "positions is a Identity in place of a Sinusoidal",
    another_layer: "decoder has the children ['0', '1', '2'] in place of ['0', '1']",
    lost_layer: "decoder has the children ['0'] in place of ['0', '1']",
    lost_bias: "decoder.0.feed_forward.hidden.bias is a NoneType in place of a Parameter",
    buffer_for_a_weight: "readout has the tensors [] in place of ['weight']",
    subclass_of_a_parameter: "decoder.0.feed_forward.hidden.weight is a Quantized in place of a Parameter",
    hook: "encoder.0 has forward hooks",
    backward_hook: "encoder.0 has backward pre hooks",
    compiled: "encoder.0 has an attribute of its own, _compiled_call_impl",
    parametrized: "encoder.0.feed_forward.hidden is a ParametrizedLinear in place of a Linear",
}


@pytest.mark.parametrize("compared", [False, True])
@pytest.mark.parametrize(("edit", "reason"), EDITS.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_an_edit_is_a_reason(edit, reason, compared):
    model = make_transformer()
    if compared:
        assert reasons(model) == []
    edit(model)
    assert reason in reasons(model)
    assert reason in reasons(model)


def test_an_undone_edit_is_not_a_reason(monkeypatch):
    model = make_transformer()
    for patched in (FeedForward, nn.Module, type(model)):
        with monkeypatch.context() as patch:
            patch.setattr(patched, "__call__", lambda *_: None, raising=False)
            assert f"{patched.__name__}.__call__ was replaced" in reasons(model)
        assert reasons(model) == []
    handle = model.encoder[0].register_forward_pre_hook(lambda *_: None)
    assert has_hooks(model) and has_hooks(Holder(model)) and reasons(model)
    handle.remove()
    assert not has_hooks(model) and reasons(model) == []


def test_a_method_that_another_package_adds_to_all_modules_is_not_a_reason(monkeypatch):
    model = make_transformer()
    monkeypatch.setattr(nn.Module, "smart_apply", lambda *_: None, raising=False)
    assert reasons(model) == []
    monkeypatch.setattr(nn.Module, "_call_impl", lambda *_: None)
    assert reasons(model) == ["Module._call_impl was replaced"]


@pytest.mark.unchecked  # torch.compile cannot trace the checks of shapes
def test_compiling_another_module_is_not_a_reason():
    model = make_transformer()
    torch.compile(nn.Linear(3, 3), backend="eager")(torch.zeros(2, 3))
    assert reasons(model) == []


def test_changed_weights_are_not_a_reason():
    model = make_transformer()
    assert reasons(model) == []
    model.decoder[0].feed_forward.hidden.weight = nn.Parameter(torch.zeros(16, 8).double())
    model.load_state_dict(model.state_dict(), assign=True)
    model.decoder[0] = make_transformer().decoder[1]
    model.to(torch.bfloat16)
    assert reasons(model) == []


def test_modes_are_reasons_and_code_may_support_them():
    model = make_transformer()
    assert unsupported_reasons(model) == ["gradients are enabled"]
    assert unsupported_reasons(model, gradients=True) == []
    model.decoder[0].train()
    assert reasons(model) == ["a module is in training mode"]
    assert unsupported_reasons(model, gradients=True) == []
    model.eval()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert unsupported_reasons(model) == ["autocast is enabled"]
        assert unsupported_reasons(model, autocast=True) == []
    with torch.inference_mode(), trace(model):
        assert len(active_recorders()) == 1
        assert "attention is being recorded by a trace or an intervention" in unsupported_reasons(model)
    assert active_recorders() == ()
    torch.func.vmap(lambda _: check_mapped(model))(torch.zeros(2))


def check_mapped(model):
    assert "a torch.func transform is active" in reasons(model)
    return torch.zeros(())


def test_helpers_unwrap_an_object_that_holds_a_model():
    model = make_gpt().train()
    for one in (model, fuse(model), Holder(model)):
        assert unwrap(one) is model
        assert device_of(one) == torch.device("cpu")
        with evaluating(one):
            assert not model.training and torch.is_inference_mode_enabled()
        assert model.training and model.layers[0].training
    assert unwrap(3) == 3


def test_which_names_the_code_and_the_reasons():
    model = make_gpt()
    assert which(model) == which(fuse(model)) == "GPT decodes with FusedGPT."
    generator = TextGenerator(model=model, tokenizer=make_tokenizer(), run=make_run("tinyshakespeare", "gpt"))
    assert which(generator) == "GPT decodes with FusedGPT."
    plain = TextGenerator(model=model, tokenizer=make_tokenizer(), run=generator.run, fused=False)
    assert which(plain) == "GPT decodes with its own code: fused is False."
    assert plain.decoder is model
    model.norm.eps = 0.5
    assert which(generator) == "GPT decodes with its own code: norm.eps is 0.5 in place of 1e-05."
    other = LSTMLanguageModel(LSTMLanguageConfig(vocab_size=9, embedding_size=4, hidden_size=4, num_layers=1))
    assert fuse(other) is other
    reason = "regard.fused has no implementation of it"
    assert which(other) == f"LSTMLanguageModel decodes and trains with its own code: {reason}."


def test_equal_configs_with_different_types_have_separate_references():
    config = make_gpt().config
    for dropout in (0.0, 0):
        model = type(make_gpt())(replace(config, dropout=dropout)).eval()
        assert reasons(model) == [], dropout
