"""What is measured of a language model: the likelihood of texts, and how far back it looks."""

import math
from typing import Any

import torch

from regard.attention import trace
from regard.data.streams import Stream
from regard.decoding import device_of, evaluating, nats_of, pieces
from regard.evaluation import Likelihood, SpanMass, SpanSums, span_sums

NO_NUMBERS = "the model gives NaN for this text: its parameters are not finite. Load an earlier checkpoint."
SPAN_TOKENS, SPAN_PIECE = 4096, 128
"""Tokens of a text whose looks are measured, and how many are read at once."""


def likelihood(model: Any, stream: Stream, *, rows: int = 1, piece: int = 256, fresh: bool = False) -> Likelihood:
    """Of a whole stream; exact with one row."""
    return Likelihood(
        nats=nats_of(model, torch.from_numpy(stream.ids).long(), rows=rows, piece=piece, fresh=fresh),
        tokens=len(stream),
        words=stream.num_words,
        characters=stream.num_characters,
        unknown=stream.num_unknown,
    )


def sure_likelihood(model: Any, stream: Stream, *, rows: int = 1, piece: int = 256, fresh: bool = False) -> Likelihood:
    """The same of a model that is done learning: one that no longer gives numbers is refused."""
    found = likelihood(model, stream, rows=rows, piece=piece, fresh=fresh)
    if math.isnan(found.nats):
        raise ValueError(NO_NUMBERS)
    return found


def spans(model: Any, stream: Stream, *, tokens: int = SPAN_TOKENS) -> dict[str, SpanMass]:
    """How far back every attention of the model reaches, by module path, over the first tokens of a stream."""
    ids = torch.from_numpy(stream.ids[:tokens]).long().to(device_of(model))
    sums: dict[str, SpanSums] = {}
    # a model that reads half of its context again does so once a piece, before what is new
    piece = min(SPAN_PIECE, max(getattr(model.config, "context", 2 * SPAN_PIECE) // 2, 1))
    with evaluating(model):
        state = model.start(1)
        for read, _ in pieces(ids, rows=1, piece=piece, fresh=False):
            with trace(model) as maps:
                state = model.read(read, state).state
            for path, looks in maps.items():
                left = read.shape[1]
                for seen in looks:
                    read_anew = max(seen.weights.shape[-2] - left, 0)
                    new, left = slice(read_anew, None), max(left - seen.weights.shape[-2], 0)
                    allowed = None if seen.allowed is None else seen.allowed.expand_as(seen.weights)[..., new, :]
                    found = span_sums(seen.weights[..., new, :], allowed)
                    sums[path] = sums[path] + found if path in sums else found
    if any(math.isnan(total.distance) for total in sums.values()):
        raise ValueError(NO_NUMBERS)
    return {path: SpanMass.of(total) for path, total in sums.items() if total.looks}
