"""What the checks of all families of models share: how a model is built, and the checks that need only its outputs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain
from typing import Any, ClassVar

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from regard.contracts import map_tensors
from regard.testing.comparison import assert_close, assert_equal, assert_finite, name_of


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCase:
    """A model: `build(config)` makes one. The examples of a family need the smallest sizes that it states.

    `attends` says that the model returns attention weights; `counts` that it is counted from a text and has nothing to
    train.
    """

    build: Callable[[Any], nn.Module]
    config: Any
    attends: bool = True
    counts: bool = False

    protocol: ClassVar[Any]
    required_fields: ClassVar[tuple[str, ...]]
    smallest: ClassVar[dict[str, int]]
    plain_types: ClassVar[tuple[type, ...]] = (int, float, bool, str, tuple)

    def __post_init__(self) -> None:
        for name, least in self.smallest.items():
            value = getattr(self.config, name, least)
            if value < least:
                raise ValueError(f"{name} is {value}, but the examples of the checks need at least {least}.")

    def __str__(self) -> str:
        return name_of(self.build)

    def changed_config(self, **changes: Any) -> Any:
        """The config with these changes and, unless they set it, without dropout."""
        names = {field.name for field in fields(self.config)}
        changes = {"dropout": 0.0} | changes
        # changes for which the config has no field are left out
        return replace(self.config, **{name: value for name, value in changes.items() if name in names})

    def make(self, dtype: torch.dtype = torch.float64, **changes: Any) -> Any:
        """A model in evaluation mode whose weights are so large that a difference exceeds the tolerance."""
        model = self.build(self.changed_config(**changes))
        if not self.counts:
            model = model.to(dtype)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.4)
        return model.eval()

    def logits(self, model: Any) -> Tensor:
        """Logits of the examples, on the model's device."""
        raise NotImplementedError

    def loss(self, model: Any) -> Tensor:
        """A training loss of the examples."""
        raise NotImplementedError

    def run(self, model: Any) -> None:
        """Everything that the protocol offers, once."""
        self.logits(model)

    def autocast(self, model: Any) -> tuple[Tensor, list[tuple[Tensor, Tensor]], Tensor]:
        """Logits, pairs of tensors that agree, and a number to differentiate."""
        logits = self.logits(model)
        return logits, [], logits.float().sum()

    def real(self, logits: Tensor) -> Tensor:
        """The logits that mean something."""
        return logits


def move(source: Any, model: Any) -> Any:
    """The source on the model's device."""
    # a model that is counted has buffers only
    tensor = next(chain(model.parameters(), model.buffers()), None)
    return source if tensor is None else map_tensors(lambda each: each.to(tensor.device), source)


def check_config(case: ModelCase) -> None:
    """The model keeps its config, a dataclass of plain values, and has the members of its protocol."""
    model = case.make()
    assert isinstance(model, case.protocol), f"{case} is no {name_of(case.protocol)}: it lacks {absent(case, model)}."
    assert is_dataclass(model.config), f"{case}: config is a {type(model.config).__name__}, not a dataclass."
    for field in fields(model.config):
        value = getattr(model.config, field.name)
        plain = isinstance(value, case.plain_types)
        assert plain, f"{case}: config.{field.name} is a {type(value).__name__}, which config.json does not hold."
    if case.counts:
        return
    expected = case.changed_config()
    assert model.config == expected, f"{case}: the model's config is {model.config}, but it was built with {expected}."
    names = {field.name for field in fields(model.config)}
    for name in case.required_fields:
        assert name in names, f"{case}: the config has no {name}."


def absent(case: ModelCase, model: Any) -> str:
    """Members of the protocol that the model does not have."""
    # isinstance of a protocol does not name the member that is absent
    names = [name for name in vars(case.protocol) if not name.startswith("_") and not hasattr(model, name)]
    return ", ".join(names) or "nothing"


def check_saved_and_loaded(case: ModelCase) -> None:
    """A model with other weights gives the same logits after it has loaded the state."""
    with torch.no_grad():
        model, other = case.make(), case.make()
        logits = case.logits(model)
        if not case.counts:
            # with equal logits the comparison below would pass without any loading
            same = case.logits(other).allclose(logits)
            assert not same, f"{case}: two models with other weights give the same logits."
        # safetensors refuses tensors that share memory
        state = {key: tensor.contiguous().clone() for key, tensor in model.state_dict().items()}
        other.load_state_dict(load(save(state)))
        assert_equal(case.logits(other), logits, f"{case}: saved and loaded gives the same logits")


def check_every_parameter_learns(case: ModelCase) -> None:
    """Every parameter gets a finite gradient that is not zero."""
    model = case.make().train()
    if not any(True for _ in model.parameters()):
        assert case.counts, f"{case} has no parameters; a model that is counted needs counts=True."
        return
    loss = case.loss(model)
    assert loss.isfinite(), f"{case}: the loss is {loss.item()}."
    loss.backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{case}: the parameter {path} has no gradient."
        assert_finite((parameter.grad,), f"{case}: the gradient of {path} is finite")
        assert (parameter.grad != 0).any(), f"{case}: the gradient of {path} is zero everywhere."


