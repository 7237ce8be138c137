"""The same queries, keys and values under another score, alignment, mask, temperature or position scheme.

Nothing is retrained: the page says so. A part with weights of its own that nobody trained is refused.

Shapes: H heads, Q queries, K keys.
"""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention import ALIGNMENTS, MASKS, POSITIONS, SCORES, AttentionMap, change
from regard.attention.alignments import Argmax, Entmax, Hard, Sigmoid, Softmax, Sparsemax
from regard.attention.masks import Rule, causal, dilated, window
from regard.attention.positions import Alibi, Rotary
from regard.attention.scores import Cosine, Dot, Gaussian, ScaledDot
from regard.contracts import Align, Entry, Grid, Score
from regard.studio.comparison import again, compare
from regard.studio.errors import RefusedError
from regard.studio.examples import Worked
from regard.studio.kept import Kept
from regard.studio.looks import answer_again, first_answer
from regard.studio.places import cut, first_key
from regard.studio.schema import Option, Said, SwapOptions, Swapped, SwapRequest
from regard.studio.sites import joined

OWN_WEIGHTS = Said(en="it has weights of its own, which nobody trained here", zh="它有自己的权重，而这里没有训练过")
NEEDS_PLACES = Said(en="it must know where each query stands in the source", zh="它须知道每个查询在源句中的位置")
BY_CHANCE = Said(en="it draws by chance: every look would differ", zh="它随机抽取，每次结果都不同")
NEEDS_LENGTHS = Said(en="it comes with the batch: there is no padding here", zh="它来自批次：这里没有填充")
ADDED = Said(en="it is added to the states before any attention", zh="它在注意力之前加到状态上")
NO_SPACE = Said(en="this score compares no vectors of one size", zh="此评分不比较同样大小的向量")
ODD = Said(en="it turns pairs of dimensions, and their number is odd here", zh="它成对旋转维度，而此处维度为奇数")
NOT_POSITIVE = Said(
    en="it needs scores above 0, which this score does not promise", zh="它要求分数大于 0，此评分并不保证"
)


def gaussian(size: int) -> Gaussian:
    """As wide as the scaled dot product: -1/2 |q - k|^2 / sqrt(d)."""
    return Gaussian(width=size**-0.25)


SWAPPED_SCORES: Mapping[str, Callable[[int], Score]] = {
    "gaussian": gaussian,
    "cosine": lambda size: Cosine(scale=size**0.5),
    "dot": lambda size: Dot(),
    "scaled_dot": lambda size: ScaledDot(),
}
SWAPPED_ALIGNS: Mapping[str, Callable[[], Align]] = {
    "softmax": Softmax,
    "hard": lambda: Hard(Argmax()),
    "sparsemax": Sparsemax,
    "entmax": Entmax,
    "sigmoid": Sigmoid,
}
SWAPPED_MASKS: Mapping[str, Callable[[int], Rule | None]] = {
    "window": window,
    "causal": lambda size: causal(),
    "dilated": lambda size: dilated(size, step=2),
    "none": lambda size: None,
}
SWAPPED_POSITIONS = ("rotary", "alibi")
REFUSALS: Mapping[str, Said] = {
    "ratio": NOT_POSITIVE,
    "diagonal": NEEDS_PLACES,
    "local_monotonic": NEEDS_PLACES,
    "local_predictive": OWN_WEIGHTS,
    "hard_sampled": BY_CHANCE,
    "hard_gumbel": BY_CHANCE,
    "padding": NEEDS_LENGTHS,
    "prefix": NEEDS_LENGTHS,
    "predicate": NEEDS_LENGTHS,
    "learned": ADDED,
    "sinusoidal": ADDED,
}


def options(kept: Kept, path: str) -> SwapOptions:
    """Every entry of every table, with the reason against those that cannot serve here."""
    found = compare(kept.site_reads(path)[-1])
    common = found.queries.shape[-1] == found.keys.shape[-1] and found.form != "unknown"
    odd = found.queries.shape[-1] % 2 == 1

    def refuse(name: str, able: Mapping[str, Any] | tuple[str, ...], *, needs_space: bool) -> Said | None:
        if name not in able:
            return REFUSALS.get(name, OWN_WEIGHTS)
        if name == "rotary" and odd:
            return ODD
        return NO_SPACE if needs_space and not common else None

    def listed(table: Mapping[str, Entry], able: Any, *, needs_space: bool = False) -> list[Option]:
        rows = [
            Option(
                name=name, formula=entry.formula, year=entry.year, refusal=refuse(name, able, needs_space=needs_space)
            )
            for name, entry in table.items()
        ]
        return [Option(name="own", formula="", year=None, refusal=None), *rows]

    return SwapOptions(
        scores=listed(SCORES, SWAPPED_SCORES, needs_space=True),
        aligns=listed(ALIGNMENTS, SWAPPED_ALIGNS),
        masks=[*listed(MASKS, SWAPPED_MASKS), Option(name="none", formula="", year=None, refusal=None)],
        positions=listed(POSITIONS, SWAPPED_POSITIONS, needs_space=True),
    )


