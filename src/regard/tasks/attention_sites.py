"""The attentions of a model, and the alignment of their recorded maps to labelled axes.

The keys of a map are usually the tokens of its key axis, starting with the first. Two kinds of model differ
(`AttentionSite.keys_end_at_query`): a fixed window starts with empty keys in front, and a bounded memory drops its
oldest entries. `first_key` returns the token of the first key.

Shapes: H heads, Q queries, K keys, N tokens of the key axis.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from regard.attention.alignments import ALIGNMENTS
from regard.attention.scores import SCORES, Biased
from regard.contracts import EOS, SPECIAL_TOKENS, UNK, AttentionMap, AttentionSite, Axis, Inspection, Title

Maps = Mapping[str, tuple[AttentionMap, ...]]

# the special tokens but <unk>, which takes the position of a word
MARKS = frozenset(SPECIAL_TOKENS[:UNK])
LINE_END, UNKNOWN = SPECIAL_TOKENS[EOS], SPECIAL_TOKENS[UNK]

# kept outside the models; an entry is dropped with its model
_SITES: WeakKeyDictionary[Any, tuple[AttentionSite, ...]] = WeakKeyDictionary()


def find_sites(
    model: Any, probe: Callable[[], tuple[AttentionSite, ...]], maps: Maps | None = None
) -> tuple[AttentionSite, ...]:
    """The attentions of a model, from `probe()` on the first call.

    `maps` were recorded for a real input. If their paths or numbers of heads differ from the cached sites, the model
    has changed and is probed again.
    """
    sites = _SITES.get(model)
    if sites is None or (maps is not None and not match(sites, maps)):
        sites = _SITES[model] = probe()
    return sites


def match(sites: Iterable[AttentionSite], maps: Maps) -> bool:
    """Whether sites and maps have the same paths and numbers of heads."""
    return {site.path: site.num_heads for site in sites} == {path: heads_of(one[-1]) for path, one in maps.items()}


def heads_of(attention_map: AttentionMap) -> int:
    """The number of heads; 1 if the weights have no head dimension."""
    # (batch, heads, queries, keys), or (batch, queries, keys)
    return attention_map.weights.shape[1] if attention_map.weights.ndim > 3 else 1


def describe_site(
    path: str,
    maps: tuple[AttentionMap, ...],
    *,
    query_axis: str,
    key_axis: str,
    is_causal: bool = False,
    keys_end_at_query: bool = False,
) -> AttentionSite:
    """Describe an attention by the maps recorded for one input."""
    # the last call of a stepwise attention has the most keys
    last = maps[-1]
    heads = heads_of(last)
    return AttentionSite(
        path=path,
        query_axis=query_axis,
        key_axis=key_axis,
        num_heads=heads,
        score=name_of(last.score),
        alignment=name_of(last.align),
        is_causal=is_causal,
        # a stepwise attention is called once per query, and each call is a map
        is_stepwise=len(maps) > 1,
        keys_end_at_query=keys_end_at_query,
        # a memory that grows has another number of keys in each map
        key_memories=len({one.keys.shape[-2] for one in maps}) > 1,
        # of one key and its value, in all heads
        numbers_per_key=heads * (last.keys.shape[-1] + last.values.shape[-1]),
    )


def name_of(part: object) -> str:
    """The name of a score or an alignment in its table, or its class."""
    # Biased wraps a score, whose name is shown
    inner = part.score if isinstance(part, Biased) else part
    for table in (SCORES, ALIGNMENTS):
        for name, entry in table.items():
            # `type() is`: a subclass may compute something else
            if type(inner) is entry.build:
                return name
    return type(inner).__name__


def count_numbers(sites: Iterable[AttentionSite], lengths: Mapping[str, int], max_numbers: int | None) -> int:
    """The number of scores, weights, keys and values of all sites; more than `max_numbers` is an error."""
    numbers = 0
    for site in sites:
        queries, keys = lengths[site.query_axis], lengths[site.key_axis]
        # with one memory per query, their lengths grow from 0 to the number of keys
        memories = queries * keys // 2 if site.key_memories else keys
        # a score and a weight for each pair
        numbers += 2 * site.num_heads * queries * keys + memories * site.numbers_per_key
    if max_numbers is not None and numbers > max_numbers:
        raise ValueError(
            f"{max(lengths.values())} tokens give {numbers / 1e6:,.0f} million numbers in all heads, and the limit is "
            f"{max_numbers / 1e6:,.0f} million. Shorten the text."
        )
    return numbers


def token_axis(
    name: str,
    title: Title,
    labels: Iterable[str],
    *,
    texts: Iterable[str] = (),
    is_stepwise: bool = False,
    is_multiline: bool = False,
) -> Axis:
    """An axis of tokens; special tokens are marked, except <eos> in multi-line text, where it ends a line.

    `texts` are the characters behind the tokens; tokens that follow the text, such as <eos>, have none.
    """
    tokens, parts = tuple(labels), tuple(texts)
    if parts:
        parts += ("",) * (len(tokens) - len(parts))
    # in text of several lines <eos> is part of the text
    marked = MARKS - {LINE_END} if is_multiline else MARKS
    marks = tuple(index for index, token in enumerate(tokens) if token in marked)
    return Axis(
        name=name,
        kind="tokens",
        title=title,
        labels=tokens,
        marks=marks,
        texts=parts,
        unknown=tuple(index for index, token in enumerate(tokens) if token == UNKNOWN),
        is_stepwise=is_stepwise,
    )


def batch_element(tensor: Shaped[Tensor, "1 *H N d"]) -> Shaped[Tensor, "heads N d"]:
    """The first example of the batch, with the head dimension first."""
    # without a head dimension, the batch dimension of size 1 becomes that of the heads
    return tensor[0] if tensor.ndim > 3 else tensor[:1]


def first_key(attention_map: AttentionMap, first_query: int, *, is_stepwise: bool) -> int:
    """The index of the token of a map's first key; negative for empty keys. `first_query` is the index of its query."""
    *_, num_queries, num_keys = attention_map.weights.shape
    # a stepwise memory ends before its query, any other map at its last query
    return first_query - num_keys if is_stepwise else first_query + num_queries - num_keys


