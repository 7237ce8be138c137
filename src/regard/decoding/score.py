"""Scoring: the log-probability of a target or a text, and the alignment of a target.

log p(y | x) = sum_t log p(y_t | y_<t, x),    the last y is <eos>
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import (
    EOS,
    PAD,
    LanguageModel,
    Model,
    PaddedTokens,
    Source,
    check_cancelled,
    device_of,
    evaluating,
)
from regard.decoding.ops import outside_inference

POSITIONS_AT_ONCE = 1024
"""Target positions whose logits are computed at a time: all at once would need the memory of the whole batch."""

PIECE = 256
"""Tokens that a language model reads at once."""


def score(model: Model, source: Source, target: PaddedTokens, labels: Int[Tensor, "B T"]) -> Float[Tensor, " B"]:
    """Log-probability of the labels y.. <eos> of each example (or <pad>); the decoder reads <bos> y.. ."""
    with evaluating(model):
        is_label = labels != PAD
        features, tokens = model.features(source, target).features[is_label], labels[is_label]
        parts = [
            F.cross_entropy(at_least_float32(model.readout(some_features)), some_tokens, reduction="none").double()
            for some_features, some_tokens in zip(
                features.split(POSITIONS_AT_ONCE), tokens.split(POSITIONS_AT_ONCE), strict=True
            )
        ]
        # (B, T) again, with 0 at padding, so that the sum of a row is that of its example
        losses = torch.zeros(labels.shape, dtype=torch.float64, device=labels.device)
        losses[is_label] = torch.cat(parts)
        return outside_inference(-losses.sum(dim=1))


def at_least_float32(logits: Float[Tensor, "N vocab"]) -> Float[Tensor, "N vocab"]:
    """Logits in at least single precision, whatever autocast chose."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def forced_alignment(model: Model, source: Source, target: PaddedTokens) -> list[Float[Tensor, "T source"]] | None:
    """The attention weights of each step while the decoder reads <bos> y.. ; None if the model does not attend."""
    steps: list[Tensor] = []
    with evaluating(model):
        encoded = model.encode(source)
        state = model.start(encoded)
        for tokens in target.ids.unbind(dim=1):
            check_cancelled()
            step = model.step(tokens, state, encoded)
            state = step.state
            if step.weights is None:
                return None
            steps.append(step.weights)
        # (B, T, source); one transfer for all steps
        stacked = torch.stack(steps, dim=1).cpu()
        sizes = zip(target.lengths.tolist(), source.lengths.tolist(), strict=True)
        return [
            outside_inference(weights[:num_steps, :num_keys])
            for weights, (num_steps, num_keys) in zip(stacked, sizes, strict=True)
        ]


def score_continuation(model: LanguageModel, prompt: Sequence[int], continuation: Sequence[int]) -> float:
    """log p(continuation | prompt) of a language model, in nats; the prompt has at least one token."""
    if not prompt:
        raise ValueError("the prompt has no token, and a model predicts what follows one. Give at least <eos>.")
    ids = torch.tensor([*prompt, *continuation], device=device_of(model))
    # a copy, since the ids are the input as well
    labels = ids[1:].clone()
    # the tokens of the prompt are read and not predicted
    labels[: len(prompt) - 1] = PAD
    nats = [torch.zeros((), dtype=torch.float64)]
    with evaluating(model):
        state = model.start(1)
        for some_tokens, some_labels in zip(ids[:-1].split(PIECE), labels.split(PIECE), strict=True):
            output = model.features(some_tokens[None], state)
            state = output.state
            nats.append(model.readout.loss(output.features, some_labels[None]).double().cpu())
    # fsum adds without rounding errors in between
    return -math.fsum(torch.stack(nats).tolist())


def nats_of(
    model: LanguageModel,
    ids: Int[Tensor, " N"],
    *,
    rows: int = 1,
    piece: int = PIECE,
    fresh: bool = False,
) -> float:
    """The negative log-likelihood of all tokens; `fresh` resets the state for every piece, as in training on crops."""
    if not len(ids):
        raise ValueError("there is no token to predict. Give a text with at least one.")
    nats: list[Tensor] = []
    with evaluating(model):
        state: Any = None
        for tokens, labels in pieces(ids.to(device_of(model)), rows=rows, piece=piece, fresh=fresh):
            if state is None or fresh:
                state = model.start(tokens.shape[0])
            output = model.features(tokens, state)
            state = output.state
            nats.append(model.readout.loss(output.features, labels).double())
        # one transfer at the end: each one would stall the device
        return math.fsum(torch.stack(nats).tolist())


def pieces(
    ids: Int[Tensor, " N"], *, rows: int, piece: int, fresh: bool
) -> Iterator[tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]]:
    """Input tokens and labels of each piece, from `rows` texts of equal length; the last is filled up with <pad>."""
    # each label is the next token; <eos> comes before the first, as before any text
    inputs = torch.cat([ids.new_tensor([EOS]), ids[:-1]])
    rows = min(rows, len(ids))
    # -(-a // b) rounds up
    length = piece if fresh else -(-len(ids) // rows)
    count = -(-len(ids) // length)
    tokens, labels = (
        F.pad(part, (0, count * length - len(ids)), value=PAD).view(count, length) for part in (inputs, ids)
    )
    if fresh:
        yield from zip(tokens.split(rows), labels.split(rows), strict=True)
    else:
        yield from zip(tokens.split(piece, dim=1), labels.split(piece, dim=1), strict=True)
