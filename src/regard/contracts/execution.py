"""How a model is run, and whether fused code may run in place of its own, or every reason why not.

The first part: its mode, its device and its recorders, also through an object that holds it.

Fused code computes what a model computes without calling its modules one by one. That is right only while every module
is the one that the model's class builds and while nothing waits for the calls. `unsupported_reasons` decides it,
and nothing else does.
"""

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from itertools import chain
from types import BuiltinFunctionType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.contracts import torch_private

# a context variable and no global: each thread and each asyncio task has recorders of its own
_recorders: ContextVar[tuple[Any, ...]] = ContextVar("regard_recorders", default=())


def active_recorders() -> tuple[Any, ...]:
    """Open traces and interventions, outermost first; none inside a compiled graph, where nothing can be recorded."""
    return () if torch.compiler.is_compiling() else _recorders.get()


@contextmanager
def recording(recorder: object) -> Iterator[None]:
    """Within, `recorder` is the innermost of the active recorders of this context."""
    # a new tuple: contexts that were copied from this one keep theirs
    token = _recorders.set((*_recorders.get(), recorder))
    try:
        yield
    finally:
        _recorders.reset(token)


def unwrap(model: Any) -> Any:
    """The module inside an object that holds one as `.model`, such as a predictor; anything else as it is."""
    if isinstance(model, nn.Module):
        return model
    inner = getattr(model, "model", None)
    return inner if isinstance(inner, nn.Module) else model


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode without gradients; at the end, every module that was in training mode is so again."""
    module = unwrap(model)
    # submodules may differ in mode, so each one is recorded
    training = [part for part in module.modules() if part.training] if isinstance(module, nn.Module) else []
    if training:
        module.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part in training:
            # set directly: part.train() would change its children too
            part.training = True


def device_of(model: Any) -> torch.device:
    """Where the model's first parameter or buffer is; the CPU if it has none."""
    module = unwrap(model)
    # buffers too, since a model may have no parameters
    tensors = chain(module.parameters(), module.buffers()) if isinstance(module, nn.Module) else ()
    first = next(iter(tensors), None)
    return torch.device("cpu") if first is None else first.device


# taken from an instance, so that it fits the installed version of torch
# torch.compile(model) marks the original model, whose own code is unchanged
INTERNAL = frozenset(vars(nn.Module())) | {"_is_torch_compile"}
"""Attributes of every module; hooks, children, parameters and the mode are compared separately."""
RECURRENT_LISTS = frozenset({"_all_weights", "_flat_weight_refs", "_flat_weights", "_flat_weights_names"})
"""Where torch's recurrent layers list their own parameters again. Fused code calls such layers as they are."""
CONSTANTS = (bool, int, float, str, type(None), type, FunctionType, BuiltinFunctionType, torch.dtype, torch.device)
DRAWS = frozenset({torch.Tensor.normal_, torch.Tensor.uniform_, torch.Tensor.bernoulli_, torch.Tensor.exponential_})


def to_double(tensor: Tensor) -> Tensor:
    """The tensor in float64, on the CPU if its device has no such type (Apple's GPUs)."""
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).double()


def has_hooks(model: Any) -> bool:
    """True if any submodule has forward or backward hooks, or all modules have a global one."""
    module = unwrap(model)
    return torch_private.global_hooks_registered() or any(
        vars(part)[name] for part in module.modules() for name in torch_private.HOOKS
    )


def has_own_call(part: object, kind: type[nn.Module] | None = None) -> bool:
    """True if a call of this module runs other code than its class's forward: a `forward` of the instance, or hooks.

    With `kind`, also if the module's class is a subclass of it that defines another `forward`.
    """
    if not isinstance(part, nn.Module):
        return False
    attributes = vars(part)
    hooked = any(attributes[name] for name in torch_private.HOOKS)
    # a subclass that inherits forward, such as that of a parametrization, runs the same code
    overridden = kind is not None and type(part) is not kind and type(part).forward is not kind.forward
    return "forward" in attributes or hooked or overridden or torch_private.global_hooks_registered()


