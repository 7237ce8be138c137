"""Evaluation of a translation model on pairs: perplexity under teacher forcing, and quality of its translations."""

import math
import time
from collections.abc import Callable, Iterable, Sequence

import torch

from regard.contracts import (
    Batch,
    Column,
    Metric,
    Model,
    Predictor,
    Report,
    ReportTable,
    RunInfo,
    Speed,
    device_of,
    evaluating,
    map_tensors,
)
from regard.data.batching import Examples, TokenBudget, batches_by_length, make_examples
from regard.data.corpora import Corpus, SyntheticCorpus
from regard.data.text import Pair, Tokenizers
from regard.metrics import (
    BleuVariant,
    Detokenised,
    LengthBucket,
    Perplexity,
    Quality,
    TokenisedLowercase,
    bleu,
    by_length,
    chrf,
    exact_match,
)
from regard.tasks.base import hardware, run_info
from regard.tasks.translation.run import LONGEST_SOURCE

VALIDATION_TOKENS = 4096


def perplexity(model: Model, batches: Iterable[Batch]) -> Perplexity:
    """Perplexity under teacher forcing, without label smoothing; batches are moved to the model's device."""
    device = device_of(model)
    nats: list[torch.Tensor] = []
    tokens = 0
    with evaluating(model):
        for cpu_batch in batches:
            batch = map_tensors(lambda tensor: tensor.to(device), cpu_batch)
            features = model.features(batch.source, batch.target).features
            nats.append(model.readout.loss(features, batch.labels))
            tokens += batch.num_tokens
        # one transfer at the end: a transfer per batch would synchronise the device every time
        # fsum adds without rounding in between
        total = math.fsum(torch.stack(nats).tolist()) if nats else 0.0
    return Perplexity.of(nats=total, tokens=tokens)


def measure_perplexity(model: Model, examples: Examples) -> Perplexity:
    """Perplexity of all examples, batched by length."""
    batches = batches_by_length(examples.lengths, TokenBudget(VALIDATION_TOKENS))
    return perplexity(model, (examples.batch(rows) for rows in batches))


def forms_of(corpus: Corpus) -> list[BleuVariant]:
    """The variants of BLEU for a corpus; the first is the main one.

    Tokenised, lower-cased text has one variant. Otherwise the main variant is cased, detokenised BLEU; for languages
    that separate words by spaces, tokenised lower-case BLEU is computed too.
    """
    language = corpus.languages[1]
    if corpus.tokenised:
        return [TokenisedLowercase()]
    cased = Detokenised(language or "en")
    # 13a is for words between spaces, other tokenizers for languages without spaces
    return [cased] if cased.metric().tokenizer.signature() != "13a" else [cased, TokenisedLowercase()]


def quality_of(corpus: Corpus) -> tuple[str, Callable[[list[str], list[str]], float]]:
    """Name and function of the main metric: exact match for synthetic corpora, otherwise BLEU."""
    if isinstance(corpus, SyntheticCorpus):
        return "exact_match", exact_match
    form = forms_of(corpus)[0]
    return "bleu", lambda hypotheses, references: bleu(hypotheses, references, form=form).score


TASK = "translation"
BEAM = 5
WORD_EDGES, CHARACTER_EDGES = (5, 10, 15, 20, 30), (10, 20, 30, 40, 50)


def evaluate(
    translator: Predictor,
    pairs: Sequence[Pair],
    tokenizers: Tokenizers,
    *,
    split: str,
    beam: int = BEAM,
    steps: int = 0,
) -> Report:
    """Translate the sources and compare the translations with the targets."""
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    began = time.perf_counter()
    translations = translator.predict(sources, beam=beam)
    # measured around predict alone, without metrics
    seconds = time.perf_counter() - began
    hypotheses = [translation.text for translation in translations]
    corpus = translator.run.data
    characters = tokenizers.source.kind == "characters"
    # truncation makes every metric worse, so it is reported
    num_cut = sum(translation.num_dropped > 0 for translation in translations)
    search = "greedy" if beam == 1 else f"beam {beam}"
    return make_report(
        run_info(translator, task=TASK, split=split, num_examples=len(pairs), steps=steps, search=search),
        scores={name_of(form): bleu(hypotheses, references, form=form) for form in forms_of(corpus)}
        | {"chrf": chrf(hypotheses, references)},
        exact=exact_match(hypotheses, references),
        # one position is for <eos>
        perplexity=measure_perplexity(translator.model, make_examples(pairs, tokenizers, LONGEST_SOURCE - 1)),
        buckets=by_length(
            # in the unit of the tokenizer
            [len(source) if characters else len(source.split()) for source in sources],
            hypotheses,
            references,
            metric=quality_of(corpus)[1],
            edges=CHARACTER_EDGES if characters else WORD_EDGES,
        ),
        by_exact_match=quality_of(corpus)[0] == "exact_match",
        speed=Speed(
            seconds=seconds,
            count=sum(len(translation.tokens) for translation in translations),
            unit="tokens",
            hardware=hardware(translator.device),
        ),
        warnings=(f"{num_cut:,} sources were truncated to {LONGEST_SOURCE - 1} tokens.",) if num_cut else (),
    )


def name_of(form: object) -> str:
    """The metric name of a variant of BLEU."""
    return "bleu_tokenised" if isinstance(form, TokenisedLowercase) else "bleu"


def make_report(
    info: RunInfo,
    *,
    scores: dict[str, Quality],
    exact: float | None,
    perplexity: Perplexity | None,
    buckets: Sequence[LengthBucket],
    by_exact_match: bool,
    speed: Speed | None = None,
    warnings: tuple[str, ...] = (),
) -> Report:
    """BLEU, chrF, exact match and perplexity; with `by_exact_match`, exact match is the main metric."""
    metrics = [
        Metric(name=name, value=score.score, title=score.name, signature=score.signature, format=".2f")
        for name, score in scores.items()
    ]
    if exact is not None:
        # the first metric is the main one
        position = 0 if by_exact_match else len(metrics)
        metrics.insert(position, Metric(name="exact_match", value=exact, title="exact match", format=".1%"))
    if perplexity is not None:
        signature = f"{perplexity.tokens:,} target tokens"
        value = perplexity.perplexity
        metrics.append(Metric(name="perplexity", value=value, title="perplexity", signature=signature, format=".3f"))
    tables = [lengths_table(buckets, by_exact_match=by_exact_match)] if buckets else []
    if perplexity is not None:
        tables.append(counts_table(perplexity))
    return Report(info=info, metrics=tuple(metrics), tables=tuple(tables), speed=speed, warnings=warnings)


def lengths_table(buckets: Sequence[LengthBucket], *, by_exact_match: bool) -> ReportTable:
    """Quality by source length, without empty buckets."""
    quality = (
        Column(name="value", title="exact match", format=".1%")
        if by_exact_match
        else Column(name="value", title="BLEU", format=".2f")
    )
    return ReportTable(
        name="by_length",
        title="by source length",
        columns=(
            Column(name="length", title="source length"),
            Column(name="count", title="sentences", format=","),
            quality,
        ),
        rows=tuple((bucket.label, bucket.count, bucket.value) for bucket in buckets if bucket.count),
    )


def counts_table(perplexity: Perplexity) -> ReportTable:
    """The counts behind the perplexity."""
    return ReportTable(
        name="counts",
        title="counts",
        columns=(
            Column(name="tokens", title="target tokens", format=","),
            Column(name="nats", title="nats", format=",.1f"),
        ),
        rows=((perplexity.tokens, perplexity.nats),),
    )
