"""Quality of a language model on a text, as a report.

What is measured of a language model: the likelihood of texts, and how far back it looks.

The quality of a language model on a text, as a report: perplexity, exact counts, and how far back it attends.
"""

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
    return {path: SpanMass.of(total) for path, total in sums.items() if total.count}


TASK = "language_modeling"
LARGE = 1e5
"""Perplexities from here on, such as those per word of a model of letters, are written as powers of ten."""


def evaluate_language(
    writer: Predictor,
    text: str,
    tokenizer: Tokenizer,
    *,
    split: str,
    steps: int = 0,
    rows: int = 1,
    crops: int | None = None,
) -> Report:
    """Read a text and score every prediction; `steps` are those the model was trained for.

    One row carries the state through the whole text. `crops` reads pieces of so many tokens instead, each from the
    start, as models that learned from crops are compared.
    """
    stream = make_stream(text, tokenizer)
    began = time.perf_counter()
    likelihood = sure_likelihood(writer.model, stream, rows=rows, piece=crops or 256, fresh=crops is not None)
    seconds = time.perf_counter() - began
    attends = LANGUAGE_MODELS[writer.run.model_name].attends
    carried = "one stream, the state carried" if rows == 1 else f"{rows} streams side by side, each from the start"
    return make_report(
        run_info(writer, task=TASK, split=split, num_examples=text.count("\n"), steps=steps),
        likelihood,
        reading=carried if crops is None else f"crops of {crops} tokens, each from the start",
        distances=spans(writer.model, stream) if attends else {},
        speed=Speed(seconds=seconds, count=likelihood.tokens, unit="tokens", hardware=hardware(writer.device)),
    )


def make_report(
    info: RunInfo,
    likelihood: Likelihood,
    *,
    reading: str,
    distances: Mapping[str, SpanMass],
    speed: Speed | None = None,
) -> Report:
    """Perplexity per word first; `reading` says how the text was read: with the state carried, or in crops."""
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
            signature=f"{likelihood.tokens:,} tokens of the vocabulary",
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
    """What was predicted, each once; a line's end is a token, a word and a character."""
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
    """How far back every attention reaches."""
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
