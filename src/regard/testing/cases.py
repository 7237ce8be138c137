"""The tensors, masks and table entries with which scores, alignments and masks are checked.

A case is one score with one alignment. A combination is a case with one mask in one precision; its attention and its
gradients are computed once, and every check of the grid reads them.

Shapes: 3 batch elements, 5 queries, 7 keys; the lengths of the batch elements are 7, 4 and 0 keys.
"""

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from regard.attention import ALIGNMENTS, MASKS, SCORES, attend
from regard.attention.masks import ComposableMask, as_mask, causal, padding, prefix, window
from regard.contracts import Alignment, Attended, Grid, MechanismEntry, PositionInfo, Score
from regard.testing.comparison import name_of

BATCH_SIZE, NUM_QUERIES, NUM_KEYS = 3, 5, 7
QUERY_SIZE, KEY_SIZE, VALUE_SIZE = 8, 6, 4
# all keys, some, and none: an empty batch element is part of every check
LENGTHS = (NUM_KEYS, 4, 0)
# absolute, for numbers of about 1
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 5e-2}
DTYPES = tuple(TOLERANCE)

ENTRY_ARGUMENTS: dict[str, Any] = {
    "query_size": QUERY_SIZE,
    "hidden_size": 5,
    "max_length": NUM_KEYS + 3,
    "num_heads": 2,
}
MASK_ARGUMENTS: dict[str, Any] = {"size": 2, "length": 3, "step": 2, "function": lambda i, j: (i + j) % 3 != 0}

MaskFactory: TypeAlias = Callable[[Tensor], ComposableMask | Tensor | None]
"""From the lengths of the batch to a mask."""


