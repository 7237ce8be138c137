"""Inspection of a text by a language model: every attention, next-token predictions, and the size of the state.

Shapes: T tokens.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import PreallocatedCache, trace
from regard.contracts import (
    EOS,
    UNK,
    Around,
    AttentionSite,
    Axis,
    Inspection,
    ModelCall,
    ModelOutput,
    NextTokenPanel,
    Response,
    StatePanel,
    StatePart,
    Title,
    Trace,
    check_cancelled,
    device_of,
    evaluating,
    leaves,
    to_double,
)
from regard.data.text import decode_text, token_texts
from regard.tasks.attention_sites import count_numbers, describe_site, find_sites, token_axis
from regard.tasks.base import refuse_blank

TEXT = "text"
TITLE = Title(en="text", zh="文本")
NUM_PROBE = 7
MAX_TOKENS = 512
"""Maximum number of tokens of an inspected text, unless the model's context is shorter."""
NUM_CONTINUED = 8
"""Tokens of the continuation that shows the effect of an intervention."""


def inspect_text(generator: Any, text: str, *, max_numbers: int | None = None) -> Inspection:
    """Every attention and prediction over a text, or over its last tokens: those that its continuation depends on."""
    began = time.perf_counter()
    model = generator.model
    # encode gives a line break for an empty text, which is a prompt but nothing to inspect
    whole = generator.encode(refuse_blank(text))
    ids = whole[-min(length_of_window(model, len(whole)), MAX_TOKENS) :]
    sites = find_sites(model, lambda: probe(model))
    # before the forward pass, which allocates what is counted here
    count_numbers(sites, {TEXT: len(ids)}, max_numbers)
    maps, output = record(model, ids)
    with torch.inference_mode():
        # (tokens, vocab), without the batch of one
        logits = model.readout(output.features)[0]
        # float64, because log-probabilities are summed over the text
        log_probs = to_double(logits).log_softmax(-1).cpu()
    if not log_probs.isfinite().all():
        raise ValueError("the model gives no probabilities: its weights are broken. Train again.")
    recorded = time.perf_counter()
    predictions = predict_next(generator, ids, logits, log_probs)
    state = measure_state(model, ids)
    # measured by measure_state, which steps token by token
    seconds_per_token = (time.perf_counter() - recorded) / len(ids)
    return Inspection(
        input=text,
        output="",
        forced=False,
        log_prob=sum(one for one in predictions.log_probs if one is not None),
        axes=(axis_of(generator.tokenizer, text, ids),),
        # with the recorded maps: the cached sites are those of an earlier call
        sites=find_sites(model, lambda: probe(model), maps),
        maps=dict(maps.items()),
        panels=(predictions, state),
        unknown=tuple(generator.unknown_in(text)),
        num_dropped=len(whole) - len(ids),
        drops_start=True,
        call=ModelCall(inputs=f"tokens = torch.tensor([{ids}])\n", call="model.features(tokens, model.start(1))"),
        tokens=ids,
        seconds=recorded - began,
        seconds_per_token=seconds_per_token,
    )


def length_of_window(model: Any, length: int) -> int:
    """The number of last tokens that the continuation of a text of this length depends on."""
    window_length = getattr(model, "window_length", None)
    # a model without a window has a state that depends on the whole text
    return length if window_length is None else int(window_length(length))


def axis_of(tokenizer: Any, text: str, ids: Sequence[int]) -> Axis:
    """The axis of the tokens, with the characters of the text behind each."""
    texts = token_texts(text, tokenizer)[-len(ids) :]
    return token_axis(TEXT, TITLE, tokenizer.tokens(ids), texts=texts, is_stepwise=True, is_multiline=True)


def predict_next(
    generator: Any, ids: list[int], logits: Float[Tensor, "T vocab"], log_probs: Float[Tensor, "T vocab"]
) -> NextTokenPanel:
    """The probability and rank of each token at its position."""
    own = of_next(log_probs, ids)
    # rank 1: no token is more probable
    ranks = (log_probs[:-1] > own[:, None]).sum(-1) + 1
    return NextTokenPanel(
        logits=logits,
        ids=tuple(ids),
        # the first token has no prediction
        log_probs=(None, *own.tolist()),
        ranks=(None, *ranks.tolist()),
        # exp overflows above 709
        perplexity=math.exp(min(-own.mean().item(), 700.0)) if len(ids) > 1 else None,
        axis=TEXT,
        tokens_of=generator.tokenizer.tokens,
        code="model(tokens)[0]",
    )


def of_next(log_probs: Float[Tensor, "T vocab"], ids: Sequence[int]) -> Float[Tensor, " T_minus_1"]:
    """The log-probability of every token but the first."""
    return log_probs[torch.arange(len(ids) - 1), torch.tensor(ids[1:], dtype=torch.long)]


