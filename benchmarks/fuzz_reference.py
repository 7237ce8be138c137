"""The formulas of attention once more, in plain torch, from scores to gradients: what the fuzz compares with.

Nothing here calls the package: scores are written from their formulas with the parameters of the package's modules,
masks are evaluated at positions i and j, and alignments are written from their definitions. Everything is computed in
float64 from the same rounded inputs.

A score of -inf is a forbidden key, scores of +inf share the weight, and NaN makes the query's weights NaN.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

INFINITY = float("inf")


def parameter(module: Any, name: str) -> Tensor:
    """A parameter in float64."""
    return dict(module.named_parameters())[name].detach().double()


def scores_of(name: str, score: Any, queries: Tensor, keys: Tensor) -> Tensor:
    """The scores of unprepared keys by the formula of the table."""
    left, right = queries.unsqueeze(-2), keys.unsqueeze(-3)
    products = (left * right).sum(-1) if queries.shape[-1] == keys.shape[-1] else None
    if name in DOT_PRODUCTS:
        return DOT_PRODUCTS[name](score, products, queries, keys)
    if name == "gaussian":
        return -((parameter(score, "width") * (left - right)) ** 2).sum(-1) / 2
    if name == "additive":
        hidden = left @ parameter(score, "query_proj.weight").T + right @ parameter(score, "key_proj.weight").T
        return (torch.tanh(hidden) * parameter(score, "energy")).sum(-1)
    if name == "concat":
        weight, size = parameter(score, "proj.weight"), queries.shape[-1]
        return (torch.tanh(left @ weight[:, :size].T + right @ weight[:, size:].T) * parameter(score, "energy")).sum(-1)
    if name == "location":
        scores = queries @ parameter(score, "position_proj.weight")[: keys.shape[-2]].T
        return scores.expand(*torch.broadcast_shapes(scores.shape[:-2], keys.shape[:-2]), *scores.shape[-2:])
    projected = queries @ parameter(score, "query_proj.weight").T
    if name == "biased_general":
        projected = projected + parameter(score, "query_proj.bias")
    scores = (projected.unsqueeze(-2) * right).sum(-1)
    return torch.tanh(scores + parameter(score, "bias")) if name == "activated_general" else scores


def cosine(score: Any, products: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """scale q . k / (|q| |k|), 0 for a vector of zeros."""
    lengths = queries.norm(dim=-1).unsqueeze(-1) * keys.norm(dim=-1).unsqueeze(-2)
    return score.scale * products / torch.where(lengths == 0, 1.0, lengths)


DOT_PRODUCTS: dict[str, Callable[[Any, Any, Tensor, Tensor], Tensor]] = {
    "dot": lambda score, products, queries, keys: products,
    "scaled_dot": lambda score, products, queries, keys: products / max(queries.shape[-1], 1) ** 0.5,
    "cosine": cosine,
    "own": lambda score, products, queries, keys: score.scale * products + keys[..., 0].unsqueeze(-2),
    "biased": lambda score, products, queries, keys: products / queries.shape[-1] ** 0.5 + score.bias.double(),
}


def masked(scores: Tensor, allowed: Tensor) -> Tensor:
    """Scores with -inf where the mask forbids and a large finite number for +inf."""
    scores = torch.where(allowed, scores, -INFINITY)
    return torch.where(scores == INFINITY, 1e300, scores)


def softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """exp(s - max) over its sum; zeros for a query without keys."""
    scores = masked(scores, allowed)
    if not scores.shape[-1]:
        return scores
    empty = (scores == -INFINITY).all(-1, keepdim=True)
    exponentials = torch.exp(scores - torch.where(empty, 0.0, scores.detach().amax(-1, keepdim=True)))
    return exponentials / torch.where(empty, 1.0, exponentials.sum(-1, keepdim=True))


def sparse(alpha: float) -> Callable[..., Tensor]:
    """Entmax by bisection for the threshold t: p = max((alpha - 1) s - t, 0)^(1 / (alpha - 1)), sum p = 1."""

    def align(scores: Tensor, allowed: Tensor, **_: Any) -> Tensor:
        scores = masked(scores, allowed)
        if not scores.numel():
            return scores
        empty = (scores == -INFINITY).all(-1, keepdim=True)
        centred = torch.where(empty, 0.0, scores) - torch.where(empty, 0.0, scores.detach().amax(-1, keepdim=True))
        reduced, power = (alpha - 1) * centred, 1 / (alpha - 1)
        low, high = reduced.detach().amax(-1, keepdim=True) - 1, reduced.detach().amax(-1, keepdim=True)
        for _ in range(70):
            middle = (low + high) / 2
            too_much = ((reduced.detach() - middle).clamp(min=0) ** power).sum(-1, keepdim=True) >= 1
            low, high = torch.where(too_much, middle, low), torch.where(too_much, high, middle)
        threshold = sparse_threshold(reduced, low, power)
        weights = (reduced - threshold).clamp(min=0) ** power
        return torch.where(scores.isnan().any(-1, keepdim=True), torch.nan, torch.where(empty, 0.0, weights))

    return align


def sparse_threshold(reduced: Tensor, threshold: Tensor, power: float) -> Tensor:
    """The threshold with its gradient: its derivative by each score is the share of the derivative of sum p."""
    support = (reduced.detach() - threshold).clamp(min=0)
    slopes = torch.where(support > 0, support ** (power - 1), 0.0)
    shares = slopes / slopes.sum(-1, keepdim=True).clamp(min=1e-300)
    # -inf outside of the support has share 0
    finite = torch.where(support > 0, reduced, 0.0)
    return threshold + (shares * (finite - finite.detach())).sum(-1, keepdim=True)


def ratio(scores: Tensor, allowed: Tensor, **_: Any) -> Tensor:
    """max(s, 0) over its sum."""
    shares = torch.where(allowed, scores, 0.0).clamp(min=0.0)
    shares = torch.where(shares == INFINITY, 1e300, shares)
    total = shares.sum(-1, keepdim=True)
    return shares / torch.where(total == 0, 1.0, total)


def sigmoid(scores: Tensor, allowed: Tensor, **_: Any) -> Tensor:
    """1 / (1 + exp(-s))."""
    return torch.where(allowed, torch.sigmoid(scores), 0.0)


def hard(scores: Tensor, allowed: Tensor, **_: Any) -> Tensor:
    """All weight on the first of the largest scores; NaN with a NaN score."""
    scores = masked(scores, allowed)
    if not scores.shape[-1]:
        return scores
    is_largest = scores == scores.amax(-1, keepdim=True)
    weights = (is_largest & (is_largest.cumsum(-1) == 1)).double()
    weights = torch.where((scores == -INFINITY).all(-1, keepdim=True), 0.0, weights)
    return torch.where(scores.isnan().any(-1, keepdim=True), torch.nan, weights)


def diagonal(scores: Tensor, allowed: Tensor, *, steps: Tensor, **_: Any) -> Tensor:
    """exp(-(j - t)^2 / 2), normalised; of the scores only -inf and NaN matter."""
    places = torch.arange(scores.shape[-1], dtype=torch.float64)
    return fixed(-((places - steps[:, None]) ** 2) / 2, scores, allowed)


def fixed(exponents: Tensor, scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax of exponents in the place of the scores."""
    exponents = torch.where(scores.isnan(), torch.nan, exponents.expand(scores.shape))
    return softmax(exponents, allowed & (scores != -INFINITY))