def build_entry(entry: MechanismEntry, **arguments: Any) -> Any:
    """One of the entry; what it requires is found by name in `arguments` or among the sizes above."""
    arguments_by_name = ENTRY_ARGUMENTS | arguments
    required = {
        name: arguments_by_name[name]
        for name, parameter in inspect.signature(entry.build).parameters.items()
        # *args and **kwargs have no default, and need no value
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    return entry.build(**required)


def key_size_of(score_name: str) -> int:
    """The key size of an entry: scores that name their sizes get different ones for queries and keys."""
    names = inspect.signature(SCORES[score_name].build).parameters
    return KEY_SIZE if "key_size" in names or score_name == "location" else QUERY_SIZE


def build_score(name: str) -> Score:
    """A score of the table in float64, always the same."""
    # forked, so that the random numbers of the caller are unchanged
    with torch.random.fork_rng():
        torch.manual_seed(1)
        score: Score = cast(build_entry(SCORES[name], key_size=key_size_of(name)), torch.float64)
    return score


def build_alignment(name: str, query_size: int = QUERY_SIZE) -> Alignment:
    """An alignment of the table in float64, always the same."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        align: Alignment = cast(build_entry(ALIGNMENTS[name], query_size=query_size), torch.float64)
    return align


def mask_of_entry(entry: MechanismEntry) -> MaskFactory:
    """The factory of a mask of the table."""
    return lambda lengths: build_entry(entry, lengths=lengths, **MASK_ARGUMENTS)


def tensor_mask(lengths: Tensor) -> Tensor:
    """A boolean tensor without a pattern."""
    # a period of 4 over 7 keys: the first four rows differ
    return torch.arange(NUM_QUERIES * NUM_KEYS, device=lengths.device).reshape(NUM_QUERIES, NUM_KEYS) % 4 != 1


MASK_CASES: dict[str, MaskFactory] = {
    "none": lambda lengths: None,
    **{name: mask_of_entry(entry) for name, entry in MASKS.items()},
    "causal_and_padding": lambda lengths: causal() & padding(lengths),
    "not_window": lambda lengths: ~window(1),
    "causal_or_prefix": lambda lengths: causal() | prefix(3),
    "tensor": tensor_mask,
}
"""Every mask of the table, combinations of them, a tensor and none."""


def make_mask(name: str, device: str | torch.device = "cpu") -> ComposableMask | Tensor | None:
    """A mask of the cases for the lengths of the batch."""
    return MASK_CASES[name](torch.tensor(LENGTHS, device=device))


def cast(part: Any, dtype: torch.dtype, device: str | torch.device = "cpu") -> Any:
    """A copy of a module in this precision on this device, in evaluation mode; any other object as it is."""
    # a copy, because checks change precision and parameters
    return copy.deepcopy(part).to(device, dtype).eval() if isinstance(part, nn.Module) else part


def position_info(num_queries: int = NUM_QUERIES) -> PositionInfo:
    """Queries at the positions 0, 1, 2 .."""
    return PositionInfo(positions=torch.arange(num_queries))


def write_out(
    mask: ComposableMask | Tensor | None,
    batch_size: int = BATCH_SIZE,
    num_queries: int = NUM_QUERIES,
    num_keys: int = NUM_KEYS,
) -> Tensor:
    """The mask as a boolean tensor (batch, queries, keys)."""
    shape = (batch_size, num_queries, num_keys)
    if mask is None:
        return torch.ones(shape, dtype=torch.bool)
    # the last query is aligned with the last key
    grid = Grid.of(shape, device=torch.device("cpu"), first_query=num_keys - num_queries)
    return as_mask(mask).allowed(grid).expand(shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionCase:
    """One score with one alignment, and the sizes of their queries and keys.

    `differentiable` says that the weights are a smooth function of the scores (hard alignments are not);
    `shares_infinity` that keys whose scores are +inf share the weight of their query equally.
    """

    # objects that may lack a member of the contract, which the checks of the protocols name
    score: Any
    align: Any
    query_size: int = QUERY_SIZE
    key_size: int = QUERY_SIZE
    differentiable: bool = True
    shares_infinity: bool = False
    masks: Mapping[str, MaskFactory] = field(default_factory=lambda: MASK_CASES)
    dtypes: tuple[torch.dtype, ...] = DTYPES
    # the fields are frozen, the content of the dictionary is not
    _copies: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{name_of(self.score)} with {name_of(self.align)}"

    def parts(self, dtype: torch.dtype, device: str | torch.device = "cpu") -> dict[str, Any]:
        """Score and alignment in this precision, as arguments of attend; copied once."""
        # str: a device and its name are one entry
        key = ("parts", dtype, str(device))
        if key not in self._copies:
            self._copies[key] = {"score": cast(self.score, dtype, device), "align": cast(self.align, dtype, device)}
        # a dictionary of the caller's own
        return dict(self._copies[key])

    def inputs(self, dtype: torch.dtype = torch.float64, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values that fit the score."""
        key = ("inputs", seed)
        if key not in self._copies:
            # drawn in float64 and then rounded, so that all precisions have the same inputs
            generator = torch.Generator().manual_seed(seed)
            sizes = (NUM_QUERIES, self.query_size), (NUM_KEYS, self.key_size), (NUM_KEYS, VALUE_SIZE)
            self._copies[key] = [
                torch.randn(BATCH_SIZE, *size, generator=generator, dtype=torch.float64) for size in sizes
            ]
        # copied: float64 tensors would otherwise share memory with the cached ones, which must not change
        queries, keys, values = (tensor.to(dtype, copy=True) for tensor in self._copies[key])
        return queries, keys, values

    def attend(
        self, tensors: tuple[Tensor, ...], *, mask: Any = None, return_weights: bool = False, parts: Any = None
    ) -> Attended:
        """Attention with the parts in the tensors' precision, or with these parts."""
        queries, keys, values = tensors
        return attend(
            queries,
            keys,
            values,
            **(parts or self.parts(queries.dtype, queries.device)),
            mask=mask,
            position_info=position_info(queries.shape[-2]),
            return_weights=return_weights,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Combination:
    """A case with one mask in one precision."""

    case: AttentionCase
    mask_name: str
    dtype: torch.dtype
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.case}, mask {self.mask_name}, {str(self.dtype).removeprefix('torch.')}"

    def mask_of(self, lengths: tuple[int, ...]) -> ComposableMask | Tensor | None:
        """The mask of batch elements of these lengths."""
        return self.case.masks[self.mask_name](torch.tensor(lengths))

    @cached_property
    def mask(self) -> ComposableMask | Tensor | None:
        """The mask of the whole batch."""
        return self.mask_of(LENGTHS)

    @cached_property
    def allowed(self) -> Tensor:
        """The mask written out."""
        return write_out(self.mask)

    @cached_property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values that need gradients."""
        # gradients are taken for these tensors, which must be leaves
        queries, keys, values = (tensor.requires_grad_() for tensor in self.case.inputs(self.dtype, seed=self.seed))
        return queries, keys, values

    @cached_property
    def parts(self) -> dict[str, Any]:
        """Score and alignment in this precision."""
        return self.case.parts(self.dtype)

    @cached_property
    def formed(self) -> Attended:
        """Attention that forms its weights."""
        return self.case.attend(self.inputs, mask=self.mask, return_weights=True)

    @cached_property
    def gradients(self) -> list[Tensor]:
        """Gradients of the formed attention."""
        return gradients_of(self.formed, self.inputs, self.parts)

    @cached_property
    def fused(self) -> Attended:
        """Attention without weights, which runs a fused kernel where there is one."""
        return self.case.attend(self.inputs, mask=self.mask)

    @cached_property
    def fused_gradients(self) -> list[Tensor]:
        """Gradients of the attention without weights."""
        return gradients_of(self.fused, self.inputs, self.parts)

    @cached_property
    def exact(self) -> list[Tensor]:
        """Context and gradients of the formed attention in float64, from the same rounded inputs and parameters."""
        inputs = tuple(tensor.detach().double().requires_grad_() for tensor in self.inputs)
        parts = {name: cast(part, torch.float64) for name, part in self.parts.items()}
        attended = self.case.attend(inputs, mask=self.mask, return_weights=True, parts=parts)
        return [attended.context, *gradients_of(attended, inputs, parts)]


def gradients_of(attended: Attended, inputs: tuple[Tensor, ...], parts: dict[str, Any]) -> list[Tensor]:
    """Gradients of queries, keys, values and parameters in a fixed direction of the context; 0 where there is none."""
    modules = [part for part in parts.values() if isinstance(part, nn.Module)]
    variables = [*inputs, *(parameter for module in modules for parameter in module.parameters())]
    # a random direction: in a plain sum errors of opposite sign cancel
    loss = (attended.context * direction(attended.context.shape).to(attended.context)).sum()
    if attended.sample_log_prob is not None:
        # a sampled alignment learns through the log-probability of its sample
        loss = loss + attended.sample_log_prob.sum()
    gradients = torch.autograd.grad(loss, variables, allow_unused=True)
    return [
        torch.zeros_like(variable) if gradient is None else gradient
        for variable, gradient in zip(variables, gradients, strict=True)
    ]


@cache
def direction(shape: torch.Size) -> Tensor:
    """The gradient of the loss with respect to a context of this shape."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
