"""What every system promises, over the table: a new entry, or a new variant of one, is tested by being listed."""

from dataclasses import fields, is_dataclass

import pytest
import torch
from torch import nn

from regard.contracts import BOS, EOS, Model, PaddedTokens, Step, select_batch
from regard.models.translation import TRANSLATION_MODELS
from tests.contracts.listed import with_variants

TINY = {
    "source_vocab_size": 11,
    "target_vocab_size": 13,
    "embedding_size": 6,
    "hidden_size": 8,
    "num_layers": 2,
    "num_heads": 2,
    "feed_forward_size": 16,
    "alignment_size": 5,
    "maxout_size": 7,
    "max_width": 3,
    "kernel_size": 3,
    "max_length": 12,
    "window": 2,
    "shared_embeddings": False,
}
"""Only those that a config has are set; everything else stays as published."""

SOURCES = [[5, 6, 7, 8, 9, EOS], [EOS], [4, 10, 4, 7, EOS], [7, EOS], [9, 3, 5, EOS]]
TARGETS = [[BOS, 5, 6, 7], [BOS], [BOS, 12, 3, 4, 4, 5], [BOS, 8], [BOS, 7, 7, 11, 6]]

every_model = pytest.mark.parametrize(("name", "change"), with_variants(TRANSLATION_MODELS))


def make_config(name, change, **more):
    config = TRANSLATION_MODELS[name].config
    has = {field.name for field in fields(config)}
    return config(**{key: value for key, value in TINY.items() if key in has} | change | {"dropout": 0.0} | more)


def make(name, change, dtype=torch.float64, **more):
    """A small one with weights large enough that nothing drowns in the tolerance."""
    model = TRANSLATION_MODELS[name].build(make_config(name, change, **more)).to(dtype)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


def steps(model, encoded, tokens):
    state, done = model.start(encoded), []
    for token in tokens.unbind(dim=1):
        done.append(model.step(token, state, encoded))
        state = done[-1].state
    return done


def tensors(nest):
    if isinstance(nest, torch.Tensor):
        return [nest]
    if is_dataclass(nest):
        return [found for field in fields(nest) for found in tensors(getattr(nest, field.name))]
    values = nest.values() if isinstance(nest, dict) else nest if isinstance(nest, (tuple, list)) else ()
    return [found for value in values for found in tensors(value)]


@every_model
def test_is_a_model_with_a_plain_config(name, change):
    model = make(name, change)
    assert isinstance(model, Model)
    assert model.config == make_config(name, change)
    for field in fields(model.config):
        assert isinstance(getattr(model.config, field.name), (int, float, bool, str)), field.name
    defaults = TRANSLATION_MODELS[name].config()
    assert {"source_vocab_size", "target_vocab_size", "dropout"} <= {field.name for field in fields(defaults)}


@every_model
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)], ids=str)
def test_repeated_step_equals_forward(name, change, dtype, tolerance):
    model, source, target = (
        make(name, change, dtype),
        PaddedTokens.from_lists(SOURCES),
        PaddedTokens.from_lists(TARGETS),
    )
    with torch.no_grad():
        logits = model(source, target)
        done = steps(model, model.encode(source), target.ids)
        assert logits.shape == (*target.ids.shape, 13) and logits.dtype == dtype
        # past a row's end nothing is meant by them
        real = target.mask
        said = torch.stack([step.logits for step in done], dim=1)
        again = model.readout(model.features(source, target).features)
        assert said[real].allclose(logits[real], atol=tolerance, rtol=tolerance)
        assert again[real].allclose(logits[real], atol=tolerance, rtol=tolerance)


@every_model
@torch.no_grad()
def test_padding_and_company_change_nothing(name, change):
    model, source, target = make(name, change), PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    together = model(source, target)
    for row, (words, said) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = model(PaddedTokens.from_lists([words]), PaddedTokens.from_lists([said]))
        assert together[row, : len(said)].allclose(alone[0], atol=1e-10), (row, words)
    padding = torch.arange(source.ids.shape[1]) >= source.lengths[:, None]
    for wider in (source.ids.masked_fill(padding, 9), nn.functional.pad(source.ids, (0, 3))):
        other = model(PaddedTokens(wider, source.lengths), target)
        assert other.allclose(together, atol=1e-10), "what lies past a length means nothing"


