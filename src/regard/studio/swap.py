"""The same queries, keys and values with another score, alignment, mask, temperature or position scheme.

Nothing is retrained. A component with parameters is refused, because they would be untrained.

Shapes: H heads, Q queries, K keys.
"""

import hashlib
from collections.abc import Callable, Container, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.analysis import entropy
from regard.attention import intervene as intervene_on
from regard.attention.alignments import ALIGNMENTS, Argmax, Entmax, Hard, Sigmoid, Softmax, Sparsemax, Uniform
from regard.attention.masks import MASKS, ComposableMask, causal, dilated, window
from regard.attention.positions import POSITIONS, Alibi, Rotary
from regard.attention.scores import SCORES, Cosine, Dot, Gaussian, ScaledDot
from regard.contracts import Alignment, AttentionMap, Grid, MechanismEntry, Score
from regard.serving import RefusedError
from regard.studio.computation import compare, scores_of
from regard.studio.inspection_cache import CachedInspection
from regard.studio.inspections import respond
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.numbers import Option, SwapOptions, SwapRequest, SwapResult
from regard.tasks import drop_empty_keys, first_key, join_weights

HAS_PARAMETERS = LocalizedText(
    en="it has parameters, which are not trained in this model", zh="它有自己的参数，而这个模型没有训练过这些参数"
)
NEEDS_POSITIONS = LocalizedText(
    en="it needs the position of each query in the source", zh="它需要每个查询在源句中的位置"
)
NEEDS_PREVIOUS = LocalizedText(
    en="it needs the weights of the query before, which a swap does not have",
    zh="它需要前一个查询的权重，替换时没有这项数据",
)
IS_RANDOM = LocalizedText(en="it samples, so every inspection would differ", zh="它随机采样，每次结果都不同")
NO_PADDING = LocalizedText(en="a single input has no padding", zh="单个输入没有填充")
NEEDS_PREFIX = LocalizedText(en="it needs the length of a prefix", zh="它需要前缀的长度")
NEEDS_FUNCTION = LocalizedText(en="it needs a function of two positions", zh="它需要一个关于两个位置的函数")
IS_ADDED = LocalizedText(en="it is added to the states before attention", zh="它在注意力之前就已加到状态上")
NO_COMMON_SIZE = LocalizedText(
    en="the score here does not compare vectors of equal size", zh="这里的评分函数比较的不是维数相同的向量"
)
ODD_SIZE = LocalizedText(
    en="it rotates pairs of dimensions, and their number is odd here", zh="它成对旋转各个维度，而此处维数为奇数"
)
NOT_POSITIVE = LocalizedText(
    en="it needs positive scores, which the score here does not guarantee",
    zh="它要求分数大于 0，这里的评分函数并不保证",
)


def gaussian(size: int) -> Gaussian:
    """With the scale of the scaled dot product: -1/2 |q - k|^2 / sqrt(d)."""
    # the squared width is 1 / sqrt(d)
    return Gaussian(width=size**-0.25)


SWAPPED_SCORES: Mapping[str, Callable[[int], Score]] = {
    "gaussian": gaussian,
    # for vectors of norm sqrt(d) this is the size of the scaled dot product
    "cosine": lambda size: Cosine(scale=size**0.5),
    "dot": lambda size: Dot(),
    "scaled_dot": lambda size: ScaledDot(),
}
SWAPPED_ALIGNS: Mapping[str, Callable[[], Alignment]] = {
    "softmax": Softmax,
    "hard": lambda: Hard(Argmax()),
    "sparsemax": Sparsemax,
    "entmax": Entmax,
    "uniform": Uniform,
    "sigmoid": Sigmoid,
}
SWAPPED_FORMULAS: Mapping[str, str] = {"sigmoid": f"{ALIGNMENTS['sigmoid'].formula}, b = -log(keys)"}
"""Formulas with what a swap chooses."""
# the size of the window, which masks without one ignore
SWAPPED_MASKS: Mapping[str, Callable[[int], ComposableMask | None]] = {
    "window": window,
    "causal": lambda size: causal(),
    "dilated": lambda size: dilated(size, step=2),
    "none": lambda size: None,
}
SWAPPED_POSITIONS = ("rotary", "alibi")
REFUSALS: Mapping[str, LocalizedText] = {
    "ratio": NOT_POSITIVE,
    "diagonal": NEEDS_POSITIONS,
    "local_monotonic": NEEDS_POSITIONS,
    "local_predictive": HAS_PARAMETERS,
    "hard_sampled": IS_RANDOM,
    "hard_gumbel": IS_RANDOM,
    "monotonic": NEEDS_PREVIOUS,
    "random": NEEDS_POSITIONS,
    "padding": NO_PADDING,
    "prefix": NEEDS_PREFIX,
    "predicate": NEEDS_FUNCTION,
    "learned": IS_ADDED,
    "sinusoidal": IS_ADDED,
}


