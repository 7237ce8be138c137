"""Every check of a model fails on a model that breaks it, and names what is wrong."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from regard.contracts import ClassifierOutput, ModelOutput, PaddedTokens, leaves, map_tensors
from regard.models.language_modeling import LSTMLanguageConfig, LSTMLanguageModel
from regard.models.text_classification import (
    StructuredSelfAttention,
    StructuredSelfAttentionConfig,
)
from regard.models.translation import Luong, LuongConfig, Transformer, TransformerConfig
from regard.testing import (
    CLASSIFIER_CHECKS,
    LANGUAGE_MODEL_CHECKS,
    MODEL_CHECKS,
    ClassifierCase,
    LanguageModelCase,
    TranslationCase,
    check_classifier,
    check_language_model,
    check_model,
)

SIZES = {"source_vocab_size": 11, "target_vocab_size": 13, "embedding_size": 6, "hidden_size": 8, "num_layers": 1}
TRANSLATION = LuongConfig(**SIZES)
PACKED = TransformerConfig(
    source_vocab_size=11,
    target_vocab_size=13,
    hidden_size=8,
    num_layers=1,
    num_heads=2,
    feed_forward_size=16,
    shared_embeddings=False,
)
LANGUAGE = LSTMLanguageConfig(vocab_size=13, embedding_size=6, hidden_size=8, num_layers=1)
CLASSIFIER = StructuredSelfAttentionConfig(
    vocab_size=11, num_classes=3, embedding_size=6, hidden_size=8, attention_size=5, num_rows=2, classifier_size=7
)


def find(checks, name):
    (check,) = (check for check in checks if check.__name__ == name)
    return check


def scaled(step, factor):
    return replace(step, logits=step.logits * factor)


class ChangedConfig(Luong):
    def __init__(self, config):
        super().__init__(replace(config, hidden_size=8))
        self.config = replace(config, dropout=0.9)


class NoStart(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config


class NotSaved(Luong):
    def __init__(self, config):
        super().__init__(config)
        self.factor = torch.rand(()) + 1

    def forward(self, source, target):
        return super().forward(source, target) * self.factor


class IdleParameter(Luong):
    def __init__(self, config):
        super().__init__(config)
        self.idle = nn.Parameter(torch.zeros(3))


class NoDropout(Luong):
    def __init__(self, config):
        super().__init__(replace(config, dropout=0.0))


class DropoutEverywhere(Luong):
    def forward(self, source, target):
        return nn.functional.dropout(super().forward(source, target), 0.5)


class OwnSeed(Luong):
    def __init__(self, config):
        super().__init__(config)
        generator = torch.Generator()
        generator.seed()
        nn.init.normal_(self.readout.weight, generator=generator)


class NoSeed(Luong):
    def __init__(self, config):
        super().__init__(config)
        for parameter in self.parameters():
            nn.init.constant_(parameter, 0.1)


class SureOfItself(Luong):
    def forward(self, source, target):
        return super().forward(source, target) * 1e5


class DependsOnAutocast(Luong):
    def forward(self, source, target):
        return super().forward(source, target) + torch.is_autocast_enabled("cpu")


class Stores(Luong):
    def step(self, tokens, state, encoded):
        step = super().step(tokens, state, encoded)
        self.last = step.logits
        return step


class ChangesABuffer(Luong):
    def __init__(self, config):
        super().__init__(config)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, source, target):
        self.calls += 1
        return super().forward(source, target)


class DependsOnTheDevice(Luong):
    def forward(self, source, target):
        return super().forward(source, target) * (2 if source.ids.is_cuda else 1)


class OtherStep(Luong):
    def step(self, tokens, state, encoded):
        return scaled(super().step(tokens, state, encoded), 1.01)


class OtherFeatures(Luong):
    def forward(self, source, target):
        return super().forward(source, target) * 1.01

    def step(self, tokens, state, encoded):
        return scaled(super().step(tokens, state, encoded), 1.01)


class DependsOnTheBatch(Luong):
    def forward(self, source, target):
        return super().forward(source, target) * len(source.ids)


class AttendsToPadding(Luong):
    def encode(self, source):
        whole = PaddedTokens(source.ids, torch.full_like(source.lengths, source.ids.shape[1]))
        return super().encode(whole)


class DependsOnTheElement(Luong):
    def step(self, tokens, state, encoded):
        step = super().step(tokens, state, encoded)
        return replace(step, logits=step.logits + torch.arange(len(tokens))[:, None])


class WeightsOnPadding(Luong):
    def step(self, tokens, state, encoded):
        step = super().step(tokens, state, encoded)
        return replace(step, weights=torch.full_like(step.weights, 1 / step.weights.shape[1]))


class HalfOfTheWeights(Luong):
    def step(self, tokens, state, encoded):
        step = super().step(tokens, state, encoded)
        return replace(step, weights=step.weights / 2)


class OtherPacked(Transformer):
    def forward(self, source, target):
        logits = super().forward(source, target)
        return logits if isinstance(source, PaddedTokens) else logits * 1.01


MODEL_MUTANTS = [
    ("check_config", ChangedConfig, "the model's config is .*dropout=0.9"),
    ("check_config", NoStart, " is no Model: it lacks encode, start, step"),
    ("check_saved_and_loaded", NotSaved, "saved and loaded gives the same logits, but"),
    ("check_every_parameter_learns", IdleParameter, "the parameter idle has no gradient"),
    ("check_dropout", NoDropout, "in training dropout=0.5 has no effect"),
    ("check_dropout", DropoutEverywhere, "in evaluation the same input gives the same logits, but"),
    ("check_seed", OwnSeed, "the same seed draws other weights: readout.weight"),
    ("check_seed", NoSeed, "another seed draws the same weights"),
    ("check_first_guesses", SureOfItself, "the logits of a new model have the standard deviation"),
    ("check_autocast", DependsOnAutocast, "under autocast the logits are those of float32, but"),
    ("check_nothing_is_stored", Stores, "a call stores tensors on the modules: last"),
    ("check_nothing_is_stored", ChangesABuffer, "a call in evaluation mode changes calls"),
    pytest.param("check_cuda_equals_cpu", DependsOnTheDevice, "CUDA equals the CPU, but", marks=pytest.mark.cuda),
    ("check_steps_equal_forward", OtherStep, ": repeated step equals forward in torch.float32, but"),
    ("check_steps_equal_forward", OtherFeatures, "the readout of features equals forward in torch.float32, but"),
    ("check_batch_of_one", DependsOnTheBatch, "pair 0 alone gives what it gives in a batch, but"),
    ("check_padding", AttendsToPadding, "padding of the source has no effect, but"),
    ("check_batch_selection", DependsOnTheElement, "a step on selected batch elements equals the step on all, but"),
    ("check_attention_weights", WeightsOnPadding, "padding of the source has weight 0, but"),
    ("check_attention_weights", HalfOfTheWeights, "the weights of a step sum to one, but"),
]


@pytest.mark.parametrize(("name", "build", "sentence"), MODEL_MUTANTS)
def test_a_check_of_a_model_fails(name, build, sentence):
    with pytest.raises(AssertionError, match=f"{build.__name__}.*{sentence}"):
        find(MODEL_CHECKS, name)(TranslationCase(build=build, config=TRANSLATION))


def test_packed_batches_must_equal_padded_ones():
    with pytest.raises(AssertionError, match="OtherPacked: packed batches equal padded ones, but"):
        find(MODEL_CHECKS, "check_packed")(TranslationCase(build=OtherPacked, config=PACKED, packs=True))


class LanguageStep(LSTMLanguageModel):
    def step(self, tokens, state):
        return scaled(super().step(tokens, state), 1.01)


class ForgetsTheState(LSTMLanguageModel):
    def features(self, tokens, state):
        return super().features(tokens, self.start(len(tokens)))


class EmptyPieceChanges(LSTMLanguageModel):
    def features(self, tokens, state):
        output = super().features(tokens, state)
        return output if tokens.shape[1] else ModelOutput(features=output.features, state=self.start(len(tokens)))


class LanguageElement(LSTMLanguageModel):
    def features(self, tokens, state):
        output = super().features(tokens, state)
        return replace(output, features=output.features + torch.arange(len(tokens))[:, None, None])


class LanguageBatch(LSTMLanguageModel):
    def forward(self, tokens):
        return super().forward(tokens) * len(tokens)


class ReadsAhead(LSTMLanguageModel):
    def forward(self, tokens):
        return super().forward(tokens) * tokens.sum()


class SharesAState(LSTMLanguageModel):
    """The second element's features depend on whether the first one started again."""

    def features(self, tokens, state):
        output = super().features(tokens, state)
        first = sum(tensor[0].sum() for tensor in leaves(state))
        return replace(output, features=output.features + first)


