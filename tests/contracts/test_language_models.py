"""What every language model promises, over the table: a new entry or variant is tested by being listed."""

from dataclasses import fields

import pytest
import torch
from torch import nn

from regard.contracts import EOS, LanguageModel, ModelOutput, Step, leaves, select_batch, where_batch
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.language_modeling.ngram import NGram
from tests.contracts.listed import with_variants

VOCAB = 13
TINY = {
    "vocab_size": VOCAB,
    "embedding_size": 6,
    "hidden_size": 8,
    "num_layers": 2,
    "num_heads": 2,
    "feed_forward_size": 16,
    "max_length": 32,
    "context": 32,
    "window": 3,
    "span": 3,
}
"""Only those that a config has are set; everything else stays as published."""

ROLLING = {"mlp", "lstm", "lstmn", "attention", "key_value", "key_value_predict", "ngram_rnn"}
"""Models whose state has one shape, however much was read."""

TOKENS = torch.tensor(
    [
        [5, 6, 7, 8, EOS, 9, 10, 4, 4],
        [EOS, EOS, 4, 10, 4, 7, 11, 5, 12],
        [7, 3, 9, EOS, 5, 6, 6, EOS, 8],
        [12, 11, 10, 9, 8, 7, 6, 5, EOS],
    ]
)


def counted(config):
    """N-grams are counted from a text; the tables have the precision that they have."""

    return NGram.count(torch.cat([TOKENS.flatten(), TOKENS.flip(0).flatten()]), config)


BUILDERS = {"ngram": counted}
"""Models that are made otherwise than by `build(config)`."""

every_model = pytest.mark.parametrize(("name", "change"), with_variants(LANGUAGE_MODELS))


def make_config(name, change, **more):
    config = LANGUAGE_MODELS[name].config
    has = {field.name for field in fields(config)}
    tied = {"embedding_size": TINY["hidden_size"]} if change.get("tied") else {}
    given = TINY | tied | {"dropout": 0.0} | more
    return config(**{key: value for key, value in given.items() if key in has} | change)


def make(name, change, dtype=torch.float64, **more):
    """A small one with weights large enough that nothing drowns in the tolerance."""
    config = make_config(name, change, **more)
    if name in BUILDERS:
        return BUILDERS[name](config).eval()
    model = LANGUAGE_MODELS[name].build(config).to(dtype)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


def steps(model, tokens, state):
    done = []
    for token in tokens.unbind(dim=1):
        done.append(model.step(token, state))
        state = done[-1].state
    return done


def read_in_pieces(model, sizes):
    state, features = model.start(len(TOKENS)), []
    for piece in TOKENS.split(sizes, dim=1):
        done = model.read(piece, state)
        state = done.state
        features.append(done.features)
    return ModelOutput(features=torch.cat(features, dim=1), state=state)


def close(found, expected, tolerance=1e-10):
    assert found.shape == expected.shape
    return found.allclose(expected, atol=tolerance, rtol=tolerance)


def same_state(one, other):
    pairs = list(zip(leaves(one), leaves(other), strict=True))
    return all(close(a, b) if a.is_floating_point() else torch.equal(a.to(b.dtype), b) for a, b in pairs)


@every_model
def test_is_a_language_model_with_a_plain_config(name, change):
    model = make(name, change)
    assert isinstance(model, LanguageModel)
    for field in fields(model.config):
        assert isinstance(getattr(model.config, field.name), (int, float, bool, str, tuple)), field.name
    if any(True for _ in model.parameters()):
        assert model.config == make_config(name, change)
        assert {"vocab_size", "hidden_size", "dropout"} <= {field.name for field in fields(model.config)}
    assert LANGUAGE_MODELS[name].config() == LANGUAGE_MODELS[name].config()


@every_model
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)], ids=str)
@torch.no_grad()
def test_repeated_step_equals_read_equals_forward(name, change, dtype, tolerance):
    model = make(name, change, dtype)
    logits = model(TOKENS)
    assert logits.shape == (*TOKENS.shape, VOCAB) and logits.isfinite().all()
    done = steps(model, TOKENS, model.start(len(TOKENS)))
    assert all(isinstance(step, Step) for step in done)
    assert close(torch.stack([step.logits for step in done], dim=1), logits, tolerance)
    read = model.read(TOKENS, model.start(len(TOKENS)))
    assert isinstance(read, ModelOutput)
    assert close(model.readout(read.features), logits, tolerance)


@every_model
@torch.no_grad()
def test_read_in_pieces_equals_read_at_once(name, change):
    model, length = make(name, change), TOKENS.shape[1]
    whole = model.read(TOKENS, model.start(len(TOKENS)))
    for sizes in ([1, 8], [4, 5], [8, 1], [2, 3, 4], [1] * length):
        pieces = read_in_pieces(model, sizes)
        assert close(pieces.features, whole.features), sizes
        assert same_state(pieces.state, whole.state), sizes


@every_model
@torch.no_grad()
def test_a_piece_may_be_empty(name, change):
    model = make(name, change)
    before = model.read(TOKENS[:, :3], model.start(len(TOKENS)))
    for state in (model.start(len(TOKENS)), before.state):
        done = model.read(TOKENS[:, :0], state)
        assert done.features.shape == (len(TOKENS), 0, before.features.shape[2])
        assert same_state(done.state, state)


@every_model
@torch.no_grad()
def test_rows_can_be_kept_dropped_and_repeated(name, change):
    model, rows = make(name, change), torch.tensor([3, 3, 0, 1, 3])
    state = model.read(TOKENS[:, :4], model.start(len(TOKENS))).state
    whole = model.read(TOKENS[:, 4:], state)
    chosen = model.read(TOKENS[rows, 4:], select_batch(state, rows))
    assert close(chosen.features, whole.features[rows])
    assert same_state(chosen.state, select_batch(whole.state, rows))


