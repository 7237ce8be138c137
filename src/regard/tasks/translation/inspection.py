"""Inspection of a translation: encoder self-attention, decoder self-attention and cross-attention.

The output is found by greedy search or given by the caller; a second, teacher-forced pass records every attention.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.attention import trace
from regard.contracts import (
    BOS,
    EOS,
    UNK,
    AlignmentPanel,
    Around,
    AttentionMap,
    AttentionSite,
    Axis,
    Hypothesis,
    Inspection,
    ModelCall,
    PaddedTokens,
    Response,
    Title,
    Trace,
    device_of,
    evaluating,
)
from regard.data.text import unknown_in
from regard.decoding import decode, forced_alignment, score
from regard.tasks.attention_sites import count_numbers, describe_site, find_sites, token_axis
from regard.tasks.base import refuse_blank
from regard.tasks.translation.run import LIMIT

NUM_SOURCE, NUM_TARGET = 3, 7
"""Lengths of the probe; they differ, so that the shape of a map identifies its axes."""
SOURCE, TARGET, PREFIX = "source", "target", "prefix"
TITLES = {
    SOURCE: Title(en="source", zh="源句"),
    TARGET: Title(en="target", zh="译文"),
    PREFIX: Title(en="target so far", zh="已生成的译文"),
}


@dataclass(frozen=True, kw_only=True)
class TranslationTokens:
    """Ids of a source and of its translation."""

    source: list[int]
    output: tuple[int, ...]
    finished: bool

    @property
    def labels(self) -> list[int]:
        """Target tokens that the steps predict."""
        return [*self.output, *([EOS] if self.finished else [])]

    @property
    def prefix(self) -> list[int]:
        """Target tokens that the steps take as input."""
        # the last label is never an input
        return [BOS, *self.labels[:-1]]


def inspect_translation(
    translator: Any, text: str, output: str | None = None, *, max_source: int, max_numbers: int | None = None
) -> Inspection:
    """Every attention of a translation, found or given; at most `max_source` tokens of each side are used."""
    began = time.perf_counter()
    model, tokenizers = translator.model, translator.tokenizers
    ids = tokenizers.source.encode(refuse_blank(text))
    # one position is for <eos>
    source = [*ids[: max_source - 1], EOS]
    sites = find_sites(model, lambda: probe(model))
    # checked before the search, assuming a target as long as the source, so that an oversized input fails early
    count_numbers(sites, dict.fromkeys((SOURCE, TARGET, PREFIX), len(source)), max_numbers)
    if output is None:
        hypothesis = search(model, source)
    else:
        hypothesis = force(model, source, tokenizers.target.encode(output)[: max_source - 1])
    # of the search alone; a given output has no time per token
    seconds = None if output is not None else time.perf_counter() - began
    tokens = TranslationTokens(source=source, output=hypothesis.ids, finished=hypothesis.finished)
    # again, with the true length of the target
    count_numbers(sites, {SOURCE: len(source), TARGET: len(tokens.labels), PREFIX: len(tokens.labels)}, max_numbers)
    # without attention there is nothing to record
    maps = narrow(model, record(model, source, tokens.prefix)) if sites else {}
    return Inspection(
        input=text,
        output=tokenizers.target.decode(hypothesis.ids),
        forced=output is not None,
        log_prob=hypothesis.log_prob,
        axes=axes_of(tokenizers, tokens, text, output),
        sites=find_sites(model, lambda: probe(model), maps),
        maps=maps,
        panels=panels_of(hypothesis),
        unknown=tuple(unknown_in(text, tokenizers.source)),
        # <eos> is in `source` but not in `ids`
        num_dropped=len(ids) + 1 - len(source),
        # the inspection is a greedy search itself, so this response is known
        response=None if output is not None else response_of(tokenizers, hypothesis, hypothesis.log_prob),
        call=model_call(tokens),
        tokens=tokens,
        seconds=time.perf_counter() - began,
        seconds_per_token=None if seconds is None else seconds / max(len(tokens.labels), 1),
    )


def panels_of(hypothesis: Hypothesis) -> tuple[AlignmentPanel, ...]:
    """The weights that the model reports, if it attends to its source."""
    if hypothesis.weights is None:
        return ()
    return (AlignmentPanel(weights=hypothesis.weights, query_axis=TARGET, key_axis=SOURCE),)


def model_call(tokens: TranslationTokens) -> ModelCall:
    """The teacher-forced pass as code."""
    sides = {"source": tokens.source, "target": tokens.prefix}
    inputs = "".join(f"{name} = PaddedTokens.from_lists([{ids}])\n" for name, ids in sides.items())
    return ModelCall(inputs=inputs, call="model(source, target)")


def respond_translation(translator: Any, inspection: Inspection, around: Around) -> Response:
    """The greedy translation inside `around()`, and the log-probability of the inspection's output there."""
    tokens, model = inspection.tokens, translator.model
    source, prefix, labels = (one_example(model, ids) for ids in (tokens.source, tokens.prefix, tokens.labels))
    # two contexts, because an intervention may count the queries of one pass
    with around():
        hypothesis = search(model, tokens.source)
    with around():
        log_prob = score(model, source, prefix, labels.ids).item()
    return response_of(translator.tokenizers, hypothesis, log_prob)


