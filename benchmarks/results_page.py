"""Write docs/results.md from results/{systems,language,sentences,alignment}.json and the files of timings.

    python -m benchmarks.results_page

This module writes the sections on translation; language_page, sentences_page and alignment_page write the others, as
far as there are recorded runs. All figures come from these files, except those that other projects published.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import alignment_page, language_page, sentences_page
from benchmarks.harness import RESULTS
from benchmarks.markdown import figure_of, machines, table, throughput
from regard.contracts.report import Metric, Report
from regard.models.translation import TRANSLATION_MODELS
from regard.tasks import report_of

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
MULTI30K, TATOEBA = "multi30k en-de tok", "tatoeba en-zh"
LONG = "21-30"
"""Words of the longest sources that the READMEs show."""
FEWEST = 20
"""Fewest sentences of a length for which BLEU is printed."""

WITHOUT_ATTENTION, WITH_ATTENTION = "rnn_encoder_decoder", "bahdanau"
"""Two systems with the same cell."""

GERMAN = "en-de, test 2016, tokenised lower-case"
REPORTED = (
    (GERMAN, "Transformer-Tiny", "41.02", "https://arxiv.org/abs/2105.14462", "transformer"),
    (GERMAN, "conditional GRU, additive attention", "38.1 ± 0.8", "https://arxiv.org/abs/1707.04481", "bahdanau"),
    (
        "de-en, the opposite direction, not comparable with ours; tutorial sizes, greedy, lower-case",
        "Seq2Seq / RNN encoder-decoder / Bahdanau / ConvS2S / Transformer",
        "13.76 / 20.61 / 28.30 / 34.14 / 36.52",
        "https://github.com/bentrevett/pytorch-seq2seq",
        None,
    ),
)
"""Data, system, BLEU, the source, and the system of ours to compare, or None."""

TOP = """\
# Results: every system, one trainer

This page is generated from `benchmarks/results/` by `python -m benchmarks.results_page`.

Limits of these figures:

