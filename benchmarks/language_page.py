"""Sections of docs/results.md on language models, from results/language.json and results/generation*.json.

Figures are a mean and a standard deviation over the seeds of a system. Systems without a recorded run are left out. All
figures come from these files, except those that other projects published.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.markdown import figure_of, hardware, over_seeds, seeds_by_name, table, throughput
from regard.contracts.report import Report
from regard.experiments import attention_span
from regard.metrics import SPANS
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.tasks import report_of

EQUAL = "equal_"
CHENG, ZAREMBA = "https://arxiv.org/abs/1601.06733", "https://arxiv.org/abs/1409.2329"
REPORTED = (
    ("5-gram, Kneser-Ney", "141 (reported)", "https://arxiv.org/abs/1601.06733", "ngram"),
    ("RNN", "129 (reported)", CHENG, None),
    ("LSTM", "115 (reported)", CHENG, None),
    ("LSTMN, 1 layer of 300", "108 (reported)", CHENG, "lstmn"),
    ("LSTMN, 3 layers", "102 (reported)", CHENG, None),
    ("LSTM, medium", "82.7 (reported)", ZAREMBA, "lstm"),
    ("LSTM, large", "78.4 (reported)", ZAREMBA, None),
)
"""System, test perplexity on Penn Treebank, the source, and the system of ours to compare, or None."""

NANOGPT = {"tinyshakespeare": "1.4697", "tinyshakespeare_small": "1.88"}
"""Validation losses that https://github.com/karpathy/nanoGPT reports, by our recipe with the same sizes."""

Runs = dict[str, Any]


def sections(runs: Runs, timings: Sequence[Path]) -> list[str]:
    """All sections that have figures."""
    speeds = [section for path in timings if (section := throughput(path))]
    texts = [treebank(runs), equal_systems(runs), spans(runs), shakespeare(runs)]
    return [
        *(text for text in texts if text),
        *(
            ["## Generation\nGPT-2 with random weights, greedy, with a cache.\n\n" + "\n".join(speeds)]
            if speeds
            else []
        ),
    ]


def reports(runs: Sequence[Any], split: str) -> list[Report]:
    """The evaluations on a split, of the runs that have one."""
    return [report_of(run[split]) for run in runs if split in run]


def perplexity(runs: Sequence[Any], split: str) -> str:
    """Per word, over the seeds."""
    return over_seeds([figure_of(report, "perplexity") for report in reports(runs, split)], 2)


def on_treebank(runs: Runs, *, equal: bool) -> dict[str, list[Any]]:
    """The runs on Penn Treebank by system, in history order."""
    systems = {
        name: group
        for name, group in seeds_by_name(runs).items()
        if group[0]["config"]["recipe"] == "ptb" and name.startswith(EQUAL) is equal and "test" in group[0]
    }
    order = list(LANGUAGE_MODELS)
    return dict(sorted(systems.items(), key=lambda one: order.index(one[1][0]["config"]["model_name"])))


def title(runs: Sequence[Any]) -> str:
    """The title of a system."""
    return LANGUAGE_MODELS[runs[0]["config"]["model_name"]].title


def figures(groups: dict[str, list[Any]]) -> str:
    """Quality, size and cost of each system."""
    rows = []
    for runs in groups.values():
        trained = [run["training"] for run in runs]
        rows.append(
            (
                title(runs),
                str(LANGUAGE_MODELS[runs[0]["config"]["model_name"]].year),
                size_of(reports(runs, "test")[0]),
                perplexity(runs, "validation"),
                f"**{perplexity(runs, 'test')}**",
                mean_of(trained, "epochs"),
                mean_of(trained, "tokens_per_second"),
                mean_of(trained, "seconds"),
                str(len(runs)),
            )
        )
    head = ("system", "year", "parameters", "validation", "test", "epochs", "tokens/s", "seconds", "seeds")
    return table(head, rows)


def size_of(report: Report) -> str:
    """Number of parameters; models of counts have none."""
    millions = report.info.parameters / 1e6
    return f"{millions:.2f} M" if millions else "counted"


def reading_of(report: Report) -> str:
    """How the text was cut for the perplexity: the metric's signature."""
    metric = report.metric("perplexity")
    assert metric is not None
    return metric.signature


def counts_of(report: Report) -> dict[str, Any]:
    """The number of predicted tokens, words, characters and unknown words."""
    counts = report.table("counts")
    assert counts is not None
    return {column.name: cell for column, cell in zip(counts.columns, counts.rows[0], strict=True)}


def reach_rows(report: Report) -> Sequence[Any]:
    """One row per attention: path, share within each span, mean distance, number of queries."""
    distances = report.table("attention_distance")
    return () if distances is None else distances.rows


def mean_of(trained: Sequence[Any], key: str) -> str:
    """The mean as a whole number; empty where it was not measured."""
    values = [one[key] for one in trained if one.get(key) is not None]
    return f"{sum(values) / len(values):,.0f}" if values else ""