def options(entry: CachedInspection, path: str) -> SwapOptions:
    """Every entry of every table, with the reason against those that cannot be used here."""
    # the last map has the most keys
    comparison = compare(entry.maps(path)[-1])
    size = comparison.queries.shape[-1]
    has_common_size = size == comparison.keys.shape[-1] and comparison.form != "unknown"

    def refuse(name: str, supported: Container[str], *, needs_vectors: bool) -> LocalizedText | None:
        if name not in supported:
            # entries without a reason of their own have parameters
            return REFUSALS.get(name, HAS_PARAMETERS)
        if name == "rotary" and size % 2 == 1:
            return ODD_SIZE
        return NO_COMMON_SIZE if needs_vectors and not has_common_size else None

    def list_options(
        table: Mapping[str, MechanismEntry], supported: Container[str], *, needs_vectors: bool = False
    ) -> list[Option]:
        choices = [
            Option(
                name=name,
                formula=SWAPPED_FORMULAS.get(name, entry.formula),
                year=entry.year,
                refusal=refuse(name, supported, needs_vectors=needs_vectors),
            )
            for name, entry in table.items()
        ]
        # `own` keeps the component of the model
        return [Option(name="own", formula="", year=None, refusal=None), *choices]

    return SwapOptions(
        scores=list_options(SCORES, SWAPPED_SCORES, needs_vectors=True),
        aligns=list_options(ALIGNMENTS, SWAPPED_ALIGNS),
        # no mask at all is not an entry of the table
        masks=[*list_options(MASKS, SWAPPED_MASKS), Option(name="none", formula="", year=None, refusal=None)],
        positions=list_options(POSITIONS, SWAPPED_POSITIONS, needs_vectors=True),
    )


