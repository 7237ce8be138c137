"""Random cases of attention: one number draws a score, an alignment, a mask, shapes, a precision and the tensors.

Leading dimensions broadcast, queries and keys may be none or one, masks are random expressions, and some inputs hold
NaN or infinities. A case of another list breaks one rule and must be refused by a sentence.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import ALIGNMENTS, SCORES, attend
from regard.attention.masks import as_mask, causal, dilated, padding, predicate, prefix, window
from regard.attention.scores import Biased, Cosine, ScaledDot
from regard.contracts import Lowered, PositionInfo
from regard.testing.cases import build_entry

DTYPES = {torch.float64: 2, torch.float32: 4, torch.bfloat16: 2, torch.float16: 2}
BROKEN = {"": 85, "nan query": 5, "nan key": 4, "inf query": 2, "huge": 2, "nan value": 2}
"""What some input holds, and how often of 100 cases."""
LARGE = 4000
"""Pairs of a query and a key from which a case has few of them, of a small size."""


@dataclass(frozen=True)
class Scaled:
    """A score as a user writes it: scale q . k + the key's first number, with a scale of any sign."""

    scale: float

    def prepare(self, keys: Tensor) -> Tensor:
        """The keys themselves."""
        return keys

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scale * (queries @ keys.mT) + keys[..., :1].mT

    def lower(self, queries: Tensor, keys: Tensor) -> Lowered:
        """The same with a bias per key."""
        return Lowered(queries=queries, keys=keys, scale=self.scale, key_bias=keys[..., 0])


@dataclass(frozen=True, kw_only=True)
class Case:
    """The arguments of one attention, and the names by which the reference knows them."""

    seed: int
    score_name: str
    align_name: str
    score: Any
    align: Any
    mask: tuple[Any, ...] | None
    tensors: tuple[Tensor, Tensor, Tensor]
    steps: Tensor
    broken: str
    # the size of the blocks of queries on the CPU; 0 for the size that users get
    block: int = 0

    def __str__(self) -> str:
        shapes = " ".join(str(tuple(tensor.shape)) for tensor in self.tensors)
        dtype = str(self.tensors[0].dtype).removeprefix("torch.")
        return f"{self.score_name} {self.align_name} {dtype} {shapes} mask={show(self.mask)} {self.broken}".strip()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the scores."""
        queries, keys, values = (tensor.shape for tensor in self.tensors)
        return (*torch.broadcast_shapes(queries[:-2], keys[:-2], values[:-2]), queries[-2], keys[-2])

    def attend(self, *tensors: Tensor, return_weights: bool = False, mask: Any = None) -> Any:
        """The package's attention of these tensors, in place of the case's own."""
        return attend(
            *(tensors or self.tensors),
            score=self.score,
            align=self.align,
            mask=build_mask(self.mask) if mask is None else mask,
            position_info=PositionInfo(positions=self.steps),
            return_weights=return_weights,
        )


def show(expression: Any) -> str:
    """A mask expression on one line, tensors by their shape."""
    if isinstance(expression, Tensor):
        return f"{list(expression.shape)}"
    return f"({' '.join(map(show, expression))})" if isinstance(expression, tuple) else str(expression)


def draw(seed: int) -> Case:
    """The case of this number, always the same."""
    numbers, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    dtype = numbers.choices(list(DTYPES), list(DTYPES.values()))[0]
    score_name = numbers.choice([*SCORES, "own", "own", "biased"])
    # half of the cases run fused kernels
    align_name = "softmax" if numbers.random() < 0.5 else numbers.choice(list(ALIGNMENTS))
    num_queries, num_keys = draw_length(numbers), draw_length(numbers)
    if numbers.random() < 0.3:
        num_queries = num_keys
    query_size = numbers.choice([1, 2, 3, 4, 5, 8, 16, 33, 64])
    if num_queries * num_keys > LARGE:
        # the reference forms the products of every pair
        query_size = min(query_size, 8)
    key_size = numbers.choice([1, 3, query_size]) if takes_key_size(score_name) else query_size
    leading = tuple(numbers.choice([1, 2, 3]) for _ in range(numbers.choice([0, 1, 1, 2, 2, 3])))
    if leading and numbers.random() < 0.02:
        leading = (0, *leading[1:])
    if num_queries * num_keys > LARGE:
        leading = leading[:1]
    sizes = (num_queries, query_size), (num_keys, key_size), (num_keys, numbers.choice([1, 2, 5, 8, 40]))
    scale = numbers.choice([0.05, 1.0, 1.0, 3.0]) if dtype.itemsize > 2 else numbers.choice([0.05, 0.5, 1.0])
    tensors = [
        torch.randn(*draw_leading(numbers, leading), *size, generator=generator, dtype=torch.float64) * scale
        for size in sizes
    ]
    # values far from 0, beside which rounding shows in gradients
    tensors[2] = tensors[2] + numbers.choice([0.0, 0.0, 0.0, 50.0])
    shape = (*torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors)), num_queries, num_keys)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        score = draw_score(numbers, score_name, query_size, key_size, shape)
        align = build_entry(ALIGNMENTS[align_name], query_size=query_size, hidden_size=numbers.randint(1, 5))
    case = Case(
        seed=seed, score_name=score_name, align_name=align_name, score=cast(score, dtype),
        align=cast(align, dtype).eval(), mask=draw_mask(numbers, generator, shape), steps=torch.arange(num_queries),
        tensors=tuple(tensor.to(dtype) for tensor in tensors), broken="", block=numbers.choice([0, 0, 4]),
    )  # fmt: skip
    return break_numbers(case, numbers)


def draw_length(numbers: random.Random) -> int:
    """Mostly a few positions, sometimes none or one, rarely more than a kernel's block."""
    return numbers.choices([0, 1, numbers.randint(2, 9), numbers.randint(17, 40), 530], [4, 12, 75, 8, 1])[0]


