"""Scoring: how probable a model finds a given target or text, and the alignment while it reads the target.

log p(y | x) = sum_t log p(y_t | y_<t, x),    <eos> the last y
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import EOS, PAD, LanguageModel, Model, PaddedTokens, device_of, evaluating
from regard.decoding.rows import own

POSITIONS_AT_ONCE = 1024
"""The logits of so many target positions are written down at a time."""

PIECE = 256
"""Tokens that a language model reads at once."""


def score(model: Model, source: PaddedTokens, target: PaddedTokens, labels: Int[Tensor, "B T"]) -> Float[Tensor, " B"]:
    """Log-probability of each row's labels y.. <eos> (<pad> where nothing), the decoder reading <bos> y.. ."""
    with evaluating(model):
        real = labels != PAD
        features, wanted = model.features(source, target).features[real], labels[real]
        parts = [
            F.cross_entropy(upcast(model.readout(some)), words, reduction="none").double()
            for some, words in zip(features.split(POSITIONS_AT_ONCE), wanted.split(POSITIONS_AT_ONCE), strict=True)
        ]
        losses = torch.zeros(labels.shape, dtype=torch.float64, device=labels.device)
        losses[real] = torch.cat(parts)
        return own(-losses.sum(dim=1))


def upcast(logits: Float[Tensor, "N vocab"]) -> Float[Tensor, "N vocab"]:
    """At least single precision, whatever autocast chose."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def forced_alignment(
    model: Model, source: PaddedTokens, target: PaddedTokens
) -> list[Float[Tensor, "T source"]] | None:
    """Where the model looks while it reads <bos> y..: a row before each of y.. <eos>; None where it does not attend."""
    steps: list[Tensor] = []
    with evaluating(model):
        encoded = model.encode(source)
        state = model.start(encoded)
        for tokens in target.ids.unbind(dim=1):
            done = model.step(tokens, state, encoded)
            state = done.state
            if done.alignment is None:
                return None
            steps.append(done.alignment)
        looked = torch.stack(steps, dim=1).cpu()
        sizes = zip(target.lengths.tolist(), source.lengths.tolist(), strict=True)
        return [own(row[:rows, :columns]) for row, (rows, columns) in zip(looked, sizes, strict=True)]


def score_continuation(model: LanguageModel, prompt: Sequence[int], continuation: Sequence[int]) -> float:
    """log p(continuation | prompt) of a language model, in nats; the prompt has at least one token."""
    if not prompt:
        raise ValueError("the prompt has no token, and a model predicts what follows one. Give at least <eos>.")
    ids = torch.tensor([*prompt, *continuation], device=device_of(model))
    labels = ids[1:].clone()
    # the tokens of the prompt are read and not predicted
    labels[: len(prompt) - 1] = PAD
    nats = [torch.zeros((), dtype=torch.float64)]
    with evaluating(model):
        state = model.start(1)
        for tokens, wanted in zip(ids[:-1].split(PIECE), labels.split(PIECE), strict=True):
            output = model.features(tokens[None], state)
            state = output.state
            nats.append(model.readout.loss(output.features, wanted[None]).double().cpu())
    return -math.fsum(torch.stack(nats).tolist())


def nats_of(
    model: LanguageModel,
    ids: Int[Tensor, " N"],
    *,
    rows: int = 1,
    piece: int = PIECE,
    fresh: bool = False,
) -> float:
    """Summed over all tokens; `fresh` begins every piece with the model's start, as training on crops does."""
    if not len(ids):
        raise ValueError("there is no token to predict. Give a text with at least one.")
    nats: list[Tensor] = []
    with evaluating(model):
        state: Any = None
        for tokens, labels in pieces(ids.to(device_of(model)), rows=rows, piece=piece, fresh=fresh):
            if state is None or fresh:
                state = model.start(tokens.shape[0])
            done = model.features(tokens, state)
            state = done.state
            nats.append(model.readout.loss(done.features, labels).double())
        return math.fsum(torch.stack(nats).tolist())


def pieces(
    ids: Int[Tensor, " N"], *, rows: int, piece: int, fresh: bool
) -> Iterator[tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]]:
    """What is read and what is predicted, piece by piece; what a row lacks at its end is <pad>."""
    before = torch.cat([ids.new_tensor([EOS]), ids[:-1]])
    rows = min(rows, len(ids))
    longest = piece if fresh else -(-len(ids) // rows)
    count = -(-len(ids) // longest)
    read, said = (
        torch.nn.functional.pad(part, (0, count * longest - len(ids)), value=PAD).view(count, longest)
        for part in (before, ids)
    )
    if fresh:
        yield from zip(read.split(rows), said.split(rows), strict=True)
    else:
        yield from zip(read.split(piece, dim=1), said.split(piece, dim=1), strict=True)