def uniform(scores: Tensor, allowed: Tensor, **_: Any) -> Tensor:
    """1 / number of allowed keys."""
    return fixed(torch.zeros_like(scores), scores, allowed)


def random_shares(scores: Tensor, allowed: Tensor, *, steps: Tensor, align: Any, **_: Any) -> Tensor:
    """Shares of exponential variables, hashed from the seed and the positions one pair at a time."""
    logs = [[math.log(-math.log(hashed_fraction(align.seed, step, key))) for key in range(scores.shape[-1])]
            for step in steps.tolist()]  # fmt: skip
    return fixed(torch.tensor(logs, dtype=torch.float64).reshape(scores.shape[-2:]), scores, allowed)


def hashed_fraction(seed: int, step: int, key: int) -> float:
    """A number between 0 and 1 from three."""
    mixed = seed
    for summand in (0, step, key):
        mixed = (mixed + summand) & 0xFFFFFFFF
        for _ in range(2):
            mixed = ((mixed >> 16) ^ mixed) * 0x45D9F3B & 0xFFFFFFFF
        mixed ^= mixed >> 16
    return ((mixed >> 9) + 0.5) / 2**23


def monotonic(scores: Tensor, allowed: Tensor, *, align: Any, **_: Any) -> Tensor:
    """The recursion over queries and keys, one cell at a time; NaN stays where it may be seen."""
    stop = torch.where(allowed, torch.sigmoid(scores + align.bias), 0.0)
    possible = (allowed & (scores != -INFINITY)).expand(scores.shape)
    num_queries, num_keys = scores.shape[-2:]
    start = (torch.arange(num_keys) == 0).double().expand(*scores.shape[:-2], num_keys)
    rows = [start]
    for query in range(num_queries):
        moved, row = torch.zeros(scores.shape[:-2], dtype=torch.float64), []
        for key in range(num_keys):
            arrival = moved + rows[-1][..., key]
            # 0 and not 0 * NaN where the cursor cannot stop
            row.append(torch.where(possible[..., query, key], stop[..., query, key] * arrival, 0.0))
            moved = (1 - stop[..., query, key]) * arrival
        rows.append(torch.stack(row, dim=-1) if row else start)
    return torch.stack(rows[1:], dim=-2) if num_queries else scores


