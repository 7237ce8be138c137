"""The page of results: docs/results.md out of results/{systems,language,sentences}.json and files of timings.

    python -m benchmarks.results_page

What is here is of translation; language_page and sentences_page have the rest, as far as it was run. Every figure of
ours is read from those files; only what others published is written here.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import language_page, sentences_page
from benchmarks.harness import RESULTS
from benchmarks.markdown import figure_of, machines, table, throughput
from regard.contracts.report import Metric, Report
from regard.models.translation import TRANSLATION_MODELS
from regard.tasks import report_of

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
MULTI30K, TATOEBA = "multi30k en-de tok", "tatoeba en-zh"
FEWEST = 20
"""Sentences that a BLEU is worth printing of."""

ONE_VECTOR, LOOKING_BACK = "rnn_encoder_decoder", "bahdanau"
"""The same cell without attention and with it."""

GERMAN = "en-de, test 2016, tokenised lower-case"
REPORTED = (
    (GERMAN, "Transformer-Tiny", "41.02", "https://arxiv.org/abs/2105.14462", "transformer"),
    (GERMAN, "conditional GRU, additive attention", "38.1 ± 0.8", "https://arxiv.org/abs/1707.04481", "bahdanau"),
    (
        "de-en, the other way, and so not beside ours; tutorial sizes, greedy, lower-case",
        "Seq2Seq / RNN encoder-decoder / Bahdanau / ConvS2S / Transformer",
        "13.76 / 20.61 / 28.30 / 34.14 / 36.52",
        "https://github.com/bentrevett/pytorch-seq2seq",
        None,
    ),
)
"""Data, system, BLEU, where it was published, and which of ours stands beside it."""

TOP = """\
# Results: every system, one trainer

Written by `python -m benchmarks.results_page` from `benchmarks/results/`; no figure of ours is typed.

What to keep in mind:

- Settings were chosen by their figures on the validation set, among those that were tried.
- Translation has one seed each: how much of a difference is chance was not measured. Other tables say their seeds.
- Several trainings shared one GPU, so their seconds and tokens/s say what was spent and are not to be compared.
- Systems differ in size, as the tables show; their parameters were made equal only where a table says so.
"""


def title(name: str, runs: dict[str, Any]) -> str:
    """A system as people call it."""
    return TRANSLATION_MODELS[runs[name]["config"]["model_name"]].title


def named(name: str, runs: dict[str, Any]) -> str:
    """A run's name as people say it; a variant with what makes it one."""
    config = runs[name]["config"]
    called, model = title(name, runs), config["model"]
    if config["model_name"] == "luong":
        return f"{called}, {model['score']}, {model['alignment'].replace('_', ' ')}"
    return f"{called}, {model['fusion']} fusion" if config["model_name"] == "lstmn" else called


@dataclass(frozen=True)
class Bucket:
    """Sources of some lengths: how many, and BLEU."""

    label: str
    count: int
    value: float


def bleu_metric(report: Report) -> Metric:
    """The form of BLEU that the data are scored in."""
    metric = report.metric("bleu_tokenised") or report.metric("bleu")
    assert metric is not None
    return metric


def bleu_of(report: Report) -> float:
    """Its value."""
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


ATTENTION = {
    "rctm": ("none", "无"),
    "rnn_encoder_decoder": ("none", "无"),
    "seq2seq": ("none", "无"),
    "bahdanau": ("additive", "加性"),
    "luong": ("general", "general"),
    "lstmn": ("additive, also within each side", "加性，两侧内部也用"),
    "conv_seq2seq": ("dot, in every layer", "点积，每层都有"),
    "transformer": ("scaled dot, in every layer", "缩放点积，每层都有"),
}
"""The attention of each translator, in English and in Chinese."""
LONG = "21-30"
"""The bucket of long sources that the READMEs show."""


def short_rows(runs: dict[str, Any], *, chinese: bool = False) -> str:
    """The systems' BLEU as rows of the READMEs' table."""
    rows = []
    for name in systems_of(runs, MULTI30K):
        test = reports(runs[name])["test"]
        system = test.info.system
        long = next(bucket.value for bucket in by_length(runs[name]) if bucket.label == LONG)
        rows.append(
            f"| {title(name, runs)} | {TRANSLATION_MODELS[system].year} | {ATTENTION[system][chinese]} | "
            f"{bleu_of(test):.1f} | {long:.1f} | {test.info.parameters / 1e6:.1f} M |\n"
        )
    return "".join(rows)


def lengths(runs: dict[str, Any], names: Sequence[str]) -> str:
    """BLEU by the words of the source, where there are sentences enough."""
    buckets = [bucket for bucket in by_length(runs[names[0]]) if bucket.count >= FEWEST]
    rows = [
        (named(name, runs), *(value_of(by_length(runs[name]), bucket.label) for bucket in buckets)) for name in names
    ]
    left_out = [bucket for bucket in by_length(runs[names[0]]) if bucket.count < FEWEST]
    said = "".join(f" {bucket.count} of {bucket.label} words," for bucket in left_out).rstrip(",")
    note = f"\nToo few for a figure of their own:{said}.\n" if left_out else ""
    return table(("words", *(f"{bucket.label} (n={bucket.count})" for bucket in buckets)), rows) + note


def reports(run: dict[str, Any]) -> dict[str, Report]:
    """Both evaluations of a run."""
    return {split: report_of(run[split]) for split in ("validation", "test")}


def by_length(run: dict[str, Any]) -> list[Bucket]:
    """The test by length, of lengths that there are."""
    lengths = reports(run)["test"].table("by_length")
    rows: Sequence[Any] = lengths.rows if lengths is not None else ()
    return [Bucket(str(label), int(count), float(value)) for label, count, value in rows]


