"""What language models reach, as sections of docs/results.md: of results/language.json and results/generation*.json.

Runs of one system differ by their seed: figures are a mean and a standard deviation over them. What was not run is left
out. Only what others published is written here.
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
"""System, test perplexity on Penn Treebank, where it was published, and which of ours stands beside it."""

NANOGPT = {"tinyshakespeare": "1.4697", "tinyshakespeare_small": "1.88"}
"""Validation losses that https://github.com/karpathy/nanoGPT reports, by our recipe of the same sizes."""

Runs = dict[str, Any]


def sections(runs: Runs, timings: Sequence[Path]) -> list[str]:
    """What there is to say."""
    speeds = [found for path in timings if (found := throughput(path))]
    made = [treebank(runs), equal_systems(runs), spans(runs), shakespeare(runs)]
    return [
        *(section for section in made if section),
        *(["## Generation\nGPT-2 of random weights, greedy, with a cache.\n\n" + "\n".join(speeds)] if speeds else []),
    ]


def reports(runs: Sequence[Any], split: str) -> list[Report]:
    """The evaluations of some runs on a split, of those that have one."""
    return [report_of(run[split]) for run in runs if split in run]


def perplexity(runs: Sequence[Any], split: str) -> str:
    """Per word, over the seeds."""
    return over_seeds([figure_of(report, "perplexity") for report in reports(runs, split)], 2)


def on_treebank(runs: Runs, *, equal: bool) -> dict[str, list[Any]]:
    """The runs on Penn Treebank by system, in history order."""
    found = {
        name: group
        for name, group in seeds_by_name(runs).items()
        if group[0]["config"]["recipe"] == "ptb" and name.startswith(EQUAL) is equal and "test" in group[0]
    }
    order = list(LANGUAGE_MODELS)
    return dict(sorted(found.items(), key=lambda one: order.index(one[1][0]["config"]["model_name"])))


def title(runs: Sequence[Any]) -> str:
    """A system as people call it."""
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
    """Parameters; what was counted has none."""
    millions = report.info.parameters / 1e6
    return f"{millions:.2f} M" if millions else "counted"


def reading_of(report: Report) -> str:
    """How the text was read, which is how its perplexity was computed."""
    metric = report.metric("perplexity")
    assert metric is not None
    return metric.signature


def counts_of(report: Report) -> dict[str, Any]:
    """How much was predicted: tokens, words, characters, unknown words."""
    counts = report.table("counts")
    assert counts is not None
    return {column.name: cell for column, cell in zip(counts.columns, counts.rows[0], strict=True)}


def reach_rows(report: Report) -> Sequence[Any]:
    """A row an attention: its path, the share within each span, the mean distance, the number of queries."""
    distances = report.table("attention_distance")
    return () if distances is None else distances.rows


def mean_of(trained: Sequence[Any], key: str) -> str:
    """A whole number, where it was measured."""
    values = [one[key] for one in trained if one.get(key) is not None]
    return f"{sum(values) / len(values):,.0f}" if values else ""


def treebank(runs: Runs) -> str:
    """Every system as its recipe has it, and what others report."""
    groups = on_treebank(runs, equal=False)
    if not groups:
        return ""
    test = reports(next(iter(groups.values())), "test")[0]
    counts = counts_of(test)
    crops = {title(group): group for group in groups.values() if "test-crops" in group[0]}
    told = ", ".join(f"{name} {perplexity(group, 'test-crops')}" for name, group in crops.items())
    reading = (
        f" Read in {reading_of(reports(next(iter(crops.values())), 'test-crops')[0])}, the test: {told}."
        if crops
        else ""
    )
    others = {title(group): reading_of(reports(group, "test")[0]) for group in groups.values()}
    reading += "".join(f" {name}: {how}." for name, how in others.items() if how != reading_of(test))
    beside = [
        (system, score, f"<{paper}>" if paper else "", perplexity(groups[ours], "test") if ours in groups else "")
        for system, score, paper, ours in REPORTED
    ]
    return (
        f"## Penn Treebank\nPerplexity per word, exp(nats / words): all {counts['words']:,} words of the test "
        f"are predicted, each line's end and <unk> ({counts['unknown']:,}) among them; the text is read as "
        f"{reading_of(test)}, no word twice. Mean ± standard deviation over the seeds. `tokens/s`: of training, the "
        f"median.{reading}\n\n"
        f"{figures(groups)}\n### What others report on Penn Treebank\nNot measured here.\n\n"
        f"{table(('system', 'test', 'where', 'ours'), beside, left=3)}"
    )


def equal_systems(runs: Runs) -> str:
    """Those that Daniluk compared, at equal parameters."""
    groups = on_treebank(runs, equal=True)
    if not groups:
        return ""
    model = next(iter(groups.values()))[0]["config"]["model"]
    return (
        f"### At equal parameters\nOne layer, words of {model['embedding_size']}, dropout {model['dropout']}; the "
        f"hidden size of each was searched so that all have as many parameters; learned alike.\n\n" + figures(groups)
    )


def spans(runs: Runs) -> str:
    """How far back each attention looks, and what becomes of the claim."""
    groups = on_treebank(runs, equal=True) | on_treebank(runs, equal=False)
    rows, looks = [], 0
    for group in groups.values():
        found = [reach_rows(report)[0] for report in reports(group, "test") if len(reach_rows(report)) == 1]
        if found:
            looks = max(looks, *(row[-1] for row in found))
            shares = zip(*(row[1:-2] for row in found), strict=True)
            far = over_seeds([row[-2] for row in found], 1)
            rows.append((f"{title(group)}, last {reach_of(group)}", *(over_seeds(one, 3) for one in shares), far))
    if not rows:
        return ""
    window = attention_span.WINDOW
    rows.append(
        (f"uniform weights, last {window}", *(f"{span / window:.3f}" for span in SPANS), f"{(window + 1) / 2:.1f}")
    )
    head = ("attention", *(f"last {span}" for span in SPANS), "mean distance")
    note = f"The share of the weight on the last n words, over {looks:,} looks at the beginning of the test.\n\n"
    return "### How far back attention looks\n" + note + table(head, rows) + verdict(runs)


def reach_of(runs: Sequence[Any]) -> int:
    """How many words a system may look back at."""
    model = runs[0]["config"]["model"]
    return int(next(model[key] for key in ("window", "span", "context") if key in model))


def verdict(runs: Runs) -> str:
    """Of experiment G12, `regard experiment attention_span`, on these runs."""
    if len(attention_span.common_seeds(runs)) < attention_span.MIN_SEEDS:
        return ""
    found = attention_span.recorded(runs)
    told = "Holds on this text, trained so." if found.holds else "Does not hold on this text, trained so."
    return f"\nThe claim (Daniluk et al. 2017): {found.claim} **{told}** {found.verdict}\n"


def shakespeare(runs: Runs) -> str:
    """GPT letter by letter, beside nanoGPT."""
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
        "Validation loss in nats a character, the last tenth of the text. `crops`: pieces of the context's length laid "
        "end to end, each from the start, every character once (nanoGPT draws its crops at random); `carried`: the "
        "whole text read on. Reported by <https://github.com/karpathy/nanoGPT>, of which sizes and schedule are.\n\n"
    )
    return "## Tiny Shakespeare\n" + note + table(head, rows) if rows else ""