def draw_leading(numbers: random.Random, leading: tuple[int, ...]) -> tuple[int, ...]:
    """Leading dimensions that broadcast to these: some of size 1, some left out."""
    sizes = tuple(size if numbers.random() < 0.75 else 1 for size in leading)
    return sizes if numbers.random() < 0.8 else sizes[numbers.randint(0, len(sizes)) :]


def takes_key_size(score_name: str) -> bool:
    """Scores whose queries and keys may differ in size."""
    return score_name in ("additive", "concat", "general", "biased_general", "activated_general", "location")


def draw_score(numbers: random.Random, name: str, query_size: int, key_size: int, shape: tuple[int, ...]) -> Any:
    """A score of the table, or one of a user."""
    scale = numbers.choice([-1.0, 0.0, 1.0, numbers.uniform(-5, 5)])
    if name == "own":
        return Scaled(scale)
    if name == "cosine":
        return Cosine(scale=scale)
    if name == "biased":
        bias = torch.randn(shape[-2:])
        return Biased(ScaledDot(), bias.masked_fill(torch.rand(shape[-2:]) < 0.1, -torch.inf))
    return build_entry(
        SCORES[name], query_size=query_size, key_size=key_size, hidden_size=numbers.randint(1, 6),
        max_length=shape[-1] + numbers.randint(0, 2),
    )  # fmt: skip


def cast(part: Any, dtype: torch.dtype) -> Any:
    """A module in this precision; other objects as they are, but for the bias of a score."""
    if isinstance(part, Biased):
        return replace(part, bias=part.bias.to(dtype))
    return part.to(dtype) if isinstance(part, nn.Module) else part


def draw_mask(
    numbers: random.Random, generator: torch.Generator, shape: tuple[int, ...], depth: int = 0
) -> tuple[Any, ...] | None:
    """A random expression; None for no mask."""
    *leading, num_queries, num_keys = shape
    if depth == 0 and numbers.random() < 0.25:
        return None
    if depth < 3 and numbers.random() < 0.45:
        name = numbers.choice(["&", "&", "|", "~"])
        parts = (draw_mask(numbers, generator, shape, depth + 1) for _ in range(1 if name == "~" else 2))
        return (name, *parts)
    atoms: list[tuple[Any, ...]] = [
        ("causal",), ("window", numbers.randint(0, 4)), ("dilated", numbers.randint(0, 3), numbers.randint(1, 3)),
        ("prefix", numbers.randint(0, num_keys + 1)), ("predicate",),
    ]  # fmt: skip
    if leading:
        lengths = torch.randint(0, num_keys + 1, (leading[0],), generator=generator)
        atoms += [("padding", lengths), ("lengths", lengths)]
    shapes = [(num_queries, num_keys), (num_keys,), (*leading, 1, num_keys), (*leading, num_queries, num_keys)]
    atoms.append(("tensor", torch.rand(numbers.choice(shapes), generator=generator) < 0.7))
    return numbers.choice(atoms)