class GrowingState(LSTMLanguageModel):
    def features(self, tokens, state):
        output = super().features(tokens, state)
        return replace(output, state=(output.state, tokens))


class StopsGradients(LSTMLanguageModel):
    def features(self, tokens, state):
        return super().features(tokens, map_tensors(torch.Tensor.detach, state))


LANGUAGE_MUTANTS = [
    ("check_steps_equal_forward", LanguageStep, "repeated step equals forward in torch.float32, but"),
    ("check_pieces", ForgetsTheState, r"reading pieces of \[1, 8\] tokens equals reading at once, but"),
    ("check_empty_piece", EmptyPieceChanges, "an empty piece leaves the state as it is, but"),
    ("check_batch_selection", LanguageElement, "reading with selected batch elements equals reading with all, but"),
    ("check_batch_of_one", LanguageBatch, "text 0 alone gives what it gives in a batch, but"),
    ("check_causality", ReadsAhead, "later tokens do not change earlier logits, but"),
    ("check_fresh_state", SharesAState, "a batch element that starts again does not change another, but"),
    ("check_state_shape", GrowingState, "after 1 tokens the state is"),
    ("check_gradients_in_pieces", StopsGradients, "in pieces is that of the whole, but"),
]


@pytest.mark.parametrize(("name", "build", "sentence"), LANGUAGE_MUTANTS)
def test_a_check_of_a_language_model_fails(name, build, sentence):
    case = LanguageModelCase(build=build, config=LANGUAGE, fixed_state=True)
    with pytest.raises(AssertionError, match=f"{build.__name__}.*{sentence}"):
        find(LANGUAGE_MODEL_CHECKS, name)(case)