def mode_reasons(*, gradients: bool = False, autocast: bool = False) -> list[str]:
    """Why the settings around a call need the readable code; fused code may support gradients or autocast."""
    if torch.compiler.is_compiling():
        return ["the call is being compiled"]
    reasons = []
    if not gradients and torch.is_grad_enabled():
        reasons.append("gradients are enabled")
    if active_recorders():
        reasons.append("attention is being recorded by a trace or an intervention")
    # torch's public function takes one type of device, this one covers all
    if not autocast and torch_private.autocast_active():
        reasons.append("autocast is enabled")
    if torch_private.transforms_active():
        reasons.append("a torch.func transform is active")
    # torch.set_default_device is such a mode too, and changes no call of fused code
    if torch_private.function_mode_active():
        reasons.append("a TorchFunctionMode is active")
    return reasons


def unsupported_reasons(model: Any, *, gradients: bool = False, autocast: bool = False) -> list[str]:
    """Every reason why a model's own readable code must run; [] if fused code gives the same.

    The model is compared with one that its class builds of its config: modules, attributes, methods, hooks. Weights are
    not compared, since fused code uses those that the modules have. Code that supports `gradients` or `autocast` says
    so; the first includes training mode.
    """
    reasons = mode_reasons(gradients=gradients, autocast=autocast)
    module = unwrap(model)
    # the comparison below cannot be traced
    if torch.compiler.is_compiling():
        return reasons
    if torch_private.global_hooks_registered():
        reasons.append("a global module hook is registered")
    snapshot = _snapshots.get(module)
    # settings around the call are checked every time, the structure in full only after a change
    if snapshot is None or not snapshot.equals(module):
        # taken before the comparison: an edit by another thread in the meantime is detected by the next call
        snapshot = Snapshot.of(module)
        differences = differences_of(module)
        if differences:
            # an outdated snapshot must not be compared again
            _snapshots.pop(module, None)
            return reasons + differences
        _snapshots[module] = snapshot
    # training mode is no difference in structure, but dropout is active in it
    if snapshot.training and not gradients:
        reasons.append("a module is in training mode")
    return reasons


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything that the comparison depends on, as it was when it succeeded.

    The full comparison takes milliseconds, this one is a few passes over lists. Views are live, so they need not be
    collected again. No field refers to the model, which would keep it in memory.
    """

    kind: type
    submodules: list[nn.Module]
    kinds: list[type]
    namespaces: list[ValuesView[Any]]
    values: list[tuple[Any, ...]]
    empty: list[Mapping[Any, Any]]
    tensors: Sequence[ValuesView[Any]]
    tensor_kinds: list[type]
    training: bool

    @classmethod
    def of(cls, model: nn.Module) -> "Snapshot":
        """The model's current structure."""
        parts = list(model.modules())
        children = [part._modules for part in parts]
        # live views: the types of replaced tensors are compared, their numbers are not
        tensors = [each.values() for part in parts for each in (part._parameters, part._buffers)]
        # attributes and children by module, and methods by class, each of which may be replaced
        spaces = [*map(vars, parts), *filter(None, children), *map(vars, classes_of(parts))]
        return cls(
            kind=type(model),
            # without the model: values of a weak dictionary must not refer to their key
            submodules=parts[1:],
            kinds=list(map(type, parts[1:])),
            namespaces=[space.values() for space in spaces],
            values=[tuple(space.values()) for space in spaces],
            # a hook or a child that is added to an empty dictionary changes no value above
            empty=[
                *(vars(part)[name] for part in parts for name in torch_private.HOOKS),
                *(each for each in children if not each),
            ],
            tensors=tensors,
            tensor_kinds=list(map(type, chain.from_iterable(tensors))),
            training=any(part.training for part in parts),
        )

    def equals(self, model: nn.Module) -> bool:
        """Whether nothing has changed since."""
        try:
            return (
                self.kind is type(model)
                # cheap tests first: this runs at every call of a fused model
                and not any(self.empty)
                and list(map(type, self.submodules)) == self.kinds
                and list(map(type, chain.from_iterable(self.tensors))) == self.tensor_kinds
                # lists compare by identity before equality, so unchanged values are not compared in full
                and list(map(tuple, self.namespaces)) == self.values
            )
        except (RuntimeError, ValueError):
            # a tensor or an array among the attributes is not comparable; another thread may change a namespace
            return False