def first_keys(inspection: Inspection, path: str) -> list[int]:
    """For each map of a site, the index of the token of its first key."""
    maps, site = inspection.maps[path], inspection.site(path)
    if site is None or not site.keys_end_at_query:
        return [0] * len(maps)
    first_tokens, num_queries = [], 0
    for one in maps:
        # maps are in the order of their calls, so queries are counted over them
        first_tokens.append(first_key(one, num_queries, is_stepwise=site.is_stepwise))
        num_queries += one.weights.shape[-2]
    return first_tokens


def drop_empty_keys(attention_map: AttentionMap, first: int) -> AttentionMap:
    """The map without the empty keys before the first token."""
    if first >= 0:
        return attention_map
    allowed = attention_map.allowed
    # a mask of width 1 broadcasts over the keys, and is not cut
    if allowed is not None and allowed.shape[-1] > 1:
        allowed = allowed[..., -first:]
    return replace(
        attention_map,
        # `first` is negative: -first is the number of empty keys
        keys=attention_map.keys[..., -first:, :],
        values=attention_map.values[..., -first:, :],
        scores=attention_map.scores[..., -first:],
        weights=attention_map.weights[..., -first:],
        allowed=allowed,
    )


def align_to_tokens(attention_map: AttentionMap, first: int) -> AttentionMap:
    """The map with one key per token; keys that a memory has dropped are 0 and not allowed."""
    attention_map = drop_empty_keys(attention_map, first)
    if first <= 0:
        return attention_map
    scores = attention_map.scores
    allowed = attention_map.allowed
    # without a mask, all keys of the map were allowed
    allowed = torch.ones_like(scores, dtype=torch.bool) if allowed is None else allowed.broadcast_to(scores.shape)
    # (0, 0, first, 0) pads the last dimension but one, that of the keys
    keys = F.pad(attention_map.keys, (0, 0, first, 0))
    return replace(
        attention_map,
        keys=keys,
        values=F.pad(attention_map.values, (0, 0, first, 0)),
        # the padded keys are zeros, and their scores have no meaning: `allowed` excludes them
        scores=attention_map.score(attention_map.queries, keys).detach(),
        weights=F.pad(attention_map.weights, (first, 0)),
        allowed=F.pad(allowed, (first, 0), value=False),
    )


def pad_keys(weights: Float[Tensor, "... Q K"], first: int, num_tokens: int) -> Float[Tensor, "... Q N"]:
    """Pad to one column per token, with 0 where the map has no key."""
    # empty keys before the first token
    weights = weights[..., max(-first, 0) :]
    before = max(first, 0)
    return F.pad(weights, (before, num_tokens - before - weights.shape[-1]))


def join_weights(
    maps: tuple[AttentionMap, ...], num_tokens: int, head: int | None = None, firsts: Sequence[int] | None = None
) -> Float[Tensor, "heads Q N"]:
    """Concatenate the weights of a site's maps along the queries, for all heads or one; `firsts` as from `first_keys`.

    Keys that a step does not have yet get weight 0.
    """
    # a slice keeps the dimension of the heads
    heads = slice(None) if head is None else slice(head, head + 1)
    parts = (batch_element(one.weights)[heads] for one in maps)
    padded = [pad_keys(part, first, num_tokens) for part, first in zip(parts, firsts or [0] * len(maps), strict=True)]
    # float32: weights may be in bfloat16
    return torch.cat(padded, dim=-2).float()
