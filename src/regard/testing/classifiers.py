"""The contract of a classifier of texts.

    check_classifier(CNN, CNNConfig(vocab_size=11, num_classes=3, ..))

CLASSIFIER_CHECKS are the smaller checks; each takes a ClassifierCase and can be called alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.contracts import UNK, ClassificationBatch, Classifier, ClassifierOutput, PaddedTokens
from regard.testing.comparison import assert_close, assert_finite, assert_zero, run_checks
from regard.testing.model_case import COMMON_CHECKS, ModelCase, move
from regard.training import ClassificationObjective

# 7, 1, 0, 4 and 2 words: every batch has padding and an empty text
SENTENCES = [[5, 6, 7, 8, 9, 4, 10], [3], [], [4, 10, 4, 7], [7, 8]]
CLASSES = [0, 2, 1, 1, 0]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassifierCase(ModelCase):
    """A classifier of texts."""

    protocol = Classifier
    required_fields = ("vocab_size", "num_classes", "dropout")
    smallest = {"vocab_size": 11, "num_classes": 3}  # noqa: RUF012 - a ClassVar of the base class

    def batch(self, model: Any) -> ClassificationBatch:
        """Texts, one of them empty, with their classes."""
        # one label per text
        texts = ClassificationBatch(
            sentences=PaddedTokens.from_lists(SENTENCES), labels=torch.tensor(CLASSES), num_tokens=len(CLASSES)
        )
        return move(texts, model)

    def outputs(self, model: Any) -> ClassifierOutput:
        """What the model returns."""
        return model(self.batch(model).sentences)

    def logits(self, model: Any) -> Tensor:
        """Logits of every text."""
        return self.outputs(model).logits

    def loss(self, model: Any) -> Tensor:
        """Cross-entropy with label smoothing, and the model's penalty."""
        return ClassificationObjective(model, label_smoothing=0.1)(self.batch(model))

    def autocast(self, model: Any) -> tuple[Tensor, list[tuple[Tensor, Tensor]], Tensor]:
        """Logits and loss."""
        return self.logits(model), [], ClassificationObjective(model)(self.batch(model))


def check_batch_of_one(case: ClassifierCase) -> None:
    """A text alone gives the logits and weights that it gives in a batch."""
    with torch.no_grad():
        model = case.make()
        together = case.outputs(model)
        shape = (len(SENTENCES), case.config.num_classes)
        assert together.logits.shape == shape, f"{case}: the logits have shape {tuple(together.logits.shape)}."
        assert_finite((together.logits,), f"{case}: the logits are finite")
        for element, words in enumerate(SENTENCES):
            # a batch of one has no padding
            single = model(PaddedTokens.from_lists([words]))
            claim = f"{case}: text {element} alone gives what it gives in a batch"
            assert_close(single.logits[0], together.logits[element], 1e-10, claim)
            if together.weights is not None:
                # without the columns of padding
                expected = together.weights[element, :, : len(words)]
                assert_close(single.weights[0], expected, 1e-10, f"{claim}, in its attention weights")


def check_padding(case: ClassifierCase) -> None:
    """Padding never changes the answer: neither other ids after the end of a text, nor more padding."""
    with torch.no_grad():
        model = case.make()
        texts, expected = case.batch(model).sentences, case.logits(model)
        # a valid id as padding, so that only the position identifies it; then more columns of padding
        for ids in (texts.ids.masked_fill(~texts.mask, 9), pad(texts.ids, (0, 6))):
            logits = model(PaddedTokens(ids, texts.lengths)).logits
            assert_close(logits, expected, 1e-10, f"{case}: padding has no effect")


def check_attention_weights(case: ClassifierCase) -> None:
    """The weights, where there are any, are distributions over the real words, exactly 0 on padding."""
    with torch.no_grad():
        model = case.make()
        output, texts = case.outputs(model), case.batch(model).sentences
    assert isinstance(output, ClassifierOutput), f"{case} returns a {type(output).__name__}, not the contract's type."
    assert (output.weights is not None) == case.attends, (
        f"{case} returns {'no' if output.weights is None else 'attention'} weights, but attends={case.attends}."
    )
    if output.weights is None:
        return
    actual, expected = (output.weights.shape[0], output.weights.shape[2]), tuple(texts.ids.shape)
    assert actual == expected, f"{case}: the weights are of {actual} texts and words, expected {expected}."
    # (texts, words, rows), so that the mask of words selects from the first two dimensions
    assert_zero(output.weights.transpose(1, 2)[~texts.mask], f"{case}: padding has weight 0")
    total = output.weights.sum(dim=-1)
    claim = f"{case}: weights sum to one, and to zero for a text without words"
    # (texts, 1), the same for all rows
    assert_close(total, (texts.lengths > 0).to(total)[:, None].expand_as(total), 1e-8, claim)