def response_of(tokenizers: Any, hypothesis: Hypothesis, log_prob_of_first: float) -> Response:
    """A hypothesis as text and tokens."""
    return Response(
        output=tokenizers.target.decode(hypothesis.ids),
        tokens=tuple(tokenizers.target.tokens(hypothesis.ids)),
        log_prob=hypothesis.log_prob,
        log_prob_of_first=log_prob_of_first,
    )


def probe(model: Any) -> tuple[AttentionSite, ...]:
    """The attentions of a translator, from a source and a target of different lengths."""
    maps = record(model, [*[UNK] * (NUM_SOURCE - 1), EOS], [BOS, *[UNK] * (NUM_TARGET - 1)])
    return tuple(place_site(path, one) for path, one in maps.items())


def place_site(path: str, maps: tuple[AttentionMap, ...]) -> AttentionSite:
    """Assign axes by shape: encoder queries are source tokens; decoder keys are source tokens or the target prefix."""
    num_queries, num_keys = sum(one.weights.shape[-2] for one in maps), maps[-1].weights.shape[-1]
    # stepwise attentions record one map per step, so queries are summed over maps
    if num_queries == NUM_SOURCE:
        return describe_site(path, maps, query_axis=SOURCE, key_axis=SOURCE)
    # after the encoder: its keys are source tokens too
    if num_keys == NUM_SOURCE:
        return describe_site(path, maps, query_axis=TARGET, key_axis=SOURCE)
    return describe_site(path, maps, query_axis=PREFIX, key_axis=PREFIX, is_causal=True)


def record(model: Any, source: Sequence[int], prefix: Sequence[int]) -> Trace:
    """Record every attention of one teacher-forced pass."""
    with evaluating(model), trace(model) as maps:
        model(one_example(model, source), one_example(model, prefix))
    return maps


def narrow(model: Any, maps: Mapping[str, tuple[AttentionMap, ...]]) -> dict[str, tuple[AttentionMap, ...]]:
    """The maps with the values and the context of the paper, where the model computes more in the same sum."""
    sizes: Mapping[str, int] = getattr(model, "context_sizes", {})
    return {
        path: tuple(
            replace(one, values=one.values[..., : sizes[path]], context=one.context[..., : sizes[path]])
            for one in steps
        )
        if path in sizes
        else steps
        for path, steps in maps.items()
    }


def search(model: Any, source: list[int]) -> Hypothesis:
    """The greedy translation, with attention weights if the model has them."""
    # the best hypothesis of the only source
    return decode(model, one_example(model, source), limit=LIMIT, return_weights=True)[0][0]


def force(model: Any, source: list[int], output: list[int]) -> Hypothesis:
    """A given translation as a hypothesis, like the result of a search."""
    prefix, labels = one_example(model, [BOS, *output]), one_example(model, [*output, EOS])
    inputs = one_example(model, source)
    log_prob = score(model, inputs, prefix, labels.ids).item()
    if not math.isfinite(log_prob):
        raise ValueError(
            f"the log-probability of this output is {log_prob}: the model's weights are broken. Train again."
        )
    alignment = forced_alignment(model, inputs, prefix)
    return Hypothesis(
        ids=tuple(output),
        log_prob=log_prob,
        score=log_prob,
        finished=True,
        weights=None if alignment is None else alignment[0],
    )


def one_example(model: Any, ids: Sequence[int]) -> PaddedTokens:
    """A batch of one, on the model's device."""
    return PaddedTokens.from_lists([list(ids)]).to(device_of(model))


def axes_of(tokenizers: Any, tokens: TranslationTokens, text: str, output: str | None) -> tuple[Axis, ...]:
    """Axes of the source, the target, and the target prefix; `output` is a translation that was given."""
    labels = {
        SOURCE: tokenizers.source.tokens(tokens.source),
        TARGET: tokenizers.target.tokens(tokens.labels),
        PREFIX: tokenizers.target.tokens(tokens.prefix),
    }
    # a text that was truncated has more parts than tokens, and <eos> has none
    target_texts = [] if output is None else tokenizers.target.texts(output)[: len(tokens.output)]
    texts = {
        SOURCE: tokenizers.source.texts(text)[: len(tokens.source) - 1],
        TARGET: target_texts,
        # <bos> comes first, and is no part of the text
        PREFIX: ["", *target_texts] if target_texts else [],
    }
    return tuple(
        token_axis(name, TITLES[name], labels[name], texts=texts[name], is_stepwise=name != SOURCE) for name in labels
    )