@dataclass(frozen=True)
class Swap:
    """A rule that recomputes the weights of a map; in causal attention every mask is combined with the causal one."""

    request: SwapRequest
    is_causal: bool

    def weights(self, attention_map: AttentionMap, first_query: int, first_key: int = 0) -> Float[Tensor, "... Q K"]:
        """The weights of all heads; `first_query` and `first_key` are positions."""
        request = self.request
        # the first step of a growing memory has no keys
        if not attention_map.weights.shape[-1]:
            return attention_map.weights
        # before the alignment, so that a temperature works with any of them
        scores = self.scores(attention_map, first_query, first_key) / request.temperature
        align = attention_map.align if request.align == "own" else SWAPPED_ALIGNS[request.align]()
        allowed = self.allowed(attention_map, first_query, first_key)
        if request.align == "sigmoid":
            scores = scores + sigmoid_bias(scores, allowed)
        weights: Tensor = align(scores, allowed, attention_map.position_info).weights
        if request.head < 0 or attention_map.weights.ndim < 4:
            return weights
        # attention without heads has three dimensions; a swap of its only head is a swap of all
        is_swapped = torch.arange(weights.shape[-3], device=weights.device) == request.head
        # (heads, 1, 1) broadcasts over queries and keys
        return torch.where(is_swapped[:, None, None], weights, attention_map.weights)

    def scores(self, attention_map: AttentionMap, first_query: int, first_key: int) -> Float[Tensor, "... Q K"]:
        """The scores under the swap."""
        request = self.request
        if request.score == "own" and request.position != "rotary":
            scores = attention_map.scores
        else:
            # the vectors after the projections: rotation and other scores act on what is compared
            comparison = compare(attention_map)
            queries, keys = comparison.queries, comparison.keys
            if request.position == "rotary":
                # its frequencies must be on the device of the vectors
                rotary = Rotary(head_size=queries.shape[-1]).to(queries.device)
                queries = rotary.transform(queries, positions_from(first_query, queries.shape[-2], queries.device))
                keys = rotary.transform(keys, positions_from(first_key, keys.shape[-2], keys.device))
            if request.score == "own":
                scores = scores_of(replace(comparison, queries=queries, keys=keys))
            else:
                score = SWAPPED_SCORES[request.score](queries.shape[-1])
                scores = score(queries, score.prepare(keys))
            # the comparison has exactly three dimensions; a map may have a batch and may have no heads
            scores = scores.reshape(attention_map.scores.shape)
        if request.position == "alibi":
            # after the score, so that ALiBi can be added to any of them
            scores = scores + alibi_bias(attention_map, first_query, first_key)
        return scores

    def allowed(self, attention_map: AttentionMap, first_query: int, first_key: int) -> Bool[Tensor, "..."] | None:
        """The mask under the swap."""
        if self.request.mask == "own":
            return attention_map.allowed
        shape, device = tuple(attention_map.scores.shape), attention_map.scores.device
        grid = Grid.of(shape, device=device, first_query=first_query, first_key=first_key)
        rule = SWAPPED_MASKS[self.request.mask](self.request.window)
        # a mask may not show keys that do not exist yet when the decoder takes its steps
        if self.is_causal:
            rule = causal() if rule is None else rule & causal()
        return None if rule is None else rule.allowed(grid)


def sigmoid_bias(scores: Float[Tensor, "... Q K"], allowed: Bool[Tensor, "..."] | None) -> Float[Tensor, "... Q 1"]:
    """-log(number of keys that a query may attend to): the bias of Ramapuram et al. 2024."""
    # counted by query: a decoder that takes steps has more keys at each of them
    keys = torch.ones_like(scores) if allowed is None else allowed.broadcast_to(scores.shape).to(scores.dtype)
    return -keys.sum(-1, keepdim=True).clamp_min(1).log()


def alibi_bias(attention_map: AttentionMap, first_query: int, first_key: int) -> Float[Tensor, "... Q K"]:
    """The linear bias of ALiBi, in the shape of the scores."""
    scores = attention_map.scores
    has_heads = scores.ndim > 3
    queries = positions_from(first_query, scores.shape[-2], scores.device)
    keys = positions_from(first_key, scores.shape[-1], scores.device)
    # attention without heads has the slope of one head
    alibi = Alibi(num_heads=scores.shape[-3] if has_heads else 1).to(scores.device)
    bias = alibi.bias(attention_map.queries, queries, keys)
    assert bias is not None
    # (heads, Q, K), or (Q, K) without heads; both broadcast over the batch
    return bias.reshape(bias.shape[-3:] if has_heads else bias.shape[-2:])


def positions_from(first: int, count: int, device: torch.device) -> Tensor:
    return torch.arange(first, first + count, device=device)


def check_swap(entry: CachedInspection, request: SwapRequest) -> None:
    """RefusedError for what the options do not offer."""
    # checked here as well as on the page, because a request may have any content
    offers = options(entry, request.site)
    parts = {"score": offers.scores, "align": offers.aligns, "mask": offers.masks, "position": offers.positions}
    for part, choices in parts.items():
        name = getattr(request, part)
        option = next((choice for choice in choices if choice.name == name), None)
        if option is None:
            raise RefusedError(
                f"there is no {part} called {name!r}. Choose one of {', '.join(choice.name for choice in choices)}."
            )
        if option.refusal is not None:
            raise RefusedError(f"{part} {name} cannot be used here: {option.refusal.en}. Choose another.")
    heads = entry.site(request.site).num_heads
    # the page may still have the head of another site in its URL
    if request.head >= heads:
        raise RefusedError(f"{request.site} has {heads} heads, counted from 0; there is no head {request.head}.")


