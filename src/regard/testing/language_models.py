"""The contract of a language model: reading step by step, in pieces and at once gives the same.

    check_language_model(GPT, GPTConfig(vocab_size=13, hidden_size=8, ..))

LANGUAGE_MODEL_CHECKS are the smaller checks; each takes a LanguageModelCase and can be called alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.contracts import EOS, LanguageModel, ModelOutput, Step, leaves, select_batch, where_batch
from regard.testing.comparison import assert_close, assert_equal, assert_finite, run_checks
from regard.testing.model_case import COMMON_CHECKS, ModelCase, move

# line ends at several positions: two adjacent ones, and one behind which no token follows
TOKENS = torch.tensor(
    [
        [5, 6, 7, 8, EOS, 9, 10, 4, 4],
        [EOS, EOS, 4, 10, 4, 7, 11, 5, 12],
        [7, 3, 9, EOS, 5, 6, 6, EOS, 8],
        [12, 11, 10, 9, 8, 7, 6, 5, EOS],
    ]
)
BATCH_SIZE, LENGTH = TOKENS.shape
PIECES = ([1, 8], [4, 5], [8, 1], [2, 3, 4], [1] * LENGTH)
"""Lengths of pieces into which the tokens are split."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LanguageModelCase(ModelCase):
    """A language model. `fixed_state` declares that the shapes of its state do not depend on the number of tokens."""

    fixed_state: bool = False

    protocol = LanguageModel
    required_fields = ("vocab_size", "hidden_size", "dropout")
    smallest = {"vocab_size": 13}  # noqa: RUF012 - a ClassVar of the base class

    def logits(self, model: Any) -> Tensor:
        """Logits behind every token."""
        return model(move(TOKENS, model))

    def loss(self, model: Any) -> Tensor:
        """The loss of a second piece, so that what enters through the state alone must learn too."""
        state = model.features(TOKENS[:, :4], model.start(BATCH_SIZE)).state
        # the labels are one token later than the inputs
        return model.readout.loss(model.features(TOKENS[:, 4:-1], state).features, TOKENS[:, 5:])

    def steps(self, model: Any) -> list[Step]:
        """One step for each token."""
        state, outputs = model.start(BATCH_SIZE), []
        for token in TOKENS.unbind(dim=1):
            outputs.append(model.step(token, state))
            state = outputs[-1].state
        return outputs

    def read(self, model: Any, sizes: list[int]) -> ModelOutput:
        """The tokens in pieces of these sizes."""
        state, features = model.start(BATCH_SIZE), []
        for piece in TOKENS.split(sizes, dim=1):
            output = model.features(piece, state)
            state = output.state
            features.append(output.features)
        return ModelOutput(features=torch.cat(features, dim=1), state=state)

    def run(self, model: Any) -> None:
        """Forward, steps and pieces."""
        self.logits(model)
        self.steps(model)
        self.read(model, [4, 5])

    def autocast(self, model: Any) -> tuple[Tensor, list[tuple[Tensor, Tensor]], Tensor]:
        """Two pieces, and the last of their logits against those of the last step."""
        logits = model.readout(self.read(model, [4, 5]).features)
        return logits, [(self.steps(model)[-1].logits, logits[:, -1])], logits.float().sum()


def assert_states_close(actual: Any, expected: Any, claim: str) -> None:
    """Fail unless two states hold the same tensors."""
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        if one.is_floating_point():
            assert_close(one, other, 1e-10, claim)
        else:
            # integers, such as positions, have no tolerance
            assert_equal(one.to(other.dtype), other, claim)


def check_steps_equal_forward(case: LanguageModelCase) -> None:
    """Repeated `step`, and the readout of `read`, give the logits of `forward`, in float32 and float64."""
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        with torch.no_grad():
            model = case.make(dtype)
            logits, outputs = case.logits(model), case.steps(model)
            output = model.features(TOKENS, model.start(BATCH_SIZE))
        shape = (*TOKENS.shape, case.config.vocab_size)
        assert logits.shape == shape, f"{case}: the logits have shape {tuple(logits.shape)}, expected {shape}."
        assert_finite((logits,), f"{case}: the logits are finite")
        for step in outputs:
            assert isinstance(step, Step), f"{case}: step returns a {type(step).__name__}, not a Step."
        assert isinstance(output, ModelOutput), f"{case}: read returns a {type(output).__name__}."
        repeated = torch.stack([step.logits for step in outputs], dim=1)
        assert_close(repeated, logits, tolerance, f"{case}: repeated step equals forward in {dtype}")
        claim = f"{case}: the readout of read equals forward in {dtype}"
        assert_close(model.readout(output.features), logits, tolerance, claim)


def check_pieces(case: LanguageModelCase) -> None:
    """Reading in pieces equals reading at once, in features and state."""
    with torch.no_grad():
        model = case.make()
        whole = model.features(TOKENS, model.start(BATCH_SIZE))
        for sizes in PIECES:
            pieces = case.read(model, sizes)
            claim = f"{case}: reading pieces of {sizes} tokens equals reading at once"
            assert_close(pieces.features, whole.features, 1e-10, claim)
            assert_states_close(pieces.state, whole.state, f"{claim}, in its state")


def check_empty_piece(case: LanguageModelCase) -> None:
    """A piece without tokens gives no features and leaves the state as it is."""
    with torch.no_grad():
        model = case.make()
        before = model.features(TOKENS[:, :3], model.start(BATCH_SIZE))
        for state in (model.start(BATCH_SIZE), before.state):
            output = model.features(TOKENS[:, :0], state)
            shape, expected = tuple(output.features.shape), (BATCH_SIZE, 0, before.features.shape[2])
            assert shape == expected, f"{case}: the features of an empty piece have shape {shape}, not {expected}."
            assert_states_close(output.state, state, f"{case}: an empty piece leaves the state as it is")