def respond_text(generator: Any, inspection: Inspection, around: Around, *, context: int | None = None) -> Response:
    """The most probable next tokens inside `around()`, and the log-probability of the text itself there.

    The whole text is recomputed for each token, so that the intervention applies to all positions.
    """
    ids = inspection.tokens
    added: list[int] = []
    log_prob = log_prob_of_text = 0.0
    num_free = max((context or MAX_TOKENS) - len(ids), 0)
    # the first prediction needs no room in the context, each further one needs a token more
    for number in range(1 + min(NUM_CONTINUED - 1, num_free)):
        # entered once per pass, because an intervention may count the queries of a pass
        with around():
            log_probs = next_log_probs(generator.model, [*ids, *added])
        if number == 0:
            log_prob_of_text = of_next(log_probs, ids).sum().item()
        best = int(log_probs[-1].argmax())
        log_prob += log_probs[-1, best].item()
        added.append(best)
    tokens = zip(added, generator.tokenizer.tokens(added), strict=True)
    return Response(
        output=decode_text(added, generator.tokenizer),
        tokens=tuple("\n" if token == EOS else label for token, label in tokens),
        log_prob=log_prob,
        log_prob_of_first=log_prob_of_text,
    )


def next_log_probs(model: Any, ids: list[int]) -> Float[Tensor, "T vocab"]:
    """The log-probability of every token of the vocabulary after each of these."""
    with evaluating(model):
        logits = model(torch.tensor([ids], device=device_of(model)))[0]
        return to_double(logits).log_softmax(-1).cpu()


def probe(model: Any) -> tuple[AttentionSite, ...]:
    """The attentions of a language model; all are causal over the text."""
    # every vocabulary has <unk>
    maps, _ = record(model, [UNK] * NUM_PROBE)
    return tuple(
        describe_site(path, one, query_axis=TEXT, key_axis=TEXT, is_causal=True, keys_end_at_query=True)
        for path, one in maps.items()
    )


def record(model: Any, ids: Sequence[int]) -> tuple[Trace, ModelOutput]:
    """Every attention of a language model over these tokens from the start, and its output."""
    with evaluating(model), trace(model) as maps:
        # (1, tokens)
        output = model.features(torch.tensor([list(ids)], device=device_of(model)), model.start(1))
    return maps, output


def measure_state(model: Any, ids: Sequence[int]) -> StatePanel:
    """The size of the state after each token, stepping as in generation."""
    allocated, filled = [], []
    parts: dict[str, tuple[list[int], list[int]]] = {}
    device = device_of(model)
    with evaluating(model):
        state = model.start(1)
        at_start = num_bytes(leaves(state))
        for position, token in enumerate(ids):
            check_cancelled()
            state = model.step(torch.tensor([token], device=device), state).state
            allocated.append(num_bytes(leaves(state)))
            total_unused = 0
            for name, tensor, unused in named_leaves(state):
                # a tensor that appears at a later step has size 0 before it
                shape, sizes = parts.setdefault(name, ([], [0] * position))
                # overwritten at each step: the last shape is reported
                shape[:] = tensor.shape
                sizes.append(num_bytes([tensor]))
                total_unused += unused
            filled.append(allocated[-1] - total_unused)
    return StatePanel(
        at_start=at_start,
        allocated=tuple(allocated),
        filled=tuple(filled),
        parts=tuple(
            StatePart(name=name, shape=tuple(shape), num_bytes=tuple(sizes)) for name, (shape, sizes) in parts.items()
        ),
        axis=TEXT,
    )


def num_bytes(tensors: Sequence[Tensor]) -> int:
    """Bytes of these tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def named_leaves(nest: Any, name: str = "") -> Iterator[tuple[str, Tensor, int]]:
    """Every tensor of `leaves` with its path and the number of its preallocated, unused bytes."""
    if isinstance(nest, Tensor):
        yield name or "state", nest, 0
    elif isinstance(nest, PreallocatedCache):
        for part, room, filled in (("keys", nest.key_buffer, nest.keys), ("values", nest.value_buffer, nest.values)):
            # the buffers are preallocated, and only `filled` of them is in use; before the first token they are None
            if room is not None and filled is not None:
                yield join_path(name, part), room, num_bytes([room]) - num_bytes([filled])
    # is_dataclass is true for classes too
    elif is_dataclass(nest) and not isinstance(nest, type):
        for field in fields(nest):
            # fields without a batch dimension are not among the leaves either
            if field.metadata.get("batched", True):
                yield from named_leaves(getattr(nest, field.name), join_path(name, field.name))
    elif isinstance(nest, (tuple, list)):
        for index, one in enumerate(nest):
            yield from named_leaves(one, join_path(name, str(index)))
    elif isinstance(nest, dict):
        for key, one in nest.items():
            yield from named_leaves(one, join_path(name, str(key)))


def join_path(name: str, part: str) -> str:
    """The path of a part."""
    return f"{name}.{part}" if name else part