def build_mask(expression: tuple[Any, ...] | None) -> Any:
    """The package's mask of an expression."""
    if expression is None:
        return None
    name, *arguments = expression
    if name in ("&", "|"):
        left, right = map(build_mask, arguments)
        return left & right if name == "&" else left | right
    if name == "~":
        return ~build_mask(arguments[0])
    makers: dict[str, Callable[..., Any]] = {
        "causal": causal, "window": window, "dilated": dilated, "prefix": prefix, "padding": padding,
        "lengths": prefix, "predicate": lambda: predicate(lambda i, j: (i + 2 * j) % 3 != 0), "tensor": as_mask,
    }  # fmt: skip
    return makers[name](*arguments)


def break_numbers(case: Case, numbers: random.Random) -> Case:
    """Some inputs hold NaN, an infinity, or numbers whose products overflow."""
    kind = numbers.choices(list(BROKEN), list(BROKEN.values()))[0]
    # infinities are defined for plain dot products: elsewhere the formula itself gives inf - inf
    if kind in ("inf query", "huge") and case.score_name not in ("dot", "scaled_dot"):
        kind = ""
    tensors = [tensor.clone() for tensor in case.tensors]
    at = {"nan query": 0, "inf query": 0, "huge": 0, "nan key": 1, "nan value": 2}.get(kind, 0)
    if not kind or not all(tensor.numel() for tensor in tensors):
        return case
    value = {"inf query": torch.inf, "huge": 1e4 if case.tensors[0].dtype == torch.float16 else 1e25}.get(
        kind, torch.nan
    )
    flat = tensors[at].view(-1)
    flat[numbers.randrange(len(flat))] = value
    if kind == "huge":
        tensors[1].view(-1)[numbers.randrange(tensors[1].numel())] = value
    return replace(case, tensors=tuple(tensors), broken=kind)


STATES = torch.randn(2, 3, 8)
WRONG: dict[str, Callable[[], Any]] = {
    "integers": lambda: attend(STATES.long(), STATES, STATES),
    "a list": lambda: attend(STATES.tolist(), STATES, STATES),
    "a vector": lambda: attend(STATES[0, 0], STATES, STATES),
    "another dtype": lambda: attend(STATES, STATES.double(), STATES),
    "float8": lambda: attend(*(STATES.to(torch.float8_e4m3fn),) * 3),
    "sparse": lambda: attend(STATES, STATES.to_sparse(), STATES),
    "jagged": lambda: attend(STATES, STATES, torch.nested.nested_tensor(list(STATES), layout=torch.jagged)),
    "another size": lambda: attend(STATES, STATES[..., :7], STATES),
    "too few values": lambda: attend(STATES, STATES, STATES[:, :2]),
    "another batch": lambda: attend(STATES, STATES.expand(5, 2, 3, 8)[:, 0], STATES),
    "a mask of floats": lambda: attend(STATES, STATES, STATES, mask=torch.zeros(3, 3)),
    "a mask of another shape": lambda: attend(STATES, STATES, STATES, mask=torch.ones(2, 4, dtype=torch.bool)),
    "lengths of another batch": lambda: attend(STATES, STATES, STATES, mask=padding(torch.tensor([1, 2, 3]))),
    "negative lengths": lambda: attend(STATES, STATES, STATES, mask=padding(torch.tensor([1, -2]))),
    "a query out of range": lambda: attend(STATES, STATES, STATES, weights_for_queries=[3]),
    "a dropout of 1": lambda: attend(STATES, STATES, STATES, dropout=1.0),
    "a class": lambda: attend(STATES, STATES, STATES, score=ScaledDot),  # type: ignore[arg-type]
}
"""Calls that break one rule each."""