def check_batch_selection(case: LanguageModelCase) -> None:
    """`select_batch` keeps, drops and repeats batch elements of the state."""
    with torch.no_grad():
        # one element three times, another not at all
        model, elements = case.make(), torch.tensor([3, 3, 0, 1, 3])
        state = model.features(TOKENS[:, :4], model.start(BATCH_SIZE)).state
        whole = model.features(TOKENS[:, 4:], state)
        selected = model.features(TOKENS[elements, 4:], select_batch(state, elements))
    claim = f"{case}: reading with selected batch elements equals reading with all"
    assert_close(selected.features, whole.features[elements], 1e-10, claim)
    assert_states_close(selected.state, select_batch(whole.state, elements), f"{claim}, in its state")


def check_batch_of_one(case: LanguageModelCase) -> None:
    """A text alone gives the logits that it gives in a batch."""
    with torch.no_grad():
        model = case.make()
        together = case.logits(model)
        for element in range(BATCH_SIZE):
            single = model(TOKENS[element : element + 1])[0]
            claim = f"{case}: text {element} alone gives what it gives in a batch"
            assert_close(single, together[element], 1e-10, claim)


def check_causality(case: LanguageModelCase) -> None:
    """Later tokens do not change earlier logits."""
    other = TOKENS.clone()
    other[:, 6:] = 3
    with torch.no_grad():
        model = case.make()
        actual, expected = model(other)[:, :6], case.logits(model)[:, :6]
    assert_close(actual, expected, 1e-10, f"{case}: later tokens do not change earlier logits")


def check_fresh_state(case: LanguageModelCase) -> None:
    """Batch elements may start again while others continue, where the state has one shape."""
    if not case.fixed_state:
        return
    with torch.no_grad():
        model, fresh = case.make(), torch.tensor([True, False, False, True])
        start = model.start(BATCH_SIZE)
        state = model.features(TOKENS[:, :5], start).state
        mixed = model.features(TOKENS[:, 5:], where_batch(fresh, start, state)).features
        # compared with batches whose elements all start, or all continue
        for elements, each in ((fresh, start), (~fresh, state)):
            expected = model.features(TOKENS[:, 5:], each).features
            claim = f"{case}: a batch element that starts again does not change another"
            assert_close(mixed[elements], expected[elements], 1e-10, claim)


def check_state_shape(case: LanguageModelCase) -> None:
    """The state has one shape for any number of tokens, if `fixed_state` declares it."""
    if not case.fixed_state:
        return
    with torch.no_grad():
        model = case.make()
        start = model.start(BATCH_SIZE)
        expected = [(tuple(tensor.shape), tensor.dtype) for tensor in leaves(start)]
        for length in (1, 2, LENGTH):
            state = model.features(TOKENS[:, :length], start).state
            actual = [(tuple(tensor.shape), tensor.dtype) for tensor in leaves(state)]
            assert actual == expected, f"{case}: after {length} tokens the state is {actual}, at the start {expected}."


def check_gradients_in_pieces(case: LanguageModelCase) -> None:
    """Gradients through pieces are those of the whole text."""
    model = case.make()
    parameters = dict(model.named_parameters())
    if not parameters:
        assert case.counts, f"{case} has no parameters; a model that is counted needs counts=True."
        return
    gradients = []
    for sizes in ([LENGTH], [2, 3, 4]):
        loss = case.read(model, sizes).features.square().sum()
        # the features do not depend on the readout
        gradients.append(torch.autograd.grad(loss, list(parameters.values()), allow_unused=True))
    for path, whole, pieces in zip(parameters, *gradients, strict=True):
        assert (whole is None) == (pieces is None), (
            f"{case}: {path} has a gradient from the whole or from pieces alone."
        )
        if whole is not None:
            assert_close(
                pieces, whole, 1e-9, f"{case}: the gradient of {path} in pieces is that of the whole", rtol=1e-9
            )


LANGUAGE_MODEL_CHECKS: tuple[Callable[[Any], None], ...] = (
    *COMMON_CHECKS,
    check_steps_equal_forward,
    check_pieces,
    check_empty_piece,
    check_batch_selection,
    check_batch_of_one,
    check_causality,
    check_fresh_state,
    check_state_shape,
    check_gradients_in_pieces,
)
"""Checks of a language model."""


def check_language_model(
    build: Callable[[Any], nn.Module], config: Any, *, fixed_state: bool = False, counts: bool = False
) -> None:
    """Check the language model that `build(config)` makes; raise AssertionError where it fails.

    `build` is the class, or any function of the config. The config has `vocab_size` (13 or more), `hidden_size` and
    `dropout`. `fixed_state`: the shapes of the state do not depend on the number of tokens; `counts`: the model is
    counted from a text and has no parameters.

    Example:
        >>> from regard.models.language_modeling import LSTMLanguageConfig, LSTMLanguageModel
        >>> config = LSTMLanguageConfig(vocab_size=13, embedding_size=6, hidden_size=8, num_layers=1)
        >>> check_language_model(LSTMLanguageModel, config, fixed_state=True)
    """
    case = LanguageModelCase(build=build, config=config, fixed_state=fixed_state, counts=counts)
    run_checks(LANGUAGE_MODEL_CHECKS, case)