# weak keys: a snapshot is removed with its model
_snapshots: WeakKeyDictionary[nn.Module, Snapshot] = WeakKeyDictionary()


def differences_of(model: nn.Module) -> list[str]:
    """How the model differs from what its class builds of its config."""
    # not type[nn.Module], which mypy takes for unhashable
    kind: Any = type(model)
    # from the instance alone: a default of the class need not be the config of this model
    config = vars(model).get("config")
    if config is None or not is_constant(config):
        return [f"{kind.__name__} has no frozen config to build a reference from"]
    return list(compare(model, build_on_meta(kind, config, repr(config)), "")) + replaced_methods(model)


@lru_cache(maxsize=16)
def build_on_meta(kind: Callable[[Any], nn.Module], config: Hashable, text: str) -> nn.Module:
    """A model whose tensors take no memory: structure without numbers.

    `text` is the config's repr. It is part of the cache's key, since configs with 0 and 0.0 are equal.
    """
    # the result is cached and used outside of inference mode too
    with torch.inference_mode(False), torch.device("meta"), WithoutNumbers():
        return kind(config)


class WithoutNumbers(TorchFunctionMode):
    """Leaves initial weights as they are: torch's `normal_` on the meta device imports its compiler, for a second."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        """Run the function, unless it only draws into its tensor."""
        named = named or {}
        if function in DRAWS or getattr(function, "__module__", "") == "torch.nn.init":
            return arguments[0] if arguments else named["tensor"]
        # as for `normal_`: drawing on the meta device would import the compiler
        function = torch.empty if function is torch.randn else function
        return function(*arguments, **named)


def compare(part: nn.Module, reference: nn.Module, path: str) -> Iterator[str]:
    """How a module differs from the one that its model's class builds at this path."""
    name = path or "the model"
    # the exact type: a subclass may override forward
    if type(part) is not type(reference):
        yield f"{name} is a {type(part).__name__} in place of a {type(reference).__name__}"
        return
    for hooks in torch_private.HOOKS:
        if vars(part)[hooks]:
            yield f"{name} has {hooks.strip('_').replace('_', ' ')}"
    for kind in ("_parameters", "_buffers"):
        yield from compare_tensors(vars(part)[kind], vars(reference)[kind], name)
    yield from compare_attributes(attributes_of(part), attributes_of(reference), name)
    # the order matters too: a Sequential runs its children in it
    if list(part._modules) != list(reference._modules):
        yield f"{name} has the children {list(part._modules)} in place of {list(reference._modules)}"
        return
    for key, child in part._modules.items():
        expected = reference._modules[key]
        # a child may be registered as None, as an optional layer is
        if child is not None and expected is not None:
            yield from compare(child, expected, f"{path}.{key}" if path else key)
        elif child is not expected:
            yield f"{name}.{key} is {'missing' if child is None else 'not part of such a model'}"


def compare_tensors(tensors: dict[str, Any], references: dict[str, Any], name: str) -> Iterator[str]:
    """Names and types; a subclass of Tensor may compute otherwise."""
    # views of keys compare as sets: the order of the tensors does not matter
    if tensors.keys() != references.keys():
        yield f"{name} has the tensors {list(tensors)} in place of {list(references)}"
        return
    for key, tensor in tensors.items():
        if type(tensor) is not type(references[key]):
            yield f"{name}.{key} is a {type(tensor).__name__} in place of a {type(references[key]).__name__}"