- Settings were chosen by validation figures, among those that were tried.
- Translation has one seed per system, so the variance between seeds is not measured. Other tables state their seeds.
- Several trainings shared one GPU: their seconds and tokens/s show the cost and are not comparable with each other.
- Systems differ in size, as the tables show. Parameters are equal only where a table says so.
- CPU timings from before 2026-11-19 include parallel decoding and the oneDNN linear layer, which were deleted then;
  [kernels.md](kernels.md#parallel-implementations) has their effects.
"""


def title(name: str, runs: dict[str, Any]) -> str:
    """The title of a system."""
    return TRANSLATION_MODELS[runs[name]["config"]["model_name"]].title


def named(name: str, runs: dict[str, Any]) -> str:
    """The title of a run's system, with the settings of a variant."""
    config = runs[name]["config"]
    system, model = title(name, runs), config["model"]
    if config["model_name"] == "luong":
        return f"{system}, {model['score']}, {model['alignment'].replace('_', ' ')}"
    return f"{system}, {model['fusion']} fusion" if config["model_name"] == "lstmn" else system


@dataclass(frozen=True)
class Bucket:
    """BLEU of the sources of some lengths, and their number."""

    label: str
    count: int
    value: float


def bleu_metric(report: Report) -> Metric:
    """BLEU of tokenised text where the data are tokenised, else of plain text."""
    metric = report.metric("bleu_tokenised") or report.metric("bleu")
    assert metric is not None
    return metric


def bleu_of(report: Report) -> float:
    """The value of that BLEU."""
    return bleu_metric(report).value


def figures(runs: dict[str, Any], names: Sequence[str]) -> str:
    """Quality, size and cost of some runs, in history order."""
    rows = []
    for name in names:
        run, test = runs[name], reports(runs[name])["test"]
        about, trained = test.info, run["training"]
        rows.append(
            (
                named(name, runs),
                str(TRANSLATION_MODELS[about.system].year),
                f"**{bleu_of(test):.2f}**",
                f"{bleu_of(reports(run)['validation']):.2f}",
                f"{figure_of(test, 'chrf'):.2f}",
                f"{figure_of(test, 'perplexity'):.2f}",
                f"{about.parameters / 1e6:.1f} M",
                f"{about.steps:,} of {trained['steps']:,}",
                f"{trained['seconds']:.0f}",
                str(about.seed),
            )
        )
    head = ("system", "year", "BLEU", "validation", "chrF", "perplexity", "parameters", "step", "seconds", "seed")
    return table(head, rows)


def short_rows(runs: dict[str, Any]) -> list[tuple[str, ...]]:
    """System, year, BLEU, BLEU of long sources and parameters, as in the READMEs."""
    return [
        (
            title(name, runs),
            str(TRANSLATION_MODELS[test.info.system].year),
            f"{bleu_of(test):.1f}",
            value_of(by_length(runs[name]), LONG),
            f"{test.info.parameters / 1e6:.1f} M",
        )
        for name in systems_of(runs, MULTI30K)
        for test in (reports(runs[name])["test"],)
    ]


def lengths(runs: dict[str, Any], names: Sequence[str]) -> str:
    """BLEU by the number of words of the source."""
    buckets = [bucket for bucket in by_length(runs[names[0]]) if bucket.count >= FEWEST]
    rows = [
        (named(name, runs), *(value_of(by_length(runs[name]), bucket.label) for bucket in buckets)) for name in names
    ]
    left_out = [bucket for bucket in by_length(runs[names[0]]) if bucket.count < FEWEST]
    counts = ", ".join(f"{bucket.count} of {bucket.label} words" for bucket in left_out)
    note = f"\nWithout a figure, because there are under {FEWEST} sentences: {counts}.\n" if left_out else ""
    return table(("words", *(f"{bucket.label} (n={bucket.count})" for bucket in buckets)), rows) + note


def reports(run: dict[str, Any]) -> dict[str, Report]:
    """Both evaluations of a run."""
    return {split: report_of(run[split]) for split in ("validation", "test")}


def by_length(run: dict[str, Any]) -> list[Bucket]:
    """The test by source length."""
    lengths = reports(run)["test"].table("by_length")
    rows: Sequence[Any] = lengths.rows if lengths is not None else ()
    return [Bucket(str(label), int(count), float(value)) for label, count, value in rows]


def value_of(buckets: Sequence[Bucket], label: str) -> str:
    """A bucket's figure."""
    return f"{next(bucket.value for bucket in buckets if bucket.label == label):.1f}"


def verdict(runs: dict[str, Any]) -> str:
    """The effect of attention by source length, computed from the figures."""
    without, attending = (find(runs, name) for name in (WITHOUT_ATTENTION, WITH_ATTENTION))

    def size_of(name: str) -> str:
        millions = reports(runs[name])["test"].info.parameters / 1e6
        return f"{runs[name]['config']['model']['hidden_size']} hidden units ({millions:.1f} M parameters)"

    pairs = [
        (short, long)
        for short, long in zip(by_length(runs[without]), by_length(runs[attending]), strict=True)
        if short.count >= FEWEST
    ]
    times = [long.value / short.value for short, long in pairs if short.value and long.value]
    gains = ", ".join(f"{ratio:.2f} on {short.label}" for ratio, (short, _) in zip(times, pairs, strict=True))
    steady = all(first < second for first, second in pairwise(times))
    trend = "The gain grows with the length." if steady else "The gain does not grow steadily with the length."
    first, last = pairs[0][0].label, pairs[-1][0].label
    shares = [
        f"{title(name, runs)} {100 * ratio:.0f} %"
        for name in systems_of(runs, MULTI30K)
        if (ratio := kept_of(by_length(runs[name]), first, last)) is not None
    ]
    worst = min(systems_of(runs, MULTI30K), key=lambda name: bleu_of(reports(runs[name])["test"]))
    return (
        f"{title(without, runs)} and {title(attending, runs)} are GRUs with {size_of(without)} and "
        f"{size_of(attending)}. The second has a bidirectional encoder, and attends to the source at every step. Ratio "
        f"of its BLEU to that of the first: {gains} words. {trend}\n\n"
        f"BLEU on {last} words as a share of BLEU on {first} words: {', '.join(shares)}. "
        f"({title(worst, runs)} has a BLEU of only {bleu_of(reports(runs[worst])['test']):.1f} on all lengths.)\n"
    )


def kept_of(buckets: Sequence[Bucket], first: str, last: str) -> float | None:
    """BLEU on long sentences divided by BLEU on short ones."""
    values = {bucket.label: bucket.value for bucket in buckets}
    short, long = values[first], values[last]
    return long / short if short else None


def find(runs: dict[str, Any], name: str) -> str:
    """The name of the first run of a system."""
    return next(key for key in runs if key.rpartition("-")[0] == name)


def systems_of(runs: dict[str, Any], data: str) -> list[str]:
    """The plain run of each system on some data, in history order."""
    plain = [name for name in runs if name.rpartition("-")[0].removesuffix("_zh") in TRANSLATION_MODELS]
    ordered = sorted(plain, key=lambda name: list(TRANSLATION_MODELS).index(runs[name]["config"]["model_name"]))
    return [name for name in ordered if report_of(runs[name]["test"]).info.data == data]


def variants_of(runs: dict[str, Any], model: str) -> list[str]:
    """Every run of a system on Multi30k, the plain one first."""
    plain = find(runs, model)
    others = [name for name in runs if name != plain and runs[name]["config"]["model_name"] == model]
    return [plain, *(name for name in others if report_of(runs[name]["test"]).info.data == MULTI30K)]


def about(runs: dict[str, Any], names: Sequence[str]) -> str:
    """Data, search and metric of a table."""
    test = reports(runs[names[0]])["test"]
    info, quality, chrf = test.info, bleu_metric(test), test.metric("chrf")
    assert chrf is not None
    return (
        f"{info.data}, {info.split}: {info.examples:,} sentences, {info.search}. {quality.title}: "
        f"`{quality.signature}`; {chrf.title}: `{chrf.signature}`. Perplexity is per token of the "
        f"vocabulary. `step`: the step of the selected weights (for an average, its last step), of all steps trained.\n"
    )


def reported(runs: dict[str, Any]) -> str:
    """Published figures, beside ours where data and metric are the same."""
    rows = []
    for data, system, score, paper, ours in REPORTED:
        beside = "" if ours is None else f"{bleu_of(reports(runs[find(runs, ours)])['test']):.2f}"
        rows.append((data, system, f"{score} (reported)", f"<{paper}>", beside))
    return table(("data", "system", "BLEU", "source", "ours"), rows, left=4)


def page(
    runs: dict[str, Any],
    timings: Sequence[Path],
    *,
    language: dict[str, Any] | None = None,
    sentences: dict[str, Any] | None = None,
    alignment: dict[str, Any] | None = None,
    generation: Sequence[Path] = (),
) -> str:
    """The whole page."""
    every = [*runs.values(), *(language or {}).values(), *(sentences or {}).values()]
    german, chinese = systems_of(runs, MULTI30K), systems_of(runs, TATOEBA)
    luong, lstmn = variants_of(runs, "luong"), variants_of(runs, "lstmn")
    speeds = [section for path in timings if (section := throughput(path))]
    commands = "".join(f"    {run['command']}\n" for run in every)
    parts = [
        TOP,
        "## Multi30k, English to German\n" + about(runs, german) + "\n" + figures(runs, german),
        "### BLEU by source length\n" + lengths(runs, german),
        "### The effect of attention\n" + verdict(runs),
        "### Luong's scores and alignments\n" + figures(runs, luong) + "\n" + lengths(runs, luong),
        "### LSTMN's two fusions\n" + figures(runs, lstmn) + "\n" + lengths(runs, lstmn),
        "### Published figures\nFrom the papers and pages named, not measured here.\n\n" + reported(runs),
        "## Tatoeba, English to Chinese\n"
        + "\n".join([about(runs, chinese), figures(runs, chinese), lengths(runs, chinese)]),
        *alignment_page.sections(alignment or {}),
        *(["## Throughput\n" + "\n".join(speeds)] if speeds else []),
        *language_page.sections(language or {}, generation),
        *sentences_page.sections(sentences or {}),
        "## Reproduction\nMachines:\n\n" + machines(every) + "\nCommands (`<folder>` contains the data sets by name, "
        "such as `multi30k/`; the complete config of each run is in `benchmarks/results/`):\n\n" + commands,
    ]
    return "\n".join(parts)


def recorded_page() -> str:
    """The page of all recorded runs."""
    systems, language, sentences, alignment = map(load_runs, ("systems", "language", "sentences", "alignment"))
    generation = sorted(RESULTS.glob("generation*.json"))
    return page(
        systems, timing_files(), language=language, sentences=sentences, alignment=alignment, generation=generation
    )


def load_runs(name: str) -> dict[str, Any]:
    """The runs of a suite, or another record; empty if there are none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def timing_files() -> list[Path]:
    """The files of timings of training and decoding."""
    return sorted(RESULTS.glob("translation_*.json"))


def main() -> None:
    """Write the page."""
    PAGE.write_text(recorded_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
