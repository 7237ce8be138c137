"""Fused steps of the Transformer against its readable ones, and which of the two run."""

import pytest
import torch
from torch import nn

from regard import trace
from regard.attention.alignments import Sigmoid
from regard.contracts import Model, PackedTokens, PaddedTokens, select_batch, unsupported_reasons
from regard.fused import fuse
from regard.fused.transformer import FusedEncoded
from regard.layers import GatedFeedForward
from tests.fused.systems import make_transformer
from tests.models.translation.stepping import take_steps

SOURCE = [[4, 5, 6, 2], [7, 2], [5, 5, 8, 9, 4, 2]]
TARGET = [[1, 4, 5], [1, 6, 7, 8, 9], [1]]
SOURCES = {
    "padded": SOURCE,
    "of one length": [row[:2] for row in SOURCE],
    "one": SOURCE[:1],
    "long": [*SOURCE[1:], [4 + position % 7 for position in range(300)]],
}


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("shared_embeddings", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", SOURCES.values(), ids=SOURCES)
def test_fused_steps_equal_readable_ones(rows, norm, shared_embeddings, dtype):
    model = make_transformer(norm=norm, shared_embeddings=shared_embeddings).to(dtype)
    source, target = PaddedTokens.from_lists(rows), PaddedTokens.from_lists(TARGET[: len(rows)])
    readable = take_steps(model, source, target)
    with torch.inference_mode():
        fused = take_steps(fuse(model), source, target)
    assert isinstance(fused[0], FusedEncoded)
    for one, other in zip(readable[1:], fused[1:], strict=True):
        assert one.allclose(other, atol=1e-4 if dtype is torch.float32 else 1e-12)


def test_a_packed_source_equals_the_padded_one():
    model, target = fuse(make_transformer()), PaddedTokens.from_lists(TARGET)
    with torch.inference_mode():
        padded = take_steps(model, PaddedTokens.from_lists(SOURCE), target)
        packed = take_steps(model, PackedTokens.from_lists(SOURCE), target)
    assert isinstance(packed[0], FusedEncoded)
    assert packed[1].allclose(padded[1], atol=1e-12)


def test_fused_steps_call_no_layer(monkeypatch):
    model, calls = make_transformer(), []
    with torch.inference_mode():
        fused = fuse(model)
        encoded = fused.encode(PaddedTokens.from_lists(SOURCE))
        monkeypatch.setattr(nn.Linear, "forward", lambda *_: calls.append("linear"))
        fused.step(torch.tensor([1, 1, 1]), fused.start(encoded), encoded)
    assert not calls


def test_a_fused_transformer_is_a_model_with_the_readout_of_its_model():
    model = make_transformer()
    fused = fuse(model)
    assert isinstance(fused, Model) and fused.model is model and vars(fused) == {"model": model}
    assert fused.readout is model.readout
    source, target = PaddedTokens.from_lists(SOURCE), PaddedTokens.from_lists(TARGET)
    assert torch.equal(fused.features(source, target).features, model.features(source, target).features)
    assert torch.equal(fused.forward(source, target), model(source, target))


def test_a_source_without_tokens_gives_a_context_of_zeros():
    model = make_transformer()
    source, target = PaddedTokens.from_lists([SOURCE[0], []]), PaddedTokens.from_lists(TARGET[:2])
    _, readable, _ = take_steps(model, source, target)
    with torch.inference_mode():
        _, logits, alignments = take_steps(fuse(model), source, target)
    assert logits.allclose(readable, atol=1e-12)
    assert (alignments[1] == 0).all()


def test_an_empty_batch_is_encoded():
    with torch.inference_mode():
        assert fuse(make_transformer()).encode(PaddedTokens.from_lists([])).memories[0].keys.shape[0] == 0


@pytest.mark.parametrize("name", ["query_proj", "key_proj", "value_proj"])
def test_nan_weights_give_nan_logits(name):
    model = make_transformer()
    with torch.inference_mode():
        getattr(model.decoder[0].self_attention, name).weight.fill_(float("nan"))
        _, logits, _ = take_steps(fuse(model), PaddedTokens.from_lists(SOURCE), PaddedTokens.from_lists(TARGET))
    assert logits.isnan().all()


def gated(model):
    for layer in model.decoder:
        layer.feed_forward = GatedFeedForward(hidden_size=8, feed_forward_size=16).double()


def another_alignment(model):
    for layer in model.decoder:
        layer.cross_attention.align = Sigmoid()


def hooked(model):
    model.decoder[0].register_forward_hook(lambda *_: None)


def another_class(model):
    class Doubled(nn.Linear):
        def forward(self, inputs):
            return 2 * super().forward(inputs)

    model.decoder[0].feed_forward.hidden = Doubled(8, 16).double()


def without_norm(model):
    model.decoder[0].feed_forward_norm.norm = nn.Identity()


@pytest.mark.parametrize("edit", [gated, another_alignment, hooked, another_class, without_norm])
def test_an_edited_model_is_decoded_by_its_own_code(edit):
    model = make_transformer()
    source, target = PaddedTokens.from_lists(SOURCE), PaddedTokens.from_lists(TARGET)
    with torch.inference_mode():
        assert isinstance(take_steps(fuse(model), source, target)[0], FusedEncoded)
    edit(model)
    readable = take_steps(model, source, target)
    with torch.inference_mode():
        encoded, logits, _ = take_steps(fuse(model), source, target)
    assert not isinstance(encoded, FusedEncoded)
    assert logits.allclose(readable[1], atol=1e-12)


def test_training_mode_runs_the_models_own_code():
    model = make_transformer()
    model.decoder[0].feed_forward.train()
    with torch.inference_mode():
        assert not isinstance(fuse(model).encode(PaddedTokens.from_lists(SOURCE)), FusedEncoded)


@pytest.mark.parametrize("score", ["additive", "gaussian"])
def test_another_score_runs_the_models_own_code(score):
    with torch.inference_mode():
        model = fuse(make_transformer(score=score))
        assert not isinstance(model.encode(PaddedTokens.from_lists(SOURCE)), FusedEncoded)
        assert model.unsupported_reasons() == [f"the score is {score!r}, and fused steps support 'scaled_dot'"]


def test_readable_and_fused_steps_may_alternate():
    model = make_transformer()
    fused, tokens = fuse(model), torch.tensor([1, 1, 1])
    with torch.no_grad():
        encoded = fused.encode(PaddedTokens.from_lists(SOURCE))
        first = fused.step(tokens, fused.start(encoded), encoded)
        with trace(model) as maps:
            recorded = fused.step(tokens, fused.start(encoded), encoded)
            fused.step(tokens, first.state, encoded)
        assert len(maps["decoder.0.cross_attention"]) == 2
        assert recorded.logits.allclose(first.logits, atol=1e-12)
        mixed = fused.step(tokens, model.step(tokens, first.state, encoded).state, encoded)
        same = fused.step(tokens, fused.step(tokens, first.state, encoded).state, encoded)
        assert mixed.logits.allclose(same.logits, atol=1e-12)
        fewer = select_batch((encoded, first.state), torch.tensor([2, 0]))
        assert isinstance(fewer[0], FusedEncoded)
        second = fused.step(tokens[:2], fewer[1], fewer[0])
        assert second.logits.allclose(fused.step(tokens, first.state, encoded).logits[[2, 0]], atol=1e-12)
    gradients = fused.step(tokens, model.start(encoded), encoded)
    assert gradients.logits.allclose(first.logits, atol=1e-12)
    gradients.logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.decoder[0].self_attention.parameters())


