"""The contract of a model that reads a source and predicts a target.

    check_model(Luong, LuongConfig(hidden_size=8, ..))

MODEL_CHECKS are the smaller checks; each takes a TranslationCase and can be called alone. The config should be small:
most checks run in float64 on a CPU, on five pairs of sentences.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.contracts import BOS, EOS, Model, PackedTokens, PaddedTokens, Step, select_batch
from regard.testing.comparison import assert_close, assert_finite, assert_zero, run_checks
from regard.testing.model_case import COMMON_CHECKS, ModelCase, move

# lengths differ, so that every batch has padding; the second source is <eos> alone
SOURCES = [[5, 6, 7, 8, 9, EOS], [EOS], [4, 10, 4, 7, EOS], [7, EOS], [9, 3, 5, EOS]]
TARGETS = [[BOS, 5, 6, 7], [BOS], [BOS, 12, 3, 4, 4, 5], [BOS, 8], [BOS, 7, 7, 11, 6]]
LABELS = [[*target[1:], EOS] for target in TARGETS]


@dataclass(frozen=True, kw_only=True, eq=False)
class TranslationCase(ModelCase):
    """A model with a source and a target.

    `sums_to_one` says that the weights of a step sum to one; `packs` that packed batches are taken too.
    """

    sums_to_one: bool = True
    packs: bool = False

    protocol = Model
    required_fields = ("source_vocab_size", "target_vocab_size", "dropout")
    smallest = {"source_vocab_size": 11, "target_vocab_size": 13}  # noqa: RUF012 - a ClassVar of the base class
    plain_types = (int, float, bool, str)

    def pairs(self, model: Any) -> tuple[PaddedTokens, PaddedTokens]:
        """Sources and targets on the model's device."""
        return move(PaddedTokens.from_lists(SOURCES), model), move(PaddedTokens.from_lists(TARGETS), model)

    def logits(self, model: Any) -> Tensor:
        """Logits of every target position."""
        return model(*self.pairs(model))

    def real(self, logits: Tensor) -> Tensor:
        """Logits before the end of each target: behind it a model may leave the loop."""
        return logits[PaddedTokens.from_lists(TARGETS).mask.to(logits.device)]

    def loss(self, model: Any) -> Tensor:
        """Cross-entropy of the labels."""
        return model.readout.loss(model.features(*self.pairs(model)).features, PaddedTokens.from_lists(LABELS).ids)

    def steps(self, model: Any, encoded: Any, tokens: Tensor) -> list[Step]:
        """One step for each token."""
        state, outputs = model.start(encoded), []
        # (batch,)
        for token in tokens.unbind(dim=1):
            outputs.append(model.step(token, state, encoded))
            state = outputs[-1].state
        return outputs

    def run(self, model: Any) -> None:
        """Forward and steps."""
        source, target = self.pairs(model)
        model(source, target)
        self.steps(model, model.encode(source), target.ids)

    def autocast(self, model: Any) -> tuple[Tensor, list[tuple[Tensor, Tensor]], Tensor]:
        """Forward, and its last logits against those of the last step."""
        source, target = self.pairs(model)
        # pairs whose target has no padding, so that their last step is real
        logits, longest = model(source, target), target.mask[:, -1]
        last = self.steps(model, model.encode(source), target.ids)[-1].logits
        return logits, [(last[longest], logits[longest, -1])], logits.float().sum()


def check_steps_equal_forward(case: TranslationCase) -> None:
    """Repeated `step`, and the readout of `features`, give the logits of `forward`, in float32 and float64."""
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        with torch.no_grad():
            model = case.make(dtype)
            source, target = case.pairs(model)
            logits = model(source, target)
            outputs = case.steps(model, model.encode(source), target.ids)
            readout = model.readout(model.features(source, target).features)
        shape = (*target.ids.shape, case.config.target_vocab_size)
        assert logits.shape == shape, f"{case}: the logits have shape {tuple(logits.shape)}, expected {shape}."
        assert logits.dtype == dtype, f"{case}: the logits of a model in {dtype} have {logits.dtype}."
        for output in outputs:
            assert isinstance(output, Step), f"{case}: step returns a {type(output).__name__}, not a Step."
        repeated = torch.stack([output.logits for output in outputs], dim=1)
        expected = case.real(logits)
        assert_close(case.real(repeated), expected, tolerance, f"{case}: repeated step equals forward in {dtype}")
        claim = f"{case}: the readout of features equals forward in {dtype}"
        assert_close(case.real(readout), expected, tolerance, claim)


