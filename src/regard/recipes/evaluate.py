"""The quality of a translation model on pairs, as a report."""

import time
from collections.abc import Sequence

from regard.contracts.predictor import Predictor
from regard.contracts.report import Column, Metric, Report, ReportTable, RunInfo, Speed
from regard.data import Pair, Tokenizers, make_examples
from regard.evaluation import LengthBucket, Perplexity, Quality, TokenisedLowercase, bleu, by_length, chrf, exact_match
from regard.recipes.measure import forms_of, measure_perplexity, quality_of
from regard.recipes.prepared import hardware, run_info
from regard.recipes.run import LONGEST_SOURCE

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
    """Translate the sources and compare with the targets."""
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    began = time.perf_counter()
    translations = translator.predict(sources, beam=beam)
    seconds = time.perf_counter() - began
    hypotheses = [translation.text for translation in translations]
    corpus = translator.run.data
    characters = tokenizers.source.kind == "characters"
    num_cut = sum(translation.num_dropped > 0 for translation in translations)
    return make_report(
        run_info(
            translator,
            task=TASK,
            split=split,
            num_examples=len(pairs),
            steps=steps,
            search="greedy" if beam == 1 else f"beam {beam}",
        ),
        scores={name_of(form): bleu(hypotheses, references, form=form) for form in forms_of(corpus)}
        | {"chrf": chrf(hypotheses, references)},
        exact=exact_match(hypotheses, references),
        perplexity=measure_perplexity(translator.model, make_examples(pairs, tokenizers, LONGEST_SOURCE - 1)),
        buckets=by_length(
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
        warnings=(f"{num_cut:,} sources were cut to {LONGEST_SOURCE - 1} tokens.",) if num_cut else (),
    )


def name_of(form: object) -> str:
    """The metric's name of a form of BLEU."""
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
    """BLEU, chrF, exact matches and perplexity; `by_exact_match` says which of them to compare systems by."""
    metrics = [
        Metric(name=name, value=score.score, title=score.name, signature=score.signature, format=".2f")
        for name, score in scores.items()
    ]
    if exact is not None:
        place = 0 if by_exact_match else len(metrics)
        metrics.insert(place, Metric(name="exact_match", value=exact, title="exact match", format=".1%"))
    if perplexity is not None:
        counted = f"{perplexity.tokens:,} target tokens"
        value = perplexity.perplexity
        metrics.append(Metric(name="perplexity", value=value, title="perplexity", signature=counted, format=".3f"))
    tables = [lengths_table(buckets, by_exact_match=by_exact_match)] if buckets else []
    if perplexity is not None:
        tables.append(counts_table(perplexity))
    return Report(info=info, metrics=tuple(metrics), tables=tuple(tables), speed=speed, warnings=warnings)


def lengths_table(buckets: Sequence[LengthBucket], *, by_exact_match: bool) -> ReportTable:
    """Quality by the length of the source, of lengths that there are."""
    quality = (
        Column(name="value", title="exact match", format=".1%")
        if by_exact_match
        else Column(name="value", title="BLEU", format=".2f")
    )
    return ReportTable(
        name="by_length",
        title="by the length of the source",
        columns=(
            Column(name="length", title="source length"),
            Column(name="count", title="sentences", format=","),
            quality,
        ),
        rows=tuple((bucket.label, bucket.count, bucket.value) for bucket in buckets if bucket.count),
    )


def counts_table(perplexity: Perplexity) -> ReportTable:
    """What the perplexity is computed from."""
    return ReportTable(
        name="counts",
        title="counts",
        columns=(
            Column(name="tokens", title="target tokens", format=","),
            Column(name="nats", title="nats", format=",.1f"),
        ),
        rows=((perplexity.tokens, perplexity.nats),),
    )
