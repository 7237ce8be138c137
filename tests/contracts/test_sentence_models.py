"""What every classifier of sentences promises, over the table: a new entry is tested by being listed."""

from dataclasses import fields

import pytest
import torch
from torch import nn

from regard.contracts import UNK, Classifier, ClassifierOutput, Labelled, PaddedTokens
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.training.objectives import ClassificationObjective
from tests.contracts.listed import with_variants

TINY = {
    "vocab_size": 11,
    "num_classes": 3,
    "embedding_size": 6,
    "hidden_size": 8,
    "attention_size": 5,
    "num_rows": 4,
    "classifier_size": 7,
    "num_maps": 5,
    "num_layers": 2,
    "num_heads": 2,
    "feed_forward_size": 16,
}
"""Only those that a config has are set; everything else stays as published."""

SENTENCES = [[5, 6, 7, 8, 9, 4, 10], [3], [], [4, 10, 4, 7], [7, 8]]
LABELS = [0, 2, 1, 1, 0]

every_model = pytest.mark.parametrize(("name", "change"), with_variants(TEXT_CLASSIFICATION_MODELS))


def make_config(name, change, **more):
    config = TEXT_CLASSIFICATION_MODELS[name].config
    has = {field.name for field in fields(config)}
    return config(**{key: value for key, value in TINY.items() if key in has} | change | {"dropout": 0.0} | more)


def make(name, change, dtype=torch.float64, **more):
    """A small one with weights large enough that nothing drowns in the tolerance."""
    model = TEXT_CLASSIFICATION_MODELS[name].build(make_config(name, change, **more)).to(dtype)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


def labelled():
    return Labelled(sentences=PaddedTokens.from_lists(SENTENCES), labels=torch.tensor(LABELS), num_tokens=len(LABELS))


@every_model
def test_is_a_model_with_a_plain_config(name, change):
    model = make(name, change)
    assert isinstance(model, Classifier)
    assert model.config == make_config(name, change)
    for field in fields(model.config):
        assert isinstance(getattr(model.config, field.name), (int, float, bool, str, tuple)), field.name
    defaults = TEXT_CLASSIFICATION_MODELS[name].config()
    assert {"vocab_size", "num_classes", "dropout"} <= {field.name for field in fields(defaults)}


@every_model
@torch.no_grad()
def test_padding_and_company_change_nothing(name, change):
    model, sentences = make(name, change), PaddedTokens.from_lists(SENTENCES)
    together = model(sentences)
    assert together.logits.shape == (5, 3) and together.logits.isfinite().all()
    for row, words in enumerate(SENTENCES):
        alone = model(PaddedTokens.from_lists([words]))
        assert together.logits[row].allclose(alone.logits[0], atol=1e-10), (row, words)
        if together.weights is not None:
            assert together.weights[row, :, : len(words)].allclose(alone.weights[0], atol=1e-10), (row, words)
    padding = ~sentences.mask
    for wider in (sentences.ids.masked_fill(padding, 9), nn.functional.pad(sentences.ids, (0, 6))):
        other = model(PaddedTokens(wider, sentences.lengths))
        assert other.logits.allclose(together.logits, atol=1e-10), "what lies past a length means nothing"


@every_model
@torch.no_grad()
def test_the_rows_are_over_the_real_words(name, change):
    sentences = PaddedTokens.from_lists(SENTENCES)
    said = make(name, change)(sentences)
    assert isinstance(said, ClassifierOutput)
    assert (said.weights is not None) == TEXT_CLASSIFICATION_MODELS[name].attends
    if said.weights is not None:
        assert said.weights.shape[0] == 5 and said.weights.shape[2] == sentences.ids.shape[1]
        assert (said.weights.transpose(1, 2)[~sentences.mask] == 0).all()
        total = said.weights.sum(dim=-1)
        assert total.allclose((sentences.lengths > 0).double()[:, None].expand_as(total))


@every_model
@pytest.mark.parametrize("rows", [[[]], [[], []], [[3]]], ids=str)
def test_sentences_of_one_word_and_of_none(name, change, rows):
    model = make(name, change).train()
    said = model(PaddedTokens.from_lists(rows))
    loss = said.logits.logsumexp(dim=-1).sum() + (0 if said.penalty is None else said.penalty)
    loss.backward()
    assert loss.isfinite() and said.logits.shape == (len(rows), 3)
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())
    assert said.weights is None or said.weights.shape[2] == max(map(len, rows))


