"""One query of one head: the vectors that are compared, and how a score is computed from them.

Nearly every score lowers to a dot product, the tanh of a sum, or a squared distance. The lowering gives the vectors
that are compared, after the projections of the score.

Shapes: H heads, Q queries, K keys, d the size compared.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.alignments import Softmax
from regard.contracts import AttentionMap, Lowered, LoweredSquare, LoweredSum
from regard.serving import MissingError
from regard.studio.inspection_cache import CachedInspection
from regard.tasks import align_to_tokens, batch_element

Form = Literal["dot", "sum", "square", "unknown"]
NUM_CHECKED = 8
"""Number of queries whose scores are recomputed to check the comparison."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """scale q.k + bias, energy . tanh(q + k), or -1/2 |width (q - k)|^2; `unknown` has queries and keys only."""

    form: Form
    queries: Float[Tensor, "H Q d"]
    keys: Float[Tensor, "H K d"]
    scale: float = 1.0
    bias: Float[Tensor, "H Q K"] | None = None
    energy: Float[Tensor, " d"] | None = None
    width: Float[Tensor, " d"] | None = None
    projected: bool = False


def compare(attention_map: AttentionMap) -> Comparison:
    """The comparison behind the scores of a map; unknown if it does not reproduce them."""
    # the projections of a score have parameters; no gradient of them is needed
    with torch.inference_mode():
        comparison = from_lowering(attention_map)
        if comparison.form == "unknown":
            return comparison
        # a few queries are enough: a score outside the three forms differs at once
        few = slice(0, NUM_CHECKED)
        bias = None if comparison.bias is None else comparison.bias[:, few]
        scores = scores_of(replace(comparison, queries=comparison.queries[:, few], bias=bias))
        reproduces = scores.allclose(batch_element(attention_map.scores)[:, few], rtol=1e-4, atol=1e-5)
        return comparison if reproduces else unknown(attention_map)


def from_lowering(attention_map: AttentionMap) -> Comparison:
    """The comparison in the lowering of the score."""
    lowered = attention_map.score.lower(attention_map.queries, attention_map.keys)
    # a text is the reason why the score has no lowering
    if isinstance(lowered, str):
        return unknown(attention_map)
    # a score without parameters lowers to its own queries; then no projection is reported
    same_shape = lowered.queries.shape == attention_map.queries.shape
    projected = not same_shape or not torch.equal(lowered.queries, attention_map.queries)
    queries, keys = batch_element(lowered.queries), batch_element(lowered.keys)
    if isinstance(lowered, LoweredSum):
        # detached, because snippets and JSON need values without a graph
        energy = lowered.energy.detach()
        return Comparison(form="sum", queries=queries, keys=keys, energy=energy, projected=projected)
    if isinstance(lowered, LoweredSquare):
        # one number, or one per dimension: now one per dimension
        width = lowered.width.detach().expand(queries.shape[-1])
        return Comparison(form="square", queries=queries, keys=keys, width=width, projected=projected)
    bias = bias_of(lowered, attention_map)
    return Comparison(form="dot", queries=queries, keys=keys, scale=lowered.scale, bias=bias, projected=projected)


def bias_of(lowered: Lowered, attention_map: AttentionMap) -> Float[Tensor, "H Q K"] | None:
    """The sum of all biases of the scores."""
    shape = attention_map.scores.shape
    # (.., keys) -> (.., 1, keys) -> the shape of the scores
    parts = [] if lowered.key_bias is None else [lowered.key_bias[..., None, :].expand(shape)]
    parts += [] if lowered.bias is None else [lowered.bias.expand(shape)]
    # none, one or two of them
    return batch_element(torch.stack(parts).sum(0)) if parts else None


def unknown(attention_map: AttentionMap) -> Comparison:
    """A comparison with the recorded queries and keys only."""
    queries, keys = batch_element(attention_map.queries), batch_element(attention_map.keys)
    return Comparison(form="unknown", queries=queries, keys=keys)


def scores_of(comparison: Comparison) -> Float[Tensor, "H Q K"]:
    """The scores computed from the comparison."""
    queries, keys = comparison.queries, comparison.keys
    if comparison.form == "dot":
        # (H, Q, d) @ (H, d, K)
        scores = comparison.scale * (queries @ keys.mT)
        return scores if comparison.bias is None else scores + comparison.bias
    if comparison.form == "sum":
        assert comparison.energy is not None
        # (H, Q, 1, d) + (H, 1, K, d)
        return (queries[:, :, None] + keys[:, None]).tanh() @ comparison.energy
    assert comparison.width is not None
    # the factor 1/2 and the width are those of the Gaussian kernel
    return -0.5 * ((comparison.width * (queries[:, :, None] - keys[:, None])) ** 2).sum(-1)


@dataclass(frozen=True)
class QueryRow:
    """One query of one head at one site, with the vectors, scores, weights and values of its attention."""

    entry: CachedInspection
    path: str
    head: int
    query: int

    # cached in the instance dictionary, which a frozen dataclass permits
    @cached_property
    def located(self) -> tuple[int, int]:
        """The index of the map with this query, and the index of the query in that map."""
        index = self.query
        for map_index, attention_map in enumerate(self.entry.maps(self.path)):
            if index < attention_map.weights.shape[-2]:
                return map_index, index
            index -= attention_map.weights.shape[-2]
        # the loop has subtracted the queries of every map
        count = self.query - index
        raise MissingError(f"{self.path} has {count} queries, counted from 0; there is no query {self.query}.")

    @cached_property
    def attention_map(self) -> AttentionMap:
        """The map with this query, with a key for every token."""
        map_index, _ = self.located
        # the recorded keys may begin after the first token (a bounded memory) or before it (empty keys)
        return align_to_tokens(self.entry.maps(self.path)[map_index], self.first_key)

    @property
    def index(self) -> int:
        """The index of the query in its map."""
        return self.located[1]

    @property
    def first_key(self) -> int:
        """The token of the first recorded key."""
        return self.entry.first_keys(self.path)[self.located[0]]

    @cached_property
    def comparison(self) -> Comparison:
        return compare(self.attention_map)

    def take(self, field: str) -> Tensor:
        """This head's part of a tensor of the map."""
        return self.of_head(batch_element(getattr(self.attention_map, field)))

    def of_head(self, tensor: Tensor) -> Tensor:
        """This head's part of a tensor whose first dimension is the heads."""
        # the index comes from the request
        if self.head >= tensor.shape[0]:
            raise MissingError(
                f"{self.path} has {tensor.shape[0]} heads, counted from 0; there is no head {self.head}."
            )
        # on the CPU, for JSON and for snippets
        return tensor[self.head].cpu()

    def line(self, field: str) -> Float[Tensor, " size"]:
        """This query's scores, weights or context."""
        return self.take(field)[self.index]

    @cached_property
    def query_vector(self) -> Float[Tensor, " size"]:
        """The query after the projections of the score."""
        return self.of_head(self.comparison.queries)[self.index]

    @cached_property
    def keys(self) -> Float[Tensor, "K size"]:
        """The keys after the projections of the score."""
        return self.of_head(self.comparison.keys)

    @cached_property
    def allowed(self) -> Bool[Tensor, " K"] | None:
        """The keys that may be attended to; None for all."""
        allowed = self.attention_map.allowed
        if allowed is None:
            return None
        # the mask may broadcast over heads and queries
        return self.of_head(batch_element(allowed.broadcast_to(self.attention_map.weights.shape)))[self.index]

    @property
    def is_softmax(self) -> bool:
        """True if the weights are a masked softmax."""
        # `type() is`: a subclass may compute other weights
        return type(self.attention_map.align) is Softmax

    @property
    def is_sum(self) -> bool:
        """True if the context is the weighted sum alone; relative positions may add to it."""
        # tolerances of float32: the recorded numbers may come from a GPU
        return (self.line("weights") @ self.take("values")).allclose(self.line("context"), rtol=1e-4, atol=1e-5)

    def address(self, quantity: str, *positions: int | str) -> str:
        """The name of a number, such as encoder.0.attention head 1 weight[2,3]."""
        head = "" if self.entry.site(self.path).num_heads == 1 else f" head {self.head}"
        return f"{self.path}{head} {quantity}[{','.join(map(str, positions))}]"