def treebank(runs: Runs) -> str:
    """Every system with the settings of its recipe, and published figures."""
    groups = on_treebank(runs, equal=False)
    if not groups:
        return ""
    test = reports(next(iter(groups.values())), "test")[0]
    counts = counts_of(test)
    crops = {title(group): group for group in groups.values() if "test-crops" in group[0]}
    figures_of_crops = ", ".join(f"{name} {perplexity(group, 'test-crops')}" for name, group in crops.items())
    reading = (
        f" Test perplexity in {reading_of(reports(next(iter(crops.values())), 'test-crops')[0])}: {figures_of_crops}."
        if crops
        else ""
    )
    others = {title(group): reading_of(reports(group, "test")[0]) for group in groups.values()}
    reading += "".join(f" {name} was evaluated in {how}." for name, how in others.items() if how != reading_of(test))
    beside = [
        (system, score, f"<{paper}>" if paper else "", perplexity(groups[ours], "test") if ours in groups else "")
        for system, score, paper, ours in REPORTED
    ]
    return (
        f"## Penn Treebank\nPerplexity per word, exp(nats / words), over all {counts['words']:,} words of the test, "
        f"including line ends and <unk> ({counts['unknown']:,}); the text is {reading_of(test)}, and each word is "
        f"predicted once. Mean ± standard deviation over the seeds. `tokens/s`: median during training.{reading}\n\n"
        f"{figures(groups)}\n### Published figures for Penn Treebank\nNot measured here.\n\n"
        f"{table(('system', 'test', 'source', 'ours'), beside, left=3)}"
    )


def equal_systems(runs: Runs) -> str:
    """The systems that Daniluk et al. compared, with equal numbers of parameters."""
    groups = on_treebank(runs, equal=True)
    if not groups:
        return ""
    model = next(iter(groups.values()))[0]["config"]["model"]
    return (
        f"### At equal parameters\nOne layer, embeddings of size {model['embedding_size']}, dropout "
        f"{model['dropout']}. Hidden sizes were chosen for equal numbers of parameters; all other settings are "
        "equal.\n\n" + figures(groups)
    )


def spans(runs: Runs) -> str:
    """How far back each attention reaches, and the verdict on the claim."""
    groups = on_treebank(runs, equal=True) | on_treebank(runs, equal=False)
    rows, num_queries = [], 0
    for group in groups.values():
        reaches = [reach_rows(report)[0] for report in reports(group, "test") if len(reach_rows(report)) == 1]
        if reaches:
            num_queries = max(num_queries, *(row[-1] for row in reaches))
            shares = zip(*(row[1:-2] for row in reaches), strict=True)
            far = over_seeds([row[-2] for row in reaches], 1)
            rows.append((f"{title(group)}, last {reach_of(group)}", *(over_seeds(one, 3) for one in shares), far))
    if not rows:
        return ""
    window = attention_span.WINDOW
    rows.append(
        (f"uniform weights, last {window}", *(f"{span / window:.3f}" for span in SPANS), f"{(window + 1) / 2:.1f}")
    )
    head = ("attention", *(f"last {span}" for span in SPANS), "mean distance")
    note = f"Share of the weight on the last n words, over the first {num_queries:,} queries of the test.\n\n"
    return "### How far back attention reaches\n" + note + table(head, rows) + verdict(runs)


def reach_of(runs: Sequence[Any]) -> int:
    """The number of previous words that a system may attend to."""
    model = runs[0]["config"]["model"]
    return int(next(model[key] for key in ("window", "span", "context") if key in model))


def verdict(runs: Runs) -> str:
    """The verdict of `regard experiment attention-span` on these runs."""
    if len(attention_span.common_seeds(runs)) < attention_span.MIN_SEEDS:
        return ""
    finding = attention_span.finding_of(runs)
    holds = "Holds" if finding.holds else "Does not hold"
    return (
        f"\nThe claim (Daniluk et al. 2017): {finding.claim.en} **{holds} on this text with this training.** "
        f"{finding.verdict.en}\n"
    )


def shakespeare(runs: Runs) -> str:
    """GPT on characters, beside nanoGPT."""
    rows = []
    for group in seeds_by_name(runs).values():
        config, crops = group[0]["config"], reports(group, "validation-crops")
        if config["recipe"] not in NANOGPT or not crops:
            continue
        model = config["model"]
        rows.append(
            (
                f"{title(group)}, {model['num_layers']} x {model['hidden_size']}, context {model['context']}",
                size_of(crops[0]),
                f"**{over_seeds([figure_of(report, 'loss') for report in crops], 4)}**",
                over_seeds([figure_of(report, "loss") for report in reports(group, "validation")], 4),
                f"{NANOGPT[config['recipe']]} (reported)",
                f"{group[0]['training']['steps']:,}",
                mean_of([run["training"] for run in group], "seconds"),
                hardware(group[0]["machine"]),
                str(len(group)),
            )
        )
    head = ("system", "parameters", "crops", "carried", "nanoGPT", "steps", "seconds", "hardware", "seeds")
    note = (
        "Validation loss in nats per character, on the last tenth of the text. `crops`: consecutive segments of the "
        "context's length, each from the start, every character once (nanoGPT draws its crops at random); `carried`: "
        "the text as one stream. Sizes and schedule are those of <https://github.com/karpathy/nanoGPT>, which reports "
        "the figures of that column.\n\n"
    )
    return "## Tiny Shakespeare\n" + note + table(head, rows) if rows else ""