@every_model
def test_the_order_of_the_words_matters(name, change):
    model = make(name, change)
    assert not model(PaddedTokens.from_lists([[4, 5, 6]])).logits.allclose(
        model(PaddedTokens.from_lists([[6, 5, 4]])).logits, atol=1e-6
    )


@every_model
def test_dropout_acts_in_training_alone(name, change):
    model, plain, sentences = make(name, change, dropout=0.5), make(name, change), PaddedTokens.from_lists(SENTENCES)
    plain.load_state_dict(model.state_dict())
    assert model(sentences).logits.allclose(plain(sentences).logits, atol=1e-10)
    model.train()
    assert not torch.equal(model(sentences).logits, model(sentences).logits)


@every_model
@torch.no_grad()
def test_training_may_read_words_as_unknown(name, change):
    model, sentences = make(name, change, word_dropout=1.0), PaddedTokens.from_lists(SENTENCES)
    unknown = model(PaddedTokens(torch.full_like(sentences.ids, UNK), sentences.lengths)).logits
    assert not model(sentences).logits.allclose(unknown)
    assert model.train()(sentences).logits.allclose(unknown, atol=1e-10)
    with pytest.raises(ValueError, match=r"word_dropout is 1\.5, expected a share between 0 and 1"):
        make(name, change, word_dropout=1.5)


@every_model
@torch.no_grad()
def test_saved_and_loaded_gives_the_same(name, change):
    model, other, sentences = make(name, change), make(name, change), PaddedTokens.from_lists(SENTENCES)
    assert not other(sentences).logits.allclose(model(sentences).logits)
    other.load_state_dict({key: tensor.clone() for key, tensor in model.state_dict().items()})
    assert torch.equal(other(sentences).logits, model(sentences).logits)


@every_model
def test_every_parameter_learns(name, change):
    model = make(name, change).train()
    loss = ClassificationObjective(model, label_smoothing=0.1)(labelled())
    loss.backward()
    assert loss.isfinite()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), path
        assert (parameter.grad != 0).any(), path


@every_model
def test_the_loss_is_a_sum_over_the_sentences(name, change):
    objective = ClassificationObjective(make(name, change))
    parts = [
        objective(Labelled(sentences=PaddedTokens.from_lists([words]), labels=torch.tensor([label]), num_tokens=1))
        for words, label in zip(SENTENCES, LABELS, strict=True)
    ]
    assert torch.stack(parts).sum().allclose(objective(labelled()), atol=1e-10)


@every_model
def test_the_same_seed_draws_the_same_weights(name, change):
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append(TEXT_CLASSIFICATION_MODELS[name].build(make_config(name, change)).state_dict())
    assert all(torch.equal(tensor, drawn[1][key]) for key, tensor in drawn[0].items())
    assert not all(torch.equal(tensor, drawn[2][key]) for key, tensor in drawn[0].items())


@every_model
def test_starts_with_even_guesses(name, change):
    logits = (
        TEXT_CLASSIFICATION_MODELS[name]
        .build(make_config(name, change))
        .eval()(PaddedTokens.from_lists(SENTENCES))
        .logits
    )
    assert logits.isfinite().all() and logits.std() < 3, "as built, no class is a sure thing"


@every_model
def test_runs_under_autocast(name, change):
    model, sentences = make(name, change, torch.float32).train(), PaddedTokens.from_lists(SENTENCES)
    with torch.autocast("cpu", torch.bfloat16):
        loss = ClassificationObjective(model)(labelled())
        said = model(sentences)
    assert said.logits.float().allclose(model(sentences).logits, atol=0.3)
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.cuda
@every_model
def test_cuda_equals_cpu(name, change):
    model, sentences = make(name, change, torch.float32), PaddedTokens.from_lists(SENTENCES)
    expected = model(sentences).logits
    model.cuda()
    found = model(PaddedTokens(sentences.ids.cuda(), sentences.lengths.cuda())).logits
    assert found.cpu().allclose(expected, atol=1e-3)


@pytest.mark.cuda
@every_model
def test_the_host_is_never_waited_for(name, change):
    """Whatever a CUDA graph captures must not ask the device for a number."""
    model, batch = make(name, change, torch.float32).cuda(), labelled()
    on_device = Labelled(
        sentences=PaddedTokens(batch.sentences.ids.cuda(), batch.sentences.lengths.cuda()),
        labels=batch.labels.cuda(),
        num_tokens=5,
    )
    objective = ClassificationObjective(model.train())
    objective(on_device).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss = objective(on_device)
        loss.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert loss.isfinite()


def test_the_table_is_in_history_order():
    years = [entry.year for entry in TEXT_CLASSIFICATION_MODELS.values()]
    assert years == sorted(years)
