"""A `forward` that replaces a module's own is called, in decoding and in training, for every model of the tables.

While a trace is open, a model's own code calls its modules and attention forms its weights. Without a trace the same
modules must be called once their `forward` is replaced: a fast path leaves out a module only while it is as built.
"""

from dataclasses import fields

import pytest
import torch
from torch import nn

from regard import MultiHeadAttention, attend, trace, which_backend
from regard.attention.alignments import Softmax
from regard.attention.scores import Additive, ScaledDot
from regard.contracts import Batch, LengthLimit, PackedTokens, PaddedTokens, Segment
from regard.decoding import Generation, decode_all, generate
from regard.fused import fuse
from regard.layers import Readout, run_lstm
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.models.translation import TRANSLATION_MODELS
from regard.testing.language_models import TOKENS
from regard.testing.models import LABELS, SOURCES, TARGETS
from regard.training import ClassificationObjective, CropObjective, Objective
from tests.contracts import test_language_models, test_models, test_sentence_models

GENERATION = Generation(max_tokens=1, temperature=0.0, stop_ids=())
TRAINED = [name for name, entry in LANGUAGE_MODELS.items() if not entry.counts]


def translate(model):
    decode_all(fuse(model), SOURCES[:1], stack=PaddedTokens.from_lists, limit=LengthLimit(0, 1))


def learn_to_translate(model):
    source, target, labels = (PaddedTokens.from_lists(side[:2]) for side in (SOURCES, TARGETS, LABELS))
    Objective(model, fuse=fuse)(Batch(source=source, target=target, labels=labels.ids, num_tokens=5)).backward()


def write(model):
    generate(fuse(model), [[4, 5]], GENERATION)


def learn_to_write(model):
    fresh = torch.ones(2, dtype=torch.bool)
    segment = Segment(tokens=TOKENS[:2, :4], labels=TOKENS[:2, 1:5], fresh=fresh, num_tokens=8)
    CropObjective(model, fuse=fuse)(segment).backward()


def classify(model):
    with torch.no_grad():
        fuse(model)(test_sentence_models.labelled().sentences)


def learn_to_classify(model):
    ClassificationObjective(model, fuse=fuse)(test_sentence_models.labelled()).backward()


def replace_forward(module):
    """A forward of the instance that counts its calls."""
    calls, forward = [], module.forward

    def counting(*arguments, **named):
        calls.append(1)
        return forward(*arguments, **named)

    module.forward = counting
    return calls


def called_in_a_trace(model, run):
    """The paths of the modules that the model's own code calls."""
    paths = set()
    handles = [
        module.register_forward_pre_hook(lambda *_, path=path: paths.add(path))
        for path, module in model.named_modules()
    ]
    with trace(model):
        run(model)
    for handle in handles:
        handle.remove()
    # torch's own layers, such as an LSTM, have no method that a model could call in place of their forward
    return paths | {path for path, part in model.named_modules() if is_layer_of_torch(part)}


def is_layer_of_torch(part):
    has_parameters = next(part.parameters(recurse=False), None) is not None
    has_forward = type(part).forward is not nn.Module.forward
    return has_parameters and has_forward and type(part).__module__.startswith("torch.nn.modules")


def make_small(cases, table, name):
    """A model of one layer; of two where the last layer is treated differently."""
    layered = any(field.name == "num_layers" for field in fields(table[name].config))
    return cases.make(name, {"num_layers": 1} if layered and name != "transformer" else {})


def check_every_forward(model, run):
    ignored = []
    for path in sorted(called_in_a_trace(model, run)):
        module = model.get_submodule(path)
        calls = replace_forward(module)
        run(model)
        del module.forward
        if not calls:
            ignored.append(f"{path} ({type(module).__name__})")
    assert not ignored


@pytest.mark.parametrize("name", TRANSLATION_MODELS)
@pytest.mark.parametrize("run", [translate, learn_to_translate], ids=["decoding", "training"])
def test_translation(name, run, loops_on_cpu):
    check_every_forward(make_small(test_models, TRANSLATION_MODELS, name), run)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("run", [write, learn_to_write], ids=["decoding", "training"])
def test_language_modeling(name, run, loops_on_cpu):
    check_every_forward(make_small(test_language_models, LANGUAGE_MODELS, name), run)


@pytest.mark.parametrize("name", TEXT_CLASSIFICATION_MODELS)
@pytest.mark.parametrize("run", [classify, learn_to_classify], ids=["decoding", "training"])
def test_text_classification(name, run, loops_on_cpu):
    check_every_forward(make_small(test_sentence_models, TEXT_CLASSIFICATION_MODELS, name), run)


def doubled_forward(part):
    forward = part.forward
    part.forward = lambda *arguments, **named: forward(*arguments, **named) * 2


def doubled_by_a_hook(part):
    part.register_forward_hook(lambda module, arguments, output: output * 2)


