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
from statistics import fmean
from typing import Any

from benchmarks import alignment_page, language_page, sentences_page
from benchmarks.harness import RESULTS
from benchmarks.markdown import figure_of, machines, over_seeds, seeds_by_name, table, throughput
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
    (GERMAN, "Transformer-Tiny", "41.02", "https://arxiv.org/abs/2105.14462", "transformer_tiny"),
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

- Settings were chosen by validation figures, among those that were tried: `benchmarks/results/trials.json` has the
  settings of Multi30k that were tried in this version, one seed each. Their number differs between systems (1 to 5), so
  the tuning budgets are not equal. Each recorded run was evaluated on the test set once.
- Several seeds are given as mean ± standard deviation. Rows with one seed say nothing about the variance between seeds.
- Several trainings shared one GPU: their seconds and tokens/s show the cost and are not comparable with each other.
- Systems differ in size, as the tables show. Parameters are equal only where a table says so.
- CPU timings from before 2026-11-19 include parallel decoding and weights laid out for oneDNN, which were deleted then;
  [kernels.md](kernels.md#parallel-implementations) has their effects.
"""


FORMS = {
    "rctm": "RCTM I",
    "rctm_ngrams": "RCTM II",
    "rctm_none": "RCTM without a source",
    "transformer_tiny": "Transformer-Tiny, post-norm",
    "luong": "Luong, bidirectional encoder",
    "luong_general": "Luong, general, global",
}
"""Titles of runs that are not those of their table entry."""
MAIN = ("rctm_ngrams", "rctm_none", "transformer_tiny")
"""Runs of the main table beside the plain ones."""
CONTROL = "_none"
"""The end of the name of a system without its source."""
DIFFERENCES = {
    "rctm": "tanh for the sigmoids, taps as initial kernels, one softmax",
    "rctm_ngrams": "as RCTM I; source n-grams stretched linearly; target length a ratio, not predicted",
    "rnn_encoder_decoder": "translates, where the paper scores phrases",
    "seq2seq": "2 layers of 384 units, not 4 of 1,000",
    "bahdanau": "512 units, not 1,000; dropout",
    "luong": "2 layers of 512 units, not 4 of 1,000; the encoder reads both ways",
    "lstmn": "the paper's task is inference; a cell of zeros at the start, as in the authors' code",
    "conv_seq2seq": "4 layers of 256 units, not 20 of 512",
    "transformer": "4 layers, 256 wide, pre-norm; the base model has 6, 512, post-norm",
    "transformer_tiny": "none in the sizes; dropout and learning rate were chosen here",
}
"""What differs from the published setting, by run."""

Runs = dict[str, Any]
Groups = dict[str, list[Any]]


def title(name: str, group: Sequence[Any]) -> str:
    """The title of a system, with the settings of a variant."""
    if name in FORMS:
        return FORMS[name]
    config = group[0]["config"]
    system, model = TRANSLATION_MODELS[config["model_name"]].title, config["model"]
    if config["model_name"] == "luong":
        return f"{system}, {model['score']}, {model['alignment'].replace('_', ' ')}"
    if config["model_name"] == "lstmn":
        return f"{system}, {model['fusion']} fusion"
    alignment = model.get("alignment", "softmax")
    return system if alignment == "softmax" else f"{system}, {alignment.replace('_', ' ')}"


@dataclass(frozen=True)
class Bucket:
    """BLEU of the sources of some lengths, averaged over the seeds, and their number."""

    label: str
    count: int
    value: float


def reports_of(group: Sequence[Any], split: str = "test") -> list[Report]:
    """The evaluations of all seeds on a split."""
    return [report_of(run[split]) for run in group]


def bleu_metric(report: Report) -> Metric:
    """BLEU of tokenised text where the data are tokenised, else of plain text."""
    metric = report.metric("bleu_tokenised") or report.metric("bleu")
    assert metric is not None
    return metric


def bleu_of(group: Sequence[Any], split: str = "test") -> list[float]:
    """BLEU of every seed."""
    return [bleu_metric(report).value for report in reports_of(group, split)]


def is_former(group: Sequence[Any]) -> bool:
    """Whether a system was trained with the settings of 0.1, in which readouts began without frequencies."""
    return "readout_bias" not in group[0]["config"]["training"]


def figures(groups: Groups) -> str:
    """Quality, size and cost of some systems."""
    rows = []
    for name, group in groups.items():
        tests, trained = reports_of(group), group[0]["training"]
        about = tests[0].info
        rows.append(
            (
                title(name, group) + (" *" if is_former(group) else ""),
                str(TRANSLATION_MODELS[about.system].year),
                f"**{over_seeds(bleu_of(group), 2)}**",
                over_seeds(bleu_of(group, "validation"), 2),
                over_seeds([figure_of(test, "chrf") for test in tests], 2),
                over_seeds([figure_of(test, "perplexity") for test in tests], 2),
                f"{about.parameters / 1e6:.1f} M",
                f"{trained['steps']:,}",
                f"{fmean(run['training']['seconds'] for run in group):.0f}",
                ", ".join(str(test.info.seed) for test in tests),
                DIFFERENCES.get(name, ""),
            )
        )
    head = (
        *("system", "year", "BLEU", "validation", "chrF", "perplexity", "parameters", "steps", "seconds", "seeds"),
        "differs from the published setting",
    )
    note = "\n\\* trained with the settings of 0.1: a readout bias of 0, and a one-way encoder for Luong.\n"
    return table(head, rows) + (note if any(map(is_former, groups.values())) else "")


def short_rows(runs: Runs) -> list[tuple[str, ...]]:
    """System, year, BLEU, BLEU of long sources and parameters, as in the READMEs."""
    return [
        (
            TRANSLATION_MODELS[name].title,
            str(TRANSLATION_MODELS[name].year),
            over_seeds(bleu_of(group), 1),
            value_of(by_length(group), LONG),
            f"{reports_of(group)[0].info.parameters / 1e6:.1f} M",
        )
        for name, group in systems_of(runs, MULTI30K).items()
    ]


def lengths(groups: Groups) -> str:
    """BLEU by the number of words of the source, averaged over the seeds."""
    first = by_length(next(iter(groups.values())))
    buckets = [bucket for bucket in first if bucket.count >= FEWEST]
    rows = [
        (title(name, group), *(value_of(by_length(group), bucket.label) for bucket in buckets))
        for name, group in groups.items()
    ]
    counts = ", ".join(f"{bucket.count} of {bucket.label} words" for bucket in first if bucket.count < FEWEST)
    note = f"\nWithout a figure, because there are under {FEWEST} sentences: {counts}.\n" if counts else ""
    return table(("words", *(f"{bucket.label} (n={bucket.count})" for bucket in buckets)), rows) + note


def by_length(group: Sequence[Any]) -> list[Bucket]:
    """The test by source length."""
    tables = [report.table("by_length") for report in reports_of(group)]
    seeds: list[Sequence[Any]] = [one.rows for one in tables if one is not None]
    return [
        Bucket(str(rows[0][0]), int(rows[0][1]), fmean(float(row[2]) for row in rows))
        for rows in zip(*seeds, strict=True)
    ]


def value_of(buckets: Sequence[Bucket], label: str) -> str:
    """A bucket's figure."""
    return f"{next(bucket.value for bucket in buckets if bucket.label == label):.1f}"


def verdict(groups: Groups) -> str:
    """The effect of attention by source length, computed from the figures."""

    def size_of(name: str) -> str:
        millions = reports_of(groups[name])[0].info.parameters / 1e6
        return f"{groups[name][0]['config']['model']['hidden_size']} hidden units ({millions:.1f} M parameters)"

    without, attending = WITHOUT_ATTENTION, WITH_ATTENTION
    pairs = [
        (short, long)
        for short, long in zip(by_length(groups[without]), by_length(groups[attending]), strict=True)
        if short.count >= FEWEST
    ]
    times = [long.value / short.value for short, long in pairs if short.value and long.value]
    gains = ", ".join(f"{ratio:.2f} on {short.label}" for ratio, (short, _) in zip(times, pairs, strict=True))
    steady = all(first < second for first, second in pairwise(times))
    trend = "The gain grows with the length." if steady else "The gain does not grow steadily with the length."
    first, last = pairs[0][0].label, pairs[-1][0].label
    shares = [
        f"{title(name, group)} {100 * ratio:.0f} %"
        for name, group in groups.items()
        if not name.endswith(CONTROL) and (ratio := kept_of(by_length(group), first, last)) is not None
    ]
    return (
        f"{title(without, groups[without])} and {title(attending, groups[attending])} are GRUs with {size_of(without)} "
        f"and {size_of(attending)}. The second has a bidirectional encoder, and attends to the source at every step. "
        f"Ratio of its BLEU to that of the first: {gains} words. {trend}\n\n"
        f"BLEU on {last} words as a share of BLEU on {first} words: {', '.join(shares)}.\n"
    )


def kept_of(buckets: Sequence[Bucket], first: str, last: str) -> float | None:
    """BLEU on long sentences divided by BLEU on short ones."""
    values = {bucket.label: bucket.value for bucket in buckets}
    short, long = values[first], values[last]
    return long / short if short else None


def on_data(runs: Runs, data: str) -> Groups:
    """Every system on some data, in history order; of one model the plain run first."""
    models = list(TRANSLATION_MODELS)

    def position(name: str) -> tuple[int, bool]:
        model = groups[name][0]["config"]["model_name"]
        return models.index(model), name.removesuffix("_zh") != model

    groups = {
        name: group for name, group in seeds_by_name(runs).items() if report_of(group[0]["test"]).info.data == data
    }
    return {name: groups[name] for name in sorted(groups, key=position)}


def systems_of(runs: Runs, data: str) -> Groups:
    """The plain runs of each system on some data."""
    return {
        name: group for name, group in on_data(runs, data).items() if name.removesuffix("_zh") in TRANSLATION_MODELS
    }


def variants_of(runs: Runs, model: str) -> Groups:
    """Every run of a system on Multi30k, the plain one first."""
    return {name: group for name, group in on_data(runs, MULTI30K).items() if group[0]["config"]["model_name"] == model}


def about(groups: Groups) -> str:
    """Data, search and metric of a table."""
    test = reports_of(next(iter(groups.values())))[0]
    info, quality, chrf = test.info, bleu_metric(test), test.metric("chrf")
    assert chrf is not None
    return (
        f"{info.data}, {info.split}: {info.examples:,} sentences, {info.search}. {quality.title}: "
        f"`{quality.signature}`; {chrf.title}: `{chrf.signature}`. Perplexity is per token of the vocabulary.\n"
    )


def source_verdict(groups: Groups) -> str:
    """Whether RCTM uses its source: perplexity beside that of the same model without one."""
    perplexities = {
        name: fmean(figure_of(report, "perplexity") for report in reports_of(groups[name]))
        for name in ("rctm", "rctm_ngrams", "rctm_none")
        if name in groups
    }
    if "rctm_none" not in perplexities:
        return ""
    shares = ", ".join(
        f"{FORMS[name]} {value:.1f} ({value / perplexities['rctm_none']:.2f})" for name, value in perplexities.items()
    )
    return (
        f"Perplexity on the test, and as a share of that without a source: {shares}. In the paper, on other data: "
        "recurrent language model 178, RCTM I 143 (0.80), RCTM II 86 (0.48) (reported).\n"
    )


def reported(groups: Groups) -> str:
    """Published figures, beside ours where data and metric are the same."""
    rows = []
    for data, system, score, paper, ours in REPORTED:
        beside = over_seeds(bleu_of(groups[ours]), 2) if ours in groups else ""
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
    german, chinese = on_data(runs, MULTI30K), on_data(runs, TATOEBA)
    main = {name: group for name, group in german.items() if name in TRANSLATION_MODELS or name in MAIN}
    controls = {name: group for name, group in german.items() if name.startswith("bahdanau")}
    luong, lstmn = variants_of(runs, "luong"), variants_of(runs, "lstmn")
    speeds = [section for path in timings if (section := throughput(path))]
    commands = "".join(f"    {run['command']}\n" for run in every)
    parts = [
        TOP,
        "## Multi30k, English to German\n" + about(main) + "\n" + figures(main),
        "### BLEU by source length\n" + lengths(main),
        "### The effect of attention\n" + verdict(main),
        "### RCTM and its source\n" + source_verdict(main),
        *(["### RNNsearch with other alignments\n" + figures(controls)] if len(controls) > 1 else []),
        "### Luong's scores and alignments\n" + figures(luong) + "\n" + lengths(luong),
        "### LSTMN's two fusions\n" + figures(lstmn) + "\n" + lengths(lstmn),
        "### Published figures\nFrom the papers and pages named, not measured here.\n\n" + reported(german),
        "## Tatoeba, English to Chinese\n" + "\n".join([about(chinese), figures(chinese), lengths(chinese)]),
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