def local_monotonic(scores: Tensor, allowed: Tensor, *, align: Any, steps: Tensor, **_: Any) -> Tensor:
    """Softmax where |j - t| <= D."""
    places = torch.arange(scores.shape[-1], dtype=torch.float64)
    return softmax(scores, allowed & ((places - steps[:, None]).abs() <= align.window))


def local_predictive(scores: Tensor, allowed: Tensor, *, align: Any, queries: Tensor, **_: Any) -> Tensor:
    """Softmax where |j - p| <= D, times exp(-(j - p)^2 / (2 (D/2)^2)); p = S sigmoid(v . tanh(W q))."""
    distance = distances_to_prediction(scores, allowed, align, queries)
    weights = softmax(scores, allowed & (distance.detach().abs() <= align.window))
    gaussian = torch.exp(-(distance**2) / (2 * (align.window / 2) ** 2))
    return weights * torch.where(allowed.any(-1, keepdim=True), gaussian, 0.0)


def distances_to_prediction(scores: Tensor, allowed: Tensor, align: Any, queries: Tensor) -> Tensor:
    """j - p for every pair; S is the number of keys up to the last one that is allowed."""
    places = torch.arange(scores.shape[-1], dtype=torch.float64)
    ends = torch.where(allowed, places + 1, 0.0)
    lengths = ends.amax(-1) if scores.shape[-1] else torch.zeros(())
    logits = torch.tanh(queries @ parameter(align, "query_proj.weight").T) @ parameter(align, "place")
    return places - (lengths * torch.sigmoid(logits)).unsqueeze(-1)


WEIGHTS: dict[str, Callable[..., Tensor]] = {
    "ratio": ratio,
    "softmax": lambda scores, allowed, **_: softmax(scores, allowed),
    "diagonal": diagonal,
    "hard": hard,
    "hard_sampled": hard,
    "local_monotonic": local_monotonic,
    "local_predictive": local_predictive,
    "sparsemax": sparse(2.0),
    "hard_gumbel": hard,
    "monotonic": monotonic,
    "entmax": sparse(1.5),
    "uniform": uniform,
    "random": random_shares,
    "sigmoid": sigmoid,
}
"""Weights from scores and the mask, by the name of the alignment in evaluation mode."""


def mask_of(expression: tuple[Any, ...] | None, shape: tuple[int, ...]) -> Tensor:
    """An expression such as ("&", ("causal",), ("window", 2)) as booleans of this shape (.., Q, K)."""
    *leading, num_queries, num_keys = shape
    i = (torch.arange(num_queries) + num_keys - num_queries)[:, None]
    j = torch.arange(num_keys)
    return allowed_at(expression or ("all",), i, j, len(leading)).expand(shape)


def allowed_at(expression: tuple[Any, ...], i: Tensor, j: Tensor, rank: int) -> Tensor:
    """The rule at positions i and j."""
    name, *arguments = expression
    if name in ("&", "|"):
        left, right = (allowed_at(part, i, j, rank) for part in arguments)
        return left & right if name == "&" else left | right
    if name == "~":
        return ~allowed_at(arguments[0], i, j, rank)
    if name in ("padding", "lengths"):
        # (batch, 1, .., 1) against the keys
        return j < arguments[0].view(-1, *(1,) * (rank - 1), 1, 1)
    if name == "tensor":
        return torch.as_tensor(arguments[0])
    rules = {
        "all": lambda: j >= 0,
        "causal": lambda: j <= i,
        "window": lambda: (i - j).abs() <= arguments[0],
        "dilated": lambda: ((i - j).abs() <= arguments[0] * arguments[1]) & ((i - j) % arguments[1] == 0),
        "prefix": lambda: j < arguments[0],
        "predicate": lambda: (i + 2 * j) % 3 != 0,
    }
    return rules[name]() | torch.zeros(len(i), len(j), dtype=torch.bool)