EDITS = [doubled_forward, doubled_by_a_hook]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("num_queries", [5, 300])
def test_a_score_with_a_forward_or_a_hook_of_its_own_is_called(edit, num_queries):
    x = torch.randn(2, num_queries, 8)
    for score in (ScaledDot(), Additive(query_size=8, key_size=8, hidden_size=64)):
        edit(score)
        assert type(score).__name__ in str(which_backend(x, x, x, score=score))
        expected = attend(x, x, x, score=score, return_weights=True).context
        assert attend(x, x, x, score=score).context.allclose(expected, atol=1e-6)


def test_an_alignment_with_a_forward_of_its_own_is_called():
    x, align = torch.randn(2, 5, 8), Softmax()
    calls = replace_forward(align)
    attend(x, x, x, align=align)
    assert calls and "Softmax has a forward" in str(which_backend(x, x, x, align=align))


class Halved(ScaledDot):
    """Half of the scaled dot product, without a lowering of its own."""

    def forward(self, queries, keys):
        return super().forward(queries, keys) / 2


def test_a_subclass_that_defines_other_scores_is_not_lowered_as_its_base_class():
    x = torch.randn(2, 5, 8)
    expected = attend(x, x, x, score=Halved(), return_weights=True).context
    assert attend(x, x, x, score=Halved()).context.allclose(expected, atol=1e-6)
    assert "Halved defines forward" in str(which_backend(x, x, x, score=Halved()))


@pytest.mark.parametrize("edit", EDITS)
def test_packed_heads_call_an_edited_score(edit):
    heads = MultiHeadAttention(16, 1)
    packed = PackedTokens.from_lists([[1, 2, 3], [4, 5]])
    edit(heads.score)
    choice = heads.which_backend(torch.randn(5, 16), packed=packed)
    assert "ScaledDot has a forward or hooks of its own" in str(dict(choice.refused)["packed"])


@pytest.mark.parametrize("edit", EDITS)
def test_the_loss_of_an_edited_readout_is_that_of_its_logits(edit):
    readout, features = Readout(hidden_size=4, vocab_size=7), torch.randn(3, 4)
    labels = torch.tensor([2, 5, 0])
    edit(readout)
    logits = readout(features)
    for smoothing in (0.0, 0.1):
        expected = nn.functional.cross_entropy(
            logits, labels, ignore_index=0, reduction="sum", label_smoothing=smoothing
        )
        assert readout.loss(features, labels, label_smoothing=smoothing).allclose(expected, atol=1e-5)


def test_an_edited_lstm_is_called_with_the_texts_alone():
    lstm, inputs, lengths = nn.LSTM(3, 5, 2, batch_first=True), torch.randn(3, 4, 3), torch.tensor([2, 4, 1])
    expected = run_lstm(lstm, inputs, lengths=lengths)
    calls = replace_forward(lstm)
    actual = run_lstm(lstm, inputs, lengths=lengths)
    assert calls
    for ours, theirs in ((actual.outputs, expected.outputs), (actual.state.cell, expected.state.cell)):
        assert ours.allclose(theirs, atol=1e-6)
    assert actual.state.hidden.allclose(expected.state.hidden, atol=1e-6)


class Capped(Readout):
    """Logits within 3, as some models cap them."""

    def forward(self, features):
        return 3 * torch.tanh(super().forward(features) / 3)


def test_the_loss_of_a_readout_of_another_class_is_that_of_its_logits():
    readout, features = Capped(hidden_size=4, vocab_size=7), torch.randn(3, 4) * 10
    labels = torch.tensor([2, 5, 0])
    expected = nn.functional.cross_entropy(readout(features), labels, ignore_index=0, reduction="sum")
    assert readout.loss(features, labels).allclose(expected, atol=1e-5)


class Swapped(nn.LSTM):
    """An LSTM over other inputs."""

    def forward(self, inputs, state=None):
        return super().forward(inputs._replace(data=-inputs.data), state)


def test_an_lstm_of_another_class_is_called():
    lstm, inputs, lengths = Swapped(3, 5, 2, batch_first=True), torch.randn(3, 4, 3), torch.tensor([2, 4, 1])
    plain = nn.LSTM(3, 5, 2, batch_first=True)
    plain.load_state_dict(lstm.state_dict())
    expected = run_lstm(plain, -inputs, lengths=lengths)
    assert run_lstm(lstm, inputs, lengths=lengths).outputs.allclose(expected.outputs, atol=1e-6)


def test_an_lstm_without_biases_is_called():
    lstm, inputs = nn.LSTM(3, 5, 2, batch_first=True, bias=False), torch.randn(3, 4, 3)
    expected = run_lstm(lstm, inputs)
    actual = run_lstm(lstm, inputs, lengths=torch.tensor([4, 4, 4]))
    assert actual.outputs.allclose(expected.outputs, atol=1e-6)
    assert actual.state.cell.allclose(expected.state.cell, atol=1e-6)
