"""TTT-Linear as a language model: its state, its size, and its training."""

import pytest
import torch

from regard.contracts import leaves, select_batch
from regard.models.language_modeling.ttt import TTTLanguageConfig, TTTLanguageModel

SMALL = {"vocab_size": 13, "hidden_size": 8, "num_layers": 2, "num_heads": 2, "feed_forward_size": 16, "mini_batch": 4}


def make(**changes):
    model = TTTLanguageModel(TTTLanguageConfig(**{**SMALL, **changes})).double().eval()
    for block in model.blocks:
        # large rates, so that updates have a visible effect
        torch.nn.init.normal_(block.mixer.learner.first, std=0.5)
        block.mixer.base_rate = 4.0
    return model


@pytest.mark.parametrize("inner", ["normed", "bare"])
def test_steps_pieces_and_selected_rows_equal_the_whole(inner):
    model = make(inner=inner)
    tokens = torch.randint(4, 13, (3, 11))
    whole = model.features(tokens, model.start(3))
    logits = model(tokens)
    state, steps = model.start(3), []
    for column in tokens.unbind(dim=1):
        output = model.step(column, state)
        state = output.state
        steps.append(output.logits)
    assert torch.stack(steps, dim=1).allclose(logits, atol=1e-10, rtol=0)
    for stepped, whole_output in zip(leaves(state), leaves(whole.state), strict=True):
        assert stepped.allclose(whole_output, atol=1e-10, rtol=0)
    first = model.features(tokens[:, :6], model.start(3))
    rest = model.features(tokens[[2, 0], 6:], select_batch(first.state, torch.tensor([2, 0])))
    assert rest.features.allclose(whole.features[[2, 0], 6:], atol=1e-10, rtol=0)
    assert model(tokens[1:2]).allclose(logits[1:2], atol=1e-10, rtol=0)


def test_the_state_keeps_its_shapes_and_depends_on_the_first_token():
    model = make()
    shapes = [leaf.shape for leaf in leaves(model.start(2))]
    assert shapes == [(2, 2, 5, 4), (2, 2, 5, 4), (2,)] * 2
    tokens = torch.randint(4, 13, (2, 9))
    assert [leaf.shape for leaf in leaves(model.features(tokens, model.start(2)).state)] == shapes
    changed = tokens.clone()
    changed[:, 0] = 16 - changed[:, 0]
    assert not model(changed)[:, -1].allclose(model(tokens)[:, -1], atol=1e-4)
    assert model(tokens[:, :0]).shape == (2, 0, 13)


def test_the_published_size():
    with torch.device("meta"):
        model = TTTLanguageModel(TTTLanguageConfig())
    # tied embedding 24.6M and 12 blocks of about 7.1M
    assert sum(parameter.numel() for parameter in model.parameters()) == pytest.approx(125e6, rel=0.15)


def test_training_decreases_the_loss():
    """A repetitive text: each token predicts the next."""
    model = TTTLanguageModel(TTTLanguageConfig(**SMALL))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    tokens = torch.randint(4, 13, (4, 5)).repeat(1, 3)
    losses = []
    for _ in range(30):
        whole_output = model.features(tokens[:, :-1], model.start(4))
        loss = model.readout.loss(whole_output.features, tokens[:, 1:]) / tokens[:, 1:].numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_invalid_configs_are_refused():
    with pytest.raises(ValueError, match="inner is 'normd', expected one of normed, bare"):
        make(inner="normd")
    with pytest.raises(ValueError, match="does not divide into 3 heads"):
        make(num_heads=3)