@every_model
@torch.no_grad()
def test_company_changes_nothing(name, change):
    model = make(name, change)
    together = model(TOKENS)
    for row in range(len(TOKENS)):
        assert close(model(TOKENS[row : row + 1])[0], together[row])


@every_model
@torch.no_grad()
def test_what_comes_later_changes_nothing(name, change):
    model, other = make(name, change), TOKENS.clone()
    other[:, 6:] = 3
    assert close(model(other)[:, :6], model(TOKENS)[:, :6])


@pytest.mark.parametrize("name", [name for name in LANGUAGE_MODELS if name in ROLLING])
@torch.no_grad()
def test_a_fresh_row_begins_anew(name):
    model, fresh = make(name, {}), torch.tensor([True, False, False, True])
    start = model.start(len(TOKENS))
    state = model.read(TOKENS[:, :5], start).state
    mixed = where_batch(fresh, start, state)
    done = model.read(TOKENS[:, 5:], mixed).features
    expected = [model.read(TOKENS[:, 5:], begun).features for begun in (start, state)]
    assert close(done[fresh], expected[0][fresh]) and close(done[~fresh], expected[1][~fresh])


@pytest.mark.parametrize("name", [name for name in LANGUAGE_MODELS if name in ROLLING])
@torch.no_grad()
def test_a_state_keeps_its_shape(name):
    model = make(name, {})
    start = model.start(len(TOKENS))
    expected = [(tensor.shape, tensor.dtype) for tensor in leaves(start)]
    for length in (1, 2, 9):
        state = model.read(TOKENS[:, :length], start).state
        assert [(tensor.shape, tensor.dtype) for tensor in leaves(state)] == expected


@every_model
def test_every_parameter_learns(name, change):
    model = make(name, change).train()
    if not any(True for _ in model.parameters()):
        assert name in BUILDERS, "what has nothing to learn was counted"
        return
    # the second piece: what a state alone brings in must learn too
    state = model.read(TOKENS[:, :4], model.start(len(TOKENS))).state
    loss = model.readout.loss(model.read(TOKENS[:, 4:-1], state).features, TOKENS[:, 5:])
    loss.backward()
    assert loss.isfinite()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), path
        assert (parameter.grad != 0).any(), path


@every_model
def test_pieces_learn_what_the_whole_does(name, change):
    model = make(name, change)
    parameters = dict(model.named_parameters())
    if not parameters:
        assert name in BUILDERS, "what has nothing to learn was counted"
        return
    found = []
    for sizes in ([9], [2, 3, 4]):
        loss = read_in_pieces(model, sizes).features.square().sum()
        found.append(torch.autograd.grad(loss, list(parameters.values()), allow_unused=True))
    for path, whole, pieces in zip(parameters, *found, strict=True):
        assert (whole is None) == (pieces is None), path
        assert whole is None or close(pieces, whole, 1e-9), path


@every_model
def test_dropout_acts_in_training_alone(name, change):
    model = make(name, change, dropout=0.5)
    plain = make(name, change)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(TOKENS), model(TOKENS))
    assert close(model(TOKENS), plain(TOKENS))
    if name not in BUILDERS:
        model.train()
        assert not torch.equal(model(TOKENS), model(TOKENS))


@every_model
@torch.no_grad()
def test_saved_and_loaded_gives_the_same(name, change):
    model, other = make(name, change), make(name, change)
    other.load_state_dict({key: tensor.clone() for key, tensor in model.state_dict().items()})
    assert torch.equal(other(TOKENS), model(TOKENS))


@every_model
def test_starts_with_even_guesses(name, change):
    counted_out = name in BUILDERS
    model = make(name, change) if counted_out else LANGUAGE_MODELS[name].build(make_config(name, change)).eval()
    probabilities = model(TOKENS).softmax(dim=-1)
    assert probabilities.isfinite().all()
    assert close(probabilities.sum(dim=-1).double(), torch.ones(TOKENS.shape, dtype=torch.float64), 1e-5)
    assert counted_out or probabilities.max() < 0.99, "as built, no token is a sure thing"


@every_model
def test_runs_under_autocast(name, change):
    model = make(name, change, torch.float32).train()
    with torch.autocast("cpu", torch.bfloat16):
        half = model.read(TOKENS[:, :4], model.start(len(TOKENS)))
        rest = model.read(TOKENS[:, 4:], half.state)
        logits = model.readout(torch.cat([half.features, rest.features], dim=1))
        done = steps(model, TOKENS, model.start(len(TOKENS)))
    assert logits.float().allclose(model(TOKENS).float(), atol=0.3)
    assert done[-1].logits.float().allclose(logits[:, -1].float(), atol=0.3)
    if logits.requires_grad:
        logits.float().sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@every_model
@torch.no_grad()
def test_nothing_is_kept_on_the_modules(name, change):
    model = make(name, change)

    def held():
        return {
            (path, key)
            for path, module in model.named_modules()
            for key, value in vars(module).items()
            if not key.startswith("_") and isinstance(value, (torch.Tensor, list, tuple)) and len(value)
        }

    before = held()
    model(TOKENS)
    steps(model, TOKENS, model.start(len(TOKENS)))
    assert held() == before


@pytest.mark.cuda
@every_model
@torch.no_grad()
def test_cuda_equals_cpu(name, change):
    model = make(name, change, torch.float32)
    expected = model(TOKENS)
    model.cuda()
    assert model(TOKENS.cuda()).cpu().allclose(expected, atol=1e-3)


def test_the_table_is_in_history_order():
    years = [entry.year for entry in LANGUAGE_MODELS.values()]
    assert years == sorted(years)
