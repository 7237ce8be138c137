"""Torch's private names: the only file of the package that uses any.

A new version of torch may rename or remove them. Each is looked up when this file is imported, or at the call where
importing torch's compiler would take long, and each has a fallback: slower or more cautious code with the same results.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

AUTOCAST_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "xla")


def lookup(name: str) -> Any:
    """The object with this dotted name, or None where the installed torch has none."""
    path, *attributes = name.split(".")
    value: Any = import_module(path)
    for attribute in attributes:
        path = f"{path}.{attribute}"
        if not hasattr(value, attribute):
            try:
                # a submodule that nothing has imported yet
                import_module(path)
            except ImportError:
                return None
        value = getattr(value, attribute, None)
    return value


_transforms_active = lookup("torch._C._are_functorch_transforms_active")
_is_wrapped = lookup("torch._C._functorch.is_functorch_wrapped_tensor")
_autocast_active = lookup("torch._C._is_any_autocast_enabled")
_forward_level = lookup("torch.autograd.forward_ad._current_level")
_global_hooks = lookup("torch.nn.modules.module._has_any_global_hook")
_function_modes = lookup("torch.overrides._get_current_function_mode_stack")
_device_mode = lookup("torch.utils._device.DeviceContext")
_register_node = lookup("torch.utils._pytree.register_pytree_node")
_attribute_key = lookup("torch.utils._pytree.GetAttrKey")
_lerp = lookup("torch._foreach_lerp_")
_softmax_backward = lookup("torch.ops.aten._softmax_backward_data")
_sigmoid_backward = lookup("torch.ops.aten.sigmoid_backward")
_tanh_backward = lookup("torch.ops.aten.tanh_backward")
_addmm = lookup("torch.ops.aten.addmm")
_onednn_linear = lookup("torch.ops.mkldnn._linear_pointwise")


def transforms_active() -> bool:
    """Whether a torch.func transform runs; True if it cannot be determined."""
    return True if _transforms_active is None else bool(_transforms_active())


def is_wrapped(tensor: Tensor) -> bool:
    """Whether torch.func maps or differentiates over the tensor."""
    if _is_wrapped is not None:
        return bool(_is_wrapped(tensor))
    try:
        tensor.data_ptr()
    except RuntimeError:
        # a wrapper has no memory of its own
        return True
    return False


def forward_mode_active() -> bool:
    """Whether forward-mode derivatives are being computed."""
    if _forward_level is not None:
        return forward_ad._current_level >= 0
    if torch.compiler.is_compiling():
        # the attempt below cannot be traced
        return True
    try:
        forward_ad.make_dual(torch.zeros(()), torch.zeros(()))
    except RuntimeError:
        # torch makes dual tensors inside a dual level only
        return False
    return True


def autocast_active() -> bool:
    """Whether autocast is enabled for any type of device."""
    if _autocast_active is not None:
        return bool(_autocast_active())
    return any(torch.amp.is_autocast_available(each) and torch.is_autocast_enabled(each) for each in AUTOCAST_DEVICES)


def global_hooks_registered() -> bool:
    """Whether all modules have a hook; True if it cannot be determined."""
    return True if _global_hooks is None else bool(_global_hooks())


def function_mode_active() -> bool:
    """Whether a TorchFunctionMode runs, other than that of torch.set_default_device."""
    if _function_modes is not None and _device_mode is not None:
        return any(not isinstance(mode, _device_mode) for mode in _function_modes())
    # public, and True for a default device too
    return torch.overrides.has_torch_function((None,))


def has_onednn_linear() -> bool:
    """Whether torch offers oneDNN's product of whole weights."""
    return _onednn_linear is not None and torch.backends.mkldnn.is_available()