def test_a_traced_model_is_decoded_by_its_own_code():
    model = make_transformer()
    with torch.inference_mode(), trace(model) as maps:
        encoded, _, _ = take_steps(fuse(model), PaddedTokens.from_lists(SOURCE), PaddedTokens.from_lists(TARGET))
    assert not isinstance(encoded, FusedEncoded)
    assert len(maps["decoder.0.self_attention"]) == 5


def test_autocast_runs_the_models_own_code():
    model = make_transformer().float()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        encoded, logits, _ = take_steps(fuse(model), PaddedTokens.from_lists(SOURCE), PaddedTokens.from_lists(TARGET))
    assert not isinstance(encoded, FusedEncoded)
    assert logits.isfinite().all()


@pytest.mark.cuda
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-10), (torch.float32, 1e-3), (torch.bfloat16, 0.5)])
def test_cuda_equals_readable_steps(dtype, atol):
    model = make_transformer().to("cuda", dtype)
    source, target = (one.to("cuda") for one in map(PaddedTokens.from_lists, (SOURCE, TARGET)))
    with torch.inference_mode():
        encoded, logits, _ = take_steps(fuse(model), source, target)
        assert isinstance(encoded, FusedEncoded)
        assert logits.allclose(take_steps(model, source, target)[1], atol=atol)


def test_a_hook_that_is_added_between_two_steps_is_called_from_the_next_encode_on():
    model, calls = make_transformer(), []
    fused = fuse(model)
    tokens = torch.tensor([1])
    with torch.inference_mode():
        encoded = fused.encode(PaddedTokens.from_lists([[4, 5, 2]]))
        state = fused.step(tokens, fused.start(encoded), encoded).state
        model.decoder[0].feed_forward.register_forward_hook(lambda *_: calls.append("hook"))
        fused.step(tokens, state, encoded)
        assert not calls
        encoded = fused.encode(PaddedTokens.from_lists([[4, 5, 2]]))
        fused.step(tokens, fused.start(encoded), encoded)
    assert calls == ["hook"]


def test_a_class_of_no_imported_module_is_a_reason():
    # as a file that importlib executes without an entry in sys.modules
    namespace = {"__name__": "not_imported", "nn": nn}
    exec("class Halved(nn.Identity):\n    def forward(self, inputs):\n        return inputs / 2\n", namespace)
    model = make_transformer()
    model.decoder[0].feed_forward.dropout = namespace["Halved"]()
    assert any("Halved" in reason for reason in unsupported_reasons(model))