def check_dropout(case: ModelCase) -> None:
    """Dropout acts in training alone."""
    with torch.no_grad():
        model, plain = case.make(dropout=0.5), case.make()
        # the same weights, so that dropout is the only difference
        plain.load_state_dict(model.state_dict())
        logits = case.logits(model)
        assert_equal(case.logits(model), logits, f"{case}: in evaluation the same input gives the same logits")
        assert_close(logits, case.logits(plain), 1e-10, f"{case}: in evaluation dropout has no effect")
        if not case.counts:
            model.train()
            # two passes have different dropout masks
            same = torch.equal(case.logits(model), case.logits(model))
            assert not same, f"{case}: in training dropout=0.5 has no effect."


def check_seed(case: ModelCase) -> None:
    """The same seed draws the same weights, another seed others."""
    if case.counts:
        return
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        states.append(case.build(case.changed_config()).state_dict())
    different = [key for key, tensor in states[0].items() if not torch.equal(tensor, states[1][key])]
    assert not different, f"{case}: the same seed draws other weights: {', '.join(different)}."
    same = all(torch.equal(tensor, states[2][key]) for key, tensor in states[0].items())
    assert not same, f"{case}: another seed draws the same weights."


def check_first_guesses(case: ModelCase) -> None:
    """As built, a model is sure of nothing: its logits are finite with a standard deviation below 3."""
    with torch.no_grad():
        logits = case.logits(case.build(case.changed_config()).eval())
    assert_finite((logits,), f"{case}: the logits of a new model are finite")
    probabilities = logits.double().softmax(dim=-1)
    total = probabilities.sum(dim=-1)
    assert_close(total, torch.ones_like(total), 1e-5, f"{case}: probabilities sum to one")
    if not case.counts:
        deviation, largest = float(logits.std()), float(probabilities.max())
        assert deviation < 3, f"{case}: the logits of a new model have the standard deviation {deviation:.3g}, above 3."
        assert largest < 0.99, f"{case}: a new model gives a probability of {largest:.3g}, above 0.99."


def check_autocast(case: ModelCase) -> None:
    """Under bfloat16 autocast logits differ by at most 0.3, and gradients are finite."""
    model = case.make(torch.float32).train()
    with torch.autocast("cpu", torch.bfloat16):
        logits, pairs, number = case.autocast(model)
    # float32, outside autocast
    expected = case.logits(model).float()
    assert_close(logits.float(), expected, 0.3, f"{case}: under autocast the logits are those of float32")
    for actual, other in pairs:
        claim = f"{case}: under autocast the last step gives the last logits"
        assert_close(actual.float(), other.float(), 0.3, claim)
    # the logits of a model that is counted have no graph
    if number.requires_grad:
        number.backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{case}: the parameter {path} has no gradient under autocast."
        assert_finite((parameter.grad,), f"{case}: the gradient of {path} under autocast is finite")


OWN = frozenset(vars(nn.Module()))
"""Attributes that every module of torch has: its tables of parameters, buffers, children and hooks."""


def stored(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Attributes of the modules that hold tensors or may hold them, by path."""
    for path, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in OWN and holds_tensors(value):
                # the path of the model itself is empty
                yield f"{path}.{key}".lstrip("."), value


def holds_tensors(value: Any) -> bool:
    """Whether this is a tensor, a container with something in it, or a dataclass with one of these."""
    # an empty container is no state; what a call puts into it is
    if isinstance(value, (list, tuple, dict)):
        return len(value) > 0
    if is_dataclass(value) and not isinstance(value, type):
        return any(holds_tensors(getattr(value, field.name)) for field in fields(value))
    return isinstance(value, Tensor)


def check_nothing_is_stored(case: ModelCase) -> None:
    """State is an argument and a result: a call leaves no tensor on a module and changes none there."""
    with torch.no_grad():
        model = case.make()
        before = dict(stored(model))
        state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
        case.run(model)
        after = dict(stored(model))
    # by identity, so that a tensor that was replaced by an equal one is found
    changed = [path for path, value in after.items() if path not in before or before[path] is not value]
    assert not changed, f"{case}: a call stores tensors on the modules: {', '.join(changed)}."
    for key, tensor in model.state_dict().items():
        same = key in state and torch.equal(tensor, state[key])
        assert same, f"{case}: a call in evaluation mode changes {key}."


def check_cuda_equals_cpu(case: ModelCase) -> None:
    """CUDA gives the logits of the CPU within 1e-3, in float32. Without a CUDA device nothing is checked."""
    if not torch.cuda.is_available():
        return
    with torch.no_grad():
        model = case.make(torch.float32)
        # before .cuda(), which moves the same model
        expected = case.real(case.logits(model))
        actual = case.real(case.logits(model.cuda())).cpu()
    assert_close(actual, expected, 1e-3, f"{case}: CUDA equals the CPU")


COMMON_CHECKS = (
    check_config,
    check_saved_and_loaded,
    check_every_parameter_learns,
    check_dropout,
    check_seed,
    check_first_guesses,
    check_autocast,
    check_nothing_is_stored,
    check_cuda_equals_cpu,
)
"""Checks of the models of every family."""
