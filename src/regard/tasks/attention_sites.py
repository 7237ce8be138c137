"""The attentions inside a model, and how their recorded maps lie on labelled axes.

The keys of a map are usually the tokens of its key axis, from the first on. Some models have other keys
(`AttentionSite.keys_end_at_query`): a window into which nothing was read yet, with empty keys in front, or a memory
that grows before every token and later loses its oldest entries. `first_key` says which token the first key stands for.

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

MARKS = frozenset(SPECIAL_TOKENS[:UNK])
LINE_END = SPECIAL_TOKENS[EOS]

# beside the models, so that a model holds only its maths; an entry goes with its model
_SITES: WeakKeyDictionary[Any, tuple[AttentionSite, ...]] = WeakKeyDictionary()


def find_sites(
    model: Any, probe: Callable[[], tuple[AttentionSite, ...]], maps: Maps | None = None
) -> tuple[AttentionSite, ...]:
    """The attentions of a model, from `probe()` the first time.

    `maps` are those of a real input: where their paths or heads differ, the model was changed since, and is probed
    again.
    """
    sites = _SITES.get(model)
    if sites is None or (maps is not None and not match(sites, maps)):
        sites = _SITES[model] = probe()
    return sites


def match(sites: Iterable[AttentionSite], maps: Maps) -> bool:
    """Whether these are the sites of these maps."""
    return {site.path: site.num_heads for site in sites} == {path: heads_of(one[-1]) for path, one in maps.items()}


def heads_of(attention_map: AttentionMap) -> int:
    """1 where the model has no dimension of heads."""
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
    """What an attention is, from the maps that one input recorded there."""
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
        is_stepwise=len(maps) > 1,
        keys_end_at_query=keys_end_at_query,
        key_memories=len({one.keys.shape[-2] for one in maps}) > 1,
        numbers_per_key=heads * (last.keys.shape[-1] + last.values.shape[-1]),
    )


def name_of(part: object) -> str:
    """The name of a score or an alignment in its table, or its class."""
    inner = part.score if isinstance(part, Biased) else part
    for table in (SCORES, ALIGNMENTS):
        for name, entry in table.items():
            if type(inner) is entry.build:
                return name
    return type(inner).__name__


def count_numbers(sites: Iterable[AttentionSite], lengths: Mapping[str, int], max_numbers: int | None) -> int:
    """Scores, weights, keys and values of all sites for axes of these lengths; more than `max_numbers` are refused."""
    numbers = 0
    for site in sites:
        queries, keys = lengths[site.query_axis], lengths[site.key_axis]
        # where each query has a memory of its own, their lengths grow from 0 to all keys
        memories = queries * keys // 2 if site.key_memories else keys
        numbers += 2 * site.num_heads * queries * keys + memories * site.numbers_per_key
    if max_numbers is not None and numbers > max_numbers:
        raise ValueError(
            f"{max(lengths.values())} tokens make {numbers / 1e6:,.0f} million numbers in all heads, and "
            f"{max_numbers / 1e6:,.0f} million can be held. Shorten the text."
        )
    return numbers


def token_axis(
    name: str, title: Title, labels: Iterable[str], *, is_stepwise: bool = False, is_multiline: bool = False
) -> Axis:
    """An axis of tokens; in a text of several lines <eos> is no mark but the end of a line."""
    tokens = tuple(labels)
    marked = MARKS - {LINE_END} if is_multiline else MARKS
    marks = tuple(index for index, token in enumerate(tokens) if token in marked)
    return Axis(name=name, kind="tokens", title=title, labels=tokens, marks=marks, is_stepwise=is_stepwise)


def batch_element(tensor: Shaped[Tensor, "1 *H N d"]) -> Shaped[Tensor, "heads N d"]:
    """The first example of the batch, its heads in front."""
    return tensor[0] if tensor.ndim > 3 else tensor[:1]


def first_key(attention_map: AttentionMap, first_query: int, *, is_stepwise: bool) -> int:
    """The token of a map's first key; tokens before 0 are empty keys. Its first query is number `first_query`."""
    *_, num_queries, num_keys = attention_map.weights.shape
    return first_query - num_keys if is_stepwise else first_query + num_queries - num_keys


def first_keys(inspection: Inspection, path: str) -> list[int]:
    """For each map of a site, the token of its first key."""
    maps, site = inspection.maps[path], inspection.site(path)
    if site is None or not site.keys_end_at_query:
        return [0] * len(maps)
    first_tokens, num_queries = [], 0
    for one in maps:
        first_tokens.append(first_key(one, num_queries, is_stepwise=site.is_stepwise))
        num_queries += one.weights.shape[-2]
    return first_tokens


def drop_empty_keys(attention_map: AttentionMap, first: int) -> AttentionMap:
    """The map without the keys before the first token, which have no weight."""
    if first >= 0:
        return attention_map
    allowed = attention_map.allowed
    if allowed is not None and allowed.shape[-1] > 1:
        allowed = allowed[..., -first:]
    return replace(
        attention_map,
        keys=attention_map.keys[..., -first:, :],
        values=attention_map.values[..., -first:, :],
        scores=attention_map.scores[..., -first:],
        weights=attention_map.weights[..., -first:],
        allowed=allowed,
    )


def align_to_tokens(attention_map: AttentionMap, first: int) -> AttentionMap:
    """The map with a key for every token from the first on; keys that a memory has lost are 0 and not allowed."""
    attention_map = drop_empty_keys(attention_map, first)
    if first <= 0:
        return attention_map
    scores = attention_map.scores
    allowed = attention_map.allowed
    allowed = torch.ones_like(scores, dtype=torch.bool) if allowed is None else allowed.broadcast_to(scores.shape)
    keys = F.pad(attention_map.keys, (0, 0, first, 0))
    return replace(
        attention_map,
        keys=keys,
        values=F.pad(attention_map.values, (0, 0, first, 0)),
        scores=attention_map.score(attention_map.queries, keys).detach(),
        weights=F.pad(attention_map.weights, (first, 0)),
        allowed=F.pad(allowed, (first, 0), value=False),
    )


def pad_keys(weights: Float[Tensor, "... Q K"], first: int, num_tokens: int) -> Float[Tensor, "... Q N"]:
    """A column for each token; 0 where the map has no key."""
    weights = weights[..., max(-first, 0) :]
    before = max(first, 0)
    return F.pad(weights, (before, num_tokens - before - weights.shape[-1]))


def join_weights(
    maps: tuple[AttentionMap, ...], num_tokens: int, head: int | None = None, firsts: Sequence[int] | None = None
) -> Float[Tensor, "heads Q N"]:
    """The weights of a site's maps below each other, of all heads or of one; `firsts` as from `first_keys`.

    Keys that a step did not have yet have weight 0 there.
    """
    chosen = slice(None) if head is None else slice(head, head + 1)
    parts = (batch_element(one.weights)[chosen] for one in maps)
    padded = [pad_keys(part, first, num_tokens) for part, first in zip(parts, firsts or [0] * len(maps), strict=True)]
    return torch.cat(padded, dim=-2).float()