@dataclass(frozen=True)
class Swap:
    """How a read is made again; who reads what it wrote itself never sees what it has yet to write."""

    request: SwapRequest
    only_back: bool

    def weights(self, read: AttentionMap, first_query: int, first_key: int = 0) -> Float[Tensor, "... Q K"]:
        """The weights of all heads under the swap; `first_query` and `first_key` are the places of the first ones."""
        request = self.request
        if not read.weights.shape[-1]:
            return read.weights
        scores = self.scores(read, first_query, first_key) / request.temperature
        align = read.align if request.align == "own" else SWAPPED_ALIGNS[request.align]()
        made: Tensor = align(scores, self.allowed(read, first_query, first_key), read.look).weights
        if request.head < 0 or read.weights.ndim < 4:
            return made
        chosen = torch.arange(made.shape[-3], device=made.device) == request.head
        return torch.where(chosen[:, None, None], made, read.weights)

    def scores(self, read: AttentionMap, first_query: int, first_key: int) -> Float[Tensor, "... Q K"]:
        """How well each key answers each query now."""
        request = self.request
        if request.score == "own" and request.position != "rotary":
            scores = read.scores
        else:
            found = compare(read)
            queries, keys = found.queries, found.keys
            if request.position == "rotary":
                turn = Rotary(size=queries.shape[-1]).to(queries.device)
                queries = turn.turn(queries, count(queries.shape[-2], first_query, queries.device))
                keys = turn.turn(keys, count(keys.shape[-2], first_key, keys.device))
            if request.score == "own":
                scores = again(replace(found, queries=queries, keys=keys))
            else:
                score = SWAPPED_SCORES[request.score](queries.shape[-1])
                scores = score(queries, score.prepare(keys))
            scores = scores.reshape(read.scores.shape)
        if request.position == "alibi":
            heads = read.scores.shape[-3] if read.scores.ndim > 3 else 1
            asking = count(scores.shape[-2], first_query, scores.device)
            asked = count(scores.shape[-1], first_key, scores.device)
            added = Alibi(num_heads=heads).to(scores.device).bias(read.queries, asking, asked)
            assert added is not None
            scores = scores + added.reshape(added.shape[-3:] if read.scores.ndim > 3 else added.shape[-2:])
        return scores

    def allowed(self, read: AttentionMap, first_query: int, first_key: int) -> Bool[Tensor, "..."] | None:
        """Who may look at whom now."""
        if self.request.mask == "own":
            return read.allowed
        shape, device = tuple(read.scores.shape), read.scores.device
        grid = Grid.of(shape, device=device, first_query=first_query, first_key=first_key)
        rule = SWAPPED_MASKS[self.request.mask](self.request.window)
        if self.only_back:
            rule = causal() if rule is None else rule & causal()
        return None if rule is None else rule.allowed(grid)


def count(number: int, first: int, device: torch.device) -> Tensor:
    """Places in a row."""
    return torch.arange(first, first + number, device=device)


def check_swap(kept: Kept, request: SwapRequest) -> None:
    """Only what the options offer."""
    offered = options(kept, request.site)
    parts = {"score": offered.scores, "align": offered.aligns, "mask": offered.masks, "position": offered.positions}
    for part, choices in parts.items():
        name = getattr(request, part)
        option = next((one for one in choices if one.name == name), None)
        if option is None:
            raise RefusedError(
                f"there is no {part} called {name!r}. Choose one of {', '.join(c.name for c in choices)}."
            )
        if option.refusal is not None:
            raise RefusedError(f"{part} {name} cannot serve here: {option.refusal.en}. Choose another.")
    heads = kept.shelved.sites[request.site].heads
    if request.head >= heads:
        raise RefusedError(f"{request.site} has {heads} heads, counted from 0; there is no head {request.head}.")


def swap(kept: Kept, request: SwapRequest) -> tuple[Swapped, Kept]:
    """What changes: the weights, their entropy, and what the system then answers."""
    check_swap(kept, request)
    how = Swap(request, only_back=kept.shelved.sites[request.site].kind == "target")
    with torch.inference_mode():
        made, first, firsts = [], 0, kept.first_keys(request.site)
        for read, first_key in zip(kept.site_reads(request.site), firsts, strict=True):
            whole = cut(read, first_key)
            made.append(replace(whole, weights=how.weights(whole, first, max(first_key, 0))))
            first += read.weights.shape[-2]
        after = joined(tuple(made), kept.num_keys(request.site), firsts=[max(one, 0) for one in firsts])
    before = kept.weights(request.site)
    outcome = first_answer(kept)
    other = answer_again(kept, around=partial(changed, kept, request.site, how.weights))
    name = hashlib.sha256(f"{kept.message.id}{request.model_dump_json()}".encode()).hexdigest()[:24]
    chosen = slice(None) if request.head < 0 else slice(request.head, request.head + 1)
    message = Swapped(
        id=name,
        entropy_before=entropy(before[chosen]).mean(0).tolist(),
        entropy_after=entropy(after[chosen]).mean(0).tolist(),
        before=outcome,
        after=other,
    )
    copy = kept.message.model_copy(update={"id": name})
    swapped = {request.site: after.cpu()}
    held = Kept(message=copy, shelved=kept.shelved, written=kept.written, reads={}, swapped=swapped)
    return message, held


def changed(kept: Kept, path: str, weights: Callable[[AttentionMap, int, int], Tensor]) -> AbstractContextManager[None]:
    """The model while every read at a site has other weights, from its first query and key on."""
    shelved, asked = kept.shelved, 0
    assert not isinstance(shelved, Worked)

    def how(where: str, read: AttentionMap) -> Tensor | None:
        nonlocal asked
        if where != path:
            return None
        first, asked = asked, asked + read.weights.shape[-2]
        if shelved.kind != "language":
            return weights(read, first, 0)
        at = first_key(read, first, is_stepwise=shelved.sites[path].is_stepwise)
        return F.pad(weights(cut(read, at), first, max(at, 0)), (max(-at, 0), 0))

    return change(shelved.system.model, how)


def entropy(weights: Float[Tensor, "H Q K"]) -> Float[Tensor, "H Q"]:
    """In nats; a query that reads nothing has none."""
    return torch.special.entr(weights.clamp_min(0)).sum(-1)