def swap(entry: CachedInspection, request: SwapRequest) -> tuple[SwapResult, CachedInspection]:
    """Measures and outputs before and after the swap, and the swapped weights as an inspection."""
    check_swap(entry, request)
    rule = Swap(request, is_causal=entry.site(request.site).is_causal)
    before, after = entry.weights(request.site), swapped_weights(entry, rule)
    outcome = respond(entry)
    swapped_outcome = respond(entry, partial(intervene_at, entry, request.site, rule.weights))
    # a hash of inspection and request: the same swap has the same id
    name = hashlib.sha256(f"{entry.message.id}{request.model_dump_json()}".encode()).hexdigest()[:24]
    # the heads that are swapped, all or one
    heads = slice(None) if request.head < 0 else slice(request.head, request.head + 1)
    message = SwapResult(
        id=name,
        entropy_before=normalized_entropy(before[heads]).mean(0).tolist(),
        entropy_after=normalized_entropy(after[heads]).mean(0).tolist(),
        sum_before=before[heads].sum(-1).mean(0).tolist(),
        sum_after=after[heads].sum(-1).mean(0).tolist(),
        before=outcome,
        after=swapped_outcome,
    )
    result = CachedInspection(
        # without panels: they belong to the unchanged model
        message=entry.message.model_copy(update={"id": name, "panels": []}),
        model=entry.model,
        # the maps have the weights before the swap
        inspection=replace(entry.inspection, maps={}, panels=()),
        # on the CPU: the memory of the GPU is for models
        swapped={request.site: after.cpu()},
    )
    return message, result


def normalized_entropy(weights: Float[Tensor, "H Q K"]) -> Float[Tensor, "H Q"]:
    """The entropy of each query's weights divided by their sum: only a distribution has an entropy."""
    # clamped, because a query that attends to nothing has the sum 0
    return entropy(weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny))


def swapped_weights(entry: CachedInspection, rule: Swap) -> Float[Tensor, "H Q K"]:
    """All heads of the site under the swap, from the recorded maps."""
    path = rule.request.site
    maps, first_query, firsts = [], 0, entry.first_keys(path)
    with torch.inference_mode():
        # `first` is negative if empty keys are in front
        for recorded, first in zip(entry.maps(path), firsts, strict=True):
            attention_map = drop_empty_keys(recorded, first)
            # without them the first key is token 0
            weights = rule.weights(attention_map, first_query, max(first, 0))
            maps.append(replace(attention_map, weights=weights))
            first_query += recorded.weights.shape[-2]
        # drop_empty_keys has cut the keys, so that no first key is negative
        return join_weights(tuple(maps), entry.num_keys(path), firsts=[max(first, 0) for first in firsts])


def intervene_at(
    entry: CachedInspection, path: str, weights: Callable[[AttentionMap, int, int], Tensor]
) -> AbstractContextManager[None]:
    """Replace the weights of every attention at the site by `weights(map, first_query, first_key)`."""
    # a new count for every context, which is entered once per pass
    site, num_queries = entry.site(path), 0

    def replace_weights(where: str, attention_map: AttentionMap) -> Tensor | None:
        # a stepwise decoder calls the attention once per query, so positions are counted over the calls
        nonlocal num_queries
        if where != path:
            return None
        # counted for each call at this site, whatever it returns
        first_query, num_queries = num_queries, num_queries + attention_map.weights.shape[-2]
        if not site.keys_end_at_query:
            return weights(attention_map, first_query, 0)
        first = first_key(attention_map, first_query, is_stepwise=site.is_stepwise)
        # empty keys in front get weight 0
        new_weights = weights(drop_empty_keys(attention_map, first), first_query, max(first, 0))
        return F.pad(new_weights, (max(-first, 0), 0))

    return intervene_on(entry.model.predictor.model, replace_weights)
