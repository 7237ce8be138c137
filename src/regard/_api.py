"""Functions of `regard` that several packages make up.

Packages are imported inside the functions: tasks and fused are needed for trained models only, and take longer to
import than torch.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor

# for annotations alone: at run time these imports would load every task
if TYPE_CHECKING:
    from regard.attention import Attention, MultiHeadAttention
    from regard.contracts import Predictor
    from regard.kernels import BackendChoice
    from regard.tasks.language_modeling import TextGenerator
    from regard.tasks.translation import Translator


# the overloads give type checkers the result of each form; the implementation distinguishes them at run time
@overload
def which_backend(target: Tensor, keys: Tensor, values: Tensor, /, **options: Any) -> "BackendChoice": ...


@overload
def which_backend(
    target: "Attention | MultiHeadAttention", queries: Tensor, /, *memory: Any, **options: Any
) -> "BackendChoice": ...


@overload
def which_backend(target: Any, /) -> str: ...


def which_backend(target: Any, /, *inputs: Any, **options: Any) -> "BackendChoice | str":
    """What runs for a call, and every reason against the faster alternatives; print the result to read it.

    which_backend(queries, keys, values, **options)    the kernel of `attend(queries, keys, values, **options)`
    which_backend(attention, queries, .., **options)   the kernel of `attention(queries, .., **options)`, where
                                                       attention is an `Attention` or a `MultiHeadAttention`
    which_backend(model)                               the code that a model or a predictor decodes with
    """
    from regard.attention import Attention, MultiHeadAttention
    from regard.attention import which_backend as which_kernel

    # tensors and attentions have inputs; everything else is a model, whose code depends on the model alone
    if isinstance(target, Tensor):
        return which_kernel(target, *inputs, **options)
    if isinstance(target, (Attention, MultiHeadAttention)):
        return target.which_backend(*inputs, **options)
    if inputs or options:
        raise TypeError(
            f"which_backend takes inputs for tensors, Attention and MultiHeadAttention, not for a "
            f"{type(target).__name__}. Call which_backend(model), or pass one of the attentions inside the model."
        )
    # only here, since the choice of a kernel needs no model
    from regard.fused import which

    return which(target)


@overload
def load(
    folder: str | Path, *, device: str | torch.device = "auto", fused: bool = True, verify: bool = True
) -> "Predictor": ...


@overload
def load(
    folder: str | Path,
    *,
    verb: Literal["translate"],
    device: str | torch.device = "auto",
    fused: bool = True,
    verify: bool = True,
) -> "Translator": ...


@overload
def load(
    folder: str | Path,
    *,
    verb: Literal["generate"],
    device: str | torch.device = "auto",
    fused: bool = True,
    verify: bool = True,
) -> "TextGenerator": ...


@overload
def load(
    folder: str | Path, *, verb: str, device: str | torch.device = "auto", fused: bool = True, verify: bool = True
) -> "Predictor": ...


def load(
    folder: str | Path,
    *,
    verb: str | None = None,
    device: str | torch.device = "auto",
    fused: bool = True,
    verify: bool = True,
) -> Any:
    """The predictor of a folder that `regard train` wrote.

    `device` is "auto" (the GPU if there is one), a torch.device, or its name, such as "cpu", "cuda:1" or "mps".
    `fused=False` runs the model's own readable code only. `verb` is that of the task, such as "translate" or one
    of a task of another package; a folder of a task with another verb is an error. Type checkers know the type of the
    predictor for the verbs that have options of their own.

    Every file is compared with the SHA-256 that was recorded when it was saved, and a damaged one is refused.
    `verify=False` skips that, as REGARD_VERIFY=0 does in the environment.
    """
    # renamed, since this function has the same name
    from regard.tasks import load as load_predictor
    from regard.tasks import load_as

    if verb is None:
        return load_predictor(folder, device=device, fused=fused, verify=verify)
    return load_as(verb, folder, device=device, fused=fused, verify=verify)