def onednn_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear` by oneDNN, without gradients; torch's own where oneDNN is not offered."""
    if _onednn_linear is None:
        return nn.functional.linear(inputs, weight, bias)
    # no operation after the product
    outputs: Tensor = _onednn_linear(inputs, weight, bias, "none", [], "")
    return outputs


def version_of(tensor: Tensor) -> object:
    """A value that differs once the tensor was edited in place; where edits are not counted, a new one each time."""
    try:
        return tensor._version
    except (AttributeError, RuntimeError):
        # a tensor that was made in inference mode has no counter
        return object()


def _hook_attributes() -> tuple[str, ...]:
    """The attributes of a module that a hook of each kind is stored in."""
    module, empty = nn.Module(), vars(nn.Module())
    for register in (
        module.register_forward_hook,
        module.register_forward_pre_hook,
        module.register_full_backward_hook,
        module.register_full_backward_pre_hook,
    ):
        register(lambda *_: None)
    return tuple(name for name, value in vars(module).items() if isinstance(value, Mapping) and value != empty[name])


HOOKS = _hook_attributes()


def register_node(kind: type, *, flatten: Any, unflatten: Any, name: str, from_json: Any) -> None:
    """Register a class as a node of torch's pytrees; without it, torch.export and torch.func refuse the class."""
    if _register_node is None:
        return

    def flatten_with_keys(node: Any) -> tuple[list[Any], Any]:
        children, context = flatten(node)
        return list(zip(map(_attribute_key, context[0]), children, strict=True)), context

    with_keys = {} if _attribute_key is None else {"flatten_with_keys_fn": flatten_with_keys}
    _register_node(
        kind,
        flatten,
        unflatten,
        serialized_type_name=name,
        to_dumpable_context=list,
        from_dumpable_context=from_json,
        **with_keys,
    )


def lerp_(averages: Sequence[Tensor], values: Sequence[Tensor], weight: float) -> None:
    """Move each average towards its value, in place: average + weight (value - average)."""
    if _lerp is not None:
        _lerp(averages, values, weight)
        return
    for average, value in zip(averages, values, strict=True):
        average.lerp_(value, weight)


def softmax_backward(grad: Tensor, weights: Tensor) -> Tensor:
    """Gradient of the scores of a softmax over the last axis: a (da - sum a da)."""
    if _softmax_backward is not None:
        return _softmax_backward(grad, weights, -1, weights.dtype)
    product = grad * weights
    return product - weights * product.sum(dim=-1, keepdim=True)


def sigmoid_backward(grad: Tensor, outputs: Tensor) -> Tensor:
    """Gradient of the inputs of a sigmoid."""
    return grad * (1 - outputs) * outputs if _sigmoid_backward is None else _sigmoid_backward(grad, outputs)


def tanh_backward(grad: Tensor, outputs: Tensor) -> Tensor:
    """Gradient of the inputs of a tanh."""
    return grad * (1 - outputs * outputs) if _tanh_backward is None else _tanh_backward(grad, outputs)


def multiplies_into_float32() -> bool:
    """Whether torch.addmm takes half precision inputs with a float32 result (`out_dtype`), on CUDA."""
    return hasattr(_addmm, "dtype_out")


def recompile_limit(limit: int) -> AbstractContextManager[Any]:
    """Within, torch.compile makes up to `limit` graphs of one function, if the installed torch has such a limit."""
    config = lookup("torch._dynamo.config")
    limits = {"recompile_limit": limit, "accumulated_recompile_limit": 4 * limit}
    options = {name: value for name, value in limits.items() if hasattr(config, name)}
    return config.patch(**options) if options else nullcontext()


def distinct_lengths() -> AbstractContextManager[Any]:
    """Within, torch.compile treats lengths that are equal in the first call as independent.

    Without the option it compiles once more for lengths that differ.
    """
    config = lookup("torch.fx.experimental._config")
    return config.patch(use_duck_shape=False) if hasattr(config, "use_duck_shape") else nullcontext()


def compile_errors() -> tuple[type[Exception], ...]:
    """What torch.compile raises if it fails; any exception, where torch does not name them."""
    errors = [lookup(f"torch._dynamo.exc.{name}") for name in ("TorchDynamoException", "FailOnRecompileLimitHit")]
    # OSError: its cache folder is not writable
    return (Exception,) if None in errors else (*errors, OSError)