def check_batch_of_one(case: TranslationCase) -> None:
    """A pair alone gives the logits that it gives in a batch."""
    with torch.no_grad():
        model = case.make()
        together = case.logits(model)
        for element, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
            single = model(PaddedTokens.from_lists([source]), PaddedTokens.from_lists([target]))[0]
            claim = f"{case}: pair {element} alone gives what it gives in a batch"
            # behind its end, the target is padded in the batch
            assert_close(single, together[element, : len(target)], 1e-10, claim)


def check_padding(case: TranslationCase) -> None:
    """Padding never changes the answer: neither other ids after the end of a source, nor more padding."""
    with torch.no_grad():
        model = case.make()
        source, target = case.pairs(model)
        expected = model(source, target)
        # a valid id as padding, so that only the length identifies it; then more columns of padding
        for ids in (source.ids.masked_fill(~source.mask, 9), pad(source.ids, (0, 3))):
            logits = model(PaddedTokens(ids, source.lengths), target)
            assert_close(logits, expected, 1e-10, f"{case}: padding of the source has no effect")


def check_batch_selection(case: TranslationCase) -> None:
    """`select_batch` keeps, drops and repeats batch elements of state and encoded source."""
    with torch.no_grad():
        model = case.make()
        source, target = case.pairs(model)
        encoded = model.encode(source)
        state = case.steps(model, encoded, target.ids[:, :2])[-1].state
        # one element twice, two not at all
        elements, token = torch.tensor([4, 4, 0, 2]), target.ids[:, 2]
        whole = model.step(token, state, encoded)
        selected = model.step(token[elements], select_batch(state, elements), select_batch(encoded, elements))
    claim = f"{case}: a step on selected batch elements equals the step on all"
    assert_close(selected.logits, whole.logits[elements], 1e-10, claim)
    if whole.weights is not None:
        assert_close(selected.weights, whole.weights[elements], 1e-10, f"{claim}, in its attention weights")


def check_attention_weights(case: TranslationCase) -> None:
    """The weights of each step, where there are any, are a distribution over the real source, exactly 0 on padding."""
    with torch.no_grad():
        model = case.make()
        source, target = case.pairs(model)
        outputs = case.steps(model, model.encode(source), target.ids)
    for output in outputs:
        weights = output.weights
        assert (weights is not None) == case.attends, (
            f"{case}: a step returns {'no' if weights is None else 'attention'} weights, but attends={case.attends}."
        )
        if weights is None:
            continue
        shape = tuple(source.ids.shape)
        assert weights.shape == shape, f"{case}: the weights have shape {tuple(weights.shape)}, expected {shape}."
        assert_finite((weights,), f"{case}: the weights are finite")
        assert_zero(weights[~source.mask], f"{case}: padding of the source has weight 0")
        total = weights.sum(dim=-1)
        if case.sums_to_one:
            assert_close(total, torch.ones_like(total), 1e-8, f"{case}: the weights of a step sum to one")
        # a sum of 1 may be rounded up
        assert (total <= 1 + 1e-10).all(), f"{case}: the weights of a step sum to {total.max():.12g}, above 1."


def check_packed(case: TranslationCase) -> None:
    """Packed batches give the logits of padded ones, if the model takes them."""
    if not case.packs:
        return
    with torch.no_grad():
        model = case.make()
        # packed logits are those of the real positions, in the same order
        logits = model(PackedTokens.from_lists(SOURCES), PackedTokens.from_lists(TARGETS))
        assert_close(logits, case.real(case.logits(model)), 1e-10, f"{case}: packed batches equal padded ones")


MODEL_CHECKS: tuple[Callable[[Any], None], ...] = (
    *COMMON_CHECKS,
    check_steps_equal_forward,
    check_batch_of_one,
    check_padding,
    check_batch_selection,
    check_attention_weights,
    check_packed,
)
"""Checks of a model with a source and a target."""


def check_model(
    build: Callable[[Any], nn.Module],
    config: Any,
    *,
    attends: bool = True,
    sums_to_one: bool = True,
    packs: bool = False,
) -> None:
    """Check the model that `build(config)` makes; raise AssertionError where it fails.

    `build` is the class, or any function of the config. The config has `source_vocab_size` (11 or more),
    `target_vocab_size` (13 or more) and `dropout`. `attends`: steps return attention weights over the source;
    `sums_to_one`: these sum to one; `packs`: packed batches are taken too.

    Example:
        >>> from regard.models.translation import Luong, LuongConfig
        >>> sizes = {"source_vocab_size": 11, "target_vocab_size": 13, "embedding_size": 6, "hidden_size": 8}
        >>> check_model(Luong, LuongConfig(**sizes, num_layers=1))
    """
    case = TranslationCase(build=build, config=config, attends=attends, sums_to_one=sums_to_one, packs=packs)
    run_checks(MODEL_CHECKS, case)
