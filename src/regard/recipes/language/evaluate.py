"""The quality of a language model on a text, as a report: perplexity, exact counts, and how far back it attends."""

import time
from collections.abc import Mapping

from regard.contracts.predictor import Predictor
from regard.contracts.report import Column, Metric, Report, ReportTable, RunInfo, Speed
from regard.data import Tokenizer
from regard.data.streams import make_stream
from regard.evaluation import SPANS, Likelihood, SpanMass
from regard.models import LANGUAGE_MODELS
from regard.recipes.language.measure import spans, sure_likelihood
from regard.recipes.prepared import hardware, run_info

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
        rows=tuple((path, *mass.within, mass.distance, mass.looks) for path, mass in distances.items()),
    )
