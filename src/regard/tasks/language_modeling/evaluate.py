"""Evaluation of a language model on a text: perplexity with its counts, and the distance of its attention."""

import math
import time
from collections.abc import Mapping
from typing import Any

import torch

from regard.attention import trace
from regard.contracts import Column, Metric, Predictor, Report, ReportTable, RunInfo, Speed, device_of, evaluating
from regard.data.text import Stream, Tokenizer, make_stream
from regard.decoding import nats_of, pieces
from regard.metrics import SPANS, Likelihood, SpanMass, SpanSums, span_sums
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.tasks.base import hardware, run_info

NOT_FINITE = "the model gives NaN for this text: its parameters are not finite. Load an earlier checkpoint."
SPAN_TOKENS, SPAN_PIECE = 4096, 128
"""Tokens of a text over which attention spans are measured, and tokens per forward pass."""


def likelihood(model: Any, stream: Stream, *, rows: int = 1, piece: int = 256, fresh: bool = False) -> Likelihood:
    """Likelihood of a stream; exact with one row."""
    return Likelihood(
        # embeddings need int64 indices
        nats=nats_of(model, torch.from_numpy(stream.ids).long(), rows=rows, piece=piece, fresh=fresh),
        tokens=len(stream),
        words=stream.num_words,
        characters=stream.num_characters,
        unknown=stream.num_unknown,
    )


def finite_likelihood(
    model: Any, stream: Stream, *, rows: int = 1, piece: int = 256, fresh: bool = False
) -> Likelihood:
    """Likelihood of a stream under a trained model; NaN is an error."""
    values = likelihood(model, stream, rows=rows, piece=piece, fresh=fresh)
    # infinity is a valid result, NaN means that parameters are not finite
    if math.isnan(values.nats):
        raise ValueError(NOT_FINITE)
    return values


def spans(model: Any, stream: Stream, *, tokens: int = SPAN_TOKENS) -> dict[str, SpanMass]:
    """Attention weight by distance for every attention, by module path, over the first tokens of a stream."""
    ids = torch.from_numpy(stream.ids[:tokens]).long().to(device_of(model))
    sums: dict[str, SpanSums] = {}
    # GPT may recompute half of its context before a piece; pieces of at most half the context are recomputed once
    piece = min(SPAN_PIECE, max(getattr(model.config, "context", 2 * SPAN_PIECE) // 2, 1))
    with evaluating(model):
        # the state is carried, so that a piece attends to the tokens before it
        state = model.start(1)
        for tokens_in, _ in pieces(ids, rows=1, piece=piece, fresh=False):
            with trace(model) as maps:
                state = model.features(tokens_in, state).state
            for path, site_maps in maps.items():
                # tokens of the piece that are not measured yet; a stepwise attention has several maps per piece
                left = tokens_in.shape[1]
                for one in site_maps:
                    # queries of recomputed tokens come first and were measured before
                    num_recomputed = max(one.weights.shape[-2] - left, 0)
                    new, left = slice(num_recomputed, None), max(left - one.weights.shape[-2], 0)
                    # expanded first: a mask that broadcasts over the queries cannot be indexed by them
                    allowed = None if one.allowed is None else one.allowed.expand_as(one.weights)[..., new, :]
                    sums_here = span_sums(one.weights[..., new, :], allowed)
                    sums[path] = sums[path] + sums_here if path in sums else sums_here
    # one check at the end, because a sum with a NaN is NaN
    if any(math.isnan(total.distance) for total in sums.values()):
        raise ValueError(NOT_FINITE)
    # an attention without any query has no mean
    return {path: SpanMass.of(total) for path, total in sums.items() if total.count}


TASK = "language_modeling"
LARGE = 1e5
"""Larger perplexities, such as those per word of a character model, are printed in scientific notation."""


def evaluate_text(
    generator: Predictor,
    text: str,
    tokenizer: Tokenizer,
    *,
    split: str,
    steps: int = 0,
    rows: int = 1,
    crops: int | None = None,
) -> Report:
    """Score every next-token prediction of a text; `steps` is the number of training steps.

    With one row the state is carried through the whole text. `crops` evaluates crops of this length instead, each from
    the start state, which is how models trained on crops are compared.
    """
    # encoded before timing
    stream = make_stream(text, tokenizer)
    began = time.perf_counter()
    likelihood = finite_likelihood(generator.model, stream, rows=rows, piece=crops or 256, fresh=crops is not None)
    seconds = time.perf_counter() - began
    attends = LANGUAGE_MODELS[generator.run.model_name].attends
    # recorded results and their translations use these strings
    streams = "one stream, the state carried" if rows == 1 else f"{rows} streams side by side, each from the start"
    return make_report(
        run_info(generator, task=TASK, split=split, num_examples=text.count("\n"), steps=steps),
        likelihood,
        reading=streams if crops is None else f"crops of {crops} tokens, each from the start",
        distances=spans(generator.model, stream) if attends else {},
        speed=Speed(seconds=seconds, count=likelihood.tokens, unit="tokens", hardware=hardware(generator.device)),
    )


def make_report(
    info: RunInfo,
    likelihood: Likelihood,
    *,
    reading: str,
    distances: Mapping[str, SpanMass],
    speed: Speed | None = None,
) -> Report:
    """Perplexity per word first; `reading` describes how the state was carried: over streams, or in crops."""
    metrics = (
        Metric(
            name="perplexity",
            value=likelihood.perplexity,
            title="perplexity per word",
            signature=reading,
            format=".2f" if likelihood.perplexity < LARGE else ".2e",
        ),
        Metric(
            name="perplexity_per_token",
            value=likelihood.perplexity_per_token,
            title="perplexity per token",
            signature=f"{likelihood.tokens:,} tokens",
            format=".3f",
        ),
        Metric(
            name="bits_per_character",
            value=likelihood.bits_per_character,
            title="bits per character",
            signature=f"{likelihood.characters:,} characters",
            format=".3f",
        ),
        Metric(name="loss", value=likelihood.loss, title="nats per token", format=".4f"),
    )
    tables = (counts_table(likelihood),) if not distances else (counts_table(likelihood), distance_table(distances))
    return Report(info=info, metrics=metrics, tables=tables, speed=speed)


def counts_table(likelihood: Likelihood) -> ReportTable:
    """Counts of predictions; a line's end is one token, one word and one character."""
    return ReportTable(
        name="counts",
        title="counts",
        columns=(
            Column(name="tokens", title="tokens", format=","),
            Column(name="words", title="words", format=","),
            Column(name="characters", title="characters", format=","),
            Column(name="unknown", title="<unk>", format=","),
            Column(name="nats", title="nats", format=",.1f"),
        ),
        rows=((likelihood.tokens, likelihood.words, likelihood.characters, likelihood.unknown, likelihood.nats),),
    )


def distance_table(distances: Mapping[str, SpanMass]) -> ReportTable:
    """Attention weight by distance for every attention."""
    return ReportTable(
        name="attention_distance",
        title="attention weight within the last n tokens",
        columns=(
            Column(name="attention", title="attention"),
            *(Column(name=str(span), title=str(span), format=".1%") for span in SPANS),
            Column(name="distance", title="mean distance", format=".1f"),
            Column(name="queries", title="queries", format=","),
        ),
        rows=tuple((path, *mass.within, mass.distance, mass.count) for path, mass in distances.items()),
    )