def test_a_model_without_parameters_must_be_declared():
    class Nothing(LSTMLanguageModel):
        def parameters(self, recurse=True):
            return iter(())

        def named_parameters(self, *arguments, **options):
            return iter(())

    case = LanguageModelCase(build=Nothing, config=LANGUAGE)
    for name in ("check_every_parameter_learns", "check_gradients_in_pieces"):
        with pytest.raises(
            AssertionError, match="Nothing has no parameters; a model that is counted needs counts=True"
        ):
            find(LANGUAGE_MODEL_CHECKS, name)(case)


class ClassifierBatch(StructuredSelfAttention):
    def forward(self, sentences):
        output = super().forward(sentences)
        return replace(output, logits=output.logits * len(sentences.ids))


class ClassifierPadding(StructuredSelfAttention):
    def forward(self, sentences):
        output = super().forward(sentences)
        return replace(output, logits=output.logits + sentences.ids.sum(dim=-1, keepdim=True))


class ClassifierWeights(StructuredSelfAttention):
    def forward(self, sentences):
        output = super().forward(sentences)
        return replace(output, weights=torch.full_like(output.weights, 0.5))


class NoEmptyTexts(StructuredSelfAttention):
    def forward(self, sentences):
        output = super().forward(sentences)
        return replace(output, logits=output.logits / sentences.lengths[:, None])


class BagOfWords(StructuredSelfAttention):
    def forward(self, sentences):
        counts = nn.functional.one_hot(sentences.ids, 11).sum(dim=1)[:, :3]
        output = super().forward(PaddedTokens(torch.full_like(sentences.ids, 4), sentences.lengths))
        return ClassifierOutput(logits=output.logits + counts, weights=output.weights)


class NoWordDropout(StructuredSelfAttention):
    def __init__(self, config):
        super().__init__(replace(config, word_dropout=0.0))


class AnyWordDropout(StructuredSelfAttention):
    def __init__(self, config):
        super().__init__(replace(config, word_dropout=min(config.word_dropout, 1.0)))