def compare_attributes(attributes: dict[str, Any], references: dict[str, Any], name: str) -> Iterator[str]:
    """Plain attributes: a rate, a number of heads, an instance's own `forward`."""
    for key in sorted(attributes.keys() | references.keys()):
        if key not in references:
            yield f"{name} has an attribute of its own, {key}"
        elif key not in attributes:
            yield f"{name}.{key} was deleted"
        elif not is_constant(attributes[key]):
            yield f"{name}.{key} is a {type(attributes[key]).__name__}, which may change without notice"
        # 1 == 1.0 == True, so equal values are not enough
        elif type(attributes[key]) is not type(references[key]) or attributes[key] != references[key]:
            yield f"{name}.{key} is {attributes[key]!r} in place of {references[key]!r}"


def attributes_of(part: nn.Module) -> dict[str, Any]:
    """The module's attributes other than those of every module."""
    ignored = INTERNAL | RECURRENT_LISTS if isinstance(part, nn.RNNBase) else INTERNAL
    return {key: value for key, value in vars(part).items() if key not in ignored}


def is_constant(value: Any) -> bool:
    """Whether a value cannot be edited in place."""
    if isinstance(value, tuple):
        return all(map(is_constant, value))
    if is_dataclass(value) and not isinstance(value, type):
        # a frozen dataclass may still hold a list
        frozen = value.__dataclass_params__.frozen  # type: ignore[attr-defined]
        return frozen and all(is_constant(getattr(value, field.name)) for field in fields(value))
    return isinstance(value, CONSTANTS)


BUILDERS = frozenset({"__init__", "__setstate__"})
"""Methods that build a module and take no part in its calls. torch.compile replaces both in nn.Module, for good."""


def replaced_methods(model: nn.Module) -> list[str]:
    """Methods of the modules' classes that are not from the class's own source."""
    kinds = classes_of(list(model.modules()))
    foreign = [
        (kind, key)
        for kind in kinds
        for key, value in vars(kind).items()
        if key not in BUILDERS and not is_own(kind, value)
    ]
    # other packages add methods to nn.Module for themselves: such a method counts where a module's code uses its name
    names = names_in(kinds) if any(kind is nn.Module for kind, _ in foreign) else set()
    return [
        f"{kind.__name__}.{key} was replaced"
        for kind, key in foreign
        if kind is not nn.Module or key in names or key.startswith("__")
    ]


def names_in(kinds: list[type]) -> set[str]:
    """Every name that the classes' own methods use."""
    values = (value for kind in kinds for value in vars(kind).values() if is_own(kind, value))
    # co_names holds the globals and attributes that a function's code refers to
    return {name for value in values if isinstance(value, FunctionType) for name in value.__code__.co_names}


def is_own(kind: type, value: Any) -> bool:
    """Whether a class attribute is not a function, or one of the class's own source."""
    # the function inside is what can be replaced
    if isinstance(value, (classmethod, staticmethod)):
        value = value.__func__
    elif isinstance(value, property):
        # a forward pass reads properties and sets none
        value = value.fget
    if isinstance(value, FunctionType) and value.__globals__.get("__name__", "").startswith("jaxtyping."):
        # checks of shapes in tests wrap every method where it is defined
        value = getattr(value, "__wrapped__", value)
    if not isinstance(value, FunctionType):
        # plain data and nested classes; a callable object may compute anything
        return isinstance(value, type) or not callable(value)
    # a wrapper may copy the name of what it wraps, but neither its globals nor its code
    scope = value.__code__.co_qualname.rpartition(".")[0]
    # a file may be executed without an entry among the modules
    module = sys.modules.get(kind.__module__)
    return module is not None and value.__globals__ is vars(module) and scope in ("", kind.__qualname__)


def classes_of(parts: list[nn.Module]) -> list[type]:
    """The modules' classes and those they inherit from."""
    # a dictionary instead of a set keeps the order of the reasons
    kinds = {kind: None for part in parts for kind in type(part).__mro__}
    return [kind for kind in kinds if kind is not object]