@every_model
@torch.no_grad()
def test_rows_can_be_kept_dropped_and_repeated(name, change):
    model, source, target = make(name, change), PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    encoded = model.encode(source)
    state = steps(model, encoded, target.ids[:, :2])[-1].state
    rows, token = torch.tensor([4, 4, 0, 2]), target.ids[:, 2]
    whole = model.step(token, state, encoded)
    chosen = model.step(token[rows], select_batch(state, rows), select_batch(encoded, rows))
    assert chosen.logits.allclose(whole.logits[rows], atol=1e-10)
    if whole.alignment is not None:
        assert chosen.alignment.allclose(whole.alignment[rows], atol=1e-10)


@every_model
@torch.no_grad()
def test_the_alignment_is_over_the_real_source(name, change):
    model, source, target = make(name, change), PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    for done in steps(model, model.encode(source), target.ids):
        assert isinstance(done, Step)
        assert (done.alignment is not None) == TRANSLATION_MODELS[name].attends
        if done.alignment is not None:
            assert done.alignment.shape == source.ids.shape
            assert (done.alignment[~source.mask] == 0).all()
            total = done.alignment.sum(dim=-1)
            local = any("local" in str(value) for value in change.values())
            assert (total <= 1 + 1e-10).all() if local else total.allclose(torch.ones_like(total))


@every_model
def test_dropout_acts_in_training_alone(name, change):
    model, source, target = (
        make(name, change, dropout=0.5),
        PaddedTokens.from_lists(SOURCES),
        PaddedTokens.from_lists(TARGETS),
    )
    plain = make(name, change)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(source, target), model(source, target))
    assert model(source, target).allclose(plain(source, target), atol=1e-10)
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


@every_model
@torch.no_grad()
def test_saved_and_loaded_gives_the_same(name, change):
    model, source, target = make(name, change), PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    other = make(name, change)
    assert not other(source, target).allclose(model(source, target))
    other.load_state_dict({key: tensor.clone() for key, tensor in model.state_dict().items()})
    assert torch.equal(other(source, target), model(source, target))


@every_model
def test_every_parameter_learns(name, change):
    model, source, target = (
        make(name, change).train(),
        PaddedTokens.from_lists(SOURCES),
        PaddedTokens.from_lists(TARGETS),
    )
    labels = PaddedTokens.from_lists([[*said[1:], EOS] for said in TARGETS]).ids
    loss = model.readout.loss(model.features(source, target).features, labels)
    loss.backward()
    assert loss.isfinite()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), path
        assert (parameter.grad != 0).any(), path


@every_model
def test_the_same_seed_draws_the_same_weights(name, change):
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append(TRANSLATION_MODELS[name].build(make_config(name, change)).state_dict())
    assert all(torch.equal(tensor, drawn[1][key]) for key, tensor in drawn[0].items())
    assert not all(torch.equal(tensor, drawn[2][key]) for key, tensor in drawn[0].items())


@every_model
def test_starts_with_even_guesses(name, change):
    model = TRANSLATION_MODELS[name].build(make_config(name, change)).eval()
    logits = model(PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS))
    assert logits.isfinite().all() and logits.std() < 3, "as built, no token is a sure thing"


@every_model
def test_runs_under_autocast(name, change):
    model, source, target = (
        make(name, change, torch.float32).train(),
        PaddedTokens.from_lists(SOURCES),
        PaddedTokens.from_lists(TARGETS),
    )
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(source, target)
        done = steps(model, model.encode(source), target.ids)
    assert logits.float().allclose(model(source, target), atol=0.3)
    whole = target.mask[:, -1]
    assert done[-1].logits[whole].float().allclose(logits[whole, -1].float(), atol=0.3)
    logits.float().sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@every_model
@torch.no_grad()
def test_nothing_is_kept_on_the_modules(name, change):
    model, source, target = make(name, change), PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)

    def held():
        return {
            (path, key)
            for path, module in model.named_modules()
            for key, value in vars(module).items()
            if not key.startswith("_") and tensors(value)
        }

    before = held()
    model(source, target)
    steps(model, model.encode(source), target.ids)
    assert held() == before


@pytest.mark.cuda
@every_model
def test_cuda_equals_cpu(name, change):
    model, source, target = (
        make(name, change, torch.float32),
        PaddedTokens.from_lists(SOURCES),
        PaddedTokens.from_lists(TARGETS),
    )
    expected = model(source, target)
    model.cuda()
    found = model(*(PaddedTokens(rows.ids.cuda(), rows.lengths.cuda()) for rows in (source, target)))
    # where a row has ended a CPU drops it from its loops, and a GPU goes on
    assert found.cpu()[target.mask].allclose(expected[target.mask], atol=1e-3)


def test_the_table_is_in_history_order():
    years = [entry.year for entry in TRANSLATION_MODELS.values()]
    assert years == sorted(years)