class MeanPenalty(StructuredSelfAttention):
    def forward(self, sentences):
        output = super().forward(sentences)
        return replace(output, penalty=output.logits.square().mean())


class WaitsForTheDevice(StructuredSelfAttention):
    def forward(self, sentences):
        output = super().forward(sentences)
        return output if output.logits.sum().item() else replace(output, weights=None)


CLASSIFIER_MUTANTS = [
    ("check_batch_of_one", ClassifierBatch, "text 0 alone gives what it gives in a batch, but"),
    ("check_padding", ClassifierPadding, "padding has no effect, but"),
    ("check_attention_weights", ClassifierWeights, "padding has weight 0, but"),
    ("check_short_texts", NoEmptyTexts, r"the loss and the gradients of \[\[\]\] are finite, but"),
    ("check_word_order", BagOfWords, "a text and its reverse have the same logits"),
    ("check_word_dropout", NoWordDropout, "in training word_dropout=1 reads every word as unknown, but"),
    ("check_word_dropout", AnyWordDropout, "word_dropout=1.5 gives the error '', expected a ValueError"),
    ("check_loss_is_a_sum", MeanPenalty, "the loss of a batch is the sum over its texts, but"),
    pytest.param(
        "check_no_synchronisation", WaitsForTheDevice, "a training step waits for the device", marks=pytest.mark.cuda
    ),
]


@pytest.mark.parametrize(("name", "build", "sentence"), CLASSIFIER_MUTANTS)
def test_a_check_of_a_classifier_fails(name, build, sentence):
    case = ClassifierCase(build=build, config=CLASSIFIER, attends=True)
    with pytest.raises(AssertionError, match=f"{build.__name__}.*{sentence}"):
        find(CLASSIFIER_CHECKS, name)(case)


def test_every_check_has_a_mutant():
    named = {
        getattr(mutant, "values", mutant)[0] for mutant in (*MODEL_MUTANTS, *LANGUAGE_MUTANTS, *CLASSIFIER_MUTANTS)
    }
    every = {check.__name__ for check in (*MODEL_CHECKS, *LANGUAGE_MODEL_CHECKS, *CLASSIFIER_CHECKS)}
    assert every == named | {"check_packed"}


def test_the_checks_of_a_whole_model_fail():
    with pytest.raises(AssertionError, match="OtherStep: repeated step equals forward in"):
        check_model(OtherStep, TRANSLATION)
    with pytest.raises(AssertionError, match="a step returns attention weights, but attends=False"):
        check_model(Luong, TRANSLATION, attends=False)
    with pytest.raises(AssertionError, match="ReadsAhead: "):
        check_language_model(ReadsAhead, LANGUAGE)
    with pytest.raises(AssertionError, match="StructuredSelfAttention returns attention weights, but attends=False"):
        check_classifier(StructuredSelfAttention, CLASSIFIER)


def test_a_config_too_small_for_the_examples_raises_a_clear_error():
    with pytest.raises(ValueError, match="vocab_size is 5, but the examples of the checks need at least 13"):
        check_language_model(LSTMLanguageModel, replace(LANGUAGE, vocab_size=5))


@dataclass(frozen=True, kw_only=True)
class OwnConfig:
    vocab_size: int
    num_classes: int
    hidden_size: int = 8
    dropout: float = 0.0


class OwnClassifier(nn.Module):
    """A classifier that shares nothing with the package's own: positions matter, an empty text is a sum of nothing."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.num_classes)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, sentences):
        decay = 0.5 ** torch.arange(sentences.ids.shape[1], device=sentences.ids.device)
        real = (sentences.mask * decay).unsqueeze(-1)
        states = (self.dropout(self.words(sentences.ids)) * real.to(self.words.weight)).sum(dim=1)
        return ClassifierOutput(logits=self.output(states))


def test_sound_models_pass():
    """The tables are checked in tests/contracts; one of these shares nothing with the package."""
    state = torch.get_rng_state()
    check_language_model(LSTMLanguageModel, LANGUAGE, fixed_state=True)
    check_classifier(OwnClassifier, OwnConfig(vocab_size=11, num_classes=3))
    assert torch.equal(torch.get_rng_state(), state)