def check_short_texts(case: ClassifierCase) -> None:
    """Texts of one word and of none have finite logits and gradients."""
    short: tuple[list[list[int]], ...] = ([[]], [[], []], [[3]])
    for texts in short:
        model = case.make().train()
        output = model(PaddedTokens.from_lists(texts))
        # depends on every logit, and needs no label
        loss = output.logits.logsumexp(dim=-1).sum() + (0 if output.penalty is None else output.penalty)
        loss.backward()
        shape = (len(texts), case.config.num_classes)
        assert output.logits.shape == shape, f"{case}: the logits of {texts} have shape {tuple(output.logits.shape)}."
        claim = f"{case}: the loss and the gradients of {texts} are finite"
        assert_finite((loss, *(parameter.grad for parameter in model.parameters())), claim)
        if output.weights is not None:
            length = max(map(len, texts))
            assert output.weights.shape[2] == length, f"{case}: the weights of {texts} are not over {length} words."


def check_word_order(case: ClassifierCase) -> None:
    """The order of the words matters."""
    with torch.no_grad():
        model = case.make()
        forward, backward = (model(PaddedTokens.from_lists([words])).logits for words in ([4, 5, 6], [6, 5, 4]))
    difference = float((forward - backward).abs().max())
    assert not forward.allclose(backward, atol=1e-6), (
        f"{case}: a text and its reverse have the same logits: they differ by {difference:.3g}."
    )


def check_word_dropout(case: ClassifierCase) -> None:
    """`word_dropout`, if the config has it, reads words as unknown in training alone, and is a share."""
    if not hasattr(case.config, "word_dropout"):
        return
    with torch.no_grad():
        # with probability 1 dropout is deterministic
        model = case.make(word_dropout=1.0)
        texts = case.batch(model).sentences
        unknown = model(PaddedTokens(torch.full_like(texts.ids, UNK), texts.lengths)).logits
        same = case.logits(model).allclose(unknown)
        assert not same, f"{case}: in evaluation word_dropout=1 reads words as unknown."
        claim = f"{case}: in training word_dropout=1 reads every word as unknown"
        assert_close(case.logits(model.train()), unknown, 1e-10, claim)
    sentence = ""
    try:
        case.make(word_dropout=1.5)
    except ValueError as error:
        sentence = str(error)
    assert "word_dropout is 1.5" in sentence, (
        f"{case}: word_dropout=1.5 gives the error {sentence!r}, expected a ValueError with: word_dropout is 1.5."
    )


def check_loss_is_a_sum(case: ClassifierCase) -> None:
    """The loss of a batch is the sum of the losses of its texts, penalty included."""
    with torch.no_grad():
        objective = ClassificationObjective(case.make())
        parts = [
            objective(
                ClassificationBatch(
                    sentences=PaddedTokens.from_lists([words]), labels=torch.tensor([label]), num_tokens=1
                )
            )
            for words, label in zip(SENTENCES, CLASSES, strict=True)
        ]
        whole = objective(case.batch(objective.model))
    assert_close(torch.stack(parts).sum(), whole, 1e-10, f"{case}: the loss of a batch is the sum over its texts")


def check_no_synchronisation(case: ClassifierCase) -> None:
    """A training step on CUDA never waits for the device, so that a graph can capture it; nothing without CUDA."""
    if not torch.cuda.is_available():
        return
    model = case.make(torch.float32).cuda().train()
    objective, batch = ClassificationObjective(model), case.batch(model)
    # kernels and their memory are set up by the first step, which may wait for the device
    objective(batch).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss = objective(batch)
        loss.backward()
    except RuntimeError as error:
        raise AssertionError(f"{case}: a training step waits for the device. {error}") from error
    # the mode is global, so it is restored after a failure too
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert loss.isfinite(), f"{case}: the loss on CUDA is {loss.item()}."


CLASSIFIER_CHECKS: tuple[Callable[[Any], None], ...] = (
    *COMMON_CHECKS,
    check_batch_of_one,
    check_padding,
    check_attention_weights,
    check_short_texts,
    check_word_order,
    check_word_dropout,
    check_loss_is_a_sum,
    check_no_synchronisation,
)
"""Checks of a classifier of texts."""


def check_classifier(build: Callable[[Any], nn.Module], config: Any, *, attends: bool = False) -> None:
    """Check the classifier that `build(config)` makes; raise AssertionError where it fails.

    `build` is the class, or any function of the config. The config has `vocab_size` (11 or more), `num_classes` (3 or
    more) and `dropout`. `attends`: the model returns attention weights over the words.

    Example:
        >>> from regard.models.text_classification import CNN, CNNConfig
        >>> check_classifier(CNN, CNNConfig(vocab_size=11, num_classes=3, embedding_size=6, num_maps=5))
    """
    run_checks(CLASSIFIER_CHECKS, ClassifierCase(build=build, config=config, attends=attends))
