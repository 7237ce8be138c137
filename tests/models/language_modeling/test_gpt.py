"""GPT: the logits of GPT-2, and equal logits for any pieces of a text, also of a long one."""

import pytest
import torch
from torch import nn

from benchmarks.gpt_peer import same_gpt2
from regard.contracts import LanguageModel, select_batch
from regard.kernels.dot import sdpa
from regard.models.language_modeling.gpt import GPT, GPT_POSITIONS, GPTConfig

CONTEXT = 7


def tiny(*, std=0.3, **changes):
    sizes = {"vocab_size": 23, "hidden_size": 16, "num_layers": 2, "num_heads": 4, "feed_forward_size": 24}
    model = GPT(GPTConfig(**(sizes | {"context": CONTEXT} | changes))).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    return model


def text(*shape):
    return torch.randint(0, 23, shape)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_logits_equal_those_of_transformers(dtype, atol):
    model = tiny(context=20).to(dtype)
    tokens = text(3, 20)
    with torch.no_grad():
        assert model(tokens).allclose(same_gpt2(model)(tokens).logits, rtol=0, atol=atol)


@pytest.mark.parametrize("positions", GPT_POSITIONS)
@pytest.mark.parametrize("inference", [False, True])
def test_any_pieces_give_equal_logits(positions, inference):
    model, tokens = tiny(positions=positions), text(2, 31)
    assert isinstance(model, LanguageModel)
    with torch.inference_mode(inference):
        whole = model(tokens)
        for sizes in ([1] * 31, [4, 0, 3, 1, 12, 11], [7, 7, 7, 10], [30, 1]):
            state, actual = model.start(2), []
            for piece in tokens.split(sizes, dim=1):
                output = model.features(piece, state)
                actual.append(model.readout(output.features))
                state = output.state
            assert torch.cat(actual, dim=1).allclose(whole, rtol=0, atol=1e-10)
        state = model.start(2)
        for place, token in enumerate(tokens.unbind(1)):
            step = model.step(token, state)
            state = step.state
            assert step.logits.allclose(whole[:, place], rtol=0, atol=1e-10)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@pytest.mark.parametrize("context", [1, 2, 7])
def test_a_full_context_continues_from_its_last_half(positions, context):
    model, tokens = tiny(positions=positions, context=context), text(2, 20)
    whole, first = model(tokens), 0
    for place in range(20):
        if place - first == context:
            first = place - context // 2
        alone = model(tokens[:, first : place + 1])[:, -1]
        assert whole[:, place].allclose(alone, rtol=0, atol=1e-10)


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_a_window_slides_without_limit(positions):
    # one layer attends as far as the window; positions inside the heads depend on the distance only
    model, tokens = tiny(positions=positions, num_layers=1), text(2, 20)
    whole = model(tokens)
    for place in range(20):
        alone = model(tokens[:, max(place + 1 - CONTEXT, 0) : place + 1])[:, -1]
        assert whole[:, place].allclose(alone, rtol=0, atol=1e-10)


@pytest.mark.parametrize("positions", GPT_POSITIONS)
def test_selected_rows_of_a_state_continue_their_text(positions):
    model, tokens = tiny(positions=positions), text(4, 12)
    rows = torch.tensor([2, 0, 2])
    state = select_batch(model.features(tokens[:, :9], model.start(4)).state, rows)
    actual = model.readout(model.features(tokens[rows, 9:], state).features)
    assert actual.allclose(model(tokens)[rows, 9:], rtol=0, atol=1e-10)


def test_a_state_may_be_continued_twice():
    model, tokens = tiny(), text(1, 5)
    with torch.inference_mode():
        state = model.features(tokens[:, :4], model.start(1)).state
        once = model.step(tokens[:, 4], state).logits
        model.step(tokens[:, 0], state)
        assert torch.equal(model.step(tokens[:, 4], state).logits, once)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
def test_a_text_within_the_context_is_one_fused_pass(positions, monkeypatch):
    calls, real = [], sdpa.F.scaled_dot_product_attention

    def counting(queries, *arguments, **named):
        calls.append((queries.shape[-2], named.get("is_causal")))
        return real(queries, *arguments, **named)

    monkeypatch.setattr(sdpa.F, "scaled_dot_product_attention", counting)
    model = tiny(positions=positions, dropout=0.1).train()
    model.readout.loss(model.features(text(2, CONTEXT), model.start(2)).features, text(2, CONTEXT)).backward()
    assert calls == [(CONTEXT, True)] * 2
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_default_is_gpt2_small():
    with torch.device("meta"):
        model = GPT(GPTConfig())
    assert sum(parameter.numel() for parameter in model.parameters()) == 124_439_808


def test_initial_weights():
    model = GPT(GPTConfig(vocab_size=500, hidden_size=64, num_layers=8, num_heads=2, feed_forward_size=256, context=64))
    assert model.readout.weight is model.embedding.weight
    layer = model.layers[3]
    for weight in (model.embedding.weight, model.positions.table.weight, layer.attention.key_proj.weight):
        assert weight.std().item() == pytest.approx(0.02, rel=0.05)
    for proj in (layer.attention.output_proj, layer.feed_forward.output):
        assert proj.weight.std().item() == pytest.approx(0.005, rel=0.05)
        assert not proj.bias.any()


def test_autocast_runs():
    model = tiny().float().train()
    with torch.autocast("cpu", torch.bfloat16):
        output = model.features(text(2, 5), model.start(2))
        assert model.features(text(2, 9), output.state).features.isfinite().all()


def test_invalid_settings_raise_errors():
    with pytest.raises(ValueError, match=r"positions is 'rotery', expected one of .* Did you mean 'rotary'\?"):
        GPT(GPTConfig(positions="rotery"))
    with pytest.raises(ValueError, match="context is 0, expected 1 token or more"):
        GPTConfig(context=0)