def value_of(buckets: Sequence[Bucket], label: str) -> str:
    """A bucket's figure."""
    return f"{next(bucket.value for bucket in buckets if bucket.label == label):.1f}"


def verdict(runs: dict[str, Any]) -> str:
    """What attention bought, by length, said from the figures."""
    without, having = (find(runs, name) for name in (ONE_VECTOR, LOOKING_BACK))

    def size_of(name: str) -> str:
        millions = reports(runs[name])["test"].info.parameters / 1e6
        return f"{runs[name]['config']['model']['hidden_size']} hidden units ({millions:.1f} M parameters)"

    pairs = [
        (short, long)
        for short, long in zip(by_length(runs[without]), by_length(runs[having]), strict=True)
        if short.count >= FEWEST
    ]
    times = [long.value / short.value for short, long in pairs if short.value and long.value]
    told = ", ".join(f"{ratio:.2f} on {short.label}" for ratio, (short, _) in zip(times, pairs, strict=True))
    steady = all(first < second for first, second in pairwise(times))
    trend = "The gain grows with the length." if steady else "The gain does not grow steadily with the length."
    first, last = pairs[0][0].label, pairs[-1][0].label
    kept = [
        f"{title(name, runs)} {100 * ratio:.0f} %"
        for name in systems_of(runs, MULTI30K)
        if (ratio := kept_of(by_length(runs[name]), first, last)) is not None
    ]
    worst = min(systems_of(runs, MULTI30K), key=lambda name: bleu_of(reports(runs[name])["test"]))
    return (
        f"{title(without, runs)} and {title(having, runs)} are both GRUs, of {size_of(without)} and {size_of(having)}. "
        f"The second reads the source both ways and looks back at it before every word. Its BLEU, in times that of the "
        f"first: {told} words. {trend}\n\n"
        f"How much of its BLEU on {first} words a system keeps on {last}: {', '.join(kept)}. "
        f"({title(worst, runs)} has little to lose: it scores {bleu_of(reports(runs[worst])['test']):.1f} in all.)\n"
    )


def kept_of(buckets: Sequence[Bucket], first: str, last: str) -> float | None:
    """The share of the quality on short sentences that is left on long ones."""
    values = {bucket.label: bucket.value for bucket in buckets}
    short, long = values[first], values[last]
    return long / short if short else None


def find(runs: dict[str, Any], name: str) -> str:
    """The run of a system, of whatever seed."""
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
        f"vocabulary. `step`: where the weights were taken (of an average, its last), of all that were trained.\n"
    )


def reported(runs: dict[str, Any]) -> str:
    """What others published, and ours beside it where the data and the metric are the same."""
    rows = []
    for data, system, score, paper, ours in REPORTED:
        beside = "" if ours is None else f"{bleu_of(reports(runs[find(runs, ours)])['test']):.2f}"
        rows.append((data, system, f"{score} (reported)", f"<{paper}>", beside))
    return table(("data", "system", "BLEU", "where", "ours"), rows, left=4)


def page(
    runs: dict[str, Any],
    timings: Sequence[Path],
    *,
    language: dict[str, Any] | None = None,
    sentences: dict[str, Any] | None = None,
    generation: Sequence[Path] = (),
) -> str:
    """The whole page."""
    every = [*runs.values(), *(language or {}).values(), *(sentences or {}).values()]
    german, chinese = systems_of(runs, MULTI30K), systems_of(runs, TATOEBA)
    luong, lstmn = variants_of(runs, "luong"), variants_of(runs, "lstmn")
    speeds = [found for path in timings if (found := throughput(path))]
    commands = "".join(f"    {run['command']}\n" for run in every)
    parts = [
        TOP,
        "## Multi30k, English to German\n" + about(runs, german) + "\n" + figures(runs, german),
        "### By the length of the source\n" + lengths(runs, german),
        "### What attention bought\n" + verdict(runs),
        "### Luong's scores and alignments\n" + figures(runs, luong) + "\n" + lengths(runs, luong),
        "### LSTMN's two fusions\n" + figures(runs, lstmn) + "\n" + lengths(runs, lstmn),
        "### What others report\nFrom their papers and pages, not measured here.\n\n" + reported(runs),
        "## Tatoeba, English to Chinese\n"
        + "\n".join([about(runs, chinese), figures(runs, chinese), lengths(runs, chinese)]),
        *(["## Throughput\n" + "\n".join(speeds)] if speeds else []),
        *language_page.sections(language or {}, generation),
        *sentences_page.sections(sentences or {}),
        "## Again\nMachines:\n\n" + machines(every) + "\nThe commands (`<folder>` holds the sets by their names, such "
        "as `multi30k/`; each run's whole config is in `benchmarks/results/`):\n\n" + commands,
    ]
    return "\n".join(parts)


def whole() -> str:
    """The page of all that was recorded."""
    systems, language, sentences = (recorded(name) for name in ("systems", "language", "sentences"))
    generation = sorted(RESULTS.glob("generation*.json"))
    return page(systems, timing_files(), language=language, sentences=sentences, generation=generation)


def recorded(name: str) -> dict[str, Any]:
    """The runs of a suite, where there are any."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def timing_files() -> list[Path]:
    """What was measured of training and decoding, where it was."""
    return sorted(RESULTS.glob("translation_*.json"))


def main() -> None:
    """Write the page."""
    PAGE.write_text(whole(), encoding="utf-8")


if __name__ == "__main__":
    main()
